"""Training examples for the defect networks: photographs with synthetic defects.

The defects are more varied than those of `synthetic_scans`, and in other fonts: of any
colour, width, sharpness and opacity, most often white dust and black ink, over
photographs that were sharpened, saved or noisy before. Features that resemble defects
are drawn beneath them: panels with writing, pages, wires and grids, impulses.
"""

import io
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

# Factor by which defects are drawn larger, for edges that fall between pixels.
SUPERSAMPLING = 4
# Characters of random strings.
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
# Words of English text, from the documentation of Python.
WORDS = np.array([w for page in topics.values() for w in page.split() if w.isalnum()])


def example(photographs, size, defect_fraction, distractor_rate, rng):
    """Return an image on [0, 1], the mask of its defects, and weights of the pixels.

    A fraction of the examples has defects. Features that resemble defects are drawn
    first, each with its own probability times ``distractor_rate``.
    """
    y = crop(photographs[rng.integers(len(photographs))], size, rng)
    for probability, draw in ((0.25, panel), (0.05, page), (0.15, wires)):
        if rng.random() < distractor_rate * probability:
            y = draw(y, rng)
    y = sharpen_and_save(y, rng)
    covered, change = np.zeros((2, *y.shape[:2]))
    if rng.random() < defect_fraction:
        y, covered, change = with_defects(y, rng)
    y = add_noise(y, rng)
    target = covered > 0.1
    weight = np.ones(target.shape, np.float32)
    weight[target & (change < 0.03)] = 0.1  # not visible
    return y.astype(np.float32), target, weight


def crop(photograph, size, rng):
    """Return a random part of a photograph, rotated, at times scaled or grey."""
    shrink = 1 if rng.random() < 0.5 else rng.uniform(0.7, 2.0)
    side = min(round(size * shrink), *photograph.shape[:2])
    top, left = (rng.integers(0, n - side + 1) for n in photograph.shape[:2])
    part = photograph[top : top + side, left : left + side]
    if side != size:
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


def sharpen_and_save(y, rng):
    """Return an image, at times sharpened and saved as JPEG."""
    if rng.random() < 0.25:
        y = y + rng.uniform(0.3, 1.5) * (y - gaussian_filter(y, (1, 1, 0)))
    if rng.random() < 0.25:
        y = save_as_jpeg(y, int(rng.integers(60, 97)))
    return np.clip(y, 0, 1)


def add_noise(y, rng):
    """Return an 8-bit image with noise, at times with impulses or saved as JPEG."""
    level = rng.choice([0, rng.uniform(0, 4), rng.uniform(2, 12)]) / 255
    noise = rng.normal(0, level, y.shape)
    if not has_colour(y):
        noise = noise[..., :1]
    y = y + noise
    if rng.random() < 0.08:
        y = add_impulses(y, rng)
    if rng.random() < 0.15:
        y = save_as_jpeg(y, int(rng.integers(80, 99)))
    return np.clip(np.rint(255 * y), 0, 255) / 255


def save_as_jpeg(y, quality):
    """Return an image after saving it as JPEG and reading it again."""
    file = io.BytesIO()
    values = np.clip(np.rint(255 * y), 0, 255).astype(np.uint8)
    Image.fromarray(values).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)) / 255.0


def add_impulses(y, rng):
    fraction = 10 ** rng.uniform(-3, -0.5)
    where = rng.random(y.shape[:2]) < fraction
    kind = rng.integers(3)
    if kind == 0:
        values = rng.integers(0, 2, y.shape[:2])[..., None] * np.ones(3)
    elif kind == 1:
        values = rng.random(y.shape)
    else:
        values = np.broadcast_to(rng.random(3) if rng.random() < 0.5 else 1.0, y.shape)
    return np.where(where[..., None], values, y)


def has_colour(y):
    return np.abs(y[..., :2] - y[..., 1:]).max() > 1e-6


def visible_colour(y, rng):
    """Return a random colour that differs from the mean of an image."""
    mean = y.mean(axis=(0, 1))
    for _ in range(5):
        chosen = random_colour(rng, y)
        if np.abs(chosen - mean).max() > 0.25:
            break
    return chosen


def random_colour(rng, like=None):
    """Return a random colour: mostly white, black or grey, like dust and ink."""
    kind = rng.random()
    if kind < 0.3:
        chosen = np.full(3, rng.uniform(0.85, 1.0))
    elif kind < 0.55:
        chosen = np.full(3, rng.uniform(0.0, 0.2))
    elif kind < 0.7:
        chosen = np.clip(rng.uniform(0, 1) + rng.normal(0, 0.05, 3), 0, 1)
    else:
        chosen = rng.random(3)
    if like is not None and not has_colour(like):
        chosen = np.full(3, chosen.mean())
    return chosen


def cover(y, layer, shade, opacity, blur):
    """Return an image under a layer, and the opacity of the layer at each pixel."""
    small = np.asarray(layer.reduce(SUPERSAMPLING), float) / 255
    alpha = opacity * gaussian_filter(small, blur)
    return (1 - alpha[..., None]) * y + alpha[..., None] * shade, alpha


