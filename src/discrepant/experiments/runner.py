"""Many independent tasks: on all cores, with progress, and resumable.

Finished tasks are noted in a journal beside the results; the same command after an
interruption goes on where it stopped. The journal is named by a fingerprint of the
settings and of the code that computes the results, and each line tells its task. So
results of other settings, or of an earlier state of the code, are never mixed in.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from inspect import getsourcefile
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from discrepant.core.progress import Progress, StoppedError, reporting

Row = dict[str, Any]

PACKAGE = Path(__file__).parents[1]
# They show results and do not compute any: a new picture needs no new run.
SHOWING = (
    "cli",
    "server",
    "core/output_files.py",
    "core/plotting.py",
    "core/progress.py",
    "core/display.py",
    "experiments/reproduce.py",
    "image/restore_files.py",
    "image/display.py",
    "table/pca_file.py",
    "table/pca_dask_file.py",
    "table/clean_file.py",
    "video/separate_file.py",
)


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
        Processes at a time; −1 is one a core, as joblib counts them (it respects the
        limits of a container).
    progress : bool or callable, optional
        See `core.progress.reporting`. Told to stop, `map` raises `StoppedError`;
        what is done stays in the journal.
    folder : Path, optional
        Where to keep the journal; without it nothing is kept.
    """

    seed: int = 0
    jobs: int = -1
    progress: bool | Progress | None = None
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
        with reporting(self.progress, label) as report:
            report(len(done) / max(len(tasks), 1), "resumed" if done else "")
            results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
                delayed(_marked)(marks[i], function, {**tasks[i], **(shared or {})})
                for i in todo
            )
            for key, result in results:
                done[key] = result
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, result]) + "\n")
                count = f"{len(done)} of {len(tasks)} runs"
                go_on = report(len(done) / len(tasks), count)
                if not go_on and len(done) < len(tasks):
                    results.close()
                    raise StoppedError(f"{label} was stopped; it can be resumed.")
        return [{**task, **done[key]} for task, key in zip(tasks, marks, strict=True)]

    def journal(self, label: str, function: Any, config: Any) -> Path | None:
        """Return where finished tasks are noted; checkpoints stand beside it."""
        if self.folder is None:
            return None
        code = [source_mark(), _file_mark(Path(getsourcefile(function) or ""))]
        settings = json.dumps(
            [
                *(*code, function.__module__, function.__name__),
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


@cache
def source_mark(package: Path = PACKAGE) -> str:
    """Return a fingerprint of the code of the package that computes results."""
    files = sorted(
        path
        for path in package.rglob("*.py")
        if not path.relative_to(package).as_posix().startswith(SHOWING)
    )
    marks = [f"{path.relative_to(package)} {_file_mark(path)}" for path in files]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]


def _file_mark(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _marked(mark: str, function: Callable[..., Row], task: Row) -> tuple[str, Row]:
    return mark, function(**task)


def _mark(task: Row) -> str:
    """Tell a task from others."""
    text = json.dumps(task, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(journal: Path | None) -> dict[str, Row]:
    """Read what is done, leaving out a line that was cut short or is no result."""
    done: dict[str, Row] = {}
    if journal is None or not journal.exists():
        return done
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            mark, result = json.loads(line)
        except (ValueError, TypeError):
            continue
        if isinstance(mark, str) and isinstance(result, dict):
            done[mark] = result
    return done
