"""Cached properties of results, computed under the lock of the data."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class locked_cached_property(Generic[T]):  # noqa: N801 (a decorator)
    """A property that is computed once, under the lock of the rows.

    `functools.cached_property` may compute it once per thread, or, on older versions of
    Python, holds a lock of its own, which can deadlock two properties.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, result: Any, owner: object = None) -> T:
        """Return the cached value; compute it first if needed."""
        if result is None:  # looked up on the class
            return self  # type: ignore[return-value]
        cache, name = vars(result), f"_{self.compute.__name__}_once"
        with result.program.rows.lock:
            if name not in cache:
                cache[name] = self.compute(result)
            value: T = cache[name]
            return value
