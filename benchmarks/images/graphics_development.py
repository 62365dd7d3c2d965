"""Graphics on which `restore` was developed; see graphics.py."""

import io
from pathlib import Path

import numpy as np

WORDS = (
    "A value judged clean is never touched. Where the picture says nothing of a value "
    "it stays as it is, and what is wrong is restored from what is near or alike. "
    "Rows 1 to 48, columns 7 to 93; see page 265 (and 10.3 of the second part). "
)


def font(size, name="DejaVuSans.ttf"):
    """Return one of the fonts that come with matplotlib."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / name), size)


def canvas(shape, ground):
    """Return a picture and a pen; shape is (rows, columns)."""
    from PIL import Image, ImageDraw

    mode = "L" if isinstance(ground, int) else "RGB"
    picture = Image.new(mode, shape[::-1], ground)
    return picture, ImageDraw.Draw(picture)


def page(shape, size, ground, ink, name="DejaVuSans.ttf", smooth=True):
    """Return a page of text, left-aligned."""
    picture, pen = canvas(shape, ground)
    pen.fontmode = "L" if smooth else "1"
    letters, left = font(size, name), list((WORDS * 20).split())
    y = size // 2
    while y < shape[0] - size:
        line = left.pop(0)
        while pen.textlength(f"{line} {left[0]}", letters) < shape[1] - 2 * size:
            line += " " + left.pop(0)
        pen.text((size, y), line, ink, font=letters)
        y += round(1.4 * size)
    return np.asarray(picture)


def reduced(picture, times):
    """Return a picture reduced in size, and thereby anti-aliased."""
    from PIL import Image

    size = (picture.width // times, picture.height // times)
    return np.asarray(picture.resize(size, Image.Resampling.BOX))


def figure(draw, size=(4, 3), dpi=80):
    """Return a figure drawn by matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    drawing = Figure(size, dpi)
    FigureCanvasAgg(drawing)
    draw(drawing.subplots())
    file = io.BytesIO()
    drawing.savefig(file, format="png")
    return np.asarray(Image.open(file).convert("RGB"))


def screen():
    """Return a window with buttons, a menu, a list and a few words."""
    picture, pen = canvas((300, 400), (240, 240, 240))
    pen.rectangle((0, 0, 399, 23), (53, 94, 160))
    pen.text((8, 4), "Settings", (255, 255, 255), font=font(13))
    for k, word in enumerate(("File", "Edit", "View", "Help")):
        pen.text((8 + 50 * k, 28), word, (20, 20, 20), font=font(12))
    pen.rectangle((10, 50, 150, 290), (255, 255, 255), (160, 160, 160))
    for k in range(14):
        if k == 4:
            pen.rectangle((11, 54 + 16 * k, 149, 69 + 16 * k), (0, 120, 215))
        ink = (255, 255, 255) if k == 4 else (0, 0, 0)
        pen.text((15, 55 + 16 * k), f"item {k * 37 % 23}.txt", ink, font=font(11))
    for k, word in enumerate(("Open", "Save", "Cancel")):
        box = (180, 60 + 40 * k, 260, 86 + 40 * k)
        pen.rounded_rectangle(box, 4, (225, 225, 225), (120, 120, 120))
        pen.text((195, 65 + 40 * k), word, (0, 0, 0), font=font(12))
    for k in range(5):
        pen.rectangle((180, 190 + 18 * k, 191, 201 + 18 * k), None, (90, 90, 90))
        pen.text((198, 188 + 18 * k), f"option {k}", (0, 0, 0), font=font(11))
    return np.asarray(picture)


