"""Values of a graphic at which impulses are concentrated, such as salt and pepper.

Impulses of one value occur in every context and in every part of the image, and they
occur equally often where no other entry of this value is near. A dot that belongs to
the picture does not occur everywhere, and areas have neighbours of the same value.
"""

import numpy as np
from scipy.ndimage import maximum_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.graphics.contexts import (
    FREQUENT,
    RING,
    ContextTable,
    ImpulseModel,
)

# Number of the most frequent values that are tested.
N_CANDIDATES = 16
# Largest number of possible values at which none is tested: with so few values, random
# values are as frequent as impulses of one value.
MAX_FEW_LEVELS = 8.0
# Smallest fraction of impulses of one value that is detected.
MIN_IMPULSE_FRACTION = 0.003
# Ratio of isolated dots of a value to its smallest fraction in any context beyond which
# the picture is a dither.
DITHER_RATIO = 3.0
# Fraction of a value in every context from which on contexts carry no information.
INDEPENDENT_FRACTION = 0.45
# Smallest fraction of the entries at which a value certainly belongs to the picture.
COMMON_FRACTION = 0.05
# The image is divided into 6×6 parts, in each of which impulses must occur.
N_PARTS = 6
# Smallest fraction of the two most frequent values in a two-tone picture.
TWO_TONE_FRACTION = 0.98
# Smallest fraction of either tone in every context at which impulses are suspected. It
# is at most 0.003 in eleven clean pictures, and at least 0.02 with 5% salt-and-pepper.
MIN_CROSS_CONTEXT_FRACTION = 0.015
# Ratio of isolated dots of a tone to its smallest fraction in any context beyond which
# some dots belong to the picture. Chance gives 1.3, a dither 1.5 and more.
UNEVEN_RATIO = 1.45


def impulse_value_fractions(
    tables: list[ContextTable], codes: Array, counts: Array, levels: float
) -> Array:
    """Return for each value the fraction of the entries that are impulses of it.

    Parameters
    ----------
    tables : list of ContextTable
        Counts by the contexts of several kinds.
    codes : ndarray of shape (rows, columns, channels)
        Number of each entry's value.
    counts : ndarray of shape (values,)
        Number of entries of each value.
    levels : float
        Number of different values that the image could have.
    """
    fractions = np.zeros(len(counts))
    if levels <= MAX_FEW_LEVELS:
        return fractions
    total = counts.sum()
    isolated = _isolated(codes)
    for code in np.argsort(-counts)[:N_CANDIDATES].tolist():
        bound = min(table.min_fraction_bound(code) for table in tables)
        if not MIN_IMPULSE_FRACTION < bound < 1:
            continue
        smallest, mean = _isolated_rates(codes == code, isolated)
        if not mean and bound < INDEPENDENT_FRACTION:
            continue  # the value is never isolated
        dot_rate = max(smallest / 2, mean)
        if dot_rate > DITHER_RATIO * bound and counts[code] > COMMON_FRACTION * total:
            return np.zeros(len(counts))  # the picture itself consists of dots
        fraction = min([bound, *(rate for rate in (smallest, mean) if rate > 0)])
        if fraction > MIN_IMPULSE_FRACTION:
            fractions[code] = fraction
    return fractions


def is_undecidable_two_tone(
    tables: list[ContextTable], codes: Array, counts: Array, model: ImpulseModel
) -> bool:
    """Return whether impulses are indistinguishable from a picture of two tones.

    This is so if both tones occur in every context, as in no clean picture, and either
    no impulses were detected among the dots of the picture, or its dots make impulses
    seem more frequent in some contexts than in others.
    """
    tones = np.argsort(-counts)[:2].tolist()
    if model.levels <= MAX_FEW_LEVELS or len(tones) < 2:
        return False
    if counts[tones].sum() < TWO_TONE_FRACTION * counts.sum():
        return False
    bounds = [min(table.min_fraction_bound(code) for table in tables) for code in tones]
    if min(bounds) < MIN_CROSS_CONTEXT_FRACTION:
        return False
    if not model.value_fractions.any():
        return True
    isolated = _isolated(codes)
    rates = [_isolated_rates(codes == code, isolated)[1] for code in tones]
    return any(
        rate > UNEVEN_RATIO * bound for rate, bound in zip(rates, bounds, strict=True)
    )


def _isolated_rates(same: Array, isolated: Array) -> tuple[float, float]:
    """Return the smallest and the mean rate of isolated entries of one value.

    The rate is relative to the places without this value nearby. The smallest is taken
    over the parts of the image, as an upper confidence bound: dots of a dither are
    dense in one part and sparse in another, impulses are not. A rate is 0 where it
    cannot be measured. ``same`` marks the entries of the value, ``isolated`` the
    isolated entries of any value.
    """
    dots = same & isolated
    free = dots | ~maximum_filter(same, (3, 3, 1))
    smallest = 1.0
    for rows in np.array_split(np.arange(len(same)), N_PARTS):
        for columns in np.array_split(np.arange(same.shape[1]), N_PARTS):
            part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
            n_free, n_dots = int(free[part].sum()), int(dots[part].sum())
            if n_free >= FREQUENT:
                smallest = min(smallest, (n_dots + 3 * n_dots**0.5 + 5) / n_free)
    n_free = int(free.sum())
    mean = float(dots.sum()) / n_free if n_free >= FREQUENT else 0.0
    return (smallest if smallest < 1 else 0.0), mean


def _isolated(codes: Array) -> Array:
    """Return which entries differ from all of their eight neighbours."""
    padded = np.pad(codes, ((1, 1), (1, 1), (0, 0)), constant_values=-1)
    rows, columns, _ = codes.shape
    isolated = np.ones(codes.shape, bool)
    for i, j in RING:
        isolated &= codes != padded[1 + i : 1 + i + rows, 1 + j : 1 + j + columns]
    return isolated
