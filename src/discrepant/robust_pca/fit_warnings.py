"""Warnings about a fit: what a user should know before trusting its parts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from discrepant.core.arrays import even_sample
from discrepant.core.linalg import Array
from discrepant.core.results import Result
from discrepant.core.robust_statistics import MAX_SCALE_RATIO, row_scales
from discrepant.robust_pca.doubts import ABOUT_LOW_RANK, Doubt, FitWarning

# Relative duality gap up to which a result needs no warning.
CERTIFIED_GAP = 1e-4
# Rows or columns below which the noise of a single cell is fitted as signal.
NARROW = 10
# Entries read to estimate the sizes of columns: 16 to 64 of each column.
ENTRIES_READ = 1 << 18
# The low-rank part extrapolates above this many times the largest sampled entry.
EXTRAPOLATION = 3.0
# An entry does not fit if its residual is above this fraction of the median |entry|.
MISFIT = 0.3
# Fraction of entries that do not fit above which an optimum of the convex program is in
# doubt, and if the user asked for this optimum.
MAX_MISFIT_FRACTION, MAX_REQUESTED_MISFIT_FRACTION = 0.25, 0.5
# Residual, in units of the median |entry|, up to which an entry counts as exact.
NEARLY_EXACT = 1e-6
# Fraction of distinct values in the entries that fit exactly, below which they may be
# those of a table of few values, which proves nothing.
MIN_DISTINCT = 0.5
# Fraction of clean entries in a fit with noise below which it is in doubt.
MIN_CLEAN_FRACTION = 0.5


def fit_warnings(Y: Any, result: Result) -> Iterator[FitWarning]:
    """Yield the warnings about a fit of the data Y, of shape (m, n).

    If flags come from a model of the rows, those about the low-rank part are one.
    """
    has_row_model = getattr(result, "row_model", None) is not None
    in_doubt = False
    for warning in _all_warnings(Y, result):
        if has_row_model and warning.doubt in ABOUT_LOW_RANK:
            in_doubt = True
        else:
            yield warning
    if in_doubt:
        yield Doubt.NOT_LOW_RANK.warning()


def _all_warnings(Y: Any, result: Result) -> Iterator[FitWarning]:
    """Yield what speaks against the low-rank part or the flags of a fit."""
    has_noise = bool(result.noise.any())
    rows, columns = Y.shape
    sizes, entries, low_rank = _sample(Y, result)
    yield from getattr(result, "doubts", ())
    if not has_noise:
        yield from _doubts_without_noise(result, sizes[sizes > 0], entries, low_rank)
    largest = np.abs(entries[~np.isnan(entries)]).max(initial=0.0)
    if np.abs(low_rank).max(initial=0.0) > EXTRAPOLATION * largest:
        yield Doubt.EXTRAPOLATED.warning()
    mixture = getattr(result, "mixture", None)  # of a fit with noise
    if mixture is not None and mixture.clean < MIN_CLEAN_FRACTION:
        yield Doubt.MOSTLY_CORRUPT.warning(fraction=1 - mixture.clean)
    if has_noise and result.rank == 0:
        yield Doubt.NOTHING_GAINED.warning()
    if has_noise and min(Y.shape) < NARROW:
        yield Doubt.NARROW.warning(rows=rows, columns=columns)
    yield from _convergence_warnings(result, has_noise)


def _doubts_without_noise(
    result: Any, sizes: Array, entries: Array, low_rank: Array
) -> Iterator[FitWarning]:
    """Yield what speaks against an optimum of the convex program.

    Nothing does if it is exact: a polish ends only if more entries fit than X has
    degrees of freedom. If their values are distinct, no wrong X of this rank could do
    that.
    """
    observed = ~np.isnan(entries)
    entries, residual = entries[observed], np.abs(entries - low_rank)[observed]
    usual = float(np.median(np.abs(entries))) if entries.size else 0.0
    if getattr(result, "polished", False):
        clean = entries[residual <= NEARLY_EXACT * usual]
        if result.proven or len(np.unique(clean)) >= MIN_DISTINCT * len(clean):
            return
    if sizes.size and sizes.max() > MAX_SCALE_RATIO * sizes.min():
        yield Doubt.UNEQUAL_COLUMNS.warning(ratio=sizes.max() / sizes.min())
    requested = getattr(result, "requested", True)
    limit = MAX_REQUESTED_MISFIT_FRACTION if requested else MAX_MISFIT_FRACTION
    misfit = float(np.mean(residual > MISFIT * usual)) if usual else 0.0
    if result.status.converged and misfit > limit:
        yield Doubt.UNCONFIRMED.warning(fraction=misfit)


def _convergence_warnings(result: Result, has_noise: bool) -> Iterator[FitWarning]:
    """Yield a warning if the solver did not converge."""
    if result.status.converged:
        return
    if result.status.stopped:
        yield Doubt.STOPPED.warning()
    elif has_noise:
        yield Doubt.NOT_CONVERGED.warning(status=result.status)
    # The residual may still fall slowly when the certificate is already good.
    elif abs(result.certificate.gap) > CERTIFIED_GAP:
        yield Doubt.NOT_OPTIMAL.warning(
            status=result.status, certificate=result.certificate
        )


def _sample(Y: Any, result: Any) -> tuple[Array, Array, Array]:
    """Return sizes of the columns, some entries of the data, and of the low-rank part.

    The data are read through the rows of the fit if it has any, since they may be on
    file or in blocks. Of stored entries, the columns' sizes are not compared.
    """
    if sparse.issparse(Y):
        few = slice(None, None, max(len(result.fitted) // ENTRIES_READ, 1))
        return np.zeros(0), result.entries.y[few], result.fitted[few]
    sampled = even_sample(Y.shape)
    rows = getattr(getattr(result, "program", None), "rows", None)
    if rows is None:
        return row_scales(Y.T, entries=64), Y[sampled], result.block(*sampled)
    number = min(max(ENTRIES_READ // rows.shape[1], 16), 64)
    return rows.scales(1, number), rows.sample(), result.block(*sampled)
