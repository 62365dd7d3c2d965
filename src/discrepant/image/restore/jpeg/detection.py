"""Whether the corruption went through JPEG, read off the pixels.

JPEG cuts an image into blocks of 8×8 and rounds each block's cosine coefficients to
whole multiples of a step. An image that was spoiled first and saved second has such
coefficients in the very blocks that hold the corruption; one that was saved first has
them only in the others.
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import dctn

from discrepant.core.linalg import Array
from discrepant.image.restore.jpeg.chroma import TO_PLANES, unclipped

BLOCK = 8
STRIP = 64 * BLOCK  # rows of an image that are transformed at a time
# The steps that the standard suggests for brightness (ITU T.81, table K.1); encoders
# multiply them by one factor, their "quality".
STANDARD = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)


@dataclass(frozen=True)
class Tuning:
    """When a comb is one.

    Attributes
    ----------
    fastest : int
        Of the frequencies looked at, ``1 ≤ u + v ≤ fastest``: in higher ones nearly
        all coefficients are 0, which tells nothing.
    largest : int
        The largest step tried, in grey levels; that of quality 50 at the frequencies
        looked at.
    fewest : int
        Coefficients beyond half a step that a frequency needs to be counted.
    surprise : float
        Standard deviations by which the mean cosine at the best step exceeds what
        evenly spread coefficients have. Of 27 frequencies × 62 steps none does so by
        chance (the odds are 1e-9 each).
    share : float
        Of the frequencies that must show it. Spoiled and saved, at least 19% did
        (per-channel salt-and-pepper at 30%, quality 90), saved and spoiled at most 7%.
    near, agree : float
        Steps are the standard's times one factor: of those found, so many lie within a
        factor ``near`` of it. Spoiled and saved, all did, within 1.2; hot pixels on a
        photograph that had been saved, at most a third.
    finest : int
        Frequencies ``u + v ≥ finest`` are the finest: an impulse has as much of them
        as of the slow ones, ``u + v ≤ slow``, and a picture does not.
    slow : int
        See ``finest``.
    least_energy, least_ratio : float
        A block holds impulses if the mean square of its finest coefficients exceeds
        the first, in grey levels squared, and that of its slow ones times the second.
    impulsive_share, impulsive_ratio : float
        Of the blocks that must hold some, and the least median of the ratio. Of 18
        photographs saved at quality 75 to 98 the largest were 0.48 and 0.14; of the
        same with 5% of each channel spoiled before, the least were 0.67 and 0.20.
    side : int
        Rows and columns in the middle that are looked at: 2,304 blocks tell enough, and
        all would cost more than the rest of a quick restoration.
    """

    fastest: int = 6
    largest: int = 64
    fewest: int = 20
    surprise: float = 6.0
    share: float = 0.1
    near: float = 1.5
    agree: float = 0.7
    finest: int = 9
    slow: int = 4
    least_energy: float = 9.0
    least_ratio: float = 0.1
    impulsive_share: float = 0.55
    impulsive_ratio: float = 0.17
    side: int = 384


TUNING = Tuning()


def luma(values: Array) -> Array:
    """Return the brightness, (rows, columns), of a grey or colour image."""
    if values.shape[2] == 1:
        return values[..., 0].astype(np.float32)
    plane: Array = (values @ TO_PLANES[0]).astype(np.float32)
    return plane


def impulsive(values: Array) -> Array | None:
    """Return the pixels of the blocks that hold impulses; None if most hold none."""
    parts = [_energies(values[k : k + STRIP]) for k in range(0, len(values), STRIP)]
    fine, slow = np.concatenate(parts, axis=1)
    hold = (fine > TUNING.least_energy) & (fine > TUNING.least_ratio * slow)
    if not len(hold) or hold.mean() < TUNING.impulsive_share:
        return None
    if np.median(fine / (slow + 1)) < TUNING.impulsive_ratio:
        return None
    rows, columns = (n // BLOCK for n in values.shape[:2])
    out = np.zeros((*values.shape[:2], 1), bool)
    pixels = hold.reshape(rows, columns).repeat(BLOCK, 0).repeat(BLOCK, 1)
    out[: rows * BLOCK, : columns * BLOCK, 0] = pixels
    return out


def _energies(values: Array) -> Array:
    """Return the mean squares of each block's finest and of its slow coefficients."""
    square = dctn(_blocks(luma(values)), axes=(1, 2), norm="ortho") ** 2
    order = np.add.outer(np.arange(BLOCK), np.arange(BLOCK))
    fine = square[:, order >= TUNING.finest].mean(axis=1)
    slow = square[:, (order > 0) & (order <= TUNING.slow)].mean(axis=1)
    return np.stack([fine, slow])


