"""Sample, solve, sweep: the row space from some rows, the other rows by regression.

A few hundred rows of a large matrix already determine its row space. So a sample of
them is solved as a problem by itself, which tells whether the splitting is exact, the
rank, the noise, and the row space. All other rows are then robust regressions on that
space, each by itself (`sweep.regression`), and the whole is looked at in very few
passes: one, if it is exact. Nothing of the size of the data is kept.

A direction that no row of the sample has cannot be found this way. The rows that do
have it do not fit, which is seen: then the sample does not carry, and None is handed
back.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Outcome, Status
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.polish import (
    clean_cutoff,
    clean_fit,
    polish,
    rounding_error,
)
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.exact.step import FIRST_MU, State
from discrepant.robust_pca.noisy.fit import MIN_COVERAGE
from discrepant.robust_pca.noisy.lines import LAGGING_FRACTION
from discrepant.robust_pca.noisy.model import NoisyStart
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.noisy.spectrum_edge import participation_ratio
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Recorder, Step
from discrepant.robust_pca.result import LowRankResult
from discrepant.robust_pca.row_regression import extended
from discrepant.robust_pca.rows.in_memory import ArrayRows
from discrepant.robust_pca.rows.rows import RowFits, Rows


@dataclass(frozen=True)
class Tuning:
    """Constants of the sample and of its extension."""

    # Rows of a sample: enough for a rank of a fifteenth of them, and for a noise and a
    # share of errors that are known to a per cent.
    rows: int = 300
    rows_per_column: float = 1 / 12
    entries: int = 1 << 18
    # Times the sample that the whole must be, or it takes no longer by itself.
    worth: float = 4.0
    # Residual of a row that may be rounding, over its size and its rounding.
    rounding: float = 1e4
    # Noise found over that of the start, at the most.
    louder: float = 1.5
    # Times the usual residual, beyond which a row does not fit.
    off: float = 3.0
    # Times μ of a first step: where the fast steps of an integration usually end.
    mu: float = 64.0


TUNING = Tuning()


def sample_of(rows: Rows, rng: np.random.Generator) -> Array | None:
    """Return random rows, one from each of equal parts of all; None if too many."""
    n = rows.n
    wanted = max(TUNING.rows + TUNING.rows_per_column * n, TUNING.entries / n)
    if rows.m < TUNING.worth * wanted:
        return None
    cuts = np.linspace(0, rows.m, int(wanted) + 1).astype(np.int64)
    return rng.integers(cuts[:-1], cuts[1:])


def rows_of(rows: Rows, which: Array) -> Rows:
    """Return some rows as data of their own, turned as the caller's are."""
    some = rows.take(which, 0).astype(rows.dtype)
    return ArrayRows(some.T if rows.transposed else some, n_jobs=rows.n_jobs)


def exact_from(
    program: ConvexProblem, small: ExactResult, rng: np.random.Generator, log: Recorder
) -> ExactResult | None:
    """Extend an exact splitting of some rows to all; None if they do not carry it."""
    rows = program.rows
    if not small.rank:
        return None
    basis = _row_space(rows, small)
    wrong = float(small.history["support"][-1])
    with rows:
        one = np.ones(rows.n)
        limit = TUNING.rounding * float(np.finfo(rows.dtype).eps)
        off = partial(_not_exact, limit=limit)
        fits = extended(program, basis, one, wrong, rng, 0.0, off)
        if off(fits).any():
            return None
        A, B = fits.coordinates, basis
        size = float(np.linalg.norm(A)) / np.sqrt(rows.size)
        error = rounding_error(program) * size
        zeta = clean_cutoff(error, max(wrong, 1 / rows.size) / size)
        found = clean_fit(program, A, B, zeta)
        relative = float(np.sqrt(found.square)) / found.norm
        rank = len(B.T)
        log.note(Step("sweep", relative, np.nan, rank, np.nan, found.support))
        if not found.covers_all_lines or log.ended:
            return None
        if found.error > error:
            better = polish(
                program,
                A,
                B,
                n_corrupt=found.support * program.scale.observed,
                norm_Y=found.norm,
                residual=relative,
                log=log,
            )
            if not better.exact:
                return None
            A, B, zeta = better.A, better.B, better.zeta
        U, V, s = svd_of_product(A, B)
        del A, fits  # m×r each: on file-backed data they are most of the memory
        # A direction of a few rows is a matter of the whole: it may be errors there.
        if _on_few(U) or program.wrongly_clipped((U, V * s)):
            return None
    mu = TUNING.mu * FIRST_MU / s[0]
    state = State(U, V * s, None, (U, V * s), mu, zeta, log.residual)
    status = Status(Outcome.EXACT, "converged: exact to rounding")
    return exact_result(program, state, status, log.history())


