"""Ctrl-C during a command: the first stops early with a result, the second at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from discrepant.cli.messages import on_terminal, print_warning
from discrepant.core.progress import Progress, reporting


@contextmanager
def interruptible(description: str) -> Iterator[Progress]:
    """Yield a progress callable that returns False after Ctrl-C was pressed.

    On a terminal it shows a progress bar after the description.
    """
    interrupted = threading.Event()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        print_warning(
            "stopping; the best result so far will be written, if there is one. Press "
            "Ctrl-C again to stop at once."
        )

    with reporting(on_terminal(), description) as report:

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
