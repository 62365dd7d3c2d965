"""Matrices with nothing wrong: of low rank to rounding, as they are.

Where Y itself has rank r, and a matrix of this rank has at most half as many degrees of
freedom as Y has entries, that explains Y better than any splitting, with one exception:
a few wrong entries in a matrix of low rank give one of low rank too. They show by their
leverage. Wrong entries on p rows and q columns contribute min(p, q) to the rank, and
their rows or their columns then become unit vectors of the column or row space, whose
leverage is one: what these lines hold is confirmed by no other line.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array, sym
from discrepant.core.results import Outcome, Status
from discrepant.robust_pca.exact.polish import within
from discrepant.robust_pca.exact.result import ExactResult, split_of
from discrepant.robust_pca.exact.step import TUNING as STEP
from discrepant.robust_pca.exact.step import State
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Recorder, Step
from discrepant.robust_pca.rows import passes

BLOCK = 1 << 21  # entries that are read of the lines of which a block is looked at
SIDE = 512  # lines of that block, at the most
ROUNDING = 20.0  # times the rounding error of ‖Y‖₂: singular values of rounding
CLEAR = 50.0  # times that: no singular value may lie between the two
MORE = 5  # random columns beyond the rank
CONFIRMED = 1 - 1e-6  # leverage from which on no other line confirms a line


@dataclass(frozen=True)
class Intact:
    """A matrix of low rank, as it is."""

    split: ExactResult
    confirmed: bool  # whether each line is confirmed by others

    def beats(self, other: ExactResult) -> bool:
        """Whether it takes fewer numbers than a splitting without noise."""
        wrong = int(np.count_nonzero(other.outliers))
        ours, theirs = (_freedom(it.program, it.rank) for it in (self.split, other))
        return ours <= theirs + wrong


def intact(program: ConvexProblem, log: Recorder) -> Intact | None:
    """Return the data as their own low-rank part; None if they have no low rank.

    Data of full rank are told by one block of them, in some milliseconds.
    """
    rows, scale = program.rows, program.scale
    if not scale.top or scale.observed < rows.size:
        return None
    program = replace(program, scale=replace(scale, bound=scale.top))
    rank = _rank_of_block(program)
    if rank is None or _freedom(program, rank) > rows.size / 2:
        return None
    with rows:
        factors = _factors(program, rank)
        if factors is None:
            return None
        U, V, s = factors
        zeta = CLEAR * ROUNDING * float(np.finfo(rows.dtype).eps) * s[0]
        fit = within(program, U, V * s, zeta)
        if fit.clean.sum() < fit.seen.sum():
            return None
    residual = float(np.sqrt(fit.square)) / fit.norm
    log.note(Step("intact", residual, np.nan, len(s), np.nan, 0.0), 1.0)
    mu = STEP.first_mu / s[0]
    state = State(U, V * s, None, (U, V * s), mu, zeta, residual)
    status = Status(Outcome.EXACT, "converged: the data are of low rank as they are")
    leverage = max(float((X**2).sum(axis=1).max()) for X in (U, V))
    return Intact(split_of(program, state, status, log.history()), leverage < CONFIRMED)


def _rank_of_block(program: ConvexProblem) -> int | None:
    """Return the rank of some rows at some columns; None if it is full."""
    rows, unit = program.rows, program.unit
    side = int(np.clip(BLOCK // rows.n, 1, SIDE))
    rng = np.random.default_rng(0)
    at_rows, at_columns = (
        np.sort(rng.permutation(size)[: min(side, size)]) for size in (rows.m, rows.n)
    )
    block = rows.take(at_rows, 0)[:, at_columns] * unit
    few = min(block.shape)
    # Pivots end in rounding where the rank is low, and take a tenth of the time of
    # singular values.
    pivots = np.abs(np.diag(linalg.lapack.dgetrf(block[:few, :few])[0]))
    eps = float(np.finfo(rows.dtype).eps)
    if pivots.min() > CLEAR * ROUNDING * np.sqrt(few) * eps * pivots.max():
        return None
    rank = _rank(np.linalg.svd(block, compute_uv=False), eps)
    return rank if rank and rank < few else None


def _rank(values: Array, eps: float) -> int | None:
    """Return how many singular values are no rounding; None if that is not clear."""
    above = values > ROUNDING * eps * values[0]
    clear = values > CLEAR * ROUNDING * eps * values[0]
    return int(above.sum()) if above.sum() == clear.sum() else None


def _factors(program: ConvexProblem, rank: int) -> tuple[Array, Array, Array] | None:
    """Return U, V and s of data of such a rank; None if it is another one."""
    rows, eps = program.rows, float(np.finfo(program.rows.dtype).eps)
    width = min(rank + MORE, rows.n)
    columns = np.random.default_rng(1).standard_normal((rows.n, width))
    P = passes.multiply_data(rows, unit=program.unit, right=columns).right
    Q = linalg.qr(P, mode="economic")[0]
    B = passes.multiply_data(rows, unit=program.unit, left=Q).left
    V, s, Ht = linalg.svd(B, full_matrices=False)
    if _rank(s, eps) != rank:
        return None
    U, V, s = Q @ Ht[:rank].T, V[:, :rank], s[:rank]
    if program.psd:
        s, H = linalg.eigh(sym((U.T @ U * s) @ (V.T @ U)))
        if s[0] <= 0:
            return None
        U = V = U @ H[:, ::-1]
        s = s[::-1]
    return U, V, s


def _freedom(program: ConvexProblem, rank: int) -> int:
    return int(rank * (program.rows.m + program.rows.n - rank))
