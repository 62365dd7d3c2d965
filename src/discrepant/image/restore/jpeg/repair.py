"""Images that were spoiled first and saved as JPEG second.

JPEG keeps brightness in full and colour at half the rows and columns, and rounds both:
an impulse in one channel becomes one of brightness, ringing in its block, and a stain
of colour over sixteen pixels. So brightness and colour are restored each by itself:
a smooth start, then patches that predict one another from what each value tells of the
picture (`spread`). Brightness, once restored, guides the colour. In blocks that hold
corruption nothing was spared, and all of their values are replaced, though only the
impulses are flagged; the others stay.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.image.restore.core.mixture import CorruptionMixture
from discrepant.image.restore.core.photograph import full_pass
from discrepant.image.restore.core.residual_scale import blur
from discrepant.image.restore.core.similar_patches import (
    PatchSearch,
    predict_from_patches,
)
from discrepant.image.restore.estimate import Estimate
from discrepant.image.restore.jpeg.chroma import (
    TO_COLOURS,
    TO_PLANES,
    doubled,
    halved,
    sampled,
    unclipped,
)
from discrepant.image.restore.jpeg.detection import impulsive, luma, rounding
from discrepant.image.restore.jpeg.flat import simplest
from discrepant.image.restore.jpeg.scale_mixture import Spread
from discrepant.image.restore.tiling import Place

Going = Callable[[float], bool]  # told the share that is done; whether to go on
On = Callable[[], bool]  # whether to go on with a tile


@dataclass(frozen=True)
class Tuning:
    """What was chosen by trial; `python benchmarks/marks.py --only jpeg` measures it.

    Attributes
    ----------
    start_doubt : float
        Variance of the smooth start, that of 8 grey levels.
    doubt_ratio : float
        True over predicted variance of what patches predict from one another.
    passes : int
        How often patches predict all anew, at most.
    colour_passes : int
        The same for colour, each time.
    colour_deviation : float
        The least by which a clean colour strays: stains ring too, and patches would
        follow them.
    kinds : tuple of float
        Bounds of how far a value strays, in standard deviations.
    share : float
        Window of the means that tell how much impulses left, in pixels.
    window : float
        Of the Gaussian mean that colour starts from, in its own pixels.
    cell : int
        Pixels of a cell that is replaced as a whole: a block of colour.
    held : float
        A cell is replaced if so many of its values, in the mean, are impulses.
    gross : float
        An impulse strays by more than so many standard deviations of a clean value.
    slope, offset : float
        Of the logarithm of the odds, from what the mixture says to what is true: some
        of what it takes for impulses is ringing beside them.
    flagged : float
        Probability from which on a value is flagged.
    side, overlap : int
        Pixels of a tile and what it sees beyond; multiples of a cell.
    """

    start_doubt: float = (8 / 255) ** 2
    doubt_ratio: float = 1.5
    passes: int = 4
    colour_passes: int = 4
    colour_deviation: float = 8 / 255
    kinds: tuple[float, ...] = (2.0, 4.0, 8.0)
    share: float = 8.0
    window: float = 2.0
    cell: int = 16
    held: float = 0.5
    gross: float = 3.0
    slope: float = 0.8
    offset: float = -1.3
    flagged: float = 0.9
    side: int = 512
    overlap: int = 32


TUNING = Tuning()
# Of what was taken out, the largest percent over the smallest quarter. The normal law
# has 8, and noise is to stay; of impulses it is 30 and more.
HEAVY = 20.0


@dataclass(frozen=True, eq=False)
class Plane:
    """One plane restored.

    Attributes
    ----------
    picture : ndarray of shape (rows, columns, 1)
        What each value should be, itself considered.
    guess, doubt : ndarray
        What the others say it should be, and the variance of that.
    wrong : ndarray
        How likely each value is an impulse.
    """

    picture: Array
    guess: Array
    doubt: Array
    wrong: Array


def repair_if_jpeg(
    found: Estimate,
    values: Array,
    bad: Array,
    search: PatchSearch,
    seconds: float | None,
    report: Report,
) -> Estimate:
    """Return what was found, or better if the corruption was there before JPEG.

    Only images of 8 bits, grey or of three colours, are JPEG's; and only where the
    first attempt found some corruption, or nearly all blocks have the spectrum of
    impulses, is there anything to look at, so that a clean image stays as it was. A
    graphic is exact, and so was not JPEG's. After so many ``seconds``, if they are
    given, what is there is handed back.
    """
    started = time.perf_counter()
    jpegs_own = values.dtype == np.uint8 and values.shape[2] in (1, 3)
    if not (jpegs_own and found.complete) or found.is_graphic:
        return found
    deviation = rounding(values, found.mask & ~bad) if found.mask.any() else None
    if deviation is None:
        held = impulsive(values)
        deviation = None if held is None else rounding(values, held)
    if deviation is None:
        return found

    def going(done: float) -> bool:
        late = seconds is not None and time.perf_counter() - started > seconds
        return report(done, "spoiled before JPEG") and not late

    better = repair_jpeg(found, values, bad, deviation, search, going)
    report(1.0, "spoiled before JPEG")
    if not _impulses(luma(values) - luma(better.image)):
        return replace(found, complete=better.complete)
    return better


def _impulses(taken: Array) -> bool:
    """Return whether what was taken out has the heavy tails of impulses."""
    low, high = np.quantile(np.abs(taken), (0.25, 0.99))
    return bool(high > HEAVY * max(low, 0.5))  # half a grey level: rounding


def repair_jpeg(
    found: Estimate,
    values: Array,
    bad: Array,
    deviation: float,
    search: PatchSearch,
    going: Going,
) -> Estimate:
    """Restore an image that was spoiled before JPEG.

    Parameters
    ----------
    found : Estimate
        What is handed back where there is no time for more.
    values, bad : ndarray of shape (rows, columns, channels)
        The image, of 8 bits and one or three channels, and what is known to be wrong.
    deviation : float
        That of JPEG's rounding, in grey levels (`comb.rounding`).
    search : PatchSearch
        How thoroughly.
    going : callable
        Told the share that is done; answers whether to go on.
    """
    unit = values.astype(np.float32) / 255
    out, mask = found.image.copy(), found.mask.copy()
    probability, complete = found.probability.copy(), True
    tiles = list(_tiles(*values.shape[:2]))
    for number, (own, seen, within) in enumerate(tiles):

        def on(done: float = number / len(tiles)) -> bool:
            nonlocal complete
            complete = complete and going(done)
            return complete

        if number and not on():
            break
        picture, wrong = _tile(unit[seen], ~bad[seen], deviation / 255, search, on)
        held = _cells(wrong) | bad[seen].any(axis=2, keepdims=True)
        rounded = np.rint(255 * np.clip(picture, 0, 1)).astype(values.dtype)[within]
        out[own] = np.where(held[within], rounded, values[own])
        probability[own] = np.where(bad[own], 1, _calibrated(wrong[within]))
        mask[own] = probability[own] > TUNING.flagged
    return replace(
        found, image=out, mask=mask, probability=probability, complete=complete
    )


def _calibrated(wrong: Array) -> Array:
    """Return how likely values are impulses, by what was true of photographs."""
    odds = TUNING.slope * logit(np.clip(wrong, 1e-6, 1 - 1e-6)) + TUNING.offset
    chance: Array = expit(odds)
    return chance


def _tile(
    y: Array, known: Array, deviation: float, search: PatchSearch, on: On
) -> tuple[Array, Array]:
    """Return a tile's picture and the probability of its values to be wrong."""
    finest = deviation**2
    passes = min(search.passes, TUNING.passes)
    whole: Array = np.min(known, axis=2, keepdims=True)
    if y.shape[2] == 1:
        start = _start(y, whole, finest, on)
        bright = _brightness(y, whole, start, finest, search, passes, on)
        return bright.picture, bright.wrong
    rows, columns, _ = y.shape
    pad = ((0, rows % 2), (0, columns % 2), (0, 0))
    y, whole = np.pad(y, pad, "edge"), np.pad(whole, pad, "edge")
    planes = (unclipped(y) @ TO_PLANES.T).astype(np.float32)
    light, tint = planes[..., :1], sampled(planes[..., 1:])
    seen = halved(whole.astype(np.float32)) > 0.99
    start = _start(light, whole, finest, on)
    bright = _brightness(light, whole, start, finest, search, 2, on)
    kept = _kept(light, bright.picture)
    hue, kind = None, None
    for _ in range(2 if passes > 2 else 1):
        # Where brightness strays colour does, and the other way round: an impulse is
        # in both. How much the one tells of the other is learned kind by kind.
        strays = np.abs(light - bright.picture) / deviation
        kind = _kinds(_largest(strays))
        hue = _colour(tint, seen, bright.picture, kept, finest, kind, search, on)
        strays = np.abs(tint - hue).max(axis=2, keepdims=True) / deviation
        kind = _kinds(strays).repeat(2, 0).repeat(2, 1)
        so_far = bright.guess, bright.doubt
        again = passes // 2
        bright = _brightness(light, whole, so_far, finest, search, again, on, kind)
    assert hue is not None
    mended = np.concatenate([bright.picture, doubled(hue)], axis=2) @ TO_COLOURS.T
    wrong = np.repeat(bright.wrong, 3, axis=2)
    return mended[:rows, :columns], wrong[:rows, :columns]


