"""Many independent tasks: on all cores, with progress, and resumable.

Finished tasks are noted in a journal beside the results; the same command after an
interruption goes on where it stopped. The journal is named by a fingerprint of the
settings and of the version, and each line tells its task, so results that do not
belong together are never mixed.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from discrepant import __version__
from discrepant.progress import bar

Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What an experiment found: the plotted points, a sentence, perhaps a table.

    ``extra`` is what a plot needs beside the points: images, for instance.
    """

    config: Any
    rows: list[Row]
    finding: str
    table: str = ""
    extra: Any = None


@dataclass(frozen=True)
class Runner:
    """Runs the tasks of an experiment.

    Parameters
    ----------
    seed : int
        Seed of everything random.
    jobs : int
        Processes at a time; −1 is one a core.
    show : bool
        Whether to show a progress bar.
    folder : Path, optional
        Where to keep the journal; without it nothing is kept.
    """

    seed: int = 0
    jobs: int = -1
    show: bool = False
    folder: Path | None = None
    _journals: set[Path] = field(default_factory=set, repr=False, compare=False)

    def map(
        self,
        function: Callable[..., Row],
        tasks: Sequence[Row],
        *,
        label: str,
        config: Any,
        jobs: int | None = None,
    ) -> list[Row]:
        """Return ``{**task, **function(**task)}`` for each task, in order."""
        jobs = self.jobs if jobs is None else jobs
        journal = self.journal(label, function, config)
        marks = [_mark(task) for task in tasks]
        done = _read(journal, marks)
        todo = [i for i in range(len(tasks)) if i not in done]
        with bar(label, len(tasks), self.show) as report:
            report(len(done), "resumed" if done else "")
            results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
                delayed(_numbered)(i, function, tasks[i]) for i in todo
            )
            for i, result in results:
                done[i] = result
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([i, marks[i], result]) + "\n")
                report(len(done), "")
        return [{**task, **done[i]} for i, task in enumerate(tasks)]

    def journal(self, label: str, function: Any, config: Any) -> Path | None:
        """Return where finished tasks are noted; checkpoints stand beside it."""
        if self.folder is None:
            return None
        settings = json.dumps(
            [
                *(__version__, function.__module__, function.__name__),
                *(asdict(config), self.seed),
            ],
            sort_keys=True,
        )
        mark = hashlib.sha256(settings.encode()).hexdigest()[:12]
        journal = self.folder / f".{label}-{mark}.journal"
        self._journals.add(journal)
        return journal

    def forget(self) -> None:
        """Remove the journals and checkpoints of this run; its results are written."""
        for journal in self._journals:
            journal.unlink(missing_ok=True)
            for path in journal.parent.glob(f"{journal.stem}.*.checkpoint*"):
                path.unlink()


def _numbered(i: int, function: Callable[..., Row], task: Row) -> tuple[int, Row]:
    return i, function(**task)


def _mark(task: Row) -> str:
    """Tell a task from others by its plain values."""
    plain = {k: v for k, v in task.items() if type(v) in (str, int, float)}
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(journal: Path | None, marks: list[str]) -> dict[int, Row]:
    """Read what is done, leaving out other tasks and a line that was cut short."""
    done: dict[int, Row] = {}
    if journal is None or not journal.exists():
        return done
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            i, mark, result = json.loads(line)
        except ValueError:
            continue
        if i < len(marks) and marks[i] == mark:
            done[i] = result
    return done
