"""Polish: with the rank known, bring the error down to rounding.

Descend ``‖R‖²`` over matrices A Bᵀ of rank r, where R is the residual of the entries
within ζ of it. ζ follows the error down, so that entries are dropped and taken back as
the picture sharpens; where there is an exact solution the error falls to rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.sweep import kernels
from discrepant.matrix.sweep.rows import Rows

ROUNDING = 1e-13  # relative error at which nothing is left to gain


@dataclass(frozen=True)
class Polished:
    """Where the polish ended.

    ``exact`` says that the clean entries fit to rounding and that every row and column
    has its share of them; ``noise`` is what is left on the clean entries, relative to
    ‖Y‖, where the fit settled above rounding, and zero otherwise.
    """

    A: Array
    B: Array
    zeta: float
    beyond: float  # Σ|Y − A Bᵀ| over the entries that are not clean
    exact: bool
    noise: float = 0.0


def polish(
    rows: Rows,
    A: Array,
    B: Array,
    *,
    psd: bool,
    unit: float,
    observed: int,
    active: float,
    norm_Y: float,
    residual: float,
    note: Callable[[float, float], bool],
) -> Polished:
    """Fit A Bᵀ to the clean entries by least squares.

    Entries are clean when their residual is within ζ. Of the corrupt ones, a share f dζ
    has a size in dζ, and brings f ζ³/3 to the mean square: ζ is set so that this is a
    tenth of the error expected next, and ζ ∝ error^(2/3) leaves ever more room for the
    few rows and columns that converge late.

    The step is the gradient in the metric of the factors, with heavy-ball momentum β
    set by the contraction seen so far.

    Parameters
    ----------
    rows : Rows
        The data.
    A, B : ndarray of shape (m, r) and (n, r)
        Where to start; B carries the singular values.
    psd : bool
        Keep A and B equal.
    unit : float
        What the data are multiplied by.
    observed, active : int
        Number of observed entries, and of those taken for corrupt so far.
    norm_Y, residual : float
        ‖Y‖, and the residual so far relative to it.
    note : callable
        Told of each pass, ``note(residual, share not clean)``; true means stop.
    """
    eps = float(np.finfo(rows.dtype).eps)
    done = max(30 * eps, ROUNDING)
    entries, r = rows.m * rows.n, A.shape[1]
    freedom = r * (rows.m + rows.n - r)
    size = np.linalg.norm(B) / np.sqrt(entries)
    if psd:
        A = B = A * np.sqrt(np.linalg.norm(B, axis=0))
    f = max(active, 1) / observed / size
    error = residual * norm_Y / np.sqrt(observed)
    zeta = (0.3 * (error / 2) ** 2 / f) ** (1 / 3)
    previous, slow, widened, beta = np.inf, 0, 0, 0.0
    move_A: Array | float = 0.0
    move_B: Array | float = 0.0
    while True:
        RB, RA, sums = rows.sweep(
            kernels.clean_residual,
            (),
            (unit, zeta),
            low_rank=(A, B),
            right=B,
            left=A,
        )
        square, clean, beyond = sums.sum(axis=0)
        failed = Polished(A, B, zeta, beyond, exact=False)
        if previous == np.inf and clean < 0.8 * (observed - active):
            if widened > 3:
                return failed
            zeta, widened = 3 * zeta, widened + 1  # the guess was too small
            continue
        if clean < 1.05 * freedom:
            return failed
        error = float(np.sqrt(square / clean))
        relative = float(np.sqrt(square) / norm_Y)
        if note(relative, 1 - clean / observed):
            return failed
        ratio = error / previous if np.isfinite(previous) else 1.0
        if error <= done * size or (ratio > 0.7 and error <= 200 * eps * size):
            exact = covers(rows, A, B, unit, zeta)
            return Polished(A, B, zeta, beyond, exact)
        slow += ratio > 0.9
        if np.isfinite(previous) and (slow > 2 or ratio > 2):
            noise = relative if covers(rows, A, B, unit, zeta) else 0.0
            return Polished(A, B, zeta, beyond, exact=False, noise=noise)
        if np.isfinite(previous):
            # The root t of the plain step, had there been no momentum.
            t = min(max(ratio - beta + beta / ratio, 0.02), 0.95)
            beta = (t / (1 + np.sqrt(1 - t * t))) ** 2
        previous = error
        if psd:
            RA = RB = (RA + RB) / 2
        try:
            inverse_A, inverse_B = np.linalg.inv(A.T @ A), np.linalg.inv(B.T @ B)
        except np.linalg.LinAlgError:
            return failed
        core = inverse_A @ (A.T @ RB) @ inverse_B / 2  # counted in both factors
        omega = entries / clean
        move_A = omega * (RB @ inverse_B - A @ core) + beta * move_A
        move_B = omega * (RA @ inverse_A - B @ core.T) + beta * move_B
        A, B = A + move_A, B + move_B
        expected = min(max(ratio, 0.1), 0.7) * error
        zeta = max((0.3 * expected**2 / f) ** (1 / 3), 100 * eps * size)


def covers(rows: Rows, A: Array, B: Array, unit: float, zeta: float) -> bool:
    """Whether every row and column has its share of the clean entries.

    One whose entries were all taken for corrupt would never come back, and would not be
    missed in the residual either.
    """
    ones = np.ones((rows.n, 1)), np.ones((rows.m, 1))
    counts = []
    # A little below the largest number, so that a float32 can hold it too.
    for limit in (zeta, 1e37):
        by_row, by_column, _ = rows.sweep(
            kernels.clean_entries,
            (),
            (unit, limit),
            low_rank=(A, B),
            right=ones[0],
            left=ones[1],
        )
        counts.append(np.concatenate([by_row[:, 0], by_column[:, 0]]))
    clean, seen = counts
    usual = clean.sum() / max(seen.sum(), 1)
    return bool(np.all(clean >= 0.4 * usual * seen))
