"""Clean one image of gross corruption, told neither its kind nor its level.

An image is ``y = x + s``: x is what neighbours and look-alikes of a value predict, s is
free at every value, and the balance between them (how much is corrupted, with what
values, how far a clean value may stray) is learned along the way rather than given.
First a smooth image is fitted to whom it can believe (`detect`), then patches that look
alike predict one another (`patches`). Values judged clean are never touched.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from discrepant.errors import InputError
from discrepant.image.arrays import has_alpha
from discrepant.image.restore.borders import separate
from discrepant.image.restore.detect import STIFFNESS, Judge, detect
from discrepant.image.restore.patches import TRUSTED, Search, refine
from discrepant.image.restore.tone import Tone
from discrepant.linalg import Array
from discrepant.progress import bar
from discrepant.result import History

TILE = 1024  # rows and columns, at most
TILE_VALUES = 4_000_000
LITTLE_LEFT = 0.88  # share of corruption beyond which no picture is recovered
MARGIN = 32  # what a tile sees beyond its own part
Progress = Callable[[float, str], bool | None]
Proceed = Callable[[Array, Array], bool]


@dataclass(frozen=True)
class Quality:
    """How much work is done: passes of the patches, and how thorough each is."""

    search: Search
    passes: int


QUALITIES = {
    "fast": Quality(Search(stride=3), 2),
    "best": Quality(Search(stride=2, count=120), 12),
}


@dataclass(frozen=True, eq=False)
class Restoration:
    """A clean image, and what was taken out of it.

    Attributes
    ----------
    image : ndarray
        The restored image, of the shape, dtype and range of the input. Where ``mask``
        is False it is bit for bit the input.
    corruption : ndarray
        Input minus restored image, zero where ``mask`` is False; signed.
    mask : ndarray of bool
        The values judged corrupted, or marked as bad.
    probability : ndarray
        The probability of each value being corrupted.
    history : History
        One row a round: ``step``, ``seconds``, ``tile`` and the share ``corrupted``.
    complete : bool
        Whether all was done; False if it was stopped, or ran out of time.
    """

    image: Array
    corruption: Array
    mask: Array
    probability: Array
    history: History
    complete: bool = True

    def __str__(self) -> str:
        early = "" if self.complete else "; stopped early"
        return f"{self.mask.mean():.1%} of the values were judged corrupted{early}"


def restore(
    image: Any,
    *,
    quality: str = "best",
    mask: Any = None,
    channel_axis: int | None = -1,
    seed: int = 0,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
    device: str | None = None,
) -> Restoration:
    """Remove gross corruption of unknown kind and amount from one image.

    Salt-and-pepper, random values, hot pixels, dead rows and columns, scratches: one
    setting serves all, and a clean image comes back as it was.

    Parameters
    ----------
    image : array-like of shape (rows, columns) or (rows, columns, channels)
        Integer, bool or float. NaN and infinite values are known to be bad. Of four
        channels of an integer image, if they stand last, the last is taken for alpha
        and kept; move the axis to the front if it is a channel like the others.
    quality : {"best", "fast"}
        Minutes or seconds.
    mask : array-like of bool, optional
        True where a value is known to be bad; of the image's shape, or (rows, columns).
        Masked values of a masked array are bad too.
    channel_axis : int or None
        Where the channels of a three-dimensional image are.
    seed : int
        Taken for the sake of other solvers; nothing here is left to chance.
    time_limit : float, optional
        Seconds after which the best result so far is handed back; parts of a large
        image that were not reached stay as they were.
    progress : bool or callable, optional
        True shows a bar; a callable is told ``(share done, note)``, and ends the work
        with the best so far if it returns False.
    device : str, optional
        Reserved for work on another device; "cpu" or None.

    Returns
    -------
    Restoration

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import restore
    >>> image = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    >>> spoiled = image.copy()
    >>> spoiled[::7, ::5] = 255
    >>> int(np.abs(restore(spoiled).image.astype(int) - image).max()) <= 2
    True
    """
    if quality not in QUALITIES:
        raise InputError(f'quality must be "best" or "fast", got {quality!r}.')
    if time_limit is not None and not (isinstance(time_limit, Real) and time_limit > 0):
        raise InputError(f"time_limit must be a positive number, got {time_limit!r}.")
    if device not in (None, "cpu"):
        raise InputError(f'device must be "cpu" or None, got {device!r}.')
    given, marked = _array(image, "The image"), None
    if mask is not None:
        marked = _array(mask, "The mask")
    if np.ma.isMaskedArray(image):
        hidden = np.ma.getmaskarray(image)
        marked = hidden if marked is None else marked.astype(bool) | hidden
    stack, bad, axis = _stack(given, marked, channel_axis)
    colours = stack.shape[2] - has_alpha(stack, axis)
    values, bad = stack[..., :colours], bad[..., :colours]
    bad = bad | ~np.isfinite(values) if values.dtype.kind == "f" else bad
    if bad.all():
        raise InputError("Every value is marked as bad: nothing to restore from.")

    clean, doubtful, probability, history, complete = _restore(
        values, bad, QUALITIES[quality], time_limit, progress
    )
    share = float(doubtful.mean())
    if share > LITTLE_LEFT:
        warnings.warn(
            f"{share:.0%} of the values were judged corrupted; what is left does not "
            "determine a picture, and the result is a guess.",
            stacklevel=2,
        )
    out = stack.copy()
    out[..., :colours] = clean
    mask_ = np.zeros(stack.shape, bool)
    mask_[..., :colours] = doubtful
    chance = np.zeros(stack.shape, np.float32)
    chance[..., :colours] = probability
    wide = np.int32 if out.dtype.itemsize <= 2 else np.float64
    signed = out.dtype if out.dtype.kind == "f" else wide
    corruption = np.where(mask_, stack.astype(signed) - out.astype(signed), 0)

    def back(a: Array) -> Array:
        return a[..., 0] if axis is None else np.moveaxis(a, -1, axis)

    return Restoration(
        back(out),
        back(corruption.astype(signed)),
        back(mask_),
        back(chance),
        history,
        complete,
    )


def _array(values: Any, name: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths.") from None


def _stack(
    given: Array, bad: Array | None, channel_axis: int | None
) -> tuple[Array, Array, int | None]:
    """Return image and mask as (rows, columns, channels), and where channels were."""
    if given.dtype.kind not in "buif":
        raise InputError(
            f"An image holds integers, bools or floats, not {given.dtype}."
        )
    if given.ndim == 2:
        axis = None
    elif given.ndim == 3 and channel_axis is not None:
        if channel_axis not in range(-3, 3):
            raise InputError(f"channel_axis must be -3 to 2, got {channel_axis!r}.")
        axis = int(channel_axis) % 3
    else:
        raise InputError(
            "An image has shape (rows, columns) or, with channel_axis, (rows, columns, "
            f"channels); got {given.shape}."
        )
    if given.size == 0:
        raise InputError(f"The image is empty: shape {given.shape}.")

    def stacked(a: Array) -> Array:
        return a[..., None] if axis is None else np.moveaxis(a, axis, -1)

    stack = stacked(given)
    if bad is None:
        return stack, np.zeros(stack.shape, bool), axis
    if bad.dtype.kind not in "bui":
        raise InputError(f"mask holds bools, True where bad, not {bad.dtype}.")
    bad = bad != 0
    if bad.shape == given.shape:
        return stack, stacked(bad), axis
    if bad.shape == stack.shape[:2]:
        return stack, np.repeat(bad[..., None], stack.shape[2], 2), axis
    raise InputError(f"mask has shape {bad.shape}, the image {given.shape}.")


def _restore(
    values: Array,
    bad: Array,
    quality: Quality,
    time_limit: float | None,
    progress: bool | Progress | None,
) -> tuple[Array, Array, Array, History, bool]:
    tone = Tone.of(values, bad)
    parts = list(tiles(*values.shape))
    clean = values.copy()
    doubtful = np.zeros(values.shape, bool)
    probability = np.zeros(values.shape, np.float32)
    rounds = len(STIFFNESS) + quality.passes
    rows: list[tuple[float, float, float]] = []
    started = time.perf_counter()
    with ExitStack() as stack:
        report = _reporter(progress, stack)
        stopped, complete = False, True
        for number, (inner, outer, part) in enumerate(parts):
            spent, limit = time.perf_counter() - started, math.inf
            if time_limit is not None:  # an even share of what is left
                limit = spent + max(time_limit - spent, 0) / (len(parts) - number)
            if stopped or (number and limit <= spent):
                doubtful[inner] = bad[inner]
                probability[inner] = bad[inner]
                grey = tone.backward(np.full(values.shape[2], 0.5))
                clean[inner] = np.where(bad[inner], grey, clean[inner])
                complete = False
                continue

            def proceed(
                x: Array, weight: Array, number: int = number, limit: float = limit
            ) -> bool:
                seconds = time.perf_counter() - started
                share = float(1 - weight.mean())
                rows.append((seconds, number, share))
                step = sum(row[1] == number for row in rows)
                done = (number + step / rounds) / len(parts)
                going = report(min(done, 1.0), f"{share:.0%} corrupted")
                nonlocal stopped, complete
                stopped = going is not None and not going
                in_time = seconds < limit and not stopped
                complete &= in_time
                return in_time

            guess, weight, replace = _tile(
                tone.forward(values[outer]), ~bad[outer], quality, proceed
            )
            doubtful[inner] = replace[part]
            probability[inner] = np.where(bad[inner], 1, 1 - weight[part])
            mended = tone.backward(guess[part])
            clean[inner] = np.where(doubtful[inner], mended, clean[inner])
        report(1.0, f"{doubtful.mean():.0%} corrupted")
    seconds, tile, share = np.array(rows, float).reshape(-1, 3).T
    steps = np.arange(1, len(rows) + 1)
    columns = {"step": steps, "seconds": seconds, "tile": tile, "corrupted": share}
    return clean, doubtful, probability, History(columns), complete


def _tile(
    y: Array, known: Array, quality: Quality, proceed: Proceed
) -> tuple[Array, Array, Array]:
    """Restore one tile; returns the guess, who is clean, and what is to be replaced."""
    rows, columns, known = separate(y, known)
    inside = (rows, columns)
    guess, weight, replace = y.copy(), np.zeros_like(y), np.zeros(y.shape, bool)
    guess[inside], weight[inside], replace[inside], judge = _picture(
        y[inside], known[inside], quality, proceed
    )
    for line in _outside(y.shape, rows, columns):
        own = Judge(y[line], known[line])
        own.share, own.level = judge.share, judge.level
        x, weight[line] = detect(y[line], known[line], own, lambda x, weight: True)
        guess[line], replace[line] = x, weight[line] < TRUSTED
    return guess, weight, replace


def _picture(
    y: Array, known: Array, quality: Quality, proceed: Proceed
) -> tuple[Array, Array, Array, Judge]:
    judge = Judge(y, known)
    going = True

    def watch(x: Array, weight: Array) -> bool:
        nonlocal going
        going = proceed(x, weight)
        return going

    x, weight = detect(y, known, judge, watch)
    if not going:
        return x, weight, weight < TRUSTED, judge
    search, passes = quality.search, quality.passes
    return *refine(y, known, x, weight, judge, search, passes, watch), judge


def _outside(
    shape: tuple[int, ...], rows: slice, columns: slice
) -> Iterator[tuple[slice, slice]]:
    """Yield the border lines that are not inside."""
    whole = slice(None)
    for edge in (slice(0, rows.start or 0), slice(rows.stop or shape[0], shape[0])):
        if edge.start < edge.stop:
            yield edge, whole
    for edge in (
        slice(0, columns.start or 0),
        slice(columns.stop or shape[1], shape[1]),
    ):
        if edge.start < edge.stop:
            yield whole, edge


def tiles(rows: int, columns: int, channels: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield what a tile writes, what it sees, and where in that the first lies."""
    side = min(TILE, max(4 * MARGIN, math.isqrt(TILE_VALUES // channels)))

    def cuts(length: int) -> list[tuple[slice, slice, slice]]:
        parts = -(-length // side)
        edges = np.linspace(0, length, parts + 1).astype(int)
        out = []
        for start, stop in pairwise(edges):
            low, high = max(start - MARGIN, 0), min(stop + MARGIN, length)
            inside = slice(start - low, stop - low)
            out.append((slice(start, stop), slice(low, high), inside))
        return out

    for row in cuts(rows):
        for column in cuts(columns):
            inner, outer, part = zip(row, column, strict=True)
            yield inner, outer, part


def _reporter(progress: bool | Progress | None, stack: ExitStack) -> Progress:
    if callable(progress):
        return progress
    show = stack.enter_context(bar("Restoring", 100, bool(progress)))
    return lambda done, note: show(round(100 * done), note)
