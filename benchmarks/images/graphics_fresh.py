"""Held-out graphics, drawn after the development of `restore`; see graphics.py."""

import numpy as np
from graphics_development import blobs, canvas, dithered, figure, font, page, reduced


def keyboard():
    """Return rows of keys with a letter each."""
    picture, pen = canvas((150, 420), (60, 60, 66))
    for row, keys in enumerate(("QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM")):
        for k, key in enumerate(keys):
            x, y = 10 + 40 * k + 12 * row, 12 + 44 * row
            pen.rounded_rectangle((x, y, x + 34, y + 36), 5, (235, 235, 235))
            pen.text((x + 11, y + 9), key, (30, 30, 30), font=font(16))
    return np.asarray(picture)


def dialogue():
    """Return a window that asks a question."""
    picture, pen = canvas((180, 340), (255, 255, 255))
    pen.rectangle((0, 0, 339, 27), (45, 45, 48))
    pen.text((10, 6), "Question", (255, 255, 255), font=font(12))
    pen.polygon([(30, 95), (50, 55), (70, 95)], (255, 200, 0), (0, 0, 0))
    pen.text((46, 70), "!", (0, 0, 0), font=font(16))
    pen.text((90, 60), "Replace the file by", (0, 0, 0), font=font(13))
    pen.text((90, 80), "the one of 12 May?", (0, 0, 0), font=font(13))
    for k, word in enumerate(("Yes", "No", "Help")):
        pen.rectangle((70 + 85 * k, 135, 145 + 85 * k, 160), (230, 230, 230), (99,) * 3)
        pen.text((92 + 85 * k, 140), word, (0, 0, 0), font=font(12))
    return np.asarray(picture)


