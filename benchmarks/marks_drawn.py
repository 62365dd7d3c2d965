"""Photographs with marks on them, drawn at random, to learn from.

Wider than what is tried by `scans`, and in other fonts: marks of any colour, width,
sharpness and opacity, most often dust in white and ink in black, over photographs that
were sharpened, saved or noisy before. What must not be taken for a mark is drawn as
well, beneath them: panels with writing on them, pages, wires and grids, impulses.
"""

import io
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

FINE = 4  # drawn so many times larger, for edges that fall between pixels
LETTERS = np.array(
    list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:-/'")
)


def fonts():
    """Return the paths of fonts that come with Matplotlib and have letters."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = (
        "DejaVuS*.ttf",
        "STIXGeneral*.ttf",
        "cmr10.ttf",
        "cmtt10.ttf",
        "cmss10.ttf",
    )
    return sorted(str(p) for name in names for p in folder.glob(name))


FONTS = fonts()
WORDS = np.array([w for page in topics.values() for w in page.split() if w.isalnum()])


def example(photographs, size, marks, alike, rng):
    """Return an image on [0, 1], what lies under marks, and how much each pixel counts.

    Marks are drawn on the given share of examples, on some of which something that is
    like them has been drawn before: a panel on a quarter of the second share.
    """
    y = crop(photographs[rng.integers(len(photographs))], size, rng)
    for share, draw in ((0.25, panel), (0.05, page), (0.15, wires)):
        if rng.random() < alike * share:
            y = draw(y, rng)
    y = developed(y, rng)
    covered, change = np.zeros((2, *y.shape[:2]))
    if rng.random() < marks:
        y, covered, change = marked(y, rng)
    y = taken(y, rng)
    target = covered > 0.1
    weight = np.ones(target.shape, np.float32)
    weight[target & (change < 0.03)] = 0.1  # nobody could tell
    return y.astype(np.float32), target, weight


def crop(photograph, size, rng):
    """Return a part of a photograph, turned, perhaps smaller or without colour."""
    shrink = 1 if rng.random() < 0.5 else rng.uniform(0.7, 2.0)
    wide = min(round(size * shrink), *photograph.shape[:2])
    top, left = (rng.integers(0, n - wide + 1) for n in photograph.shape[:2])
    part = photograph[top : top + wide, left : left + wide]
    if wide != size:
        part = np.asarray(Image.fromarray(part).resize((size, size), Image.LANCZOS))
    part = np.rot90(part, rng.integers(4))
    if rng.random() < 0.5:
        part = part[:, ::-1]
    y = part / 255.0
    if rng.random() < 0.4:
        y = np.repeat(y @ np.array([0.299, 0.587, 0.114])[:, None], 3, axis=2)
    elif rng.random() < 0.3:
        y = y[..., rng.permutation(3)]
    if rng.random() < 0.3:
        y = y ** np.exp(rng.normal(0, 0.3))
    if rng.random() < 0.1:
        y = 1 - y
    return np.array(y)


def developed(y, rng):
    """Return a picture as cameras and people make it: sharpened, saved."""
    if rng.random() < 0.25:
        y = y + rng.uniform(0.3, 1.5) * (y - gaussian_filter(y, (1, 1, 0)))
    if rng.random() < 0.25:
        y = saved(y, int(rng.integers(60, 97)))
    return np.clip(y, 0, 1)


def taken(y, rng):
    """Return a picture with noise, impulses, and as it comes back from a file."""
    level = rng.choice([0, rng.uniform(0, 4), rng.uniform(2, 12)]) / 255
    noise = rng.normal(0, level, y.shape)
    if not coloured(y):
        noise = noise[..., :1]
    y = y + noise
    if rng.random() < 0.08:
        y = impulses(y, rng)
    if rng.random() < 0.15:
        y = saved(y, int(rng.integers(80, 99)))
    return np.clip(np.rint(255 * y), 0, 255) / 255


def saved(y, quality):
    file = io.BytesIO()
    eight = np.clip(np.rint(255 * y), 0, 255).astype(np.uint8)
    Image.fromarray(eight).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)) / 255.0


def impulses(y, rng):
    share = 10 ** rng.uniform(-3, -0.5)
    where = rng.random(y.shape[:2]) < share
    kind = rng.integers(3)
    if kind == 0:
        values = rng.integers(0, 2, y.shape[:2])[..., None] * np.ones(3)
    elif kind == 1:
        values = rng.random(y.shape)
    else:
        values = np.broadcast_to(rng.random(3) if rng.random() < 0.5 else 1.0, y.shape)
    return np.where(where[..., None], values, y)


def coloured(y):
    return np.abs(y[..., :2] - y[..., 1:]).max() > 1e-6


def ink(y, rng):
    """Return a colour that shows on a picture."""
    mean = y.mean(axis=(0, 1))
    for _ in range(5):
        found = colour(rng, y)
        if np.abs(found - mean).max() > 0.25:
            break
    return found


def colour(rng, like=None):
    """Return a colour: mostly white, black or grey, as dust and ink are."""
    kind = rng.random()
    if kind < 0.3:
        found = np.full(3, rng.uniform(0.85, 1.0))
    elif kind < 0.55:
        found = np.full(3, rng.uniform(0.0, 0.2))
    elif kind < 0.7:
        found = np.clip(rng.uniform(0, 1) + rng.normal(0, 0.05, 3), 0, 1)
    else:
        found = rng.random(3)
    if like is not None and not coloured(like):
        found = np.full(3, found.mean())
    return found


def cover(y, layer, shade, opacity, blur):
    """Return a picture under a layer, and how far each pixel is covered."""
    small = np.asarray(layer.reduce(FINE), float) / 255
    alpha = opacity * gaussian_filter(small, blur)
    return (1 - alpha[..., None]) * y + alpha[..., None] * shade, alpha


def marked(y, rng):
    """Return a picture with marks of one to three colours."""
    rows, columns = y.shape[:2]
    out, covered = y, np.zeros((rows, columns))
    blur = rng.uniform(0.3, 0.8)
    for shade, kinds in dust_and_ink(y, rng) if rng.random() < 0.6 else any_of(y, rng):
        layer = Image.new("L", (FINE * columns, FINE * rows))
        for draw in kinds:
            draw(layer, rng)
        opacity = 1.0 if rng.random() < 0.85 else rng.uniform(0.5, 1)
        out, alpha = cover(out, layer, shade, opacity, blur)
        covered = 1 - (1 - covered) * (1 - alpha)
    return out, covered, np.abs(out - y).mean(axis=2)


def any_of(y, rng):
    """Return colours, and what is drawn in each."""
    kinds = np.array([dust, scratches, hairs, writing, stamp, smudges], object)
    return [
        (ink(y, rng), rng.permutation(kinds)[: rng.integers(1, 3)])
        for _ in range(rng.integers(1, 4))
    ]


def dust_and_ink(y, rng):
    """Return the same as most scans have it: dust is bright and ink is dark."""
    bright, dark = rng.uniform(0.8, 1.0, 1), rng.uniform(0.0, 0.3, 1)
    if rng.random() < 0.3:
        bright, dark = dark, bright
    if rng.random() < 0.3:
        bright, dark = bright + rng.normal(0, 0.06, 3), dark + rng.normal(0, 0.1, 3)
    shades = [np.clip(shade, 0, 1) * np.ones(3) for shade in (bright, dark)]
    if not coloured(y):
        shades = [np.full(3, shade.mean()) for shade in shades]
    often = (
        {dust: 0.7, scratches: 0.7, hairs: 0.2},
        {writing: 0.65, stamp: 0.2, hairs: 0.3, smudges: 0.15},
    )
    return [
        (shade, [draw for draw, odds in kinds.items() if rng.random() < odds])
        for shade, kinds in zip(shades, often, strict=True)
    ]


def dust(layer, rng):
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    density = 10 ** rng.uniform(-4, -2.7)
    largest = rng.uniform(1.5, 5)
    for _ in range(1 + rng.poisson(density * width * height / FINE**2)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        turns = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(5, 12)))
        reach = FINE * rng.uniform(0.7, largest) * rng.uniform(0.5, 1.2, turns.size)
        edge = np.stack([x + reach * np.cos(turns), y + reach * np.sin(turns)], axis=1)
        pen.polygon([tuple(p) for p in edge], fill=255)


def scratches(layer, rng):
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    upright = rng.random() < 0.2
    for _ in range(rng.integers(1, 6)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        turn = np.pi / 2 + rng.normal(0, 0.02) if upright else rng.uniform(0, np.pi)
        reach = rng.uniform(0.05, 0.9) * max(layer.size)
        along = np.linspace(-reach, reach, 40)
        bend = reach * rng.normal(0, 0.05) * (along / reach) ** 2
        bend = bend + np.cumsum(rng.normal(0, rng.choice([0, 0.5, 1.0]), 40))
        x = x + along * np.cos(turn) - bend * np.sin(turn)
        y = y + along * np.sin(turn) + bend * np.cos(turn)
        wide = thickness(rng)
        if rng.random() < 0.7:
            pen.line(list(zip(x, y, strict=True)), 255, wide, joint="curve")
            continue
        for k in range(0, 39, 3):  # one that is broken
            if rng.random() < 0.6:
                pen.line(list(zip(x[k : k + 4], y[k : k + 4], strict=True)), 255, wide)


def hairs(layer, rng):
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    for _ in range(rng.integers(1, 7)):
        turn = rng.uniform(0, 2 * np.pi) + np.cumsum(
            rng.normal(
                rng.normal(0, 0.05), rng.uniform(0.03, 0.25), rng.integers(10, 70)
            )
        )
        step = FINE * rng.uniform(0.7, 3)
        x = rng.uniform(0, width) + step * np.cumsum(np.cos(turn))
        y = rng.uniform(0, height) + step * np.cumsum(np.sin(turn))
        pen.line(list(zip(x, y, strict=True)), 255, thickness(rng), joint="curve")


def thickness(rng):
    return round(FINE * rng.uniform(0.7, 3.5))


def words(rng, count):
    if rng.random() < 0.6:
        return " ".join(rng.choice(WORDS, count // 4))
    letters = rng.choice(LETTERS, count)
    letters[rng.random(count) < 0.15] = " "
    return "".join(letters)


def writing(layer, rng, most=26):
    """Draw lines, alike or each of its own size."""
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    path, size = FONTS[rng.integers(len(FONTS))], FINE * int(rng.integers(9, most))
    left, alike = rng.uniform(-0.3, 0.6), rng.random() < 0.7
    y = rng.uniform(-0.1, 0.2 if rng.random() < 0.4 else 0.8) * height
    for _ in range(rng.integers(1, 6)):
        if not alike:
            size, left = FINE * int(rng.integers(9, most)), rng.uniform(-0.3, 0.6)
        font = ImageFont.truetype(path, size)
        pen.text((left * width, y), words(rng, rng.integers(6, 40)), 255, font)
        y += size * rng.uniform(1.1, 3)


def stamp(layer, rng):
    """Draw digits as cameras print them, or a line turned a little."""
    size = FINE * int(rng.integers(10, 30))
    font = ImageFont.truetype(FONTS[rng.integers(len(FONTS))], size)
    whole = Image.new("L", layer.size)
    digits = "".join(rng.choice(list("0123456789 '/:"), 10))
    at = rng.uniform(0, 0.5, 2) * layer.size
    ImageDraw.Draw(whole).text(tuple(at), digits, 255, font)
    if rng.random() < 0.4:
        whole = whole.rotate(rng.uniform(-30, 30), Image.BILINEAR)
    layer.paste(255, mask=whole)


def smudges(layer, rng):
    """Draw short strokes as of a pen."""
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    for _ in range(rng.integers(1, 12)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        points = np.cumsum(rng.normal(0, 2.5 * FINE, (rng.integers(2, 6), 2)), axis=0)
        pen.line(
            [(x + a, y + b) for a, b in points], 255, thickness(rng), joint="curve"
        )


def panel(y, rng):
    """Return a picture of a sign: writing or lines on a ground of their own."""
    rows, columns = y.shape[:2]
    high, wide = (int(rng.uniform(0.15, 0.6) * n) for n in (rows, columns))
    top, left = rng.integers(0, rows - high), rng.integers(0, columns - wide)
    ground = colour(rng, y) + np.linspace(0, rng.normal(0, 0.15), wide)[:, None]
    part = np.broadcast_to(ground, (high, wide, 3))
    if rng.random() < 0.3:
        part = 0.7 * part + 0.3 * y[top : top + high, left : left + wide]
    layer = Image.new("L", (FINE * wide, FINE * high))
    for draw in rng.permutation(np.array([writing, smudges, stamp], object))[:1]:
        draw(layer, rng)
    part, _ = cover(part, layer, colour(rng, y), 1.0, rng.uniform(0.3, 1.0))
    out = y.copy()
    out[top : top + high, left : left + wide] = np.clip(part, 0, 1)
    return out


def page(y, rng):
    """Return a photograph of a page: writing on paper in uneven light."""
    rows, columns = y.shape[:2]
    light = gaussian_filter(rng.normal(0, 1, (rows, columns)), min(rows, columns) / 4)
    light = 1 + rng.uniform(0, 0.2) * light / max(np.abs(light).max(), 1e-9)
    paper, ink = np.clip(colour(rng, y), 0.5, 1), colour(rng, y) * 0.4
    layer = Image.new("L", (FINE * columns, FINE * rows))
    pen, size = ImageDraw.Draw(layer), FINE * int(rng.integers(8, 20))
    font = ImageFont.truetype(FONTS[rng.integers(len(FONTS))], size)
    for top in range(0, FINE * rows, round(1.3 * size)):
        pen.text((-size, top), words(rng, 60), 255, font)
    part, _ = cover(
        np.broadcast_to(paper, y.shape), layer, ink, 1.0, rng.uniform(0.4, 1.2)
    )
    return np.clip(part * light[..., None], 0, 1)


def wires(y, rng):
    """Return a picture of thin things that are lit as it is: wires, bars, twigs."""
    rows, columns = y.shape[:2]
    layer = Image.new("L", (FINE * columns, FINE * rows))
    pen = ImageDraw.Draw(layer)
    wide = thickness(rng)
    x, step = rng.uniform(0, 40) * FINE, rng.uniform(6, 40) * FINE
    slope = rng.normal(0, 0.5)
    for k in range(rng.integers(1, 9)):
        at = x + k * step
        pen.line((at, 0, at + slope * FINE * rows, FINE * rows), 255, wide)
    # Their colour follows the light of what is around.
    light = gaussian_filter(y, (12, 12, 0))
    shade = np.clip(rng.uniform(0.2, 1.6) * light + rng.normal(0, 0.05, 3), 0, 1)
    out, _ = cover(y, layer, shade, 1.0, rng.uniform(0.4, 1.0))
    return out
