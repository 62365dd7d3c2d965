"""Fit column kinds, transforms and the model of the rows to a sample of a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discrepant.cell_model.gaussian_model import (
    NEVER_FLAG,
    CellScores,
    GaussianModel,
    StandardCells,
    fit_gaussian_model,
    score_cells,
)
from discrepant.core.linalg import Array
from discrepant.core.progress import Report, StoppedError
from discrepant.core.validation import count_threads
from discrepant.table.columns.column_kind import (
    classify_column,
    find_missing_codes,
    is_whole,
    look_like_codes,
    valid_range,
)
from discrepant.table.columns.table_input import ColumnType, ParsedTable
from discrepant.table.columns.transforms import (
    ColumnTransform,
    choose_jointly,
    robust_scale,
)
from discrepant.table.model.factor_model import (
    MAX_COVARIANCE_COLUMNS,
    FactorModel,
    fit_factor_model,
)
from discrepant.table.model.value_prior import ValueFrequencyPrior

# Constants without a derivation were chosen on the development tables of
# ``python benchmarks/tables.py dev``.

# Iterations of the fit with the first transforms, and with the second ones.
ITERATIONS = (4, 6)
# The second transforms are chosen by the quantiles from this level outward.
SECOND_TAIL = 0.05
# Rows that a fit needs.
MIN_ROWS = 10
# Rows that the model is fitted to; the search over all rows is a single pass.
MAX_TRAINING_ROWS = 3000
# Fraction of a column's cells that are outside of its usual range at either end: of the
# cells that are ten times too large, one in three may escape the fit.
USUAL_TAIL = 0.02
# Absolute standard value at which cells are clipped: all that lies beyond it is equally
# improbable.
MAX_STANDARD_VALUE = 1e4
# Cells that a value needs to be one that its column may be stuck at …
MIN_STUCK_CELLS = 8
# … and how often it must occur, relative to the next frequent value …
MIN_STUCK_RATIO = 3
# … and the log-likelihood that its being stuck must gain: in 25 uncorrupted development
# tables no value gained more than 0.5, zeros aside.
MIN_STUCK_GAIN = 3.0
# In that gain, the squared distance in scales that a prediction counts for at most, and
# the smallest scale of predictions in standard units.
MAX_STUCK_SQUARE, MIN_STUCK_SCALE = 9.0, 1e-6
# Fraction of a column's cells on either side of zero below which zero is an end of its
# range, which may be reached whatever the other columns say (nothing bought, no rain).
MIN_BESIDE_ZERO = 0.1
# Explained fraction of variance below which numbers that look like codes are codes.
MIN_EXPLAINED = 0.3
# Explained fraction of variance below which columns count as independent.
INDEPENDENT_EXPLAINED = 0.02


@dataclass(frozen=True, eq=False)
class TableModel:
    """All that is needed to score a row by itself.

    Attributes
    ----------
    transforms : tuple of ColumnTransform
        One for each numeric column.
    codes : tuple of dict of float to bool
        Repeated values far outside of each column; True: codes for missing values.
    valid_ranges : tuple of (low, high)
        Outside of which cells of a column of few values are errors.
    value_priors : tuple of ValueFrequencyPrior
        One for each modelled column.
    model : GaussianModel, FactorModel or None
        None where no column can be modelled.
    training_rows : int
    """

    transforms: tuple[ColumnTransform, ...]
    codes: tuple[dict[float, bool], ...]
    valid_ranges: tuple[tuple[float, float], ...]
    value_priors: tuple[ValueFrequencyPrior, ...]
    model: GaussianModel | FactorModel | None
    training_rows: int

    @property
    def modelled(self) -> list[int]:
        """Positions of the modelled columns among the numeric ones."""
        return [j for j, column in enumerate(self.transforms) if column.is_modelled]

    @property
    def missing_codes(self) -> list[tuple[float, ...]]:
        """Codes for missing values of each column, such as −999."""
        return [
            tuple(value for value, missing in codes.items() if missing)
            if column.kind != "identifier"
            else ()
            for codes, column in zip(self.codes, self.transforms, strict=True)
        ]

    @property
    def rank(self) -> int:
        """Number of directions with more variance than independent columns have."""
        return 0 if self.model is None else self.model.rank

    @property
    def explained(self) -> Array:
        """Fraction of variance that the others explain; NaN: not modelled."""
        explained = np.full(len(self.transforms), np.nan)
        if self.model is not None:
            explained[self.modelled] = np.maximum(self.model.explained, 0.0)
        return explained

    @property
    def noise(self) -> Array:
        """Standard deviation of clean residuals in each column's unit."""
        noise = np.full(len(self.transforms), np.nan)
        if self.model is None:
            return noise
        for k, j in enumerate(self.modelled):
            unclipped = replace(self.transforms[j], low=-np.inf, high=np.inf)
            sides = self.model.residual_sd[k] * np.array([-1.0, 1.0])
            low, high = unclipped.from_standard(self.model.mean[k] + sides)
            noise[j] = (high - low) / 2
        return noise

    @property
    def columns_independent(self) -> bool:
        """Whether no column predicts another."""
        largest = np.nanmax(self.explained, initial=0.0)
        return bool(largest < INDEPENDENT_EXPLAINED)


