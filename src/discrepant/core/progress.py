"""Progress reports: a protocol for long computations, progress bars, announcements.

A computation calls ``report(fraction, note)`` now and then with the fraction of the
work that is done. A callback that returns False asks it to stop with the best result so
far. Any other answer, None included, means continue.

`bars_paused` removes progress bars while other text is printed. `announce` sends a
sentence about unexpectedly long work to everyone registered by `add_listener`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from discrepant.core.errors import InputError

# A user's callback (fraction, note): False stops the work, anything else continues.
Progress = Callable[[float, str], bool | None]
# What a computation calls: it returns whether to continue.
Report = Callable[[float, str], bool]


_bars: list[Any] = []  # progress bars on the screen
_listeners: list[Callable[[str], object]] = []


class StoppedError(RuntimeError):
    """A callback stopped the work before there was any result to return."""


@dataclass
class Reporter:
    """A `Report` that calls a user's callback and remembers a request to stop."""

    callback: Progress
    stopped: bool = False

    def __call__(self, fraction: float, note: str) -> bool:
        """Report the fraction of the work that is done; return whether to continue."""
        if self.callback(fraction, note) is False:
            self.stopped = True
        return not self.stopped


def subrange(report: Report, start: float, end: float) -> Report:
    """Return a report for one part of the work, from fraction `start` to `end`."""
    return lambda fraction, note: report(start + (end - start) * fraction, note)


def add_listener(listener: Callable[[str], object]) -> Callable[[], None]:
    """Register a function for the sentences of `announce`; return its removal."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def announce(sentence: str) -> None:
    """Send a sentence to all registered listeners."""
    for listener in list(_listeners):
        listener(sentence)


@contextmanager
def bars_paused() -> Iterator[None]:
    """Remove all progress bars from the screen while other text is printed."""
    bars = list(_bars)
    for bar in bars:
        bar.stop()
    yield
    for bar in bars:
        bar.start()


@contextmanager
def reporting(progress: bool | Progress | None, description: str) -> Iterator[Reporter]:
    """Yield ``report(fraction, note)``, which returns whether to continue.

    Parameters
    ----------
    progress : bool, callable or None
        True shows a bar on standard error. A callable gets every report and stops the
        work by returning False. False and None are silent.
    description : str
        Text in front of the bar.
    """
    if callable(progress):
        yield Reporter(progress)
        return
    if not isinstance(progress, int | None):  # bool is a subclass of int
        raise InputError("progress must be True, False, None or a function.")
    if not progress:
        yield Reporter(lambda fraction, note: None)
        return
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    with rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.percentage:>3.0f}%"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("{task.fields[note]}"),
        console=console,
        transient=console.is_terminal,  # so that the next output starts a new line
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(description, total=1.0, note="")
        _bars.append(bar)
        try:
            yield Reporter(
                lambda fraction, note: bar.update(task, completed=fraction, note=note)
            )
        finally:
            _bars.remove(bar)
