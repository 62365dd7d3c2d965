"""`recover`: validate the arguments, choose a solver, and return its result."""

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.array_libraries import to_numpy
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, Symmetry
from discrepant.core.progress import Progress, Report, reporting
from discrepant.core.validation import (
    check_choice,
    check_fdr,
    check_flag,
    check_number,
    check_seed,
    check_square,
    quote,
    real_array,
    refuse_unused,
)
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import FixedRankMatrix
from discrepant.operators.entrywise import Entries, Identity, Mask
from discrepant.operators.observation import (
    match_operator,
    nan_where_missing,
)
from discrepant.operators.operator import Operator, dot_test
from discrepant.paper.descent import Callback
from discrepant.paper.matrix_descent import (
    DESCENT_ONLY,
    DescentSettings,
    recover_by_descent,
)
from discrepant.paper.recovery import Recovery
from discrepant.robust_pca.doubts import FitWarning
from discrepant.robust_pca.settings import (
    DEFAULT_PASSES,
    DEFAULT_TOL,
    EFFORTS,
    SOLVERS,
    SolverSettings,
)
from discrepant.sensing.result import SensingResult
from discrepant.sensing.solve import SensingSettings
from discrepant.sensing.solve import solve as solve_measurements

if TYPE_CHECKING:
    from discrepant.robust_pca.search.entry_fits import MatrixFit

# Default of tol for measurements by an operator: relative duality gap.
MAX_GAP = 1e-6
# Default of max_iter for measurements by an operator: rounds.
MAX_ROUNDS = 2000
# Parameters that the descent does not use, and their defaults.
IMPLICIT_ONLY = {
    "symmetric": False,
    "real": None,
    "noise": "auto",
    "fdr": 0.01,
    "start": None,
    "effort": "best",
}


