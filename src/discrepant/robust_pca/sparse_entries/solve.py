"""Decompose a sparse matrix of which only the stored entries are observed."""

from typing import Any

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.validation import check_number
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.noisy.histogram import EDGES, to_table
from discrepant.robust_pca.noisy.mixture import Mixture, fdr_threshold, fit_mixture
from discrepant.robust_pca.settings import SolverSettings
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries
from discrepant.robust_pca.sparse_entries.fit import EntriesFit
from discrepant.robust_pca.sparse_entries.result import SparseEntriesResult

# Residual over the size of the data above which an entry of an exact fit is corrupt.
EXACT_RESIDUAL = 1e-9
# Largest leverage used: an entry with more says little about its own noise.
MAX_LEVERAGE = 0.8


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
        is_outlier = np.abs(fit.residual) > EXACT_RESIDUAL * fit.data_size
        probability = is_outlier.astype(np.float32)
    else:
        outcome = Outcome.NOISE_LEVEL
        sentence = "converged: fitted at the level of the noise"
        mixture, probability, threshold = _leave_one_out_posterior(fit, settings.fdr)
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
        corrupt_probability=probability,
        flag_threshold=threshold,
    )


def _leave_one_out_posterior(
    fit: EntriesFit, fdr: float
) -> tuple[Mixture, Array, float]:
    """Return the mixture of the residuals of fits without the entry.

    Also return the probability that each entry is corrupt, and from which to flag it.
    """
    leverage = np.zeros(len(fit.residual))
    bases, ridges = (fit.V, fit.U), fit.ridges()
    for axis in (0, 1) if fit.rank else ():
        model = bases[axis], ridges[axis], fit.line_scale[axis]
        y, weights = fit.entries.y, fit.weights
        fit.entries.run(axis, kernels.leverages, y, weights, *model, leverage)
    unused = 1 - np.minimum(leverage, MAX_LEVERAGE)  # 1 − h
    # Without the entry, e becomes e/(1 − h), with standard deviation σ/√(1 − h).
    z = np.abs(fit.residual) / (fit.sigma * np.sqrt(unused))
    counts = np.histogram(z, EDGES)[0]
    mixture = fit_mixture(counts, 1.0, scale_is_given=fit.noise_is_given)
    corrupt = to_table(mixture.corrupt)
    probability = np.interp(z, EDGES[:-1], corrupt[:-1]).astype(np.float32)
    return mixture, probability, fdr_threshold(counts, mixture, fdr)
