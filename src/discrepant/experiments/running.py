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
    _kept: set[Path] = field(default_factory=set, repr=False, compare=False)

    def map(
        self,
        function: Callable[..., Row],
        tasks: Sequence[Row],
        *,
        label: str,
        config: Any,
        jobs: int | None = None,
        shared: Row | None = None,
        keep: bool = False,
    ) -> list[Row]:
        """Return ``{**task, **function(**task)}`` for each task, in order.

        ``shared`` is passed to every call beside its task, and does not tell one task
        from another. With ``keep`` the results stay for other experiments.
        """
        jobs = self.jobs if jobs is None else jobs
        journal = self.journal(label, function, config)
        if keep and journal is not None:
            self._kept.add(journal)
        marks = [_mark(task) for task in tasks]
        done = {key: row for key, row in _read(journal).items() if key in marks}
        todo = [i for i, key in enumerate(marks) if key not in done]
        with bar(label, len(tasks), self.show) as report:
            report(len(done), "resumed" if done else "")
            results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
                delayed(_marked)(marks[i], function, {**tasks[i], **(shared or {})})
                for i in todo
            )
            for key, result in results:
                done[key] = result
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, result]) + "\n")
                report(len(done), "")
        return [{**task, **done[key]} for task, key in zip(tasks, marks, strict=True)]

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
        """Remove what this run kept, once its results are written.

        What other experiments can use stays.
        """
        for journal in self._journals:
            if journal not in self._kept:
                journal.unlink(missing_ok=True)
            for path in journal.parent.glob(f"{journal.stem}.*.checkpoint*"):
                path.unlink()


def _marked(mark: str, function: Callable[..., Row], task: Row) -> tuple[str, Row]:
    return mark, function(**task)


def _mark(task: Row) -> str:
    """Tell a task from others."""
    text = json.dumps(task, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(journal: Path | None) -> dict[str, Row]:
    """Read what is done, leaving out a line that was cut short."""
    done: dict[str, Row] = {}
    if journal is None or not journal.exists():
        return done
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            mark, result = json.loads(line)
        except ValueError:
            continue
        done[mark] = result
    return done
