"""Scenes with known masks: walkers of one real video on the ground of another.

The ground is a real camera's video from which all that moves was taken out: where
something passes, the pixel shows what the same pixel showed at the nearest time when
it was empty, with its noise, its compression and its own swaying. The walkers are cut
out of other footage, frame by frame as they move, and pasted with soft edges and a
shadow; the mask is where they cover more than half.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import av
import cv2
import numpy as np
from scipy import ndimage

KINDS = ("steady", "light", "flicker", "swaying", "stops")
LENGTH = 200
SCORED = slice(50, None)  # all methods may learn the scene first
SHADE = 0.65  # what a shadow leaves of the light


@dataclass
class Scene:
    """Frames, uint8 (time, rows, columns[, 3]), and where the things are."""

    name: str
    frames: np.ndarray
    truth: np.ndarray  # bool
    scored: np.ndarray = field(default_factory=lambda: np.arange(LENGTH)[SCORED])
    window: tuple[slice, slice] = (slice(None), slice(None))

    def f_measure(self, masks: np.ndarray) -> float:
        """Return 2TP / (2TP + FP + FN) over the frames and the window that count."""
        mask, truth = (a[self.scored][:, *self.window] for a in (masks, self.truth))
        hits = np.count_nonzero(mask & truth)
        return 2 * hits / max(1, np.count_nonzero(mask) + np.count_nonzero(truth))


def load(path: Path, *, height: int | None = None) -> np.ndarray:
    """Return all frames of a video as RGB, scaled to a height."""
    with av.open(str(path)) as container:
        frames = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
    if height is not None and height != frames[0].shape[0]:
        width = round(frames[0].shape[1] * height / frames[0].shape[0] / 2) * 2
        way = cv2.INTER_AREA if height < frames[0].shape[0] else cv2.INTER_CUBIC
        frames = [cv2.resize(f, (width, height), interpolation=way) for f in frames]
    return np.stack(frames)


def grey(frames: np.ndarray) -> bool:
    return bool(np.ptp(frames[0].astype(int), axis=-1).max() <= 12)


def median(frames: np.ndarray) -> np.ndarray:
    """Return the temporal median, of some sixty frames."""
    return np.asarray(np.median(frames[:: max(1, len(frames) // 60)], axis=0))


def moving(frames: np.ndarray, least: int) -> np.ndarray:
    """Return where a video is farther from its median than usual there."""
    middle = median(frames).astype(np.int16)
    away = np.stack([np.abs(f - middle).max(axis=-1).astype(np.uint8) for f in frames])
    usual = np.maximum(median(away), 2)
    return np.asarray(away > np.maximum(6 * usual, least))


def emptied(frames: np.ndarray) -> np.ndarray:
    """Return a video with all that passes replaced by the nearest empty moment."""
    passing = np.stack(
        [
            cv2.dilate(
                cv2.morphologyEx(
                    m.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)
                ),
                np.ones((15, 15), np.uint8),
            )
            for m in moving(frames, 14)
        ]
    ).astype(bool)
    ground = frames.copy()
    order = np.arange(len(frames), dtype=np.int16)
    far = np.int16(10_000)
    last = np.where(passing, -far, order[:, None, None])
    np.maximum.accumulate(last, axis=0, out=last)
    after = np.where(passing, far, order[:, None, None])
    after = np.minimum.accumulate(after[::-1], axis=0)[::-1]
    use_last = order[:, None, None] - last <= after - order[:, None, None]
    nearest = np.where(use_last, last, after)
    never = (nearest < 0) | (nearest >= len(frames))
    middle = median(frames).astype(np.uint8)
    for time, (gone, source, lost) in enumerate(
        zip(passing, nearest, never, strict=True)
    ):
        rows, columns = np.nonzero(gone & ~lost)
        ground[time, rows, columns] = frames[source[rows, columns], rows, columns]
        ground[time][lost] = middle[lost]
    return ground


def played(frames: np.ndarray, length: int = LENGTH) -> np.ndarray:
    """Return a video of some length: forwards and backwards again."""
    there = np.arange(len(frames))
    turn = np.concatenate([there, there[-2:0:-1]])
    return frames[np.resize(turn, length)]


def walkers(frames: np.ndarray, area: tuple[int, int], most: int) -> list[np.ndarray]:
    """Cut out things that move alone: each a short film of RGBA, float32.

    A thing is followed while its piece overlaps the next frame's by half and keeps its
    size, off the border.
    """
    cuts = [
        cv2.morphologyEx(m.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
        for m in moving(frames, 36)
    ]
    films: list[np.ndarray] = []
    for start in range(0, len(frames) - 8, 6):
        count, labels = cv2.connectedComponents(cuts[start])
        for piece in range(1, count):
            film = _follow(frames, cuts, start, labels == piece, area)
            if len(film) >= 8:
                films.append(_boxed(film))
    films = [film for film in films if film.shape[1] > 1.3 * film.shape[2]]
    films.sort(key=lambda film: -len(film) * film[0, ..., 3].sum())
    return films[:most]


def _follow(frames, cuts, start, mask, area):
    film, size = [], mask.sum()
    height, width = mask.shape
    for time in range(start, min(start + 24, len(frames))):
        rows, columns = np.nonzero(mask)
        if not area[0] <= len(rows) <= area[1] or not 0.6 < len(rows) / size < 1.6:
            break
        if rows.min() < 2 or rows.max() > height - 3:
            break
        if columns.min() < 2 or columns.max() > width - 3:
            break
        filled = ndimage.binary_fill_holes(mask)
        film.append((frames[time], filled))
        if time + 1 == len(frames):
            break
        _, labels = cv2.connectedComponents(cuts[time + 1])
        under = np.bincount(labels[mask], minlength=2)
        under[0] = 0
        if under.max() < 0.4 * mask.sum():
            break
        mask = labels == under.argmax()
    return film


def _boxed(film):
    boxes = [ndimage.find_objects(mask.astype(int))[0] for _, mask in film]
    tall = max(b[0].stop - b[0].start for b in boxes) + 6
    wide = max(b[1].stop - b[1].start for b in boxes) + 6
    out = np.zeros((len(film), tall, wide, 4), np.float32)
    for k, ((frame, mask), box) in enumerate(zip(film, boxes, strict=True)):
        foot, middle = box[0].stop, (box[1].start + box[1].stop) // 2
        top, left = foot - tall + 3, middle - wide // 2
        rows = np.clip(np.arange(top, top + tall), 0, frame.shape[0] - 1)
        columns = np.clip(np.arange(left, left + wide), 0, frame.shape[1] - 1)
        soft = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 0.8)
        out[k, ..., :3] = frame[np.ix_(rows, columns)]
        out[k, ..., 3] = soft[np.ix_(rows, columns)]
        out[k, :1, :, 3] = out[k, -1:, :, 3] = 0
        out[k, :, :1, 3] = out[k, :, -1:, 3] = 0
    return out


def paste(frame, truth, sprite, foot, middle, shadow):
    """Lay one sprite with its shadow on a frame, both changed in place."""
    tall, wide = sprite.shape[:2]
    alpha = np.zeros(frame.shape[:2], np.float32)
    top, left = round(foot - tall), round(middle - wide / 2)
    r0, r1 = max(top, 0), min(top + tall, frame.shape[0])
    c0, c1 = max(left, 0), min(left + wide, frame.shape[1])
    if r0 >= r1 or c0 >= c1:
        return
    piece = sprite[r0 - top : r1 - top, c0 - left : c1 - left]
    alpha[r0:r1, c0:c1] = piece[..., 3]
    if shadow:
        # The silhouette laid flat to the right of its feet.
        lay = np.float32(
            [[1, -0.9, left + 0.9 * tall], [0, 0.25, foot - 0.25 * tall - 2]]
        )
        cast = cv2.warpAffine(
            np.ascontiguousarray(sprite[..., 3]), lay, frame.shape[1::-1]
        )
        cast = cv2.GaussianBlur(cast, (0, 0), 1.5)
        frame *= 1 - (1 - SHADE) * cast[..., None]
    a = alpha[..., None]
    colour = np.zeros_like(frame)
    colour[r0:r1, c0:c1] = piece[..., :3]
    frame *= 1 - a
    frame += a * colour
    truth |= alpha >= 0.5


def light(kind: str, length: int, shape: tuple[int, int], rng) -> Iterator[np.ndarray]:
    """Yield the factor of the light on each pixel, frame by frame."""
    rows, columns = shape
    down = np.arange(rows, dtype=np.float32)[:, None]
    across = np.linspace(-1, 1, columns, dtype=np.float32)[None]
    phase, turn, switch = rng.uniform(0, 6), rng.uniform(2, 3), rng.integers(90, 140)
    for time in range(length):
        factor = np.ones((rows, columns), np.float32)
        if kind == "light":  # clouds, and a lamp to one side that goes on
            factor *= 1 - 0.25 * (1 - np.cos(2 * np.pi * time / 150)) / 2
            lamp = np.clip((time - switch) / 2, 0, 1) * 0.3
            factor *= 1 + lamp * np.exp(-((across - 0.6) ** 2) / 0.8)
        if kind == "flicker":  # mains light: the whole, and bands of a rolling shutter
            factor *= 1 + 0.06 * np.sin(turn * time + phase)
            factor *= 1 + 0.05 * np.sin(2 * np.pi * down / (0.6 * rows) + 1.9 * time)
        yield factor[..., None]


def sway(ground: np.ndarray, rng) -> np.ndarray:
    """Let a third of a scene wave in the wind: a smooth, wandering displacement."""
    length, rows, columns = ground.shape[:3]
    cells = rng.standard_normal((2, 3, rows // 12 + 2, columns // 12 + 2))
    fields = np.stack(
        [[cv2.resize(f.astype(np.float32), (columns, rows)) for f in g] for g in cells]
    )
    left = rng.uniform(0.1, 0.5) * columns
    where = np.clip((np.arange(columns) - left) / 12, 0, 1)
    where *= np.clip((left + columns / 3 - np.arange(columns)) / 12, 0, 1)
    down = np.clip((0.75 * rows - np.arange(rows)) / 20, 0, 1)[:, None]
    amount = (where * down).astype(np.float32)
    pace = rng.uniform(0.25, 0.8, 3)
    y, x = np.mgrid[:rows, :columns].astype(np.float32)
    out = np.empty_like(ground)
    for time in range(length):
        swing = np.sin(pace * time + np.arange(3)) * 1.6
        dy, dx = np.tensordot(fields, swing.astype(np.float32), axes=(1, 0)) * amount
        out[time] = cv2.remap(
            ground[time],
            x + dx,
            y + dy,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REFLECT,
        )
    return out


def composite(
    name: str,
    kind: str,
    ground: np.ndarray,
    films: list[np.ndarray],
    seed: int,
    *,
    waving: bool = False,
) -> Scene:
    """Return a scene of one kind: walkers of some films on a ground."""
    rng = np.random.default_rng(seed)
    flat = grey(ground)
    ground = played(ground[rng.integers(0, max(1, len(ground) - 60)) :])
    if kind == "swaying" and not waving:
        ground = sway(ground, rng)
    length, rows, columns = ground.shape[:3]
    chosen = rng.permutation(len(films))[: 3 if kind != "stops" else 2]
    paths = []
    for turn, which in enumerate(chosen):
        film = films[which]
        scale = rng.uniform(0.22, 0.42) * rows / film.shape[1]
        size = (
            max(8, round(film.shape[2] * scale)),
            max(8, round(film.shape[1] * scale)),
        )
        film = np.stack(
            [cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in film]
        )
        paths.append((film, *_path(kind, turn, rows, columns, rng)))
    frames = np.empty_like(ground)
    truth = np.zeros(ground.shape[:3], bool)
    shines = light(kind, length, (rows, columns), rng)
    for time, shine in zip(range(length), shines, strict=True):
        frame = ground[time].astype(np.float32)
        for film, foot, middle in paths:
            beat = time // 2 % (2 * len(film) - 2)
            beat = min(beat, 2 * len(film) - 2 - beat)
            if kind == "stops" and middle[time] == middle[time - 1]:
                beat = 0
            paste(frame, truth[time], film[beat], foot[time], middle[time], True)
        frames[time] = np.clip(np.rint(frame * shine), 0, 255)
    if flat:
        frames = frames[..., 1]
    return Scene(name, frames, truth)


def _path(kind, turn, rows, columns, rng):
    """Return where the feet are at each time: across the scene and back."""
    time = np.arange(LENGTH)
    foot = rows * rng.uniform(0.55, 0.98) + rows * 0.04 * np.sin(time / 25 + turn)
    if kind == "stops" and turn == 0:
        halt = columns * rng.uniform(0.3, 0.7)
        middle = np.interp(
            time, [0, 60, 140, LENGTH], [-0.2 * columns, halt, halt, 1.2 * columns]
        )
        foot = np.full(LENGTH, rows * rng.uniform(0.6, 0.95))
        return foot, np.rint(middle)
    period = rng.uniform(90, 180)
    phase = rng.uniform(0, 1) + time / period
    middle = columns * (-0.15 + 1.3 * np.abs(2 * (phase % 1) - 1))
    return foot, middle