def rounding(values: Array, mask: Array) -> float | None:
    """Return the standard deviation of JPEG's rounding, in grey levels.

    None if the corruption was there after JPEG, or there was none.

    Parameters
    ----------
    values : ndarray of shape (rows, columns, channels)
        The image as it was given, of 8 bits and one or three channels.
    mask : ndarray of bool
        The values judged corrupted: only blocks that hold some are looked at.
    """
    inner = tuple(
        slice(start := max(n - TUNING.side, 0) // 32 * 16, start + TUNING.side)
        for n in values.shape[:2]
    )
    values, mask = values[inner], mask[inner]
    held = _blocks(np.max(mask, axis=2)).any(axis=(1, 2))
    plane = luma(values)
    if values.shape[2] > 1:
        even = tuple(slice(n - n % 2) for n in values.shape[:2])
        whole = unclipped(values[even].astype(np.float32) / 255)
        plane[even] = 255 * luma(whole)
    blocks = _blocks(plane)[held]
    if len(blocks) < TUNING.fewest:
        return None
    coefficients = np.abs(dctn(blocks, axes=(1, 2), norm="ortho"))
    seen, ratios = 0, []
    for u in range(TUNING.fastest + 1):
        for v in range(TUNING.fastest + 1 - u):
            if u + v:
                seen += 1
                step = _step(coefficients[:, u, v])
                if step is not None:
                    ratios.append(step / STANDARD[u, v])
    if len(ratios) < TUNING.share * seen:
        return None
    quality = float(np.median(ratios))
    # Impulses of one height make a few coefficients over and over, a comb of any step.
    near = np.abs(np.log(np.divide(ratios, quality))) < np.log(TUNING.near)
    if near.mean() < TUNING.agree:
        return None
    # Rounding to multiples of q leaves an error of variance q²/12.
    steps = np.maximum(np.rint(quality * STANDARD), 1)
    return float(np.sqrt(np.mean(steps**2) / 12))


def _blocks(plane: Array) -> Array:
    """Return the whole blocks of a plane, (count, 8, 8)."""
    rows, columns = (n // BLOCK for n in plane.shape)
    cut = plane[: rows * BLOCK, : columns * BLOCK]
    grid = cut.reshape(rows, BLOCK, columns, BLOCK).swapaxes(1, 2)
    return grid.reshape(-1, BLOCK, BLOCK)


def _step(sizes: Array) -> float | None:
    """Return the step of which the sizes of coefficients are multiples, if any."""
    best, found = TUNING.surprise, None
    sizes = np.sort(sizes)
    firsts = np.searchsorted(sizes, np.arange(TUNING.largest) / 2, "right")
    for step in range(2, TUNING.largest):
        beyond = sizes[firsts[step] :]
        if len(beyond) < TUNING.fewest:
            break
        # The sum of n cosines of even angles has variance n/2.
        total = np.cos(beyond * (2 * np.pi / step)).sum()
        surprise = total / np.sqrt(len(beyond) / 2)
        if surprise > best:
            best, found = float(surprise), float(step)
    return found
