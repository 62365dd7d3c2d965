"""What rows are like: one covariance, and how far clean cells stray from it.

Rows are normal in standard units; a cell is wrong with a small probability, and then
anywhere. The sets of wrong cells (`kernels`), the covariance of the rest and the tails
of its residuals (`tails`) are found in turn.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discrepant.core.linalg import Array
from discrepant.table.model import residual_mixture as tails


@dataclass(frozen=True)
class Tuning:
    """Chosen on the development tables of ``python benchmarks/tables.py dev``."""

    # Shares of the diagonal that the covariance is shrunk by; one is chosen by how
    # well it predicts the kept cells of rows that were held out.
    shrinkage: tuple[float, ...] = (
        *(1e-4, 5e-4, 0.002, 0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.75, 1.0),
    )
    folds: int = 5
    clip: float = 2.0  # spreads at which values are clipped for the first covariance
    blend: float = 0.1  # of the identity in that covariance
    first_share: float = 0.05  # of wrong cells, before any was judged
    prior_cells: float = 20.0  # cells, and times the column's own, by which the share
    prior_share: float = 1.0  # of wrong cells in a column leans on that of the table
    most_share: float = 0.2
    least_share: float = 5e-4
    beyond: float = 5.0  # spreads from which a cell begins as wrong
    central: float = 0.95  # share of the held-out residuals whose spread is compared
    most_inflation: float = 2.0
    block: int = 512  # rows judged in one piece, whatever the number of threads


TUNING = Tuning()
NEVER = 1e6  # an excuse that no odds outweigh


class Part(NamedTuple):
    """The modelled columns in standard units (missing cells are 0 there)."""

    X: Array  # (n, p)
    missing: Array  # bool
    excuse: Array  # log odds for a cell's being right, before its company is heard
    grain: Array  # (p,), see `Column`


class Found(NamedTuple):
    """What `kernels.search` gives."""

    out: Array
    score: Array
    away: Array
    variance: Array
    moments: Array
    sums: Array


@dataclass(frozen=True, eq=False)
class Model:
    """Centre and precision of rows; width, tails and share of wrong cells by column."""

    centre: Array  # (p,)
    precision: Array  # (p, p)
    width: Array  # (p,), times what the covariance says
    weights: Array  # (p, 3), of the tails
    share: Array  # (p,)
    shrinkage: float
    inflation: Array  # (p,), how much wider held-out residuals are than fitted ones
    per_row: float  # 1 / rows that it was learnt from

    def judge(self, part: Part) -> Found:
        """Judge every row by itself."""
        return judge(part, self)

    @property
    def stretch(self) -> Array:
        """Factor from the variance of a clean cell to the square of its width."""
        return np.asarray(np.maximum(self._ratio, 1.0) / self._heaviness)

    @property
    def spared(self) -> Array:
        """What is taken off that square, where clean cells stray less than it says.

        They do so where all others are heard. With one of them missing the variance
        is larger, and only the difference can be trusted: of two columns that are the
        same but for noise, either is hard to tell without the other.
        """
        less = 1 - np.minimum(self._ratio, 1.0)
        return np.asarray(less / (np.diag(self.precision) * self._heaviness))

    @property
    def _heaviness(self) -> Array:
        """Variance of a clean cell over the square of its width."""
        return np.asarray((self.weights * tails.RATIOS**2).sum(axis=1))

    @property
    def _ratio(self) -> Array:
        """Variance of clean cells over what the covariance says of it."""
        return np.asarray(self.width**2 * self._heaviness)

    @property
    def explained(self) -> Array:
        """Share of each column's variance that the others explain."""
        S = np.linalg.inv(self.precision)
        return np.asarray(1 - 1 / (np.diag(S) * np.diag(self.precision)))

    @property
    def deviation(self) -> Array:
        """Spread of a clean cell around what the others say of it, standard units."""
        return np.asarray(np.sqrt(self._ratio / np.diag(self.precision)))

    @property
    def rank(self) -> int:
        """Number of directions whose variance is above that of independent columns.

        The edge is Marchenko and Pastur's, (1 + √(p/n))², of the correlations.
        """
        S = np.linalg.inv(self.precision)
        scale = np.sqrt(np.diag(S))
        p = len(S)
        edge = (1 + np.sqrt(p * self.per_row)) ** 2
        return int(np.sum(np.linalg.eigvalsh(S / np.outer(scale, scale)) > edge))


def learn(part: Part, rounds: int, model: Model | None, n_jobs: int) -> Model:
    """Judge cells and learn from the rest, in turn."""
    model = start(part) if model is None else model
    for step in range(rounds):
        found = judge(part, model, n_jobs, TUNING.folds)
        last = step % 2 == 1 or step == rounds - 1
        update = _update(part, found, model, last)
        if not np.isfinite(update.precision).all():
            break  # columns that are sums of others, to rounding: the last one stands
        model = update
    return model


def start(part: Part) -> Model:
    """Start from the correlations of clipped values."""
    n, p = part.X.shape
    clipped = np.where(part.missing, 0.0, np.clip(part.X, -TUNING.clip, TUNING.clip))
    S = clipped.T @ clipped / n
    scale = np.sqrt(np.maximum(np.diag(S), 1e-6))
    R = (1 - TUNING.blend) * S / np.outer(scale, scale) + TUNING.blend * np.eye(p)
    return Model(
        centre=np.zeros(p),
        precision=np.linalg.inv(R),
        width=np.ones(p),
        weights=np.tile(tails.SHAPES[1], (p, 1)),
        share=np.full(p, TUNING.first_share),
        shrinkage=TUNING.blend,
        inflation=np.ones(p),
        per_row=1 / n,
    )