def fit_table_model(
    parsed: ParsedTable, rng: np.random.Generator, report: Report | None
) -> TableModel:
    """Fit kinds, transforms and a cellwise-robust model to at most 3000 rows.

    Parameters
    ----------
    parsed : ParsedTable
    rng : Generator
        Draws the training rows, where there are more.
    report : callable, optional
        Receives the progress.
    """
    types = [parsed.types[j] for j in parsed.numeric_positions]
    with np.errstate(over="ignore", invalid="ignore"):  # squares of 1e200
        return _fit(parsed.values, types, rng, report)


def _fit(
    values: Array,
    types: Sequence[ColumnType],
    rng: np.random.Generator,
    report: Report | None,
) -> TableModel:
    n_jobs = count_threads(None)
    sample = sample_rows(values, rng)
    sample = np.where(np.isfinite(sample), sample, np.nan)
    codes = tuple(find_missing_codes(column) for column in values.T)
    for j, column_codes in enumerate(codes):
        sample[np.isin(sample[:, j], list(column_codes)), j] = np.nan
    kinds = _classify(sample, types)
    ranges = _exclude_invalid(sample, kinds)
    table = TableModel(tuple(kinds), codes, tuple(ranges), (), None, len(sample))
    if not table.modelled or len(sample) < MIN_ROWS:
        return table
    model: GaussianModel | FactorModel | None = None
    _report(report, 0.05)
    for number, iterations in enumerate(ITERATIONS, 1):
        priors = _value_priors(sample, table)
        table = replace(table, value_priors=priors)
        cells = standardise(sample, table)
        if len(table.modelled) > MAX_COVARIANCE_COLUMNS:
            model = fit_factor_model(cells, int(rng.integers(2**31)))
            scores = model.score(cells)
        else:
            start = model if isinstance(model, GaussianModel) else None
            model = fit_gaussian_model(cells, iterations, start, n_jobs)
            scores = score_cells(cells, model, n_jobs)
        if number == 1:
            codes_at = _unexplained_codes(sample, table, model.explained)
            if codes_at:
                types = [
                    replace(column, name_suggests_code=True)
                    if j in codes_at
                    else column
                    for j, column in enumerate(types)
                ]
                return _fit(values, types, rng, report)
            # The first transforms were chosen with the corrupted cells; choose again
            # without them.
            table = _with_stuck_values(sample, table, cells, scores)
            filled = _fill_excluded(sample, table, cells, scores)
            transforms = _reselect_transforms(sample, filled, table, cells, scores)
            table = replace(table, transforms=transforms)
            if isinstance(model, GaussianModel):
                model = model.with_moments_of(_standard_values(filled, table))
        _report(report, 0.4 * number / len(ITERATIONS))
    transforms = _with_ranges(sample, table, scores.excluded)
    return replace(table, transforms=transforms, model=model)


def _report(report: Report | None, fraction: float) -> None:
    if report is not None and not report(fraction, "fitting"):
        raise StoppedError("stopped while the model was fitted")


def sample_rows(values: Array, rng: np.random.Generator) -> Array:
    """Return the training rows: all, or a random sample of `MAX_TRAINING_ROWS`."""
    if len(values) <= MAX_TRAINING_ROWS:
        return values
    drawn = rng.permutation(len(values))[:MAX_TRAINING_ROWS]
    return values[np.sort(drawn)]


