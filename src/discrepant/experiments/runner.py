"""Run the independent tasks of an experiment on all cores, resumable.

Finished tasks are written to a journal in the output folder. After an interruption the
same command resumes there. The name of the journal contains a hash of the settings and
of the source code, and each line the hash of its task. Results of other settings, or of
an earlier state of the code, are therefore never used.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from inspect import getsourcefile
from itertools import product
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from discrepant.core.progress import Progress, StoppedError, reporting

Row = dict[str, Any]
Table = Any  # a data frame of pandas, which is imported on first use

# The source folder of this package.
PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """Result of an experiment: the plotted points, the finding, an optional table.

    ``extra`` holds further data for the plots, such as images.
    """

    config: Any
    points: Table
    finding: str
    table: str = ""
    extra: Any = None


@dataclass(frozen=True)
class Runner:
    """Runs tasks in processes, reports progress, and keeps a journal in a folder.

    The number of `jobs` is that of joblib: −1 is one process per core. If `progress`
    returns False, `map` raises `StoppedError`; finished tasks stay in the journal.
    """

    seed: int = 0
    jobs: int = -1
    progress: bool | Progress | None = None
    folder: Path | None = None
    # Journals by path: whether they stay for other experiments.
    _journals: dict[Path, bool] = field(default_factory=dict, repr=False, compare=False)

    def map(
        self,
        function: Callable[..., Row],
        tasks: Sequence[Row],
        config: Any,
        *,
        jobs: int | None = None,
        keep: bool = False,
        **shared: Any,
    ) -> list[Row]:
        """Return the task and what the function returned, for each task, in order.

        The function is called with a task, `config`, the seed and the `shared`
        arguments, and must be importable. With `keep` its journal stays for other
        experiments.
        """
        jobs = self.jobs if jobs is None else jobs
        journal = self.journal(function, config, keep)
        label = _label(function)
        keys = [_task_hash(task) for task in tasks]
        done = {key: row for key, row in _read(journal).items() if key in keys}
        todo = [i for i, key in enumerate(keys) if key not in done]
        with reporting(self.progress, label) as report:
            report(len(done) / max(len(tasks), 1), "resumed" if done else "")
            results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
                delayed(_call_with_key)(
                    keys[i],
                    function,
                    {**tasks[i], "config": config, "seed": self.seed, **shared},
                )
                for i in todo
            )
            for key, result in results:
                done[key] = result
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, result]) + "\n")
                count = f"{len(done)} of {len(tasks)} runs"
                proceed = report(len(done) / len(tasks), count)
                if not proceed and len(done) < len(tasks):
                    results.close()
                    raise StoppedError(f"{label} was stopped; it can be resumed.")
        return [{**task, **done[key]} for task, key in zip(tasks, keys, strict=True)]

    def grid(
        self,
        function: Callable[..., Row],
        axes: Mapping[str, Iterable[Any]],
        config: Any,
        *,
        jobs: int | None = None,
    ) -> Table:
        """Return the result of a function at all combinations of values of the axes.

        A row of the table holds the value on each axis and what the function returned;
        see `map`. If that is lists, such as learning curves, there is a row for each of
        their entries.
        """
        combinations = product(*axes.values())
        tasks = [dict(zip(axes, values, strict=True)) for values in combinations]
        return as_table(self.map(function, tasks, config, jobs=jobs))

    def journal(self, function: Any, config: Any, keep: bool = False) -> Path | None:
        """Return the path of the journal; checkpoints are next to it."""
        if self.folder is None:
            return None
        code = [source_hash(), _file_hash(Path(getsourcefile(function) or ""))]
        name = function.__module__, function.__name__
        settings = json.dumps([*code, *name, asdict(config), self.seed], sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
        journal = self.folder / f".{_label(function)}-{digest}.journal"
        self._journals[journal] = keep
        return journal

    def discard_journals(self) -> None:
        """Remove journals and checkpoints, once the results are written.

        Journals that other experiments can use stay.
        """
        for journal, keep in self._journals.items():
            if not keep:
                journal.unlink(missing_ok=True)
            for path in journal.parent.glob(f"{journal.stem}.*.checkpoint*"):
                path.unlink()


def as_table(rows: list[Row]) -> Table:
    """Return rows as a table, with a row for each entry of the lists in them."""
    import pandas as pd

    table = pd.DataFrame(rows)
    lists = [key for key, value in rows[0].items() if isinstance(value, list)]
    return table.explode(lists, ignore_index=True).infer_objects() if lists else table


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


@cache
def source_hash(package: Path = PACKAGE) -> str:
    """Return a hash of the source files of the package."""
    files = sorted(package.rglob("*.py"))
    lines = [f"{path.relative_to(package)} {_file_hash(path)}" for path in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _label(function: Callable[..., Row]) -> str:
    """Return the name of the experiment that a function belongs to."""
    return function.__module__.rpartition(".")[2]


def _call_with_key(
    key: str, function: Callable[..., Row], task: Row
) -> tuple[str, Row]:
    return key, function(**task)


def _task_hash(task: Row) -> str:
    """Return the hash by which the journal identifies a task."""
    text = json.dumps(task, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(journal: Path | None) -> dict[str, Row]:
    """Return the results in a journal by key, without truncated or invalid lines."""
    done: dict[str, Row] = {}
    if journal is None or not journal.exists():
        return done
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            key, result = json.loads(line)
        except (ValueError, TypeError):
            continue
        if isinstance(key, str) and isinstance(result, dict):
            done[key] = result
    return done
