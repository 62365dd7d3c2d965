"""Robust regression of all rows on a known row space, each row by itself."""

from collections.abc import Callable

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.rows.rows import RowFits, RowSpace

# Columns at which a row is fitted, per dimension of the row space, if no entry is
# corrupt. The number rises as the corrupt fraction approaches one half.
COLUMNS_PER_RANK = 5.0
# Columns in addition to those, so that a row space of one dimension has enough.
EXTRA_COLUMNS = 45
# Largest factor by which the row space may be worse conditioned at these columns.
MAX_CONDITION = 10.0
# Fraction of rows that may fail at the chosen columns and be refitted at all columns.
MAX_REFITTED = 0.1


def regress_all_rows(
    program: ConvexProblem,
    basis: Array,
    scale: Array,
    corrupt_fraction: float,
    rng: np.random.Generator,
    noise: float = 0.0,
    failed: Callable[[RowFits], Array] | None = None,
) -> RowFits:
    """Fit every row as a combination of the columns of `basis`, (n, r).

    `scale` (n,) multiplies the columns of the data, and `noise` is the noise after
    that, or zero if it is unknown. `failed` returns a mask of rows that do not fit; if
    they are few, they are refitted at all columns.
    """
    rows, unit = program.rows, program.unit
    X = basis * scale[:, None]
    columns = _choose_columns(program, X, corrupt_fraction, rng)
    space = RowSpace(columns, X[columns], scale[columns], unit, noise)
    fits = rows.regress(np.arange(rows.m), space)
    if failed is None or len(columns) == rows.n:
        return fits
    which = np.flatnonzero(failed(fits))
    if 0 < len(which) <= MAX_REFITTED * rows.m:
        all_columns = RowSpace(np.arange(rows.n), X, scale, unit, noise)
        refits = rows.regress(which, all_columns)
        for array, refitted in zip(fits, refits, strict=True):
            array[which] = refitted
    return fits


def _choose_columns(
    program: ConvexProblem, X: Array, corrupt_fraction: float, rng: np.random.Generator
) -> Array:
    """Return random columns at which the row space is still well conditioned."""
    n, r = X.shape
    observed_fraction = program.scale.observed / program.rows.size
    efficiency = max(1 - 2 * corrupt_fraction, 0.1) ** 2 * observed_fraction
    wanted = (COLUMNS_PER_RANK * r + EXTRA_COLUMNS) / efficiency
    order = rng.permutation(n)
    all_eigenvalues = np.linalg.eigvalsh(X.T @ X)
    while wanted < n:
        columns = np.sort(order[: int(wanted)])
        eigenvalues = np.linalg.eigvalsh(X[columns].T @ X[columns])
        if eigenvalues[0] * n * MAX_CONDITION > all_eigenvalues[0] * wanted:
            return columns
        wanted *= 2
    return np.arange(n)
