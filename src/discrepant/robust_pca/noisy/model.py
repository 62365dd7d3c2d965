"""State of the fit with noise: L as factors, the noise, and lagging rows and columns.

All values are in units of the noise and in the orientation of the rows, where rows are
the long axis (0) and columns the short one (1).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.noisy.histogram import MAD
from discrepant.robust_pca.noisy.lines import (
    WIDE_PASSES,
    LineState,
    median_scale,
    regress_lines,
)
from discrepant.robust_pca.noisy.mixture import Mixture
from discrepant.robust_pca.problem import ConvexProblem

MAX_LEVERAGE = 0.8  # largest leverage; beyond it, a residual says nothing about noise
UNIT_RATIO = 30.0  # ratio of column scales above which columns have different units


@dataclass(frozen=True)
class NoisyStart:
    """Starting point of a fit: L = U Cᵀ in units of the noise σ."""

    U: Array  # (m, r)
    C: Array  # (n, r)
    sigma: Array  # of each of the caller's columns, in the unit of the problem
    mixture: Mixture


class Model:
    """L = U Cᵀ and the noise σ of each of the caller's columns, which may be given."""

    def __init__(
        self,
        program: ConvexProblem,
        sigma: Array | None,
        rng: np.random.Generator,
        start: NoisyStart | None = None,
    ) -> None:
        rows = self.rows = program.rows
        self.program, self.rng = program, rng
        self.m, self.n = rows.m, rows.n
        self.column_axis = 0 if rows.transposed else 1  # axis of the caller's columns
        self.U, self.C = np.zeros((self.m, 0)), np.zeros((self.n, 0))
        self.observed = program.scale.observed
        self.lines = self._lines()
        self.typical_entry = self._typical_size()
        self.clean_fraction = 1.0  # fraction of the entries that are clean
        self.columns_have_units = False  # whether columns have different units
        columns = rng.standard_normal((self.n, min(16, self.n)))
        self.V = linalg.qr(columns, mode="economic")[0]
        if start is not None:
            self.sigma = start.sigma
            self.columns_have_units = bool(np.ptp(start.sigma) > 0)
            self.U, self.C = orthogonal_factors(start.U, start.C)
            self.clean_fraction = max(start.mixture.clean, 0.3)
        elif sigma is not None:
            self.sigma = np.asarray(sigma, np.float64) * program.unit
        else:
            self.sigma = self._initial_sigma()

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.U.shape[1])

    @property
    def usable_fraction(self) -> float:
        """Fraction of all entries that are observed and clean."""
        return self.clean_fraction * self.observed / self.rows.size

    def set_search_basis(self, k: int) -> None:
        """Set V to k orthonormal columns: those of C, then of V, then random ones."""
        self.V = _columns(self.C, self.V, min(k, self.n), self.rng)

    def factors(self) -> tuple[Array, Array]:
        """Return factors of L in the unit of the problem."""
        by = self.sigma[:, None]
        return (self.U * by, self.C) if self.column_axis == 0 else (self.U, self.C * by)

    @property
    def size(self) -> float:
        """‖L‖ in the unit of the problem."""
        U, C = self.factors()
        return float(
            np.linalg.norm(C if self.column_axis == 1 else U * column_norms(C))
        )

    def _lines(self) -> tuple[LineState, LineState]:
        """Return the state of all rows and columns, with their observed entries."""
        by_row, by_column = self.program.count_observed()
        return LineState(by_row), LineState(by_column)

    def _initial_sigma(self) -> Array:
        """Return the initial σ: the typical size of all entries, or by column.

        Columns whose scales differ widely have different units, and so has their noise.
        """
        sizes = self.column_sizes
        self.columns_have_units = bool(sizes.max() > UNIT_RATIO * sizes.min())
        uniform = np.full(len(sizes), self.typical_entry)
        return sizes if self.columns_have_units else uniform

    @cached_property
    def column_sizes(self) -> Array:
        """The typical size of the entries of each of the caller's columns."""
        quartiles = self.rows.scales(1) * self.program.unit
        # Twice a quartile is more than the median.
        return np.where(quartiles > 0, 2 * quartiles, self.typical_entry)

    def _typical_size(self) -> float:
        """Return the typical size of an entry."""
        some = np.abs(self.rows.sample()) * self.program.unit
        some = np.minimum(some[np.isfinite(some)], 1.0)
        return float(np.median(some) / MAD or some.mean() or 1.0) if some.size else 1.0

    def inverse_noise(self) -> tuple[Array, Array]:
        """Return 1/σ by row and by column."""
        ones = np.ones(self.m), np.ones(self.n)
        inverse = 1 / self.sigma
        return (inverse, ones[1]) if self.column_axis == 0 else (ones[0], inverse)

    def line_values(self) -> tuple[Array, Array]:
        """Return 1/σ and 1/√(1 − leverage) of each row and column, (2, .) each."""
        sides = zip(self.inverse_noise(), self.leverages(), strict=True)
        row, column = (np.array([scale, 1 / np.sqrt(1 - h)]) for scale, h in sides)
        return row, column

    def enlarged_line_values(self) -> tuple[Array, Array]:
        """Return `line_values`, with the residuals of enlarged lines scaled down."""
        row, column = self.line_values()
        for values, line in zip((row, column), self.lines, strict=True):
            values[1] /= line.scale_ratio
        return row, column

    def leverages(self) -> tuple[Array, Array]:
        """Return the leverages of rows and columns, bounded by MAX_LEVERAGE."""
        W = self.C / column_norms(self.C)
        taken = ((X**2).sum(axis=1) / self.usable_fraction for X in (self.U, W))
        row, column = (np.minimum(h, MAX_LEVERAGE) for h in taken)
        return row, column

    def rescale(self, ratio: Array) -> None:
        """Multiply σ by a factor per column, and rescale L."""
        self.sigma = self.sigma * ratio
        by = ratio[:, None]
        if np.ptp(ratio) == 0:
            self.C = self.C / ratio[0]
        elif self.column_axis == 0:
            self.U, self.C = orthogonal_factors(self.U / by, self.C)
        else:
            self.U, self.C = orthogonal_factors(self.U, self.C / by)
            self.V = self.V / by

    def scaled_lines(self, which: Array, axis: int) -> Array:
        """Return some rows or columns of the data in units of the noise."""
        inverse = self.inverse_noise()
        data = self.rows.take(which, axis) * self.program.unit
        scaled = np.clip(data, -1, 1) * inverse[axis][which, None] * inverse[1 - axis]
        return np.asarray(scaled)

    def refit_lines(self, which: Array, axis: int, edge: float, tau: float) -> int:
        """Refit lines on a basis computed without them; return how many improved."""
        first, second = (self.U, self.C) if axis == 0 else (self.C, self.U)
        one = first.copy()
        one[which] = 0
        one, two = orthogonal_factors(one, second)
        good = column_norms(two) > edge
        one, two = one[:, good], two[:, good]
        n_improved, lines = 0, self.lines[axis]
        if good.any():
            data, size = self.scaled_lines(which, axis), column_norms(two)
            c, scale = regress_lines(data, two)
            present = median_scale(data - first[which] @ second.T)
            right = (scale < 3 * tau) & (scale < 0.6 * present)
            better = ~right & (scale < 0.3 * np.minimum(median_scale(data), present))
            use = right | better
            one[which[use]] = c[use] / size
            one[which[~use]] = (first @ (second.T @ (two / size**2)))[which[~use]]
            lines.scale_ratio[which[better]] = scale[better] / tau
            lines.passes_left[which[better]] = WIDE_PASSES
            lines.failed_refits[which[~right]] += 1
            n_improved = int(use.sum())
        one, two = orthogonal_factors(one, two)
        size = column_norms(two)
        self.U, self.C = (one, two) if axis == 0 else (two / size, one * size)
        return n_improved

    def update_enlarged_lines(self) -> None:
        """Update the scale of lines with enlarged residuals, until they are noise."""
        for axis, line in enumerate(self.lines):
            which = np.flatnonzero(line.scale_ratio > 1)
            if not len(which) or not self.U.shape[1]:
                continue
            one, two = (self.U, self.C) if axis == 0 else (self.C, self.U)
            scale = median_scale(self.scaled_lines(which, axis) - one[which] @ two.T)
            line.passes_left[which] -= 1
            wide = (scale > 1.5) & (line.passes_left[which] > 0)
            line.scale_ratio[which] = np.where(wide, scale, 1.0)


def orthogonal_factors(A: Array, C: Array) -> tuple[Array, Array]:
    """Return factors of A Cᵀ with orthonormal and orthogonal columns."""
    if A.shape[1] == 0:
        return A, C
    U, V, s = svd_of_product(A, C)
    return U, V * s


def column_norms(C: Array) -> Array:
    """Return the norms of the columns."""
    return np.asarray(np.linalg.norm(C, axis=0))


def _columns(C: Array, V: Array, k: int, rng: np.random.Generator) -> Array:
    """Return k orthonormal columns: those of C, then of V, then random ones."""
    W = C / column_norms(C)
    X = np.hstack([V, rng.standard_normal((len(V), k))])
    for _ in range(2):
        X -= W @ (W.T @ X)
    rest = linalg.qr(X, mode="economic")[0]
    return np.asarray(np.hstack([W, rest])[:, :k])
