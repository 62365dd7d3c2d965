"""Row sampling: the row space from a sample of rows, all other rows by regression.

A few hundred rows of a large matrix already determine its row space. A sample is solved
as a problem of its own. Its result says whether the decomposition is exact, and gives
the rank, the noise and the row space. Every other row is then a robust regression on
that space (`row_regression`). A few passes over all of the data check the result; one
is enough if it is exact. Nothing of the size of the data is kept.

A direction that occurs in no sampled row cannot be recovered this way. The rows that
have it do not fit, so this is detected: the functions below then return None.
"""

from functools import partial

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.polish import (
    clean_cutoff,
    covers_all_lines,
    polish,
    rounding_error,
)
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.exact.step import FIRST_MU, State
from discrepant.robust_pca.noisy.fit import MIN_COVERAGE
from discrepant.robust_pca.noisy.model import LAGGING_FRACTION, NoisyStart
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.noisy.spectrum_edge import participation_ratio
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import LowRankResult, Step
from discrepant.robust_pca.row_regression import regress_all_rows
from discrepant.robust_pca.rows.in_memory import ArrayRows
from discrepant.robust_pca.rows.passes import clean_residual
from discrepant.robust_pca.rows.rows import RowFits, Rows

# Rows of a sample: enough for a rank of a fifteenth of them, and to estimate the noise
# and the corrupt fraction to one per cent.
SAMPLE_ROWS = 300
# Rows of a sample in addition, per column of the data.
SAMPLE_ROWS_PER_COLUMN = 1 / 12
# Entries that a sample has at least, if the data have few columns.
SAMPLE_ENTRIES = 1 << 18
# Sample only if there are at least this many times as many rows as the sample would
# have; otherwise solving all rows takes no longer.
MIN_ROWS_PER_SAMPLE_ROW = 4.0
# A row fits exactly if its residual is below this many rounding errors of its size.
ROUNDING = 1e4
# Largest ratio of the noise of all rows to that of the sample.
MAX_NOISE_RATIO = 1.5
# A row does not fit if its residual is above this many times the median residual.
MAX_RESIDUAL_RATIO = 3.0
# μ of the extended state, in units of the first step: where fast steps usually end.
LAST_MU = 64.0
# Deviations from the common fraction of clean entries that occur by chance, in
# standard deviations.
CHANCE_DEVIATIONS = 4
# Columns have the same noise if it differs by less than this fraction.
SAME_NOISE = 1e-6
# The noise of a row may differ from the median by this factor; beyond it is clipped.
MAX_NOISE_SPREAD = 100


def choose_sample_rows(rows: Rows, rng: np.random.Generator) -> Array | None:
    """Return random rows, one from each of equal parts; None if sampling is no gain."""
    n = rows.n
    wanted = max(SAMPLE_ROWS + SAMPLE_ROWS_PER_COLUMN * n, SAMPLE_ENTRIES / n)
    if rows.m < MIN_ROWS_PER_SAMPLE_ROW * wanted:
        return None
    cuts = np.linspace(0, rows.m, int(wanted) + 1).astype(np.int64)
    return rng.integers(cuts[:-1], cuts[1:])


def take_rows(rows: Rows, which: Array) -> Rows:
    """Return some rows as data of their own, in the caller's orientation."""
    taken = rows.take(which, 0).astype(rows.dtype)
    return ArrayRows(taken.T if rows.transposed else taken, n_jobs=rows.n_jobs)