def with_defects(y, rng):
    """Return an image with defects of one to three colours, opacity and change."""
    rows, columns = y.shape[:2]
    out, covered = y, np.zeros((rows, columns))
    blur = rng.uniform(0.3, 0.8)
    for shade, kinds in (
        dust_and_ink(y, rng) if rng.random() < 0.6 else any_defects(y, rng)
    ):
        layer = Image.new("L", (SUPERSAMPLING * columns, SUPERSAMPLING * rows))
        for draw in kinds:
            draw(layer, rng)
        opacity = 1.0 if rng.random() < 0.85 else rng.uniform(0.5, 1)
        out, alpha = cover(out, layer, shade, opacity, blur)
        covered = 1 - (1 - covered) * (1 - alpha)
    return out, covered, np.abs(out - y).mean(axis=2)


def any_defects(y, rng):
    """Return random colours, and the functions that draw defects in each."""
    kinds = np.array([dust, scratches, hairs, writing, stamp, smudges], object)
    return [
        (visible_colour(y, rng), rng.permutation(kinds)[: rng.integers(1, 3)])
        for _ in range(rng.integers(1, 4))
    ]


def dust_and_ink(y, rng):
    """Return colours and functions of most scans: bright dust and dark ink."""
    bright, dark = rng.uniform(0.8, 1.0, 1), rng.uniform(0.0, 0.3, 1)
    if rng.random() < 0.3:
        bright, dark = dark, bright
    if rng.random() < 0.3:
        bright, dark = bright + rng.normal(0, 0.06, 3), dark + rng.normal(0, 0.1, 3)
    shades = [np.clip(shade, 0, 1) * np.ones(3) for shade in (bright, dark)]
    if not has_colour(y):
        shades = [np.full(3, shade.mean()) for shade in shades]
    probabilities = (
        {dust: 0.7, scratches: 0.7, hairs: 0.2},
        {writing: 0.65, stamp: 0.2, hairs: 0.3, smudges: 0.15},
    )
    return [
        (shade, [draw for draw, p in kinds.items() if rng.random() < p])
        for shade, kinds in zip(shades, probabilities, strict=True)
    ]


def dust(layer, rng):
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    density = 10 ** rng.uniform(-4, -2.7)
    largest = rng.uniform(1.5, 5)
    for _ in range(1 + rng.poisson(density * width * height / SUPERSAMPLING**2)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(5, 12)))
        reach = (
            SUPERSAMPLING
            * rng.uniform(0.7, largest)
            * rng.uniform(0.5, 1.2, angles.size)
        )
        edge = np.stack(
            [x + reach * np.cos(angles), y + reach * np.sin(angles)], axis=1
        )
        pen.polygon([tuple(p) for p in edge], fill=255)


