"""The paper's descent on a matrix: how it starts, how fast it goes, in which unit.

`descend` knows none of this. Here a matrix gets its small Gaussian start, a step that
its data can bear, and, where the step is left to us, a unit: the data are brought to
mean size one and their gross entries are clipped, so that neither matters.

Clipping leaves the optimum where it is, since that depends on the sign of a gross error
and not on its size (`clipping_bound`). If in the end an entry was clipped that the
corruption does not explain, the bound is raised to it and the descent begins again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, spectral_norm
from discrepant.core.linalg import norm as euclidean
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import History, Status
from discrepant.core.robust_statistics import MIN_CORRUPT_FRACTION, clipping_bound
from discrepant.core.threads import blas_threads
from discrepant.operators.operator import Operator
from discrepant.paper.alpha import auto_alpha
from discrepant.paper.descent import Callback, DivergenceError, descend
from discrepant.paper.recovery import Recovery
from discrepant.paper.stopping import DEFAULT_STOP, Iteration, Rule
from discrepant.structures.factorisations import Factor, Hadamard, PSDFactor

Signal = PSDFactor | Factor


@dataclass(frozen=True)
class Tuning:
    """Constants of the automatic step.

    Attributes
    ----------
    safety : float
        The step τ in units of ``1 / max(‖A*(y)‖₂, α‖y‖_∞)``. Near an exact fit a step
        multiplies the error of an entry s by 1 − 2ατs, that of a direction of X by
        1 − 2τσ, and where both explain the same residual by one minus the sum of the
        two. That sum is at most 4·safety: the error falls without swinging up to ¼,
        and falls at all below ½. The bound is an estimate from below, hence 0.3.
    attempts : int
        How often the step is halved when the run diverges all the same: 2⁻⁸ of a step
        that is nearly right is small enough, unless the adjoint is wrong.
    """

    safety: float = 0.3
    attempts: int = 8


@dataclass(frozen=True)
class DescentSettings:
    """Settings of the descent on a matrix; `discrepant.recover` explains each."""

    alpha: float | str = "auto"
    step: float | str = "auto"
    init_scale: float = 1e-4
    width: int | None = None
    psd: bool = False
    stop: Sequence[Rule] = DEFAULT_STOP
    callback: Callback | None = None
    tuning: Tuning = Tuning()


def recover_by_descent(
    data: Array,
    operator: Operator,
    settings: DescentSettings,
    *,
    random_state: Any = None,
    progress: bool | Progress | None = None,
) -> Recovery:
    """Split ``y = A(X) + s`` by the paper's descent.

    Parameters
    ----------
    data, operator
        As `discrepant.operators.observation.validate_observation` returns them.
    settings : Descent
        How to descend.
    random_state : int, Generator or None
        Seed of the start.
    progress : bool or callable, optional
        As in `discrepant.recover`.
    """
    rng = np.random.default_rng(random_state)
    work = np.dtype(np.float32 if data.dtype.itemsize < 8 else np.float64)
    y, psd = data.astype(work), settings.psd
    if isinstance(settings.alpha, str):
        alpha = auto_alpha(data, operator, psd, exact=False, rng=rng)
    else:
        alpha = float(settings.alpha)
    auto = isinstance(settings.step, str)
    top = float(np.max(np.abs(y)))
    bound = clipping_bound(y, top) if auto else top
    with reporting(progress, "descent") as watch:
        while True:
            near = np.clip(y, -bound, bound)
            unit = float(np.mean(np.abs(near), dtype=np.float64)) if auto else 1.0
            signal, corruption, status, history = _descent(
                near / (unit or 1.0), operator, alpha, settings, rng, unit, watch
            )
            s = corruption.value() * unit
            missed = (np.abs(y) > bound) & (
                s * np.sign(y) < MIN_CORRUPT_FRACTION * bound
            )
            if watch.stopped or not missed.any():
                break
            bound = float(np.max(np.abs(y[missed])))  # these are not corrupt

    found = _times(signal, unit)
    factors = (found.U,) if isinstance(found, PSDFactor) else (found.U, found.V)
    return Recovery(
        signal=found.value().astype(data.dtype),
        corruption=(s + (y - near)).astype(data.dtype),
        factors=tuple(F.astype(data.dtype) for F in factors),
        dual=corruption.dual(alpha),
        y=data,
        operator=operator,
        alpha=alpha,
        psd=psd,
        status=status,
        history=history,
        n_steps=int(history["step"][-1]),
        bound=bound,
    )


def _descent(
    y: Array,
    A: Operator,
    alpha: float,
    settings: DescentSettings,
    rng: np.random.Generator,
    unit: float,
    progress: Progress,
) -> tuple[Signal, Hadamard, Status, History]:
    """Descend from a small start, by a step that the data can bear."""
    if isinstance(settings.step, str):
        gain, tau = _gain_and_step(y, A, alpha, settings.tuning.safety, rng)
    else:
        gain, tau = 1.0, float(settings.step)
    seed = rng.integers(2**63)
    multiplications = y.size * (settings.width or min(A.signal_shape))
    for _ in range(settings.tuning.attempts):
        start = np.random.default_rng(seed)
        signal, corruption = _start(A, y.dtype, settings, gain, start)
        try:
            with blas_threads(multiplications):
                status, history = descend(
                    y,
                    A,
                    signal,
                    corruption,
                    step=tau,
                    alpha=alpha,
                    stop=settings.stop,
                    callback=_in_units(settings.callback, unit),
                    progress=progress,
                )
            return signal, corruption, status, history
        except DivergenceError as error:
            if not isinstance(settings.step, str):
                safe = _gain_and_step(y, A, alpha, settings.tuning.safety, rng)[1]
                raise InputError(
                    f"The descent {error} with step={tau:g}; use step='auto', which "
                    f"is {safe:.1g} here."
                ) from None
            tau /= 2  # the estimate was too bold for this operator
    raise InputError(
        "The descent diverges at every step tried; check that the operator's "
        "adjoint belongs to its forward map."
    )


def _gain_and_step(
    y: Array, A: Operator, alpha: float, safety: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the operator's gain, and a step that fits the data.

    The gain is how much A*A enlarges a matrix: X is smaller than y by its root, and so
    is its start. U is multiplied by ``1 − τ sym(A*(r))`` and g by ``1 − ατ r``, so that
    τ has to stay below the inverse of both; the residual is largest at the start, −y.
    """
    back = A.adjoint(y)
    gain = euclidean(A.forward(back)) / (euclidean(back) or 1.0) or 1.0
    largest = max(spectral_norm(back, rng), alpha * float(np.max(np.abs(y))))
    return gain, safety / (largest or 1.0)


