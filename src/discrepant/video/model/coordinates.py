"""Where a frame lies: its coordinates in the background, and the light on it.

Both come from samples of the pixels, by robust regression: what is in front does not
move the background. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit
from discrepant.video.model.background_kernels import EXACT, FAST, ONE, ZERO

STILL = 1e-5  # squared step, in sigmas and for each sample, that moves no mask


@njit(**EXACT)
def sampled(images, places, noise, out):
    """Fill the samples of images, one row each, in units of their noise."""
    channels = images.shape[3]
    flat = images.reshape(len(images), -1)
    for j in range(len(images)):
        for i in range(len(places)):
            for k in range(channels):
                n = i * channels + k
                out[j, n] = flat[j, places[i] * channels + k] / noise[n]


@njit(**FAST)
def shown(modes, plate, away, out):
    """Fill the plate in modes of light; return the most that shows, and squares."""
    square = np.full(len(modes), 1e-9)
    power, three = 0.0, np.float32(3)
    for j in range(len(modes)):
        cross, own = ZERO, ZERO
        wave, mode = out[j], modes[j]
        for i in range(len(plate)):
            wave[i] = mode[i] * plate[i]
            cross += wave[i] * min(max(away[i], -three), three)
            own += wave[i] * wave[i]
        square[j] += own
        power = max(power, cross * cross / square[j])
    return power, square


@njit(**FAST)
def coordinates(basis, values, ridge, c):
    """Move to the robust coordinates of values in a basis, one row a vector.

    Absolute errors first, which any start survives, then errors that count less the
    farther out they lie. Returns the residuals.
    """
    start = c.copy()
    weighed = np.empty_like(basis)
    away = _left(basis, values, c)
    for near, turns in ((False, 5), (True, 4)):
        for _ in range(turns):
            _weigh(basis, away, near, weighed)
            G = np.dot(weighed, basis.T).astype(np.float64)
            g = np.dot(weighed, away).astype(np.float64) + ridge * (start - c)
            for j in range(len(c)):
                G[j, j] += ridge[j] + 1e-9
            step = np.linalg.solve(G, g)
            c += step
            away = _left(basis, values, c)
            if np.dot(step, g) < STILL * len(values):
                break
    return away


@njit(**FAST)
def _left(basis, values, c):
    """Return what coordinates leave of values."""
    out = values.copy()
    for j in range(len(c)):
        part, row = np.float32(c[j]), basis[j]
        for i in range(len(out)):
            out[i] -= part * row[i]
    return out


@njit(**FAST)
def _weigh(basis, away, near, out):
    """Fill a basis whose values count less the farther out they lie."""
    weight = np.empty_like(away)
    if near:
        ninth = np.float32(1 / 9)
        for i in range(len(away)):
            part = ONE / (ONE + ninth * away[i] * away[i])
            weight[i] = part * part
    else:
        for i in range(len(away)):
            weight[i] = ONE / max(abs(away[i]), ONE)
    for j in range(len(basis)):
        row, of = out[j], basis[j]
        for i in range(len(weight)):
            row[i] = weight[i] * of[i]
