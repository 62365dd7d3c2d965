"""Polish: least squares on the clean entries at a fixed rank, to rounding error.

Minimise ``‖R‖²`` over matrices A Bᵀ of rank r, where R is the residual of the entries
within ζ of A Bᵀ. ζ follows the error down, so entries enter and leave the fit as it
improves. If an exact solution exists, the error falls to rounding.
"""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.recorder import Recorder
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import Step
from discrepant.robust_pca.rows.passes import CleanResidual, clean_residual

# Relative error at which nothing is left to gain: float64 rounds at 2e-16, and sums
# over a row of a few thousand entries lose three more digits.
ROUNDING = 1e-13
# Fraction of the expected mean square that corrupt entries below ζ may contribute.
CORRUPT_PART = 0.1
# Expected error in the first pass, in units of that of the start: there it varies
# between rows and columns.
FIRST_ERROR = 4.0
# Clean entries required per degree of freedom.
ENTRIES_PER_FREEDOM = 1.05
# A pass is slow if it leaves more than this fraction of the error.
SLOW = 0.9
# Number of slow passes that end the polish.
MAX_SLOW = 3
# Fraction of the mean fraction of clean entries that every row and column must have.
MIN_COVERAGE = 0.4


class PolishOutcome(Enum):
    """How a polish ended."""

    EXACT = "clean entries fit to rounding in every row and column"
    NOISE_FLOOR = "the residual stopped falling above rounding"
    FAILED = "too few clean entries for this rank or in some line, or no passes left"


@dataclass(frozen=True)
class PolishResult:
    """Factors of a polish, and how it ended."""

    A: Array
    B: Array
    zeta: float  # entries with a smaller residual are clean
    outcome: PolishOutcome

    @property
    def exact(self) -> bool:
        """Whether clean entries fit to rounding and cover every row and column."""
        return self.outcome is PolishOutcome.EXACT


def polish(
    program: ConvexProblem,
    A: Array,
    B: Array,
    *,
    n_corrupt: float,
    error: float,
    log: Recorder,
) -> PolishResult:
    """Fit A Bᵀ to the clean entries by least squares.

    Entries are clean if their residual is within ζ. A fraction f dζ of the corrupt ones
    has a residual in dζ; those below ζ contribute f ζ³/3 to the mean square. ζ is set
    so that this is a tenth of the expected error; ζ ∝ error^(2/3) leaves room for rows
    and columns that converge late.

    The step is the gradient in the metric of the factors, with heavy-ball momentum β
    set by the contraction so far. With X ⪰ 0 the factors A and B stay equal.
    `n_corrupt` is the number of entries classified as corrupt so far, and `error` the
    root mean square residual of the others.
    """
    rows, unit, observed = program.rows, program.unit, program.scale.observed
    eps = float(np.finfo(rows.dtype).eps)
    tolerance = rounding_error(program)
    entries, r = rows.size, A.shape[1]
    freedom = r * (rows.m + rows.n - r)
    size = float(np.sqrt(np.sum((A.T @ A) * (B.T @ B)) / entries))  # of A Bᵀ
    if program.psd:
        A = B = A * np.sqrt(np.linalg.norm(B, axis=0))
    f = max(n_corrupt, 1) / observed / size
    zeta = clean_cutoff(FIRST_ERROR * error, f)
    previous, slow, beta = np.inf, 0, 0.0
    move_A: Array | float = 0.0
    move_B: Array | float = 0.0
    while True:
        fit = clean_residual(rows, (A, B), unit=unit, zeta=zeta)
        RB, RA, clean = fit.right, fit.left, float(fit.n_clean[0].sum())
        failed = PolishResult(A, B, zeta, PolishOutcome.FAILED)
        first = previous == np.inf
        if clean < ENTRIES_PER_FREEDOM * freedom:
            return failed
        error = float(np.sqrt(fit.square / clean))
        relative = float(np.sqrt(fit.square / fit.data_square))
        support = float(1 - clean / observed)
        log.note(Step("polish", relative, np.nan, r, np.nan, support))
        if log.ended:
            return failed
        ratio = 1.0 if first else error / previous
        slow += ratio > SLOW
        exact = error <= tolerance * size
        if exact or slow >= MAX_SLOW:
            if not covers_all_lines(program, fit):
                return failed
            outcome = PolishOutcome.EXACT if exact else PolishOutcome.NOISE_FLOOR
            return replace(failed, outcome=outcome)
        if not first:
            # Contraction t of the step without momentum.
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
        zeta = max(clean_cutoff(expected, f), 100 * eps * size)


def covers_all_lines(program: ConvexProblem, fit: CleanResidual) -> bool:
    """Whether every row and column has enough clean entries.

    A row whose entries are all classified as corrupt would never recover, and would not
    show in the residual.
    """
    clean, observed = np.append(*fit.n_clean), np.append(*program.count_observed())
    mean = clean.sum() / max(observed.sum(), 1)
    return bool(np.all(clean >= MIN_COVERAGE * mean * observed))


def clean_cutoff(error: float, density: float) -> float:
    """Return ζ for an expected error, given the density of corrupt entries by size.

    Those below ζ contribute density·ζ³/3 to the mean square, a tenth of the expected.
    """
    return float((3 * CORRUPT_PART * error**2 / density) ** (1 / 3))


def rounding_error(program: ConvexProblem) -> float:
    """Return the error at which the fit is exact, relative to the typical entry."""
    eps = float(np.finfo(program.rows.dtype).eps)
    return max(30 * eps, ROUNDING)
