"""Tables of many columns: a low rank and noise of its own in each, not a covariance.

The covariance of p columns has p² / 2 numbers to learn, and a search over sets of cells
costs p² a step. Beyond some eighty columns a low-rank part with noise (`RobustPCA`)
says the same with fewer: a row is then a robust regression on the components, and a
cell is judged by its distance from it, as if it had been left out.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.model import residual_mixture as tails
from discrepant.table.model.gaussian_model import Found, Part


@dataclass(frozen=True)
class Tuning:
    """Limits and rounds."""

    columns: int = 80  # from there on a step of the search costs 6400 multiplications
    least_noise: float = 1e-3  # spreads; below it columns are copies of each other
    rounds: int = 4  # of shares and tails, given the components
    refits: int = 3  # of a row's coordinates, given the odds of its cells
    first_share: float = 0.05
    most_share: float = 0.2
    least_share: float = 5e-4
    most_leverage: float = 0.9  # beyond, a cell decides by itself what it should be


TUNING = Tuning()
HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Wide:
    """Components and noise of rows in standard units; tails and shares by column."""

    centre: Array  # (p,)
    components: Array  # (r, p)
    sigma: Array  # (p,)
    width: Array  # (p,)
    weights: Array  # (p, 3)
    share: Array  # (p,)
    signal: Array  # (p,), variance of the low-rank part

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.components)

    @property
    def explained(self) -> Array:
        """Share of each column's variance that the others explain."""
        return np.asarray(self.signal / (self.signal + self.sigma**2))

    @property
    def stretch(self) -> Array:
        """Factor from the variance of a clean cell to the square of its width."""
        return np.asarray(self.width**2)

    @property
    def spared(self) -> Array:
        """Nothing is taken off: cells are judged by the noise itself."""
        return np.zeros(len(self.sigma))

    @property
    def deviation(self) -> Array:
        """Spread of a clean cell around what the others say of it, standard units."""
        heaviness = (self.weights * tails.RATIOS**2).sum(axis=1)
        return np.asarray(self.sigma * self.width * np.sqrt(heaviness))

    def judge(self, part: Part) -> Found:
        """Judge every row by itself."""
        seen = ~part.missing
        Y = np.where(seen, part.X - self.centre, np.nan) / self.sigma
        y = np.where(seen, Y, 0.0)
        X = (self.components / self.sigma).T  # (p, r)
        pairs = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        ridge = 1e-9 * np.trace(X.T @ X) * np.eye(self.rank)
        coordinates = _start(Y, X)
        clean = seen.astype(np.float64)
        score = np.zeros(Y.shape)
        for step in range(TUNING.refits + 1):
            if step:
                clean = np.where(seen, 1 / (1 + np.exp(np.clip(score, -50, 50))), 0.0)
                G = (clean @ pairs).reshape(len(Y), self.rank, self.rank) + ridge
                H = np.linalg.inv(G)
                coordinates = np.einsum("nab,nb->na", H, (clean * y) @ X)
                own = np.einsum("ja,nab,jb->nj", X, H, X, optimize=True)
            else:
                own = np.zeros(Y.shape)
            leverage = np.clip(clean * own, 0.0, TUNING.most_leverage)
            away = self.sigma * (y - coordinates @ X.T) / (1 - leverage)
            kept = self.sigma**2 / (1 - leverage)
            variance = np.where(clean > 0.5, kept, self.sigma**2 * (1 + own))
            score = self._odds(part, away, variance)
        out = seen & (score > 0)
        return Found(out, score, away, variance, np.zeros(0), np.zeros(0))

    def _odds(self, part: Part, away: Array, variance: Array) -> Array:
        """Log odds of each cell, as in `kernels.one_odds`."""
        prior = tails.log_broad(part.X) + np.log(self.share / (1 - self.share))
        square = variance * self.stretch + part.grain**2
        half = 0.5 * away**2 / square
        w = self.weights.T
        total = w[2] / 4 + w[1] / 2 * np.exp(-half * (1 / 4 - 1 / 16))
        total += w[0] * np.exp(-half * (1 - 1 / 16))
        odds = prior - part.excuse - np.log(total) + half / 16
        return np.asarray(odds + 0.5 * np.log(square) + HALF_LOG_2PI)


def _start(Y: Array, X: Array) -> Array:
    """Give coordinates that half of a row cannot mislead."""
    from discrepant.robust_pca.noisy.lines import regress

    if not X.shape[1]:
        return np.zeros((len(Y), 0))
    return np.asarray(regress(Y, X)[0] / np.linalg.norm(X, axis=0))


def learn_wide(part: Part, seed: int) -> Wide:
    """Fit the components and the noise, then tails and shares of wrong cells."""
    from discrepant.robust_pca.estimator import RobustPCA

    n, p = part.X.shape
    Y = np.where(part.missing, np.nan, part.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is judged here once more
        pca = RobustPCA(noise="column", random_state=seed).fit(Y)
    noise = np.broadcast_to(np.asarray(pca.noise_, np.float64), (p,))
    scaled = pca.components_ * (pca.singular_values_ / np.sqrt(n))[:, None]
    model = Wide(
        centre=np.zeros(p),
        components=np.asarray(pca.components_, np.float64),
        sigma=np.maximum(noise, TUNING.least_noise),
        width=np.ones(p),
        weights=np.tile(tails.SHAPES[1], (p, 1)),
        share=np.full(p, TUNING.first_share),
        signal=np.asarray((scaled**2).sum(axis=0), np.float64),
    )
    seen = ~part.missing
    for _ in range(TUNING.rounds):
        found = model.judge(part)
        chance = np.where(seen, 1 / (1 + np.exp(-np.clip(found.score, -50, 50))), 0.0)
        count = np.maximum(seen.sum(axis=0), 1)
        overall = (chance.sum() + 1) / (seen.sum() + 50)
        share = (chance.sum(axis=0) + count * overall) / (2 * count)
        share = np.clip(share, TUNING.least_share, TUNING.most_share)
        deviation = np.sqrt(found.variance)
        rival = tails.log_broad(part.X) + np.log(deviation)
        width, weights = tails.fit(found.away / deviation, rival, seen, share)
        model = replace(model, width=width, weights=weights, share=share)
    return model
