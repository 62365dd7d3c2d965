"""All rows from a row space that is known: robust regressions, each row by itself."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows.rows import RowFits


@dataclass(frozen=True)
class Tuning:
    """Constants of the extension."""

    # Columns that a row is fitted at, for each direction and beside them, if no entry
    # is wrong; the more, the nearer the wrong ones are to a half.
    columns_per_rank: float = 5.0
    columns: int = 45
    # Condition number of the row space at these columns, at the most.
    condition: float = 10.0
    # Share of rows that may have failed at some columns and be tried at all of them.
    again: float = 0.1


TUNING = Tuning()


def extended(
    program: ConvexProblem,
    basis: Array,
    scale: Array,
    wrong: float,
    rng: np.random.Generator,
    noise: float = 0.0,
    failed: Callable[[RowFits], Array] | None = None,
) -> RowFits:
    """Fit all rows by a basis (n, r) of their space.

    Parameters
    ----------
    program : Program
        The data.
    basis : ndarray of shape (n, r)
        Of the row space.
    scale : ndarray of shape (n,)
        What the columns are multiplied by.
    wrong : float
        Share of the entries that are wrong, as far as is known.
    rng : numpy.random.Generator
        Chooses the columns that are looked at.
    noise : float
        That of the entries after scaling, where it is known.
    failed : callable, optional
        Tells which rows do not fit; if they are few, they are tried at all columns.
    """
    rows, unit = program.rows, program.unit
    X = basis * scale[:, None]
    at = _columns(program, X, wrong, rng)
    fits = rows.regress(np.arange(rows.m), at, X[at], scale[at], unit, noise)
    if failed is None or len(at) == rows.n:
        return fits
    which = np.flatnonzero(failed(fits))
    if 0 < len(which) <= TUNING.again * rows.m:
        again = rows.regress(which, np.arange(rows.n), X, scale, unit, noise)
        for array, new in zip(fits, again, strict=True):
            array[which] = new
    return fits


def _columns(
    program: ConvexProblem, X: Array, wrong: float, rng: np.random.Generator
) -> Array:
    """Return columns to fit rows at: so many that the row space is seen at them."""
    n, r = X.shape
    share = program.scale.observed / program.rows.size
    clean = max(1 - 2 * wrong, 0.1) ** 2 * share
    wanted = (TUNING.columns_per_rank * r + TUNING.columns) / clean
    order = rng.permutation(n)
    values = np.linalg.eigvalsh(X.T @ X)
    while wanted < n:
        at = np.sort(order[: int(wanted)])
        seen = np.linalg.eigvalsh(X[at].T @ X[at])
        if seen[0] * n * TUNING.condition > values[0] * wanted:
            return at
        wanted *= 2
    return np.arange(n)
