"""Synthetic scans: photographs under dust, scratches, hairs, text and stamps.

A defect is a layer of one colour, opaque inside and transparent at its soft edge.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

# Factor by which defects are drawn larger, for edges that fall between pixels.
SUPERSAMPLING = 4
# Phrases of which lines of text are made.
PHRASES = ("scan 0815", "property of", "do not bend", "copy no. 7", "1987 10 24")


@dataclass(frozen=True)
class Kind:
    """Numbers and colours of the defects of a scan."""

    dust: float = 0.0  # specks per thousand pixels
    scratches: int = 0
    hairs: int = 0
    text_lines: int = 0
    stamp: bool = False
    light: tuple = (255, 255, 255)  # colour of dust and scratches
    dark: tuple = (20, 20, 20)  # colour of hairs and text
    noise: float = 6.0  # standard deviation in grey levels
    blur: float = 0.5  # standard deviation in pixels
    max_width: float = 3.0  # of scratches and hairs, in pixels


KINDS = {
    "dust, scratches, text": Kind(dust=0.5, scratches=6, text_lines=4),
    "dust and hairs": Kind(dust=1.0, hairs=6),
    "white on dark": Kind(dust=0.8, scratches=4, hairs=4, dark=(255, 255, 255)),
    "orange stamp": Kind(stamp=True, dust=0.3, dark=(255, 140, 30)),
    "grey ink": Kind(
        text_lines=6, scratches=3, dark=(70, 60, 110), light=(225, 225, 215)
    ),
}


def scan(photograph, kind, seed):
    """Return a scan, the opacity of its defects, and the change by them.

    The change is in grey levels, without the noise.
    """
    rng = np.random.default_rng(seed)
    rows, columns = photograph.shape[:2]
    out = photograph.astype(float)
    covered = np.zeros((rows, columns))
    for colour, draw in ((kind.light, _draw_light), (kind.dark, _draw_dark)):
        layer = Image.new("L", (SUPERSAMPLING * columns, SUPERSAMPLING * rows))
        draw(layer, kind, rng)
        small = (
            np.asarray(layer, float).reshape(
                rows, SUPERSAMPLING, columns, SUPERSAMPLING
            )
            / 255
        )
        opacity = gaussian_filter(small.mean(axis=(1, 3)), kind.blur)
        shade = np.mean(colour) if out.ndim == 2 else np.array(colour, float)
        alpha = opacity if out.ndim == 2 else opacity[..., None]
        out = (1 - alpha) * out + alpha * shade
        covered = 1 - (1 - covered) * (1 - opacity)
    change = np.abs(out - photograph).reshape(rows, columns, -1).mean(axis=2)
    out += rng.normal(0, kind.noise, out.shape)
    return np.clip(np.rint(out), 0, 255).astype(np.uint8), covered, change


def _draw_light(layer, kind, rng):
    """Draw dust and scratches."""
    pen = ImageDraw.Draw(layer)
    width, height = layer.size
    for _ in range(round(kind.dust * width * height / SUPERSAMPLING**2 / 1000)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        angles = np.sort(rng.uniform(0, 2 * np.pi, 8))
        radii = SUPERSAMPLING * rng.uniform(0.8, 3.0) * rng.uniform(0.6, 1.2, 8)
        pen.polygon(
            [
                (x + r * np.cos(t), y + r * np.sin(t))
                for r, t in zip(radii, angles, strict=True)
            ],
            fill=255,
        )
    for _ in range(kind.scratches):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        angle, length = rng.uniform(0, np.pi), rng.uniform(0.15, 0.6) * max(layer.size)
        dx, dy = length * np.cos(angle), length * np.sin(angle)
        pen.line((x - dx, y - dy, x + dx, y + dy), 255, _width(kind, rng))


def _draw_dark(layer, kind, rng):
    """Draw hairs, text and a date stamp."""
    pen = ImageDraw.Draw(layer)
    width, height = layer.size
    for _ in range(kind.hairs):
        steps = np.arange(60)
        angle = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.normal(0, 0.12, steps.size))
        step = SUPERSAMPLING * rng.uniform(1, 3)
        x = rng.uniform(0, width) + step * np.cumsum(np.cos(angle))
        y = rng.uniform(0, height) + step * np.cumsum(np.sin(angle))
        pen.line(
            list(zip(x, y, strict=True)), 255, _width(kind, rng, 0.6), joint="curve"
        )
    for number in range(kind.text_lines):
        size = SUPERSAMPLING * int(rng.integers(11, 22))
        text = "  ".join(rng.permutation(PHRASES)[:3])
        top = height * (number + 0.5) / kind.text_lines
        pen.text((rng.uniform(0, 0.2) * width, top), text, 255, _font(size))
    if kind.stamp:
        text, size = "'87 10 24", SUPERSAMPLING * 20
        pen.text((width - 5.5 * size, height - 1.6 * size), text, 255, _font(size))


def _width(kind, rng, factor=1.0):
    return max(
        SUPERSAMPLING,
        round(SUPERSAMPLING * rng.uniform(1, 1 + factor * (kind.max_width - 1))),
    )


def _font(size):
    return ImageFont.load_default(size)
