"""Which values are corrupted: told neither the kind of corruption nor its level.

Every value is a mixture. Clean, it lies near what its surroundings predict, with heavy
tails and a local scale; corrupted, it may be anything, and how often a value like it
turns out corrupted is learned. So a lone hot value, a 0 or a 1 that is everywhere,
and a value drawn at random are all found by the same rule, and the share of corruption
comes out of it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import joblib
import numpy as np
from scipy.ndimage import gaussian_filter, median_filter

from discrepant.image.restore.smooth import coupling, leverage, smooth, spread
from discrepant.linalg import Array

BINS = 256
SHARPEST = 30.0  # density of a peak: below that of a clean value well predicted
FLOOR = 1 / 255  # no scale is finer: the step of 8-bit values
NEAR = 0.04  # a difference of neighbours that is usual in pictures
AROUND = 15  # lines, less than half of which are dead
FEWEST = 16  # values of a line that tell something of it
LEVELS = 16  # candidates of the start
WINDOWS = (1.2, 2.0, 3.0, 4.5)
STIFFNESS = (8.0, 8.0, 4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.5, 0.5)


class Judge:
    """The learned side of the mixture: how likely each value is to be a corrupted one.

    Attributes
    ----------
    share : float
        How much is corrupted.
    level : ndarray of shape (BINS,)
        The corrupt-to-clean odds of a value before it is compared with its
        surroundings: those of the share, and more at single values that stand out.
    dead : ndarray of bool, of shape (rows, columns, 1)
        The rows and columns that are corrupted as a whole.
    """

    def __init__(self, y: Array, known: Array) -> None:
        self.known = known
        self.dead = np.zeros((*y.shape[:2], 1), bool)
        self._y = y
        self._bin = np.clip((y * BINS).astype(np.int16), 0, BINS - 1)
        self._counts = np.bincount(self._bin.ravel(), known.ravel(), BINS)
        self.share = 0.5
        # All that is known at first is that some values turn up everywhere.
        common = self._counts * BINS / max(self._counts.sum(), 1)
        peak = _peaks(common)
        # An image of few values is nothing but peaks, and they tell nothing.
        self._few = common[~peak].sum() < 0.1 * common.sum()
        self.level = np.where(peak & ~self._few, np.minimum(common, SHARPEST), 1)

    @cached_property
    def _blank(self) -> list[Array]:
        """The rows and columns that show nothing and are no frame."""
        found = []
        for axis in (0, 1):
            constant, random = blank_lines(self._y, self.known, axis)
            found.append(_within(constant) | random)
        return found

    def learn(self, weight: Array) -> None:
        """Learn the odds from how likely each value is to be clean."""
        wrong = np.where(self.known & ~self.dead, 1 - weight, 0)
        counts = np.bincount(self._bin.ravel(), wrong.ravel(), BINS)
        total = max(float(self._counts.sum()), 1)
        self.share = float(np.clip(counts.sum() / total, 1e-4, 0.95))
        density = counts * BINS / max(float(counts.sum()), 1e-9)
        peak = _peaks(density) & ~self._few
        flat = max(float(density[~peak].sum()) / BINS, 0.02)
        # A value that is common among clean ones too is no hint of corruption.
        chance = (counts + 20 * self.share) / (self._counts + 20)
        special = np.where(peak, chance * np.minimum(density, SHARPEST), 0)
        self.level = (flat + special) * self.share / (1 - self.share)

    def odds(self) -> Array:
        """Return the clean-to-corrupt odds of each value, but for its likelihood."""
        odds = (1 / self.level).astype(np.float32)[self._bin]
        odds[~self.known | self.dead] = 0
        return odds

    def weigh(self, error: Array, scale: Array, rounds: int = 3) -> Array:
        """Return the probability that each value is clean, and learn from it."""
        likelihood = density(error, scale)
        # How much better a value is explained as one of many wrong ones.
        better = -np.log((1 - self.share) * likelihood + self.share)
        rows, columns = (
            _worse_lines(better, self.known, axis) & blank
            for axis, blank in enumerate(self._blank)
        )
        self.dead = rows | columns
        for _ in range(rounds):
            weight = likelihood * self.odds()
            weight /= 1 + weight
            self.learn(weight)
        return weight


def blank_lines(y: Array, known: Array, axis: int) -> tuple[Array, Array]:
    """Return which rows (axis 0) or columns show nothing, unlike those around them.

    Either neighbours on the line have the same value, in every channel, or they have
    nothing to do with one another.
    """
    along = 1 - axis
    both = np.delete(known, 0, along) & np.delete(known, -1, along)
    count = np.maximum(both.sum(along, keepdims=True), 1)
    step = np.abs(np.diff(y, axis=along))
    same, near = (
        ((step < reach) & both).sum(along, keepdims=True) / count
        for reach in (0.5 / BINS, NEAR)
    )
    # Dark lines have neighbours that are the same, and others that are only near.
    constant = (same > 0.75 * near).all(axis=2, keepdims=True)
    same, near = same.min(axis=2, keepdims=True), near.max(axis=2, keepdims=True)
    return constant & (same > _around(same) + 0.2), near < _around(near) / 2


def _within(lines: Array) -> Array:
    """Leave out lines that reach the border: they may be a frame."""
    flat = lines.ravel()
    reach = (
        np.logical_and.accumulate(flat) | np.logical_and.accumulate(flat[::-1])[::-1]
    )
    return lines & ~reach.reshape(lines.shape)


def _worse_lines(better: Array, known: Array, axis: int) -> Array:
    """Return which lines are better explained as wrong from end to end."""
    along = (1 - axis, 2)
    count = known.sum(along, keepdims=True)
    mean = np.where(known, better, 0).sum(along, keepdims=True) / np.maximum(count, 1)
    # A coarse texture is badly predicted everywhere, a dead line is alone in it.
    return (count >= FEWEST) & (mean > 0.1) & (mean > _around(mean) + 1)


def _around(lines: Array) -> Array:
    """Return what is usual of the lines around each."""
    return median_filter(lines, tuple(AROUND if n > 1 else 1 for n in lines.shape))


def _peaks(density: Array) -> Array:
    """Return where a density over values stands out from those around."""
    around = median_filter(density, 15, mode="mirror")
    return (density > 4 * around + 1) & (density > 0.004 * BINS)


def density(error: Array, scale: Array | np.float32) -> Array:
    """Return Student's density with three degrees of freedom."""
    z = error / scale
    z *= z
    z *= np.float32(1 / 3)
    z += 1
    z *= z
    z *= scale
    return np.float32(2 / (np.pi * np.sqrt(3))) / z


