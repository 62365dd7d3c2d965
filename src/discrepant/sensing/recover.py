"""The front door for any linear operator: `recover` checks, and a solver solves."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from discrepant.core.array_libraries import to_numpy
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, Report, reporting
from discrepant.core.validation import (
    check_callback,
    check_choice,
    check_fdr,
    check_flag,
    check_integer,
    check_number,
    check_rates,
    check_seed,
    check_square,
    real_array,
)
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.tangent_space import FixedRankMatrix, Symmetry
from discrepant.operators.entrywise import Entries, Identity, Mask
from discrepant.operators.observation import (
    match_operator,
    nan_where_missing,
    validate_observation,
)
from discrepant.operators.operator import Operator, dot_test
from discrepant.paper.descent import Callback
from discrepant.paper.matrix_descent import DescentSettings, recover_by_descent
from discrepant.paper.recovery import Recovery
from discrepant.paper.stopping import DEFAULT_STOP, Rule, validate_rules
from discrepant.sensing.result import SensingResult
from discrepant.sensing.solve import Asked
from discrepant.sensing.solve import solve as solve_measured

if TYPE_CHECKING:
    from discrepant.sensing.matrix_result import MatrixResult

SOLVERS = ("implicit", "descent")
PASSES = 500  # over a matrix that is seen as it is, at the most
ROUNDS = 2000  # of everything else


def recover(
    y: ArrayLike,
    operator: Any = None,
    *,
    solver: str = "implicit",
    psd: bool = False,
    symmetric: bool = False,
    real: bool | None = None,
    noise: float | str = "auto",
    alpha: float | str = "auto",
    fdr: float = 0.01,
    tol: float = 1e-6,
    max_iter: int | None = None,
    start: Any = None,
    check: bool = True,
    step: float | str = "auto",
    init_scale: float = 1e-4,
    width: int | None = None,
    stop: Rule | Sequence[Rule] = DEFAULT_STOP,
    random_state: Any = None,
    callback: Callback | None = None,
    progress: bool | Progress | None = None,
) -> "Recovery | SensingResult | MatrixResult":
    """Split ``y = A(X) + s`` into a low-rank X and a sparse s.

    Parameters
    ----------
    y : array-like
        The observation, real or complex. Without an operator it is the matrix itself,
        and NaN marks entries that are missing.
    operator : Operator, optional
        How X was observed: an operator of this package or of its kind, or a SciPy
        LinearOperator or PyLops operator on the entries of a square X; for another
        shape wrap it, ``Wrapped(operator, shape)``. By default every entry is seen.
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
        gives complex matrices, as that of a Fourier transform does: say ``real=True``
        for a real X behind such an operator.
    noise : "auto" or float
        Noise on every measurement, beside the gross errors: "auto" finds out whether
        there is any and how much; 0 says that there is none; a number is its standard
        deviation (of each part, where measurements are complex).
    alpha : float or "auto"
        λ = 1/α is the weight of ‖s‖₁ in the convex program, and α the ratio of the
        learning rates of the descent. "auto" is √max(m, n) for a matrix, less where
        entries are missing, and what that stands for under an operator (see
        `discrepant.paper.alpha`). Told a number, the solver returns the optimum of that
        program.
    fdr : float
        Share of false ones among the measurements that are flagged, with noise.
    tol : float
        Relative gap at which the convex program counts as solved. A fit that is exact
        goes to rounding.
    max_iter : int, optional
        Rounds at the most.
    start : result or ndarray, optional
        Where to start: what an earlier call returned, or a matrix.
    check : bool
        Whether to test, by one application each, that the adjoint belongs to the
        forward map.
    step, init_scale, width, stop
        For the descent alone. The learning rate τ of U, or "auto", which first brings
        the data to unit size and clips their gross entries; the standard deviation of
        the start of U, g and h; the columns of U; and the rules of
        `discrepant.paper.stopping`, by default a residual of 1e-3 or 20,000 steps.
    random_state : int, Generator or None
        Seed of whatever is drawn.
    callback : callable, optional
        ``callback(moment, signal, corruption)``, now and then; both parts have a method
        ``value()``. A mapping that it returns is recorded in the history.
    progress : bool or callable, optional
        True shows a bar; a callable is told ``(share, note)`` now and then, and ends
        the run with the best so far by returning False.

    Returns
    -------
    Result
        With ``low_rank`` (also ``signal``), ``sparse`` (also ``corruption``),
        ``outliers``, ``noise``, ``certificate``, ``status``, ``history`` and more;
        ``n_applications`` counts those of A and A*.

    Warns
    -----
    UserWarning
        Where the data cannot tell X, or not all of it.
    ConvergenceWarning
        Where more rounds are needed.

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import Sensing, recover
    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(rng.standard_normal(20), rng.standard_normal(20))
    >>> operator = Sensing(rng.standard_normal((300, 20, 20)))
    >>> y = operator.forward(truth)
    >>> y[:30] += 50 * rng.standard_normal(30)
    >>> found = recover(y, operator, random_state=0)
    >>> found.rank, bool(np.allclose(found.low_rank, truth, rtol=0, atol=1e-8))
    (1, True)
    """
    y = to_numpy(y)
    check_choice("solver", solver, SOLVERS)
    for name, flag in (("psd", psd), ("symmetric", symmetric), ("check", check)):
        check_flag(name, flag)
    check_seed(random_state)
    check_callback("callback", callback)
    if width is not None:
        check_integer("width", width, "a whole number from 1", lambda count: count >= 1)
    check_rates(alpha, step, init_scale)
    if solver == "descent":
        told = {"symmetric": symmetric, "start": start is not None, "real": real}
        _refuse(told, 'belongs to solver="implicit"')
        data, A = validate_observation(y, operator)
        check_square(A.signal_shape, psd)
        settings = DescentSettings(
            alpha, step, init_scale, width, bool(psd), validate_rules(stop), callback
        )
        return recover_by_descent(
            data, A, settings, random_state=random_state, progress=progress
        )
    told = {
        "step": step != "auto",
        "init_scale": init_scale != 1e-4,
        "width": width is not None,
        "stop": stop is not DEFAULT_STOP,
    }
    _refuse(told, 'belongs to the descent; pass solver="descent" with it')
    _check_numbers(noise, fdr, tol, max_iter)
    data, A = match_operator(_numbers(y), operator)
    check_square(A.signal_shape, psd or symmetric)
    kind: Symmetry = "psd" if psd else "symmetric" if symmetric else "general"
    plain = isinstance(A, Identity | Mask) and data.dtype.kind != "c"
    asked = Asked(
        kind, alpha, noise, fdr, tol, max_iter or ROUNDS, random_state, callback
    )
    with reporting(progress, "recover") as report:
        found: SensingResult | MatrixResult
        if plain and kind != "symmetric" and callback is None and start is None:
            found, said = _seen_whole(data, A, asked, max_iter or PASSES, report)
        else:
            found = _measured(data, A, asked, real, check, start, report)
            category = UserWarning if found.status.converged else ConvergenceWarning
            said = [(sentence, category) for sentence in found.caveats]
    for sentence, category in said:
        warnings.warn(sentence, category, stacklevel=2)
    return found


def _seen_whole(
    data: Array, A: Operator, asked: Asked, passes: int, report: Report
) -> "tuple[MatrixResult, list[tuple[str, type[Warning]]]]":
    """Recover X from itself, with gaps or without; this loads Numba."""
    from discrepant.robust_pca.fit_warnings import caveats
    from discrepant.robust_pca.rows.in_memory import ArrayRows
    from discrepant.robust_pca.solve import Settings, solve
    from discrepant.sensing.matrix_result import MatrixResult

    psd = asked.kind == "psd"
    settings = Settings(
        alpha=asked.alpha,
        psd=psd,
        noise=asked.noise,
        fdr=asked.fdr,
        tol=asked.tol,
        max_iter=passes,
        random_state=asked.random_state,
    )
    Y = nan_where_missing(data, A)
    Y = Y.astype(np.float32) if Y.dtype.itemsize < 4 else Y
    split = solve(ArrayRows(Y), settings, None, report)
    return MatrixResult(split, data, A, psd), list(caveats(Y, split))


def _measured(
    data: Array,
    A: Operator,
    asked: Asked,
    real: bool | None,
    check: bool,
    start: Any,
    report: Report,
) -> SensingResult:
    """Recover X from measurements of it."""
    given, shown = data, A
    if isinstance(A, Mask):  # what is not observed is no measurement
        rows, columns = np.nonzero(A.observed)
        data, A = data[rows, columns], Entries(rows, columns, A.signal_shape)
    if check:
        complex_X = dot_test(A, data.dtype, real)
    else:
        complex_X = not real and np.iscomplexobj(A.adjoint(np.ones_like(data)))
    measuring = Measurements(A, data, not complex_X, n_applications=2 if check else 1)
    warm = _start(start, A.signal_shape, asked.kind, complex_X)
    with measuring.threads():
        found = solve_measured(measuring, asked, report, warm)
    return found if shown is A else found.seen_through(shown, given)


def _start(
    start: Any, shape: tuple[int, int], kind: Symmetry, complex_X: bool
) -> FixedRankMatrix | None:
    """Return the matrix to start from."""
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
    """Return real or complex floats."""
    array = np.asarray(y) if np.iscomplexobj(y) else real_array(y)
    wide = array.dtype.kind == "c" and array.dtype.itemsize > 16
    return array.astype(np.complex128) if wide else array


def _refuse(told: dict[str, Any], why: str) -> None:
    for name, value in told.items():
        if value:
            raise InputError(f"{name} {why}.")


def _check_numbers(noise: Any, fdr: Any, tol: Any, max_iter: Any) -> None:
    """Refuse what cannot be worked with."""
    if not isinstance(noise, str) or noise != "auto":
        what = '"auto" or a number of zero or more'
        check_number("noise", noise, what, lambda sigma: sigma >= 0)
    check_fdr(fdr)
    check_number("tol", tol, "a number between 0 and 1", lambda gap: 0 < gap < 1)
    if max_iter is not None:
        what = "a whole number from 1"
        check_integer("max_iter", max_iter, what, lambda count: count >= 1)