def _classify(sample: Array, types: Sequence[ColumnType]) -> list[ColumnTransform]:
    """Return the kind and first transform of each column, by its values and name."""
    kinds = [classify_column(column) for column in sample.T]
    for j, column_type in enumerate(types):
        if column_type.name_suggests_row_id and _all_differ(sample[:, j]):
            kinds[j] = ColumnTransform("identifier")
    for j, column_type in enumerate(types):
        if column_type.name_suggests_code and kinds[j].kind == "numbers":
            if is_whole(sample[:, j]):
                kinds[j] = ColumnTransform("identifier")
    return kinds


def _all_differ(column: Array) -> bool:
    finite = column[np.isfinite(column)]
    return is_whole(finite) and len(np.unique(finite)) >= 0.95 * len(finite) > 0


def _unexplained_codes(sample: Array, table: TableModel, explained: Array) -> list[int]:
    """Return the columns that look like codes and that no other column explains."""
    return [
        j
        for k, j in enumerate(table.modelled)
        if explained[k] < MIN_EXPLAINED and look_like_codes(sample[:, j])
    ]


def _exclude_invalid(
    sample: Array, kinds: list[ColumnTransform]
) -> list[tuple[float, float]]:
    """Return each column's valid range; set other cells to NaN and classify again."""
    ranges = []
    for j, kind in enumerate(kinds):
        low, high = valid_range(sample[:, j], kind)
        ranges.append((low, high))
        invalid = (sample[:, j] < low) | (sample[:, j] > high)
        if invalid.any():
            sample[invalid, j] = np.nan
            kinds[j] = classify_column(sample[:, j])
    return ranges


def _value_priors(sample: Array, table: TableModel) -> tuple[ValueFrequencyPrior, ...]:
    priors = []
    for j in table.modelled:
        values = sample[:, j]  # cells at the point mass are not scored
        rest = values[values != table.transforms[j].point_mass]
        priors.append(ValueFrequencyPrior.fit(rest))
    return tuple(priors)


def standardise(values: Array, table: TableModel) -> StandardCells:
    """Return the modelled columns in standard units."""
    modelled = table.modelled
    standard = _standard_values(values[:, modelled], table)
    clean_log_odds = np.full(standard.shape, NEVER_FLAG)
    missing = np.zeros(standard.shape, bool)
    for k, (j, prior) in enumerate(zip(modelled, table.value_priors, strict=True)):
        transform, column = table.transforms[j], values[:, j]
        missing[:, k] = ~np.isfinite(column) | (column == transform.point_mass)
        if transform.kind == "numbers":
            clean_log_odds[:, k] = prior(column) - transform.tail_log_odds(column)
    standard[missing] = 0.0
    rounding_sd = np.array([table.transforms[j].rounding_sd for j in modelled])
    return StandardCells(standard, missing, clean_log_odds, rounding_sd)


def _with_stuck_values(
    sample: Array,
    table: TableModel,
    cells: StandardCells,
    scores: CellScores,
) -> TableModel:
    """Add values that a column repeats whatever the other columns say to its codes.

    Such cells of the sample are set to NaN.
    """
    codes = list(table.codes)
    for k, j in enumerate(table.modelled):
        transform = table.transforms[j]
        if transform.kind != "numbers" or transform.point_mass_fraction:
            continue
        finite = sample[np.isfinite(sample[:, j]), j]
        levels, counts = np.unique(finite, return_counts=True)
        most, second = np.sort(counts)[[-1, -2]]
        if most < max(MIN_STUCK_CELLS, MIN_STUCK_RATIO * second):
            continue
        value = float(levels[np.argmax(counts)])
        beside = min(np.mean(finite < value), np.mean(finite > value))
        if value == 0 and beside < MIN_BESIDE_ZERO:
            continue
        stuck = sample[:, j] == value
        kept = ~(stuck | scores.excluded[:, k] | cells.missing[:, k])
        standard = cells.values[:, k]
        predicted = standard - scores.residual[:, k]
        if kept.sum() < MIN_ROWS or not np.ptp(standard[kept]):
            continue
        gain = _gain_of_stuck_value(
            predicted[stuck], standard[stuck], predicted[kept], standard[kept]
        )
        if gain < MIN_STUCK_GAIN:
            continue
        codes[j] = {**codes[j], value: False}
        sample[stuck, j] = np.nan
        cells.missing[stuck, k] = True
    return replace(table, codes=tuple(codes))


