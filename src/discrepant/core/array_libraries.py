"""Convert arrays of PyTorch, JAX, CuPy and similar libraries to NumPy and back.

All computations of this package run on the processor. An array of another library is
copied to main memory if it is on another device; results are converted to that library
and copied to that device.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputTypeError
from discrepant.core.validation import error_text

# Libraries whose arrays do not name their namespace by `__array_namespace__`.
WITHOUT_NAMESPACE = ("torch", "cupy")


@dataclass(frozen=True)
class ArrayKind:
    """Library and device of an array, as an example (namespaces cannot be pickled)."""

    example: Any

    @classmethod
    def of(cls, X: Any) -> "ArrayKind | None":
        """Return the library and device of X, or None if X needs no conversion."""
        if not hasattr(X, "__dlpack__") or isinstance(X, np.ndarray | np.generic):
            return None
        if not hasattr(X, "__array_namespace__") and library(X) not in (
            WITHOUT_NAMESPACE
        ):
            return None
        return cls(cls(X).convert(np.zeros(0, np.float32)))

    def convert(self, values: np.ndarray) -> Any:
        """Return a NumPy array as an array of this library, on this device."""
        example, values = self.example, np.require(values, requirements=["C", "W"])
        if library(example) == "cupy":
            with example.device:
                return sys.modules["cupy"].asarray(values)
        named = hasattr(example, "__array_namespace__")
        xp = example.__array_namespace__() if named else sys.modules[library(example)]
        try:
            return xp.asarray(values, device=example.device)
        except TypeError:  # devices such as Apple's MPS have no float64
            return xp.asarray(values.astype(np.float32), device=example.device)


def library(X: Any) -> str:
    """Return the name of the library that X belongs to, also for subclasses."""
    roots = [base.__module__.partition(".")[0] for base in type(X).__mro__]
    return next((root for root in WITHOUT_NAMESPACE if root in roots), roots[0])


def to_numpy(X: Any) -> Any:
    """Return an array of another library as a NumPy array, other objects unchanged."""
    if ArrayKind.of(X) is None:
        return X
    try:
        if library(X) == "torch":
            return X.cpu().numpy()
        if library(X) == "cupy":
            return X.get()
        return np.from_dlpack(X, device="cpu")
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputTypeError(
            f"The {type(X).__name__} cannot be read as a NumPy array: "
            f"{error_text(error)}."
        ) from None


def in_kind_of(X: Any, values: np.ndarray) -> Any:
    """Return values as an array of the library and on the device of X."""
    kind = ArrayKind.of(X)
    return values if kind is None else kind.convert(values)
