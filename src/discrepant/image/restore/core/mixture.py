"""The learned side of the mixture: how likely each value is to be a corrupted one.

Every value is a mixture. Clean, it lies near what its surroundings predict, with heavy
tails and a local scale (`likelihood`). Corrupted, it may be anything, evenly from 0 to
1, and more often at values that turn out corrupted often. How often is learned: from
who is clean follow the odds, and from the odds who is clean. So a lone hot value, a 0
or a 1 that is everywhere, and a value drawn at random are all found by the same rule,
and the share of corruption comes out of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import median_filter

from discrepant.core.linalg import Array
from discrepant.image.restore.core.lines import (
    blank_lines,
    unexplained_lines,
    without_border,
)
from discrepant.image.restore.core.residual_scale import density

SURE = np.float32(1e4)  # odds of a value that is clean beyond doubt
BINS = 256  # of values: those of the commonest kind of image


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/restore.py --tuning` tries again.

    Attributes
    ----------
    share : float
        The share of corruption to begin with: neither side is the likelier.
    least_share, most_share : float
        The learned share stays between: at 0 or 1 nothing could be learned any more.
    sharpest : float
        Highest density of a peak among the corrupted values. Student's density
        reaches it, ``0.37 / scale``, where the scale is 0.012: a value that well
        predicted is kept even if it is the commonest of the corrupted ones.
    flattest : float
        Lowest density of the corrupted values apart from their peaks.
    few_share : float
        An image of which less lies beside peaks has few values (a drawing, a mask):
        its peaks tell nothing.
    pseudo_counts : float
        A bin's rate of corruption begins at the share as if so many values had been
        seen there; and its rate in one channel at that in all.
    peak_window : int
        Bins over which the usual density around a bin is a median.
    peak_ratio, peak_offset : float
        A peak stands above ``peak_ratio`` times the usual plus ``peak_offset``.
    peak_share : float
        And it holds this share of all values, about its even share of 1/256.
    block, enough : int
        Rows and columns of the blocks in which a value that stands out is counted;
        larger, so that this many of those that stand out fall into one:
    everywhere : float
        its share in a block of the poorest quarter over the share that stands out, at
        least. Corruption falls everywhere; a black ground is black in its own place.
    rounds : int
        How often odds and probabilities follow from one another before the next
        prediction is made.
    """

    share: float = 0.5
    least_share: float = 1e-4
    most_share: float = 0.95
    sharpest: float = 30.0
    flattest: float = 0.01
    few_share: float = 0.1
    pseudo_counts: float = 20.0
    peak_window: int = 15
    peak_ratio: float = 4.0
    peak_offset: float = 1.0
    peak_share: float = 0.004
    block: int = 32
    enough: int = 16
    everywhere: float = 0.3
    rounds: int = 3


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Belief:
    """What is held of the corruption before a value is compared with its surroundings.

    Attributes
    ----------
    share : float
        How much is corrupted.
    odds : ndarray of shape (BINS,) or (channels, BINS)
        The corrupt-to-clean odds of a value in each bin: those of the share, and more
        at single values that stand out; in each channel as its clean values allow.
    """

    share: float
    odds: Array


