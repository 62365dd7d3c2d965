"""Illumination of a frame: smooth fields of light, and the robust fit of a frame.

A frame is regressed on the background image, its patterns and the modes of light, from
samples of the pixels and with weights that fall with the residual, so that objects in
front do not move the fit. Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.core.jit import njit
from discrepant.core.linalg import Array
from discrepant.video.model.background_kernels import FAST, ONE

CONVERGED = 1e-5  # squared step, in sigmas and per sample, that changes no mask


class Illumination:
    """Smooth fields of light and a tint: one factor for each channel.

    The fields are products of a few cosines down and across. `column_modes` has an
    entry for each value of a row, channel by channel.
    """

    def __init__(self, shape: tuple[int, ...], modes: tuple[int, int]) -> None:
        height, width, channels = shape
        self.down = _cosines(height, modes[0])
        self._across = _cosines(width, modes[1]).astype(np.float32)
        self._tints = _cosines(channels, channels)[1:].astype(np.float32)
        self.column_modes = np.concatenate(
            [
                np.repeat(self._across, channels, axis=1),
                np.tile(self._tints, (1, width)),
            ]
        )
        self.shape = modes

    def at(self, rows: Array, columns: Array) -> Array:
        """Return all modes but the constant one at some pixels: one row per mode.

        A pixel has a value for each channel.
        """
        both = self.down[:, None, rows] * self._across[None][:, :, columns]
        fields = both.reshape(-1, len(rows))[1:]
        per_value = np.repeat(fields, self._tints.shape[1], axis=1)
        return np.concatenate([per_value, np.tile(self._tints, (1, len(rows)))])

    def row_gains(self, gain: float, modes: Array | None) -> Array:
        """Return, for each row of the image, the coefficients of `column_modes`.

        `modes` are the coefficients of the modes of `at`; None is even light.
        """
        height = self.down.shape[1]
        if modes is None:
            return np.full((height, 1), gain, np.float32)
        count = self.shape[0] * self.shape[1]
        table = np.concatenate([[gain], modes[: count - 1]]).reshape(self.shape)
        tints = np.tile(modes[count - 1 :], (height, 1))
        gains = np.concatenate([self.down.T @ table, tints], axis=1)
        return np.ascontiguousarray(gains.astype(np.float32))


def _cosines(size: int, count: int) -> Array:
    positions = (np.arange(size) + 0.5) / size
    return np.asarray(np.cos(np.pi * np.arange(count)[:, None] * positions))


@njit(**FAST)
def robust_fit(basis, values, ridge, c):
    """Fit coefficients of basis vectors, one per row, robustly and in place.

    Absolute errors first, which converge from any start, then a redescending loss.
    The ridge is towards the start. Returns the residuals.
    """
    start = c.copy()
    ninth, weighted = np.float32(1 / 9), np.empty_like(basis)
    weight, residual = np.empty_like(values), np.empty_like(values)
    _subtract_fit(basis, values, c, residual)
    for redescending, iterations in ((False, 5), (True, 4)):
        for _ in range(iterations):
            if redescending:
                for i in range(len(weight)):
                    root = ONE / (ONE + ninth * residual[i] * residual[i])
                    weight[i] = root * root
            else:
                for i in range(len(weight)):
                    weight[i] = ONE / max(abs(residual[i]), ONE)
            for j in range(len(basis)):
                for i in range(len(weight)):
                    weighted[j, i] = weight[i] * basis[j, i]
            G = np.dot(weighted, basis.T).astype(np.float64)
            g = np.dot(weighted, residual).astype(np.float64) + ridge * (start - c)
            for j in range(len(c)):
                G[j, j] += ridge[j] + 1e-9
            step = np.linalg.solve(G, g)
            c += step
            _subtract_fit(basis, values, c, residual)
            if np.dot(step, g) < CONVERGED * len(values):
                break
    return residual


@njit(**FAST)
def _subtract_fit(basis, values, c, out):
    """Fill values minus the fit of some coefficients."""
    out[:] = values
    for j in range(len(c)):
        coefficient, row = np.float32(c[j]), basis[j]
        for i in range(len(out)):
            out[i] -= coefficient * row[i]
