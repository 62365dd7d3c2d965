"""Tiles: the pieces of the data that stay in cache, and what is summed over them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discrepant.core.linalg import Array


class Tally(NamedTuple):
    """What `Rows.tally` hands back; P and B are float64, the counts are sums."""

    P: Array  # (m, k)
    B: Array  # (n, k)
    by_row: Array  # (., m)
    by_column: Array  # (., n)
    histogram: Array  # (bins,)


class Fits(NamedTuple):
    """Rows fitted by `Rows.regress`, each by itself."""

    coordinates: Array  # (rows, r)
    size: Array  # what is left on the clean entries, root mean square
    clean: Array  # number of clean entries among those looked at; zero: it failed
    observed: Array  # number of entries that were there to look at


class Tile(NamedTuple):
    """Some rows of the data, as the kernels see them."""

    rows: slice
    place: tuple[int, int]  # of its corner in Z
    values: Array  # turned as Z is
    by_rows: Array  # the same memory, one line for each row


@dataclass(frozen=True)
class Products:
    """P_b = tile · right and B = Σ tileᵀ · sides_b, a worker's share at a time."""

    right: Array
    P: Array
    sides: Array

    def fresh(self) -> "Adder":
        """Return what adds up B for one worker."""
        return Adder(self, np.zeros((len(self.right), self.sides.shape[1])))


class Adder:
    """Multiplies tiles as they are produced."""

    def __init__(self, products: Products, B: Array) -> None:
        self.products, self.B = products, B
        # Float32 products are short sums; only their total is kept in float64.
        self.product = np.empty(B.shape, products.P.dtype)

    def __call__(self, tile: Tile) -> None:
        """Multiply one tile."""
        right, P, sides = self.products.right, self.products.P, self.products.sides
        if P.size:
            np.dot(tile.by_rows, right, out=P[tile.rows])
        if self.B.size:
            np.dot(tile.by_rows.T, sides[tile.rows], out=self.product)
            self.B += self.product
