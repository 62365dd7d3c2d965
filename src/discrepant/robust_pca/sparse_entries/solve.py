"""Decompose a sparse matrix of which only the stored entries are observed."""

from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.validation import check_number
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.noisy.histogram import EDGES
from discrepant.robust_pca.noisy.mixture import Posterior, leave_one_out_posterior
from discrepant.robust_pca.noisy.model import MAX_LEVERAGE
from discrepant.robust_pca.settings import SolverSettings
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries
from discrepant.robust_pca.sparse_entries.fit import EntriesFit
from discrepant.robust_pca.sparse_entries.result import SparseEntriesResult

# Residual over the size of the data above which an entry of an exact fit is corrupt.
EXACT_RESIDUAL = 1e-9


def solve_stored(
    table: Any, settings: SolverSettings, n_jobs: int | None, report: Report
) -> SparseEntriesResult:
    """Decompose a sparse matrix into a low-rank part, sparse corruption and noise.

    Entries that are not stored, or stored as NaN, are missing.
    """
    noise, sigma = settings.noise, None
    if not isinstance(noise, str) or noise != "auto":
        requirement = '"auto" or one positive number with missing="unstored"'
        sigma = check_number("noise", noise, requirement, lambda sigma: sigma > 0)
    entries = StoredEntries(table, n_jobs)
    recorder = Recorder(report, settings.tol, settings.max_iter)
    rng = np.random.default_rng(settings.random_state)
    fit = EntriesFit(entries, sigma, rng, recorder)
    finished = fit.run()
    if fit.exact:
        outcome = Outcome.EXACT
        sentence = "converged: exact to rounding on the entries that are clean"
        mixture, threshold = None, 0.5
        probability = np.abs(fit.residual) > EXACT_RESIDUAL * fit.data_size
    else:
        outcome = Outcome.NOISE_LEVEL
        sentence = "converged: fitted at the level of the noise"
        posterior, probability = _leave_one_out(fit, settings.fdr)
        mixture, threshold = posterior.mixture, posterior.fdr_threshold
    if not (fit.exact or finished):
        outcome, sentence = recorder.outcome, recorder.end
    U, V, s = fit.U, fit.V, np.zeros(0)
    if fit.rank:
        U, V, s = svd_of_product(fit.U, fit.V)
    sigma = 0.0 if fit.exact else fit.sigma
    return SparseEntriesResult(
        U=U.astype(entries.dtype),
        singular_values=s.astype(entries.dtype),
        components=np.ascontiguousarray(V.T, entries.dtype),
        noise=np.full(entries.shape[1], sigma, entries.dtype),
        alpha=float(np.sqrt(len(entries.y) / min(entries.shape))),
        mixture=mixture,
        status=Status(outcome, sentence),
        history=recorder.history(),
        entries=entries,
        corrupt_probability=probability.astype(np.float32),
        flag_threshold=threshold,
    )


def _leave_one_out(fit: EntriesFit, fdr: float) -> tuple[Posterior, Array]:
    """Return the posterior by the residuals of fits without the entry, and its values.

    With leverage h and weight w the residual left out is e·(1 − h + h w)/(1 − h), of
    variance σ²/(1 − h).
    """
    h, w = np.zeros(len(fit.residual)), fit.weights
    bases, ridges, y = (fit.V, fit.U), fit.ridges(), fit.entries.y
    for axis in (0, 1) if fit.rank else ():
        model = bases[axis], ridges[axis], fit.line_scale[axis]
        fit.entries.run(axis, kernels.leverages, y, w, *model, h)
    h = np.minimum(h, MAX_LEVERAGE)
    z = np.abs(fit.residual) * (1 - h + h * w) / (fit.sigma * np.sqrt(1 - h))
    counts = np.histogram(z, EDGES)[0]
    given = fit.noise_is_given
    posterior = leave_one_out_posterior(counts, fdr, scale_is_given=given)
    return posterior, np.interp(z, EDGES[:-1], posterior.corrupt[:-1])
