"""Fit low rank + errors + noise: start, finish, posterior probabilities and flags."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.robust_pca.doubts import Doubt
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.result import ExactResult
from discrepant.robust_pca.noisy.fit import Ending, NoisyFit
from discrepant.robust_pca.noisy.mixture import leave_one_out_posterior
from discrepant.robust_pca.noisy.model import NoisyStart
from discrepant.robust_pca.noisy.result import CellPosterior, NoisyResult
from discrepant.robust_pca.noisy.row_model import (
    MAX_TRAINING_ROWS,
    fit_row_model,
    flag_doubts,
    may_have_row_model,
)
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows import passes
from discrepant.robust_pca.rows.in_memory import ArrayRows


def fit_noisy(
    program: ConvexProblem,
    *,
    sigma: Array | None = None,
    by_column: bool | None = None,
    fdr: float = 0.01,
    rng: np.random.Generator,
    log: Recorder,
    prove: Callable[[Array, Array], ExactResult | None] | None = None,
) -> NoisyResult | ExactResult:
    """Split the data of a problem into a low-rank part, errors and noise.

    With `psd` the low-rank part is symmetric and positive semidefinite. `sigma` is the
    noise of each column, if it is given; `by_column` says whether each has noise of its
    own size, which is tested by default. If the noise vanishes as the fit improves,
    `prove` receives factors of the low-rank part, and its exact fit near it is
    returned, if there is one.
    """
    with program.rows:
        fit = NoisyFit(program, sigma, by_column, rng, log)
        ending = fit.run(until_vanishing=prove is not None)
        if prove is not None and fit.noise_vanishes:
            exact = prove(*fit.model.factors())
            if exact is not None:
                return exact
        if ending is Ending.VANISHING:
            ending = fit.run()
        return _result(fit, ending, fdr)


def continue_noisy_fit(
    program: ConvexProblem,
    start: NoisyStart,
    *,
    noise_is_given: bool = False,
    by_column: bool | None = None,
    fdr: float = 0.01,
    rng: np.random.Generator,
    log: Recorder,
) -> NoisyResult | None:
    """Fit the data from a starting point; None if they differ from it too much.

    The noise of the start is kept if it is given by the user. Other parameters are
    those of `fit_noisy`.
    """
    with program.rows:
        sigma = start.sigma / program.unit if noise_is_given else None
        fit = NoisyFit(program, sigma, by_column, rng, log, start)
        ending = fit.run()
        if ending is Ending.DIFFERENT:
            return None
        return _result(fit, ending, fdr)


def with_row_model(
    result: NoisyResult, fdr: float, rng: np.random.Generator
) -> NoisyResult:
    """Return the result with flags by the row model, where it explains a table better.

    See `row_model`. On Dask arrays, whose blocks may hold parts of rows, the result has
    a warning instead.
    """
    rows = result.program.rows
    if not may_have_row_model(rows.shape):
        return result
    which = np.sort(rng.permutation(rows.m)[:MAX_TRAINING_ROWS])
    with rows:
        sample = rows.take(which, 0)
    coordinates = (result.U[which] * result.singular_values).astype(np.float64)
    V = result.components.astype(np.float64)
    covariance = V.T @ np.cov(coordinates.T).reshape(len(V), len(V)) @ V
    low_rank = coordinates.mean(axis=0) @ V, covariance, result.noise
    model = fit_row_model(sample, low_rank, fdr)
    if model is None:
        return result
    if not isinstance(rows, ArrayRows):
        doubt = Doubt.ROWS_PREDICT_BETTER.warning()
        return replace(result, doubts=(*result.doubts, doubt))
    # A doubt about the flags that are replaced says nothing about the new ones.
    doubts = [w for w in result.doubts if w.doubt is not Doubt.UNSETTLED]
    doubts += flag_doubts(model, sample)
    return replace(result, row_model=model, doubts=tuple(doubts))


def _result(fit: NoisyFit, ending: Ending, fdr: float) -> NoisyResult:
    """Return the result with leave-one-out posteriors, in the caller's unit."""
    model, program, rows = fit.model, fit.model.program, fit.model.rows
    line_values = model.line_values()
    left_out = passes.leave_one_out(
        rows,
        (model.U, model.C),
        unit=program.unit,
        line_values=line_values,
        weights=fit.weights,
        histogram_axis=model.column_axis,
    )
    tau = 1.0 if fit.noise_is_given else fit.last.tau
    posterior = leave_one_out_posterior(
        left_out.histogram, fdr, tau, scale_is_given=fit.noise_is_given
    )
    noise = model.sigma
    if not fit.noise_is_given:
        histograms = left_out.line_histograms.T
        noise = fit.noise_of_columns(posterior.mixture, histograms)
    U, C = model.factors()
    left, right, s = svd_of_product(U, C) if model.rank else (U, C, np.zeros(0))
    if program.psd and len(s):
        left, right, s = _positive(left, right, s)
    left, right = rows.swap_factors(left, right)
    status = Status(Outcome.NOISE_LEVEL, ending.value)
    if ending is Ending.LIMIT:
        status = Status(fit.log.outcome, fit.log.end)
    unsettled = (Doubt.UNSETTLED.warning(),) if ending is Ending.SHORTEST else ()
    return NoisyResult(
        U=left.astype(rows.dtype),
        singular_values=(s / program.unit).astype(rows.dtype),
        components=np.ascontiguousarray(right.T, rows.dtype),
        noise=(noise / program.unit).astype(rows.dtype),
        cells=CellPosterior(line_values, (model.U, model.C), fit.weights, posterior),
        status=status,
        history=fit.log.history(),
        program=program,
        doubts=unsettled,
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
