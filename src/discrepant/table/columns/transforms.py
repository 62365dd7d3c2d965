"""Monotone transforms of columns to standard normal units, and their choice.

A transform is chosen in two steps: first by the normal Q–Q plot of the column alone
(`choose_by_quantiles`), then for all columns jointly, by likelihood (`choose_jointly`).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from discrepant.core.linalg import Array

# Constants without a derivation were chosen on the development tables of
# ``python benchmarks/tables.py dev``.

# Exponents beyond which exp() of a float64 overflows.
MAX_EXPONENT = 700.0
# Quantile levels whose distance measures the scale of a column, innermost first: the
# next one is used where the inner quantiles coincide.
SCALE_TAILS = (0.25, 0.159, 0.1, 0.05, 0.02)
# The Q–Q plot compares the quantiles from this level to 1 minus this level.
CENTRAL_TAIL = 0.12
# Exponents of the Yeo–Johnson transforms that are tried.
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.25, 1.5)
# A nonlinear transform must leave less than this fraction of the identity's misfit.
MAX_MISFIT_RATIO = 0.6
# Misfit 1 − r² times the number of rows which one normal column in a hundred exceeds by
# chance: 2.6 to 3.5 for 40 to 3000 rows and either tail, in 300 simulations each.
CHANCE_MISFIT = 3.0
# Log-odds that a value gains beyond the usual range of its column: TAIL_EXPONENT ·
# log(1 + excess / TAIL_UNIT), with the excess relative to the distance from the median
# to the end of that range.
TAIL_EXPONENT, TAIL_UNIT = 0.8, 0.2
# Coordinate-ascent sweeps over the columns in the joint choice.
SWEEPS = 2
# Rows used by the joint choice.
JOINT_ROWS = 1000
# Rows that a column needs to take part in the joint choice.
MIN_JOINT_ROWS = 20
# Log-likelihood that a nonlinear transform must gain over the identity, in all.
MIN_GAIN = 4.0
# The same per cell.
MIN_GAIN_PER_CELL = 0.02
# Degrees of freedom of the residuals' Student distribution: some cells are corrupted
# and not excluded.
DEGREES_OF_FREEDOM = 4.0
# Fixed-point iterations for the scale of that distribution.
SCALE_ITERATIONS = 8
# Ridge penalty of the regression on the other columns, relative to their variances.
RIDGE = 0.01


@dataclass(frozen=True)
class ColumnTransform:
    """The kind of a numeric column, and its transform to standard units and back.

    Attributes
    ----------
    kind : str
        "numbers", "few values" (predicts other columns; its cells are flagged only
        outside of its valid range), "identifier", "constant" or "empty". The last three
        are not modelled.
    shape : str
        "identity", "power" (Yeo–Johnson, of the centred value) or "log" (signed).
    parameter : float
        The exponent, or the size below which the signed logarithm is linear.
    raw_median, raw_scale : float
        Median and robust scale before the transform.
    median, scale : float
        Median and robust scale after the transform.
    rounding_sd : float
        Standard deviation of the rounding error in standard units: step / √12.
    point_mass, point_mass_fraction : float
        A value that many cells share beside a continuous rest (no rain at all).
    low, high : float
        Range that predictions are clipped to, in the column's unit.
    usual_low, usual_high : float
        Range outside of which values are suspect; see `tail_log_odds`.
    lowest, highest : float
        Range that intervals are clipped to: 0 is an end of it if the column has no
        negative values, or no positive ones.
    """

    kind: str
    shape: str = "identity"
    parameter: float = 1.0
    raw_median: float = 0.0
    raw_scale: float = 1.0
    median: float = 0.0
    scale: float = 1.0
    rounding_sd: float = 0.0
    point_mass: float = np.nan
    point_mass_fraction: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    usual_low: float = -np.inf
    usual_high: float = np.inf
    lowest: float = -np.inf
    highest: float = np.inf

    @property
    def is_modelled(self) -> bool:
        """Whether the column is part of the model of the rows."""
        return self.kind in ("numbers", "few values")

    def standardise(self, values: Array) -> Array:
        """Return values in standard units."""
        with np.errstate(over="ignore"):
            return np.asarray((self.transform(values) - self.median) / self.scale)

    def from_standard(self, standard: Array) -> Array:
        """Return values in the column's unit, clipped to its range."""
        with np.errstate(over="ignore"):
            values = self._inverse(standard * self.scale + self.median)
        return np.asarray(np.clip(values, self.low, self.high))

    def transform(self, values: Array) -> Array:
        """Transform values, before they are centred and scaled."""
        if self.shape == "log":
            size = np.log1p(np.abs(values) / self.parameter)
            return np.asarray(np.sign(values) * size)
        centred = (values - self.raw_median) / self.raw_scale
        if self.shape == "identity":
            return centred
        return yeo_johnson(centred, self.parameter)

    def log_derivative(self, values: Array) -> Array:
        """Return the logarithm of the derivative of `transform`."""
        if self.shape == "log":
            return np.asarray(-np.log(self.parameter + np.abs(values)))
        centred = (values - self.raw_median) / self.raw_scale
        size = np.log1p(np.abs(centred)) * np.where(centred < 0, -1.0, 1.0)
        slope = (self.parameter - 1) * size if self.shape == "power" else 0.0 * size
        return np.asarray(slope - np.log(self.raw_scale))

    def tail_log_odds(self, values: Array) -> Array:
        """Return the log-odds of being corrupted that values gain in the tails.

        A transform extrapolates: ten times the largest value of a column on a
        logarithmic scale is a few standard deviations off. Beyond the usual range, the
        density of clean values falls faster.
        """
        end = np.clip(values, self.usual_low, self.usual_high)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            excess = np.abs((values - end) / (end - self.raw_median))
        excess = np.nan_to_num(np.minimum(excess, 1e9))
        return np.asarray(TAIL_EXPONENT * np.log1p(excess / TAIL_UNIT))

    def _inverse(self, transformed: Array) -> Array:
        if self.shape == "log":
            size = np.expm1(np.minimum(np.abs(transformed), MAX_EXPONENT))
            return np.asarray(np.sign(transformed) * self.parameter * size)
        if self.shape == "power":
            transformed = inverse_yeo_johnson(transformed, self.parameter)
        return transformed * self.raw_scale + self.raw_median


