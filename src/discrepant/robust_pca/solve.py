"""Solve robust PCA: exactly if an exact decomposition exists, otherwise with noise.

The questions, cheapest first; the first that is answered ends the solve:

1. *Large?* Solve a sample of the rows, and extend its result to all rows.
2. *Clean?* Test whether the data have low rank as they are, without corruption.
3. *Exact?* Solve the convex program as long as its result promises to be exact; pursue
   an exact fit; and, if the fit with noise leaves doubts, search by empirical Bayes.
   The last two return only what more entries confirm than are needed.
4. *Noise?* Fit low rank, corruption and noise. If that fit leaves doubts, fit again
   from where the pursuit ended, and take the shorter description.
5. *Nothing?* The doubts about the result are attached to it as warnings.

A strategy that does not apply or does not succeed returns None, and the next one runs.
"""

from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, subrange
from discrepant.core.recorder import Recorder
from discrepant.core.validation import check_square
from discrepant.paper.alpha import alpha_from_entries
from discrepant.robust_pca.dask.rows import DaskRows
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.exact.uncorrupted import uncorrupted_fit
from discrepant.robust_pca.noisy.model import NoisyStart
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.noisy.solve import (
    continue_noisy_fit,
    fit_noisy,
    with_row_model,
)
from discrepant.robust_pca.problem import ConvexProblem, DataScale
from discrepant.robust_pca.row_sample import (
    choose_sample_rows,
    extend_exact_fit,
    extend_noisy_fit,
    take_rows,
)
from discrepant.robust_pca.rows.rows import Rows
from discrepant.robust_pca.search.entry_fits import (
    MAX_ENTRIES,
    MAX_UNDETERMINED,
    EntryFits,
    MatrixFit,
)
from discrepant.robust_pca.settings import (
    SolverSettings,
    check_noise_scale,
    parse_noise,
)

# Fraction of the progress bar that the solution of the row sample takes.
SAMPLE_PROGRESS = 0.3
# Rows and columns needed to distinguish noise from signal.
MIN_LINES = 4
# Duality gap up to which an exact decomposition counts as the optimum.
OPTIMAL_GAP = 1e-3
# Tolerance of the residual, in rounding errors of the data's type, at the least.
MIN_TOL_IN_EPS = 20


def solve(
    rows: Rows,
    settings: SolverSettings,
    start: MatrixFit | None = None,
    report: Report = lambda fraction, note: True,
) -> MatrixFit:
    """Split a matrix into a low-rank part, sparse corruption, and noise if any.

    Parameters
    ----------
    rows : Rows
        The data.
    settings : SolverSettings
        As for `RobustPCA`.
    start : ExactResult or NoisyResult, optional
        An earlier result from which a warm start continues.
    report : callable
        Receives (fraction done, note); returning False stops the solve.
    """
    run = _prepare(rows, settings, report)
    result = _solve(run, start)
    if run.noise is None and isinstance(result, NoisyResult):
        return with_row_model(result, settings.fdr, run.rng)
    if isinstance(result, ExactResult):
        return replace(result, requested=run.user_wants_convex_program)
    return result


def _solve(run: "_Run", start: MatrixFit | None) -> MatrixFit:
    """Try the strategies in their order."""
    rows = run.program.rows
    if start is None:
        result = _solve_row_sample(run)
    elif isinstance(rows, DaskRows):
        result = _extend(run, start)
    else:
        result = _continue_noisy(run, start)
    if result is not None:
        return result
    if isinstance(rows, DaskRows):
        return _solve_without_sample(run, rows)
    return _solve_all_rows(run, start)


@dataclass(frozen=True)
class _Run:
    """The problem of one solve, and what its strategies share."""

    program: ConvexProblem
    settings: SolverSettings
    noise: Array | None  # given noise of each column; None: it is estimated
    rng: np.random.Generator
    log: Recorder

    @property
    def noise_is_zero(self) -> bool:
        """Whether the user excludes noise."""
        return self.noise is not None and not self.noise.any()

    @property
    def may_be_exact(self) -> bool:
        """Whether a result without noise is admissible."""
        return self.noise is None or self.noise_is_zero

    @property
    def user_wants_convex_program(self) -> bool:
        """Whether noise=0, an α of the user's own or polish=False asks for it."""
        if self.noise is not None:
            return self.noise_is_zero
        own_program = self.settings.alpha_is_given or not self.settings.polish
        return own_program and self.settings.noise == "auto"

    @property
    def is_too_narrow_for_noise(self) -> bool:
        """Whether there are too few rows or columns to tell noise from signal."""
        return self.noise is None and min(self.program.rows.shape) < MIN_LINES

    def new_recorder(self) -> Recorder:
        """Return an empty recorder with the full budget of passes."""
        return Recorder(self.log.report, self.log.tol, self.log.max_iter)


