"""Polish: with the rank known, bring the error down to rounding.

Descend ``‖R‖²`` over matrices A Bᵀ of rank r, where R is the residual of the entries
within ζ of it. ζ follows the error down, so that entries are dropped and taken back as
the picture sharpens; where there is an exact solution the error falls to rounding.
"""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Recorder, Step
from discrepant.robust_pca.rows import passes


@dataclass(frozen=True)
class Tuning:
    """Constants of the polish."""

    # Relative error at which nothing is left to gain: float64 rounds at 2e-16, and sums
    # over a row of a few thousand entries lose three more digits.
    rounding: float = 1e-13
    # Part of the expected mean square that corrupt entries below ζ may bring.
    corrupt_part: float = 0.1
    # Share of the entries held clean so far that the first ζ must keep; else it was
    # guessed too small, and is widened a few times.
    first_keep: float = 0.8
    widenings: int = 4
    # Clean entries needed for each degree of freedom.
    determined: float = 1.05
    # A pass that leaves more than this of the error is slow; three of them end it.
    slow: float = 0.9
    most_slow: int = 3
    # Share of the usual number of clean entries that every row and column must have.
    cover: float = 0.4
    # Error of the usual row, over that of all, below which some rows are left behind.
    lag: float = 0.1


TUNING = Tuning()


@dataclass(frozen=True)
class Polished:
    """Where the polish ended.

    ``exact`` says that the clean entries fit to rounding and that every row and column
    has its share of them; ``rounding`` that they fit, though lines may be left behind.
    ``settled`` says that the fit came to rest above that, and ``noise`` is then what is
    left on the clean entries, relative to ‖Y‖, if every line has its share of them.
    """

    A: Array
    B: Array
    zeta: float
    beyond: float  # Σ|Y − A Bᵀ| over the entries that are not clean
    exact: bool
    rounding: bool = False
    settled: bool = False  # came to rest above rounding
    noise: float = 0.0
    lagging: float = 0.0  # error of the usual row, if others are far behind it


def polish(
    program: ConvexProblem,
    A: Array,
    B: Array,
    *,
    active: float,
    norm_Y: float,
    residual: float,
    log: Recorder,
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
    program : Program
        The data, their unit, and whether A and B are kept equal (`psd`).
    A, B : ndarray of shape (m, r) and (n, r)
        Where to start.
    active : int
        Number of entries taken for corrupt so far.
    norm_Y, residual : float
        ‖Y‖, and the residual so far relative to it.
    log : Log
        Where passes are written down.
    """
    rows, unit, observed = program.rows, program.unit, program.scale.observed
    eps = float(np.finfo(rows.dtype).eps)
    done = rounding_of(program)
    entries, r = rows.size, A.shape[1]
    freedom = r * (rows.m + rows.n - r)
    size = float(np.sqrt(np.sum((A.T @ A) * (B.T @ B)) / entries))  # of A Bᵀ
    if program.psd:
        A = B = A * np.sqrt(np.linalg.norm(B, axis=0))
    f = max(active, 1) / observed / size
    zeta = clean_limit(residual * norm_Y / np.sqrt(observed) / 2, f)
    previous, slow, widened, beta = np.inf, 0, 0, 0.0
    move_A: Array | float = 0.0
    move_B: Array | float = 0.0
    while True:
        fit = passes.clean_residual(rows, (A, B), unit=unit, zeta=zeta)
        RB, RA, square, clean, beyond = fit
        failed = Polished(A, B, zeta, beyond, exact=False)
        first = previous == np.inf
        if first and clean < TUNING.first_keep * (observed - active):
            if widened == TUNING.widenings:
                return failed
            zeta, widened = 3 * zeta, widened + 1  # the guess was too small
            continue
        if clean < TUNING.determined * freedom:
            return failed
        error = float(np.sqrt(square / clean))
        relative = float(np.sqrt(square) / norm_Y)
        support = float(1 - clean / observed)
        log.note(Step("polish", relative, np.nan, r, np.nan, support))
        if log.ended:
            return failed
        ratio = 1.0 if first else error / previous
        if error <= done * size or (ratio > 0.7 and error <= 200 * eps * size):
            found = within(program, A, B, zeta)
            lag = 0.0 if found.covers else max(error, eps * size)
            return Polished(
                A, B, zeta, beyond, found.covers, rounding=True, lagging=lag
            )
        slow += ratio > TUNING.slow
        if not first and (slow >= TUNING.most_slow or ratio > 2):
            found = within(program, A, B, zeta)
            noise = relative if found.covers else 0.0
            usual = float(np.median(found.by_row))
            lag = usual if usual < TUNING.lag * error else 0.0
            return Polished(
                A, B, zeta, beyond, False, settled=True, noise=noise, lagging=lag
            )
        if not first:
            # The contraction t of the plain step, had there been no momentum.
            t = min(max(ratio - beta + beta / ratio, 0.02), 0.95)
            beta = (t / (1 + np.sqrt(1 - t * t))) ** 2
        previous = error
        if program.psd:
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
        zeta = max(clean_limit(expected, f), 100 * eps * size)


@dataclass(frozen=True)
class Within:
    """What lies within ζ of a low-rank matrix."""

    clean: Array  # cells, of each row and then of each column
    seen: Array  # cells that are observed, likewise
    square: float  # Σ(Y − A Bᵀ)² over the clean cells
    norm: float  # ‖Y‖
    by_row: Array  # root mean square over the clean cells of each row

    @property
    def error(self) -> float:
        """Root mean square of the residual of the clean cells."""
        return float(np.sqrt(2 * self.square / max(self.clean.sum(), 1)))

    @property
    def support(self) -> float:
        """Share of the observed cells that are not clean."""
        return float(1 - self.clean.sum() / max(self.seen.sum(), 1))

    @property
    def covers(self) -> bool:
        """Whether every row and column has its share of the clean entries.

        One whose entries were all taken for corrupt would never come back, and would
        not be missed in the residual either.
        """
        usual = self.clean.sum() / max(self.seen.sum(), 1)
        return bool(np.all(self.clean >= TUNING.cover * usual * self.seen))


def within(program: ConvexProblem, A: Array, B: Array, zeta: float) -> Within:
    """Look at how A Bᵀ fits, in one pass."""
    rows = program.rows
    counts = passes.count_clean(rows, (A, B), unit=program.unit, zeta=zeta)
    clean, seen = np.append(*counts.n_clean), np.append(*counts.n_observed)
    row_square = counts.residual_square[0]
    square, size = float(row_square.sum()), float(counts.data_square[0].sum())
    by_row = np.sqrt(row_square / np.maximum(counts.n_clean[0], 1))
    return Within(clean, seen, square, float(np.sqrt(size)), by_row)


def clean_limit(error: float, density: float) -> float:
    """Return ζ for an expected error; `density` is the share of corrupt cells by size.

    Those below ζ bring density·ζ³/3 to the mean square, a tenth of the expected one.
    """
    return float((3 * TUNING.corrupt_part * error**2 / density) ** (1 / 3))


def rounding_of(program: ConvexProblem) -> float:
    """Return the error at which nothing is left to gain, in units of the usual size."""
    eps = float(np.finfo(program.rows.dtype).eps)
    return max(30 * eps, TUNING.rounding)
