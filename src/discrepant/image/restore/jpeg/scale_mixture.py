"""How far values lie from the picture: a mixture of scales, learned from the errors.

Rounding strays by little, ringing by more, impulses by far. Each value's error is drawn
from a normal law around its prediction whose variance is one of a ladder; how often
each rung is used is learned. From it follows how much a value tells of the picture.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from discrepant.core.linalg import Array


@dataclass(frozen=True)
class Tuning:
    """How the mixture is learned.

    Attributes
    ----------
    ratio : float
        From one variance to the next: a factor of 2 in the standard deviation. An
        error twice as large is about as likely under either.
    rounds : int
        Of expectation and maximisation; the shares settle to 1% in some ten.
    samples : int
        Values that they are learned from, evenly taken, at least.
    least : float
        Share of a rung that is never used.
    """

    ratio: float = 4.0
    rounds: int = 20
    samples: int = 40_000
    least: float = 1e-6


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known of one plane's errors.

    Attributes
    ----------
    variances : ndarray of shape (rungs,)
        The ladder, from that of a clean value up.
    shares : ndarray of shape (rungs,)
        How often each is used.
    belongs : ndarray of shape (rungs, rows, columns)
        The probability that a value was drawn with each.
    fit : float
        The mean logarithm of the likelihood of a value, but for a constant.
    """

    variances: Array
    shares: Array
    belongs: Array
    fit: float

    @classmethod
    def of(
        cls, error: Array, doubt: Array, finest: float, kind: Array | None = None
    ) -> "Spread":
        """Learn from errors, of predictions that have themselves a variance.

        ``finest`` is the variance of a clean value around the truth; the ladder ends
        below that of anything between 0 and 1. Values of each ``kind``, an integer,
        have shares of their own; the overall ones are handed out.
        """
        if kind is not None:
            return cls._by_kind(error, doubt, finest, kind)
        rungs = int(np.log(1 / finest) / np.log(TUNING.ratio)) + 1
        ladder = (finest * TUNING.ratio ** np.arange(rungs)).astype(np.float32)
        every = max(error.size // TUNING.samples, 1)
        likely = _likelihood(error.ravel()[::every], doubt.ravel()[::every], ladder)
        shares = np.full(rungs, 1 / rungs, np.float32)
        for _ in range(TUNING.rounds):
            belongs = _normal(likely * shares[:, None])
            shares = np.maximum(belongs.mean(axis=1), TUNING.least)
        log = _log_likelihood(error, doubt, ladder)
        log += np.log(shares).reshape(-1, *(1,) * error.ndim)
        whole = logsumexp(log, axis=0)
        return cls(ladder, shares, np.exp(log - whole), float(whole.mean()))

    @classmethod
    def _by_kind(
        cls, error: Array, doubt: Array, finest: float, kind: Array
    ) -> "Spread":
        belongs, ladder, fit = None, np.empty(0), 0.0
        for each in np.unique(kind):
            where = kind == each
            part = cls.of(error[where], doubt[where], finest)
            if belongs is None:
                ladder = part.variances
                belongs = np.empty((len(ladder), *error.shape), np.float32)
            belongs[:, where] = part.belongs
            fit += part.fit * where.mean()
        assert belongs is not None  # there is at least one kind
        shares = belongs.mean(axis=tuple(range(1, belongs.ndim)))
        return cls(ladder, shares, belongs, float(fit))

    @property
    def precision(self) -> Array:
        """The mean precision of each value as an observation of the picture."""
        found: Array = np.tensordot(1 / self.variances, self.belongs, 1)
        return found

    @property
    def clean(self) -> Array:
        """The probability of each value to stray by no more than the finest."""
        found: Array = self.belongs[0]
        return found


def _likelihood(error: Array, doubt: Array, ladder: Array) -> Array:
    """Return the normal densities under each rung, over the largest of them."""
    log = _log_likelihood(error, doubt, ladder)
    found: Array = np.exp(log - log.max(axis=0))
    return found


def _log_likelihood(error: Array, doubt: Array, ladder: Array) -> Array:
    """Return the logarithms of the normal densities under each rung."""
    total = doubt + ladder.reshape(-1, *(1,) * doubt.ndim)
    log: Array = -0.5 * (np.log(total) + error**2 / total)
    return log


def _normal(likely: Array) -> Array:
    """Return likelihoods as probabilities."""
    found: Array = likely / likely.sum(axis=0)
    return found