def _kinds(strays: Array) -> Array:
    """Return how far values stray, in a few classes."""
    kinds: Array = np.digitize(strays[..., 0], TUNING.kinds)
    return kinds


def _largest(a: Array) -> Array:
    """Return the largest of 2×2 pixels."""
    rows = np.maximum(a[::2], a[1::2])
    largest: Array = np.maximum(rows[:, ::2], rows[:, 1::2])
    return largest


def _start(y: Array, known: Array, finest: float, on: On) -> tuple[Array, Array]:
    """Return a smooth picture to begin with, and its variance."""
    guess, _ = full_pass(
        y, known, CorruptionMixture(y, known), lambda weight: on(), noise=finest
    )
    return guess, np.full(y.shape, TUNING.start_doubt, np.float32)


def _brightness(
    y: Array,
    known: Array,
    start: tuple[Array, Array],
    finest: float,
    search: PatchSearch,
    passes: int,
    on: On,
    kind: Array | None = None,
) -> Plane:
    """Restore one plane by itself, from a guess and its variance on.

    Patches predict it anew as long as that explains the values better. Small things
    that are rare would be taken for impulses the more the oftener they are predicted.
    """
    guess, doubt = start
    spread = _errors(y, guess, doubt, finest, kind)
    precision = _told(spread, known)
    for number in range(passes):
        if not on():
            break
        picture = _mixed(y, precision, guess, doubt)
        found, variance = predict_from_patches(picture, y, 1 / precision, search)
        variance *= np.float32(TUNING.doubt_ratio)
        again = _errors(y, found, variance, finest, kind)
        # A start may have been told its own values: only what is predicted compares.
        if number and again.fit < spread.fit:
            break
        guess, doubt, spread = found, variance, again
        precision = _told(spread, known)
    picture = _mixed(y, precision, *simplest(y, precision, guess, doubt, finest))
    wrong = spread.belongs[_impulsive(spread, finest)].sum(axis=0)[..., None]
    return Plane(picture, guess, doubt, np.where(known, wrong, 1))


