"""`decompose`: data as a sum of structured parts, weighted by their shapes."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from discrepant.core.arrays import to_uint8
from discrepant.core.display import DisplayMixin
from discrepant.core.errors import InputError
from discrepant.core.linalg import Array, norm
from discrepant.core.plotting import image_panels
from discrepant.core.progress import Progress, reporting
from discrepant.core.results import History, Outcome, Status
from discrepant.core.validation import (
    check_callback,
    check_integer,
    check_number,
    check_seed,
    real_array,
)
from discrepant.operators.operator import check_adjoint
from discrepant.structures.blocks import Entries, Structure
from discrepant.structures.solver import Part, State, integrate, polish, residual

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Factors c of λ = c·(expected dual norm of noise) / (that of the whole matrix), chosen
# on synthetic problems (`benchmarks/structures.py` measures them on others).
ENTRIES = 2.1  # single entries; relative to noise of size 1
VECTORS_WITH_ENTRIES, VECTORS = 1.2, 1.0  # rows, columns, groups
TILES = 0.8
BELOW_WHOLE = 0.97  # largest λ of a smaller block: at 1 it would never be used
EXACT = 1e-10  # relative residual below which a polished fit is exact
POLISHED_GAP = 1e-3  # duality gap that a polished fit may have
FEASIBLE = 1e-3  # relative residual above which the parts do not reproduce the data
DRAWS = 3  # random draws for the noise level behind an operator


@dataclass(frozen=True)
class MixtureCertificate:
    """Evidence for a decomposition.

    Attributes
    ----------
    gap : float
        Relative duality gap ``(p − d)/p``, not clamped: negative if the parts do not
        reproduce the data exactly.
    feasibility : float
        ``‖y − Σ Aᵢ(Xᵢ)‖ / ‖y‖``.
    primal, dual : float
        ``Σ λᵢ γᵢ(Xᵢ)`` and its lower bound ``⟨M, y⟩ / maxᵢ γᵢ°(Aᵢ*M)/λᵢ``.
    dual_norms : dict of str to float
        ``γᵢ°(Aᵢ*M)/λᵢ`` for each part; 1 for every part in use.
    """

    gap: float
    feasibility: float
    primal: float
    dual: float
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
        self[name]
        used = [
            part.structure.block_values(
                part.structure.spectra(X).max(axis=1) > 0, part.shape
            )
            for part, X in self._terms[name]
        ]
        return np.asarray(np.any(used, axis=0))

    def score(self, name: str) -> Array:
        """Return ‖(A*M)_b‖/λ of each block b: 1 if it is in use, below 1 a ranking.

        The layout is that of `active`.
        """
        self[name]
        scores = [
            part.structure.block_values(
                part.structure.spectra(part.adjoint(self._dual)).max(axis=1) / part.lam,
                part.shape,
            )
            for part, _ in self._terms[name]
        ]
        return np.asarray(np.max(scores, axis=0))

    def plot(self) -> "Figure":
        """Draw one panel for each part that is a matrix."""
        return image_panels(self._pictures())

    def _pictures(self) -> dict[str, Array]:
        return {name: to_uint8(X) for name, X in self.parts.items() if np.ndim(X) == 2}

    def _facts(self) -> dict[str, str]:
        facts = {}
        for name in self.parts:
            used = self.active(name)
            facts[name] = f"{int(used.sum()):,} of {used.size:,} in use"
        return {**facts, "certificate": str(self.certificate)}

    def __str__(self) -> str:
        return f"Sum of {len(self)} parts ({', '.join(self)}); {self.status}"


def decompose(
    y: ArrayLike,
    structures: Sequence[Structure],
    *,
    tol: float = 1e-7,
    max_iter: int = 2000,
    callback: Callable[[int, dict[str, float]], bool | None] | None = None,
    random_state: Any = None,
    progress: bool | Progress | None = None,
) -> Decomposition:
    """Write data as a sum of structured parts: ``y = Σ Aᵢ(Xᵢ)``.

    It solves ``min Σ λᵢ γᵢ(Xᵢ)`` subject to that equation, where γᵢ sums the nuclear
    norms of the blocks of a structure. The weights λ follow from the shapes: there is
    nothing to tune.

    Parameters
    ----------
    y : array_like
        The data; NaN marks missing entries.
    structures : sequence of Structure
        What the data are a sum of, such as ``[Whole(), Rows(), Entries()]``; see
        `discrepant.structures`.
    tol : float
        Relative primal and dual residual at which to stop.
    max_iter : int
        Largest number of passes over the parts.
    callback : callable, optional
        Called as ``callback(step, residuals)`` after each pass; False stops.
    random_state : int, Generator or None
        Draws the noise by which parts behind an operator are weighted.
    progress : bool or callable, optional
        True shows a bar; a callable gets ``(fraction, note)`` and stops the work by
        returning False.

    Returns
    -------
    Decomposition

    Examples
    --------
    >>> import numpy as np
    >>> from discrepant import decompose
    >>> from discrepant.structures import Entries, Rows, Whole
    >>> rng = np.random.default_rng(0)
    >>> Y = np.outer(rng.normal(size=60), rng.normal(size=40))
    >>> Y[7] = rng.normal(size=40) * 5
    >>> result = decompose(Y, [Whole(), Rows()])
    >>> np.flatnonzero(result.active("rows"))
    array([7])
    """
    check_number("tol", tol, "a number between 0 and 1", lambda value: 0 < value < 1)
    check_integer("max_iter", max_iter, "a whole number from 1", lambda n: n >= 1)
    check_callback("callback", callback)
    check_seed(random_state)
    data, observed = _validated(y)
    groups = _named(structures, data.shape)
    rng = np.random.default_rng(random_state)
    unit = 2.0 ** np.round(np.log2(np.abs(data).max())) if data.any() else 1.0
    data = data / unit
    terms = _weighted(groups, data.shape, observed, rng)
    parts = [part for group in terms.values() for part in group]
    started, seconds = perf_counter(), []

    with reporting(progress, "Decomposing") as report:

        def proceed(k: int, state: State) -> bool:
            seconds.append(perf_counter() - started)
            residuals = {"residual": state.primal, "dual_residual": state.dual}
            if callback is not None and callback(k, residuals) is False:
                report.stopped = True
            fraction = np.log(max(state.error, 1e-300)) / np.log(tol)
            note = f"residual {state.primal:.1e}"
            return report(float(np.clip(fraction, k / max_iter, 1)), note)

        if data.any():
            state = integrate(data, parts, tol, max_iter, proceed)
        else:
            zeros = [np.zeros(part.shape) for part in parts]
            state = State(zeros, np.zeros_like(data), data, 1.0, 0.0, 0.0)
        X, status = _finished(data, parts, state, tol, max_iter, report.stopped)
    certificate = _certificate(data, terms, X, state.M)
    result = _result(
        data, observed, terms, X, state, status, certificate, unit, seconds
    )
    if status.outcome is Outcome.LIMIT:
        _warn_unfinished(state, groups)
    return result


def _validated(y: ArrayLike) -> tuple[Array, Array]:
    """Return the data with zeros for missing entries, and which are observed."""
    if np.iscomplexobj(y):
        raise InputError("decompose needs real data; got complex numbers.")
    data = real_array(y).astype(np.float64)
    observed = ~np.isnan(data)
    if not observed.any():
        raise InputError("All values are missing; at least one must be observed.")
    if np.isinf(data).any():
        raise InputError(
            "The data contain infinite values; replace them by NaN to mark them as "
            "missing."
        )
    return np.where(observed, data, 0.0), observed


def _named(
    structures: Sequence[Structure], shape: tuple[int, ...]
) -> dict[str, Structure]:
    """Return the structures by name; refuse those that do not fit or are equal."""
    if isinstance(structures, Structure):
        structures = [structures]
    if not structures or not all(isinstance(s, Structure) for s in structures):
        raise InputError(
            "structures must be a list of structures, such as [Whole(), Entries()]."
        )
    named: dict[str, Structure] = {}
    for structure in structures:
        if structure.through is not None and structure.through.data_shape != shape:
            raise InputError(
                f"The operator of {type(structure).__name__} gives data of shape "
                f"{structure.through.data_shape}; the data have shape {shape}."
            )
        structure.check_shape(_part_shape(structure, shape))
        if any(_equal(structure, other) for other in named.values()):
            raise InputError(
                f"Two structures are equal: {type(structure).__name__}; their parts "
                "could not be separated. Remove one of them."
            )
        name, count = structure.name, 2
        while name in named:
            name, count = f"{structure.name} {count}", count + 1
        named[name] = structure
    return named


def _equal(one: Structure, other: Structure) -> bool:
    """Whether two structures have the same blocks and the same operator."""
    ours, theirs = ({**vars(s), "weight": None} for s in (one, other))
    if type(one) is not type(other) or ours.keys() != theirs.keys():
        return False
    return all(
        ours[key] is theirs[key] or np.array_equal(ours[key], theirs[key])
        for key in ours
    )


def _part_shape(structure: Structure, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if structure.through is None else tuple(structure.through.signal_shape)


def _weighted(
    groups: dict[str, Structure],
    shape: tuple[int, ...],
    observed: Array,
    rng: np.random.Generator,
) -> dict[str, list[Part]]:
    """Return the parts of each structure with their weights λ.

    λ is the dual norm of noise in a structure relative to that of the whole matrix,
    times one factor per kind of block.
    """
    maps = {name: _maps(s, observed) for name, s in groups.items()}
    counts = {
        name: s.split(np.zeros(_part_shape(s, shape))).shape
        for name, s in groups.items()
    }
    noise = {
        name: _noise_level(s, _part_shape(s, shape), observed, maps[name][1], rng)
        for name, s in groups.items()
    }
    whole = [noise[name] for name in groups if counts[name][0] == 1]
    matrix = (shape[0], int(np.prod(shape[1:])))
    unit = max(whole) if whole else float(np.sqrt(matrix).sum() * _fraction(observed))
    entries = any(counts[name][1:] == (1, 1) for name in groups)
    terms = {}
    for name, structure in groups.items():
        count, a, b = counts[name]
        if count == 1:
            lam = 1.0
        elif a == b == 1:
            lam = ENTRIES / unit
        elif 1 in (a, b):
            factor = VECTORS_WITH_ENTRIES if entries else VECTORS
            lam = min(factor * noise[name] / unit, BELOW_WHOLE)
            if entries:  # above it, entries explain a whole vector at a lower cost
                limit = BELOW_WHOLE * ENTRIES / unit * np.sqrt(max(a, b))
                lam = min(lam, limit)
        else:
            lam = min(TILES * noise[name] / unit, BELOW_WHOLE)
        part_shape = _part_shape(structure, shape)
        terms[name] = [
            Part(part, part_shape, float(structure.weight * lam), *maps[name])
            for part in structure.parts()
        ]
    return terms


def _maps(structure: Structure, observed: Array) -> tuple[Any, Any]:
    """Return A and A* of a structure, restricted to the observed data."""
    A = structure.through
    if A is not None:
        check_adjoint(A)
        return (
            lambda X: np.where(observed, A.forward(X), 0.0),
            lambda z: A.adjoint(np.where(observed, z, 0.0)),
        )
    if observed.all():
        return (lambda X: X), (lambda z: z)
    return (lambda X: np.where(observed, X, 0.0),) * 2


def _fraction(observed: Array) -> float:
    """Return √(fraction of observed entries): how far they shrink a noise matrix."""
    return float(np.sqrt(observed.mean()))


def _noise_level(
    structure: Structure,
    shape: tuple[int, ...],
    observed: Array,
    adjoint: Callable[[Array], Array],
    rng: np.random.Generator,
) -> float:
    """Return the expected γ°(A*z) of standard normal noise z on the observed data."""
    if structure.through is None:
        return structure.noise_dual_norm(shape) * _fraction(observed)
    draws = (rng.standard_normal(observed.shape) for _ in range(DRAWS))
    return float(np.mean([structure.dual_norm(adjoint(z)) for z in draws]))


def _finished(
    data: Array,
    parts: list[Part],
    state: State,
    tol: float,
    max_iter: int,
    stopped: bool,
) -> tuple[list[Array], Status]:
    """Polish the parts if that gives an exact fit at the optimum; say how it ended."""
    if stopped:
        return state.X, Status(Outcome.STOPPED, "stopped on request")
    if state.error >= tol:
        sentence = f"took all of {max_iter} passes: residual {state.primal:.1e}"
        return state.X, Status(Outcome.LIMIT, sentence)
    if data.any():
        X, error = polish(data, parts, state.X)
        terms = {str(i): [part] for i, part in enumerate(parts)}
        gap = abs(_certificate(data, terms, X, state.M).gap)
        if error < EXACT and gap < POLISHED_GAP:
            return X, Status(Outcome.EXACT, "converged: exact to rounding")
    sentence = f"converged: residual {state.primal:.0e} below tol {tol:.0e}"
    return state.X, Status(Outcome.CONVERGED, sentence)


def _certificate(
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
        gap=(primal - dual) / primal if primal > 0 else 0.0,
        feasibility=norm(residual(data, parts, X)) / size if size else 0.0,
        primal=primal,
        dual=dual,
        dual_norms=dual_norms,
    )


def _result(
    data: Array,
    observed: Array,
    terms: dict[str, list[Part]],
    X: list[Array],
    state: State,
    status: Status,
    certificate: MixtureCertificate,
    unit: float,
    seconds: list[float],
) -> Decomposition:
    """Return the parts in the unit of the data, by name."""
    parts = [part for group in terms.values() for part in group]
    rest = np.where(observed, unit * residual(data, parts, X), np.nan)
    scaled = iter([unit * x for x in X])
    named = {name: [(part, next(scaled)) for part in g] for name, g in terms.items()}
    history = np.array(state.history).reshape(-1, 2)
    return Decomposition(
        parts={
            name: np.sum([x for _, x in pairs], axis=0) for name, pairs in named.items()
        },
        weights={name: group[0].lam for name, group in terms.items()},
        certificate=certificate,
        residual=rest,
        status=status,
        history=History(
            {
                "step": np.arange(1, len(history) + 1),
                "residual": history[:, 0],
                "seconds": np.array(seconds),
                "dual_residual": history[:, 1],
            }
        ),
        _terms=named,
        _dual=state.M,
    )


def _warn_unfinished(state: State, groups: dict[str, Structure]) -> None:
    """Warn that the parts do not solve the program, and what to do."""
    has_entries = any(isinstance(s, Entries) for s in groups.values())
    if state.primal > FEASIBLE and not has_entries:
        sentence = (
            "The structures do not reproduce the data exactly (relative residual "
            f"{state.primal:.1e}); add Entries() for sparse errors."
        )
    else:
        sentence = (
            f"The solver did not converge (relative residuals {state.primal:.1e} and "
            f"{state.dual:.1e}); raise max_iter."
        )
    warnings.warn(sentence, ConvergenceWarning, stacklevel=3)
