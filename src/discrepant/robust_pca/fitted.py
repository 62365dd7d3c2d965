"""What a fitted estimator hands out: its parts, labelled as the data were."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from discrepant.core.array_libraries import ArrayKind
from discrepant.core.display import (
    ResultDisplayMixin,
    card,
    result_facts,
    result_sentence,
)
from discrepant.core.labels import Labels
from discrepant.core.results import Certificate, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedParts:
    """The parts of a fit as attributes, each computed when it is first asked for."""

    _found: Result
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
    def residual_(self) -> Any:
        """What is left of the data: the noise. NaN where they are missing."""
        return self._labelled(self._fitted().residual)

    @property
    def explained_variance_ratio_(self) -> Any:
        """Share of the squares of the uncorrupted data that each component explains."""
        found = self._fitted()
        squares = np.square(found.singular_values, dtype=np.float64)
        rest = _squares(found.residual)
        share = np.asarray(squares / max(squares.sum() + rest, np.finfo(float).tiny))
        kind = self._array_kind
        return (
            share
            if kind is None
            else kind.convert(share.astype(found.components.dtype))
        )

    @property
    def certificate_(self) -> Certificate:
        """How far the result is from a global optimum."""
        return self._fitted().certificate

    def plot(self) -> "Figure":
        """Draw the data, the low-rank part and the corruption.

        Where the columns' sizes are far apart, each is drawn in units of its spread.
        """
        shown: ResultDisplayMixin = self._fitted()  # type: ignore[assignment]
        return shown.plot()

    def _repr_html_inner(self) -> str:
        """Return what scikit-learn shows of an estimator below what was found."""
        return self._found_html() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._found_html() + bundle["text/html"]
        return bundle

    def _get_fitted_attr_html(self, doc_link: str = "") -> tuple[()]:
        """Keep scikit-learn from listing all attributes: some take as long as a fit."""
        return ()

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))  # scikit-learn's asks for each, see above

    def _found_html(self) -> str:
        if not self.__sklearn_is_fitted__():
            return ""
        return card(result_sentence(self._found), result_facts(self._found))

    def _fitted(self) -> Result:
        check_is_fitted(self)
        found: Result = self._found
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return "_found" in self.__dict__

    def _forget(self) -> None:
        """Drop what an earlier fit has learned."""
        for name in [n for n in vars(self) if n.endswith("_") and n[0] != "_"]:
            delattr(self, name)
        for name in ("_found", "_labels", "_array_kind", "_tracker"):
            self.__dict__.pop(name, None)

    def _labelled(self, values: Any) -> Any:
        """Return an array as the kind of array or labelled frame that was fitted."""
        if self._array_kind is not None:
            return self._array_kind.convert(values)
        return values if self._labels is None else self._labels.frame(values)


def _squares(residual: Any) -> float:
    """Return the sum of squares; of a sparse part, as if all were like the stored."""
    if not issparse(residual):
        return float(np.nansum(np.square(residual, dtype=np.float64)))
    mean = np.mean(np.square(residual.data, dtype=np.float64)) if residual.nnz else 0.0
    return float(mean * np.prod(residual.shape))
