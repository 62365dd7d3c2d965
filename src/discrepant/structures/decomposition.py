"""`Decomposition`: the parts of a mixture, with a certificate of the optimum."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discrepant.core.arrays import to_uint8
from discrepant.core.display import DisplayMixin
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, norm
from discrepant.core.plotting import image_panels
from discrepant.core.results import Certificate, History, Status
from discrepant.structures.blocks import ACTIVE
from discrepant.structures.solver import Part, residual

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MixtureCertificate(Certificate):
    """How far a decomposition is from the optimum of its convex program.

    Attributes
    ----------
    primal, dual : float
        ``Σ λᵢ γᵢ(Xᵢ)`` and its lower bound ``⟨M, y⟩ / maxᵢ γᵢ°(Aᵢ*M)/λᵢ``.
    feasibility : float
        ``‖y − Σ Aᵢ(Xᵢ)‖ / ‖y‖``.
    gap : float
        Relative duality gap ``(p − d)/p``: negative if the parts do not reproduce the
        data exactly.
    dual_norms : dict of str to float
        ``γᵢ°(Aᵢ*M)/λᵢ`` for each part; 1 for every part in use.
    """

    dual_norms: dict[str, float]

    def __str__(self) -> str:
        return f"within {self.gap:.1e} of the optimum (residual {self.feasibility:.1e})"


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(DisplayMixin):
    """Data as a sum of structured parts.

    ``result["rows"]`` is the part of a structure, as it is before its operator.
    Iterating yields the names of the parts.

    Attributes
    ----------
    parts : dict of str to ndarray
        The parts by name.
    weights : dict of str to float
        The weight λ of each part's norm.
    certificate : MixtureCertificate
        Distance to the optimum of the convex program.
    residual : ndarray
        What the parts leave of the data; NaN where these are missing.
    status : Status
        How the solver ended.
    history : History
        Residuals of each pass.
    """

    parts: dict[str, Array]
    weights: dict[str, float]
    certificate: MixtureCertificate
    residual: Array
    status: Status
    history: History
    _terms: "dict[str, list[tuple[Part, Array]]]"
    _dual: Array

    def __getitem__(self, name: str) -> Array:
        if name not in self.parts:
            names = ", ".join(map(repr, self.parts))
            raise InputError(f"There is no part {name!r}; the parts are {names}.")
        return self.parts[name]

    def __iter__(self) -> Any:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def n_steps(self) -> int:
        """Passes over the parts."""
        return len(self.history["step"])

    def active(self, name: str) -> Array:
        """Return which blocks of a part are in use.

        One value per row, column, group or entry; for tiles the value of each entry's
        tile, in the shape of the part.
        """
        used = self._by_block(name, lambda part, X: part.structure.spectra(X) > 0)
        return np.asarray(np.any(used, axis=0))

    def score(self, name: str) -> Array:
        """Return ‖(A*M)_b‖/λ of each block b: 1 if it is in use, below 1 a ranking.

        The layout is that of `active`.
        """
        scores = self._by_block(
            name,
            lambda part, _: part.structure.spectra(part.adjoint(self._dual)) / part.lam,
        )
        return np.asarray(np.max(scores, axis=0))

    def _by_block(
        self, name: str, spectra: Callable[[Part, Array], Array]
    ) -> list[Array]:
        """Return the largest value of each block, laid out, for every tiling."""
        self[name]  # refuses other names
        return [
            part.structure.block_values(spectra(part, X).max(axis=1), part.shape)
            for part, X in self._terms[name]
        ]

    def plot(self) -> "Figure":
        """Draw one panel for each part; of a tensor, the slice in its middle."""
        return image_panels(self._pictures())

    def _pictures(self) -> dict[str, Array]:
        pictures = {}
        for name, X in self.parts.items():
            while X.ndim > 2:
                X = X[..., X.shape[-1] // 2]
            pictures[name] = to_uint8(np.atleast_2d(X))
        return pictures

    def _facts(self) -> dict[str, str]:
        facts = {}
        for name, terms in self._terms.items():
            used = self.active(name)
            facts[name] = f"{int(used.sum()):,} of {used.size:,} in use"
            if used.size == 1:
                facts[name] = f"rank {block_ranks(*terms[0])[0]}"
        return {**facts, "certificate": str(self.certificate)}

    def __str__(self) -> str:
        return f"Sum of {len(self)} parts ({', '.join(self)}); {self.status}"


def certificate_from(
    data: Array, terms: dict[str, list[Part]], X: list[Array], M: Array
) -> MixtureCertificate:
    """Bound the distance to the optimum by the dual M."""
    parts = [part for group in terms.values() for part in group]
    dual_norms = {
        name: max(p.structure.dual_norm(p.adjoint(M)) / p.lam for p in group)
        for name, group in terms.items()
    }
    largest = max(max(dual_norms.values()), np.finfo(float).tiny)
    dual = float(np.vdot(M, data)) / largest
    primal = sum(p.lam * p.structure.norm(x) for p, x in zip(parts, X, strict=True))
    size = norm(data)
    return MixtureCertificate(
        primal=primal,
        dual=dual,
        feasibility=norm(residual(data, parts, X)) / size if size else 0.0,
        dual_norms=dual_norms,
    )


def block_ranks(part: Part, X: Array) -> Array:
    """Return the rank of each block of a part."""
    sigma = part.structure.spectra(X)
    return np.asarray((sigma > ACTIVE * max(sigma.max(), 1e-300)).sum(axis=1))


def free_parameters(part: Part, X: Array) -> int:
    """Return the dimension of the arrays whose blocks have the ranks of X's blocks."""
    ranks, blocks = block_ranks(part, X), part.structure.split(np.ones(part.shape))
    a, b = blocks.shape[1:]
    sizes = blocks.sum(axis=(1, 2))  # without padding
    dimensions = ranks * (a + b - ranks) if min(a, b) > 1 else ranks * sizes
    return int(np.minimum(dimensions, sizes).sum())
