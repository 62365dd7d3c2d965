"""Cleaner: a table is learnt once, and new rows are cleaned by it."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from discrepant.core.errors import InputError, InputTypeError
from discrepant.core.validation import (
    check_fdr,
    check_flag,
    check_seed,
    error_text,
    masked_to_nan,
)
from discrepant.table.build_result import judge_sheet, verdict
from discrepant.table.clean import check_numbers, learn_sheet
from discrepant.table.columns.labelled import frame_of, is_grid
from discrepant.table.columns.table_input import Sheet, open_sheet
from discrepant.table.model.calibration import cutoff, least_odds
from discrepant.table.result import CleanResult


class Cleaner(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Learn a table, and clean new rows of the same columns.

    Each new row is judged by itself: what is flagged in it does not depend on the rows
    that come with it. A data frame may hold columns of any type, as for `clean`; an
    array must hold numbers. xarray comes back as xarray.

    Parameters
    ----------
    fdr : float
        Share of the flags that may be false, by the model's own odds on the table that
        is learnt; the cutoff is kept for new rows. See `discrepant.clean`.
    fill : bool
        Also impute missing cells, and codes for them such as −999.
    columns, drop : label or list of labels, optional
        The only columns to judge, and columns not to judge; positions for an array.
    random_state : int, Generator or None
        Draws the rows that are learnt from, where they are more than 3000.

    Attributes
    ----------
    noise_ : Series
        Spread of a clean cell around what the others say of it, in its unit.
    rank_ : int
        Number of directions in which columns go together more than by chance.
    columns_ : tuple of ColumnReport
        What each column was taken for, and what was found in it.
    caveats_ : tuple of str
        What to know before trusting the result.
    cutoff_ : float
        Log odds from which on a cell is flagged.

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import Cleaner
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 5))
    >>> cleaner = Cleaner().fit(table)
    >>> new = np.array([[0.3, 0.2, 9.0, 0.4, 0.3]])
    >>> cleaner.judge(new).flagged["column"].tolist()
    [2]
    """

    def __init__(
        self,
        fdr: float = 0.01,
        *,
        fill: bool = False,
        columns: Any = None,
        drop: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.fdr = fdr
        self.fill = fill
        self.columns = columns
        self.drop = drop
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "Cleaner":
        """Learn what the columns of a table are and how they go together.

        Parameters
        ----------
        X : DataFrame, xarray or array of shape (n_samples, n_features)
            NaN is missing. Wrong cells may be among them.
        y : None
            Ignored.
        """
        check_fdr(self.fdr)
        check_flag("fill", self.fill)
        check_seed(self.random_state)
        sheet = self._sheet(X, reset=True)
        check_numbers(sheet)
        rules = learn_sheet(sheet, self.random_state, None)
        judged = judge_sheet(sheet, rules, least_odds(self.fdr), False)
        self.cutoff_ = cutoff(judged[0].score, self.fdr)
        found = verdict(sheet, rules, judged, self.cutoff_, self.fdr, False)
        self.noise_, self.rank_ = found.noise, found.rank
        self.columns_, self.caveats_ = found.columns, found.caveats
        self._fields, self._rules = sheet.fields, rules
        return self

    def transform(self, X: Any) -> Any:
        """Clean rows: flagged cells are replaced, and gaps filled if that was asked."""
        return self.judge(X).table

    def judge(self, X: Any) -> CleanResult:
        """Say what is wrong in rows, each judged by itself."""
        check_is_fitted(self)
        sheet = self._sheet(X, reset=False)
        judged = judge_sheet(sheet, self._rules, self.cutoff_, bool(self.fill))
        return verdict(
            sheet, self._rules, judged, self.cutoff_, float(self.fdr), bool(self.fill)
        )

    def _sheet(self, X: Any, reset: bool) -> Sheet:
        grid = is_grid(X)
        table = frame_of(X) if grid else masked_to_nan(X)
        framed = grid or (hasattr(X, "columns") and hasattr(X, "dtypes"))
        options: dict[str, Any] = {"skip_check_array": True}
        if not framed:
            options = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}
            options["ensure_min_samples"] = 2 if reset else 1
        try:
            checked = validate_data(self, table, reset=reset, **options)
        except (ValueError, TypeError, RuntimeError) as error:
            kind = InputTypeError if isinstance(error, TypeError) else InputError
            raise kind(error_text(error) + ".") from None
        checked = X if grid else checked
        if reset:
            return open_sheet(checked, self.columns, self.drop)
        return open_sheet(checked, fields=self._fields)

    def __sklearn_is_fitted__(self) -> bool:
        return "_rules" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
