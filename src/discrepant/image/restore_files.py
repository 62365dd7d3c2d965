"""Image files in, clean image files out: one or many, whole or not at all."""

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
from discrepant.image.display import describe_values, write_beside
from discrepant.image.files.formats import FORMATS, check_fits, is_image, read, write
from discrepant.image.files.image_file import ImageFile, declares_frames
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.restore import restore
from discrepant.image.restore.stack.axes import allocate_like

BLANK = ImageFile(np.zeros((1, 1), np.uint8), (), None, "NPY")


@dataclass(frozen=True)
class Job:
    """One file to restore, and where the result goes."""

    source: Path
    target: Path
    alike: bool = False  # another result has the same name up to its ending

    @property
    def stem(self) -> str:
        """What the names of all that belongs to the result begin with."""
        ending = self.target.suffix.replace(".", "-") if self.alike else ""
        return f"{self.target.stem}{ending}"

    def mask(self, ending: str) -> Path:
        """Return where the mask goes; its ending depends on the picture."""
        return self.target.with_name(f"{self.stem}-mask{ending}")

    def suggestions(self, ending: str) -> Path:
        """Return where the suggestions go; their ending is that of the mask."""
        return self.target.with_name(f"{self.stem}-suggestions{ending}")

    @property
    def beside(self) -> Path:
        """Where before beside after goes."""
        return self.target.with_name(f"{self.stem}-side-by-side.png")


@dataclass(frozen=True)
class Options:
    """What a batch is asked for.

    ``bad`` is a picture whose nonzero values mark known-bad ones; ``mask``, ``beside``
    and ``suggestions`` ask for more files: what was judged corrupted, before beside
    after, and what looks foreign but may be the picture. ``time_limit`` is in seconds,
    for each file. ``axes`` names the axes of stacks; without it, a file that names its
    own (OME, ImageJ) is believed. ``denoise`` takes off noise too; ``detector`` is what
    is known of it.
    """

    quality: str = "best"
    bad: ImageFile | None = None
    mask: bool = False
    beside: bool = False
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
    """Return what is to be done; folders stand for the images in them."""
    options = options or Options()
    sources: list[Path] = []
    for path in files:
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.is_file() and is_image(p))
            if not found:
                raise InputError(f"{path} holds no {', '.join(FORMATS)} files.")
            sources += found
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
    """What was found in one file: shares of its values, and of which kind.

    ``lost`` says that some of its pages could not be read.
    """

    source: Path
    target: Path
    corrupted: float
    kind: str
    complete: bool
    seconds: float
    suggested: float = 0.0
    lost: bool = False

    def __str__(self) -> str:
        more = f", {self.suggested:.2%} suggested" if self.suggested else ""
        return (
            f"{self.source.name}: {'' if self.complete else 'stopped early; '}"
            f"{self.corrupted:.2%} of the values corrupted{self.kind}{more}, "
            f"{self.seconds:.1f} s → {self.target}"
        )


@dataclass(frozen=True)
class RestoreReport:
    """A batch: what was done, and which files failed, each with its reason."""

    done: tuple[FileReport, ...]
    failures: dict[Path, str]

    def __str__(self) -> str:
        failed, files = len(self.failures), len(self.done) + len(self.failures)
        if not failed:
            return "\n".join(map(str, self.done))
        lines = [f"{failed} of {files} files failed:"]
        for path, reason in self.failures.items():
            named = reason.startswith(str(path))
            lines.append(f"  {reason if named else f'{path}: {reason}'}")
        return "\n".join(lines)


