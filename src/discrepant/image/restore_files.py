"""Restore image files: plan the jobs, restore each page, write all files of a result.

The files of one result are written together or not at all.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.output_files import atomic_output_folder
from discrepant.core.progress import Progress, Report, reporting, subrange
from discrepant.image.display import describe_values, write_side_by_side
from discrepant.image.files.formats import FORMATS, check_fits, is_image, read, write
from discrepant.image.files.image_file import ImageFile, declares_frames
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.restore import restore
from discrepant.image.restore.stack.axes import allocate_like

# A single grey pixel: tests whether masks and panels can be written at all.
ONE_PIXEL = ImageFile(np.zeros((1, 1), np.uint8), (), None, "NPY")


@dataclass(frozen=True)
class Job:
    """A file to restore, and the path of the result.

    ``shares_stem`` says that another result has the same name up to its ending.
    """

    source: Path
    target: Path
    shares_stem: bool = False

    @property
    def stem(self) -> str:
        """The beginning of the names of all files of the result."""
        ending = self.target.suffix.replace(".", "-") if self.shares_stem else ""
        return f"{self.target.stem}{ending}"

    def mask(self, ending: str) -> Path:
        """Return the path of the mask with the given ending (see `mask_ending`)."""
        return self.target.with_name(f"{self.stem}-mask{ending}")

    def suggestions(self, ending: str) -> Path:
        """Return the path of the suggestions, which have the ending of the mask."""
        return self.target.with_name(f"{self.stem}-suggestions{ending}")

    @property
    def side_by_side(self) -> Path:
        """The path of the image before and after, side by side."""
        return self.target.with_name(f"{self.stem}-side-by-side.png")


@dataclass(frozen=True)
class Options:
    """Options for all files of a batch.

    Attributes
    ----------
    quality : {"best", "fast"}
        See `discrepant.restore`.
    known_bad : ImageFile or None
        An image whose nonzero values mark values known to be corrupted.
    mask, side_by_side, suggestions : bool
        Whether to write more files: the mask of the values classified as corrupted,
        the image before and after, and the mask of possible surface defects.
    overwrite : bool
        Whether existing files may be replaced.
    time_limit : float or None
        Seconds for each file.
    axes : str or None
        Letters of the axes of stacks; by default those in a file's OME or ImageJ
        metadata.
    denoise : bool
        Whether to remove noise too.
    detector : Detector
        Gain, read noise and saturation, where known.
    """

    quality: str = "best"
    known_bad: ImageFile | None = None
    mask: bool = False
    side_by_side: bool = False
    overwrite: bool = False
    time_limit: float | None = None
    axes: str | None = None
    denoise: bool = False
    detector: Detector = field(default_factory=Detector)
    suggestions: bool = False

    def __post_init__(self) -> None:
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"time_limit must be positive, got {self.time_limit}.")


def plan(
    files: Sequence[Path], output: Path, options: Options | None = None
) -> list[Job]:
    """Return one job for each file, and for each image in each folder."""
    options = options or Options()
    sources: list[Path] = []
    for path in files:
        if path.is_dir():
            images = sorted(p for p in path.iterdir() if p.is_file() and is_image(p))
            if not images:
                raise InputError(f"{path} holds no {', '.join(FORMATS)} files.")
            sources += images
        elif not path.exists():
            raise InputError(f"{path} does not exist.")
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
    stems = Counter(path.stem for path in sources)
    jobs = [Job(path, output / path.name, stems[path.stem] > 1) for path in sources]
    _check_names(jobs, options)
    return jobs


@dataclass(frozen=True)
class FileReport:
    """Summary of one restored file.

    Attributes
    ----------
    source, target : Path
        The file, and its result.
    corrupted : float
        Fraction of the values classified as corrupted.
    kind : str
        Description of these values, appended to the sentence about their number.
    complete : bool
        Whether the restoration was neither stopped nor out of time.
    seconds : float
        Time that the file took.
    suggested : float
        Fraction of the values under possible surface defects.
    pages_lost : bool
        Whether some pages could not be read.
    """

    source: Path
    target: Path
    corrupted: float
    kind: str
    complete: bool
    seconds: float
    suggested: float = 0.0
    pages_lost: bool = False

    def __str__(self) -> str:
        suggested = f", {self.suggested:.2%} suggested" if self.suggested else ""
        return (
            f"{self.source.name}: {'' if self.complete else 'stopped early; '}"
            f"{self.corrupted:.2%} of the values corrupted{self.kind}{suggested}, "
            f"{self.seconds:.1f} s → {self.target}"
        )


@dataclass(frozen=True)
class RestoreReport:
    """Summaries of the restored files of a batch, and the reason of each failure."""

    done: tuple[FileReport, ...]
    failures: dict[Path, str]

    def __str__(self) -> str:
        failed, files = len(self.failures), len(self.done) + len(self.failures)
        if not failed:
            return "\n".join(map(str, self.done))
        lines = [f"{failed} of {files} files failed:"]
        for path, reason in self.failures.items():
            has_path = reason.startswith(str(path))
            lines.append(f"  {reason if has_path else f'{path}: {reason}'}")
        return "\n".join(lines)


def restore_files(
    jobs: Sequence[Job],
    options: Options,
    *,
    progress: bool | Progress | None = None,
    on_restored: Callable[[FileReport], object] = lambda report: None,
) -> RestoreReport:
    """Restore all files; an error in one does not stop the others.

    Parameters
    ----------
    jobs : sequence of Job
        The files, as returned by `plan`.
    options : Options
        Options for all files.
    progress : bool or callable, optional
        See `core.progress.reporting`. If it returns False, the best result so far of
        the current file is written, and the others are not started.
    on_restored : callable, optional
        Called with the report of each file when it has been written.
    """
    done: list[FileReport] = []
    failures: dict[Path, str] = {}
    with reporting(progress, "Restoring") as report_progress:
        for number, job in enumerate(jobs):
            if not report_progress(number / len(jobs), job.source.name):
                failures[job.source] = "not started."
                continue
            with_number = _with_file_number(report_progress, number, len(jobs))
            file_progress = subrange(
                with_number, number / len(jobs), (number + 1) / len(jobs)
            )
            try:
                report = restore_file(job, options, file_progress)
            except InputError as error:
                failures[job.source] = str(error)
            except MemoryError:
                failures[job.source] = "there is not enough memory for it."
            except Exception as error:  # one file must not cost the others
                name, first = type(error).__name__, str(error).split("\n")[0]
                failures[job.source] = f"an unexpected {name} stopped it: {first}"
            else:
                done.append(report)
                on_restored(report)
    return RestoreReport(tuple(done), failures)


def _with_file_number(report: Report, number: int, count: int) -> Report:
    """Return a progress callable whose notes name the current one of several files."""
    if count == 1:
        return report
    return lambda done, note: report(done, f"file {number + 1} of {count}, {note}")


def restore_file(
    job: Job, options: Options, progress: Progress | None = None
) -> FileReport:
    """Restore one file, write its results, and return a summary."""
    started = time.perf_counter()
    image = read(job.source, mapped=options.axes is not None)
    check_fits(job.target, image)
    ending = mask_ending(image)
    mask, suggestions = job.mask(ending), job.suggestions(ending)
    extras = [mask] * options.mask + [job.side_by_side] * options.side_by_side
    extras += [suggestions] * options.suggestions
    for path in extras:
        check_fits(path, ONE_PIXEL)
    names = [path.name for path in (job.target, *extras)]
    with atomic_output_folder(
        job.target.parent, names, overwrite=options.overwrite
    ) as scratch:
        # Write the input first: a file that cannot be written fails before the work.
        write(scratch / job.target.name, image, image.values)
        with (
            _warnings_with_name(job.source.name),
            reporting(progress, job.source.name) as report_progress,
        ):
            result = restore_pages(image, options, report_progress, started)
        write(scratch / job.target.name, image, result.values)
        if options.mask:
            write_mask(scratch / mask.name, image, result.mask)
        if options.suggestions:
            write_mask(scratch / suggestions.name, image, result.suggestions)
        if options.side_by_side:
            path = scratch / job.side_by_side.name
            write_side_by_side(path, image, result.values, result.suggestions)
    return FileReport(
        source=job.source,
        target=job.target,
        corrupted=float(result.mask[image.without_transparency].mean()),
        kind=describe_values(image.values, result.mask),
        complete=result.complete,
        seconds=time.perf_counter() - started,
        suggested=float(result.suggestions[image.without_transparency].mean()),
        pages_lost=image.incomplete,
    )


@dataclass(frozen=True, eq=False)
class RestoredPages:
    """The restored values of all pages of a file, and their masks."""

    values: Array
    mask: Array
    suggestions: Array
    complete: bool


def restore_pages(
    image: ImageFile, options: Options, report: Report, started: float
) -> RestoredPages:
    """Restore all pages of a file: as one stack if they are frames, else one by one.

    Single pages get equal parts of the time that is left.

    Parameters
    ----------
    image : ImageFile
        The pixels of the file, with their axes.
    options : Options
        Options; those about files to write are ignored.
    report : callable
        Called with the progress; if it returns False, the best result so far is
        returned.
    started : float
        The time by `time.perf_counter` from which ``time_limit`` counts.
    """
    keywords: dict[str, Any] = {"denoise": options.denoise, **asdict(options.detector)}
    axes = options.axes or _declared_axes(image)
    if axes is not None:
        stack = restore(
            image.values,
            axes=axes,
            quality=options.quality,
            mask=None if options.known_bad is None else options.known_bad.values != 0,
            time_limit=options.time_limit,
            progress=report,
            **keywords,
        )
        return RestoredPages(stack.image, stack.mask, stack.suggestions, stack.complete)
    out = image.values.copy()
    mask, suggestions = np.zeros((2, *image.values.shape), bool)
    n_pages, complete = image.n_pages, True
    known_bad = _known_bad_pages(options.known_bad, image)
    for number, (index, page) in enumerate(image.pages()):
        seconds_left = None
        if options.time_limit is not None:
            spent = time.perf_counter() - started
            seconds_left = max(options.time_limit - spent, 1e-3) / (n_pages - number)
        result = restore(
            page,
            channel_axis=0,
            quality=options.quality,
            mask=known_bad[number],
            time_limit=seconds_left,
            progress=subrange(report, number / n_pages, (number + 1) / n_pages),
            **keywords,
        )
        image.put(out, index, result.image)
        image.put(mask, index, result.mask)
        image.put(suggestions, index, result.suggestions)
        complete = complete and result.complete
    return RestoredPages(out, mask, suggestions, complete)


def _check_names(jobs: Sequence[Job], options: Options) -> None:
    """Raise an InputError if two results would be written to one file."""
    names: Counter[Path] = Counter()
    for job in jobs:
        names[job.target] += 1
        kinds = [job.mask] * options.mask + [job.suggestions] * options.suggestions
        names.update(kind(ending) for kind in kinds for ending in (".png", ".tif"))
        if options.side_by_side:
            names[job.side_by_side] += 1
    duplicate = next((path.name for path, count in names.items() if count > 1), None)
    if duplicate is not None:
        raise InputError(
            f"Two results would be called {duplicate}; restore these to two folders."
        )


def _declared_axes(image: ImageFile) -> str | None:
    """Return the axis letters of a file whose metadata declare frames, else None."""
    axes: str = image.extra.get("axes", "")
    kind = image.extra.get("kind", "")
    return axes if declares_frames(kind, axes, image.page_axes) else None


def _known_bad_pages(
    known_bad: ImageFile | None, image: ImageFile
) -> list[Array | None]:
    """Return the known-bad mask of each page; one page or channel applies to all."""
    n_pages, all_channels = image.n_pages, image.channels
    channels = all_channels - image.transparent
    if known_bad is None:
        return [None] * n_pages
    if known_bad.n_pages not in (1, n_pages):
        raise InputError(
            f"The known-bad image has {known_bad.n_pages} pages, this one {n_pages}."
        )

    def match_channels(mask: Array) -> Array:
        mask = mask != 0
        if mask.ndim == 2 or len(mask) == channels:
            return mask if image.channel_axis is not None else _any_channel(mask)
        if len(mask) == all_channels:
            return mask[:channels]
        if 1 in (len(mask), channels):
            return _any_channel(mask)
        raise InputError(
            f"The known-bad image has {len(mask)} channels, this one {channels}."
        )

    masks: list[Array | None] = [match_channels(page) for _, page in known_bad.pages()]
    return masks * (n_pages // len(masks))


def _any_channel(mask: Array) -> Array:
    return mask if mask.ndim == 2 else np.asarray(mask.any(axis=0))


def mask_ending(image: ImageFile) -> str:
    """Return the ending of a file that can hold a mask of this image."""
    fits_png = not image.page_axes and image.channels - image.transparent in (1, 3)
    return ".png" if fits_png else ".tif"


def write_mask(path: Path, image: ImageFile, mask: Array) -> None:
    """Write a mask as black and white, with the image's pages and channels."""
    opaque = mask[image.without_transparency]
    values = allocate_like(opaque.shape, np.uint8, isinstance(image.values, np.memmap))
    np.multiply(opaque, 255, out=values, casting="unsafe")
    file = ImageFile(
        values,
        image.page_axes,
        image.channel_axis,
        "NPY",
        orientation=image.orientation,
    )
    write(path, file, values)


@contextmanager
def _warnings_with_name(name: str) -> Iterator[None]:
    """Prefix warnings by the name of the file."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for message in dict.fromkeys((str(w.message), w.category) for w in caught):
        warnings.warn(f"{name}: {message[0]}", message[1], stacklevel=3)
