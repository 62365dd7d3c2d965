"""What the fit knows: L as factors, the noise, and the lines that lag.

All in units of the noise and in the orientation of the blocks, where rows are the long
axis (0) and columns the short one (1).
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.noisy.histogram import MAD
from discrepant.robust_pca.noisy.lines import LIFE, Lines, median_size, regress
from discrepant.robust_pca.noisy.mixture import Mixture
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows import passes

MOST_LEVERAGE = 0.8  # beyond, a cell tells nothing of its own noise
UNITS = 30.0  # ratio of column sizes from which on columns have units of their own
# What L may be off by where rows and columns are large, over what it moved last: at
# twice as much the fit goes in circles, at half it is too slow.
OFF = 0.5
# What L is off by at a start, over its statistical error.
START = 1.0


@dataclass(frozen=True)
class Start:
    """Where a fit may start: L = U Cᵀ in units of the noise, which is σ."""

    U: Array  # (m, r)
    C: Array  # (n, r)
    sigma: Array  # of each of the caller's columns, in the unit of the program
    mixture: Mixture


class Model:
    """L = U Cᵀ and the noise σ of each of the caller's columns.

    Parameters
    ----------
    program : Program
        The data.
    sigma : ndarray or None
        The noise of each of the caller's columns where it is told.
    rng : numpy.random.Generator
        Draws the columns that look for new directions.
    start : Start, optional
        Where to start.
    """

    def __init__(
        self,
        program: ConvexProblem,
        sigma: Array | None,
        rng: np.random.Generator,
        start: Start | None = None,
    ) -> None:
        rows = self.rows = program.rows
        self.program, self.rng = program, rng
        self.m, self.n = rows.m, rows.n
        self.own = 0 if rows.transposed else 1  # axis of the caller's columns
        self.U, self.C = np.zeros((self.m, 0)), np.zeros((self.n, 0))
        self.last = (self.U, self.C)  # of the pass before
        self.observed = program.scale.observed
        self.lines = self._lines()
        self.top = self._usual_size()
        self.trust = 1.0  # share of the cells that are clean
        self.change = 0.0  # ‖ΔL‖ of the last pass
        self.units = False  # whether columns have units of their own
        columns = rng.standard_normal((self.n, min(16, self.n)))
        self.V = linalg.qr(columns, mode="economic")[0]
        if start is not None:
            self.sigma, self.units = start.sigma, bool(np.ptp(start.sigma) > 0)
            self.U, self.C = self.last = orthogonal(start.U, start.C)
            self.trust = max(start.mixture.clean, 0.3)
            freedom = self.rank * (self.m + self.n - self.rank)
            self.change = START * sqrt(freedom / self.share)
        elif sigma is not None:
            self.sigma = np.asarray(sigma, np.float64) * program.unit
        else:
            self.sigma = self._start()

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.U.shape[1])

    @property
    def share(self) -> float:
        """Share of all cells that are observed and clean."""
        return self.trust * self.observed / self.rows.size

    def look_through(self, k: int) -> None:
        """Set V to k columns: those of C, what V has besides, then random ones."""
        self.V = _columns(self.C, self.V, min(k, self.n), self.rng)

    def factors(self) -> tuple[Array, Array]:
        """Return factors of L in the unit of the program."""
        by = self.sigma[:, None]
        return (self.U * by, self.C) if self.own == 0 else (self.U, self.C * by)

    @property
    def size(self) -> float:
        """‖L‖ in the unit of the program."""
        U, C = self.factors()
        return float(np.linalg.norm(C if self.own == 1 else U * norms(C)))

    def _lines(self) -> tuple[Lines, Lines]:
        """Count the observed cells of each line."""
        if self.observed == self.rows.size:
            m, n = float(self.m), float(self.n)
            return Lines(np.full(self.m, n)), Lines(np.full(self.n, m))
        by_row, by_column = passes.count_observed(self.rows)
        return Lines(by_row), Lines(by_column)

    def _start(self) -> Array:
        """Return where σ starts: the usual size of entries, all of them or by column.

        Columns whose sizes differ widely are in different units, and so is their noise.
        """
        sizes = self.sizes
        self.units = bool(sizes.max() > UNITS * sizes.min())
        return sizes if self.units else np.full(len(sizes), self.top)

    @cached_property
    def sizes(self) -> Array:
        """The usual size of the entries of each of the caller's columns."""
        quartiles = self.rows.scales(1) * self.program.unit
        # Twice a quartile is more than the median.
        return np.where(quartiles > 0, 2 * quartiles, self.top)

    def _usual_size(self) -> float:
        """Return the usual size of an entry: where σ starts."""
        some = np.abs(self.rows.sample()) * self.program.unit
        some = np.minimum(some[np.isfinite(some)], 1.0)
        return float(np.median(some) / MAD or some.mean() or 1.0) if some.size else 1.0

    def inverse_noise(self) -> tuple[Array, Array]:
        """Return 1/σ by row and by column."""
        ones = np.ones(self.m), np.ones(self.n)
        inverse = 1 / self.sigma
        return (inverse, ones[1]) if self.own == 0 else (ones[0], inverse)

    def sides(self, leverage: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return what the kernels multiply the cells of a line by."""
        pairs = zip(leverage, self.lines, strict=True)
        std = (1 / np.sqrt(1 - h) / line.wide for h, line in pairs)
        columns = zip(self.inverse_noise(), std, self.expected(), strict=True)
        row, column = (np.array(side) for side in columns)
        return row, column

    def leverages(self) -> tuple[Array, Array]:
        """Return the share that the fit takes of cells, by row and by column."""
        W = self.C / norms(self.C)
        taken = ((X**2).sum(axis=1) / self.share for X in (self.U, W))
        row, column = (np.minimum(h, MOST_LEVERAGE) for h in taken)
        return row, column

    def expected(self) -> tuple[Array, Array]:
        """Return how far off L may still be, in σ, as a product over rows and columns.

        It moved by ‖ΔL‖ in the last pass, and more where rows and columns are large.
        Without this, large cells are clipped, then flagged, and never return.
        """
        size = np.linalg.norm(self.C)
        if not size:
            return np.zeros(self.m), np.zeros(self.n)
        row = np.linalg.norm(self.U * norms(self.C), axis=1) * sqrt(self.m) / size
        column = np.linalg.norm(self.C, axis=1) * sqrt(self.n) / size
        return row * (OFF * self.change / sqrt(self.m * self.n)), column

    def rescale(self, ratio: Array) -> None:
        """Take σ·ratio for σ, and L with it."""
        self.sigma = self.sigma * ratio
        by = ratio[:, None]
        U, C = self.last
        self.last = (U / by, C) if self.own == 0 else (U, C / by)
        if np.ptp(ratio) == 0:
            self.C = self.C / ratio[0]
        elif self.own == 0:
            self.U, self.C = orthogonal(self.U / by, self.C)
        else:
            self.U, self.C = orthogonal(self.U, self.C / by)
            self.V = self.V / by

    def gather(self, which: Array, axis: int) -> Array:
        """Return some lines of the data in units of the noise."""
        inverse = self.inverse_noise()
        data = self.rows.take(which, axis) * self.program.unit
        scaled = np.clip(data, -1, 1) * inverse[axis][which, None] * inverse[1 - axis]
        return np.asarray(scaled)

    def anew(self, which: Array, axis: int, edge: float, tau: float) -> int:
        """Fit lines anew to a basis that they had no part in; how many came right."""
        first, second = (self.U, self.C) if axis == 0 else (self.C, self.U)
        one = first.copy()
        one[which] = 0
        one, two = orthogonal(one, second)
        good = norms(two) > edge
        one, two = one[:, good], two[:, good]
        fine, lines = 0, self.lines[axis]
        if good.any():
            data, size = self.gather(which, axis), norms(two)
            c, scale = regress(data, two)
            present = median_size(data - first[which] @ second.T)
            right = (scale < 3 * tau) & (scale < 0.6 * present)
            better = ~right & (scale < 0.3 * np.minimum(median_size(data), present))
            use = right | better
            one[which[use]] = c[use] / size
            one[which[~use]] = (first @ (second.T @ (two / size**2)))[which[~use]]
            lines.wide[which[better]] = scale[better] / tau
            lines.life[which[better]] = LIFE
            lines.tried[which[~right]] += 1
            fine = int(use.sum())
        one, two = orthogonal(one, two)
        size = norms(two)
        self.U, self.C = (one, two) if axis == 0 else (two / size, one * size)
        return fine

    def follow_wide_lines(self) -> None:
        """Follow the scale of lines that were much off, until they are noise too."""
        for axis, line in enumerate(self.lines):
            which = np.flatnonzero(line.wide > 1)
            if not len(which) or not self.U.shape[1]:
                continue
            one, two = (self.U, self.C) if axis == 0 else (self.C, self.U)
            scale = median_size(self.gather(which, axis) - one[which] @ two.T)
            line.life[which] -= 1
            wide = (scale > 1.5) & (line.life[which] > 0)
            line.wide[which] = np.where(wide, scale, 1.0)


def orthogonal(A: Array, C: Array) -> tuple[Array, Array]:
    """Return factors of A Cᵀ: orthonormal columns, and orthogonal ones."""
    if A.shape[1] == 0:
        return A, C
    U, V, s = svd_of_product(A, C)
    return U, V * s


def norms(C: Array) -> Array:
    """Return the lengths of the columns."""
    return np.asarray(np.linalg.norm(C, axis=0))


def _columns(C: Array, V: Array, k: int, rng: np.random.Generator) -> Array:
    """Return k orthonormal columns, as `look_through` says."""
    W = C / norms(C)
    X = np.hstack([V, rng.standard_normal((len(V), k))])
    for _ in range(2):
        X -= W @ (W.T @ X)
    rest = linalg.qr(X, mode="economic")[0]
    return np.asarray(np.hstack([W, rest])[:, :k])