def restore_files(
    jobs: Sequence[Job],
    options: Options,
    *,
    progress: bool | Progress | None = None,
    tell: Callable[[FileReport], object] = lambda report: None,
) -> RestoreReport:
    """Restore all files; no error of one ends the others.

    Parameters
    ----------
    jobs : sequence of Job
        What `plan` returns.
    options : Options
        What is asked for.
    progress : bool or callable, optional
        See `core.progress.reporting`. Told to stop, the file at hand is written
        as far as it is, and the others are not begun.
    tell : callable, optional
        Told of each file as it is done.
    """
    done: list[FileReport] = []
    failures: dict[Path, str] = {}
    with reporting(progress, "Restoring") as watch:
        for number, job in enumerate(jobs):
            if not watch(number / len(jobs), job.source.name):
                failures[job.source] = "not started."
                continue
            told = _counted(watch, number, len(jobs))
            share = subrange(told, number / len(jobs), (number + 1) / len(jobs))
            try:
                report = restore_file(job, options, share)
            except InputError as error:
                failures[job.source] = str(error)
            except MemoryError:
                failures[job.source] = "there is not enough memory for it."
            except Exception as error:  # one file must not cost the others
                name, first = type(error).__name__, str(error).split("\n")[0]
                failures[job.source] = f"an unforeseen {name} ended it: {first}"
            else:
                done.append(report)
                tell(report)
    return RestoreReport(tuple(done), failures)


def _counted(watch: Report, number: int, count: int) -> Report:
    """Return a report that also says which of several files is at hand."""
    if count == 1:
        return watch
    return lambda share, note: watch(share, f"file {number + 1} of {count}, {note}")


def restore_file(
    job: Job, options: Options, progress: Progress | None = None
) -> FileReport:
    """Restore one file; says what was found."""
    started = time.perf_counter()
    picture = read(job.source, mapped=options.axes is not None)
    check_fits(job.target, picture)
    ending = mask_ending(picture)
    mask, suggestions = job.mask(ending), job.suggestions(ending)
    extras = [mask] * options.mask + [job.beside] * options.beside
    extras += [suggestions] * options.suggestions
    for path in extras:
        check_fits(path, BLANK)
    names = [path.name for path in (job.target, *extras)]
    with atomic_output_folder(
        job.target.parent, names, overwrite=options.overwrite
    ) as scratch:
        # What cannot be written shows before the work, not after it.
        write(scratch / job.target.name, picture, picture.values)
        with (
            _named_warnings(job.source.name),
            reporting(progress, job.source.name) as watch,
        ):
            found = restore_picture(picture, options, watch, started)
        write(scratch / job.target.name, picture, found.values)
        if options.mask:
            write_mask(scratch / mask.name, picture, found.mask)
        if options.suggestions:
            write_mask(scratch / suggestions.name, picture, found.suggestions)
        if options.beside:
            parts = (found.values, found.suggestions)
            write_beside(scratch / job.beside.name, picture, *parts)
    return FileReport(
        source=job.source,
        target=job.target,
        corrupted=float(found.mask[picture.colours].mean()),
        kind=describe_values(picture.values, found.mask),
        complete=found.complete,
        seconds=time.perf_counter() - started,
        suggested=float(found.suggestions[picture.colours].mean()),
        lost=picture.incomplete,
    )


@dataclass(frozen=True, eq=False)
class Restored:
    """What was made of a picture: its values, what was replaced, what suggested."""

    values: Array
    mask: Array
    suggestions: Array
    complete: bool


