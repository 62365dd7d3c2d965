"""`decompose`: data as a sum of structured parts, weighted by their shapes."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from discrepant.core.threads import blas_threads
from discrepant.core.validation import (
    check_callback,
    check_integer,
    check_number,
    check_seed,
    real_array,
)
from discrepant.operators.operator import Operator, dot_test
from discrepant.structures.blocks import ACTIVE, Entries, Structure
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
SAME = 1e-10  # relative difference of the norms of random data in equal structures
EIGH = 32  # multiplications by which a decomposition profits as from one in a product


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
                facts[name] = f"rank {_ranks(*terms[0])[0]}"
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
    unit = 2.0 ** np.floor(np.log2(np.abs(data).max())) if data.any() else 1.0
    data = data / unit
    side = min(data.shape[0], data.size // data.shape[0])
    started, seconds = perf_counter(), []

    with (
        reporting(progress, "Decomposing") as report,
        blas_threads(data.size * side // EIGH),
    ):

        def proceed(k: int, state: State) -> bool:
            seconds.append(perf_counter() - started)
            residuals = {"residual": state.primal, "dual_residual": state.dual}
            if callback is not None and callback(k, residuals) is False:
                report.stopped = True
            fraction = np.log(max(state.error, 1e-300)) / np.log(tol)
            note = f"residual {state.primal:.1e}"
            return report(float(np.clip(fraction, k / max_iter, 1)), note)

        rng = np.random.default_rng(random_state)
        terms = _weighted(groups, observed, rng)
        parts = [part for group in terms.values() for part in group]
        _check_distinct(parts, observed.shape)
        if data.any():
            state = integrate(data, parts, tol, max_iter, proceed)
        else:
            zeros = [np.zeros(part.shape) for part in parts]
            state = State(zeros, np.zeros_like(data), data, 1.0, 0.0, 0.0)
        state.X, status = _finished(data, parts, state, tol, max_iter, report.stopped)
        certificate = _certificate(data, terms, state.X, state.M)
    rest = np.where(observed, unit * residual(data, parts, state.X), np.nan)
    scaled = iter([unit * x for x in state.X])
    named = {name: [(part, next(scaled)) for part in g] for name, g in terms.items()}
    passes = np.array(state.history).reshape(-1, 2)
    result = Decomposition(
        parts={name: np.sum([x for _, x in g], axis=0) for name, g in named.items()},
        weights={name: group[0].lam for name, group in terms.items()},
        certificate=certificate,
        residual=rest,
        status=status,
        history=History(
            {
                "step": np.arange(1, len(passes) + 1),
                "residual": passes[:, 0],
                "seconds": np.array(seconds),
                "dual_residual": passes[:, 1],
            }
        ),
        _terms=named,
        _dual=state.M,
    )
    for sentence, category in _caveats(result, state):
        warnings.warn(sentence, category, stacklevel=2)
    return result


def _validated(y: ArrayLike) -> tuple[Array, Array]:
    """Return the data with zeros for missing entries, and which are observed."""
    data = real_array(y).astype(np.float64)
    if data.ndim == 0 or data.size == 0:
        raise InputError(f"decompose needs an array of data, got shape {data.shape}.")
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
    """Return the structures by name; refuse those that do not fit the data."""
    if isinstance(structures, Structure):
        structures = [structures]
    is_list = isinstance(structures, Sequence) and len(structures) > 0
    if not is_list or not all(isinstance(s, Structure) for s in structures):
        raise InputError(
            "structures must be a list of structures, such as [Whole(), Entries()]."
        )
    named: dict[str, Structure] = {}
    for structure in structures:
        kind, A = type(structure).__name__, structure.through
        if A is not None and not isinstance(A, Operator):
            raise InputError(
                f"through= of {kind} must be an operator with forward and adjoint; "
                "wrap a SciPy LinearOperator as Wrapped(operator, shape)."
            )
        if A is not None and tuple(A.data_shape) != shape:
            raise InputError(
                f"The operator of {kind} gives data of shape {A.data_shape}; the data "
                f"have shape {shape}."
            )
        if A is not None and (
            dot_test(A, np.float64, real=None)
            or np.iscomplexobj(A.forward(np.zeros(A.signal_shape)))
        ):
            raise InputError(f"The operator of {kind} must give real numbers.")
        structure.check_shape(_part_shape(structure, shape))
        name, count = structure.name, 2
        while name in named:
            name, count = f"{structure.name} {count}", count + 1
        named[name] = structure
    return named


def _part_shape(structure: Structure, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if structure.through is None else tuple(structure.through.signal_shape)


def _check_distinct(parts: list[Part], shape: tuple[int, ...]) -> None:
    """Refuse structures whose norms of random data agree: they cannot be separated."""
    z = np.random.default_rng(0).standard_normal(shape)
    norms = [part.structure.norm(part.adjoint(z)) for part in parts]
    for j, part in enumerate(parts):
        for i in range(j):
            if abs(norms[i] - norms[j]) <= SAME * norms[j]:
                names = (type(p.structure).__name__ for p in (parts[i], part))
                raise InputError(
                    f"Two structures are equal on these data ({', '.join(names)}); "
                    "their parts could not be separated. Remove one of them."
                )


def _weighted(
    groups: dict[str, Structure], observed: Array, rng: np.random.Generator
) -> dict[str, list[Part]]:
    """Return the parts of each structure with their weights λ.

    λ is the dual norm of noise in a structure relative to that of the whole matrix,
    times one factor per kind of block.
    """
    shape = observed.shape
    parts = {
        name: Part(s, _part_shape(s, shape), s.weight, *_maps(s, observed))
        for name, s in groups.items()
    }
    blocks = {name: p.structure.split(np.zeros(p.shape)) for name, p in parts.items()}
    noise = {name: _noise_level(part, observed, rng) for name, part in parts.items()}
    whole = [noise[name] for name in parts if len(blocks[name]) == 1]
    matrix = np.sqrt([shape[0], observed.size // shape[0]]).sum()
    unit = max(whole) if whole else float(matrix * np.sqrt(observed.mean()))
    entries = any(b[0].size == 1 for b in blocks.values())
    terms = {}
    for name, part in parts.items():
        count, a, b = blocks[name].shape
        if a == b == 1:
            lam = ENTRIES * noise[name] / unit
        elif count == 1:
            lam = noise[name] / unit
        elif 1 in (a, b):
            factor = VECTORS_WITH_ENTRIES if entries else VECTORS
            lam = min(factor * noise[name] / unit, BELOW_WHOLE)
            if entries:  # above it, entries explain a whole vector at a lower cost
                lam = min(lam, BELOW_WHOLE * ENTRIES / unit * np.sqrt(max(a, b)))
        else:
            lam = min(TILES * noise[name] / unit, BELOW_WHOLE)
        terms[name] = [
            replace(part, structure=one, lam=float(part.lam * lam))
            for one in part.structure.parts()
        ]
    return terms


def _maps(structure: Structure, observed: Array) -> tuple[Any, Any]:
    """Return A and A* of a structure, restricted to the observed data."""
    A = structure.through
    if A is not None:
        return (
            lambda X: np.where(observed, A.forward(X), 0.0),
            lambda z: A.adjoint(np.where(observed, z, 0.0)),
        )
    if observed.all():
        return (lambda X: X), (lambda z: z)
    return (lambda X: np.where(observed, X, 0.0),) * 2


def _noise_level(part: Part, observed: Array, rng: np.random.Generator) -> float:
    """Return the expected γ°(A*z) of standard normal noise z on the observed data.

    For single entries it is the standard deviation of A*z, not its largest value.
    """
    structure = part.structure
    single = structure.split(np.zeros(part.shape))[0].size == 1
    if structure.through is None:
        fraction = float(np.sqrt(observed.mean()))
        return 1.0 if single else structure.noise_dual_norm(part.shape) * fraction
    draws = [
        part.adjoint(rng.standard_normal(observed.shape)).astype(np.float64)
        for _ in range(DRAWS)
    ]
    levels = [float(np.std(z)) if single else structure.dual_norm(z) for z in draws]
    return float(np.mean(levels)) or 1.0


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


def _ranks(part: Part, X: Array) -> Array:
    """Return the rank of each block of a part."""
    sigma = part.structure.spectra(X)
    return np.asarray((sigma > ACTIVE * max(sigma.max(), 1e-300)).sum(axis=1))


def _free_parameters(part: Part, X: Array) -> int:
    """Return the dimension of the arrays whose blocks have the ranks of X's blocks."""
    ranks, blocks = _ranks(part, X), part.structure.split(np.ones(part.shape))
    a, b = blocks.shape[1:]
    sizes = blocks.sum(axis=(1, 2))  # without padding
    dimensions = ranks * (a + b - ranks) if min(a, b) > 1 else ranks * sizes
    return int(np.minimum(dimensions, sizes).sum())


def _caveats(
    result: Decomposition, state: State
) -> Iterator[tuple[str, type[Warning]]]:
    """Yield sentences on parts that do not solve the program or explain nothing."""
    terms = result._terms
    entries = any(isinstance(g[0][0].structure, Entries) for g in terms.values())
    if result.status.outcome is Outcome.LIMIT:
        inexact = state.primal > FEASIBLE and not entries
        sentence = (
            "The structures do not reproduce the data exactly (relative residual "
            f"{state.primal:.1e}); add Entries() for sparse errors."
            if inexact
            else f"The solver did not converge (relative residuals {state.primal:.1e} "
            f"and {state.dual:.1e}); raise max_iter."
        )
        yield sentence, ConvergenceWarning
    free = sum(_free_parameters(*term) for group in terms.values() for term in group)
    values = int(np.isfinite(result.residual).sum())
    if result.status.converged and free >= values:
        yield (
            f"The parts have {free:,} free parameters for {values:,} values: the data "
            "are noisy, or no mixture of these structures; the parts may be wrong"
            + ("." if entries else ", so add Entries() for sparse errors."),
            UserWarning,
        )