def _prepare(rows: Rows, settings: SolverSettings, report: Report) -> _Run:
    """Validate the settings against the data, and describe the problem."""
    check_square(rows.shape, settings.psd)
    noise = parse_noise(settings.noise, rows.shape[1])
    program = _problem(rows, settings)
    eps = float(np.finfo(rows.dtype).eps)
    if noise is not None and noise.any():
        check_noise_scale(noise, program.scale.bound, eps)
    rng = np.random.default_rng(settings.random_state)
    tol = max(settings.tol, MIN_TOL_IN_EPS * eps)
    log = Recorder(report, tol, settings.max_iter)
    return _Run(program, settings, noise, rng, log)


def _problem(rows: Rows, settings: SolverSettings) -> ConvexProblem:
    """Scan the data once, and return the convex program for them."""
    with rows:
        scale = DataScale.of(rows)
    if scale.observed == 0:
        raise InputError("All values are missing; at least one must be observed.")
    if isinstance(settings.alpha, str):
        observed_fraction = scale.observed / rows.size
        alpha = alpha_from_entries(
            rows.shape, rows.entries, settings.psd, observed_fraction
        )
    else:
        alpha = float(settings.alpha)
    return ConvexProblem(rows, scale, 1 / alpha, settings.psd)


# -- a sample of the rows ----------------------------------------------------------


def _solve_row_sample(run: _Run) -> MatrixFit | None:
    """Solve a sample of the rows and extend it to all; None if that fails."""
    settings, rows, noise = run.settings, run.program.rows, run.noise
    if settings.psd or not settings.polish or settings.alpha_is_given:
        return None
    which = None if rows.n < MIN_LINES else choose_sample_rows(rows, run.rng)
    if which is None:
        return None
    if noise is not None and rows.transposed:
        if np.ptp(noise):  # the sampled rows are the caller's columns: they differ
            return None
        noise = noise[which]
    sample = _problem(take_rows(rows, which), settings)
    report = subrange(run.log.report, 0, SAMPLE_PROGRESS)
    log = Recorder(report, run.log.tol, run.log.max_iter)
    sample_run = replace(run, program=sample, noise=noise, log=log)
    uncorrupted = uncorrupted_fit(sample, log) if run.may_be_exact else None
    if uncorrupted is not None and uncorrupted.confirmed:
        sample_result: MatrixFit = uncorrupted.result
    elif run.noise_is_zero:
        sample_result = integrate(
            sample, tol=log.tol, exact_only=True, rng=run.rng, log=log
        )
    else:
        sample_result = _solve_all_rows(sample_run, None)
    return _extend(run, sample_result)


def _extend(run: _Run, sample_result: MatrixFit) -> MatrixFit | None:
    """Extend the result of some rows to all; None if it does not fit the others."""
    if not sample_result.status.converged:
        return None
    if isinstance(sample_result, NoisyResult):
        return _extend_noisy(run, sample_result)
    if not sample_result.polished:
        return None
    return extend_exact_fit(run.program, sample_result, run.rng, run.log)


def _continue_noisy(run: _Run, start: MatrixFit) -> NoisyResult | None:
    """Start a fit with noise from an earlier one of data of the same shape."""
    if isinstance(start, ExactResult) or not start.status.converged:
        return None
    if run.settings.psd or run.noise_is_zero:
        return None
    if run.noise is not None:
        start = replace(start, noise=run.noise)
    return _extend_noisy(run, start)


def _extend_noisy(run: _Run, sample_result: NoisyResult) -> NoisyResult | None:
    """Continue a fit with noise of some rows, or of data of the same shape."""
    start = extend_noisy_fit(run.program, sample_result, run.rng)
    if start is None:
        return None
    return _continue_from(run, start)


def _continue_from(run: _Run, start: NoisyStart) -> NoisyResult | None:
    """Fit with noise from a start; None if the data differ from it too much."""
    return continue_noisy_fit(
        run.program,
        start,
        noise_is_given=run.noise is not None,
        by_column=run.settings.noise_by_column,
        fdr=run.settings.fdr,
        rng=run.rng,
        log=run.log,
    )