def restore_picture(
    picture: ImageFile, options: Options, report: Report, started: float
) -> Restored:
    """Restore page by page, each with an even share of the time that is left.

    Pages that are said to be frames of one scene inform each other.

    Parameters
    ----------
    picture : Picture
        What a file holds.
    options : Options
        Of which all but ``mask``, ``beside`` and ``overwrite`` are heeded.
    report : callable
        Told of the progress; False ends the work with the best so far.
    started : float
        When the clock of ``time_limit`` began, by `time.perf_counter`.
    """
    words: dict[str, Any] = {"denoise": options.denoise, **asdict(options.detector)}
    axes = options.axes or _said_axes(picture)
    if axes is not None:
        stack = restore(
            picture.values,
            axes=axes,
            quality=options.quality,
            mask=None if options.bad is None else options.bad.values != 0,
            time_limit=options.time_limit,
            progress=report,
            **words,
        )
        parts = (stack.image, stack.mask, stack.suggestions)
        return Restored(*parts, stack.complete)
    out = picture.values.copy()
    mask, suggestions = np.zeros((2, *picture.values.shape), bool)
    pages, complete = picture.n_pages, True
    marks = _marks(options.bad, picture)
    for number, (place, page) in enumerate(picture.pages()):
        left = None
        if options.time_limit is not None:
            spent = time.perf_counter() - started
            left = max(options.time_limit - spent, 1e-3) / (pages - number)
        result = restore(
            page,
            channel_axis=0,
            quality=options.quality,
            mask=marks[number],
            time_limit=left,
            progress=subrange(report, number / pages, (number + 1) / pages),
            **words,
        )
        picture.put(out, place, result.image)
        picture.put(mask, place, result.mask)
        picture.put(suggestions, place, result.suggestions)
        complete = complete and result.complete
    return Restored(out, mask, suggestions, complete)


def _check_names(jobs: Sequence[Job], options: Options) -> None:
    """Raise if two results would be written to one file."""
    names: Counter[Path] = Counter()
    for job in jobs:
        names[job.target] += 1
        kinds = [job.mask] * options.mask + [job.suggestions] * options.suggestions
        names.update(kind(ending) for kind in kinds for ending in (".png", ".tif"))
        if options.beside:
            names[job.beside] += 1
    twice = next((path.name for path, count in names.items() if count > 1), None)
    if twice is not None:
        raise InputError(
            f"Two results would be called {twice}; restore these to two folders."
        )


def _said_axes(picture: ImageFile) -> str | None:
    """Return the axes that a file gives, if they say what its pages are."""
    axes: str = picture.extra.get("axes", "")
    kind = picture.extra.get("kind", "")
    return axes if declares_frames(kind, axes, picture.page_axes) else None


def _marks(bad: ImageFile | None, picture: ImageFile) -> list[Array | None]:
    """Return what is known to be bad of each page: one page or channel serves all."""
    pages, all_channels = picture.n_pages, picture.channels
    channels = all_channels - picture.transparent
    if bad is None:
        return [None] * pages
    if bad.n_pages not in (1, pages):
        raise InputError(
            f"The known-bad image has {bad.n_pages} pages, this one {pages}."
        )

    def paired(marks: Array) -> Array:
        marks = marks != 0
        if marks.ndim == 2 or len(marks) == channels:
            return marks if picture.channel_axis is not None else _flat(marks)
        if len(marks) == all_channels:
            return marks[:channels]
        if 1 in (len(marks), channels):
            return _flat(marks)
        raise InputError(
            f"The known-bad image has {len(marks)} channels, this one {channels}."
        )

    found: list[Array | None] = [paired(page) for _, page in bad.pages()]
    return found * (pages // len(found))


def _flat(marks: Array) -> Array:
    return marks if marks.ndim == 2 else np.asarray(marks.any(axis=0))


def mask_ending(picture: ImageFile) -> str:
    """Return the ending of a file that holds a mask of this picture."""
    simple = not picture.page_axes and picture.channels - picture.transparent in (1, 3)
    return ".png" if simple else ".tif"


def write_mask(path: Path, picture: ImageFile, mask: Array) -> None:
    """Write what is marked in white, of the picture's pages and channels."""
    shown = mask[picture.colours]
    marks = allocate_like(shown.shape, np.uint8, isinstance(picture.values, np.memmap))
    np.multiply(shown, 255, out=marks, casting="unsafe")
    axes, turned = (picture.page_axes, picture.channel_axis), picture.orientation
    write(path, ImageFile(marks, *axes, "NPY", orientation=turned), marks)


@contextmanager
def _named_warnings(name: str) -> Iterator[None]:
    """Put the name of the file before what is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for message in dict.fromkeys((str(w.message), w.category) for w in caught):
        warnings.warn(f"{name}: {message[0]}", message[1], stacklevel=3)