def local_scale(square: Array, weight: Array, window: float = 3.0) -> Array:
    """Return the weighted mean of the squares around each value."""
    return blur(weight * square, window) / np.maximum(blur(weight, window), 0.02)


def blur(x: Array, window: float) -> Array:
    """Return x under a Gaussian window, channel by channel."""
    return gaussian_filter(x, (window, window, 0), truncate=3.0)


def local_mode(y: Array, known: Array, odds: Array) -> Array:
    """Return the most likely level around each value, the value itself left out.

    A level is as likely as the sum of ``log(1 + odds · density)`` over a window says.
    Medians fail once half of the values are wrong; the mode does not. The window is the
    one under which values are best predicted where they are.
    """
    channels = range(y.shape[2])
    with ThreadPoolExecutor(min(joblib.cpu_count(), 4)) as pool:
        planes = pool.map(lambda c: _mode(y[..., c], odds[..., c]), channels)
        out = np.stack(list(planes), axis=2)
    seen = gaussian_filter(known.astype(np.float32), (2.5, 2.5, 0), truncate=2) > 0.05
    return out if seen.all() else spread(out, seen)


def _mode(y: Array, odds: Array) -> Array:
    scale = np.float32(0.04)
    levels = ((np.arange(LEVELS) + 0.5) / LEVELS).astype(np.float32)
    votes = np.stack([np.log1p(odds * density(y - level, scale)) for level in levels])
    best = np.full(y.shape, -np.inf, np.float32)
    out = np.empty_like(y)
    heard = np.empty_like(votes)
    for window in WINDOWS:
        for vote, sums in zip(votes, heard, strict=True):
            gaussian_filter(vote, window, truncate=2.5, output=sums)
        heard -= _centre(window) * votes
        top = np.clip(heard.argmax(0), 1, LEVELS - 2)[None]
        below, here, above = (
            np.take_along_axis(heard, top + step, 0)[0] for step in (-1, 0, 1)
        )
        bend = np.minimum(below - 2 * here + above, -1e-6)
        x = (top[0] + 0.5 + np.clip((below - above) / (2 * bend), -1.2, 1.2)) / LEVELS
        x = x.astype(np.float32)
        score = gaussian_filter(np.log1p(odds * density(y - x, scale)), 8.0, truncate=2)
        better = score > best
        best[better] = score[better]
        out[better] = x[better]
    return out


def _centre(window: float) -> np.float32:
    """Return the weight that a Gaussian window gives to its own pixel."""
    reach = int(2.5 * window + 0.5)
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * window**2))
    return np.float32((1 / kernel.sum()) ** 2)


def detect(
    y: Array, known: Array, judge: Judge, proceed: Callable[[Array, Array], bool]
) -> tuple[Array, Array]:
    """Alternate between a smooth image and who is to be believed.

    The plate starts stiff and softens; each value is judged by how well the others
    predict it.

    Parameters
    ----------
    y, known : ndarray of shape (rows, columns, channels)
        The image on [0, 1] in single precision, and what may be looked at.
    judge : Judge
        Learns the share and the values of the corruption.
    proceed : callable
        Told the estimate and the weights after each round; says whether to go on.

    Returns
    -------
    x, weight : ndarray
        The smooth image and the probability of being clean.
    """
    x = local_mode(y, known, judge.odds())
    scale = np.full(y.shape, 0.05, np.float32)
    weight = judge.weigh(y - x, scale, rounds=1)
    P = coupling(x)
    for round_, stiffness in enumerate(STIFFNESS):
        error = y - x
        if round_:
            own = weight * leverage(blur(weight, 1.5), stiffness, P)
            error /= np.maximum(1 - own, 0.1)
            square = local_scale(np.minimum(error**2, 9 * scale**2), weight)
        else:
            square = np.minimum(error**2, 9 * scale**2)
            mean = float((weight * square).sum() / max(float(weight.sum()), 1e-6))
            square = np.full(y.shape, mean, np.float32)
        scale = np.float32(0.8) * np.sqrt(square + np.float32(FLOOR**2))
        weight = judge.weigh(error, scale)
        softer = STIFFNESS[min(round_ + 1, len(STIFFNESS) - 1)]
        x = smooth(y, weight, softer, P, x)
        P = coupling(x)
        if not proceed(x, weight):
            break
    return x, weight
