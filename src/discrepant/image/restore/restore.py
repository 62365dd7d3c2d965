"""Clean one image of gross corruption, told neither its kind nor its level.

An image is ``y = x + s``: x is what neighbours and look-alikes of a value predict, s is
free at every value, and the balance between them (how much is corrupted, with what
values, how far a clean value may stray) is learned along the way rather than given.
Values judged clean are never touched. This is the door; the work is in `tiles`.
"""

import time
import warnings
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, Report, reporting
from discrepant.core.validation import check_choice, check_number
from discrepant.image.arrays import ChannelsLast, as_array, check_values
from discrepant.image.restore.core.similar_patches import Search
from discrepant.image.restore.detector import Detector, with_outliers
from discrepant.image.restore.detectors.cosmic_rays import repair_star_field
from discrepant.image.restore.detectors.denoise import remove_noise
from discrepant.image.restore.jpeg.repair import repair_if_jpeg
from discrepant.image.restore.result import Restoration
from discrepant.image.restore.stack.axes import (
    Axes,
    accept_dataarray,
    allocate_like,
)
from discrepant.image.restore.stack.stack import FrameStack, restore_stack, stack_budget
from discrepant.image.restore.tiling import Mended, mend

# How thorough: "fast" predicts from patches twice, "best" until the image settles;
# `python benchmarks/restore.py` compares both in decibels and seconds.
QUALITIES = {
    "fast": Search(stride=3, passes=2),
    "best": Search(stride=2, count=120, passes=12),
}
# Share of corruption beyond which what is left is no picture, and a warning is due. By
# trial: 80% salt-and-pepper is restored, pure noise is judged corrupted to more.
LITTLE_LEFT = 0.88


@accept_dataarray
def restore(
    image: Any,
    *,
    quality: str = "best",
    mask: Any = None,
    channel_axis: int | None = -1,
    axes: str | None = None,
    time_limit: float | None = None,
    sensitivity: float = 1.0,
    gain: float | None = None,
    read_noise: float = 0.0,
    saturation: float | None = None,
    denoise: bool = False,
    progress: bool | Progress | None = None,
) -> Restoration:
    """Remove gross corruption of unknown kind and amount from one image.

    Salt-and-pepper, random values, hot pixels, dead rows and columns, scratches: one
    setting serves all, and a clean image comes back as it was. Nothing is left to
    chance: the same input gives the same output.

    Parameters
    ----------
    image : array-like of shape (rows, columns) or (rows, columns, channels)
        Integer, bool or float. A DataArray of xarray comes back as one; what its axes
        are it says itself, if they are called time, z, channel or band, y and x, or
        the like. NaN and infinite values are known to be bad. Of four
        channels of an integer image, if they stand last, the last is taken for
        transparency and kept; move the axis to the front if it is a channel like the
        others.
    quality : {"best", "fast"}
        Minutes or seconds.
    mask : array-like of bool, optional
        True where a value is known to be bad; of the image's shape, or (rows, columns).
        Masked values of a masked array are bad too.
    channel_axis : int or None
        Where the channels of a three-dimensional image are.
    axes : str, optional
        Of a stack, the name of each axis, as tifffile gives them: frames of one scene,
        T, or slices of one volume, Z, inform each other; channels, C, or colours, S;
        rows and columns, Y and X. "TYX" is a film in grey. Any other letter counts
        stacks that have nothing to do with each other, and so does Z beside T. Of a
        memory-mapped stack the results lie in temporary files too.
    time_limit : float, optional
        Seconds after which the best result so far is handed back; parts of a large
        image that were not reached stay as they were.
    sensitivity : float
        Values that stand out of the noise of a smooth ground, such as weak hot pixels,
        are flagged at a false discovery rate of 1% times this.
    gain, read_noise : float, optional
        A detector's electrons a unit, and its noise in the dark in electrons, where
        known; without a gain the noise of a smooth ground is measured. In a field of
        stars what is sharper than the stars is found: the tracks of cosmic rays.
    saturation : float, optional
        Values at or above it are full, not wrong: they are never flagged or replaced,
        and nothing is concluded from them.
    denoise : bool
        Whether noise is taken off as well, as much as there is at each brightness; it
        changes all values, ``mask`` and ``corruption`` still say what was corrupted.
    progress : bool or callable, optional
        True shows a bar; a callable is told ``(share done, note)``, and ends the work
        with the best so far if it returns False.

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
    check_choice("quality", quality, tuple(reversed(QUALITIES)))
    if time_limit is not None:
        check_number(
            *("time_limit", time_limit, "a positive number"), lambda given: given > 0
        )
    detector = Detector(sensitivity, gain, read_noise, saturation)
    if axes is not None:
        named = Axes.of(axes, np.shape(image))
        if named.n_frames_in(np.shape(image)) > 1:
            asked = (QUALITIES[quality], detector, time_limit, denoise)
            return _of_stack(image, mask, named, *asked, progress)
        single = restore(
            np.squeeze(image, named.frame_axes),
            quality=quality,
            mask=mask
            if mask is None
            else named.mask_of_single_frame(mask, np.shape(image)),
            channel_axis=named.channel_axis_in_frame,
            time_limit=time_limit,
            sensitivity=sensitivity,
            gain=gain,
            read_noise=read_noise,
            saturation=saturation,
            denoise=denoise,
            progress=progress,
        )
        return single.shaped(np.shape(image))
    image_view = ChannelsLast.of(image, mask, channel_axis)
    colours = np.s_[..., : image_view.n_colours]
    values, bad = image_view.values[colours], image_view.known_bad[colours]
    if bad.all():
        raise InputError("Every value is marked as bad: nothing to restore from.")
    with reporting(progress, "Restoring") as report:
        found = _found(values, bad, QUALITIES[quality], detector, time_limit, report)
    found = detector.spared(found, values, bad)
    _warn_if_little_left(float((found.probability > 0.5).mean()))
    if found.untold:
        warnings.warn(
            "This image is no photograph, and does not repeat itself enough to tell "
            "what is corrupted: it was left as it is.",
            stacklevel=3,
        )
    given = image_view.values
    out, chance, replaced = found.values, found.probability, found.mask
    if out.shape != given.shape:  # transparency goes back as it came
        out, chance = given.copy(), np.zeros(given.shape, np.float32)
        replaced = np.zeros(given.shape, bool)
        out[colours], replaced[colours] = found.values, found.mask
        chance[colours] = found.probability
    suggested = np.zeros(given.shape, bool)
    suggested[colours] = found.suggestions[..., None] & ~found.mask
    taken = np.zeros(given.shape, _signed(given.dtype))
    _subtract(given, out, replaced | (given != out), taken)
    if denoise:
        out[colours] = remove_noise(out[colours], detector)
    return Restoration(
        image_view.in_input_layout(out),
        image_view.in_input_layout(taken),
        image_view.in_input_layout(replaced),
        image_view.in_input_layout(chance),
        image_view.in_input_layout(suggested),
        found.history,
        found.complete,
    )


def _found(
    values: Array,
    bad: Array,
    search: Search,
    detector: Detector,
    time_limit: float | None,
    report: Report,
) -> Mended:
    """Return what was made of an image: a field of stars, or any other."""
    began = time.perf_counter()
    stars = repair_star_field(values, bad, detector)
    if stars is not None:
        return stars
    unsaid = bad | detector.full(values)
    found = mend(values, unsaid, search, time_limit, report)
    if detector.saturation is None:  # what comes from a detector is no JPEG
        left = None if time_limit is None else time_limit - time.perf_counter() + began
        marked = bad | found.marks[..., None]
        found = repair_if_jpeg(found, values, marked, search, left, report)
    return with_outliers(found, values, bad, detector)


def _warn_if_little_left(share: float) -> None:
    if share > LITTLE_LEFT:
        warnings.warn(
            f"{share:.0%} of the values were judged corrupted; what is left does not "
            "determine a picture, and the result is a guess.",
            stacklevel=4,
        )


def _signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that holds the differences of two values."""
    wide = np.int32 if dtype.itemsize <= 2 else np.float64
    return dtype if dtype.kind == "f" else np.dtype(wide)


