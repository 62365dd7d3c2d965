"""The paper's algorithm: gradient descent with two learning rates.

    r = A(U Uᵀ) + g∘g − h∘h − y
    U ← U − τ·sym(A*(r)) U      g ← g − ατ·r∘g      h ← h + ατ·r∘h

`descend` is the one explicit loop of the package and takes any signal and corruption
that can descend; `recover` is the front door for matrices, where the start, the rates
and the scale of the data are settled.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discrepant.errors import InputError
from discrepant.linalg import (
    CORRUPT,
    Array,
    blas_threads,
    check_square,
    clip_bound,
    spectral_norm,
)
from discrepant.paper.alpha import natural_alpha
from discrepant.paper.operators import Identity, Mask, Operator, Wrapped
from discrepant.paper.parameters import Factor, Hadamard, Parameterisation, PSDFactor
from discrepant.paper.recovery import Recovery
from discrepant.paper.stopping import (
    Moment,
    Residual,
    Rule,
    Steps,
    first_word,
    most_steps,
)
from discrepant.progress import bar
from discrepant.result import History, Status

Callback = Callable[[Moment, Parameterisation, Parameterisation], Any]

DEFAULT_STOP: tuple[Rule, ...] = (Residual(1e-3), Steps(20_000))


BEGINNING = Moment(step=0, residual=1.0, seconds=0.0)

SAFETY = 0.3  # the automatic step, as a share of what both rates can bear


class DivergenceError(ArithmeticError):
    """The residual grew without bound: the step is too large."""


def descend(
    y: Any,
    operator: Operator,
    signal: Parameterisation,
    corruption: Parameterisation,
    *,
    step: float | Callable[[int], float],
    alpha: float = 1.0,
    stop: Sequence[Rule] = DEFAULT_STOP,
    gradient: Callable[[Any], Any] | None = None,
    every: int = 10,
    callback: Callback | None = None,
    progress: bool = False,
    start: Moment = BEGINNING,
) -> tuple[Status, History]:
    """Descend on signal and corruption together until a rule says stop.

    Parameters
    ----------
    y : array
        The observation.
    operator : Operator
        How the signal is observed.
    signal, corruption : Parameterisation
        What is descended on, in place.
    step : float or callable
        The learning rate τ, or a schedule ``step number → τ``.
    alpha : float
        The corruption's rate is ατ.
    stop : sequence of rules
        The first rule to speak ends the run.
    gradient : callable, optional
        Derivative of the loss with respect to A(X) + s, given the residual; by default
        the residual itself, that of ``½‖r‖²``. ``numpy.sign`` makes it the ℓ1 loss.
    every : int
        The rules and the callback are asked every so many steps.
    callback : callable, optional
        ``callback(moment, signal, corruption)``; a mapping of names to numbers that it
        returns is recorded in the history. Its time is not counted.
    progress : bool
        Show a bar.
    start : Moment
        Where an interrupted run left off; the history begins there.
    """
    last = most_steps(stop)
    norm_y = _norm(y) or 1.0
    records: list[dict[str, float]] = []
    seconds, started = start.seconds, time.perf_counter()
    with (
        bar("descent", last, progress) as report,
        np.errstate(over="ignore", invalid="ignore"),
    ):
        for k in count(start.step):
            residual = operator.forward(signal.value()) + corruption.value() - y

            if k % every == 0 or k == last:
                seconds += time.perf_counter() - started
                moment = Moment(k, _norm(residual) / norm_y, seconds)
                if k == start.step:
                    most = 1e3 * max(1.0, moment.residual)
                if not moment.residual < most:  # also true of NaN
                    raise DivergenceError(f"diverged within {k} steps")
                extra = callback(moment, signal, corruption) if callback else None
                records.append(_record(moment, extra))
                report(k, _note(moment, extra))
                started = time.perf_counter()
                status = first_word(stop, moment)
                if status is not None:
                    break

            tau = step(k) if callable(step) else step
            grad = residual if gradient is None else gradient(residual)
            signal.descend(operator.adjoint(grad), tau)
            corruption.descend(grad, alpha * tau)

    columns = {name: np.array([row[name] for row in records]) for name in records[0]}
    assert status is not None
    return status, History(columns)


def recover(
    y: ArrayLike,
    operator: Any = None,
    *,
    alpha: float | str = "auto",
    step: float | str = "auto",
    init_scale: float = 1e-4,
    width: int | None = None,
    psd: bool = True,
    stop: Rule | Sequence[Rule] = DEFAULT_STOP,
    random_state: Any = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> Recovery:
    """Split ``y = A(X) + s`` into a low-rank X and a sparse s by the paper's descent.

    Parameters
    ----------
    y : array-like
        The observation. Without an operator it is the matrix itself, and NaN marks
        entries that are missing.
    operator : Operator, optional
        How X was observed: an operator of this package, or a SciPy LinearOperator or
        PyLops operator on the entries of a square X. By default every entry is seen.
    alpha : float or "auto"
        Ratio of the two learning rates. The result is that of the convex program
        with λ = 1/α. "auto" is √max(m, n), and what that stands for under an operator.
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
        Whether X is positive semidefinite (U Uᵀ) or any matrix (U Vᵀ).
    stop : rule or sequence of rules
        See `discrepant.paper.stopping`; by default a relative residual of 1e-3 or
        20,000 steps, which also end a run that is told of a residual only.
    random_state : int, Generator or None
        Seed of the start.
    callback : callable, optional
        See `descend`.
    progress : bool
        Show a bar.

    Returns
    -------
    Recovery

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import recover
    >>> from discrepant.paper.problems import corrupted_matrix
    >>> problem = corrupted_matrix(30, rank=2, share=0.1, random_state=0)
    >>> found = recover(problem.observed, random_state=0)
    >>> error = np.linalg.norm(found.low_rank - problem.low_rank)
    >>> bool(error < 0.1 * np.linalg.norm(problem.low_rank))
    True
    """
    data, A = checked_data(y, operator)
    rules = _checked_rules(stop)
    check_rates(alpha, step, init_scale)
    check_square(A.signal_shape, psd)
    rng = np.random.default_rng(random_state)
    work = np.dtype(np.float32 if data.dtype.itemsize < 8 else np.float64)
    y = data.astype(work)

    def norm(Z: Array) -> float:
        return spectral_norm(Z, rng)

    alpha = natural_alpha(A, norm, rng) if alpha == "auto" else float(alpha)
    auto = step == "auto"
    top = float(np.max(np.abs(y)))
    bound = clip_bound(y, top) if auto else top
    while True:
        near = np.clip(y, -bound, bound)
        unit = float(np.mean(np.abs(near), dtype=np.float64)) if auto else 1.0
        signal, corruption, status, history = _descent(
            near / (unit or 1.0),
            A,
            alpha=alpha,
            step=step,
            init_scale=init_scale,
            width=width,
            psd=psd,
            stop=rules,
            rng=rng,
            callback=_in_units(callback, unit),
            progress=progress,
        )
        s = corruption.value() * unit
        missed = (np.abs(y) > bound) & (s * np.sign(y) < CORRUPT * bound)
        if not missed.any():
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
        operator=A,
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
    *,
    alpha: float,
    step: float | str,
    init_scale: float,
    width: int | None,
    psd: bool,
    stop: Sequence[Rule],
    rng: np.random.Generator,
    callback: Callback | None,
    progress: bool,
) -> tuple[PSDFactor | Factor, Hadamard, Status, History]:
    """Descend from a small start, by a step that the data can bear."""

    def norm(Z: Array) -> float:
        return spectral_norm(Z, rng)

    if isinstance(step, str):
        gain, tau = _gain_and_step(y, A, alpha, norm)
    else:
        gain, tau = 1.0, float(step)
    seed = rng.integers(2**63)
    for _ in range(8):
        signal, corruption = _start(
            A, y.dtype, psd, width, init_scale, gain, np.random.default_rng(seed)
        )
        try:
            with blas_threads(y.size * (width or min(A.signal_shape))):
                status, history = descend(
                    y,
                    A,
                    signal,
                    corruption,
                    step=tau,
                    alpha=alpha,
                    stop=stop,
                    callback=callback,
                    progress=progress,
                )
            return signal, corruption, status, history
        except DivergenceError as error:
            if not isinstance(step, str):
                safe = _gain_and_step(y, A, alpha, norm)[1]
                raise InputError(
                    f"The descent {error} with step={step:g}; use step='auto', which "
                    f"is {safe:.1g} here."
                ) from None
            tau /= 2  # the estimate was too bold for this operator
    raise InputError(
        "The descent diverges at every step tried; check that the operator's "
        "adjoint belongs to its forward map."
    )


def _times(signal: PSDFactor | Factor, unit: float) -> PSDFactor | Factor:
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

    def shown(moment: Moment, signal: Any, corruption: Any) -> Any:
        scaled = Hadamard(corruption.g * root, corruption.h * root)
        return callback(moment, _times(signal, unit), scaled)

    return shown


def _start(
    A: Operator,
    dtype: np.dtype,
    psd: bool,
    width: int | None,
    scale: float,
    gain: float,
    rng: np.random.Generator,
) -> tuple[PSDFactor | Factor, Hadamard]:
    """Draw the small Gaussian start in the working precision."""
    of_signal = scale / math.sqrt(gain)
    signal: PSDFactor | Factor
    if psd:
        drawn = PSDFactor.gaussian(A.signal_shape[0], width, of_signal, rng)
        signal = PSDFactor(drawn.U.astype(dtype))
    else:
        pair = Factor.gaussian(A.signal_shape, width, of_signal, rng)
        signal = Factor(pair.U.astype(dtype), pair.V.astype(dtype))
    g = (scale * rng.standard_normal(A.data_shape)).astype(dtype)
    return signal, Hadamard(g, g.copy())


def _gain_and_step(
    y: Array, A: Operator, alpha: float, norm: Callable[[Array], float]
) -> tuple[float, float]:
    """Return the operator's gain, and a step that fits the data.

    U is multiplied by ``1 − τ sym(A*(r))`` and g by ``1 − ατ r``, so that τ has to stay
    below the inverse of both; the residual starts at −y and is largest there.
    """
    back = A.adjoint(y)
    gain = _norm(A.forward(back)) / (_norm(back) or 1.0) or 1.0
    largest = max(norm(back), alpha * float(np.max(np.abs(y))))
    return gain, SAFETY / (largest or 1.0)


def checked_data(y: ArrayLike, operator: Any) -> tuple[Array, Operator]:
    """Check the observation and its operator once, at the door."""
    data = real_array(y)
    if operator is None:
        if data.ndim != 2:
            raise InputError(
                f"A matrix (2-D) is needed, got {data.ndim}-D data; to recover a "
                "matrix from other data pass operator=."
            )
        operator = Identity(data.shape)
    elif not isinstance(operator, Operator):
        side = math.isqrt(operator.shape[1]) if hasattr(operator, "shape") else 0
        operator = Wrapped(operator, (side, side))
    if data.size == 0:
        raise InputError("The data are empty; at least one value is needed.")
    if data.shape != operator.data_shape:
        raise InputError(
            f"The data have shape {data.shape}, but the operator gives "
            f"{operator.data_shape}."
        )
    if np.isinf(data).any():
        raise InputError(
            "The data contain infinite values; replace them by NaN to mark them as "
            "missing."
        )
    missing = np.isnan(data)
    if isinstance(operator, Mask):
        missing |= ~operator.observed
    elif missing.any() and not isinstance(operator, Identity):
        raise InputError(
            "The data contain NaN, which this operator cannot leave out; drop those "
            "measurements from the data and from the operator."
        )
    if missing.all():
        raise InputError("All values are missing; at least one must be observed.")
    if missing.any():
        operator = Mask(~missing)
        data = np.where(missing, data.dtype.type(0), data)
    return data, operator


def real_array(values: ArrayLike) -> Array:
    """Return a floating array; integers and booleans become float64."""
    try:
        array = np.asarray(unmasked(values))
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"The data are not all numbers: {reason}.") from None
    if array.dtype.kind == "c":
        raise InputError(
            "Complex data are not supported; pass real and imaginary parts separately."
        )
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"The data are of type {array.dtype}; numbers are needed (drop or encode "
            "columns of text and dates)."
        )
    if array.dtype.kind != "f":
        return array.astype(np.float64)
    if array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array


def unmasked(values: Any) -> Any:
    """Return a masked array as a plain one with NaN where it is masked."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    return values.filled(np.nan) if values.dtype.kind == "f" else values.data