class Judge:
    """Says how likely each value of an image is to be clean, and learns from it.

    Parameters
    ----------
    y : ndarray of shape (rows, columns, channels)
        The image on [0, 1].
    known : ndarray of bool
        The values that may be looked at; the others are corrupted.
    counted : ndarray of bool, optional
        The values among which common ones are looked for; by default the known ones.
    sure : ndarray of bool, optional
        The values that are clean beyond doubt, and teach nothing.
    belief : Belief, optional
        What to begin with, for instance what was learned from another part of the same
        picture; by default, that values which turn up everywhere are suspect.

    Attributes
    ----------
    belief : Belief
        What is held now.
    dead : ndarray of bool, of shape (rows, columns, 1)
        The rows and columns that are corrupted as a whole.
    """

    def __init__(
        self,
        y: Array,
        known: Array,
        *,
        counted: Array | None = None,
        sure: Array | None = None,
        belief: Belief | None = None,
    ) -> None:
        self.known = known
        self._sure = np.zeros_like(known) if sure is None else known & sure
        self._open = known & ~self._sure
        counted = self._open if counted is None else counted
        self.dead = np.zeros((*y.shape[:2], 1), bool)
        self._y = y
        self._bin = _binned(y)
        self._place = self._bin + BINS * np.arange(y.shape[2], dtype=np.int32)
        self._counts = self._counted(counted)
        counts = self._counts.sum(axis=0)
        common = counts * BINS / max(counts.sum(), 1)
        self._poor: dict[tuple[int, int], float] = {}
        peak = self._standing_out(common, counts)
        self._few = common[~peak].sum() < TUNING.few_share * common.sum()
        if belief is None:
            suspect = np.minimum(common, TUNING.sharpest)
            odds = np.where(peak & ~self._few, suspect, 1)
            belief = Belief(TUNING.share, odds)
        self.belief = belief

    @cached_property
    def _blank(self) -> list[Array]:
        """The rows, and the columns, that show nothing and are no frame."""
        found = []
        for axis in (0, 1):
            constant, random = blank_lines(self._y, self.known, axis)
            found.append(without_border(constant) | random)
        return found

    def _counted(self, weight: Array) -> Array:
        """Return how much weight each bin of each channel has."""
        bins = self._bin.shape[2] * BINS
        counts = np.bincount(self._place.ravel(), weight.ravel(), bins)
        return counts.reshape(-1, BINS)

    def _odds(self) -> Array:
        """Return the odds of each bin of each channel."""
        return np.broadcast_to(self.belief.odds, self._counts.shape)

    def _standing_out(self, density: Array, counts: Array) -> Array:
        """Return which bins of a density stand out, of values that are everywhere.

        ``counts`` are how many make up the density.
        """
        peak = _peaks(density)
        for number in np.nonzero(peak)[0].tolist():
            share = float(counts[number]) / self._bin.size
            side = _side(share * self._bin.shape[2])
            if (number, side) not in self._poor:
                self._poor[number, side] = _poor(self._bin == number, side)
            peak[number] = self._poor[number, side] >= TUNING.everywhere * share
        return peak

    def clean_odds(self) -> Array:
        """Return the clean-to-corrupt odds of each value, but for its likelihood."""
        odds: Array = (1 / self._odds().ravel()).astype(np.float32)[self._place]
        odds[self._sure] = SURE
        odds[~self.known | self.dead] = 0
        return odds

    def weigh(self, error: Array, scale: Array, rounds: int | None = None) -> Array:
        """Return the probability that each value is clean, and learn from it.

        ``error`` is how far each value lies from its prediction, ``scale`` how far a
        clean one usually does.
        """
        likelihood = density(error, scale)
        # How much likelier a value is if it is one of many wrong ones (of density 1).
        share = self.belief.share
        better = -np.log((1 - share) * likelihood + share)
        rows, columns = (
            unexplained_lines(better, self.known, axis) & blank
            for axis, blank in enumerate(self._blank)
        )
        self.dead = rows | columns
        return self.learn(likelihood, TUNING.rounds if rounds is None else rounds)

    def learn(self, likelihood: Array, rounds: int = TUNING.rounds) -> Array:
        """Return the same from how likely each value would be if it were clean."""
        state = self._state()
        for _ in range(rounds):
            weight, wrong = self._posterior(likelihood, state)
            self.belief = self._learned(wrong)
        return weight

    def weighed(self, error: Array, scale: Array) -> Array:
        """Return the same, and learn nothing."""
        return self._posterior(density(error, scale), self._state())[0]

    def drawn(self, weight: Array, where: Array) -> Array:
        """Return as many values as there are, drawn from those that are corrupted."""
        wrong = np.cumsum(1 - weight[where], dtype=np.float64)
        at = np.random.default_rng(0).random(len(wrong)) * wrong[-1]
        found: Array = self._y[where][np.searchsorted(wrong, at)]
        return found

    def peaked(self, values: Array) -> Array:
        """Return which values have a level at which corruption stands out."""
        odds = self._odds()
        found: Array = (odds > 2 * np.median(odds)).any(axis=0)[_binned(values)]
        return found

    def weighed_as(
        self, values: Array, error: Array, scale: Array, where: Array
    ) -> Array:
        """Return what would be said of other values in the place of those there."""
        error = error + values - self._y[where]
        odds = self._odds()[np.nonzero(where)[2], _binned(values)]
        weight = density(error, scale) / odds
        found: Array = weight / (1 + weight)
        return found

    def _state(self) -> Array:
        """Return 0 where a value is corrupt, 1 where it is open, 2 where it is sure."""
        state: Array = np.where(self.dead, 0, self.known.astype(np.uint8) + self._sure)
        return state.astype(np.uint8)

    def _posterior(self, likelihood: Array, state: Array) -> tuple[Array, Array]:
        """Return who is clean, and how many of each channel and bin are not."""
        from discrepant.image.restore.core.kernels import posterior

        odds = np.append(1 / self._odds(), SURE).astype(np.float32)
        weight, wrong = np.empty(likelihood.shape, np.float32), np.zeros(len(odds) - 1)
        seen, bins = np.ascontiguousarray(likelihood).ravel(), self._place.ravel()
        posterior(seen, bins, odds, state.ravel(), weight.ravel(), wrong)
        return weight, wrong.reshape(-1, BINS)

    def learned(self, weight: Array) -> Belief:
        """Return what follows from how likely each value is to be clean."""
        wrong = np.where(self._open & ~self.dead, 1 - weight, 0)
        return self._learned(self._counted(wrong))

    def _learned(self, counts: Array) -> Belief:
        """Return what follows from how many of each channel and bin are corrupt."""
        total = max(float(self._counts.sum()), 1)
        share = counts.sum() / total
        share = float(np.clip(share, TUNING.least_share, TUNING.most_share))
        both = counts.sum(axis=0)
        among_wrong = both * BINS / max(float(both.sum()), 1e-9)
        peak = self._standing_out(among_wrong, both) & ~self._few
        flat = max(float(among_wrong[~peak].sum()) / BINS, TUNING.flattest)
        # A value that is common among clean ones too is no hint of corruption: in its
        # own channel, since the blue of a sky is full where its red is not.
        rate = _rate(both, self._counts.sum(axis=0), share)
        rate = _rate(counts, self._counts, rate)
        special = np.where(peak, rate * np.minimum(among_wrong, TUNING.sharpest), 0)
        return Belief(share, (flat + special) * share / (1 - share))


