"""Clean one image of gross corruption, told neither its kind nor its level.

An image is ``y = x + s``: x is what neighbours and look-alikes of a value predict, s is
free at every value, and the balance between them (how much is corrupted, with what
values, how far a clean value may stray) is learned along the way rather than given.
Values judged clean are never touched. This is the door; the work is in `tiles`.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrepant.checks import check_choice, check_number
from discrepant.errors import InputError
from discrepant.image.arrays import Stack
from discrepant.image.restore.compressed import again_if_compressed
from discrepant.image.restore.patches import Search
from discrepant.image.restore.standing import with_outliers
from discrepant.image.restore.tiles import mend
from discrepant.linalg import Array
from discrepant.progress import Progress, reporting
from discrepant.result import History

# How thorough: "fast" predicts from patches twice, "best" until the image settles;
# `python benchmarks/restore.py` compares both in decibels and seconds.
QUALITIES = {
    "fast": Search(stride=3, passes=2),
    "best": Search(stride=2, count=120, passes=12),
}
# Share of corruption beyond which what is left is no picture, and a warning is due. By
# trial: 80% salt-and-pepper is restored, pure noise is judged corrupted to more.
LITTLE_LEFT = 0.88


@dataclass(frozen=True, eq=False)
class Restoration:
    """A clean image, and what was taken out of it.

    Attributes
    ----------
    image : ndarray
        The restored image, of the shape, dtype and range of the input. Where ``mask``
        is False it is bit for bit the input; only of an image that was spoiled before
        it was saved as JPEG, whole blocks are replaced, as the ringing is everywhere.
    corruption : ndarray
        Input minus restored image, zero where it was left as it was; signed.
    mask : ndarray of bool
        The values judged corrupted, or marked as bad.
    probability : ndarray
        The probability of each value being corrupted; after JPEG, which mixes them,
        that of any channel of its pixel.
    suggestions : ndarray of bool
        Values under what looks like dust, a scratch, a hair or writing on the picture,
        but may as well be a part of it: left as they are. To have them mended too, give
        ``mask | suggestions`` as the known-bad values of another `restore`.
    history : History
        One row a round: ``step``, ``seconds``, ``tile`` and the share ``corrupted``.
    complete : bool
        Whether all was done; False if it was stopped, or ran out of time.
    """

    image: Array
    corruption: Array
    mask: Array
    probability: Array
    suggestions: Array
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
    time_limit: float | None = None,
    sensitivity: float = 1.0,
    gain: float | None = None,
    read_noise: float = 0.0,
    progress: bool | Progress | None = None,
) -> Restoration:
    """Remove gross corruption of unknown kind and amount from one image.

    Salt-and-pepper, random values, hot pixels, dead rows and columns, scratches: one
    setting serves all, and a clean image comes back as it was. Nothing is left to
    chance: the same input gives the same output.

    Parameters
    ----------
    image : array-like of shape (rows, columns) or (rows, columns, channels)
        Integer, bool or float. NaN and infinite values are known to be bad. Of four
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
    time_limit : float, optional
        Seconds after which the best result so far is handed back; parts of a large
        image that were not reached stay as they were.
    sensitivity : float
        Values that stand out of the noise of a smooth ground, such as weak hot pixels,
        are flagged at a false discovery rate of 1% times this.
    gain, read_noise : float, optional
        A detector's electrons a unit, and its noise in the dark in electrons, where
        known; without a gain the noise of a smooth ground is measured.
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
    began = time.perf_counter()
    check_choice("quality", quality, tuple(reversed(QUALITIES)))
    for name, value in (("time_limit", time_limit), ("gain", gain)):
        if value is not None:
            check_number(name, value, "a positive number", lambda given: given > 0)
    check_number(
        *("sensitivity", sensitivity, "a number above 0, up to 50"),
        lambda given: 0 < given <= 50,
    )
    check_number("read_noise", read_noise, "0 or more", lambda given: given >= 0)
    stack = Stack.of(image, mask, channel_axis)
    colours = np.s_[..., : stack.colours]
    bad = stack.bad[colours]
    if bad.all():
        raise InputError("Every value is marked as bad: nothing to restore from.")
    with reporting(progress, "Restoring") as report:
        found = mend(
            stack.values[colours],
            bad,
            search=QUALITIES[quality],
            time_limit=time_limit,
            report=report,
        )
        left = None if time_limit is None else time_limit - time.perf_counter() + began
        found = again_if_compressed(
            *(found, stack.values[colours], bad | found.marks[..., None]),
            *(QUALITIES[quality], left, report),
        )
    found = with_outliers(
        *(found, stack.values[colours], bad),
        *(float(sensitivity), gain, float(read_noise)),
    )
    share = float((found.probability > 0.5).mean())
    if share > LITTLE_LEFT:
        warnings.warn(
            f"{share:.0%} of the values were judged corrupted; what is left does not "
            "determine a picture, and the result is a guess.",
            stacklevel=2,
        )
    if found.untold:
        warnings.warn(
            "This image is no photograph, and does not repeat itself enough to tell "
            "what is corrupted: it was left as it is.",
            stacklevel=2,
        )
    # Transparency, where there is some, goes back as it came.
    given = stack.values
    out, chance = given.copy(), np.zeros(given.shape, np.float32)
    replaced = np.zeros(given.shape, bool)
    out[colours], replaced[colours] = found.values, found.mask
    chance[colours] = found.probability
    suggested = np.zeros(given.shape, bool)
    suggested[colours] = found.suggestions[..., None] & ~found.mask
    wide = np.int32 if given.dtype.itemsize <= 2 else np.float64
    signed = given.dtype if given.dtype.kind == "f" else np.dtype(wide)
    taken = np.zeros(given.shape, signed)
    changed = replaced | (given != out)
    np.subtract(given, out, out=taken, where=changed, dtype=signed, casting="unsafe")
    return Restoration(
        stack.shaped(out),
        stack.shaped(taken),
        stack.shaped(replaced),
        stack.shaped(chance),
        stack.shaped(suggested),
        found.history,
        found.complete,
    )