def _errors(
    y: Array, guess: Array, doubt: Array, finest: float, kind: Array | None
) -> Spread:
    """Return how far values lie from a guess."""
    return Spread.of(y[..., 0] - guess[..., 0], doubt[..., 0], finest, kind)


def _told(spread: Spread, known: Array) -> Array:
    """Return how much each value tells of the picture, as a precision."""
    return np.where(known, spread.precision[..., None], 1e-6)


def _mixed(y: Array, precision: Array, guess: Array, doubt: Array) -> Array:
    """Return what each value should be, itself considered."""
    own = precision * doubt / (1 + precision * doubt)
    mixed: Array = own * y + (1 - own) * guess
    return mixed


def _impulsive(spread: Spread, finest: float) -> Array:
    """Return the rungs of impulses: those beyond the rarest, where ringing ends."""
    gross: Array = spread.variances > TUNING.gross**2 * finest
    shares = np.where(gross, spread.shares, 0)
    peak, first = int(shares.argmax()), int(gross.argmax())
    if peak > first:
        gross[: first + int(shares[first:peak].argmin())] = False
    return gross


def _kept(y: Array, picture: Array) -> float:
    """Return the share of brightness that impulses left, in the mean.

    With a share p of values replaced by others that know nothing of the picture, the
    mean of what is seen is ``(1 − p) x`` plus a constant: a regression finds 1 − p. Of
    means over many pixels, since the picture still holds some of the impulses.
    """
    y, picture = blur(y, TUNING.share), blur(picture, TUNING.share)
    x = picture - picture.mean()
    slope = float((x * y).sum() / max(float((x * x).sum()), 1e-9))
    return float(np.clip(slope, 0.2, 1))