def recover(
    y: ArrayLike,
    operator: Any = None,
    *,
    solver: str = "implicit",
    psd: bool = False,
    symmetric: bool = False,
    real: bool | None = None,
    noise: Any = "auto",
    alpha: float | str = "auto",
    fdr: float = 0.01,
    tol: float | None = None,
    max_iter: int | None = None,
    start: Any = None,
    effort: str = "best",
    check: bool = True,
    step: float | str = "auto",
    init_scale: float = 1e-4,
    width: int | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
    progress: bool | Progress | None = None,
) -> "Recovery | SensingResult | MatrixFit":
    """Decompose ``y = A(X) + s`` into a low-rank X and a sparse s.

    A real matrix is decomposed as by `RobustPCA`, with the same result. Parameters that
    the chosen solver does not use are refused.

    Parameters
    ----------
    y : array-like
        The observation, real or complex. Without an operator it is the matrix itself,
        and NaN marks entries that are missing.
    operator : Operator, optional
        How X was observed: an operator of this package or of its kind, or a SciPy
        LinearOperator or PyLops operator on the entries of a square X; for another
        shape wrap it, ``Wrapped(operator, shape)``. By default y is X + s itself.
    solver : {"implicit", "descent"}
        "implicit" follows the flow of the paper in large steps, and takes a few hundred
        applications of the operator; "descent" is the paper's gradient descent with two
        learning rates, and takes some ten thousand.
    psd : bool
        Whether X is positive semidefinite (Hermitian if it is complex).
    symmetric : bool
        Whether X is symmetric (Hermitian if it is complex).
    real : bool, optional
        Whether X is real. By default it is complex where the adjoint of the operator
        gives complex matrices, as that of a Fourier transform does: pass ``real=True``
        for a real X with such an operator.
    noise : "auto" or float
        Standard deviation of the noise on every measurement, in addition to the gross
        errors (of each part, where measurements are complex). "auto" estimates it; 0
        means that there is none. For a matrix also "column" or one number per column,
        as in `RobustPCA`.
    alpha : float or "auto"
        λ = 1/α is the weight of ‖s‖₁ in the convex program, and α the ratio of the
        learning rates of the descent. "auto" is √max(m, n) for a matrix, less where
        entries are missing, and the equivalent for other operators (see
        `discrepant.paper.alpha`). If you pass a number, the result is the optimum of
        that program.
    fdr : float
        With noise: expected fraction of clean ones among the flagged measurements.
    tol : float, optional
        Relative gap at which the convex program counts as solved, by default 1e-6; for
        a matrix, and for the descent, the residual and default of `RobustPCA`. An exact
        fit is computed to rounding.
    max_iter : int, optional
        Limit of the number of rounds; for a matrix, of passes over the data; for the
        descent, of steps.
    start : result or ndarray, optional
        Where to start: the result of an earlier call or, where X is measured by an
        operator, a matrix.
    effort : {"best", "fast"}
        Of a real matrix: "best" searches for an exact decomposition by empirical Bayes
        if nothing cheaper gives a clear result; "fast" leaves this out.
    check : bool
        Whether to test, by one application each, that `adjoint` is the adjoint of
        `forward`.
    step, init_scale, width, callback
        Only for the descent. The learning rate τ of U, or "auto", which follows from
        the data after gross entries are clipped; the standard deviation of the initial
        U, g and h (with "auto" for data of mean size one); the number of columns of U;
        and a function that is called as ``callback(iteration, signal, corruption)`` at
        intervals, where both parts have a method ``value()``. A mapping that it returns
        is recorded in the history.
    progress : bool or callable, optional
        True shows a progress bar. A callable is called with ``(fraction, note)`` at
        intervals; if it returns False, the run ends with the best result so far.

    Returns
    -------
    Result
        With ``low_rank`` (also ``signal``), ``sparse`` (also ``corruption``),
        ``outliers``, ``noise``, ``certificate``, ``status``, ``history`` and more;
        ``n_applications`` counts those of A and A*.

    Warns
    -----
    UserWarning
        If the data do not determine X, or only a part of it.
    ConvergenceWarning
        If more rounds are needed.

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import Sensing, recover
    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(rng.standard_normal(20), rng.standard_normal(20))
    >>> operator = Sensing(rng.standard_normal((300, 20, 20)))
    >>> y = operator.forward(truth)
    >>> y[:30] += 50 * rng.standard_normal(30)
    >>> result = recover(y, operator, random_state=0)
    >>> result.rank, bool(np.allclose(result.low_rank, truth, rtol=0, atol=1e-8))
    (1, True)
    """
    given, y = locals(), to_numpy(y)
    check_choice("solver", solver, SOLVERS)
    for name, flag in (("psd", psd), ("symmetric", symmetric), ("check", check)):
        check_flag(name, flag)
    check_seed(random_state)
    check_choice("effort", effort, EFFORTS)
    descent = DescentSettings(
        alpha, step, init_scale, width, psd, tol, max_iter, callback
    )
    if solver == "descent":
        refuse_unused(given, IMPLICIT_ONLY, 'belongs to solver="implicit"')
        return recover_by_descent(
            y, operator, descent, random_state=random_state, progress=progress
        )
    descent_only = {**DESCENT_ONLY, "callback": None}
    refuse_unused(given, descent_only, 'belongs to solver="descent"')
    check_fdr(fdr)
    if tol is not None:
        check_number("tol", tol, "a number between 0 and 1", lambda gap: 0 < gap < 1)
    data, A = match_operator(_numbers(y), operator)
    check_square(A.signal_shape, psd or symmetric)
    is_matrix = isinstance(A, Identity | Mask) and data.dtype.kind != "c"
    result: SensingResult | MatrixFit
    with reporting(progress, "recover") as report:
        if is_matrix and not symmetric:
            why = "is not used where y is a real matrix"
            refuse_unused(given, {"real": None}, why)
            matrix_settings = SolverSettings(
                alpha=alpha,
                psd=psd,
                noise=noise,
                fdr=fdr,
                tol=DEFAULT_TOL if tol is None else tol,
                max_iter=max_iter or DEFAULT_PASSES,
                effort=effort,
                random_state=random_state,
            )
            result, doubts = _recover_matrix(data, A, matrix_settings, start, report)
        else:
            refuse_unused(given, {"effort": "best"}, "is only for a real matrix")
            kind: Symmetry = "psd" if psd else "symmetric" if symmetric else "general"
            if not isinstance(noise, str) or noise != "auto":
                requirement = '"auto" or a number of zero or more'
                check_number("noise", noise, requirement, lambda sigma: sigma >= 0)
            settings = SensingSettings(
                kind,
                alpha,
                noise,
                fdr,
                MAX_GAP if tol is None else tol,
                max_iter or MAX_ROUNDS,
                random_state,
            )
            result, doubts = _recover_measured(
                data, A, settings, real, check, start, report
            )
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    return result


