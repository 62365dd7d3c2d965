"""The paper's descent on a matrix: Gaussian start, automatic step, gross entries.

`descend` gets the small Gaussian start and the step size from here. With the automatic
step both are relative to the mean size of the data, and gross entries are clipped, so
that the result depends on neither.

Clipping leaves the optimum unchanged, since that depends on the sign of a gross error
and not on its size (`clipping_bound`). If a clipped entry proves not to be corrupt, the
bound is raised to that entry and the descent starts again.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, spectral_norm
from discrepant.core.linalg import norm as euclidean
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import History, Status
from discrepant.core.robust_statistics import MIN_CORRUPT_FRACTION, clipping_bound
from discrepant.core.threads import blas_threads
from discrepant.core.validation import (
    check_callback,
    check_count,
    check_flag,
    check_number,
    check_rates,
    check_square,
)
from discrepant.operators.observation import validate_observation
from discrepant.operators.operator import Operator
from discrepant.paper.alpha import auto_alpha
from discrepant.paper.descent import (
    MAX_STEPS,
    TOL,
    Callback,
    DivergenceError,
    descend,
)
from discrepant.paper.recovery import Recovery
from discrepant.structures.factorisations import (
    Factor,
    Hadamard,
    PSDFactor,
    gaussian_factors,
)

# The automatic step τ in units of ``1 / max(‖A*(y)‖₂, α‖y‖_∞)``. Near an exact fit a
# step multiplies the error of an entry of s by 1 − 2ατs, that of a direction of X by
# 1 − 2τσ, and where both explain the same residual by one minus the sum of both terms.
# The sum is at most 4·0.3: errors decrease without oscillation up to ¼ in place of 0.3,
# and decrease at all below ½. The spectral norm is estimated from below, hence not ½.
STEP_SAFETY = 0.3
# Number of runs, each with half the step of the one before, if runs diverge. 2⁻⁸ of a
# nearly right step is small enough unless the adjoint is wrong.
MAX_ATTEMPTS = 8


@dataclass(frozen=True)
class DescentSettings:
    """Validated settings of the descent on a matrix; see `discrepant.recover`."""

    alpha: float | str = "auto"
    step: float | str = "auto"
    init_scale: float = 1e-4
    width: int | None = None
    psd: bool = False
    tol: float | None = None
    max_iter: int | None = None
    callback: Callback | None = None

    def __post_init__(self) -> None:
        check_rates(self.alpha, self.step, self.init_scale)
        if self.width is not None:
            check_count("width", self.width)
        if self.tol is not None:
            check_number("tol", self.tol, "zero or more", lambda tol: tol >= 0)
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)
        check_flag("psd", self.psd)
        check_callback("callback", self.callback)


# Parameters of `recover` and `RobustPCA` that only the descent uses, with defaults.
DESCENT_ONLY = {"step": "auto", "init_scale": 1e-4, "width": None}


def recover_by_descent(
    y: ArrayLike,
    operator: Any,
    settings: DescentSettings,
    *,
    random_state: Any = None,
    progress: bool | Progress | None = None,
) -> Recovery:
    """Separate ``y = A(X) + s`` into X and s by the paper's descent; see `recover`."""
    data, operator = validate_observation(y, operator)
    check_square(operator.signal_shape, settings.psd)
    rng = np.random.default_rng(random_state)
    work = np.dtype(np.float32 if data.dtype.itemsize < 8 else np.float64)
    y, psd = data.astype(work), settings.psd
    if isinstance(settings.alpha, str):
        alpha = auto_alpha(data, operator, psd, exact=False, rng=rng)
    else:
        alpha = float(settings.alpha)
    auto_step = isinstance(settings.step, str)
    largest_entry = float(np.max(np.abs(y)))
    bound = clipping_bound(y, largest_entry) if auto_step else largest_entry
    with reporting(progress, "descent") as report:
        while True:
            clipped = np.clip(y, -bound, bound)
            signal, corruption, status, history = _descend_from_random_start(
                clipped, operator, alpha, settings, rng, report
            )
            s = corruption.value()
            wrongly_clipped = (np.abs(y) > bound) & (
                s * np.sign(y) < MIN_CORRUPT_FRACTION * bound
            )
            if report.stopped or not wrongly_clipped.any():
                break
            bound = float(np.max(np.abs(y[wrongly_clipped])))

    return Recovery(
        low_rank=signal.value().astype(data.dtype),
        sparse=(s + (y - clipped)).astype(data.dtype),
        factors=tuple(F.astype(data.dtype) for F in signal.factors),
        dual=corruption.dual(alpha),
        y=data,
        operator=operator,
        alpha=alpha,
        psd=psd,
        status=status,
        history=history,
        bound=bound,
    )


def _descend_from_random_start(
    y: Array,
    A: Operator,
    alpha: float,
    settings: DescentSettings,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[PSDFactor | Factor, Hadamard, Status, History]:
    """Run the descent from a small Gaussian start, halving the step if it diverges."""
    auto_step = isinstance(settings.step, str)
    if auto_step:
        gain, tau = _gain_and_step(y, A, alpha, rng)
    else:
        gain, tau = 1.0, float(settings.step)
    seed = rng.integers(2**63)
    multiplications = y.size * (settings.width or min(A.signal_shape))
    for _ in range(MAX_ATTEMPTS if auto_step else 1):
        start = np.random.default_rng(seed)
        signal, corruption = _start(y, A, settings, gain, start)
        try:
            with blas_threads(multiplications):
                status, history = descend(
                    y,
                    A,
                    signal,
                    corruption,
                    step=tau,
                    alpha=alpha,
                    tol=TOL if settings.tol is None else settings.tol,
                    max_iter=settings.max_iter or MAX_STEPS,
                    callback=settings.callback,
                    progress=progress,
                )
            return signal, corruption, status, history
        except DivergenceError as error:
            message = f"The descent {error} with step={tau:g}"
            tau /= 2
    advice = "check that the operator's adjoint belongs to its forward map"
    if not auto_step:
        safe = _gain_and_step(y, A, alpha, rng)[1]
        advice = f"use step='auto', which is {safe:.1g} here"
    raise InputError(f"{message}; {advice}.")


def _gain_and_step(
    y: Array, A: Operator, alpha: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the gain of the operator and the automatic step size.

    The gain is the factor by which A*A enlarges a matrix: X and its start are smaller
    than y by the root of the gain. A step multiplies U by ``1 − τ sym(A*(r))`` and g by
    ``1 − ατ r``, so that τ must stay below the inverse of both; the residual r is
    largest at the start, where it is −y.
    """
    back = A.adjoint(y)
    gain = euclidean(A.forward(back)) / (euclidean(back) or 1.0) or 1.0
    largest = max(spectral_norm(back, rng), alpha * float(np.max(np.abs(y))))
    return gain, STEP_SAFETY / (largest or 1.0)


def _start(
    y: Array,
    A: Operator,
    settings: DescentSettings,
    gain: float,
    rng: np.random.Generator,
) -> tuple[PSDFactor | Factor, Hadamard]:
    """Return the small Gaussian start in the working precision.

    With the automatic step, `init_scale` is that of data of mean size one.
    """
    scale = settings.init_scale
    if isinstance(settings.step, str):
        scale *= math.sqrt(float(np.mean(np.abs(y), dtype=np.float64)))
    signal = gaussian_factors(
        A.signal_shape,
        scale / math.sqrt(gain),
        rng,
        psd=settings.psd,
        width=settings.width,
        dtype=y.dtype,
    )
    return signal, Hadamard.gaussian(A.data_shape, scale, rng, y.dtype)