def _start(
    A: Operator,
    dtype: np.dtype[Any],
    settings: DescentSettings,
    gain: float,
    rng: np.random.Generator,
) -> tuple[Signal, Hadamard]:
    """Draw the small Gaussian start in the working precision."""
    scale, width = settings.init_scale, settings.width
    of_signal = scale / math.sqrt(gain)
    signal: Signal
    if settings.psd:
        drawn = PSDFactor.gaussian(A.signal_shape[0], width, of_signal, rng)
        signal = PSDFactor(drawn.U.astype(dtype))
    else:
        pair = Factor.gaussian(A.signal_shape, width, of_signal, rng)
        signal = Factor(pair.U.astype(dtype), pair.V.astype(dtype))
    g = (scale * rng.standard_normal(A.data_shape)).astype(dtype)
    return signal, Hadamard(g, g.copy())


def _times(signal: Signal, unit: float) -> Signal:
    """Return the signal in another unit."""
    root = math.sqrt(unit)
    if isinstance(signal, PSDFactor):
        return PSDFactor(signal.U * root)
    return Factor(signal.U * root, signal.V * root)


def _in_units(callback: Callback | None, unit: float) -> Callback | None:
    """Show a callback the signal and the corruption in the unit of the data."""
    if callback is None or unit == 1:
        return callback
    root = math.sqrt(unit)

    def shown(moment: Iteration, signal: Any, corruption: Any) -> Any:
        scaled = Hadamard(corruption.g * root, corruption.h * root)
        return callback(moment, _times(signal, unit), scaled)

    return shown
