"""Run the independent tasks of an experiment on all cores, resumable.

Finished tasks are written to a journal in the output folder. After an interruption the
same command resumes there. The name of the journal contains a hash of the settings and
of the source code, and each line the hash of its task. Results of
other settings, or of an earlier state of the code, are therefore never used.
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

import numpy as np
from joblib import Parallel, delayed

from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, StoppedError, reporting

Row = dict[str, Any]

# The source folder of this package.
PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """Result of an experiment: the plotted points, the finding, an optional table.

    ``extra`` holds further data for the plots, such as images.
    """

    config: Any
    rows: list[Row]
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

        The function must be importable. `label` and `config` name the journal. `shared`
        are further arguments of every call, not part of a task's hash; with `keep` the
        journal stays for other experiments.
        """
        jobs = self.jobs if jobs is None else jobs
        journal = self.journal(label, function, config)
        if keep and journal is not None:
            self._kept.add(journal)
        keys = [_task_hash(task) for task in tasks]
        done = {key: row for key, row in _read(journal).items() if key in keys}
        todo = [i for i, key in enumerate(keys) if key not in done]
        with reporting(self.progress, label) as report:
            report(len(done) / max(len(tasks), 1), "resumed" if done else "")
            results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
                delayed(_call_with_key)(
                    keys[i], function, {**tasks[i], **(shared or {})}
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
        *,
        label: str,
        config: Any,
        jobs: int | None = None,
    ) -> list[Row]:
        """Return the result of a function at all combinations of values of the axes.

        It is also called with ``config`` and ``seed``. A row of the result holds the
        value on each axis and what the function returned; see `map`.
        """
        points = product(*axes.values())
        tasks = [dict(zip(axes, point, strict=True)) for point in points]
        shared = {"config": config, "seed": self.seed}
        return self.map(
            function, tasks, label=label, config=config, jobs=jobs, shared=shared
        )

    def journal(self, label: str, function: Any, config: Any) -> Path | None:
        """Return the path of the journal; checkpoints are next to it."""
        if self.folder is None:
            return None
        code = [source_hash(), _file_hash(Path(getsourcefile(function) or ""))]
        name = function.__module__, function.__name__
        settings = json.dumps([*code, *name, asdict(config), self.seed], sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
        journal = self.folder / f".{label}-{digest}.journal"
        self._journals.add(journal)
        return journal

    def discard_journals(self) -> None:
        """Remove journals and checkpoints, once the results are written.

        Journals that other experiments can use stay.
        """
        for journal in self._journals:
            if journal not in self._kept:
                journal.unlink(missing_ok=True)
            for path in journal.parent.glob(f"{journal.stem}.*.checkpoint*"):
                path.unlink()


def where(rows: list[Row], **values: Any) -> list[Row]:
    """Return the rows that have the given values."""
    return [row for row in rows if all(row[k] == v for k, v in values.items())]


def column(rows: list[Row], key: str, **values: Any) -> Array:
    """Return one column of the rows that have the given values."""
    return np.array([row[key] for row in where(rows, **values)])


def expand(results: list[Row]) -> list[Row]:
    """Return a row for each entry of the lists in a result, beside its other values."""
    rows = []
    for result in results:
        curves = {k: v for k, v in result.items() if isinstance(v, list)}
        for point in zip(*curves.values(), strict=True):
            rows.append({**result, **dict(zip(curves, point, strict=True))})
    return rows


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