def _solve_without_sample(run: _Run, rows: DaskRows) -> MatrixFit:
    """Solve Dask rows that a sample does not represent, in memory if they fit."""
    settings = run.settings
    needs_memory = settings.psd or not settings.polish or settings.alpha_is_given
    if rows.fits_in_memory or run.noise_is_zero or needs_memory:
        program = replace(run.program, rows=rows.gather())
        return _solve_all_rows(replace(run, program=program), None)
    return _fit_noisy(run)


# -- all rows ----------------------------------------------------------------------


def _solve_all_rows(run: _Run, start: MatrixFit | None) -> MatrixFit:
    """Solve in passes over all of the data."""
    uncorrupted = None
    if run.may_be_exact and run.settings.polish and not run.settings.alpha_is_given:
        uncorrupted = uncorrupted_fit(run.program, run.new_recorder())
    if uncorrupted is None:
        return _separate(run, start)
    if uncorrupted.confirmed:
        return uncorrupted.result
    # An exact fit is at hand: only the quick methods look for a sparser one.
    fast = replace(run, settings=replace(run.settings, effort="fast"))
    result = _separate(fast, start)
    if isinstance(result, ExactResult) and not uncorrupted.beats(result):
        return result
    return result if run.log.stopped else uncorrupted.result


def _separate(run: _Run, start: MatrixFit | None) -> MatrixFit:
    """Separate corruption: by the convex program, with noise, or whichever applies."""
    exact_start = start if isinstance(start, ExactResult) else None
    if run.user_wants_convex_program or run.is_too_narrow_for_noise:
        return _convex_optimum(run, exact_start)
    if run.noise is not None:
        return _fit_noisy(run)
    exact_attempt = integrate(
        run.program,
        tol=run.log.tol,
        exact_only=True,
        rng=run.rng,
        warm=exact_start,
        log=run.log,
    )
    large = run.program.rows.size > MAX_ENTRIES
    if exact_attempt.status.converged or run.log.stopped or (large and run.log.ended):
        return exact_attempt
    run = replace(run, program=exact_attempt.program)  # with its clipping bound
    if large:
        return _fit_noisy(run)
    return _compare_fits(run, exact_attempt)


def _compare_fits(run: _Run, exact_attempt: ExactResult) -> MatrixFit:
    """Return an exact fit if one is proven, else the fit with noise and its doubts."""
    fits = EntryFits(exact_attempt, run.settings.fdr, run.rng, run.new_recorder())
    exact = fits.by_pursuit()
    if exact is not None and fits.undetermined <= MAX_UNDETERMINED:
        return exact
    if run.log.ended:
        return exact_attempt
    noisy = _fit_noisy(run, fits)
    if isinstance(noisy, ExactResult) or run.log.stopped:
        return noisy
    if exact is None and fits.confirms(noisy):
        return noisy
    if run.settings.effort == "best":
        exact = fits.by_empirical_bayes() or exact
    if exact is not None:
        return exact
    start = fits.start_of_pursuit(noisy)
    fresh = replace(run, log=run.new_recorder())
    restarted = None if start is None else _continue_from(fresh, start)
    if restarted is not None and restarted.status.converged:
        noisy = fits.shorter(noisy, restarted)
    return replace(noisy, doubts=(*noisy.doubts, *fits.doubts(noisy)))


def _convex_optimum(run: _Run, start: ExactResult | None) -> ExactResult:
    """Solve the convex program without noise."""
    program, log = run.program, run.log
    result = integrate(
        program,
        tol=log.tol,
        polish=run.settings.polish,
        rng=run.rng,
        warm=start,
        log=log,
    )
    # An exact decomposition need not be the optimum for the user's own α.
    polished_for_user_alpha = run.settings.alpha_is_given and result.polished
    if polished_for_user_alpha and result.certificate.gap > OPTIMAL_GAP:
        result = integrate(
            program,
            tol=log.tol,
            polish=False,
            rng=np.random.default_rng(run.settings.random_state),
            warm=result,
            log=run.new_recorder(),
        )
    return result


def _fit_noisy(run: _Run, fits: EntryFits | None = None) -> MatrixFit:
    """Fit low rank, corruption and noise; exact if the noise vanishes."""
    return fit_noisy(
        run.program,
        sigma=run.noise,
        by_column=run.settings.noise_by_column,
        fdr=run.settings.fdr,
        rng=run.rng,
        log=run.log,
        prove=None if fits is None else fits.near,
    )
