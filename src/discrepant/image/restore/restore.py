"""Restore an image with gross corruption of unknown kind and amount.

The model is ``y = x + s``: the clean image x is predicted from neighbours and similar
patches, and the corruption s is arbitrary at a small or large part of the values. The
corrupted fraction, the values that corruption takes and the scale of clean residuals
are estimated from the image. Values that are classified as clean are not changed.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, Report, reporting
from discrepant.core.validation import check_choice, check_number
from discrepant.image.arrays import ChannelsLast, as_array, check_values
from discrepant.image.restore.core.similar_patches import PatchSearch
from discrepant.image.restore.detector import Detector
from discrepant.image.restore.detectors.cosmic_rays import repair_star_field
from discrepant.image.restore.detectors.denoise import remove_noise
from discrepant.image.restore.detectors.weak_outliers import with_weak_outliers
from discrepant.image.restore.estimate import Estimate
from discrepant.image.restore.jpeg.repair import repair_if_jpeg
from discrepant.image.restore.restore_tiles import restore_tiled
from discrepant.image.restore.result import Restoration
from discrepant.image.restore.stack.axes import Axes, accept_dataarray, allocate_like
from discrepant.image.restore.stack.stack import FrameStack, restore_stack, stack_budget

# Effort for each value of ``quality``: "fast" predicts from patches twice, "best" until
# the image no longer changes. `python benchmarks/images/photographs.py` compares both
# in decibels and seconds.
QUALITIES = {
    "fast": PatchSearch(stride=3, passes=2),
    "best": PatchSearch(stride=2, count=120, passes=12),
}
# Largest corrupted fraction without a warning. Photographs with 80% salt-and-pepper
# noise are restored; pure noise is classified as corrupted to more than 88%.
MAX_CORRUPTED_FRACTION = 0.88


@dataclass(frozen=True)
class _Options:
    """Validated options of `restore` that hold for every frame."""

    search: PatchSearch
    detector: Detector
    time_limit: float | None
    denoise: bool


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
    """Remove gross corruption of unknown kind and amount from an image or a stack.

    The defaults serve salt-and-pepper noise, random values, hot pixels, dead rows and
    columns, scratches and dust alike. A clean image is returned unchanged. The same
    input always gives the same output.

    Parameters
    ----------
    image : array-like of shape (rows, columns) or (rows, columns, channels)
        Integer, bool or float. NaN and infinite values are known to be bad. If an
        integer image has four channels and they are the last axis, the fourth is
        treated as transparency and kept; move the axis to the front if it is an
        ordinary channel. An xarray DataArray is returned as one; its axes follow from
        dimension names such as time, z, channel, band, y and x.
    quality : {"best", "fast"}
        "best" takes minutes, "fast" seconds.
    mask : array-like of bool, optional
        True where a value is known to be bad; of the image's shape, or (rows, columns).
        Masked values of a masked array are bad too.
    channel_axis : int or None
        Axis of the channels of a three-dimensional image.
    axes : str, optional
        One letter per axis of a stack, in tifffile's notation: T for frames of one
        scene or Z for slices of one volume, which are used to restore each other; C for
        channels or S for colours; Y and X for rows and columns. "TYX" is a grey film.
        Along any other axis, and along Z if there is a T, stacks are restored
        independently. The results of a memory-mapped stack are in temporary files.
    time_limit : float, optional
        Seconds after which the best result so far is returned. Parts of a large image
        that were not reached stay unchanged.
    sensitivity : float
        Weak outliers on smooth backgrounds, such as faint hot pixels, are flagged at a
        false discovery rate of 1% times this factor.
    gain, read_noise : float, optional
        Detector gain in electrons per count, and its noise in the dark in electrons.
        Without a gain, the noise of a smooth background is measured. In a star field,
        features sharper than the stars are flagged as cosmic rays.
    saturation : float, optional
        Values at or above it are saturated: they are never flagged or replaced, and
        they take no part in predictions.
    denoise : bool
        Also remove noise, estimated as a function of brightness. This changes all
        values; ``mask`` and ``corruption`` still refer to corrupted values only.
    progress : bool or callable, optional
        True shows a progress bar. A callable is called with the fraction done and a
        note; if it returns False, the best result so far is returned.

    Returns
    -------
    Restoration

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import restore
    >>> image = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    >>> corrupted = image.copy()
    >>> corrupted[::7, ::5] = 255
    >>> int(np.abs(restore(corrupted).image.astype(int) - image).max()) <= 2
    True
    """
    check_choice("quality", quality, tuple(reversed(QUALITIES)))
    if time_limit is not None:
        check_number(
            "time_limit", time_limit, "a positive number", lambda given: given > 0
        )
    detector = Detector(sensitivity, gain, read_noise, saturation)
    options = _Options(QUALITIES[quality], detector, time_limit, denoise)
    if axes is None:
        frame = ChannelsLast.of(image, mask, channel_axis)
        return _restore_single_image(frame, options, progress)
    shape = np.shape(image)
    named_axes = Axes.of(axes, shape)
    if named_axes.n_frames_in(shape) > 1:
        return _restore_frames(image, mask, named_axes, options, progress)
    if mask is not None:
        mask = named_axes.mask_of_single_frame(mask, shape)
    squeezed = np.squeeze(image, named_axes.frame_axes)
    frame = ChannelsLast.of(squeezed, mask, named_axes.channel_axis_in_frame)
    return _restore_single_image(frame, options, progress).reshaped(shape)


def _restore_single_image(
    frame: ChannelsLast, options: _Options, progress: bool | Progress | None
) -> Restoration:
    """Restore one image; its transparency is kept."""
    colours = np.s_[..., : frame.n_colours]
    values, known_bad = frame.values[colours], frame.known_bad[colours]
    if known_bad.all():
        raise InputError("Every value is marked as bad: nothing to restore from.")
    with reporting(progress, "Restoring") as report:
        estimate = restore_frame(values, known_bad, options, report)
    estimate = options.detector.keep_saturated(estimate, values, known_bad)
    _warn_if_undetermined(estimate.probability[None], estimate.undetermined)
    given = frame.values
    image, mask, probability = estimate.image, estimate.mask, estimate.probability
    if image.shape != given.shape:  # with transparency, which stays unchanged
        image, mask = given.copy(), np.zeros(given.shape, bool)
        probability = np.zeros(given.shape, np.float32)
        image[colours], mask[colours] = estimate.image, estimate.mask
        probability[colours] = estimate.probability
    suggestions = np.zeros(given.shape, bool)
    suggestions[colours] = estimate.suggestions[..., None] & ~estimate.mask
    corruption = np.zeros(given.shape, difference_dtype(given.dtype))
    _subtract(given, image, mask | (given != image), corruption)
    if options.denoise:
        image[colours] = remove_noise(image[colours], options.detector)
    return Restoration(
        image=frame.in_input_layout(image),
        corruption=frame.in_input_layout(corruption),
        mask=frame.in_input_layout(mask),
        probability=frame.in_input_layout(probability),
        suggestions=frame.in_input_layout(suggestions),
        history=estimate.history,
        complete=estimate.complete,
    )


def restore_frame(
    values: Array, known_bad: Array, options: _Options, report: Report
) -> Estimate:
    """Restore one image by the methods for its kind, in order.

    Cosmic rays are removed from star fields. Any other image is restored tile by tile,
    as photographs or graphics; restored again if it was corrupted before it was saved
    as JPEG; and searched for weak outliers if its background is smooth.

    Parameters
    ----------
    values, known_bad : ndarray of shape (rows, columns, channels)
        The image without transparency, and True where its values are known to be bad.
    options : _Options
        Effort, detector and time limit.
    report : callable
        Called with the fraction of the work done and a note; returns False to stop.
    """
    started = time.perf_counter()
    search, detector, time_limit = options.search, options.detector, options.time_limit
    star_field = repair_star_field(values, known_bad, detector)
    if star_field is not None:
        return star_field
    unusable = known_bad | detector.is_saturated(values)
    estimate = restore_tiled(values, unusable, search, time_limit, report)
    if detector.saturation is None:  # images from detectors are not saved as JPEG
        seconds = time.perf_counter() - started
        left = None if time_limit is None else time_limit - seconds
        defective = known_bad | estimate.defects[..., None]
        estimate = repair_if_jpeg(estimate, values, defective, search, left, report)
    return with_weak_outliers(estimate, values, known_bad, detector)


def _restore_frames(
    image: Any,
    mask: Any,
    axes: Axes,
    options: _Options,
    progress: bool | Progress | None,
) -> Restoration:
    """Restore a stack of two or more frames."""
    given = as_array(image, "The stack")
    check_values(given)
    known_bad = np.broadcast_to(False, given.shape)
    if mask is not None:
        known_bad = axes.broadcast_mask(mask, given.shape)
    if np.ma.isMaskedArray(image):
        known_bad = np.ma.getmaskarray(image) | (known_bad != 0)
    dtypes = (given.dtype, bool, np.float32, difference_dtype(given.dtype))
    mapped = isinstance(image, np.memmap)
    results = [allocate_like(given.shape, dtype, mapped) for dtype in dtypes]
    restored, replaced, probability, corruption = results
    stacks = list(axes.stacks(given, known_bad, *results))
    with reporting(progress, "Restoring") as report:
        budget = stack_budget(
            stacks[0][0].shape, len(stacks), options.search, options.time_limit, report
        )
        for number, (values, bad, *outputs, differences) in enumerate(stacks):
            has_alpha = axes.samples and values.shape[3] == 4
            colours = np.s_[..., : 3 if has_alpha else values.shape[3]]
            if has_alpha:
                outputs[0][..., 3] = values[..., 3]
            parts = (array[colours] for array in (values, bad, *outputs))
            stack = FrameStack(options.detector, *parts)
            restore_stack(stack, options.search, budget, number)
            for before, after, changed, difference in zip(
                values, *outputs[:2], differences, strict=True
            ):
                _subtract(before, after, changed, difference)
                if options.denoise:
                    after[colours] = remove_noise(after[colours], options.detector)
    _warn_if_undetermined(probability)
    return Restoration(
        image=restored,
        corruption=corruption,
        mask=replaced,
        probability=probability,
        suggestions=np.broadcast_to(False, given.shape),  # single images only
        history=budget.history(),
        complete=budget.complete,
    )


def _warn_if_undetermined(frames: Array, undetermined: bool = False) -> None:
    """Warn if corruption could not be identified, or too little of the image is left.

    ``frames`` holds the corruption probabilities of each frame.
    """
    fraction = float(np.mean([(frame > 0.5).mean() for frame in frames]))
    user_frame = 5  # this function, its caller, `restore` and its decorator
    if fraction > MAX_CORRUPTED_FRACTION:
        warnings.warn(
            f"{fraction:.0%} of the values seem to be corrupted; the others do not "
            "determine the image, and the result is a guess.",
            stacklevel=user_frame,
        )
    if undetermined:
        warnings.warn(
            "Image left unchanged: it is neither photographic nor repetitive, so "
            "corrupted pixels cannot be identified.",
            stacklevel=user_frame,
        )


def difference_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a signed dtype for differences of two values of the given dtype."""
    signed = np.int32 if dtype.itemsize <= 2 else np.float64
    return dtype if dtype.kind == "f" else np.dtype(signed)


def _subtract(before: Array, after: Array, where: Array, out: Array) -> None:
    """Write ``before - after`` to ``out`` where a mask is True."""
    dtype = out.dtype.newbyteorder("=")  # ufuncs support native byte order only
    np.subtract(before, after, out=out, where=where, dtype=dtype, casting="unsafe")
