"""Attributes of a fitted estimator: the parts of its result, labelled as the data."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from discrepant.core.array_libraries import ArrayKind
from discrepant.core.labels import Labels
from discrepant.core.linalg import Array
from discrepant.core.results import Certificate, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedPartsMixin:
    """Parts of a fit as attributes, each computed on first access."""

    _result: Result
    _labels: Labels | None
    _array_kind: ArrayKind | None

    @property
    def low_rank_(self) -> Any:
        """The low-rank part."""
        return self._labelled(self._fitted().low_rank)

    @property
    def sparse_(self) -> Any:
        """The sparse part."""
        return self._labelled(self._fitted().sparse)

    @property
    def outliers_(self) -> Any:
        """Which entries are flagged as corrupt."""
        return self._labelled(self._fitted().outliers)

    @property
    def probability_(self) -> Any:
        """The probability that each entry is corrupt."""
        return self._labelled(self._fitted().probability)

    @property
    def row_score_(self) -> Any:
        """How unusual each row is: the larger, the more."""
        from discrepant.robust_pca.noisy.result import NoisyResult

        result = self._fitted()
        if not isinstance(result, NoisyResult):
            return np.asarray(result.outliers.mean(axis=1)).ravel()
        return self._converted(result.row_score)

    @property
    def residual_(self) -> Any:
        """The noise: data minus both parts. NaN where the data are missing."""
        return self._labelled(self._fitted().residual)

    @property
    def explained_variance_ratio_(self) -> Any:
        """Fraction of the uncorrupted data's squares that each component explains."""
        result = self._fitted()
        squares = np.square(result.singular_values, dtype=np.float64)
        total = squares.sum() + _sum_of_squares(result.residual)
        ratio = np.asarray(squares / max(total, np.finfo(float).tiny))
        if self._array_kind is not None:
            ratio = ratio.astype(result.components.dtype)
        return self._converted(ratio)

    @property
    def certificate_(self) -> Certificate:
        """How far the result is from a global optimum."""
        return self._fitted().certificate

    def plot(self) -> "Figure":
        """Draw the data, the low-rank part and the corruption.

        Columns of very different sizes are each drawn in units of their spread.
        """
        return self._fitted().plot()

    def _repr_html_inner(self) -> str:
        """Return the HTML card of the result, followed by scikit-learn's."""
        return self._result_html() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._result_html() + bundle["text/html"]
        return bundle

    def _get_fitted_attr_html(self, doc_link: str = "") -> tuple[()]:
        """Keep scikit-learn from reading all attributes: some take as long as a fit."""
        return ()

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))  # scikit-learn's reads each, see above

    def _result_html(self) -> str:
        return self._result._repr_html_() if self.__sklearn_is_fitted__() else ""

    def _fitted(self) -> Result:
        """Return the result of the fit; raise an error if there is none."""
        check_is_fitted(self)
        return self._result

    def __sklearn_is_fitted__(self) -> bool:
        return "_result" in self.__dict__

    def _set_fitted_attributes(
        self: Any, result: Result, labels: Labels | None, kind: ArrayKind | None = None
    ) -> None:
        """Set the attributes of a fit; from here on the model is fitted."""
        self.noise_ = _one_if_uniform(result.noise)
        self.rank_ = result.rank
        self.singular_values_ = result.singular_values
        self.components_ = result.components
        self.alpha_ = 1 / result.lam
        self.n_iter_ = result.n_steps
        self.status_ = result.status
        self.history_ = result.history
        self._labels, self._array_kind, self._result = labels, kind, result
        for name in ("components_", "singular_values_", "noise_"):
            values = getattr(self, name)
            if kind is not None and isinstance(values, np.ndarray):
                setattr(self, name, kind.convert(values))

    def _forget_previous_fit(self) -> None:
        """Delete the attributes of an earlier fit."""
        for name in [n for n in vars(self) if n.endswith("_") and n[0] != "_"]:
            delattr(self, name)
        for name in ("_result", "_labels", "_array_kind", "_tracker"):
            self.__dict__.pop(name, None)

    def _labelled(self, values: Any) -> Any:
        """Return values as the kind of array or labelled frame passed to `fit`."""
        if self._labels is not None:
            return self._labels.frame(values)
        return self._converted(values)

    def _converted(self, values: Any) -> Any:
        """Return values as the kind of array passed to `fit`."""
        kind = self._array_kind
        return values if kind is None else kind.convert(values)


def _one_if_uniform(noise: Array) -> float | Array:
    """Return the noise as one number if it is the same in all columns."""
    return float(noise[0]) if np.all(noise == noise[0]) else noise


def _sum_of_squares(residual: Any) -> float:
    """Return the sum of squares; a sparse residual is extrapolated to all entries."""
    if not issparse(residual):
        return float(np.nansum(np.square(residual, dtype=np.float64)))
    mean = np.mean(np.square(residual.data, dtype=np.float64)) if residual.nnz else 0.0
    return float(mean * np.prod(residual.shape))
