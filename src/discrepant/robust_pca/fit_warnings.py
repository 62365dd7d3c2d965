"""Warnings about a fit: what a user should know before trusting its parts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from discrepant.core.arrays import even_sample
from discrepant.core.linalg import Array
from discrepant.core.results import Result
from discrepant.core.robust_statistics import MAX_SCALE_RATIO, row_scales
from discrepant.robust_pca.doubts import Doubt, FitWarning

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
# Fraction of entries that do not fit above which the low-rank part is in doubt.
MAX_MISFIT_FRACTION = 0.5
# Fraction of clean entries in a fit with noise below which it is in doubt.
MIN_CLEAN_FRACTION = 0.5


def fit_warnings(Y: Any, result: Result) -> Iterator[FitWarning]:
    """Yield the warnings about a fit of the data Y, of shape (m, n)."""
    has_noise = bool(result.noise.any())
    # Exact entries decide, however many others are corrupt.
    proven = getattr(result, "proven", False)
    rows, columns = Y.shape
    sizes, entries, low_rank = _sample(Y, result)
    misfit = _misfit_fraction(entries, low_rank)
    in_doubt = result.status.converged and not (has_noise or proven)
    is_misfit = in_doubt and misfit > MAX_MISFIT_FRACTION
    for warning in getattr(result, "doubts", ()):
        if not (is_misfit and warning.doubt is Doubt.UNCONFIRMED_FLAGS):
            yield warning
    sizes = sizes[sizes > 0]
    if (
        sizes.size
        and sizes.max() > MAX_SCALE_RATIO * sizes.min()
        and not (has_noise or proven)
    ):
        yield Doubt.UNEQUAL_COLUMNS.warning(ratio=sizes.max() / sizes.min())
    largest = np.abs(entries[~np.isnan(entries)]).max(initial=0.0)
    if np.abs(low_rank).max(initial=0.0) > EXTRAPOLATION * largest:
        yield Doubt.EXTRAPOLATED.warning()
    if is_misfit:  # it says more than UNCONFIRMED_FLAGS
        yield Doubt.MISFIT.warning(
            fraction=misfit, limit=MISFIT, rows=rows, columns=columns
        )
    mixture = getattr(result, "mixture", None)  # of a fit with noise
    if mixture is not None and mixture.clean < MIN_CLEAN_FRACTION:
        yield Doubt.MOSTLY_CORRUPT.warning(fraction=1 - mixture.clean)
    if has_noise and result.rank == 0:
        yield Doubt.NOTHING_GAINED.warning()
    if has_noise and min(Y.shape) < NARROW:
        yield Doubt.NARROW.warning(rows=rows, columns=columns)
    yield from _convergence_warnings(result, has_noise)


def _convergence_warnings(result: Result, has_noise: bool) -> Iterator[FitWarning]:
    """Yield a warning if the solver did not converge."""
    if result.status.converged:
        return
    if result.status.stopped:
        yield Doubt.STOPPED.warning(status=result.status)
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


def _misfit_fraction(entries: Array, low_rank: Array) -> float:
    """Return the fraction of entries far from the low-rank part (see `MISFIT`)."""
    observed = ~np.isnan(entries)
    usual = float(np.median(np.abs(entries[observed]))) if observed.any() else 0.0
    if not usual:
        return 0.0
    residual = np.abs(entries - low_rank)[observed]
    return float(np.mean(residual > MISFIT * usual))
