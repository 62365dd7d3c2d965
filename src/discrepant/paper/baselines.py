"""Baselines of the paper: convex program, ℓ1 factorisation, projections."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.linalg import Array, shrink, shrink_eigen, shrink_singular, svd
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.threads import blas_threads
from discrepant.core.validation import check_count, check_rates, check_square
from discrepant.operators.observation import validate_observation
from discrepant.paper.alpha import auto_alpha
from discrepant.paper.descent import Callback, descend
from discrepant.paper.recovery import Recovery
from discrepant.structures.factorisations import NoCorruption, gaussian_factors

# The last μ in units of ‖Y‖₂, which is also the relative error that it leaves.
FINAL_MU = 1e-5
# Ratio of μ in successive steps, as in Lin et al. (2009).
MU_DECAY = 0.9


class BaselineStep(NamedTuple):
    """Numbers of one step of a baseline."""

    residual: float  # ‖A(X) + s − y‖ / ‖y‖
    rank: int


def convex(
    y: ArrayLike,
    *,
    alpha: float | str = "auto",
    psd: bool = False,
    tol: float = 1e-3,
    max_iter: int = 20_000,
) -> Recovery:
    """Solve the convex program by accelerated proximal gradient with continuation.

    ``min ‖X‖_* + λ‖s‖₁  s.t.  X + s = y`` (and X ⪰ 0) is approached through

        min  μ‖X‖_* + μλ‖s‖₁ + ½‖X + s − y‖²

    with μ falling geometrically (Lin, Ganesh, Wright, Wu, Chen, Ma; 2009). Each step
    takes the singular value decomposition of a matrix of the size of y.

    Parameters
    ----------
    y : array-like of shape (m, n)
        The corrupted matrix; NaN marks missing entries.
    alpha : float or "auto"
        λ = 1/α; "auto" is √max(m, n), less where entries are missing, and with
        ``psd=True`` it is estimated from the data (see `discrepant.paper.alpha`).
    psd : bool
        Whether X ⪰ 0 is a constraint.
    tol : float
        Accuracy of the dual variable at the last μ; the objective is then accurate to
        about 1e-5.
    max_iter : int
        Maximum number of steps.
    """
    data, operator = validate_observation(y, None)
    Y = data.astype(np.float64)
    check_square(Y.shape, psd)
    check_rates(alpha, "auto", 1.0)
    check_count("max_iter", max_iter)
    if isinstance(alpha, str):
        rng = np.random.default_rng(0)
        alpha = auto_alpha(data, operator, psd, exact=True, rng=rng)
    alpha = float(alpha)
    prox: Callable[[Array, float], tuple[Array, Array]] = (
        shrink_eigen if psd else shrink_singular
    )
    lam = 1 / alpha
    parts = parts_old = np.zeros((2, *Y.shape))  # X and S
    t = t_old = 1.0
    mu = float(np.linalg.norm(Y, 2)) or 1.0
    mu_last = FINAL_MU * mu
    size = float(np.linalg.norm(Y)) or 1.0
    recorder = Recorder(lambda fraction, note: True, tol, max_iter)
    status = Status(recorder.outcome, recorder.end)
    while not recorder.ended:
        bar = parts + (t_old - 1) / t * (parts - parts_old)
        half = (operator.forward(bar[0]) + bar[1] - Y) / 2  # the step 1/L with L = 2
        X, sigma = prox(bar[0] - half, mu / 2)
        S = operator.forward(shrink(bar[1] - half, lam * mu / 2))
        parts, parts_old = np.stack([X, S]), parts
        shift = operator.forward((parts - bar).sum(axis=0))
        subgradient = np.linalg.norm(2 * (bar - parts) + shift)
        residual = float(np.linalg.norm(operator.forward(X) + S - Y)) / size
        recorder.note(BaselineStep(residual, len(sigma)))
        # In units of μ this bounds the error of the dual variable.
        if mu <= mu_last and subgradient <= tol * mu:
            status = _converged(recorder)
            break
        if np.vdot(bar - parts, parts - parts_old) > 0:
            t = 1.0  # the momentum points uphill: restart it
        t_old, t = t, (1 + math.sqrt(1 + 4 * t * t)) / 2
        mu = max(MU_DECAY * mu, mu_last)
    return Recovery(
        low_rank=X.astype(data.dtype),
        sparse=S.astype(data.dtype),
        factors=(),
        dual=Y - operator.forward(X) - S,
        y=data,
        operator=operator,
        alpha=alpha,
        psd=psd,
        status=status,
        history=recorder.history(),
    )


def l1_factorisation(
    y: ArrayLike,
    *,
    width: int | None = None,
    psd: bool = False,
    step: float = 0.1,
    half_life: int = 1000,
    init_scale: float = 1e-2,
    max_iter: int = 10_000,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Recovery:
    """Minimise ``‖U Vᵀ − y‖₁`` by subgradient descent with a decaying step.

    With the true rank (``width=r``) it recovers X. Over-parameterised (``width=None``)
    it first approaches X and then fits the corruption, unless it is stopped in time.

    Parameters
    ----------
    y : array-like of shape (m, n)
        The corrupted matrix; NaN marks missing entries.
    width : int, optional
        Number of columns of the factors; min(m, n) by default.
    psd : bool
        Whether X = U Uᵀ, as in the paper, or X = U Vᵀ.
    step : float
        The first step, in units of 1/√(mn): the subgradient ``sign(r)`` has a spectral
        norm of at most √(mn), so this does not depend on the scale of the data.
    half_life : int
        Number of steps in which the step size is halved.
    init_scale : float
        Scale of the random start, in units of the root of the mean size of y.
    max_iter : int
        Number of steps.
    random_state, callback
        As in `recover`.
    """
    data, operator = validate_observation(y, None)
    Y = data.astype(np.float64)
    m, n = Y.shape
    check_square(Y.shape, psd)
    check_count("max_iter", max_iter)
    rng = np.random.default_rng(random_state)
    scale = init_scale * math.sqrt(float(np.abs(Y).mean()))
    signal = gaussian_factors((m, n), scale, rng, psd=psd, width=width)
    first_step = step / math.sqrt(m * n)
    with blas_threads(m * n * (width or min(m, n))):
        status, history = descend(
            Y,
            operator,
            signal,
            NoCorruption(),
            step=lambda k: first_step * 0.5 ** (k / half_life),
            gradient=np.sign,
            tol=0.0,
            max_iter=max_iter,
            callback=callback,
        )
    X = signal.value()
    residual = Y - operator.forward(X)
    return Recovery(
        low_rank=X.astype(data.dtype),
        sparse=residual.astype(data.dtype),
        factors=signal.factors,
        dual=np.sign(residual),
        y=data,
        operator=operator,
        alpha=math.sqrt(max(m, n)),
        psd=psd,
        status=status,
        history=history,
    )


def alternating_projections(
    y: ArrayLike, *, rank: int, fraction: float, tol: float = 1e-7, max_iter: int = 500
) -> Recovery:
    """Project in turn on matrices of a given rank and on a given number of outliers.

    Parameters
    ----------
    y : array-like of shape (m, n)
        The corrupted matrix; NaN marks missing entries.
    rank : int
        The rank of X, which the method cannot estimate.
    fraction : float
        The fraction of corrupted entries, which the method cannot estimate either.
    tol : float
        Relative residual at which to stop.
    max_iter : int
        Maximum number of steps.
    """
    data, operator = validate_observation(y, None)
    Y = data.astype(np.float64)
    check_count("max_iter", max_iter)
    outliers = round(fraction * Y.size)
    S = np.zeros_like(Y)
    size = float(np.linalg.norm(Y)) or 1.0
    recorder = Recorder(lambda fraction, note: True, tol, max_iter)
    status = Status(recorder.outcome, recorder.end)
    while not recorder.ended:
        U, sigma, Vt = svd(Y - S)
        X = (U[:, :rank] * sigma[:rank]) @ Vt[:rank]
        residual = operator.forward(Y - X)
        S = np.zeros_like(Y)
        if outliers:
            largest = np.argpartition(np.abs(residual), -outliers, axis=None)
            S.flat[largest[-outliers:]] = residual.flat[largest[-outliers:]]
        recorder.note(BaselineStep(float(np.linalg.norm(residual - S)) / size, rank))
        if recorder.residual <= tol:
            status = _converged(recorder)
            break
    return Recovery(
        low_rank=X.astype(data.dtype),
        sparse=S.astype(data.dtype),
        factors=(U[:, :rank] * sigma[:rank], Vt[:rank].T),
        dual=np.sign(S),
        y=data,
        operator=operator,
        alpha=math.sqrt(max(Y.shape)),
        psd=False,
        status=status,
        history=recorder.history(),
    )


def _converged(recorder: Recorder) -> Status:
    return Status(Outcome.CONVERGED, f"converged after {len(recorder.steps)} steps")
