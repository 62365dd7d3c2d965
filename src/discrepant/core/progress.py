"""One progress protocol for all work that takes more than a moment.

Whoever works calls ``report(share, note)`` now and then, with the share of the work
that is done; whoever watches may answer False, which asks the work to stop with the
best so far. Anything else, None too, means go on.

Whoever says something else meanwhile takes the bar away first (`bars_paused`), and what
takes long without being asked for is announced (`announce`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from discrepant.core.errors import InputError

Progress = Callable[[float, str], bool | None]
Report = Callable[[float, str], bool]  # True: go on


_bars: list[Any] = []  # on the screen now
_listeners: list[Callable[[str], object]] = []


class StoppedError(RuntimeError):
    """The work was told to stop, and there is no best so far to hand back."""


@dataclass
class Watch:
    """What a worker reports to. Once it was told to stop, ``stopped`` stays True."""

    tell: Progress
    stopped: bool = False

    def __call__(self, share: float, note: str) -> bool:
        """Report the share that is done; returns whether to go on."""
        if self.tell(share, note) is False:
            self.stopped = True
        return not self.stopped


def subrange(report: Report, start: float, end: float) -> Report:
    """Return the report of one part of the work, from one share of it to another."""
    return lambda share, note: report(start + (end - start) * share, note)


def add_listener(tell: Callable[[str], object]) -> Callable[[], None]:
    """Let someone be told of what takes long without having been asked for.

    Returns what ends it.
    """
    _listeners.append(tell)
    return lambda: _listeners.remove(tell)


def announce(sentence: str) -> None:
    """Tell whoever listens."""
    for tell in list(_listeners):
        tell(sentence)


@contextmanager
def bars_paused() -> Iterator[None]:
    """Take the bar off the screen while something else is said."""
    bars = list(_bars)
    for bar in bars:
        bar.stop()
    yield
    for bar in bars:
        bar.start()


@contextmanager
def reporting(progress: bool | Progress | None, description: str) -> Iterator[Watch]:
    """Yield ``report(share, note)``, which returns whether to go on.

    Parameters
    ----------
    progress : bool, callable or None
        True shows a bar on standard error; a callable is told of every report and
        stops the work by returning False; False and None are silent.
    description : str
        What stands before the bar.
    """
    if callable(progress):
        yield Watch(progress)
        return
    if not isinstance(progress, int | None):  # True and False are, too
        raise InputError("progress must be True, False, None or a function.")
    if not progress:
        yield Watch(lambda share, note: None)
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
        transient=console.is_terminal,  # what is said next has a line of its own
        redirect_stdout=False,
        redirect_stderr=False,
    ) as shown:
        task = shown.add_task(description, total=1.0, note="")
        _bars.append(shown)
        try:
            yield Watch(
                lambda share, note: shown.update(task, completed=share, note=note)
            )
        finally:
            _bars.remove(shown)
