"""Noise on every measurement: its size, which are wrong, and the fit without those.

Least squares on the measurements that are not flagged has no shrinkage to undo, and is
the best that can be done where the flags are right. Flags are set at a false discovery
rate (Benjamini and Hochberg), from the size of the noise that the fit leaves; both and
the fit are repeated until they stand.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import erfc

from discrepant.core.linalg import Array
from discrepant.fixed_rank.least_squares import fit
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.pursuit import (
    Fit,
    Rounds,
    left_behind,
    pruned,
    reconsidered,
    scale_of,
    unseen,
)
from discrepant.fixed_rank.tangent_space import FixedRankMatrix

ROUNDS = 12  # of flags and fits, at the most
STEPS, ACCURATE = 15, 1e-4  # of conjugate gradients a round
STANDS = 1e-2  # of the noise: a residual that moves by less has come to rest
LOOKS = (1.0, 0.5, 0.1)  # quantiles of flagged residuals that are believed once more
HELD_OUT = 0.1  # of the measurements are left out to see whether the rest predicts them


@dataclass(frozen=True)
class Noisy:
    """A fit at the level of the noise."""

    at: FixedRankMatrix
    e: Array  # y − A(X)
    sigma: float  # standard deviation of the noise, of each part if complex
    wrong: Array  # which measurements are flagged
    probability: Array  # that each is wrong
    settled: bool
    hidden: float  # share of the largest component below which others are not seen
    held_out: float = np.inf  # the scale of measurements that the fit has not seen

    @property
    def expected(self) -> float:
        """What `held_out` should be, if the fit and its noise are right."""
        numbers = 2 if np.iscomplexobj(self.e) else 1
        right = numbers * float(np.sum(~self.wrong)) * (1 - HELD_OUT)
        taken = self.at.freedom / max(right, 1)
        return float(self.sigma / np.sqrt(max(1 - taken, 0.1)))


def fit_noise(
    A: Measurements,
    found: Fit,
    sigma: float | None,
    fdr: float,
    rng: np.random.Generator,
    log: Rounds,
) -> Noisy:
    """Refit a pursuit that is at rest, on the measurements that are not wrong."""
    told, e = sigma, found.e
    spread = found.scale if told is None else told
    wrong = flags(e, spread, fdr)
    at = pruned(A, found, (~wrong).astype(float), rng)
    if at.rank < found.at.rank:
        e = A.y - A.forward(*at.factors)
    settled = False
    for _ in range(ROUNDS):
        at = fit(A, at, (~wrong).astype(float), e, STEPS, ACCURATE)
        before, e = e, A.y - A.forward(*at.factors)
        spread = _spread(e, wrong, at) if told is None else told
        flagged = flags(e, spread, fdr)
        moved = float(np.sqrt(np.mean(np.abs(e - before) ** 2)))
        settled = moved <= STANDS * spread
        wrong = flagged
        if not log.note("noise", at, e, A) or settled:
            break
    hidden = unseen(A, replace(found, at=at, e=e), (~wrong).astype(float), rng)
    chance = _probability(e, spread, wrong)
    return Noisy(at, e, spread, wrong, chance, settled, hidden)


def with_flagged(
    A: Measurements, found: Fit, fdr: float, rng: np.random.Generator, log: Rounds
) -> Fit:
    """Return a fit at rest after a second look at what it takes for wrong."""
    wrong = flags(found.e, found.scale, fdr)
    if not left_behind(A, found.at, found.e, wrong, rng):
        return found
    # All that is wrong once, then what is so by less: an error that is huge pulls the
    # line that it is in away from the others.
    for quantile in LOOKS:
        reach = float(np.quantile(np.abs(found.e[wrong]), quantile))
        again = reconsidered(A, found, reach, rng, log)
        believed = flags(again.e, again.scale, fdr)
        if believed.sum() < wrong.sum():
            found, wrong = again, believed
        if found.exact or not wrong.any():
            break
    return found


def predicts(A: Measurements, noisy: Noisy, rng: np.random.Generator) -> float:
    """Return how far held-out measurements lie from what the others say of them."""
    right = np.flatnonzero(~noisy.wrong)
    out = rng.choice(right, max(1, round(HELD_OUT * len(right))), replace=False)
    weights = (~noisy.wrong).astype(float)
    weights[out] = 0.0
    at, e = noisy.at, noisy.e
    for _ in range(2):
        at = fit(A, at, weights, e, STEPS, ACCURATE)
        e = A.y - A.forward(*at.factors)
    return scale_of(e[out])


def _spread(e: Array, wrong: Array, at: FixedRankMatrix) -> float:
    """Return the noise of measurements that are not flagged, less what X has taken."""
    right = e[~wrong]
    numbers = right.size * (2 if np.iscomplexobj(e) else 1)
    left = max(numbers - at.freedom, 0.1 * numbers, 1)
    return float(np.sqrt(np.sum(np.abs(right) ** 2) / left))


def flags(e: Array, sigma: float, fdr: float) -> Array:
    """Return the residuals too large for the noise, at a false discovery rate."""
    z = np.abs(e) / (sigma or 1.0)
    chance = np.exp(-(z**2) / 2) if np.iscomplexobj(e) else erfc(z / np.sqrt(2))
    ordered = np.sort(chance)
    passed = np.flatnonzero(ordered <= fdr * np.arange(1, z.size + 1) / z.size)
    limit = ordered[passed[-1]] if passed.size else -1.0
    return np.asarray(chance <= limit)


def _probability(e: Array, sigma: float, wrong: Array) -> Array:
    """Return the probability of each residual to be wrong.

    By a mixture of the noise and of normal errors of their own size, both learned.
    """
    numbers = 2 if np.iscomplexobj(e) else 1
    square = np.abs(e) ** 2 / numbers
    noise = sigma**2 or np.finfo(float).tiny
    share = max(float(wrong.mean()), 0.5 / e.size)
    size = float(square[wrong].mean()) if wrong.any() else 100 * noise
    odds = np.zeros(e.size)
    for _ in range(20):
        size = max(size, 4 * noise)
        ratio = numbers / 2 * (square / noise - square / size - np.log(size / noise))
        odds = np.log(share / (1 - share)) + ratio
        p = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        share = min(max(float(p.mean()), 0.5 / e.size), 0.9)
        size = float(p @ square / p.sum())
    return np.asarray(p)