def _gain_of_stuck_value(
    predicted: Array, standard: Array, kept_predicted: Array, kept_standard: Array
) -> float:
    """Return the log-likelihood that a value gains if its column is stuck at it.

    The predictions of cells with a natural value v are near a + b v, by the regression
    of the kept cells' predictions on their values, or near another centre, if the value
    belongs to rows of one kind. The predictions of stuck cells vary as they do over the
    whole column. All are taken as normal.
    """
    slope = np.cov(kept_standard, kept_predicted)[0, 1] / np.var(kept_standard)
    around_line = kept_predicted - slope * kept_standard
    line = np.median(around_line)
    scale = robust_scale(around_line)

    def log_likelihood(centre: Any, scale: float) -> float:
        square = ((predicted - centre) / max(scale, MIN_STUCK_SCALE)) ** 2
        square = np.minimum(square, MAX_STUCK_SQUARE)
        return float(np.sum(-np.log(max(scale, MIN_STUCK_SCALE)) - 0.5 * square))

    natural = max(
        log_likelihood(centre, scale)
        for centre in (line + slope * standard, np.median(predicted))
    )
    whole = np.median(kept_predicted), robust_scale(kept_predicted)
    return log_likelihood(*whole) - natural


def _fill_excluded(
    sample: Array, table: TableModel, cells: StandardCells, scores: CellScores
) -> Array:
    """Return the modelled columns with predictions in excluded and missing cells."""
    filled = sample[:, table.modelled]
    gone = scores.excluded | cells.missing
    for k, j in enumerate(table.modelled):
        out = gone[:, k]
        inside = sample[~out, j] if not out.all() else np.zeros(1)
        low, high = _trimmed_range(inside)
        clipped = replace(table.transforms[j], low=low, high=high)
        filled[out, k] = clipped.from_standard(
            cells.values[out, k] - scores.residual[out, k]
        )
    return filled


def _standard_values(filled: Array, table: TableModel) -> Array:
    """Return the modelled columns in standard units, clipped."""
    transforms = (table.transforms[j] for j in table.modelled)
    columns = zip(transforms, filled.T, strict=True)
    standard = np.column_stack([t.standardise(column) for t, column in columns])
    return np.asarray(np.clip(standard, -MAX_STANDARD_VALUE, MAX_STANDARD_VALUE))


def _reselect_transforms(
    sample: Array,
    filled: Array,
    table: TableModel,
    cells: StandardCells,
    scores: CellScores,
) -> tuple[ColumnTransform, ...]:
    """Choose the columns' transforms again, without the excluded cells."""
    transforms, modelled = list(table.transforms), table.modelled
    gone = scores.excluded | cells.missing
    for k, j in enumerate(modelled):
        if transforms[j].kind == "numbers":
            kept = np.where(scores.excluded[:, k], np.nan, sample[:, j])
            transform = classify_column(kept, SECOND_TAIL)
            if transform.kind == "numbers":
                transforms[j] = transform
    if len(modelled) <= MAX_COVARIANCE_COLUMNS:
        chosen = choose_jointly(filled, ~gone, [transforms[j] for j in modelled])
        for j, transform in zip(modelled, chosen, strict=True):
            transforms[j] = transform
    return tuple(transforms)


def _with_ranges(
    sample: Array, table: TableModel, excluded: Array
) -> tuple[ColumnTransform, ...]:
    """Return the transforms with the ranges of each column's kept values."""
    transforms = list(table.transforms)
    for k, j in enumerate(table.modelled):
        kept = sample[np.isfinite(sample[:, j]) & ~excluded[:, k], j]
        kept_or_all = kept if len(kept) else sample[:, j]
        low, high = _trimmed_range(kept_or_all)
        usual_low, usual_high = _trimmed_range(kept_or_all, USUAL_TAIL)
        transforms[j] = replace(
            transforms[j],
            low=low,
            high=high,
            usual_low=usual_low,
            usual_high=usual_high,
            lowest=0.0 if len(kept) and kept.min() >= 0 else -np.inf,
            highest=0.0 if len(kept) and kept.max() <= 0 else np.inf,
        )
    return tuple(transforms)


def _trimmed_range(kept: Array, fraction: float = 0.0) -> tuple[float, float]:
    """Return the range without one value and a fraction of them at either end."""
    ordered = np.sort(kept)
    cut = min(1 + int(fraction * len(ordered)), (len(ordered) - 1) // 2)
    return float(ordered[cut]), float(ordered[-1 - cut])
