"""Where a frame lies: its coordinates in the background, and the light on it.

Both come from samples of the pixels, by robust regression: what is in front does not
move the background. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.compiled import njit
from discrepant.video.kernels import EXACT, FAST, ONE, ZERO

DIMMEST = 0.05  # light that is reckoned with: less shows no plate to learn from
DARK = 8  # grey levels below which a ratio says nothing
STILL = 1e-5  # squared step, in sigmas and for each sample, that moves no mask


@njit(**FAST)
def locate(U, frame, variance, places, modes, stiff):
    """Return coordinates, those of the modes of light, and residuals of the samples.

    All samples are in units of their noise. `modes` are one row each, at the samples;
    where the light is even, none is in use.
    """
    ranks, channels = U.shape[0], U.shape[3]
    count = len(places) * channels
    noise = np.empty(count, np.float32)
    _noises(variance.reshape(2, -1), places, channels, noise)
    basis = np.empty((ranks + len(modes), count), np.float32)
    seen = np.empty((1, count), np.float32)
    _sampled(U, places, noise, basis)
    _sampled(frame.reshape(1, *frame.shape), places, noise, seen)
    plate, values = basis[0], seen[0]

    bright = plate * noise > DARK
    lit = bright.any()
    c, ridge = np.zeros((2, ranks))
    c[0] = np.median(values[bright] / plate[bright]) if lit else 1.0
    ridge[0] = 0.0 if lit else 1.0  # in the dark nothing tells the light
    away = coordinates(basis[:ranks], values, ridge, c)
    c[0] = max(c[0], DIMMEST)

    power, square = _shown(modes, plate, away, basis[ranks:])
    # A mode that is there stands out from what the noise alone would give; things in
    # front, of a few pixels in a hundred, do not.
    if power < 40 + 0.01 * count:
        return c, np.zeros(0), away
    found = np.concatenate((c, np.zeros(len(modes))))
    weak = np.concatenate((np.zeros(ranks), stiff * square))
    away = coordinates(basis, values, weak, found)
    found[0] = max(found[0], DIMMEST)
    return found[:ranks].copy(), found[ranks:].copy(), away


@njit(**EXACT)
def _noises(variance, places, channels, out):
    """Fill the standard deviation of each sample's noise."""
    share = np.float32((channels - 1) / channels)
    for i in range(len(places)):
        own = np.sqrt(variance[0, places[i]] + share * variance[1, places[i]])
        for k in range(channels):
            out[i * channels + k] = own


@njit(**EXACT)
def _sampled(images, places, noise, out):
    """Fill the samples of images, one row each, in units of the noise."""
    channels = images.shape[3]
    flat = images.reshape(len(images), -1)
    for j in range(len(images)):
        for i in range(len(places)):
            for k in range(channels):
                n = i * channels + k
                out[j, n] = flat[j, places[i] * channels + k] / noise[n]


@njit(**FAST)
def _shown(modes, plate, away, out):
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


@njit(**EXACT)
def gain(inertia, c, forget):
    """Take coordinates into their inertia; return the step of recursive LS."""
    for i in range(len(c)):
        for j in range(len(c)):
            inertia[i, j] = forget * inertia[i, j] + c[i] * c[j]
    ridge = 1e-6 * np.trace(inertia)
    return np.linalg.solve(inertia + ridge * np.eye(len(c)), c).astype(np.float32)
