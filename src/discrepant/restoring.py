"""Image files in, clean image files out: one or many, whole or not at all."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np

from discrepant.errors import InputError
from discrepant.image.files import (
    FORMATS,
    Picture,
    check_fits,
    is_image,
    read,
    write,
)
from discrepant.image.restore import restore
from discrepant.linalg import Array
from discrepant.outputs import staged
from discrepant.progress import bar


@dataclass(frozen=True)
class Job:
    """One file to restore, and where the result goes."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Options:
    """What a batch is asked for.

    ``bad`` is a file whose nonzero values mark known-bad ones; ``mask`` and ``beside``
    ask for two more files: what was judged corrupted, and before beside after.
    """

    quality: str = "best"
    bad: Path | None = None
    mask: bool = False
    beside: bool = False
    overwrite: bool = False
    time_limit: float | None = None
    seed: int = 0


def plan(files: Sequence[Path], output: Path) -> list[Job]:
    """Return what is to be done; folders stand for the images in them."""
    sources: list[Path] = []
    for path in files:
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.is_file() and is_image(p))
            if not found:
                raise InputError(f"{path} holds no {', '.join(FORMATS)} files.")
            sources += found
        else:
            sources.append(path)
    single = len(files) == 1 and not files[0].is_dir()
    if single and is_image(output) and not output.is_dir():
        return [Job(sources[0], output)]
    if output.suffix and not output.is_dir() and not single:
        raise InputError(f"Several files need a folder as output, not {output}.")
    if single and output.suffix and not output.is_dir():
        raise InputError(
            f"{output.name}: the ending must be one of {', '.join(FORMATS)}."
        )
    jobs = [Job(path, output / path.name) for path in sources]
    names = [job.target for job in jobs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two of the files are called {twice.name}.")
    return jobs


def run(
    jobs: Sequence[Job], options: Options, say: Callable[[str], None], show: bool
) -> dict[Path, str]:
    """Restore all files; returns those that failed, each with its reason."""
    failures: dict[Path, str] = {}
    with bar("Restoring", 100 * len(jobs), show) as report, interruptible() as stop:
        for number, job in enumerate(jobs):

            def progress(done: float, note: str, number: int = number) -> bool:
                report(round(100 * (number + done)), note)
                return not stop.is_set()

            try:
                say(restore_file(job, options, progress))
            except InputError as error:
                failures[job.source] = str(error)
            if stop.is_set():
                for left in jobs[number + 1 :]:
                    failures[left.source] = "not started."
                break
    return failures


def restore_file(
    job: Job, options: Options, progress: Callable[[float, str], bool] | None = None
) -> str:
    """Restore one file; returns a sentence on what was found."""
    started = time.perf_counter()
    picture = read(job.source)
    check_fits(job.target, picture)
    names = [job.target.name]
    few = not picture.page_axes and picture.channels <= 4
    mask_name = f"{job.target.stem}-mask{'.png' if few else '.tif'}"
    beside_name = f"{job.target.stem}-side-by-side.png"
    names += [mask_name] * options.mask + [beside_name] * options.beside
    bad = _bad(options.bad)
    with staged(job.target.parent, names, overwrite=options.overwrite) as scratch:
        out = picture.values.copy()
        mask = np.zeros(out.shape, bool)
        before, after, pages, share = None, None, picture.n_pages, 0.0
        for number, (place, page) in enumerate(picture.pages()):

            def told(done: float, note: str, number: int = number) -> bool:
                return progress is None or progress((number + done) / pages, note)

            left = None
            if options.time_limit is not None:
                spent = time.perf_counter() - started
                left = max(options.time_limit - spent, 1e-3) / (pages - number)
            result = restore(
                page,
                channel_axis=0,
                quality=options.quality,
                mask=bad,
                seed=options.seed,
                time_limit=left,
                progress=told,
            )
            picture.put(out, place, result.image)
            picture.put(mask, place, result.mask)
            share += float(result.mask.mean()) / pages
            if before is None:
                before, after = page, result.image
        write(scratch / job.target.name, picture, out)
        if options.mask:
            marks = mask.astype(np.uint8) * np.uint8(255)
            plain = Picture(marks, picture.page_axes, picture.channel_axis, "NPY")
            write(scratch / mask_name, plain, marks)
        if options.beside and before is not None and after is not None:
            both = _beside(before, after)
            axis = 2 if both.ndim == 3 else None
            write(scratch / beside_name, Picture(both, (), axis, "NPY"), both)
    seconds = time.perf_counter() - started
    return (
        f"{job.source.name}: {share:.2%} of the values corrupted"
        f"{kind_of_values(picture.values, mask)}, {seconds:.1f} s → {job.target}"
    )


def kind_of_values(values: Array, mask: Array) -> str:
    """Say in a few words what the corrupted values are; nothing if there are none."""
    wrong = values[mask]
    if not wrong.size:
        return ""
    if wrong.dtype.kind == "f" and not np.isfinite(wrong).any():
        return ", all missing"
    found, counts = np.unique(wrong, return_counts=True)
    order = np.argsort(-counts)[:2]
    if counts[order[0]] > 0.9 * wrong.size:
        return f", nearly all of them {found[order[0]]:g}"
    if counts[order].sum() > 0.9 * wrong.size:
        low, high = sorted(found[order].tolist())
        return f", nearly all of them {low:g} or {high:g}"
    return ", of many sizes"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Let the first Ctrl-C ask for the best so far, and the second end the work."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def asked(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print(
            "\nStopping: the best so far will be written. Ctrl-C again gives up.",
            file=sys.stderr,
        )

    previous = signal.signal(signal.SIGINT, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)


def _bad(path: Path | None) -> Array | None:
    if path is None:
        return None
    values: Array = read(path).values
    if values.ndim == 3 and values.shape[2] in (3, 4):
        values = np.asarray(values[..., :3].any(axis=2))
    return np.asarray(values != 0)


def _beside(before: Array, after: Array) -> Array:
    """Return before and after, channels first, in 8 bits on one scale, side by side."""
    finite = after[np.isfinite(after)].astype(float)
    low, high = np.quantile(finite, (0.001, 0.999)) if finite.size else (0.0, 1.0)
    if after.dtype == np.uint8:
        low, high = 0.0, 255.0
    span = (high - low) or 1.0

    def shown(page: Array) -> Array:
        if page.ndim == 3:
            page = np.moveaxis(page, 0, -1) if len(page) == 3 else page[0]
        scaled = (np.nan_to_num(page.astype(float), nan=low) - low) / span
        return (255 * np.clip(scaled, 0, 1)).astype(np.uint8)

    left, right = shown(before), shown(after)
    gap = np.full((len(left), 8, *left.shape[2:]), 255, np.uint8)
    return np.concatenate([left, gap, right], axis=1)