def _colour(
    y: Array,
    seen: Array,
    bright: Array,
    kept: float,
    finest: float,
    kind: Array,
    search: PatchSearch,
    on: On,
) -> Array:
    """Restore the colour differences, at half size."""
    finest = max(finest, TUNING.colour_deviation**2)
    guide = halved(bright)
    weight = seen.astype(np.float32)
    total = np.maximum(blur(weight, TUNING.window), 1e-3)
    guess = blur(weight * y, TUNING.window) / total / np.float32(kept)
    doubt = np.full(y.shape, TUNING.start_doubt, np.float32)
    for last in range(TUNING.colour_passes, -1, -1):
        noise, told = np.empty_like(y), np.empty_like(y)
        for c in range(2):
            spread = Spread.of(y[..., c] - guess[..., c], doubt[..., c], finest, kind)
            # Impulses draw colours to grey: all do so by 1 − kept in the mean, clean
            # ones not at all, so the others by the more.
            drawn = min((1 - kept) / max(1 - float(spread.shares[0]), 1e-3), 0.8)
            sure = spread.clean / (finest * spread.precision)
            raised = sure + (1 - sure) / (1 - drawn)
            told[..., c] = raised * y[..., c]
            noise[..., c] = raised**2 / np.where(seen[..., 0], spread.precision, 1e-6)
        own = doubt / (noise + doubt)
        picture: Array = own * told + (1 - own) * guess
        if last and on():
            joint, both = (np.concatenate([guide, a], axis=2) for a in (picture, told))
            trust = np.concatenate([np.full_like(guide, finest), noise], axis=2)
            found, doubts = predict_from_patches(joint, both, trust, search)
            guess = found[..., 1:]
            doubt = doubts[..., 1:] * np.float32(TUNING.doubt_ratio)
    return picture


def _cells(wrong: Array) -> Array:
    """Return which values lie in a cell that holds corruption."""
    rows, columns = wrong.shape[:2]
    side = TUNING.cell if wrong.shape[2] > 1 else TUNING.cell // 2
    down, across = np.arange(0, rows, side), np.arange(0, columns, side)
    most = np.add.reduceat(np.add.reduceat(wrong.max(axis=2), down, 0), across, 1)
    held = (most > TUNING.held).repeat(side, 0).repeat(side, 1)[:rows, :columns]
    found: Array = np.broadcast_to(held[..., None], wrong.shape)
    return found


def _tiles(rows: int, columns: int) -> Iterator[tuple[Place, Place, Place]]:
    """Yield a tile's own part, what it sees, and where its own part lies in that."""
    for down in _parts(rows):
        for across in _parts(columns):
            own, seen, within = zip(down, across, strict=True)
            yield own, seen, within


def _parts(length: int) -> Iterator[tuple[slice, slice, slice]]:
    for start in range(0, length, TUNING.side):
        stop = min(start + TUNING.side, length)
        low, high = max(start - TUNING.overlap, 0), min(stop + TUNING.overlap, length)
        yield slice(start, stop), slice(low, high), slice(start - low, stop - low)
