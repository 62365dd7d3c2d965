"""What a user should know before trusting the parts of a fit."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from discrepant.core.arrays import even_sample
from discrepant.core.linalg import Array
from discrepant.core.results import Result
from discrepant.core.robust_statistics import MAX_SCALE_RATIO, row_scales

CERTIFIED = 1e-4  # gap up to which a result needs no warning
NARROW = 10  # lines below which a cell's own noise passes for signal
LOOKED_AT = 1 << 18  # entries, for the size of columns: 16 to 64 of each
FAR = 3.0  # times the largest entry: where no value of the low-rank part should be
MISSED = 0.3  # share of the usual size by which an entry that is missed is missed


def caveats(
    Y: Any, found: Result, seen: tuple[Array, Array] | None = None
) -> Iterator[tuple[str, type[Warning]]]:
    """Yield sentences, each with the kind of warning that it is.

    `seen` holds the sizes of its columns and some of its entries (`even_sample`),
    where these are not to be read off Y itself.
    """
    noisy = bool(found.noise.any())
    at = even_sample(Y.shape)
    sizes, some = seen or (row_scales(Y.T, entries=64), Y[at])
    sizes = sizes[sizes > 0]
    if sizes.size and sizes.max() > MAX_SCALE_RATIO * sizes.min() and not noisy:
        yield (
            f"The columns differ in size by a factor of "
            f"{sizes.max() / sizes.min():.0e}: large ones are taken for corrupt "
            "or small ones lost beside them; bring them to one unit first.",
            UserWarning,
        )
    low_rank = found.block(*at)
    missed = _missed_share(some, low_rank)
    observed = some[~np.isnan(some)]
    if np.abs(low_rank).max(initial=0.0) > FAR * np.abs(observed).max(initial=0.0):
        yield (
            "The low-rank part has values far beyond all of the data: it extrapolates, "
            "and need not be the truth.",
            UserWarning,
        )
    if missed > 0.5 and found.status.converged and not noisy:
        yield (
            f"{missed:.0%} of the entries are taken for corrupt, by a good "
            f"part of their size. A table of {Y.shape[0]}×{Y.shape[1]} may be too "
            "narrow, or too full of noise and errors; a smaller alpha leaves more "
            "to the low-rank part.",
            UserWarning,
        )
    mixture = getattr(found, "mixture", None)  # of a fit with noise
    if mixture is not None and mixture.clean < 0.5:
        yield (
            f"{1 - mixture.clean:.0%} of the entries do not fit the low-rank part and "
            "are taken for corrupt: it need not be the truth.",
            UserWarning,
        )
    if noisy and found.rank == 0:
        yield (
            "No component stands out of the noise: the low-rank part is zero, and "
            "only entries that are large by themselves are flagged.",
            UserWarning,
        )
    if noisy and min(Y.shape) < NARROW:
        yield (
            f"A table of {Y.shape[0]}×{Y.shape[1]} is narrow for a low-rank fit with "
            "noise, and its flags are less sure than they say; discrepant.clean is "
            "made for such tables.",
            UserWarning,
        )
    for doubt in getattr(found, "doubts", ()):
        yield doubt, UserWarning
    if found.status.converged:
        return
    if found.status.stopped:
        yield _stopped(found), ConvergenceWarning
    elif noisy:
        yield f"The fit {found.status}. Raise max_iter.", ConvergenceWarning
    # The residual may be slow to fall where the result is certified already.
    elif abs(found.certificate.gap) > CERTIFIED:
        yield (
            f"{found.status}; {found.certificate}. Raise max_iter, or raise tol.",
            ConvergenceWarning,
        )


def seen_of(found: Any) -> tuple[Array, Array] | None:
    """Return what `caveats` looks at by way of a fit's rows, which may be on file."""
    rows = getattr(getattr(found, "program", None), "rows", None)
    if rows is None:
        return None
    entries = min(max(LOOKED_AT // rows.shape[1], 16), 64)
    return rows.scales(1, entries), rows.sample()


def stored_caveats(found: Any) -> Iterator[tuple[str, type[Warning]]]:
    """Yield the same of a fit of stored entries (`observed.split.ObservedSplit`)."""
    if not found.rank:
        yield (
            "No component stands out of the noise: the low-rank part is zero, and "
            "only entries that are large by themselves are flagged.",
            UserWarning,
        )
    few = found.undetermined
    if any(few):
        yield (
            f"{few[0]} rows and {few[1]} columns store fewer entries than the rank, "
            f"{max(found.rank, 1)}: what the low-rank part says of them is a guess.",
            UserWarning,
        )
    if found.status.stopped:
        yield _stopped(found), ConvergenceWarning
    elif not found.status.converged:
        yield f"The fit {found.status}. Raise max_iter.", ConvergenceWarning


def _stopped(found: Any) -> str:
    return f"The fit {found.status}; what it found so far may be far off."


def _missed_share(some: Array, low_rank: Array) -> float:
    """Return the share of some entries that the low-rank part misses by a good part."""
    seen = ~np.isnan(some)
    usual = float(np.median(np.abs(some[seen]))) if seen.any() else 0.0
    if not usual:
        return 0.0
    missed = np.abs(some - low_rank)[seen]
    return float(np.mean(missed > MISSED * usual))