def scratches(layer, rng):
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    upright = rng.random() < 0.2
    for _ in range(rng.integers(1, 6)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        angle = np.pi / 2 + rng.normal(0, 0.02) if upright else rng.uniform(0, np.pi)
        reach = rng.uniform(0.05, 0.9) * max(layer.size)
        along = np.linspace(-reach, reach, 40)
        curve = reach * rng.normal(0, 0.05) * (along / reach) ** 2
        curve = curve + np.cumsum(rng.normal(0, rng.choice([0, 0.5, 1.0]), 40))
        x = x + along * np.cos(angle) - curve * np.sin(angle)
        y = y + along * np.sin(angle) + curve * np.cos(angle)
        width_in_layer = line_width(rng)
        if rng.random() < 0.7:
            pen.line(list(zip(x, y, strict=True)), 255, width_in_layer, joint="curve")
            continue
        for k in range(0, 39, 3):  # a broken scratch
            if rng.random() < 0.6:
                pen.line(
                    list(zip(x[k : k + 4], y[k : k + 4], strict=True)),
                    255,
                    width_in_layer,
                )


def hairs(layer, rng):
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    for _ in range(rng.integers(1, 7)):
        angle = rng.uniform(0, 2 * np.pi) + np.cumsum(
            rng.normal(
                rng.normal(0, 0.05), rng.uniform(0.03, 0.25), rng.integers(10, 70)
            )
        )
        step = SUPERSAMPLING * rng.uniform(0.7, 3)
        x = rng.uniform(0, width) + step * np.cumsum(np.cos(angle))
        y = rng.uniform(0, height) + step * np.cumsum(np.sin(angle))
        pen.line(list(zip(x, y, strict=True)), 255, line_width(rng), joint="curve")


def line_width(rng):
    return round(SUPERSAMPLING * rng.uniform(0.7, 3.5))


def words(rng, count):
    if rng.random() < 0.6:
        return " ".join(rng.choice(WORDS, count // 4))
    letters = rng.choice(LETTERS, count)
    letters[rng.random(count) < 0.15] = " "
    return "".join(letters)


def writing(layer, rng, max_size=26):
    """Draw lines of text, of one size or of a random size each."""
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    path, size = (
        FONTS[rng.integers(len(FONTS))],
        SUPERSAMPLING * int(rng.integers(9, max_size)),
    )
    left, one_size = rng.uniform(-0.3, 0.6), rng.random() < 0.7
    y = rng.uniform(-0.1, 0.2 if rng.random() < 0.4 else 0.8) * height
    for _ in range(rng.integers(1, 6)):
        if not one_size:
            size, left = (
                SUPERSAMPLING * int(rng.integers(9, max_size)),
                rng.uniform(-0.3, 0.6),
            )
        font = ImageFont.truetype(path, size)
        pen.text((left * width, y), words(rng, rng.integers(6, 40)), 255, font)
        y += size * rng.uniform(1.1, 3)


def stamp(layer, rng):
    """Draw digits like a camera's date stamp, at times rotated."""
    size = SUPERSAMPLING * int(rng.integers(10, 30))
    font = ImageFont.truetype(FONTS[rng.integers(len(FONTS))], size)
    digits_layer = Image.new("L", layer.size)
    digits = "".join(rng.choice(list("0123456789 '/:"), 10))
    position = rng.uniform(0, 0.5, 2) * layer.size
    ImageDraw.Draw(digits_layer).text(tuple(position), digits, 255, font)
    if rng.random() < 0.4:
        digits_layer = digits_layer.rotate(rng.uniform(-30, 30), Image.BILINEAR)
    layer.paste(255, mask=digits_layer)


def smudges(layer, rng):
    """Draw short strokes like those of a pen."""
    pen, (width, height) = ImageDraw.Draw(layer), layer.size
    for _ in range(rng.integers(1, 12)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        points = np.cumsum(
            rng.normal(0, 2.5 * SUPERSAMPLING, (rng.integers(2, 6), 2)), axis=0
        )
        pen.line(
            [(x + a, y + b) for a, b in points], 255, line_width(rng), joint="curve"
        )


def panel(y, rng):
    """Return an image with a sign: writing or strokes on a plain background."""
    rows, columns = y.shape[:2]
    height, width = (int(rng.uniform(0.15, 0.6) * n) for n in (rows, columns))
    top, left = rng.integers(0, rows - height), rng.integers(0, columns - width)
    background = (
        random_colour(rng, y) + np.linspace(0, rng.normal(0, 0.15), width)[:, None]
    )
    part = np.broadcast_to(background, (height, width, 3))
    if rng.random() < 0.3:
        part = 0.7 * part + 0.3 * y[top : top + height, left : left + width]
    layer = Image.new("L", (SUPERSAMPLING * width, SUPERSAMPLING * height))
    for draw in rng.permutation(np.array([writing, smudges, stamp], object))[:1]:
        draw(layer, rng)
    part, _ = cover(part, layer, random_colour(rng, y), 1.0, rng.uniform(0.3, 1.0))
    out = y.copy()
    out[top : top + height, left : left + width] = np.clip(part, 0, 1)
    return out


def page(y, rng):
    """Return an image of a page: text on paper in uneven light."""
    rows, columns = y.shape[:2]
    light = gaussian_filter(rng.normal(0, 1, (rows, columns)), min(rows, columns) / 4)
    light = 1 + rng.uniform(0, 0.2) * light / max(np.abs(light).max(), 1e-9)
    paper, ink = np.clip(random_colour(rng, y), 0.5, 1), random_colour(rng, y) * 0.4
    layer = Image.new("L", (SUPERSAMPLING * columns, SUPERSAMPLING * rows))
    pen, size = ImageDraw.Draw(layer), SUPERSAMPLING * int(rng.integers(8, 20))
    font = ImageFont.truetype(FONTS[rng.integers(len(FONTS))], size)
    for top in range(0, SUPERSAMPLING * rows, round(1.3 * size)):
        pen.text((-size, top), words(rng, 60), 255, font)
    part, _ = cover(
        np.broadcast_to(paper, y.shape), layer, ink, 1.0, rng.uniform(0.4, 1.2)
    )
    return np.clip(part * light[..., None], 0, 1)


def wires(y, rng):
    """Return an image with wires or bars, lit like their surroundings."""
    rows, columns = y.shape[:2]
    layer = Image.new("L", (SUPERSAMPLING * columns, SUPERSAMPLING * rows))
    pen = ImageDraw.Draw(layer)
    width = line_width(rng)
    x, step = rng.uniform(0, 40) * SUPERSAMPLING, rng.uniform(6, 40) * SUPERSAMPLING
    slope = rng.normal(0, 0.5)
    for k in range(rng.integers(1, 9)):
        at = x + k * step
        pen.line(
            (at, 0, at + slope * SUPERSAMPLING * rows, SUPERSAMPLING * rows), 255, width
        )
    # Their colour follows the light around them.
    light = gaussian_filter(y, (12, 12, 0))
    shade = np.clip(rng.uniform(0.2, 1.6) * light + rng.normal(0, 0.05, 3), 0, 1)
    out, _ = cover(y, layer, shade, 1.0, rng.uniform(0.4, 1.0))
    return out
