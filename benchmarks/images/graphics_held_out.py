"""Held-out graphics, seldom run in the development of `restore`; see graphics.py."""

import numpy as np
from graphics_development import (
    blobs,
    canvas,
    code,
    cutout,
    dithered,
    figure,
    font,
    halftone,
    ordered,
    page,
    reduced,
    shepp,
    sprites,
    stars,
)


def photograph():
    from skimage import data

    return data.astronaut()[0:240, 100:340]


def sheet():
    """Return a table of numbers with ruled cells."""
    rng = np.random.default_rng(20)
    picture, pen = canvas((280, 400), (255, 255, 255))
    pen.rectangle((0, 0, 399, 19), (221, 235, 247))
    for y in range(0, 280, 20):
        pen.line((0, y, 399, y), (208, 206, 206))
        for x in range(0, 400, 66):
            pen.line((x, 0, x, 279), (208, 206, 206))
            word = "ABCDEFG"[x // 66] if not y else f"{rng.normal() * 100:.2f}"
            pen.text((x + 5, y + 4), word, (0, 0, 0), font=font(10))
    return np.asarray(picture)


def editor():
    """Return lines of a program in colours on a dark background."""
    picture, pen = canvas((260, 380), (30, 30, 30))
    inks = ((197, 134, 192), (220, 220, 170), (156, 220, 254), (206, 145, 120))
    words = "for value in values: total = total + weight * (value - mean) ** 2".split()
    letters, rng = font(12, "DejaVuSansMono.ttf"), np.random.default_rng(21)
    for line in range(15):
        x = 40 + 14 * int(rng.integers(0, 4))
        pen.text((8, 6 + 16 * line), f"{line + 1:2d}", (133, 133, 133), font=letters)
        for word in words[: int(rng.integers(3, 9))]:
            ink = inks[len(word) % 4]
            pen.text((x, 6 + 16 * line), word, ink, font=letters)
            x += int(pen.textlength(word + " ", letters))
    return np.asarray(picture)


def sketch():
    """Return hatched shapes, anti-aliased."""
    picture, pen = canvas((720, 720), 255)
    for k in range(-720, 720, 42):
        pen.line((k, 0, k + 720, 720), 0, 3)
    pen.ellipse((150, 150, 500, 560), 255, 0, 6)
    for k in range(0, 340, 30):
        pen.line((180 + k, 250, 230 + k // 2, 500), 60, 3)
    return reduced(picture, 3)


def flow():
    picture, pen = canvas((320, 300), (255, 255, 240))
    for k in range(4):
        y = 10 + 78 * k
        corners = [(150, y), (230, y + 25), (150, y + 50), (70, y + 25)]
        if k % 2:
            pen.polygon(corners, (255, 220, 160), (0, 0, 0))
        else:
            pen.rectangle((80, y, 220, y + 50), (190, 220, 255), (0, 0, 0), 2)
        pen.text(
            (120, y + 17), ("begin", "ready?", "work", "end?")[k], "black", font(13)
        )
        if k < 3:
            pen.line((150, y + 50, 150, y + 78), (0, 0, 0))
    return np.asarray(picture)


def bars():
    values = np.random.default_rng(22).random(9)
    return figure(lambda axes: axes.bar(range(9), values, color="tab:green"))


def contours():
    return figure(lambda axes: axes.contourf(blobs(60, 80), levels=9, cmap="terrain"))


def heat():
    values = np.random.default_rng(23).random((12, 16))
    return figure(lambda axes: axes.imshow(values, interpolation="nearest"))


def square_code():
    """Return a two-dimensional code with finder squares."""
    black = np.random.default_rng(24).random((33, 33)) < 0.5
    finder = np.pad(np.pad(np.pad(np.ones((3, 3)), 1), 1, constant_values=1), 1) > 0
    for i, j in ((0, 0), (0, 24), (24, 0)):
        black[i : i + 9, j : j + 9] = finder
    black = np.pad(black, 4).repeat(5, 0).repeat(5, 1)
    return ~black


def colour_code():
    colours = np.array([[0, 0, 0], [255, 255, 0], [0, 255, 255], [255, 0, 255]])
    cells = np.random.default_rng(25).integers(0, 4, (40, 40))
    return colours[cells].astype(np.uint8).repeat(6, 0).repeat(6, 1)


def tracks():
    """Return a circuit board: lines at right angles, pads, holes."""
    rng = np.random.default_rng(26)
    picture, pen = canvas((256, 256), (0, 90, 40))
    for _ in range(40):
        x, y, u, v = (8 * rng.integers(0, 32, 4)).tolist()
        pen.line((x, y, u, y, u, v), (20, 140, 70), 3)
        pen.ellipse((x - 4, y - 4, x + 4, y + 4), (200, 170, 80))
        pen.rectangle((u - 1, v - 1, u + 1, v + 1), (0, 0, 0))
    return np.asarray(picture)


def music():
    picture, pen = canvas((240, 320), 255)
    rng = np.random.default_rng(27)
    for top in range(20, 220, 50):
        for k in range(5):
            pen.line((5, top + 6 * k, 314, top + 6 * k), 0)
        for x in range(20, 310, 16):
            y = top + 3 * int(rng.integers(0, 9))
            pen.ellipse((x - 4, y - 3, x + 4, y + 3), 0)
            pen.line((x + 4, y, x + 4, y - 18), 0)
    return np.asarray(picture)


def crossword():
    black = np.random.default_rng(28).random((13, 13)) < 0.2
    out = np.where(black, 0, 255).repeat(18, 0).repeat(18, 1).astype(np.uint8)
    out[::18] = out[:, ::18] = 0
    return out


def game():
    """Return a map of tiles, each with its own small pattern."""
    rng = np.random.default_rng(29)
    colours = rng.integers(0, 256, (5, 2, 3))
    patterns = rng.random((5, 8, 8)) < 0.25
    order = rng.integers(0, 5, (24, 30))
    rows = [[colours[k][patterns[k].astype(int)] for k in row] for row in order]
    return np.concatenate([np.concatenate(r, 1) for r in rows]).astype(np.uint8)


def few_colours():
    """Return a photograph reduced to sixteen colours, without dither."""
    from PIL import Image

    picture = Image.fromarray(photograph()).quantize(16, dither=Image.Dither.NONE)
    return np.asarray(picture.convert("RGB"))


def web_colours():
    from PIL import Image

    return np.asarray(Image.fromarray(photograph()).convert("P").convert("RGB"))


def escape():
    """Return how soon points escape: a fractal with bands."""
    i, j = np.mgrid[-1.2:1.2:200j, -2:0.7:220j]
    c, z = j + 1j * i, np.zeros((200, 220), complex)
    out = np.zeros(c.shape, np.uint8)
    for k in range(24):
        z = np.where(abs(z) < 2, z * z + c, z)
        out[abs(z) < 2] = k * 10
    return out


def truchet():
    turn = np.random.default_rng(30).random((20, 20)) < 0.5
    i, j = np.mgrid[:12, :12]
    near = np.hypot(i, j), np.hypot(11 - i, 11 - j)
    arc = (abs(near[0] - 5.5) < 1) | (abs(near[1] - 5.5) < 1)
    return np.block([[arc if t else arc[:, ::-1] for t in row] for row in turn])


def spectrogram():
    """Return the power of a chirp with noise in decibels, drawn in colours."""
    from matplotlib import colormaps

    rng = np.random.default_rng(31)
    t = np.arange(40000) / 8000
    sound = np.sin(2 * np.pi * (300 + 250 * t) * t) + 0.1 * rng.standard_normal(t.size)
    frames = np.lib.stride_tricks.sliding_window_view(sound, 400)[::160]
    power = np.abs(np.fft.rfft(frames * np.hanning(400))) ** 2
    level = np.clip(10 * np.log10(power.T + 1e-3) / 60 + 0.4, 0, 1)
    return (colormaps["viridis"](level)[..., :3] * 255).astype(np.uint8)


def portrait_page():
    """Return a page with a photograph and text."""
    out = page((280, 420), 13, (255, 255, 255), (30, 30, 30)).copy()
    out[40:200, 30:210] = photograph()[20:180, 20:200]
    return out


def points():
    """Return stars of one pixel each, of all brightnesses, on black."""
    rng = np.random.default_rng(32)
    out = np.zeros((200, 200), np.uint8)
    out[tuple(rng.integers(0, 200, (2, 150)))] = rng.integers(60, 256, 150)
    return out


KINDS = {
    "italics": lambda: page(
        (200, 300), 11, (255, 255, 255), (120, 0, 0), "DejaVuSans-Oblique.ttf"
    ),
    "bold without smoothing": lambda: page(
        (240, 320), 24, 255, 0, "DejaVuSans-Bold.ttf", smooth=False
    ),
    "light on dark, 16 bits": lambda: (
        page((200, 300), 15, 20, 235, "DejaVuSerif-Italic.ttf").astype(np.uint16) * 257
    ),
    "bool text": lambda: page((220, 300), 13, 255, 0, smooth=False) > 0,
    "float text": lambda: (page((220, 300), 16, 255, 0) / 255).astype(np.float32),
    "table": sheet,
    "editor": editor,
    "sketch": sketch,
    "flow chart": flow,
    "bars": bars,
    "contours": contours,
    "heat map": heat,
    "square code": square_code,
    "colour code": colour_code,
    "circuit": tracks,
    "music": music,
    "crossword": crossword,
    "game": game,
    "few colours": few_colours,
    "web colours": web_colours,
    "fractal": escape,
    "truchet": truchet,
    "dithered photograph": lambda: dithered(photograph()[..., 1]),
    "ordered photograph": lambda: np.dstack(
        [ordered(photograph()[..., c], 2) for c in range(3)]
    ),
    "newspaper": lambda: halftone(photograph()[..., 0], 5, 0.8),
    "large icon": lambda: sprites(16, 2, 1, 33, 4)[:32, :32],
    "pixel art, enlarged": lambda: sprites(12, 6, 3, 34, 9),
    "chess": lambda: (np.indices((128, 128)) // 16).sum(0) % 2 == 0,
    "checkerboard of 1 pixel": lambda: (
        np.indices((128, 128)).sum(0).astype(np.uint8) % 2 * 255
    ),
    "phantom of 16 bits": lambda: np.rint(shepp() * 30000 + 1000).astype(np.uint16),
    "cut-out on black": lambda: cutout(0),
    "page with a photograph": portrait_page,
    "spectrogram": spectrogram,
    "wide stars": lambda: stars(width=1.7, seed=35, count=60),
    "points": points,
    "cells of 1 pixel": lambda: code(120, 1, 36),
}
