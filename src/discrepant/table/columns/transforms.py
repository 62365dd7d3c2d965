"""The monotone map of each column that makes its middle look normal, and back."""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array

TOP = 700.0  # exp of more overflows


@dataclass(frozen=True)
class Column:
    """What a column of numbers is, and its map to standard units and back.

    Attributes
    ----------
    kind : str
        "numeric", "few levels" (it speaks of the others, and is never flagged for its
        company), "identifier", "constant" or "empty"; the last three are set aside.
    shape : str
        "identity", "power" (Yeo and Johnson's, of the centred value) or "log" (signed).
    parameter : float
        The power, or the size below which the signed log is linear.
    middle, spread : float
        Median and spread before the map.
    centre, scale : float
        Median and spread after the map.
    grain : float
        Deviation of rounding in standard units: a column's step / √12.
    atom, atom_share : float
        A value that many cells share beside a continuous rest (no rain at all).
    low, high : float
        Range that predictions are kept within, in the column's unit.
    """

    kind: str
    shape: str = "identity"
    parameter: float = 1.0
    middle: float = 0.0
    spread: float = 1.0
    centre: float = 0.0
    scale: float = 1.0
    grain: float = 0.0
    atom: float = np.nan
    atom_share: float = 0.0
    low: float = -np.inf
    high: float = np.inf

    @property
    def modelled(self) -> bool:
        """Whether the column says something of others."""
        return self.kind in ("numeric", "few levels")

    def forward(self, values: Array) -> Array:
        """Map values to standard units."""
        with np.errstate(over="ignore"):
            return np.asarray((self.bend(values) - self.centre) / self.scale)

    def backward(self, standard: Array) -> Array:
        """Map standard units to values, kept within the column's range."""
        with np.errstate(over="ignore"):
            bent = self._unbend(standard * self.scale + self.centre)
        return np.asarray(np.clip(bent, self.low, self.high))

    def bend(self, values: Array) -> Array:
        """Map values, before they are centred and scaled."""
        if self.shape == "log":
            size = np.log1p(np.abs(values) / self.parameter)
            return np.asarray(np.sign(values) * size)
        centred = (values - self.middle) / self.spread
        return centred if self.shape == "identity" else power(centred, self.parameter)

    def log_slope(self, values: Array) -> Array:
        """Log of the derivative of `bend`."""
        if self.shape == "log":
            return np.asarray(-np.log(self.parameter + np.abs(values)))
        centred = (values - self.middle) / self.spread
        size = np.log1p(np.abs(centred)) * np.where(centred < 0, -1.0, 1.0)
        bent = (self.parameter - 1) * size if self.shape == "power" else 0.0 * size
        return np.asarray(bent - np.log(self.spread))

    def _unbend(self, bent: Array) -> Array:
        if self.shape == "log":
            size = np.expm1(np.minimum(np.abs(bent), TOP))
            return np.asarray(np.sign(bent) * self.parameter * size)
        if self.shape == "power":
            bent = power_back(bent, self.parameter)
        return bent * self.spread + self.middle


def power(x: Array, exponent: float) -> Array:
    """Yeo and Johnson's power transform (Biometrika 2000, equation 2.1)."""
    up, down = np.maximum(x, 0), np.maximum(-x, 0)
    return np.asarray(_one_side(up, exponent) - _one_side(down, 2 - exponent))


def power_back(y: Array, exponent: float) -> Array:
    """Undo `power`; beyond the image of a bounded side, its end."""
    up, down = np.maximum(y, 0), np.maximum(-y, 0)
    back = _one_side_back(up, exponent) - _one_side_back(down, 2 - exponent)
    return np.asarray(back)


def _one_side(x: Array, exponent: float) -> Array:
    if exponent == 0:
        return np.asarray(np.log1p(x))
    return np.asarray(((1 + x) ** exponent - 1) / exponent)


def _one_side_back(y: Array, exponent: float) -> Array:
    if exponent == 0:
        return np.asarray(np.expm1(np.minimum(y, TOP)))
    return np.asarray(np.maximum(1 + exponent * y, 0) ** (1 / exponent) - 1)
