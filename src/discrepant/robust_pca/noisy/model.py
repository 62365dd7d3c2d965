"""State of the fit with noise: L as factors, the noise, and lagging rows and columns.

All values are in units of the noise and in the orientation of the rows, where rows are
the long axis (0) and columns the short one (1).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array
from discrepant.core.robust_regression import median_scale, robust_coordinates
from discrepant.core.robust_statistics import MAD
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.noisy.mixture import Mixture
from discrepant.robust_pca.problem import ConvexProblem

# Fraction of clean entries in the leverages, at least.
MIN_CLEAN_FRACTION = 0.3
# Largest leverage; beyond it, a residual says nothing about noise.
MAX_LEVERAGE = 0.8
# Fraction of outliers, beyond the common one, at which a row or column lags.
LAGGING_FRACTION = 0.2
# Scale of the residuals of a regressed row or column, over the present scale, below
# which the regression is accepted.
MAX_REFIT_SCALE = 0.6
# Regressions of a row or column in each phase of the fit, at most.
MAX_REFITS = 2
# Ratio of column scales above which columns have different units.
UNIT_RATIO = 30.0


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
        # Observed entries of each row and of each column.
        self.counts = program.count_observed()
        self.n_refits = np.zeros(self.m, int), np.zeros(self.n, int)
        self.typical_entry = self._typical_size()
        self.clean_fraction = 1.0  # fraction of the entries that are clean
        self.columns_have_units = False  # whether columns have different units
        # σ of columns whose noise differs by no more than chance.
        self.usual_sigma = self._initial_sigma() if start is None else start.sigma
        columns = rng.standard_normal((self.n, min(16, self.n)))
        self.V = linalg.qr(columns, mode="economic")[0]
        if start is not None:
            self.sigma = start.sigma
            self.columns_have_units = bool(np.ptp(start.sigma) > 0)
            self.U, self.C = orthogonal_factors(start.U, start.C)
            self.clean_fraction = max(start.mixture.clean, MIN_CLEAN_FRACTION)
        elif sigma is not None:
            self.sigma = np.asarray(sigma, np.float64) * program.unit
        else:
            self.sigma = self.usual_sigma

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.U.shape[1])

    @property
    def usable_fraction(self) -> float:
        """Fraction of all entries that are observed and clean."""
        return self.clean_fraction * self.observed / self.rows.size

    @property
    def freedom(self) -> int:
        """Degrees of freedom of L."""
        return self.rank * (self.m + self.n - self.rank)

    @property
    def log_ratio(self) -> float:
        """Mean log of the size of an entry's column over the noise of the entry."""
        log_ratio = np.log(self.column_sizes / self.sigma)
        return float(self.counts[self.column_axis] @ log_ratio) / self.observed

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

    def leverages(self) -> tuple[Array, Array]:
        """Return the leverages of rows and columns, bounded by MAX_LEVERAGE."""
        W = self.C / column_norms(self.C)
        taken = ((X**2).sum(axis=1) / self.usable_fraction for X in (self.U, W))
        row, column = (np.minimum(h, MAX_LEVERAGE) for h in taken)
        return row, column

    def set_clean_fraction(self, mixture: Mixture) -> None:
        """Take the fraction of clean entries from a mixture."""
        self.clean_fraction = max(mixture.clean, MIN_CLEAN_FRACTION)

    def set_noise(self, sigma: Array) -> None:
        """Change σ of each column, and L, which is in units of it."""
        eps = float(np.finfo(self.rows.dtype).eps)
        sigma = np.clip(sigma, eps**2 * self.typical_entry, 1.0)
        ratio = sigma / self.sigma
        self.sigma = sigma
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

    def lagging_lines(self, n_outliers: Array, axis: int) -> Array:
        """Return rows or columns that lag behind the fit; at most a tenth of all.

        More of their entries are outliers than of the others, by more than chance.
        """
        counts = np.maximum(self.counts[axis], 1)
        fraction = n_outliers / counts
        common = n_outliers.sum() / counts.sum()
        chance = 4 * np.sqrt(common * (1 - common) / counts)
        far = fraction > common + np.maximum(LAGGING_FRACTION * (1 - common), chance)
        lagging = np.flatnonzero(
            far & (self.n_refits[axis] < MAX_REFITS) & (n_outliers > 3)
        )
        worst_first = lagging[np.argsort(-fraction[lagging])]
        return worst_first[: max(4, len(fraction) // 10)]

    def refit_lines(self, which: Array, axis: int, edge: float) -> bool:
        """Regress rows or columns on a basis computed without them.

        Those that then fit better keep the regression. Returns whether there are any.
        """
        self.n_refits[axis][which] += 1
        data = self.scaled_lines(which, axis)
        first, second = (self.U, self.C) if axis == 0 else (self.C, self.U)
        present = median_scale(data - first[which] @ second.T)
        others = first.copy()
        others[which] = 0
        others, basis = orthogonal_factors(others, second)
        size = column_norms(basis)
        others, basis, size = (
            others[:, size > edge],
            basis[:, size > edge],
            size[size > edge],
        )
        if not len(size):
            return False
        c, scale = robust_coordinates(data, basis)
        improved = scale < MAX_REFIT_SCALE * present
        in_basis = first[which] @ (second.T @ (basis / size**2))
        others[which] = np.where(improved[:, None], c, in_basis)
        one, two = orthogonal_factors(others, basis)
        size = column_norms(two)
        self.U, self.C = (one, two) if axis == 0 else (two / size, one * size)
        return bool(improved.any())


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