def calendar():
    picture, pen = canvas((230, 300), 255)
    for k in range(35):
        x, y = 6 + 41 * (k % 7), 30 + 39 * (k // 7)
        pen.rectangle((x, y, x + 41, y + 39), 225 if k % 7 > 4 else 255, 120)
        pen.text((x + 4, y + 3), str(k % 31 + 1), 0, font=font(13))
    pen.text((100, 6), "October", 0, font=font(18, "DejaVuSerif-Bold.ttf"))
    return np.asarray(picture)


def receipt():
    rng = np.random.default_rng(40)
    picture, pen = canvas((300, 200), 250)
    pen.fontmode = "1"
    letters = font(11, "DejaVuSansMono.ttf")
    for k, word in enumerate("milk bread apples rice tea salt soap total".split()):
        pen.text((10, 20 + 30 * k), f"{word:<14}{rng.uniform(1, 30):6.2f}", 30, letters)
    return np.asarray(picture)


def formula():
    """Return mathematics as it is typeset."""

    def draw(axes):
        axes.axis("off")
        axes.text(0.05, 0.7, r"$\sum_{k=1}^{n} k^2 = \frac{n(n+1)(2n+1)}{6}$", size=20)
        axes.text(0.05, 0.3, r"$\int_0^\infty e^{-x^2}dx = \sqrt{\pi}\,/\,2$", size=20)

    return figure(draw)[..., 0]


def histogram():
    values = np.random.default_rng(41).standard_normal(2000)
    return figure(lambda axes: axes.hist(values, 40, ec="white"))


def pie():
    return figure(lambda axes: axes.pie([3, 5, 2, 7, 1], labels=list("abcde")))


def polar():
    """Return a curve with error bars, and a shaded band."""
    rng = np.random.default_rng(42)

    def draw(axes):
        t = np.arange(12)
        axes.errorbar(t, np.sqrt(t), rng.random(12), fmt="s-", capsize=3)
        axes.fill_between(t, np.sqrt(t) - 1, np.sqrt(t) + 1, alpha=0.2)
        axes.set_yscale("symlog")

    return figure(draw)


def arrows():
    i, j = np.mgrid[-2:2:14j, -2:2:14j]
    return figure(lambda axes: axes.quiver(j, i, -i, j))


def tree():
    """Return a binary tree of lines."""
    picture, pen = canvas((260, 320), (255, 255, 255))

    def grow(x, y, length, depth):
        if not depth:
            pen.ellipse((x - 3, y - 3, x + 3, y + 3), (200, 60, 60))
            return
        for side in (-1, 1):
            u, v = x + side * length, y + 38
            pen.line((x, y, u, v), (60, 60, 160))
            grow(u, v, length / 2, depth - 1)

    grow(160, 15, 75, 6)
    return np.asarray(picture)


def floor_plan():
    picture, pen = canvas((240, 320), 255)
    for box in ((10, 10, 150, 120), (150, 10, 310, 80), (10, 120, 110, 230)):
        pen.rectangle(box, None, 0, 3)
    pen.rectangle((110, 80, 310, 230), None, 0, 3)
    pen.line((60, 119, 95, 119), 255, 5)
    pen.arc((60, 85, 130, 155), 180, 270, 0)
    for x, y, word in ((50, 55, "kitchen"), (205, 40, "bath"), (180, 150, "room")):
        pen.text((x, y), word, 0, font=font(12))
    return np.asarray(picture)


def underground():
    """Return lines of a network with stops and names, anti-aliased."""
    picture, pen = canvas((840, 1080), (255, 255, 255))
    inks = ((220, 36, 31), (0, 120, 42), (0, 25, 168), (255, 211, 41))
    for k, ink in enumerate(inks):
        y = 150 + 160 * k
        path = [(60, y), (420, y), (600, y + 120 * (-1) ** k), (1020, y)]
        pen.line(path, ink, 15, joint="curve")
        for x in (120, 270, 390, 840, 960):
            pen.ellipse((x - 13, y - 13, x + 13, y + 13), (255, 255, 255), (0, 0, 0), 5)
            name = "Oak Elm Ash Fir Yew".split()[x % 5]
            pen.text((x - 20, y + 20), name, "black", font(33))
    return reduced(picture, 3)


def contour_map():
    """Return lines of equal height on a pale background."""
    height = blobs(240, 280, 43, 16) / 18
    band = height.astype(int)
    edge = np.zeros(band.shape, bool)
    edge[:-1] |= band[:-1] != band[1:]
    edge[:, :-1] |= band[:, :-1] != band[:, 1:]
    out = np.full((*band.shape, 3), (238, 236, 220), np.uint8)
    out[band > 8] = (210, 225, 190)
    out[edge] = (160, 110, 60)
    return out


def weave():
    """Return threads over and under."""
    i, j = np.mgrid[:192, :192]
    over = (i // 6 + 2 * (j // 6)) % 5 < 2
    shade = np.where(over, np.abs(i % 6 - 2.5), np.abs(j % 6 - 2.5))
    out = np.where(over, 180, 90) - 20 * shade
    return out.astype(np.uint8)


def bricks():
    i, j = np.mgrid[:200, :260]
    shift = (i // 16) % 2 * 16
    mortar = (i % 16 < 2) | ((j + shift) % 32 < 2)
    out = np.where(mortar[..., None], (200, 200, 195), (150, 70, 50))
    return out.astype(np.uint8)


def hexagons():
    rng = np.random.default_rng(44)
    picture, pen = canvas((250, 280), (255, 255, 255))
    for row in range(9):
        for k in range(10):
            x, y = 30 * k + 15 * (row % 2), 27 * row + 10
            corners = [
                (x + 17 * np.sin(a), y + 17 * np.cos(a)) for a in np.arange(6) * 1.0472
            ]
            pen.polygon(corners, ((90, 160, 220), (240, 200, 90))[rng.integers(2)], 0)
    return np.asarray(picture)


def automaton(rule=110):
    """Return the rows of a cellular automaton."""
    rows = [np.random.default_rng(45).random(200) < 0.5]
    for _ in range(159):
        last = rows[-1].astype(int)
        number = 4 * np.roll(last, 1) + 2 * last + np.roll(last, -1)
        rows.append((rule >> number) & 1 > 0)
    return np.where(np.array(rows), 0, 255).astype(np.uint8)


def maze():
    """Return a maze of walls of three pixels."""
    rng = np.random.default_rng(46)
    wall = np.ones((61, 61), bool)
    stack = [(1, 1)]
    wall[1, 1] = False
    while stack:
        i, j = stack[-1]
        ways = [(i + 2, j), (i - 2, j), (i, j + 2), (i, j - 2)]
        free = [(u, v) for u, v in ways if 0 < u < 60 and 0 < v < 60 and wall[u, v]]
        if not free:
            stack.pop()
            continue
        u, v = free[rng.integers(len(free))]
        wall[u, v] = wall[(i + u) // 2, (j + v) // 2] = False
        stack.append((u, v))
    return np.where(wall, 20, 240).astype(np.uint8).repeat(4, 0).repeat(4, 1)


def weak_text():
    return page((200, 320), 14, (200, 205, 210), (150, 155, 170), "DejaVuSans-Bold.ttf")


def vertical_text():
    return np.ascontiguousarray(page((320, 220), 13, 245, 35, "DejaVuSerif.ttf").T)


def subtitle():
    """Return white letters with black rims on a gradient."""
    picture, pen = canvas((120, 400), (0, 0, 0))
    for x in range(400):
        pen.line((x, 0, x, 119), (20 + x // 4, 60, 140 - x // 8))
    pen.text((40, 70), "And then, at last, it rained.", (255,) * 3, font(22), **RIM)
    return np.asarray(picture)


RIM = {"stroke_width": 2, "stroke_fill": (0, 0, 0)}


def emblem():
    """Return discs and a star, anti-aliased."""
    picture, pen = canvas((720, 720), (255, 255, 255))
    for r, ink in ((330, (0, 60, 130)), (280, (255, 255, 255)), (230, (200, 30, 40))):
        pen.ellipse((360 - r, 360 - r, 360 + r, 360 + r), ink)
    turn = np.arange(10) * np.pi / 5
    reach = np.where(np.arange(10) % 2, 80, 200)
    star = [
        (360 + r * np.sin(t), 360 - r * np.cos(t))
        for r, t in zip(reach, turn, strict=True)
    ]
    pen.polygon(star, (255, 220, 0))
    return reduced(picture, 3)


def icons():
    """Return sixteen icons in a row of boxes."""
    rng = np.random.default_rng(47)
    picture, pen = canvas((140, 280), (250, 250, 250))
    for k in range(32):
        x, y = 8 + 34 * (k % 8), 6 + 34 * (k // 8)
        ink = tuple(rng.integers(30, 220, 3).tolist())
        (pen.ellipse, pen.rectangle)[k % 2]((x, y, x + 24, y + 24), ink)
        pen.line((x + 5, y + 19, x + 12, y + 6, x + 19, y + 19), (255, 255, 255), 2)
    return np.asarray(picture)


def segments():
    """Return a segment display, as bool."""
    picture, pen = canvas((110, 300), 0)
    shown = "1110111 0010010 1011101 1011011 0111010 1101011".split()
    for k, bits in enumerate(shown):
        x = 12 + 48 * k
        places = (
            *((x, 10, x + 30, 15), (x, 10, x + 5, 55), (x + 25, 10, x + 30, 55)),
            *((x, 50, x + 30, 55), (x, 55, x + 5, 100), (x + 25, 55, x + 30, 100)),
            (x, 95, x + 30, 100),
        )
        for bit, place in zip(bits, places, strict=True):
            if bit == "1":
                pen.rectangle(place, 255)
    return np.asarray(picture) > 0


def wave():
    """Return the screen of an oscilloscope."""
    picture, pen = canvas((200, 320), (0, 20, 0))
    for k in range(0, 320, 32):
        pen.line((k, 0, k, 199), (0, 70, 0))
        pen.line((0, k * 200 // 320, 319, k * 200 // 320), (0, 70, 0))
    t = np.arange(320)
    y = 100 - 70 * np.sin(t / 17) * np.cos(t / 60)
    pen.line(list(zip(t.tolist(), y.tolist(), strict=True)), (80, 255, 80), 2)
    return np.asarray(picture)


def sixteen_greys():
    return (dithered(blobs(160, 220, 48, 25), 16) // 17 * 17).astype(np.uint8)


def posterised():
    from skimage import data

    return (data.coffee()[100:300, 150:390] // 64 * 85).astype(np.uint8)


def comic():
    """Return dots of colour in areas with black outlines."""
    i, j = np.mgrid[:220, :260]
    dot = (i % 8 - 3.5) ** 2 + (j % 8 - 3.5) ** 2 < 6
    face = (i - 110) ** 2 + (j - 130) ** 2 < 80**2
    rim = face & ((i - 110) ** 2 + (j - 130) ** 2 > 77**2)
    out = np.full((220, 260, 3), (255, 240, 80), np.uint8)
    out[face] = (255, 255, 255)
    out[face & dot] = (230, 60, 60)
    out[rim] = (0, 0, 0)
    return out


def segmentation():
    """Return cells, each with its own number, in 16 bits."""
    rng = np.random.default_rng(49)
    places = rng.random((60, 2)) * 220
    i, j = np.mgrid[:220, :220]
    far = np.hypot(i[..., None] - places[:, 0], j[..., None] - places[:, 1])
    label = far.argmin(2) + 1
    label[np.diff(np.sort(far, 2)[..., :2], axis=2)[..., 0] < 3] = 0
    return label.astype(np.uint16)


def mask():
    return blobs(200, 240, 50, 9) > 140


def ellipses():
    """Return a phantom of ellipses in double precision."""
    i, j = np.mgrid[-1:1:180j, -1:1:180j]
    out = np.zeros((180, 180))
    for y, x, a, b, v in ((0, 0, 0.9, 0.7, 0.3), (0.2, 0.3, 0.2, 0.3, 0.4)):
        out[((i - y) / a) ** 2 + ((j - x) / b) ** 2 < 1] += v
    out[(i + 0.3) ** 2 + (j + 0.2) ** 2 < 0.02] += 0.25
    return out


def chessboard():
    """Return a board with letters and numbers beside it, and men as discs."""
    picture, pen = canvas((240, 240), (255, 255, 255))
    rng = np.random.default_rng(51)
    for k in range(64):
        x, y = 20 + 26 * (k % 8), 6 + 26 * (k // 8)
        dark = (k + k // 8) % 2
        pen.rectangle(
            (x, y, x + 25, y + 25), (181, 136, 99) if dark else (240, 217, 181)
        )
        if rng.random() < 0.3:
            pen.ellipse((x + 6, y + 6, x + 19, y + 19), (20, 20, 20), (250, 250, 250))
        if k < 8:
            pen.text((x + 9, 220), "abcdefgh"[k], (0, 0, 0), font=font(12))
            pen.text((6, 12 + 26 * k), str(8 - k), (0, 0, 0), font=font(12))
    return np.asarray(picture)


KINDS = {
    "keyboard": keyboard,
    "dialogue": dialogue,
    "calendar": calendar,
    "receipt": receipt,
    "formula": formula,
    "histogram": histogram,
    "pie": pie,
    "error bars": polar,
    "arrows": arrows,
    "tree": tree,
    "floor plan": floor_plan,
    "underground": underground,
    "contour map": contour_map,
    "weave": weave,
    "bricks": bricks,
    "hexagons": hexagons,
    "automaton": automaton,
    "maze": maze,
    "weak text": weak_text,
    "vertical text": vertical_text,
    "subtitle": subtitle,
    "emblem": emblem,
    "icons": icons,
    "segments": segments,
    "oscilloscope": wave,
    "sixteen greys": sixteen_greys,
    "posterised": posterised,
    "comic": comic,
    "segmentation": segmentation,
    "mask": mask,
    "ellipses": ellipses,
    "chessboard": chessboard,
}