def yeo_johnson(x: Array, exponent: float) -> Array:
    """Return Yeo and Johnson's power transform (Biometrika 2000, equation 2.1)."""
    up, down = np.maximum(x, 0), np.maximum(-x, 0)
    return np.asarray(_power(up, exponent) - _power(down, 2 - exponent))


def inverse_yeo_johnson(y: Array, exponent: float) -> Array:
    """Invert `yeo_johnson`; beyond the image of a bounded side, return its end."""
    up, down = np.maximum(y, 0), np.maximum(-y, 0)
    back = _inverse_power(up, exponent) - _inverse_power(down, 2 - exponent)
    return np.asarray(back)


def _power(x: Array, exponent: float) -> Array:
    if exponent == 0:
        return np.asarray(np.log1p(x))
    return np.asarray(((1 + x) ** exponent - 1) / exponent)


def _inverse_power(y: Array, exponent: float) -> Array:
    if exponent == 0:
        return np.asarray(np.expm1(np.minimum(y, MAX_EXPONENT)))
    return np.asarray(np.maximum(1 + exponent * y, 0) ** (1 / exponent) - 1)


def robust_scale(values: Array) -> float:
    """Return the innermost interquantile range that is not zero, as a normal sd."""
    for tail in SCALE_TAILS:
        low, high = np.quantile(values, [tail, 1 - tail])
        if high > low:
            return float(high - low) / float(-2 * ndtri(tail))
    return float(np.std(values))


def candidate_transforms(values: Array) -> list[tuple[str, float]]:
    """Return the nonlinear transforms to choose from, as (shape, parameter)."""
    shapes: list[tuple[str, float]] = [("power", exponent) for exponent in EXPONENTS]
    low = float(np.quantile(values, 0.07))
    if low > 0:
        shapes.append(("log", low / 3))
    return shapes


def choose_by_quantiles(values: Array, tail: float) -> ColumnTransform:
    """Choose the transform with the straightest central normal Q–Q plot.

    Parameters
    ----------
    values : array
        Finite values of one column.
    tail : float
        The quantiles from this level to 1 minus this level are compared.
    """
    median, scale = float(np.median(values)), robust_scale(values)
    best = ColumnTransform("numbers", raw_median=median, raw_scale=scale)
    identity_misfit = qq_misfit(best, values, tail)
    lowest = MAX_MISFIT_RATIO * identity_misfit
    significant = identity_misfit * len(values) > CHANCE_MISFIT
    for shape, parameter in candidate_transforms(values) if significant else []:
        candidate = ColumnTransform("numbers", shape, parameter, median, scale)
        misfit = qq_misfit(candidate, values, tail)
        if misfit < lowest:
            best, lowest = candidate, misfit
    return _with_scale(best, values)


def qq_misfit(transform: ColumnTransform, values: Array, tail: float) -> float:
    """Return 1 − r² of the transformed central quantiles against normal ones."""
    levels = np.linspace(tail, 1 - tail, 41)
    transformed = transform.transform(np.quantile(values, levels))
    if np.ptp(transformed) == 0:
        return 1.0
    return float(1 - np.corrcoef(transformed, ndtri(levels))[0, 1] ** 2)


