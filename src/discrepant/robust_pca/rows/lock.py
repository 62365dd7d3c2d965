"""What one thread works on at a time."""

import threading
from types import TracebackType
from typing import Any, Self


class Held:
    """Data with a lock, which is held while they are open; pickles go without it."""

    apart: tuple[str, ...] = ()  # attributes that pickles go without, too

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> Self:
        """Hold the data for one thread."""
        self.lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the data go."""
        self.lock.release()

    def __getstate__(self) -> dict[str, Any]:
        left = ("lock", *self.apart)
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.RLock())
