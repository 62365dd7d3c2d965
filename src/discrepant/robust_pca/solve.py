"""Solve robust PCA: exactly if an exact decomposition exists, otherwise with noise.

The questions, cheapest first; the first answer ends the solve (see `_strategies`):

1. *Large?* Solve a sample of the rows, and extend its result to all rows.
2. *Clean?* Test whether the data have low rank as they are, without corruption.
3. *Exact?* Solve the convex program as long as its result promises to be exact; pursue
   an exact fit; and, if the fit with noise leaves doubts, search by empirical Bayes.
   The last two return only what more entries confirm than are needed.
4. *Noise?* Fit low rank, corruption and noise. If that fit leaves doubts, fit again
   from where the pursuit ended, and take the shorter description.
5. *Nothing?* The doubts about the result are attached to it as warnings.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, subrange
from discrepant.core.recorder import Recorder
from discrepant.core.validation import check_square
from discrepant.paper.alpha import alpha_from_entries
from discrepant.robust_pca.dask.rows import DaskRows
from discrepant.robust_pca.doubts import Doubt
from discrepant.robust_pca.exact.integrator import integrate
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.exact.uncorrupted import regress_unconfirmed, uncorrupted_fit
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
    run = _prepare(rows, settings, start, report)
    result = _first_result(run, _strategies(run))
    if isinstance(result, ExactResult):
        return replace(result, requested=run.user_wants_convex_program)
    if run.noise is None:
        return with_row_model(result, settings.fdr, run.rng)
    return result


@dataclass(frozen=True)
class _Run:
    """The problem of one solve, and what its strategies share."""

    program: ConvexProblem
    settings: SolverSettings
    start: MatrixFit | None  # an earlier result
    noise: Array | None  # given noise of each column; None: it is estimated
    rng: np.random.Generator
    log: Recorder

    @property
    def noise_is_zero(self) -> bool:
        """Whether the user excludes noise."""
        return self.noise is not None and not self.noise.any()

    @property
    def user_wants_convex_program(self) -> bool:
        """Whether noise=0, an α of the user's own or polish=False asks for it."""
        if self.noise is not None:
            return self.noise_is_zero
        return not self.program_is_free and self.settings.noise == "auto"

    @property
    def program_is_free(self) -> bool:
        """Whether any exact decomposition will do, whatever its α."""
        return self.settings.polish and not self.settings.alpha_is_given

    @property
    def exact_start(self) -> ExactResult | None:
        """The earlier result, if the convex program can start from it."""
        return self.start if isinstance(self.start, ExactResult) else None

    @property
    def is_too_narrow_for_noise(self) -> bool:
        """Whether there are too few rows or columns to tell noise from signal."""
        return self.noise is None and min(self.program.rows.shape) < MIN_LINES

    def new_recorder(self) -> Recorder:
        """Return an empty recorder with the full budget of passes."""
        return Recorder(self.log.report, self.log.tol, self.log.max_iter)


# A strategy returns None if it does not succeed, and the next one is tried.
Strategy = Callable[[_Run], MatrixFit | None]


def _strategies(run: _Run) -> Iterator[Strategy]:
    """Yield the strategies that apply, in their order; the last always succeeds."""
    rows, is_free = run.program.rows, run.program_is_free
    if run.start is not None:
        yield _continue_from_start
    elif is_free and not run.settings.psd:
        yield _solve_row_sample
    if isinstance(rows, DaskRows):
        needs_memory = run.settings.psd or not is_free or run.noise_is_zero
        yield _solve_in_memory if needs_memory or rows.fits_in_memory else _fit_noisy
    else:
        yield from _strategies_for_all_rows(run)


def _strategies_for_all_rows(run: _Run) -> Iterator[Strategy]:
    """Yield the strategies for data in memory, without a sample of their rows."""
    noise_is_given = run.noise is not None and not run.noise_is_zero
    if run.program_is_free and not noise_is_given:
        yield _solve_uncorrupted
    if run.user_wants_convex_program or run.is_too_narrow_for_noise:
        yield _convex_optimum
    elif noise_is_given:
        yield _fit_noisy
    else:
        yield _separate


def _first_result(run: _Run, strategies: Iterator[Strategy]) -> MatrixFit:
    """Return the result of the first strategy that succeeds."""
    results = (strategy(run) for strategy in strategies)
    return next(result for result in results if result is not None)


def _prepare(
    rows: Rows, settings: SolverSettings, start: MatrixFit | None, report: Report
) -> _Run:
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
    return _Run(program, settings, start, noise, rng, log)


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


# -- a sample of the rows, or an earlier result ------------------------------------