def check_rates(alpha: float | str, step: float | str, init_scale: float) -> None:
    """Refuse rates that cannot work."""
    for name, value in (("alpha", alpha), ("step", step), ("init_scale", init_scale)):
        if name != "init_scale" and isinstance(value, str) and value == "auto":
            continue
        if not isinstance(value, Real) or not (0 < value < math.inf):
            or_auto = "" if name == "init_scale" else ' or "auto"'
            raise InputError(
                f"{name} must be a positive number{or_auto}, got {value!r}."
            )


def _checked_rules(stop: Any) -> tuple[Rule, ...]:
    """Return the rules, and see to it that one of them ends the run."""
    rules = (stop,) if callable(stop) else tuple(stop) if np.iterable(stop) else (stop,)
    if not all(callable(rule) for rule in rules):
        raise InputError(
            f"stop must be rules such as Steps(1000) or Residual(1e-3), got {stop!r}."
        )
    endless = all(isinstance(rule, Residual) for rule in rules)
    return (*rules, DEFAULT_STOP[-1]) if endless else rules


def _norm(z: Any) -> float:
    """Return the Euclidean norm of an array of any shape."""
    return math.sqrt(float((z * z).sum()))


def _record(moment: Moment, extra: Any) -> dict[str, float]:
    """Make one row of the history."""
    row = {
        "step": moment.step,
        "residual": moment.residual,
        "seconds": moment.seconds,
    }
    return {**row, **extra} if isinstance(extra, Mapping) else row


def _note(moment: Moment, extra: Any) -> str:
    """Say beside the bar how the run stands."""
    recorded = extra if isinstance(extra, Mapping) else {}
    return "  ".join(
        [f"residual {moment.residual:.1e}"]
        + [f"{name} {value:.4g}" for name, value in recorded.items()]
    )


@dataclass(frozen=True)
class Tracking:
    """A callback that records the relative error to a known truth."""

    truth: Array

    def __call__(
        self, moment: Moment, signal: Parameterisation, corruption: Parameterisation
    ) -> dict[str, float]:
        """Return the error at this moment."""
        return {"error": _norm(signal.value() - self.truth) / _norm(self.truth)}
