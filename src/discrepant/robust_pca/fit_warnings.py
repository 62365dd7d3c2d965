"""Warnings about a fit: what a user should know before trusting its parts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from discrepant.core.arrays import even_sample
from discrepant.core.linalg import Array
from discrepant.core.results import Result
from discrepant.core.robust_statistics import MAX_SCALE_RATIO, row_scales

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

Message = tuple[str, type[Warning]]
NO_COMPONENT: Message = (
    "No component is significant: none exceeds the noise. The low-rank part is zero, "
    "and only entries that are large by themselves are flagged.",
    UserWarning,
)


def fit_warnings(
    Y: Any, result: Result, data_sample: tuple[Array, Array] | None = None
) -> Iterator[Message]:
    """Yield the warnings about a fit, each with its category.

    Parameters
    ----------
    Y : array of shape (m, n)
        The data.
    result : Result
        The fit.
    data_sample : tuple of ndarray, optional
        Sizes of the columns, and the entries of `even_sample`. By default they are read
        from Y; see `sample_data` for data that are not in memory.
    """
    has_noise = bool(result.noise.any())
    sampled = even_sample(Y.shape)
    sizes, entries = data_sample or (row_scales(Y.T, entries=64), Y[sampled])
    sizes = sizes[sizes > 0]
    if sizes.size and sizes.max() > MAX_SCALE_RATIO * sizes.min() and not has_noise:
        yield (
            f"The columns differ in size by a factor of "
            f"{sizes.max() / sizes.min():.0e}. Entries of large columns are classified "
            "as corrupt, or small columns are lost; rescale the columns first.",
            UserWarning,
        )
    low_rank = result.block(*sampled)
    largest = np.abs(entries[~np.isnan(entries)]).max(initial=0.0)
    if np.abs(low_rank).max(initial=0.0) > EXTRAPOLATION * largest:
        yield (
            "The low-rank part has values far beyond all of the data: it extrapolates, "
            "and may be wrong.",
            UserWarning,
        )
    misfit = _misfit_fraction(entries, low_rank)
    if misfit > MAX_MISFIT_FRACTION and result.status.converged and not has_noise:
        yield (
            f"{misfit:.0%} of the entries differ from the low-rank part by more than "
            f"{MISFIT:.0%} of the median entry, and are classified as corrupt. A table "
            f"of {Y.shape[0]}×{Y.shape[1]} may be too narrow, or hold too much noise "
            "and corruption; a smaller alpha leaves more to the low-rank part.",
            UserWarning,
        )
    mixture = getattr(result, "mixture", None)  # of a fit with noise
    if mixture is not None and mixture.clean < 0.5:
        yield (
            f"{1 - mixture.clean:.0%} of the entries do not fit the low-rank part: it "
            "may be wrong.",
            UserWarning,
        )
    if has_noise and result.rank == 0:
        yield NO_COMPONENT
    if has_noise and min(Y.shape) < NARROW:
        yield (
            f"A table of {Y.shape[0]}×{Y.shape[1]} is narrow for a low-rank fit with "
            "noise: its flags are less reliable than fdr states. discrepant.clean is "
            "intended for such tables.",
            UserWarning,
        )
    for doubt in getattr(result, "doubts", ()):
        yield doubt, UserWarning
    yield from _convergence_warnings(result, has_noise)


def _convergence_warnings(result: Result, has_noise: bool) -> Iterator[Message]:
    """Yield a warning if the solver did not converge."""
    if result.status.converged:
        return
    if result.status.stopped:
        yield _stopped(result)
    elif has_noise:
        yield f"The fit {result.status}. Raise max_iter.", ConvergenceWarning
    # The residual may still fall slowly when the certificate is already good.
    elif abs(result.certificate.gap) > CERTIFIED_GAP:
        yield (
            f"{result.status}; {result.certificate}. Raise max_iter, or raise tol.",
            ConvergenceWarning,
        )


def sparse_entries_warnings(result: Any) -> Iterator[Message]:
    """Yield the warnings about a fit of stored entries (`SparseEntriesResult`)."""
    if not result.rank:
        yield NO_COMPONENT
    n_rows, n_columns = result.undetermined
    if n_rows or n_columns:
        yield (
            f"{n_rows} rows and {n_columns} columns store fewer entries than the rank, "
            f"{max(result.rank, 1)}: their low-rank part is a guess.",
            UserWarning,
        )
    if result.status.stopped:
        yield _stopped(result)
    elif not result.status.converged:
        yield f"The fit {result.status}. Raise max_iter.", ConvergenceWarning


def sample_data(result: Any) -> tuple[Array, Array] | None:
    """Return column sizes and a sample of the entries of a fit's data.

    They are read through the rows of the fit, since the data may be on file. None if
    the fit has no rows.
    """
    rows = getattr(getattr(result, "program", None), "rows", None)
    if rows is None:
        return None
    entries = min(max(ENTRIES_READ // rows.shape[1], 16), 64)
    return rows.scales(1, entries), rows.sample()


def _stopped(result: Any) -> Message:
    message = f"The fit {result.status}; the result so far may be far off."
    return message, ConvergenceWarning


def _misfit_fraction(entries: Array, low_rank: Array) -> float:
    """Return the fraction of entries far from the low-rank part (see `MISFIT`)."""
    observed = ~np.isnan(entries)
    usual = float(np.median(np.abs(entries[observed]))) if observed.any() else 0.0
    if not usual:
        return 0.0
    residual = np.abs(entries - low_rank)[observed]
    return float(np.mean(residual > MISFIT * usual))
