"""Detect matrices without corruption: of low rank to rounding error as they are.

If Y has rank r, and a matrix of rank r has at most half as many degrees of freedom as Y
has entries, then Y itself is its low-rank part. There is one exception: a few wrong
entries in a matrix of low rank give another matrix of low rank. They show by their
leverage. Wrong entries in p rows and q columns add min(p, q) to the rank, and their
rows or columns become unit vectors of the column or row space, with leverage one: no
other row or column confirms their values. These are then regressed on the span of the
others, which is the better result if it explains the data with fewer parameters.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from discrepant.core.linalg import Array, svd, sym
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.robust_regression import l1_coordinates
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.polish import polish
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.exact.step import FIRST_MU, State
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import Step
from discrepant.robust_pca.rows import passes

MAX_ENTRIES_READ = 1 << 21  # entries of the rows from which the test block is cut
MAX_BLOCK_SIDE = 512  # rows and columns of the test block
ROUNDING = 20.0  # largest singular value of rounding, in units of eps·‖Y‖₂
CLEAR = 50.0  # no singular value may lie between ROUNDING and this many times it
EXTRA_COLUMNS = 5  # random columns of the sketch beyond the rank
MAX_LEVERAGE = 1 - 1e-6  # above it, no other row (column) confirms a row (column)
L1_ERROR = 1e-6  # of regressed entries, relative to the clipping bound, before a polish


@dataclass(frozen=True)
class UncorruptedFit:
    """The data as their own low-rank part."""

    result: ExactResult
    # Number of rows, and of columns, whose values no other row or column confirms.
    unconfirmed: tuple[int, int]

    @property
    def confirmed(self) -> bool:
        """Whether other rows and columns confirm each row and column."""
        return not any(self.unconfirmed)

    def beats(self, other: ExactResult) -> bool:
        """Whether this needs fewer parameters than an exact decomposition."""
        n_outliers = int(np.count_nonzero(other.outliers))
        own, others = (_freedom(fit.program, fit.rank) for fit in (self.result, other))
        return own <= others + n_outliers


def uncorrupted_fit(program: ConvexProblem, log: Recorder) -> UncorruptedFit | None:
    """Return the data as their own low-rank part; None if they have full rank.

    One block of the data reveals full rank, in a few milliseconds.
    """
    rows, scale = program.rows, program.scale
    if not scale.top or scale.observed < rows.size:
        return None
    rounding = CLEAR * ROUNDING * float(np.finfo(rows.dtype).eps)
    if scale.bound <= rounding * scale.top:  # ordinary entries are rounding beside it
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
        zeta = rounding * s[0]
        fit = passes.clean_residual(
            rows, (U, V * s), unit=program.unit, zeta=zeta, products=False
        )
        if fit.n_clean[0].sum() < rows.size:
            return None
    residual = float(np.sqrt(fit.square / fit.data_square))
    log.note(Step("uncorrupted", residual, np.nan, len(s), np.nan, 0.0), 1.0)
    mu = FIRST_MU / s[0]
    state = State(U, V * s, None, (U, V * s), mu, zeta, residual)
    status = Status(Outcome.EXACT, "converged: the data have low rank as they are")
    result = exact_result(program, state, status, log.history())
    in_rows, in_columns = (int(_is_alone(X).sum()) for X in rows.swap_factors(U, V))
    return UncorruptedFit(result, (in_rows, in_columns))


def regress_unconfirmed(
    program: ConvexProblem, fit: UncorruptedFit, log: Recorder
) -> ExactResult | None:
    """Return an exact decomposition with errors in rows and columns that are alone.

    None if there is none, or if it needs more parameters than the data as they are.
    """
    rows, eps = program.rows, float(np.finfo(program.rows.dtype).eps)
    state, unit = fit.result.state, program.unit / fit.result.program.unit
    size = np.linalg.norm(state.C, axis=0)
    U, V = state.U, state.C / size
    row_is_alone, column_is_alone = _is_alone(U), _is_alone(V)
    left = np.where(row_is_alone[:, None], 0.0, U * size * unit)
    right = np.where(column_is_alone[:, None], 0.0, V)
    left, right, s = svd_of_product(left, right)
    rank = int(np.sum(s > CLEAR * ROUNDING * eps * unit * size[0]))
    if not 0 < rank < len(s):
        return None
    with rows:
        A, B = left[:, :rank] * s[:rank], right[:, :rank]
        lines = _clipped_lines(program, row_is_alone, 0)
        A[row_is_alone] = l1_coordinates(lines * ~column_is_alone, B.T)
        A, R = linalg.qr(A, mode="economic")
        B = B @ R.T
        lines = _clipped_lines(program, column_is_alone, 1)
        B[column_is_alone] = l1_coordinates(lines, A.T)
        polished = polish(program, A, B, n_corrupt=1.0, error=L1_ERROR, log=log)
    if not polished.exact:
        return None
    U, V, s = svd_of_product(polished.A, polished.B)
    C = V * s
    state = replace(state, U=U, C=C, last=(U, C), zeta=polished.zeta)
    status = Status(Outcome.EXACT, "converged: exact to rounding")
    result = exact_result(program, state, status, log.history())
    return None if program.wrongly_clipped((U, C)) or fit.beats(result) else result


def _clipped_lines(program: ConvexProblem, which: Array, axis: int) -> Array:
    """Return rows (axis 0) or columns (1) of the data in the unit of the problem."""
    lines = program.rows.take(np.flatnonzero(which), axis)
    return np.asarray(np.clip(lines * program.unit, -1, 1))


def _is_alone(factor: Array) -> Array:
    """Return which rows of a factor with orthonormal columns have leverage one."""
    return np.asarray((factor**2).sum(axis=1) >= MAX_LEVERAGE)


def _rank_of_block(program: ConvexProblem) -> int | None:
    """Return the rank of a random block; None if it is full or unclear."""
    rows, unit = program.rows, program.unit
    side = int(np.clip(MAX_ENTRIES_READ // rows.n, 1, MAX_BLOCK_SIDE))
    rng = np.random.default_rng(0)
    at_rows, at_columns = (
        np.sort(rng.permutation(size)[: min(side, size)]) for size in (rows.m, rows.n)
    )
    block = rows.take(at_rows, 0)[:, at_columns] * unit
    side_of_square = min(block.shape)
    # At low rank, pivots end in rounding; they take a tenth of the time of an SVD.
    pivots = np.abs(
        np.diag(linalg.lapack.dgetrf(block[:side_of_square, :side_of_square])[0])
    )
    eps = float(np.finfo(rows.dtype).eps)
    if pivots.min() > CLEAR * ROUNDING * np.sqrt(side_of_square) * eps * pivots.max():
        return None
    rank = _rank(np.linalg.svd(block, compute_uv=False), eps)
    return rank if rank and rank < side_of_square else None


def _rank(values: Array, eps: float) -> int | None:
    """Return the number of singular values above rounding; None if it is unclear."""
    above = values > ROUNDING * eps * values[0]
    clear = values > CLEAR * ROUNDING * eps * values[0]
    return int(above.sum()) if above.sum() == clear.sum() else None


def _factors(program: ConvexProblem, rank: int) -> tuple[Array, Array, Array] | None:
    """Return U, V and s of the data; None if their rank differs from `rank`."""
    rows, eps = program.rows, float(np.finfo(program.rows.dtype).eps)
    width = min(rank + EXTRA_COLUMNS, rows.n)
    columns = np.random.default_rng(1).standard_normal((rows.n, width))
    P = passes.multiply_data(rows, unit=program.unit, right=columns).right
    Q = linalg.qr(P, mode="economic")[0]
    B = passes.multiply_data(rows, unit=program.unit, left=Q).left
    V, s, Ht = svd(B)
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