def line_art():
    rng = np.random.default_rng(1)
    picture, pen = canvas((256, 256), 255)
    for _ in range(25):
        x, y, u, v = rng.integers(0, 256, 4).tolist()
        pen.line((x, y, u, v), 0)
    for _ in range(12):
        x, y, r = rng.integers(20, 236, 3).tolist()
        pen.ellipse((x - r // 4, y - r // 4, x + r // 4, y + r // 4), None, 0, 2)
    return np.asarray(picture)


def diagram():
    picture, pen = canvas((900, 1200), (255, 255, 255))
    colours = ((174, 199, 232), (255, 187, 120), (152, 223, 138), (255, 152, 150))
    for k in range(4):
        x, y = 60 + 280 * k, 150 + 130 * (k % 2) * 3
        pen.rounded_rectangle((x, y, x + 200, y + 130), 24, colours[k], (40, 40, 40), 6)
        pen.text((x + 40, y + 30), f"step {k}", (0, 0, 0), font=font(45))
        if k < 3:
            u, v = x + 280, 215 + 130 * ((k + 1) % 2) * 3
            pen.line((x + 200, y + 65, u, v), (40, 40, 40), 6)
            pen.ellipse((u - 12, v - 12, u + 12, v + 12), (40, 40, 40))
    return reduced(picture, 3)


def plot():
    def draw(axes):
        t = np.linspace(0, 6, 200)
        for k in range(4):
            axes.plot(t, np.sin(t + k) * (1 + 0.2 * k), label=f"run {k}")
        axes.grid(True)
        axes.legend()
        axes.set_title("four runs")

    return figure(draw)


def dots():
    rng = np.random.default_rng(2)

    def draw(axes):
        axes.plot(*rng.standard_normal((2, 400)), "k,")
        axes.plot(*rng.standard_normal((2, 100)), ".", ms=2, c="tab:red")
        axes.set_xlabel("first")

    return figure(draw)


def regions():
    """Return a map: countries with borders and names."""
    rng = np.random.default_rng(3)
    places = rng.random((18, 2)) * 280
    i, j = np.mgrid[:280, :280]
    near = (
        (i[..., None] - places[:, 0]) ** 2 + (j[..., None] - places[:, 1]) ** 2
    ) * 1.0
    near += 12 * np.sin(i / 9)[..., None] * rng.standard_normal(18) * 30
    label = near.argmin(2)
    out = rng.integers(130, 250, (18, 3))[label].astype(np.uint8)
    edge = np.zeros(label.shape, bool)
    edge[:-1] |= label[:-1] != label[1:]
    edge[:, :-1] |= label[:, :-1] != label[:, 1:]
    out[edge] = (90, 90, 90)
    from PIL import Image, ImageDraw

    picture = Image.fromarray(out)
    pen = ImageDraw.Draw(picture)
    for k, (y, x) in enumerate(places.tolist()):
        pen.text((x - 14, y - 6), f"land {k}", (20, 20, 20), font=font(10))
    return np.asarray(picture)


def code(cells=45, side=4, seed=4):
    """Return square cells, black or white at random, on a white background."""
    black = np.random.default_rng(seed).random((cells, cells)) < 0.5
    black = np.pad(black, 4).repeat(side, 0).repeat(side, 1)
    return np.where(black, 0, 255).astype(np.uint8)


def barcode():
    widths = np.random.default_rng(5).integers(1, 5, 120)
    bars = np.repeat(np.arange(120) % 2 == 0, widths)
    out = np.full((120, len(bars) + 40), 255, np.uint8)
    out[10:100, 20:-20][:, bars] = 0
    return out


def dithered(grey, levels=2):
    """Return a picture dithered by the diffusion of errors."""
    left = grey.astype(float).copy()
    rows, columns = left.shape
    step = 255 / (levels - 1)
    for i in range(rows):
        for j in range(columns):
            old = left[i, j]
            new = left[i, j] = np.clip(np.rint(old / step), 0, levels - 1) * step
            for u, v, part in ((0, 1, 7), (1, -1, 3), (1, 0, 5), (1, 1, 1)):
                if i + u < rows and 0 <= j + v < columns:
                    left[i + u, j + v] += (old - new) * part / 16
    return left.astype(np.uint8)


def ramp():
    return dithered(np.linspace(0, 255, 256) + np.zeros((128, 1)))


def ordered(grey, order=3):
    """Return a picture dithered by Bayer's thresholds."""
    table = np.zeros((1, 1))
    for _ in range(order):
        table = np.block([[4 * table, 4 * table + 2], [4 * table + 3, 4 * table + 1]])
    table = (table + 0.5) / table.size * 255
    tiles = [-(-n // len(table)) for n in grey.shape[:2]]
    threshold = np.tile(table, tiles)[: grey.shape[0], : grey.shape[1]]
    return np.where(grey > threshold, 255, 0).astype(np.uint8)


def blobs(rows=192, columns=256, seed=6, width=20):
    from scipy.ndimage import gaussian_filter

    field = gaussian_filter(
        np.random.default_rng(seed).standard_normal((rows, columns)), width
    )
    return 255 * (field - field.min()) / np.ptp(field)


def halftone(grey, period=8, angle=0.4):
    """Return round dots whose size follows the grey level."""
    i, j = np.mgrid[: grey.shape[0], : grey.shape[1]]
    u, v = (
        (np.cos(angle) * i - np.sin(angle) * j) * np.pi / period,
        (np.sin(angle) * i + np.cos(angle) * j) * np.pi / period,
    )
    wave = 0.5 + 0.25 * (np.cos(2 * u) + np.cos(2 * v))
    return np.where(grey / 255 > wave, 255, 0).astype(np.uint8)


def sprites(side=16, count=12, times=1, seed=7, colours=6):
    """Return a sheet of small symmetric figures of few colours, some used again."""
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (colours, 3))
    palette[0] = (92, 148, 252)
    figures = []
    for _ in range(count // 2):
        half = rng.integers(0, colours, (side // 2 - 2, side // 4 - 1)).repeat(2, 0)
        half = np.pad(half.repeat(2, 1), ((2, 2), (2, 0)))
        figures.append(np.concatenate([half, half[:, ::-1]], axis=1))
    order = rng.integers(0, len(figures), (8, count))
    sheet = np.block([[figures[k] for k in row] for row in order])
    return palette[sheet].astype(np.uint8).repeat(times, 0).repeat(times, 1)


def icon():
    picture, pen = canvas((16, 16), (255, 255, 255))
    pen.rectangle((2, 1, 13, 14), (255, 230, 150), (80, 60, 20))
    for y in (4, 6, 8, 10):
        pen.line((4, y, 11, y), (120, 120, 120))
    pen.rectangle((9, 9, 15, 15), (40, 140, 60))
    return np.asarray(picture)


def palette():
    colours = np.random.default_rng(8).integers(0, 256, (6, 8, 3))
    return colours.repeat(30, 0).repeat(30, 1).astype(np.uint8)


def shepp():
    """Return ellipses of several densities, as floats."""
    i, j = np.mgrid[-1:1:200j, -1:1:200j]
    out = np.zeros((200, 200))
    for y, x, a, b, angle, value in (
        (0, 0, 0.69, 0.92, 0, 1),
        (0, -0.02, 0.66, 0.87, 0, -0.8),
        (0, 0.22, 0.11, 0.31, -0.3, -0.2),
        (0, -0.22, 0.16, 0.41, 0.3, -0.2),
        (-0.35, 0, 0.21, 0.25, 0, 0.1),
        (0.1, 0, 0.05, 0.05, 0, 0.1),
        (0.6, -0.08, 0.05, 0.02, 0, 0.1),
        (0.6, 0.06, 0.02, 0.05, 0, 0.1),
    ):
        u, v = j - x, i - y
        along = u * np.cos(angle) + v * np.sin(angle)
        across = v * np.cos(angle) - u * np.sin(angle)
        out[(along / a) ** 2 + (across / b) ** 2 <= 1] += value
    return out.astype(np.float32)


def cutout(ground=255):
    """Return a photographed animal, cut out."""
    from skimage import data

    out = data.chelsea()[20:260, 90:350].copy()
    i, j = np.mgrid[-1:1:240j, -1:1:260j]
    out[i**2 / 0.6 + j**2 / 0.5 + 0.2 * np.sin(7 * j) > 1] = ground
    return out


def grid():
    out = np.full((150, 150), 230, np.uint8)
    out[::6] = 40
    out[:, ::6] = 40
    return out


def stars(rows=200, columns=200, count=150, width=1.0, seed=9):
    """Return points of light, each spread over a few pixels, on a black background."""
    rng = np.random.default_rng(seed)
    i, j = np.mgrid[:rows, :columns]
    out = np.zeros((rows, columns))
    place = rng.random((count, 2)) * (rows, columns)
    lights = rng.pareto(1.5, count) + 0.3
    for (y, x), light in zip(place, lights, strict=True):
        out += light * np.exp(-((i - y) ** 2 + (j - x) ** 2) / (2 * width**2))
    return np.rint(np.clip(60 * out, 0, 255)).astype(np.uint8)


KINDS = {
    "text": lambda: page((200, 300), 14, 255, 0),
    "text without smoothing": lambda: page((200, 300), 12, 255, 0, smooth=False),
    "serif in colour": lambda: page(
        (220, 320), 18, (250, 245, 230), (20, 20, 80), "DejaVuSerif.ttf"
    ),
    "terminal": lambda: page(
        (200, 320), 13, (0, 0, 0), (0, 220, 0), "DejaVuSansMono.ttf"
    ),
    "screen": screen,
    "line art": line_art,
    "diagram": diagram,
    "plot": plot,
    "lone dots": dots,
    "map": regions,
    "code": code,
    "barcode": barcode,
    "dithered ramp": ramp,
    "ordered dither": lambda: ordered(blobs()),
    "halftone": lambda: halftone(blobs()),
    "pixel art": sprites,
    "icon": icon,
    "palette": palette,
    "binary": lambda: blobs(seed=10, width=6) > 128,
    "labels": lambda: (blobs(seed=11, width=9) / 26).astype(np.uint8),
    "labels of 16 bits": lambda: (blobs(seed=12) / 26).astype(np.uint16) * 5000 + 77,
    "checkerboard": lambda: (np.indices((160, 160)) // 8).sum(0).astype(np.uint8) % 2,
    "phantom": shepp,
    "cut-out": cutout,
    "grid": grid,
    "stars": stars,
}
