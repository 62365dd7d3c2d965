"""One matrix, one answer: the exact solution where there is one, else a noisy fit."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, subrange
from discrepant.core.validation import check_square, quote
from discrepant.paper.alpha import alpha_from_entries
from discrepant.robust_pca.dask.cluster import ClusterError
from discrepant.robust_pca.dask.rows import DaskRows
from discrepant.robust_pca.exact.integrator import HIGH_RANK, integrate
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.exact.uncorrupted import uncorrupted_fit
from discrepant.robust_pca.noisy.result import NoisyResult
from discrepant.robust_pca.noisy.solve import OPTIMAL_GAP, continue_noisy_fit, fit_noisy
from discrepant.robust_pca.problem import ConvexProblem, DataScale
from discrepant.robust_pca.proven_fit import SMALL, Pursuit
from discrepant.robust_pca.recorder import Recorder
from discrepant.robust_pca.row_sample import exact_from, rows_of, sample_of, start_from
from discrepant.robust_pca.rows.rows import Rows

SAMPLE = 0.3  # of the work, as progress counts it, that a sample takes
LEAST_LINES = 4  # rows and columns, to tell noise from signal


@dataclass(frozen=True)
class Settings:
    """What is asked of a solve; as for `RobustPCA`."""

    alpha: float | str = "auto"
    psd: bool = False
    noise: Any = "auto"
    fdr: float = 0.01
    tol: float = 1e-7
    max_iter: int = 500
    polish: bool = True
    random_state: Any = None


def solve(
    rows: Rows,
    settings: Settings,
    warm: ExactResult | NoisyResult | None = None,
    report: Report = lambda share, note: True,
) -> ExactResult | NoisyResult:
    """Split a matrix, told no more than the settings say."""
    check_square(rows.shape, settings.psd)
    sigma = _told_noise(settings.noise, rows.shape[1])
    program = _program(rows, settings)
    if sigma is not None and sigma.any():
        _check_told(sigma, program.scale.bound, float(np.finfo(rows.dtype).eps))
    rng = np.random.default_rng(settings.random_state)
    log = _log(rows, settings, report)
    if warm is None:
        found = _by_sample(program, settings, sigma, rng, log)
    elif isinstance(rows, DaskRows):
        found = _from_known(program, settings, sigma, warm, rng, log)
    else:
        found = _warm(program, settings, sigma, warm, rng, log)
    if found is None and isinstance(rows, DaskRows):
        found = _beyond_sample(program, rows, settings, sigma, rng, log)
    elif found is None:
        found = _whole(program, settings, sigma, warm, rng, log)
    return found


def _program(rows: Rows, settings: Settings) -> ConvexProblem:
    """Look at the data once, and say what is to be solved."""
    with rows:
        scale = DataScale.of(rows)
    if scale.observed == 0:
        raise InputError("All values are missing; at least one must be observed.")
    if isinstance(settings.alpha, str):
        share = scale.observed / rows.size
        alpha = alpha_from_entries(rows.shape, rows.entries, settings.psd, share)
    else:
        alpha = float(settings.alpha)
    return ConvexProblem(rows, scale, 1 / alpha, settings.psd)


def _log(rows: Rows, settings: Settings, report: Report) -> Recorder:
    tol = max(settings.tol, 20 * float(np.finfo(rows.dtype).eps))
    return Recorder(report, tol, settings.max_iter)


def _whole(
    program: ConvexProblem,
    settings: Settings,
    sigma: Array | None,
    warm: ExactResult | NoisyResult | None,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | NoisyResult:
    """Solve in passes over all of the data from the start."""
    rows, told = program.rows, not isinstance(settings.alpha, str)
    # With an α or a λ of the user's own it is the convex program that is asked for, and
    # of three rows or columns nobody can tell what is noise.
    untold = isinstance(settings.noise, str)
    convex = untold and settings.noise == "auto" and (told or not settings.polish)
    convex = convex or (untold and min(rows.shape) < LEAST_LINES)
    exactly = sigma is None or not sigma.any()
    as_it_is = None
    if exactly and settings.polish and not told:
        as_it_is = uncorrupted_fit(program, _log(rows, settings, log.report))
    if as_it_is is not None and as_it_is.confirmed:
        return as_it_is.result
    found = _split(program, settings, sigma, convex, warm, rng, log)
    if as_it_is is None or log.stopped:
        return found
    if isinstance(found, ExactResult) and not as_it_is.beats(found):
        return found
    return as_it_is.result


def _split(
    program: ConvexProblem,
    settings: Settings,
    sigma: Array | None,
    convex: bool,
    warm: ExactResult | NoisyResult | None,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | NoisyResult:
    """Solve the convex program, or fit the noise, or find out which is right."""
    rows, told = program.rows, not isinstance(settings.alpha, str)
    if convex or (sigma is not None and not sigma.any()):
        return _exact(program, settings, told, warm, rng, log)
    if sigma is not None:
        return _noisy(program, settings, sigma, rng, log)
    first = integrate(
        program,
        tol=log.tol,
        exact_only=True,
        rng=rng,
        warm=warm if isinstance(warm, ExactResult) else None,
        log=log,
    )
    if first.status.converged or log.ended:
        return first
    pursuit = None
    if max(rows.shape) <= SMALL and min(rows.shape) >= LEAST_LINES:
        pursuit = Pursuit(first, settings.fdr, rng, _log(rows, settings, log.report))
        exact_fit = pursuit.exact()
        if exact_fit is not None:
            return exact_fit
    found = _noisy(first.program, settings, None, rng, log, first)
    if isinstance(found, ExactResult):
        return found
    if pursuit is not None and not pursuit.agrees(found):
        return _second_opinion(first, pursuit, found, settings, rng, log)
    if found.settled:
        return found
    # There is next to no noise, or the fit went in circles: perhaps it is exact.
    again = _log(rows, settings, log.report)
    exact = integrate(
        first.program,
        tol=log.tol,
        exact_only=not found.rounding and found.status.converged,
        polish_attempts=6,
        rng=rng,
        warm=first,
        log=again,
    )
    low = exact.rank <= HIGH_RANK * rows.n
    return exact if exact.status.converged and low else found


def _second_opinion(
    first: ExactResult,
    pursuit: Pursuit,
    noisy: NoisyResult,
    settings: Settings,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | NoisyResult:
    """Try all else on a small matrix whose noise is large, and return the best."""
    again = _log(first.program.rows, settings, log.report)
    convex = integrate(first.program, tol=log.tol, rng=rng, warm=first, log=again)
    if again.stopped:
        return noisy
    exact = pursuit.proven(convex) or pursuit.more(convex)
    if exact is not None:
        return exact
    fits: list[ExactResult | NoisyResult] = [noisy, convex]
    if pursuit.rests and pursuit.rests[0].at.rank:
        other = continue_noisy_fit(
            first.program,
            pursuit.start(noisy),
            by_column=_by_column(settings),
            fdr=settings.fdr,
            rng=rng,
            log=_log(first.program.rows, settings, log.report),
        )
        fits += [other] if other is not None and other.status.converged else []
    return pursuit.best(fits)


def _by_sample(
    program: ConvexProblem,
    settings: Settings,
    sigma: Array | None,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | NoisyResult | None:
    """Solve a sample of the rows, and extend it to all; None if it does not carry."""
    if settings.psd or not settings.polish or not isinstance(settings.alpha, str):
        return None
    rows = program.rows
    which = None if rows.n < LEAST_LINES else sample_of(rows, rng)
    if which is None:
        return None
    if sigma is not None and rows.transposed:
        if np.ptp(sigma):  # that of the other rows would have to be told too
            return None
        sigma = sigma[which]
    small = _program(rows_of(rows, which), settings)
    watch = _log(rows, settings, subrange(log.report, 0, SAMPLE))
    plain = uncorrupted_fit(small, watch) if sigma is None or not sigma.any() else None
    if plain is not None and plain.confirmed:
        known: ExactResult | NoisyResult = plain.result
    elif sigma is not None and not sigma.any():
        known = integrate(small, tol=log.tol, exact_only=True, rng=rng, log=watch)
    else:
        known = _whole(small, settings, sigma, None, rng, watch)
    return _from_known(program, settings, sigma, known, rng, log)


def _from_known(
    program: ConvexProblem,
    settings: Settings,
    sigma: Array | None,
    known: ExactResult | NoisyResult,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | NoisyResult | None:
    """Extend what is known of some rows to all; None if they do not carry it."""
    if not known.status.converged:
        return None
    try:
        if isinstance(known, ExactResult):
            return exact_from(program, known, rng, log) if known.polished else None
        return _noisy_from(program, settings, known, sigma is not None, rng, log)
    except ClusterError as error:
        error.sample_result = known  # from which another fit may go on
        raise


def _beyond_sample(
    program: ConvexProblem,
    rows: DaskRows,
    settings: Settings,
    sigma: Array | None,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult | NoisyResult:
    """Solve what a sample does not carry: in memory, or in passes that keep nothing."""
    untold = settings.polish and isinstance(settings.alpha, str) and not settings.psd
    exact = sigma is not None and not sigma.any()
    if rows.fits_in_memory or exact or not untold:
        program = replace(program, rows=rows.gather())
        return _whole(program, settings, sigma, None, rng, log)
    return _noisy(program, settings, sigma, rng, log)


def _warm(
    program: ConvexProblem,
    settings: Settings,
    sigma: Array | None,
    warm: ExactResult | NoisyResult,
    rng: np.random.Generator,
    log: Recorder,
) -> NoisyResult | None:
    """Start a noisy fit from a noisy one of data of the same shape."""
    if isinstance(warm, ExactResult) or not warm.status.converged or settings.psd:
        return None
    if sigma is not None:
        if not sigma.any():
            return None
        warm = replace(warm, noise=sigma)
    return _noisy_from(program, settings, warm, sigma is not None, rng, log)


def _noisy_from(
    program: ConvexProblem,
    settings: Settings,
    known: NoisyResult,
    told: bool,
    rng: np.random.Generator,
    log: Recorder,
) -> NoisyResult | None:
    """Go on from a noisy fit of some rows, or of data of the same shape."""
    start = start_from(program, known, rng)
    if start is None:
        return None
    return continue_noisy_fit(
        program,
        start,
        noise_is_given=told,
        by_column=_by_column(settings),
        fdr=settings.fdr,
        rng=rng,
        log=log,
    )


def _told_noise(noise: Any, columns: int) -> Array | None:
    """Return the noise of each column where it is told, and None to find it."""
    if isinstance(noise, str):
        if noise not in ("auto", "column"):
            raise InputError(
                f'noise must be "auto", "column", or a number of zero or more, or one '
                f"for each column, got {quote(noise)}."
            )
        return None
    try:
        sigma = np.asarray(np.nan if isinstance(noise, bool) else noise, np.float64)
    except (TypeError, ValueError, OverflowError):
        sigma = np.full(0, np.nan)
    if sigma.ndim == 0:
        sigma = np.full(columns, sigma)
    if sigma.shape != (columns,):
        raise InputError(
            f"noise must be a number or one for each of the {columns} columns, got "
            f"{quote(noise)}."
        )
    if not (np.isfinite(sigma) & (sigma >= 0)).all():
        raise InputError(f"noise must be zero or more everywhere, got {quote(noise)}.")
    return sigma


def _check_told(sigma: Array, bound: float, eps: float) -> None:
    """Refuse noise that is none in some columns, or that the data cannot show."""
    if not (sigma > 0).all():
        raise InputError(
            "noise is zero for some columns and not for others; give every column a "
            "positive one, or noise=0 for a table without noise."
        )
    if (sigma < eps * bound).any():
        raise InputError(
            f"noise of {sigma.min():.3g} is below the rounding of entries of size "
            f"{bound:.3g}; pass noise=0 for a table without noise."
        )
    if (sigma * eps > bound).any():
        raise InputError(
            f"noise of {sigma.max():.3g} hides entries of size {bound:.3g} altogether; "
            "give it in the unit of the data."
        )


def _by_column(settings: Settings) -> bool | None:
    """Return whether each column is said to have its own noise; None: find out."""
    asked = isinstance(settings.noise, str) and settings.noise == "column"
    return True if asked else None


def _noisy(
    program: ConvexProblem,
    settings: Settings,
    sigma: Array | None,
    rng: np.random.Generator,
    log: Recorder,
    first: ExactResult | None = None,
) -> ExactResult | NoisyResult:
    return fit_noisy(
        program,
        sigma=sigma,
        by_column=_by_column(settings),
        fdr=settings.fdr,
        rng=rng,
        log=log,
        first=first,
    )


def _exact(
    program: ConvexProblem,
    settings: Settings,
    told: bool,
    warm: ExactResult | NoisyResult | None,
    rng: np.random.Generator,
    log: Recorder,
) -> ExactResult:
    """Solve the convex program without noise."""
    start = warm if isinstance(warm, ExactResult) else None
    found = integrate(
        program, tol=log.tol, polish=settings.polish, rng=rng, warm=start, log=log
    )
    # Told an α of the user's own, an exact splitting need not be the convex optimum
    # that this α asks for.
    if told and found.polished and found.certificate.gap > OPTIMAL_GAP:
        rng = np.random.default_rng(settings.random_state)
        again = Recorder(log.report, log.tol, log.max_iter)
        found = integrate(
            program, tol=log.tol, polish=False, rng=rng, warm=found, log=again
        )
    return found
