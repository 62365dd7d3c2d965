"""Cleaner: a scikit-learn estimator that fits a table and cleans new rows."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from discrepant.cell_model.calibration import fdr_threshold
from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.validation import check_seed, error_text, masked_to_nan
from discrepant.table.clean import CleanOptions, flag_and_replace
from discrepant.table.columns.table_input import (
    ParsedTable,
    check_has_numbers,
    frame_from_xarray,
    is_xarray,
    parse_table,
)
from discrepant.table.model.fit import fit_table_model
from discrepant.table.model.score import score_rows
from discrepant.table.result import CleanResult


class Cleaner(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fit a model to a table, and clean new rows of the same columns with it.

    Each new row is scored by itself: its flags do not depend on the rows that come with
    it, nor on their order (as for `clean` with ``order=None``). A data frame may hold
    columns of any type, as for `clean`; an array must hold numbers. xarray objects are
    returned as xarray objects.

    Parameters
    ----------
    fdr : float
        False discovery rate on the training table; its threshold is kept for new rows.
        See `discrepant.clean`.
    fill : bool
        Also impute missing cells, and codes for them such as −999.
    replace : {"likely", "flagged"}
        Which cells to replace. See `discrepant.clean`.
    columns, drop : label or list of labels, optional
        The only columns to analyse, and columns to leave out; positions for an array.
    random_state : int, Generator or None
        Draws the rows that the model is fitted to, where there are more than 3000.

    Attributes
    ----------
    noise_ : Series
        Standard deviation of a clean cell around its expected value, in its unit.
    rank_ : int
        Number of directions with more variance than independent columns have.
    columns_ : tuple of ColumnSummary
        The role of each column, and what was detected in it.
    caveats_ : tuple of str
        Limits of the result, in sentences.
    cutoff_ : float
        Log-odds from which a cell is flagged.

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import Cleaner
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 5))
    >>> cleaner = Cleaner().fit(table)
    >>> new = np.array([[0.3, 0.2, 9.0, 0.4, 0.3]])
    >>> cleaner.clean(new).flagged["column"].tolist()
    [2]
    """

    def __init__(
        self,
        fdr: float = 0.01,
        *,
        fill: bool = False,
        replace: str = "likely",
        columns: Any = None,
        drop: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.fdr = fdr
        self.fill = fill
        self.replace = replace
        self.columns = columns
        self.drop = drop
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "Cleaner":
        """Fit kinds of columns, transforms and the model of the rows.

        Parameters
        ----------
        X : DataFrame, xarray or array of shape (n_samples, n_features)
            NaN is missing. Cells may be corrupted.
        y : None
            Ignored.
        """
        options = CleanOptions(self.fdr, self.fill, self.replace)
        check_seed(self.random_state)
        parsed = self._parse(X, reset=True)
        check_has_numbers(parsed)
        rng = np.random.default_rng(self.random_state)
        model = fit_table_model(parsed, rng, None)
        candidates = score_rows(parsed.values, model, options.least_log_odds)
        self.cutoff_ = fdr_threshold(candidates.log_odds, self.fdr)
        result = flag_and_replace(parsed, model, candidates, self.cutoff_, options)
        self.noise_, self.rank_ = result.noise, result.rank
        self.columns_, self.caveats_ = result.columns, result.caveats
        self._types, self._model = parsed.types, model
        return self

    def transform(self, X: Any) -> Any:
        """Return rows with flagged cells replaced, and gaps imputed if ``fill``."""
        return self.clean(X).table

    def clean(self, X: Any) -> CleanResult:
        """Flag and replace cells of new rows, each row by itself."""
        check_is_fitted(self)
        options = CleanOptions(self.fdr, self.fill, self.replace)
        parsed = self._parse(X, reset=False)
        least = min(self.cutoff_, options.replace_from)
        candidates = score_rows(parsed.values, self._model, least, fill=self.fill)
        return flag_and_replace(parsed, self._model, candidates, self.cutoff_, options)

    def _parse(self, X: Any, reset: bool) -> ParsedTable:
        xarray = is_xarray(X)
        table = frame_from_xarray(X) if xarray else masked_to_nan(X)
        is_frame = xarray or (hasattr(X, "columns") and hasattr(X, "dtypes"))
        options: dict[str, Any] = {"skip_check_array": True}
        if not is_frame:
            options = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}
            options["ensure_min_samples"] = 2 if reset else 1
        try:
            checked = validate_data(self, table, reset=reset, **options)
        except (ValueError, TypeError, RuntimeError) as error:
            kind = InputTypeError if isinstance(error, TypeError) else InputError
            raise kind(error_text(error) + ".") from None
        checked = X if xarray else checked
        if reset:
            return parse_table(checked, self.columns, self.drop)
        return parse_table(checked, known_types=self._types)

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
