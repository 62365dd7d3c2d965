"""Ctrl-C as a request: the first asks for the best so far, the second ends the work."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from discrepant.core.progress import Progress, reporting


@contextmanager
def interruptible(
    progress: bool | Progress | None, description: str, say: Callable[[str], None]
) -> Iterator[Progress]:
    """Yield a progress callable that answers False once Ctrl-C was pressed.

    Parameters
    ----------
    progress : bool, callable or None
        Who else watches; see `discrepant.core.progress.reporting`.
    description : str
        What stands before the bar.
    say : callable
        Told, once, that the work will stop.
    """
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        say(
            "Stopping: the best so far will be written, if there is any. Ctrl-C again "
            "gives up."
        )

    with reporting(progress, description) as watch:

        def told(share: float, note: str) -> bool:
            return watch(share, note) and not asked.is_set()

        if threading.current_thread() is not threading.main_thread():
            yield told  # only the main thread hears of signals
            return
        before = signal.signal(signal.SIGINT, stop)
        try:
            yield told
        finally:
            signal.signal(signal.SIGINT, before)
