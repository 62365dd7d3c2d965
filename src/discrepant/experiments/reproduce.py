"""Run one experiment of the paper and write its figure, points and settings."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discrepant import __version__
from discrepant.core.errors import InputError
from discrepant.core.output_files import atomic_output_folder, write_json
from discrepant.core.progress import Progress
from discrepant.core.validation import check_choice
from discrepant.experiments.catalogue import CATALOGUE, load
from discrepant.experiments.runner import Runner

# Scales of the experiments on images.
SCALES = ("cpu", "paper")


@dataclass(frozen=True)
class ReproduceReport:
    """The finding of an experiment, and the files that were written.

    ``table`` is in Markdown; it is empty if the experiment has no table.
    """

    finding: str
    table: str
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
    """Run an experiment and write its figure, its plotted points and its settings.

    An interrupted run leaves its finished parts in the folder; the same call continues
    from there.

    Parameters
    ----------
    name : str
        One of `discrepant.experiments.catalogue.CATALOGUE`.
    output : Path
        Folder for the results; created if needed.
    quick : bool
        Run a small version, in about a minute.
    scale : {"cpu", "paper"}, optional
        Image experiments: minutes on two cores (the default), or the settings of the
        paper.
    images : Path, optional
        Image experiments: folder of images to use instead of those of scikit-image.
    seed : int
        Seed of the random numbers; the same seed gives the same result.
    jobs : int
        Number of parallel processes; −1 uses all cores.
    overwrite : bool
        Replace results that already exist.
    progress : bool or callable, optional
        See `discrepant.core.progress.reporting`.
    """
    check_choice("name", name, tuple(CATALOGUE))
    if jobs == 0 or jobs < -1:
        raise InputError(f"jobs must be a positive number or -1, got {jobs}.")
    config, module = _configure(name, quick, scale, images)
    files = tuple(f"{name}.{suffix}" for suffix in ("png", "csv", "json"))
    with atomic_output_folder(output, files, overwrite=overwrite) as scratch:
        started = time.perf_counter()
        runner = Runner(seed=seed, jobs=jobs, progress=progress, folder=output)
        outcome = module.run(config, runner)
        seconds = round(time.perf_counter() - started, 1)
        module.plot(outcome).savefig(scratch / files[0])
        outcome.points.to_csv(scratch / files[1], index=False)
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
    runner.discard_stored()
    return ReproduceReport(outcome.finding, outcome.table, files)


def _configure(
    name: str, quick: bool, scale: str | None, images: Path | None
) -> tuple[Any, Any]:
    """Return the configuration of an experiment and its module."""
    module: Any
    module, settings = load(name)
    if scale is not None:
        check_choice("scale", scale, SCALES)
    if (scale or images) and not hasattr(module.Config, "paper"):
        raise InputError(f"{name} uses no images; leave out scale= and images=.")
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
