"""The convex program of robust PCA, as a frozen description of the problem.

    minimise  ‖X‖_* + λ‖S‖₁ + (κ/2)‖Y − X − S‖²      (and X ⪰ 0 if `psd`)

over the observed entries of Y. With κ = ∞ the last term becomes the constraint
X + S = Y: the program that the paper's descent solves, with λ = 1/α. A finite κ allows
noise on every entry; minimised over S, the last two terms are a Huber penalty on Y − X,
quadratic up to λ/κ and linear beyond.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.robust_statistics import MIN_CORRUPT_FRACTION, clipping_bound_from
from discrepant.core.validation import refuse_infinite
from discrepant.robust_pca.rows import passes
from discrepant.robust_pca.rows.rows import Rows


@dataclass(frozen=True)
class DataScale:
    """Size of the data, from one pass over them."""

    observed: int  # entries that are not missing
    top: float  # the largest |entry|
    bound: float  # entries are clipped to ± this, see `clipping_bound_from`

    @classmethod
    def of(cls, rows: Rows) -> "DataScale":
        """Scan the data; the rows must be open."""
        top, observed = passes.scan(rows)
        refuse_infinite(top)

        def line_scales() -> Array:
            return np.concatenate([rows.scales(axis) for axis in (0, 1)])

        with np.errstate(over="ignore"):
            bound = clipping_bound_from(rows.sample(), top, line_scales)
        ends = np.finfo(rows.dtype)
        if top and not 16 * ends.smallest_normal < bound < ends.max / 16:
            raise InputError(
                f"The data have values of about {bound:.0e}, at the limit of "
                f"{rows.dtype}; multiply them by a power of ten."
            )
        return cls(observed, top, bound)


@dataclass(frozen=True)
class ConvexProblem:
    """The convex program with its data."""

    rows: Rows
    scale: DataScale
    lam: float  # λ, the weight of ‖S‖₁
    psd: bool = False  # whether X ⪰ 0
    kappa: float = math.inf  # κ, the weight of the noise; ∞ means there is none

    @property
    def unit(self) -> float:
        """Factor on the data that makes the clipping bound one."""
        highest = float(np.finfo(self.rows.dtype).max) / 4
        return 1.0 if self.scale.top == 0 else min(1 / self.scale.bound, highest)

    @property
    def saturated_dual(self) -> float:
        """Size of |M| from which on it has reached λ, in float32 too."""
        return self.lam * (1 - 1e-4)

    def clipped_at(self, bound: float) -> "ConvexProblem":
        """Return the same problem with another clipping bound."""
        return replace(self, scale=replace(self.scale, bound=bound))

    def count_observed(self) -> tuple[Array, Array]:
        """Return the number of observed entries of each row and of each column."""
        rows = self.rows
        if self.scale.observed == rows.size:
            return np.full(rows.m, float(rows.n)), np.full(rows.n, float(rows.m))
        return passes.count_observed(rows)

    def wrongly_clipped(
        self, low_rank: tuple[Array, Array], fraction: float = 0.0
    ) -> float:
        """Return the largest |entry| that was clipped but is not corrupt.

        Zero if at most this fraction of the clipped entries is not corrupt.
        """
        if self.scale.bound == self.scale.top:
            return 0.0
        return passes.largest_wrongly_clipped(
            self.rows,
            low_rank,
            unit=self.unit,
            corrupt_fraction=MIN_CORRUPT_FRACTION,
            tolerated=fraction,
        )