def _subtract(given: Array, out: Array, replaced: Array, taken: Array) -> None:
    dtype = taken.dtype.newbyteorder("=")  # ufuncs know no other
    np.subtract(given, out, out=taken, where=replaced, dtype=dtype, casting="unsafe")


def _of_stack(
    image: Any,
    mask: Any,
    axes: Axes,
    search: Search,
    detector: Detector,
    time_limit: float | None,
    denoise: bool,
    progress: bool | Progress | None,
) -> Restoration:
    """Restore a stack whose axes are named."""
    given = as_array(image, "The stack")
    check_values(given)
    mapped = isinstance(image, np.memmap)
    bad = np.broadcast_to(False, given.shape)
    if mask is not None:
        bad = axes.broadcast_mask(mask, given.shape)
    if np.ma.isMaskedArray(image):
        bad = np.ma.getmaskarray(image) | (bad != 0)
    out, marks = (
        allocate_like(given.shape, given.dtype, mapped),
        allocate_like(given.shape, bool, mapped),
    )
    chance = allocate_like(given.shape, np.float32, mapped)
    taken = allocate_like(given.shape, _signed(given.dtype), mapped)
    views = list(axes.stacks(given, bad, out, marks, chance, taken))
    with reporting(progress, "Restoring") as report:
        rounds = stack_budget(views[0][0].shape, len(views), search, time_limit, report)
        for number, (values, wrong, *made, gone) in enumerate(views):
            colours = 3 if axes.samples and values.shape[3] == 4 else values.shape[3]
            made[0][..., colours:] = values[..., colours:]
            parts = (a[..., :colours] for a in (values, wrong, *made))
            restore_stack(FrameStack(detector, *parts), search, rounds, number)
            for before, after, replaced, rest in zip(
                values, *made[:2], gone, strict=True
            ):
                _subtract(before, after, replaced, rest)
                if denoise:
                    after[..., :colours] = remove_noise(after[..., :colours], detector)
    _warn_if_little_left(float(np.mean([(c > 0.5).mean() for c in chance])))
    history, complete = rounds.history(), rounds.complete
    none = np.broadcast_to(False, out.shape)  # marks are looked for in single images
    return Restoration(out, taken, marks, chance, none, history, complete)