def extend_exact_fit(
    program: ConvexProblem,
    sample_result: ExactResult,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | None:
    """Extend an exact decomposition of some rows to all; None if others do not fit."""
    rows = program.rows
    if not sample_result.rank:
        return None
    basis = _row_space(rows, sample_result)
    corrupt_fraction = float(sample_result.history["support"][-1])
    with rows:
        limit = ROUNDING * float(np.finfo(rows.dtype).eps)
        fails = partial(_fails_to_rounding, limit=limit)
        fits = regress_all_rows(
            program, basis, np.ones(rows.n), corrupt_fraction, rng, 0.0, fails
        )
        if fails(fits).any():
            return None
        A, B = fits.coordinates, basis
        size = float(np.linalg.norm(A)) / np.sqrt(rows.size)
        error = rounding_error(program) * size
        zeta = clean_cutoff(error, max(corrupt_fraction, 1 / rows.size) / size)
        fit = clean_residual(rows, (A, B), unit=program.unit, zeta=zeta, products=False)
        observed, n_clean = program.scale.observed, float(fit.n_clean[0].sum())
        residual = float(np.sqrt(fit.square / fit.data_square))
        support = 1 - n_clean / observed
        log.note(Step("sweep", residual, np.nan, len(B.T), np.nan, support))
        if not covers_all_lines(program, fit) or log.ended:
            return None
        clean_error = float(np.sqrt(fit.square / n_clean))
        if clean_error > error:
            n_corrupt = observed - n_clean
            polished = polish(
                program, A, B, n_corrupt=n_corrupt, error=clean_error, log=log
            )
            if not polished.exact:
                return None
            A, B, zeta = polished.A, polished.B, polished.zeta
        U, V, s = svd_of_product(A, B)
        del A, fits  # m×r each: on file-backed data they are most of the memory
        # A component of a few rows may consist of errors: only all rows decide that.
        if _is_localised(U) or program.wrongly_clipped((U, V * s)):
            return None
    mu = LAST_MU * FIRST_MU / s[0]
    state = State(U, V * s, None, (U, V * s), mu, zeta, log.residual)
    status = Status(Outcome.EXACT, "converged: exact to rounding")
    return exact_result(program, state, status, log.history())


def extend_noisy_fit(
    program: ConvexProblem, sample_result: NoisyResult, rng: np.random.Generator
) -> NoisyStart | None:
    """Extend a fit of some rows with noise to a start for all; None if it fails.

    The earlier fit may also be one of other data of the same shape. If the rows of the
    blocks are the caller's columns, each with its own noise, their noise is estimated
    from the residuals.
    """
    rows, unit = program.rows, program.unit
    # Where a few rows are much larger than the others, so are their errors.
    across_rows = sample_result.components.T if rows.transposed else sample_result.U
    if not sample_result.rank or _is_localised(across_rows):
        return None
    basis = _row_space(rows, sample_result)
    corrupt_fraction = 1 - sample_result.mixture.clean
    sigma = sample_result.noise.astype(np.float64) * unit
    if not sigma.all():
        return None
    # Whether the noise belongs to the columns of the blocks; otherwise to their rows.
    noise_by_block_column = not rows.transposed
    scale = 1 / sigma if noise_by_block_column else np.ones(rows.n)
    noise_is_uniform = np.ptp(sigma) <= SAME_NOISE * sigma[0]
    if noise_by_block_column:
        noise = 1.0
    else:
        noise = float(sigma[0]) if noise_is_uniform else 0.0
    comparable = noise_by_block_column or noise_is_uniform
    fails = _fails_by_residual if comparable else _fails_by_outlier_count
    with rows:
        fits = regress_all_rows(
            program, basis, scale, corrupt_fraction, rng, noise, fails
        )
    # Fewer rows than this would be classified as errors in a fit of all rows, too.
    if fails(fits).mean() > MIN_COVERAGE:
        return None
    U, C = fits.coordinates, basis * scale[:, None]
    noise_ratio = float(np.median(fits.residual))
    if not noise_by_block_column:
        noise_ratio /= float(np.median(sigma))
        if noise_is_uniform:
            sigma = np.full(rows.m, sigma[0])
        elif len(sigma) != rows.m:
            usual = np.median(fits.residual)
            sigma = np.clip(
                fits.residual, usual / MAX_NOISE_SPREAD, MAX_NOISE_SPREAD * usual
            )
        U = U / sigma[:, None]
    if noise_ratio > MAX_NOISE_RATIO:
        return None
    return NoisyStart(U, C, sigma, sample_result.mixture)


def _is_localised(U: Array) -> bool:
    """Whether a component covers so few rows that it may consist of errors."""
    return bool(U.size and participation_ratio(U).min() < MIN_COVERAGE * len(U))


def _row_space(rows: Rows, result: LowRankResult) -> Array:
    """Return an orthonormal basis (n, r), in the orientation of the blocks."""
    basis = result.U if rows.transposed else result.components.T
    return basis.astype(np.float64)


def _fails_to_rounding(fits: RowFits, limit: float) -> Array:
    """Return which rows do not fit to rounding; a row without entries fits."""
    size = np.linalg.norm(fits.coordinates, axis=1)
    size /= np.sqrt(np.maximum(fits.n_observed, 1))
    fails = (fits.residual > limit * size) | (fits.n_clean == 0)
    return np.asarray(fails & (fits.n_observed > 0))


def _fails_by_outlier_count(fits: RowFits) -> Array:
    """Return which rows have too few clean entries, as in `Model.lagging_lines`."""
    observed = np.maximum(fits.n_observed, 1)
    common = fits.n_clean.sum() / observed.sum()
    chance = CHANCE_DEVIATIONS * np.sqrt(common * (1 - common) / observed)
    margin = np.maximum(LAGGING_FRACTION * common, chance)
    fails = fits.n_clean < observed * (common - margin)
    return np.asarray((fails | (fits.n_clean == 0)) & (fits.n_observed > 0))


def _fails_by_residual(fits: RowFits) -> Array:
    """Return which rows have too few clean entries or too large a residual."""
    large = fits.residual > MAX_RESIDUAL_RATIO * np.median(fits.residual)
    return np.asarray(_fails_by_outlier_count(fits) | large)