def start_from(
    program: ConvexProblem, known: NoisyResult, rng: np.random.Generator
) -> NoisyStart | None:
    """Extend a noisy fit of some rows, or of data like these; None if it fails.

    Where the rows of the blocks are the caller's columns, each with a noise of its own,
    that is read off their residual.
    """
    rows, unit = program.rows, program.unit
    # Where a few rows are much larger than the others, so is what is off in them.
    lines = known.components.T if rows.transposed else known.U
    if not known.rank or _on_few(lines):
        return None
    basis, wrong = _row_space(rows, known), 1 - known.mixture.clean
    sigma = known.noise.astype(np.float64) * unit
    if not sigma.all():
        return None
    own = not rows.transposed  # whether the noise goes with the columns of the blocks
    scale = 1 / sigma if own else np.ones(rows.n)
    even = np.ptp(sigma) <= 1e-6 * sigma[0]
    off = _off if own or even else _often_off
    noise = 1.0 if own else float(sigma[0]) if even else 0.0
    with rows:
        fits = extended(program, basis, scale, wrong, rng, noise, off)
    # A direction of fewer rows could not be told from errors in a fit of all either.
    if off(fits).mean() > MIN_COVERAGE:
        return None
    U, C = fits.coordinates, basis * scale[:, None]
    louder = float(np.median(fits.residual))
    if not own:
        louder /= float(np.median(sigma))
        if even:
            sigma = np.full(rows.m, sigma[0])
        elif len(sigma) != rows.m:
            usual = np.median(fits.residual)
            sigma = np.clip(fits.residual, usual / 100, 100 * usual)
        U = U / sigma[:, None]
    if louder > TUNING.louder:
        return None
    return NoisyStart(U, C, sigma, known.mixture)


def _on_few(U: Array) -> bool:
    """Whether a component sits on so few rows that it may be errors there."""
    return bool(U.size and participation_ratio(U).min() < MIN_COVERAGE * len(U))


def _row_space(rows: Rows, found: LowRankResult) -> Array:
    """Return an orthonormal basis (n, r), in the orientation of the blocks."""
    basis = found.U if rows.transposed else found.components.T
    return basis.astype(np.float64)


def _not_exact(fits: RowFits, limit: float) -> Array:
    """Return which rows do not fit to rounding; one without entries does."""
    size = np.linalg.norm(fits.coordinates, axis=1)
    size /= np.sqrt(np.maximum(fits.n_observed, 1))
    far = (fits.residual > limit * size) | (fits.n_clean == 0)
    return np.asarray(far & (fits.n_observed > 0))


def _often_off(fits: RowFits) -> Array:
    """Return which rows have too few clean cells, as in `LineState.lagging`."""
    seen = np.maximum(fits.n_observed, 1)
    common = fits.n_clean.sum() / seen.sum()
    chance = 4 * np.sqrt(common * (1 - common) / seen)
    far = fits.n_clean < seen * (common - np.maximum(LAGGING_FRACTION * common, chance))
    return np.asarray((far | (fits.n_clean == 0)) & (fits.n_observed > 0))


def _off(fits: RowFits) -> Array:
    """Return which rows do not fit, by their clean cells or by the size of the rest."""
    loud = fits.residual > TUNING.off * np.median(fits.residual)
    return np.asarray(_often_off(fits) | loud)
