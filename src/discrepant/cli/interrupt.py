"""Ctrl-C during a command: the first stops early with a result, the second at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from discrepant.core.progress import Progress, reporting


@contextmanager
def interruptible(
    progress: bool | Progress | None,
    description: str,
    print_message: Callable[[str], None],
) -> Iterator[Progress]:
    """Yield a progress callable that returns False after Ctrl-C was pressed.

    Parameters
    ----------
    progress : bool, callable or None
        Also receives the progress; see `discrepant.core.progress.reporting`.
    description : str
        Text before the progress bar.
    print_message : callable
        Called once, with the message that the work will stop.
    """
    interrupted = threading.Event()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        print_message(
            "stopping; the best result so far will be written, if there is one. Press "
            "Ctrl-C again to stop at once."
        )

    with reporting(progress, description) as report:

        def report_until_interrupted(fraction: float, note: str) -> bool:
            return report(fraction, note) and not interrupted.is_set()

        if threading.current_thread() is not threading.main_thread():
            yield report_until_interrupted  # only the main thread receives signals
            return
        previous_handler = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield report_until_interrupted
        finally:
            signal.signal(signal.SIGINT, previous_handler)