def _solve_row_sample(run: _Run) -> MatrixFit | None:
    """Solve a sample of the rows and extend it to all."""
    rows, noise = run.program.rows, run.noise
    which = None if rows.n < MIN_LINES else choose_sample_rows(rows, run.rng)
    if which is None:
        return None
    if noise is not None and rows.transposed:
        if np.ptp(noise):  # the sampled rows are the caller's columns: they differ
            return None
        noise = noise[which]
    sample = _problem(take_rows(rows, which), run.settings)
    report = subrange(run.log.report, 0, SAMPLE_PROGRESS)
    log = Recorder(report, run.log.tol, run.log.max_iter)
    sample_run = replace(run, program=sample, noise=noise, log=log)
    if not run.noise_is_zero:
        strategies = _strategies_for_all_rows(sample_run)
        return _extend(run, _first_result(sample_run, strategies))
    uncorrupted = uncorrupted_fit(sample, log)
    if uncorrupted is not None and uncorrupted.confirmed:
        return _extend(run, uncorrupted.result)
    return _extend(run, _exact_attempt(sample_run))


def _continue_from_start(run: _Run) -> MatrixFit | None:
    """Extend an earlier result of data of the same shape, or of other blocks."""
    start = run.start
    assert start is not None
    if not isinstance(run.program.rows, DaskRows):
        if isinstance(start, ExactResult) or run.settings.psd or run.noise_is_zero:
            return None
        if run.noise is not None:
            start = replace(start, noise=run.noise)
    return _extend(run, start)


def _extend(run: _Run, fit: MatrixFit) -> MatrixFit | None:
    """Extend the result of some rows to all; None if it does not fit the others."""
    if not fit.status.converged:
        return None
    if isinstance(fit, ExactResult):
        if not fit.polished:
            return None
        return extend_exact_fit(run.program, fit, run.rng, run.log)
    start = extend_noisy_fit(run.program, fit, run.rng)
    return None if start is None else _continue_noisy(run, start)


def _continue_noisy(run: _Run, start: NoisyStart) -> NoisyResult | None:
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


def _solve_in_memory(run: _Run) -> MatrixFit:
    """Solve Dask rows that a sample does not represent in memory."""
    rows = run.program.rows
    assert isinstance(rows, DaskRows)
    program = replace(run.program, rows=rows.gather())
    run = replace(run, program=program, start=None)
    return _first_result(run, _strategies_for_all_rows(run))


# -- all rows ----------------------------------------------------------------------


def _solve_uncorrupted(run: _Run) -> MatrixFit | None:
    """Return the data as their own low-rank part, unless a sparser fit is at hand."""
    uncorrupted = uncorrupted_fit(run.program, run.new_recorder())
    if uncorrupted is None or uncorrupted.confirmed:
        return None if uncorrupted is None else uncorrupted.result
    sparser = regress_unconfirmed(run.program, uncorrupted, run.new_recorder())
    if sparser is not None:
        return sparser
    # An exact fit is at hand: only the quick methods look for a sparser one.
    fast = replace(run, settings=replace(run.settings, effort="fast"))
    *_, strategy = _strategies_for_all_rows(fast)
    result = strategy(fast)
    assert result is not None
    if isinstance(result, ExactResult) and not uncorrupted.beats(result):
        return result
    if run.log.stopped:
        return result
    in_rows, in_columns = uncorrupted.unconfirmed
    where = f" in {in_rows} rows and {in_columns} columns that no others confirm"
    guess = Doubt.UNDETERMINED.warning(where=where)
    return replace(uncorrupted.result, doubts=(guess,))


def _separate(run: _Run) -> MatrixFit:
    """Return an exact decomposition, or else the best fit with noise."""
    exact_attempt = _exact_attempt(run)
    large = run.program.rows.size > MAX_ENTRIES
    if exact_attempt.status.converged or run.log.stopped or (large and run.log.ended):
        return exact_attempt
    run = replace(run, program=exact_attempt.program)  # with its clipping bound
    return _fit_noisy(run) if large else _compare_fits(run, exact_attempt)


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
    restarted = None if start is None else _continue_noisy(fresh, start)
    if restarted is not None and restarted.status.converged:
        noisy = fits.shorter(noisy, restarted)
    return replace(noisy, doubts=(*noisy.doubts, *fits.doubts(noisy)))


def _exact_attempt(run: _Run) -> ExactResult:
    """Solve the convex program as long as the result promises to be exact."""
    return integrate(
        run.program,
        tol=run.log.tol,
        exact_only=True,
        rng=run.rng,
        warm=run.exact_start,
        log=run.log,
    )


def _convex_optimum(run: _Run) -> ExactResult:
    """Solve the convex program without noise."""
    program, log = run.program, run.log
    result = integrate(
        program,
        tol=log.tol,
        polish=run.settings.polish,
        rng=run.rng,
        warm=run.exact_start,
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
