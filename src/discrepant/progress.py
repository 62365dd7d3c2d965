"""A progress bar for work that takes more than a moment; silent unless asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, str], None]


@contextmanager
def bar(description: str, total: int | None, show: bool) -> Iterator[Report]:
    """Show a bar on standard error; yields ``report(done, note)``."""
    if not show:
        yield lambda done, note: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task(description, total=total, note="")
        yield lambda done, note: progress.update(task, completed=done, note=note)
