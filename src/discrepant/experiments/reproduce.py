"""A figure or table of the paper made anew: a picture, its points and its settings."""

import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from discrepant import __version__
from discrepant.core.errors import InputError, missing_extra
from discrepant.core.output_files import atomic_output_folder, write_json
from discrepant.core.progress import Progress
from discrepant.core.validation import check_choice
from discrepant.experiments.catalogue import CATALOGUE, load
from discrepant.experiments.runner import Runner

SCALES = ("cpu", "paper")


@dataclass(frozen=True)
class ReproduceReport:
    """What an experiment found, and where its files were written.

    ``table`` is in Markdown, and empty where the experiment has none.
    """

    name: str
    finding: str
    table: str
    seconds: float
    folder: Path
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}\n{self.finding}" if self.table else self.finding


def reproduce(
    name: str,
    output: Path,
    *,
    quick: bool = False,
    scale: str | None = None,
    images: Path | None = None,
    seed: int = 0,
    jobs: int = -1,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
) -> ReproduceReport:
    """Run an experiment and write its picture, its points and its settings.

    What an interrupted run has done is kept in the folder; the same call goes on there.

    Parameters
    ----------
    name : str
        One of `discrepant.experiments.CATALOGUE`.
    output : Path
        Folder for the results; made if needed.
    quick : bool
        A small version that takes about a minute.
    scale : {"cpu", "paper"}, optional
        Images: minutes on two cores (the default), or the paper's own settings.
    images : Path, optional
        Images: a folder to take them from; by default scikit-image's.
    seed : int
        The same seed gives the same result.
    jobs : int
        Processes at a time; −1 is one a core.
    overwrite : bool
        Whether results that are there already may be replaced.
    progress : bool or callable, optional
        See `discrepant.core.progress.reporting`.
    """
    check_choice("name", name, tuple(CATALOGUE))
    if jobs == 0 or jobs < -1:
        raise InputError(f"jobs must be a positive number or -1, got {jobs}.")
    config, module = _settings(name, quick, scale, images)
    _require(module)
    parts = getattr(config, "companions", ())
    files = (
        *(f"{name}.{ending}" for ending in ("png", "csv", "json")),
        *(f"{name}-{part}.png" for part in parts),
    )
    import pandas as pd

    with atomic_output_folder(output, files, overwrite=overwrite) as scratch:
        started = time.perf_counter()
        runner = Runner(seed=seed, jobs=jobs, progress=progress, folder=output)
        outcome = module.run(config, runner)
        seconds = round(time.perf_counter() - started, 1)
        module.plot(outcome).savefig(scratch / files[0])
        for part in parts:
            getattr(module, part)(outcome).savefig(scratch / f"{name}-{part}.png")
        pd.DataFrame(outcome.rows).to_csv(scratch / files[1], index=False)
        details = {
            "experiment": name,
            "settings": vars(config),
            "seed": seed,
            "finding": outcome.finding,
            "seconds": seconds,
            "versions": {
                "discrepant": __version__,
                "numpy": np.__version__,
                "python": sys.version.split()[0],
            },
        }
        write_json(scratch / files[2], details)
    runner.forget()
    return ReproduceReport(name, outcome.finding, outcome.table, seconds, output, files)


def _require(module: Any) -> None:
    """Say at once all that is not installed of what a figure needs."""
    wanted = {"matplotlib": ("matplotlib", "plot")}
    if hasattr(module.Config, "paper"):  # images
        wanted |= {"torch": ("PyTorch", "image"), "skimage": ("scikit-image", "image")}
    missing = [both for module, both in wanted.items() if find_spec(module) is None]
    if missing:
        names = ", ".join(name for name, _ in missing)
        extras = ",".join(dict.fromkeys(extra for _, extra in missing))
        raise missing_extra(f"This figure needs {names}", extras)


def _settings(
    name: str, quick: bool, scale: str | None, images: Path | None
) -> tuple[Any, Any]:
    """Return the settings of an experiment and its module."""
    module: Any
    module, settings = load(name)
    if scale is not None:
        check_choice("scale", scale, SCALES)
    if (scale or images) and not hasattr(module.Config, "paper"):
        raise InputError(f"{name} has no scale= and no images=: it needs none.")
    if quick and scale == "paper":
        raise InputError(
            'quick=True and scale="paper" contradict each other; pass one.'
        )
    if images is not None:
        settings = {**settings, "images": str(images)}
    if scale == "paper":
        return module.Config.paper(**settings), module
    make = module.Config.quick if quick else module.Config
    return make(**settings), module
