"""From data with noise on every entry to three parts."""

from dataclasses import replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.results import Outcome, Status
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.polish import polish
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.noisy.fit import NoisyFit
from discrepant.robust_pca.noisy.histogram import at_edges
from discrepant.robust_pca.noisy.mixture import fit_mixture, flagged_from, own_scales
from discrepant.robust_pca.noisy.model import Start
from discrepant.robust_pca.noisy.momentum import Pass
from discrepant.robust_pca.noisy.result import Cells, NoisyResult
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Recorder
from discrepant.robust_pca.rows import passes

TRUSTED = 1e-3  # gap up to which an exact splitting is taken for the convex optimum


def fit_noise(
    program: ConvexProblem,
    *,
    sigma: Array | None = None,
    by_column: bool | None = None,
    fdr: float = 0.01,
    rng: np.random.Generator,
    log: Recorder,
    first: ExactResult | None = None,
) -> NoisyResult | ExactResult:
    """Split the data of a program into a low-rank part, errors and noise.

    Where the noise vanishes as the fit gets better, the exact splitting is handed back.

    Parameters
    ----------
    program : Program
        The data, and λ for the certificate. Under `psd` the low-rank part is made
        symmetric and positive semidefinite.
    sigma : ndarray of shape (n_columns,), optional
        The noise of each column, where it is known.
    by_column : bool, optional
        Whether each column has noise of its own size; by default the data tell.
    fdr : float
        Share of the flagged cells that may be clean.
    rng, log
        As for `integrate`.
    first : Split, optional
        An attempt at an exact splitting, whose dual would serve it.
    """
    with program.rows:
        fit = NoisyFit(program, sigma, by_column, rng, log)
        last, done = fit.run(until_vanishing=first is not None)
        if first is not None and fit.vanishing(last):
            exact = _exactly(first, fit, last)
            if exact is not None:
                return exact
            if not (done or log.ended):
                last, done = fit.run()
        return _judged(fit, last, done, fdr)


def go_on(
    program: ConvexProblem,
    start: Start,
    *,
    told: bool = False,
    by_column: bool | None = None,
    fdr: float = 0.01,
    rng: np.random.Generator,
    log: Recorder,
) -> NoisyResult | None:
    """Fit the data of a program from a start on; None if they are not as it says.

    The noise of the start is told by the user, or to be found; the rest is as for
    `fit_noise`.
    """
    with program.rows:
        sigma = start.sigma / program.unit if told else None
        fit = NoisyFit(program, sigma, by_column, rng, log, start)
        last, done = fit.run()
        if done or log.ended:
            return _judged(fit, last, done, fdr)
    return None


def _exactly(first: ExactResult, fit: NoisyFit, last: Pass) -> ExactResult | None:
    """Finish a fit whose noise vanishes; None if it is not exact after all."""
    program, rows, log = first.program, first.program.rows, fit.log
    U, C = fit.model.factors()
    norm = float(np.sqrt(passes.multiply_data(rows, unit=program.unit).square))
    observed = program.scale.observed
    found = polish(
        program,
        U,
        C,
        n_corrupt=float(last.outside[0].sum()),
        norm_Y=norm,
        residual=10 * fit.noise_level(last) * np.sqrt(observed) / norm,
        log=log,
    )
    if not found.exact:
        return None
    U, V, s = svd_of_product(found.A, found.B)
    state = replace(first.state, U=U, C=V * s, zeta=found.zeta, residual=log.residual)
    status = Status(Outcome.EXACT, "converged: exact to rounding")
    exact = exact_result(program, state, status, log.history())
    # Of several exact splittings the convex optimum is wanted, and proof of it; where
    # errors are huge its rank says more than its value.
    best = exact.rank <= first.rank and exact.certificate.gap < TRUSTED
    return exact if best else None


def _judged(fit: NoisyFit, last: Pass, done: bool, fdr: float) -> NoisyResult:
    """Judge each cell as if it had been left out, and turn all to the caller's unit."""
    model, program, rows = fit.model, fit.model.program, fit.model.rows
    std = (1 / np.sqrt(1 - h) for h in model.leverages())
    columns = zip(model.inverse_noise(), std, strict=True)
    row, column = (np.array(side) for side in columns)
    left_out = passes.leave_one_out(
        rows,
        (model.U, model.C),
        unit=program.unit,
        line_values=(row, column),
        weights=fit.table,
        histogram_axis=model.own,
    )
    tau = 1.0 if last.mixture is None else last.mixture.tau
    mixture = fit_mixture(
        left_out.histogram, 1.0 if fit.told else tau, fit.degrees(), told=fit.told
    )
    ratio = np.full(len(model.sigma), mixture.tau)
    if fit.each and not fit.told:
        ratio = own_scales(left_out.line_histograms.T, mixture)
        ratio = fit.within_reason(ratio)
    cells = Cells(
        (row, column),
        (model.U, model.C),
        fit.table,
        at_edges(mixture.corrupt),
        flagged_from(left_out.histogram, mixture, fdr),
    )
    U, C = model.factors()
    left, right, s = svd_of_product(U, C) if model.rank else (U, C, np.zeros(0))
    if program.psd and len(s):
        left, right, s = _positive(left, right, s)
    left, right = rows.swap_factors(left, right)
    if not done:
        sentence = fit.log.end
    elif fit.rounding(last):
        sentence = "converged: nothing but rounding is left"
    else:
        sentence = "converged: fitted at the level of the noise"
    return NoisyResult(
        U=left.astype(rows.dtype),
        singular_values=(s / program.unit).astype(rows.dtype),
        components=np.ascontiguousarray(right.T, rows.dtype),
        noise=(model.sigma * ratio / program.unit).astype(rows.dtype),
        mixture=mixture,
        status=Status(Outcome.NOISE_LEVEL if done else fit.log.outcome, sentence),
        history=fit.log.history(),
        settled=done and not fit.small(last),
        rounding=fit.rounding(last),
        program=program,
        cells=cells,
    )


def _positive(U: Array, V: Array, s: Array) -> tuple[Array, Array, Array]:
    """Return the symmetric positive semidefinite part of U diag(s) Vᵀ, of its rank."""
    Q = np.linalg.qr(np.hstack([U, V]))[0]
    core = (Q.T @ U * s) @ (V.T @ Q)
    values, H = np.linalg.eigh((core + core.T) / 2)
    keep = np.argsort(-values)[: len(s)]
    keep = keep[values[keep] > 0]
    vectors = Q @ H[:, keep]
    return vectors, vectors, values[keep]
