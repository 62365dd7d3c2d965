"""The front door for any linear operator: `recover` checks, and a solver solves."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from discrepant.checks import (
    check_callback,
    check_choice,
    check_flag,
    check_rates,
    check_seed,
    check_square,
    check_whole,
)
from discrepant.paper.descent import Callback
from discrepant.paper.matrices import Descent, recover_by_descent
from discrepant.paper.observation import checked_data
from discrepant.paper.recovery import Recovery
from discrepant.paper.stopping import DEFAULT_STOP, Rule, checked_rules
from discrepant.progress import Progress

SOLVERS = ("descent",)


def recover(
    y: ArrayLike,
    operator: Any = None,
    *,
    solver: str = "descent",
    alpha: float | str = "auto",
    step: float | str = "auto",
    init_scale: float = 1e-4,
    width: int | None = None,
    psd: bool = False,
    stop: Rule | Sequence[Rule] = DEFAULT_STOP,
    random_state: Any = None,
    callback: Callback | None = None,
    progress: bool | Progress | None = None,
) -> Recovery:
    """Split ``y = A(X) + s`` into a low-rank X and a sparse s.

    Parameters
    ----------
    y : array-like
        The observation. Without an operator it is the matrix itself, and NaN marks
        entries that are missing.
    operator : Operator, optional
        How X was observed: an operator of this package or of its kind, or a SciPy
        LinearOperator or PyLops operator on the entries of a square X; for another
        shape wrap it, ``Wrapped(operator, shape)``. By default every entry is seen.
    solver : {"descent"}
        "descent" is the paper's gradient descent with two learning rates.
    alpha : float or "auto"
        Ratio of the two learning rates. The result is that of the convex program
        with λ = 1/α. "auto" is √max(m, n), less where entries are missing, and what
        that stands for under an operator (see `discrepant.paper.alpha`).
    step : float or "auto"
        The learning rate τ of U. With "auto" the data are first brought to unit size
        and their gross entries clipped, so that neither scale matters; with a number
        everything is taken as it is, as in the paper.
    init_scale : float
        Standard deviation of the start of U, g and h; relative to the root of the
        data's mean size if the step is "auto".
    width : int, optional
        Columns r′ of U; all by default. The rank need not be known.
    psd : bool
        Whether X is positive semidefinite (U Uᵀ, as in the paper) or any matrix (U Vᵀ).
    stop : rule or sequence of rules
        See `discrepant.paper.stopping`; by default a relative residual of 1e-3 or
        20,000 steps, which also end a run that is told of a residual only.
    random_state : int, Generator or None
        Seed of the start.
    callback : callable, optional
        See `discrepant.paper.descent.descend`.
    progress : bool or callable, optional
        True shows a bar; a callable is told ``(share, note)`` now and then, and ends
        the run with the best so far by returning False.

    Returns
    -------
    Recovery

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import recover
    >>> from discrepant.paper.problems import corrupted_matrix
    >>> problem = corrupted_matrix(30, rank=2, share=0.1, random_state=0)
    >>> found = recover(problem.observed, psd=True, random_state=0)
    >>> error = np.linalg.norm(found.low_rank - problem.low_rank)
    >>> bool(error < 0.1 * np.linalg.norm(problem.low_rank))
    True
    """
    check_choice("solver", solver, SOLVERS)
    data, A = checked_data(y, operator)
    rules = checked_rules(stop)
    check_flag("psd", psd)
    check_seed(random_state)
    check_callback("callback", callback)
    if width is not None:
        check_whole("width", width, "a whole number from 1", lambda count: count >= 1)
    check_rates(alpha, step, init_scale)
    check_square(A.signal_shape, psd)
    settings = Descent(alpha, step, init_scale, width, bool(psd), rules, callback)
    return recover_by_descent(
        data, A, settings, random_state=random_state, progress=progress
    )