def choose_jointly(
    filled: Array, kept: Array, transforms: list[ColumnTransform]
) -> list[ColumnTransform]:
    """Choose the columns' transforms by the likelihood of whole rows.

    A transform that makes one column normal may bend a linear relation: a column that
    switches between two states is not normal, and yet a sum of its causes. As det Σ is
    the variance of one column given the others times the determinant of the rest, the
    best transform of a column, the others' fixed, has the smallest log deviation around
    the others' prediction, less its own log derivative.

    Coordinate ascent starts from the given transforms and from identities, since one
    column of a sum cannot be made linear alone; the likelier end is returned.

    Parameters
    ----------
    filled : array (n, p)
        Values; excluded and missing cells hold their prediction.
    kept : bool array (n, p)
        Cells that are neither excluded nor missing.
    transforms : list of ColumnTransform
        The present transforms.
    """
    step = -(-len(filled) // JOINT_ROWS)
    filled, kept = filled[::step], kept[::step]
    free = [
        k
        for k, transform in enumerate(transforms)
        if transform.kind == "numbers" and _varies(filled[kept[:, k], k])
    ]
    identities = list(transforms)
    for k in free:
        identity = replace(transforms[k], shape="identity", parameter=1.0)
        identities[k] = _with_scale(identity, filled[kept[:, k], k])
    ends = [
        _coordinate_ascent(filled, kept, start, free)
        for start in (transforms, identities)
    ]
    return max(ends, key=lambda end: end[0])[1]


def _varies(values: Array) -> bool:
    return len(values) >= MIN_JOINT_ROWS and bool(np.ptp(values) > 0)


def _coordinate_ascent(
    filled: Array, kept: Array, transforms: list[ColumnTransform], free: list[int]
) -> tuple[float, list[ColumnTransform]]:
    """Choose one transform at a time; return log-likelihood per row and transforms."""
    transforms = list(transforms)
    Z = np.column_stack(
        [transform.standardise(filled[:, k]) for k, transform in enumerate(transforms)]
    )
    Z -= Z.mean(axis=0)
    for _ in range(SWEEPS):
        before = list(transforms)
        for k in free:
            others = np.delete(Z, k, axis=1)
            transforms[k] = _choose_given_others(
                filled[:, k], kept[:, k], others, transforms[k]
            )
            Z[:, k] = transforms[k].standardise(filled[:, k])
            Z[:, k] -= Z[:, k].mean()
        if transforms == before:
            break
    total = 0.0
    for k in free:  # the density of a row is that of each cell given those before it
        rows = kept[:, k]
        residual = _regression_residuals(Z[rows, k, None], Z[:, :k], rows)
        slope = transforms[k].log_derivative(filled[rows, k]).mean()
        total += float(
            _mean_log_density(residual)[0] + slope - np.log(transforms[k].scale)
        )
    return total, transforms


def _choose_given_others(
    values: Array, rows: Array, others: Array, transform: ColumnTransform
) -> ColumnTransform:
    kept = values[rows]
    identity = replace(transform, shape="identity", parameter=1.0)
    candidates = [
        identity,
        *(
            replace(identity, shape=shape, parameter=parameter)
            for shape, parameter in candidate_transforms(kept)
        ),
    ]
    transformed = np.column_stack([c.transform(kept) for c in candidates])
    residuals = _regression_residuals(
        transformed - transformed.mean(axis=0), others, rows
    )
    gains = _mean_log_density(residuals)
    gains += [c.log_derivative(kept).mean() for c in candidates]
    gains[1:] -= max(MIN_GAIN / len(kept), MIN_GAIN_PER_CELL)
    return _with_scale(candidates[int(np.argmax(gains))], kept)


def _with_scale(transform: ColumnTransform, values: Array) -> ColumnTransform:
    """Return a transform with median and scale of its transformed values."""
    transformed = transform.transform(values)
    return replace(
        transform,
        median=float(np.median(transformed)),
        scale=robust_scale(transformed),
    )


def _regression_residuals(Y: Array, others: Array, rows: Array) -> Array:
    """Return residuals of columns, in some rows, after ridge regression on others."""
    if not others.shape[1]:
        return Y
    gram = others.T @ others / len(others)
    gram += np.diag(RIDGE * np.diag(gram) + 1e-9)
    used = others[rows]
    return np.asarray(Y - used @ np.linalg.solve(gram, used.T @ Y / len(used)))


def _mean_log_density(residual: Array) -> Array:
    """Return each column's mean log density under a Student law of its own scale."""
    nu, square = DEGREES_OF_FREEDOM, residual * residual
    scale = np.median(square, axis=0) / 0.455 + 1e-24  # 0.455: the median of χ²
    for _ in range(SCALE_ITERATIONS):
        weight = (nu + 1) / (nu + square / scale)
        scale = np.mean(weight * square, axis=0) + 1e-24
    tail = np.log1p(square / (nu * scale)).mean(axis=0)
    return np.asarray(-0.5 * np.log(scale) - 0.5 * (nu + 1) * tail)
