"""Arrays of other libraries: which they are, and the road between them and NumPy.

A tensor of torch or an array of CuPy or JAX lies on a device. It is worked on there by
the functions of the array API standard, and the two methods of `Place` are the only
road between that device and host memory: whatever takes it is small.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discrepant.core.errors import InputError, InputTypeError

# Libraries whose arrays stay where they are. Those of any other become NumPy's.
KNOWN = frozenset({"torch", "cupy", "jax", "jaxlib", "array_api_strict"})


def is_foreign(X: Any) -> bool:
    """Whether X is an array of a library that keeps its arrays on devices."""
    return not isinstance(X, np.ndarray) and bool(_libraries(X) & KNOWN)


def _libraries(X: Any) -> set[str]:
    return {base.__module__.partition(".")[0] for base in type(X).__mro__}


def place_of(X: Any) -> "Place":
    """Return where an array lies; one of NumPy lies on the host."""
    if not is_foreign(X):
        return HOST
    try:
        from array_api_compat import array_namespace, device
    except ImportError:
        raise InputError(
            f"A {type(X).__name__} is worked on where it lies by way of "
            "array-api-compat, which is not installed: pip install array-api-compat."
        ) from None
    try:
        return Place(array_namespace(X), device(X))
    except TypeError:
        raise InputTypeError(
            f"A {type(X).__name__} is no dense array; pass one, with NaN for what is "
            "missing."
        ) from None


def parts_of(number: int, height: int) -> list[slice]:
    """Return slices that cover so many rows, each of at most a given height."""
    starts = range(0, number, height)
    return [slice(start, min(start + height, number)) for start in starts]


@dataclass(frozen=True)
class Place:
    """A library and one of its devices."""

    xp: Any  # the namespace, as the array API standard has it
    device: Any

    @property
    def is_numpy(self) -> bool:
        """Whether arrays are NumPy's."""
        return self.xp is np

    @property
    def on_host(self) -> bool:
        """Whether the device is a processor, and no accelerator."""
        return "cpu" in str(self.device).lower()

    @cached_property
    def widest(self) -> Any:
        """The widest floating type of the device: some have no float64."""
        found = self.xp.__array_namespace_info__().dtypes(
            device=self.device, kind="real floating"
        )
        return found.get("float64", self.xp.float32)

    def bring(self, values: Any, dtype: Any = None) -> Any:
        """Return an array of NumPy on the device, as a copy."""
        single = dtype is not None and dtype == self.xp.float32
        # As float32 before it goes: there may be no float64 where it goes.
        copy = np.array(values, np.float32 if single else None, order="C")
        return self.xp.asarray(copy, dtype=dtype, device=self.device)

    def fetch(self, values: Any) -> np.ndarray:
        """Return an array of the device as one of NumPy."""
        libraries = _libraries(values)
        if "torch" in libraries:
            return np.asarray(values.detach().cpu().numpy())
        if "cupy" in libraries:
            return np.asarray(values.get())
        if libraries & {"jax", "jaxlib"}:
            return np.asarray(values)
        if isinstance(values, np.ndarray):
            return values
        return np.from_dlpack(values, device="cpu")

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Return x within bounds, both numbers or both arrays; NaN stays NaN."""
        return getattr(self.xp, "clamp", self.xp.clip)(x, low, high)

    def take(self, table: Any, at: Any) -> Any:
        """Return the values of a table (1-D) at places of any shape."""
        xp = self.xp
        return xp.reshape(xp.take(table, xp.reshape(at, (-1,)), axis=0), at.shape)

    def put(self, X: Any, which: np.ndarray, rows: Any) -> Any:
        """Return X with other rows in the place of some; neither is written to."""
        at = np.arange(X.shape[0])
        at[which] = X.shape[0] + np.arange(len(which))
        joined = self.xp.concat([X, rows], axis=0)
        return self.xp.take(joined, self.bring(at), axis=0)

    def interpolate(self, z: Any, x: Any, y: Any) -> Any:
        """Return what a line through points (x, y) says at z ≥ x[0], flat beyond."""
        xp = self.xp
        last = x.shape[0] - 1
        at = xp.reshape(xp.searchsorted(x, xp.reshape(z, (-1,))), z.shape) - 1
        at = self.clip(at, 0, last - 1)
        slope = (y[1:] - y[:-1]) / (x[1:] - x[:-1])
        beyond = xp.minimum(z, x[last]) - self.take(x, at)
        inside = xp.maximum(beyond, xp.zeros_like(beyond))
        return self.take(y, at) + inside * self.take(slope, at)

    def counts(self, at: Any, number: int) -> Any:
        """Return how often each of the numbers below `number` occurs in `at`."""
        xp, flat = self.xp, self.xp.reshape(at, (-1,))
        if hasattr(xp, "bincount"):  # not of the standard, but of all libraries
            return xp.bincount(flat, minlength=number)[:number]
        edges = xp.arange(number + 1, dtype=flat.dtype, device=self.device)
        places = xp.searchsorted(xp.sort(flat), edges)
        return places[1:] - places[:-1]


HOST = Place(np, "cpu")