def _recover_matrix(
    data: Array, A: Operator, settings: SolverSettings, start: Any, report: Report
) -> "tuple[MatrixFit, Iterable[FitWarning]]":
    """Decompose a matrix as `RobustPCA` does; also return warnings. Loads Numba."""
    from discrepant.robust_pca.exact.result import ExactResult
    from discrepant.robust_pca.fit_warnings import fit_warnings
    from discrepant.robust_pca.noisy.result import NoisyResult
    from discrepant.robust_pca.rows.in_memory import ArrayRows
    from discrepant.robust_pca.solve import solve

    Y = nan_where_missing(data, A)
    rows = ArrayRows(Y)
    if start is not None and not (
        isinstance(start, ExactResult | NoisyResult)
        and start.program.rows.same_layout(rows)
    ):
        raise InputError(
            "For a matrix, start must be the result of an earlier call with a matrix "
            f"of the same shape and type, got {quote(start)}."
        )
    fit = solve(rows, settings, start, report)
    return fit, fit_warnings(Y, fit)


def _recover_measured(
    data: Array,
    A: Operator,
    settings: SensingSettings,
    real: bool | None,
    check: bool,
    start: Any,
    report: Report,
) -> tuple[SensingResult, Iterable[FitWarning]]:
    """Recover X from measurements by an operator; also return warnings."""
    given_data, given_operator = data, A
    if isinstance(A, Mask):  # only the observed entries are measurements
        rows, columns = np.nonzero(A.observed)
        data, A = data[rows, columns], Entries(rows, columns, A.signal_shape)
    if check:
        complex_X = dot_test(A, data.dtype, real)
    else:
        complex_X = not real and np.iscomplexobj(A.adjoint(np.ones_like(data)))
    measurements = Measurements(
        A, data, not complex_X, n_applications=2 if check else 1
    )
    start = _start_matrix(start, A.signal_shape, settings.kind, complex_X)
    with measurements.threads():
        result = solve_measurements(measurements, settings, report, start)
    if given_operator is not A:
        result = result.embed_in_mask(given_operator, given_data)
    return result, result.doubts


def _start_matrix(
    start: Any, shape: tuple[int, int], kind: Symmetry, complex_X: bool
) -> FixedRankMatrix | None:
    """Return the matrix to start from, as factors; None if none is given."""
    if start is None:
        return None
    X = np.asarray(getattr(start, "low_rank", start))
    if X.shape != shape or X.dtype.kind not in "fiubc" or not np.isfinite(X).all():
        raise InputError(
            f"start must be a result or a matrix of shape {shape} of finite numbers, "
            f"got {X.dtype} of shape {X.shape}."
        )
    X = X.astype(np.complex128) if complex_X else X.real.astype(np.float64)
    at = FixedRankMatrix.of(X, kind)
    size = np.abs(at.d)
    return at.select(size > 1e-9 * size.max(initial=0.0))


def _numbers(y: ArrayLike) -> Array:
    """Return y as an array of real or complex floats."""
    array = np.asarray(y) if np.iscomplexobj(y) else real_array(y)
    extended = array.dtype.kind == "c" and array.dtype.itemsize > 16
    return array.astype(np.complex128) if extended else array
