"""Properties of a result that are computed once, under the lock of its rows."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 (a decorator)
    """A property that is computed once, under the lock of the rows.

    (`functools.cached_property` computes it once a thread, or, on older versions of
    Python, holds a lock of its own, which two properties can wait for in a circle.)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, split: Any, owner: object = None) -> T:
        """Return the value, computed or remembered."""
        if split is None:  # looked up on the class
            return self  # type: ignore[return-value]
        known, name = vars(split), f"_{self.compute.__name__}_once"
        with split.program.rows.lock:
            if name not in known:
                known[name] = self.compute(split)
            value: T = known[name]
            return value
