"""Scans as people have them: dust, scratches, hairs, text and stamps over photographs.

Marks lie on the photograph as ink or dust does: a layer of one colour that covers it,
wholly inside and partly at its soft edge, whatever is beneath.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

FINE = 4  # drawn so many times larger, for edges that fall between pixels
WORDS = ("scan 0815", "property of", "do not bend", "copy no. 7", "1987 10 24")


@dataclass(frozen=True)
class Kind:
    """What a scan is spoiled by: how much of each, in which colour."""

    dust: float = 0.0  # specks in a thousand pixels
    scratches: int = 0
    hairs: int = 0
    lines: int = 0  # of text
    stamp: bool = False
    light: tuple = (255, 255, 255)  # dust and scratches
    dark: tuple = (20, 20, 20)  # hairs and text
    noise: float = 6.0
    blur: float = 0.5
    widest: float = 3.0  # of scratches and hairs, pixels


KINDS = {
    "dust, scratches, text": Kind(dust=0.5, scratches=6, lines=4),
    "dust and hairs": Kind(dust=1.0, hairs=6),
    "white on dark": Kind(dust=0.8, scratches=4, hairs=4, dark=(255, 255, 255)),
    "orange stamp": Kind(stamp=True, dust=0.3, dark=(255, 140, 30)),
    "grey ink": Kind(lines=6, scratches=3, dark=(70, 60, 110), light=(225, 225, 215)),
}


def scan(photograph, kind, seed):
    """Return a spoiled photograph, how far each pixel is covered, and its change.

    The change by the marks alone, noise left out, in grey levels.
    """
    rng = np.random.default_rng(seed)
    rows, columns = photograph.shape[:2]
    out = photograph.astype(float)
    covered = np.zeros((rows, columns))
    for colour, draw in ((kind.light, _light), (kind.dark, _dark)):
        layer = Image.new("L", (FINE * columns, FINE * rows))
        draw(layer, kind, rng)
        small = np.asarray(layer, float).reshape(rows, FINE, columns, FINE) / 255
        opacity = gaussian_filter(small.mean(axis=(1, 3)), kind.blur)
        shade = np.mean(colour) if out.ndim == 2 else np.array(colour, float)
        part = opacity if out.ndim == 2 else opacity[..., None]
        out = (1 - part) * out + part * shade
        covered = 1 - (1 - covered) * (1 - opacity)
    change = np.abs(out - photograph).reshape(rows, columns, -1).mean(axis=2)
    out += rng.normal(0, kind.noise, out.shape)
    return np.clip(np.rint(out), 0, 255).astype(np.uint8), covered, change


def _light(layer, kind, rng):
    """Draw dust and scratches."""
    pen = ImageDraw.Draw(layer)
    width, height = layer.size
    for _ in range(round(kind.dust * width * height / FINE**2 / 1000)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        turns = np.sort(rng.uniform(0, 2 * np.pi, 8))
        reach = FINE * rng.uniform(0.8, 3.0) * rng.uniform(0.6, 1.2, 8)
        pen.polygon(
            [
                (x + r * np.cos(t), y + r * np.sin(t))
                for r, t in zip(reach, turns, strict=True)
            ],
            fill=255,
        )
    for _ in range(kind.scratches):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        turn, reach = rng.uniform(0, np.pi), rng.uniform(0.15, 0.6) * max(layer.size)
        dx, dy = reach * np.cos(turn), reach * np.sin(turn)
        pen.line((x - dx, y - dy, x + dx, y + dy), 255, _width(kind, rng))


def _dark(layer, kind, rng):
    """Draw hairs, text and a date stamp."""
    pen = ImageDraw.Draw(layer)
    width, height = layer.size
    for _ in range(kind.hairs):
        steps = np.arange(60)
        turn = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.normal(0, 0.12, steps.size))
        step = FINE * rng.uniform(1, 3)
        x = rng.uniform(0, width) + step * np.cumsum(np.cos(turn))
        y = rng.uniform(0, height) + step * np.cumsum(np.sin(turn))
        pen.line(
            list(zip(x, y, strict=True)), 255, _width(kind, rng, 0.6), joint="curve"
        )
    for number in range(kind.lines):
        size = FINE * int(rng.integers(11, 22))
        text = "  ".join(rng.permutation(WORDS)[:3])
        top = height * (number + 0.5) / kind.lines
        pen.text((rng.uniform(0, 0.2) * width, top), text, 255, _font(size))
    if kind.stamp:
        text, size = "'87 10 24", FINE * 20
        pen.text((width - 5.5 * size, height - 1.6 * size), text, 255, _font(size))


def _width(kind, rng, share=1.0):
    return max(FINE, round(FINE * rng.uniform(1, 1 + share * (kind.widest - 1))))


def _font(size):
    return ImageFont.load_default(size)