def judge(part: Part, model: Model, n_jobs: int = 1, folds: int = 0) -> Found:
    """Search every row under a model."""
    from discrepant.table.model.cell_search import search

    X, missing = part.X, part.missing
    prior = tails.log_broad(X) + np.log(model.share / (1 - model.share))
    prior -= part.excuse
    start = (np.abs(X) > TUNING.beyond) & ~missing & (part.excuse < NEVER / 2)
    centred = X - model.centre
    beside = part.grain**2 - model.spared
    # Copies: a model that was read from a file may be read-only, which is another type
    # of array, for which the search would be compiled anew.
    K, weights = model.precision.copy(), model.weights.copy()
    fold = folds_of(part) if folds else np.zeros(len(X), np.int64)

    def block(at: slice) -> Found:
        return Found(
            *search(
                *(centred[at], missing[at], prior[at], K, model.stretch),
                *(beside, weights, start[at], fold[at], folds),
                model.per_row,
            )
        )

    blocks = [slice(i, i + TUNING.block) for i in range(0, len(X), TUNING.block)]
    if n_jobs == 1 or len(blocks) == 1:
        found = [block(at) for at in blocks]
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            found = list(pool.map(block, blocks))
    if len(found) == 1:
        return found[0]
    cells = (np.concatenate([f[k] for f in found]) for k in range(4))
    moments = np.sum([f.moments for f in found], axis=0)
    return Found(*cells, moments, np.sum([f.sums for f in found], axis=0))  # type: ignore[call-arg]


def folds_of(part: Part) -> Array:
    """Deal the rows to folds by their size, whatever order they and columns are in."""
    size = np.where(part.missing, 0.0, np.clip(part.X, -5, 5)).sum(axis=1)
    dealt = np.empty(len(size), np.int64)
    dealt[np.argsort(size, kind="stable")] = np.arange(len(size)) % TUNING.folds
    return dealt


def _update(part: Part, found: Found, model: Model, choose: bool) -> Model:
    X, seen = part.X, ~part.missing
    judged = (seen & (part.excuse < NEVER / 2)).sum()
    score = np.clip(found.score, -50, 50)
    probability = np.where(seen, 1 / (1 + np.exp(-score)), 0.0)
    count = np.maximum(seen.sum(axis=0), 1)
    overall = (probability.sum() + 1.0) / (judged + 50.0)
    borrowed = TUNING.prior_cells + TUNING.prior_share * count
    share = (probability.sum(axis=0) + borrowed * overall) / (count + borrowed)
    most = min(2.5 * overall + 0.005, TUNING.most_share)
    share = np.clip(share, TUNING.least_share, most)
    deviation = np.sqrt(np.maximum(found.variance, 1e-12))
    width, weights = tails.fit(
        found.away / deviation, tails.log_broad(X) + np.log(deviation), seen, share
    )
    n = len(X)
    shift = found.sums.sum(axis=0) / n
    S = found.moments.sum(axis=0) / n - np.outer(shift, shift)
    shrinkage, inflation = model.shrinkage, model.inflation
    if choose:
        shrinkage, inflation = _choose_shrinkage(part, found, model)
    return Model(
        centre=model.centre + shift,
        precision=_inverse(S, shrinkage),
        width=width * inflation,
        weights=weights,
        share=share,
        shrinkage=shrinkage,
        inflation=inflation,
        per_row=model.per_row,
    )


def _inverse(S: Array, shrinkage: float) -> Array:
    S = (1 - shrinkage) * S + np.diag(shrinkage * np.diag(S) + 1e-9)
    return np.linalg.inv(S)


def _choose_shrinkage(part: Part, found: Found, model: Model) -> tuple[float, Array]:
    """Choose the shrinkage that predicts held-out rows' kept cells best.

    Also gives, column by column, how much wider held-out residuals are than fitted.
    """
    fold = folds_of(part)
    spreads = [_spread(part, found, model, a, fold) for a in TUNING.shrinkage]
    best = int(np.argmin([np.mean(np.log(spread)) for spread in spreads]))
    fitted = _spread(part, found, model, TUNING.shrinkage[best], None)
    inflation = np.clip(spreads[best] / fitted, 1.0, TUNING.most_inflation)
    return TUNING.shrinkage[best], inflation


def _spread(
    part: Part, found: Found, model: Model, amount: float, fold: Array | None
) -> Array:
    """Spread of each column's residuals, held out where folds are given."""
    X, gone = part.X, found.out | part.missing
    n, p = X.shape
    centred = X - model.centre
    filled = np.where(gone, centred - found.away, centred)
    errors = np.full(X.shape, np.nan)
    for k in range(TUNING.folds if fold is not None else 1):
        rows = np.flatnonzero(fold == k) if fold is not None else np.arange(n)
        sums, moments, others = found.sums.sum(axis=0), found.moments.sum(axis=0), n
        if fold is not None:
            sums, moments = sums - found.sums[k], moments - found.moments[k]
            others = n - len(rows)
        shift = sums / others
        K = _inverse(moments / others - np.outer(shift, shift), amount)
        errors[rows] = (filled[rows] - shift) @ K / np.diag(K)
    errors[gone] = np.nan
    size = np.sort(np.abs(errors), axis=0)
    kept = np.sum(np.isfinite(size), axis=0)
    spread = np.ones(p)
    for j in range(p):
        central = size[: max(int(TUNING.central * kept[j]), 1), j]
        spread[j] = np.sqrt(np.mean(central**2)) if kept[j] else 1.0
    return np.maximum(spread, 1e-6)
