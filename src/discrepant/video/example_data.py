"""A synthetic video of a street, with the mask of its cars."""

from collections.abc import Iterator

import numpy as np

from discrepant.core.linalg import Array


def street(
    count: int = 120, size: tuple[int, int] = (96, 128), random_state: int = 0
) -> tuple[Array, Array]:
    """Return a colour video of a fixed camera: a street, a tree in the wind, two cars.

    Clouds dim the light, mains light flickers, the camera has noise; the cars cast
    shadows, and one of them stops for a while.

    Parameters
    ----------
    count : int
        Number of frames.
    size : pair of int
        Rows and columns.
    random_state : int
        The same seed gives the same video.

    Returns
    -------
    frames : ndarray of uint8, (count, rows, columns, 3)
        The video.
    truth : ndarray of bool, (count, rows, columns)
        Where the cars are.
    """
    rng = np.random.default_rng(random_state)
    rows, columns = size
    street = _street(rows, columns, rng)
    y, x = np.mgrid[:rows, :columns]
    leaves = rng.standard_normal((2, rows, columns))
    crown = _crown(rows, columns)
    frames = np.empty((count, rows, columns, 3), np.uint8)
    truth = np.zeros((count, rows, columns), bool)
    for time in range(count):
        image = street.copy()
        wind = np.sin(0.9 * time) * leaves[0] + np.cos(0.7 * time) * leaves[1]
        image[crown] += np.multiply.outer(12 * wind[crown], (0.6, 1.0, 0.5))
        for colour, middle, foot, long in _cars(time, count, rows, columns):
            body = (
                (np.abs(x - middle) < long / 2) & (y < foot) & (y > foot - 0.4 * long)
            )
            roof = (
                (np.abs(x - middle) < long / 4) & (y < foot) & (y > foot - 0.65 * long)
            )
            shade = (np.abs(x - middle - 2) < long / 2) & (y >= foot) & (y < foot + 3)
            image[shade] *= 0.6
            image[body] = colour
            image[roof & ~body] = (190, 215, 225)
            truth[time] |= body | roof
        light = 1 - 0.15 * np.sin(2 * np.pi * time / 90) ** 2
        light += 0.02 * np.sin(2.4 * time)
        image = light * image + 2.5 * rng.standard_normal(image.shape)
        frames[time] = np.clip(np.rint(image), 0, 255)
    return frames, truth


def _street(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Return the street without cars."""
    y, x = np.mgrid[:rows, :columns]
    image = np.empty((rows, columns, 3))
    image[:] = (205, 215, 235)  # sky
    bricks = ((y // 4 + x // 7) % 2 * 14)[..., None] + np.array((150, 95, 75))
    building = (y > 0.2 * rows) & (x > 0.45 * columns)
    image[building] = bricks[building]
    windows = building & (y % 24 > 12) & (x % 22 > 11) & (y < 0.55 * rows)
    image[windows] = (60, 75, 90)
    image[y > 0.55 * rows] = (120, 122, 126)  # road
    image[(y > 0.55 * rows) & (y < 0.6 * rows)] = (160, 158, 150)
    image[(np.abs(y - 0.8 * rows) < 1) & (x % 20 < 10)] = (220, 220, 210)
    image[_crown(rows, columns)] = (70, 110, 55)
    texture = rng.standard_normal((rows, columns, 1))
    return np.asarray(image + 4 * texture)


def _crown(rows: int, columns: int) -> Array:
    """Return the mask of the tree's crown."""
    down, across = np.ogrid[:rows, :columns]
    return np.hypot((down / rows - 0.28) / 0.2, (across / columns - 0.2) / 0.14) < 1


def _cars(
    time: int, count: int, rows: int, columns: int
) -> Iterator[tuple[tuple[int, int, int], float, float, float]]:
    """Yield colour, middle, foot and length of each car."""
    progress = time / max(count - 1, 1)
    halt = np.interp(progress, [0, 0.35, 0.6, 1], [-0.15, 0.5, 0.5, 1.15])
    yield (175, 40, 45), halt * columns, 0.92 * rows, 0.24 * columns
    back = 1.15 - 1.3 * (2.2 * progress % 1)
    yield (35, 50, 110), back * columns, 0.74 * rows, 0.18 * columns
