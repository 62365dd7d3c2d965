"""Run the independent tasks of an experiment on all cores, resumable.

The results of finished tasks are stored in a hidden folder of the output folder. After
an interruption the same command resumes there. The name of that folder contains a hash
of the settings and of the source code, and each file is named after the hash of its
task. Results of other settings, or of an earlier state of the code, are therefore never
used.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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
    """Runs tasks in processes, reports progress, and stores results in a folder.

    The number of `jobs` is that of joblib: −1 is one process per core. If `progress`
    returns False, `map` raises `StoppedError`; results of finished tasks stay stored.
    """

    seed: int = 0
    jobs: int = -1
    progress: bool | Progress | None = None
    folder: Path | None = None
    # Folders of stored results: whether they stay for other experiments.
    _stores: dict[Path, bool] = field(default_factory=dict, repr=False, compare=False)

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
        arguments; it must be importable and return what JSON can hold. With `keep` the
        results stay stored for other experiments.
        """
        jobs, label = self.jobs if jobs is None else jobs, _label(function)
        store = self.store(function, config, keep)
        arguments = {"config": config, "seed": self.seed, **shared}
        rows: list[Row] = []
        with reporting(self.progress, label) as report:
            report(0.0, "")
            results = Parallel(n_jobs=jobs, return_as="generator")(
                delayed(_result)(function, task, arguments, store) for task in tasks
            )
            for task, result in zip(tasks, results, strict=True):
                rows.append({**task, **result})
                count = f"{len(rows)} of {len(tasks)} runs"
                proceed = report(len(rows) / len(tasks), count)
                if not proceed and len(rows) < len(tasks):
                    results.close()
                    raise StoppedError(f"{label} was stopped; it can be resumed.")
        return rows

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

    def store(self, function: Any, config: Any, keep: bool = False) -> Path | None:
        """Return the folder for stored results and checkpoints; create it."""
        if self.folder is None:
            return None
        code = [source_hash(), _file_hash(Path(getsourcefile(function) or ""))]
        name = function.__module__, function.__name__
        store = (
            self.folder
            / f".{_label(function)}-{_hash([*code, *name, asdict(config), self.seed])}"
        )
        store.mkdir(parents=True, exist_ok=True)
        self._stores[store] = keep
        return store

    def discard_stored(self) -> None:
        """Remove stored results and checkpoints, once the outcome is written.

        Results that other experiments can use stay.
        """
        for store, keep in self._stores.items():
            for path in store.glob("*.checkpoint*" if keep else "*"):
                path.unlink()
            if not keep:
                store.rmdir()


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


def _hash(value: Any) -> str:
    """Return a hash of a value that JSON can hold; of others, of their repr."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _result(
    function: Callable[..., Row], task: Row, arguments: Row, store: Path | None
) -> Row:
    """Return the stored result of a task; compute and store it if there is none."""
    path = None if store is None else store / f"{_hash(task)}.json"
    if path is not None:
        with suppress(OSError, ValueError, TypeError):  # none, or of another format
            return {**json.loads(path.read_text(encoding="utf-8"))}
    result = function(**task, **arguments)
    if path is not None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(path)
    return result