def _rate(wrong: Array, counts: Array, before: Array | float) -> Array:
    """Return which share of each bin is wrong, from what was held before."""
    found: Array = (wrong + TUNING.pseudo_counts * before) / (
        counts + TUNING.pseudo_counts
    )
    return found


def _binned(y: Array) -> Array:
    """Return which bin each value lies in."""
    bins: Array = np.clip((y * BINS).astype(np.int16), 0, BINS - 1)
    return bins


def _side(share: float) -> int:
    """Return the side of blocks of which each holds enough, at so many a pixel."""
    side = TUNING.block
    while side**2 * share < TUNING.enough:
        side *= 2
    return side


def _poor(where: Array, side: int) -> float:
    """Return the share of what is in some places in blocks that have little of it."""
    rows, columns = (m // side for m in where.shape[:2])
    if not rows or not columns:
        return 1.0
    inner = where[: rows * side, : columns * side]
    shares = inner.reshape(rows, side, columns, -1).mean(axis=(1, 3))
    return float(np.quantile(shares, 0.25))


def _peaks(density: Array) -> Array:
    """Return which bins of a density over values stand out from those around."""
    usual = median_filter(density, TUNING.peak_window, mode="mirror")
    above = density > TUNING.peak_ratio * usual + TUNING.peak_offset
    found: Array = above & (density > TUNING.peak_share * BINS)
    return found
