"""Split a table of which only the stored entries are known."""

from numbers import Real
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.results import Outcome, Status
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.noisy.histogram import EDGES, at_edges
from discrepant.robust_pca.noisy.mixture import fit_mixture, flagged_from
from discrepant.robust_pca.recorder import Recorder
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries
from discrepant.robust_pca.sparse_entries.fit import EntriesFit
from discrepant.robust_pca.sparse_entries.result import SparseEntriesResult, Stored

EXACT = (
    1e-9  # of the data's size: an entry of an exact fit that is off by more is wrong
)
MOST_LEVERAGE = 0.8  # beyond, an entry tells nothing of its own noise


def solve_stored(
    table: Any,
    *,
    noise: Any = "auto",
    fdr: float = 0.01,
    tol: float = 1e-7,
    max_iter: int = 500,
    random_state: Any = None,
    n_jobs: int | None = None,
    report: Report = lambda share, note: True,
) -> SparseEntriesResult:
    """Split a sparse table into a low-rank part, errors and noise.

    Parameters
    ----------
    table : scipy.sparse matrix or array
        Entries that are not stored, or stored as NaN, are missing.
    noise, fdr, tol, max_iter, random_state, n_jobs
        As for `discrepant.RobustPCA`.
    report : callable
        Told of the progress; False ends the fit.
    """
    sigma = _told(noise)
    entries = StoredEntries(table, n_jobs)
    log = Recorder(report, tol, max_iter)
    rng = np.random.default_rng(random_state)
    fit = EntriesFit(entries, sigma, rng, log)
    done = fit.run()
    chance, cut = _judged(fit, fdr)
    U, V, s = fit.U, fit.V, np.zeros(0)
    if fit.rank:
        U, V, s = svd_of_product(fit.U, fit.V)
    if fit.exact:
        outcome = Outcome.EXACT
        sentence = "converged: exact to rounding on the entries that are clean"
    elif done:
        outcome = Outcome.NOISE_LEVEL
        sentence = "converged: fitted at the level of the noise"
    else:
        outcome, sentence = log.outcome, log.end
    size = 0.0 if fit.exact else fit.sigma
    kind = type(table)
    return SparseEntriesResult(
        U=U.astype(entries.dtype),
        singular_values=s.astype(entries.dtype),
        components=np.ascontiguousarray(V.T, entries.dtype),
        noise=np.full(entries.shape[1], size, entries.dtype),
        lam=1 / np.sqrt(len(entries.y) / min(entries.shape)),
        status=Status(outcome, sentence),
        history=log.history(),
        stored=Stored(entries, kind),
        chance=chance,
        flagged_from=cut,
    )


def _told(noise: Any) -> float | None:
    if isinstance(noise, str) and noise == "auto":
        return None
    if (
        isinstance(noise, Real)
        and not isinstance(noise, bool)
        and 0 < float(noise) < np.inf
    ):
        return float(noise)
    raise InputError(
        'With missing="unstored", noise must be "auto" or one positive number, got '
        f"{noise!r}."
    )


def _judged(fit: EntriesFit, fdr: float) -> tuple[Array, float]:
    """Judge each entry as if it had been left out of the fit."""
    if fit.exact:
        wrong = np.abs(fit.e) > EXACT * fit.size
        return wrong.astype(np.float32), 0.5
    entries = fit.entries
    taken = np.zeros(len(fit.e))
    if fit.rank:
        ridges = fit.ridges()
        sides = (entries.rows, fit.V), (entries.columns, fit.U)
        for (side, basis), ridge, lag in zip(sides, ridges, fit.lag, strict=True):
            entries.each(side, kernels.leverages, fit.w, basis, ridge, lag, taken)
    left = 1 - np.minimum(taken, MOST_LEVERAGE)
    # Left out, e becomes e/(1 − h), and its spread σ/√(1 − h).
    z = np.abs(fit.e) / (fit.sigma * np.sqrt(left))
    counts = np.histogram(z, EDGES)[0]
    mixture = fit_mixture(counts, 1.0, told=fit.told)
    corrupt = at_edges(mixture.corrupt)
    chance = np.interp(z, EDGES[:-1], corrupt[:-1])
    return chance.astype(np.float32), flagged_from(counts, mixture, fdr)
