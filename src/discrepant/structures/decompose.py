"""`decompose`: data as a sum of structured parts, weighted by their shapes."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress, reporting
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.threads import blas_threads
from discrepant.core.validation import (
    check_count,
    check_number,
    check_seed,
    missing_values,
    real_array,
)
from discrepant.operators.operator import Operator, dot_test
from discrepant.structures.blocks import Entries, Structure
from discrepant.structures.decomposition import (
    Decomposition,
    certificate_from,
    free_parameters,
)
from discrepant.structures.solver import Part, State, integrate, polish, residual
from discrepant.structures.weights import part_shape, weighted_parts

EXACT = 1e-10  # relative residual below which a polished fit is exact
POLISHED_GAP = 1e-3  # duality gap that a polished fit may have
FEASIBLE = 1e-3  # relative residual above which the parts do not reproduce the data
SAME = 1e-10  # relative difference of the norms of random data in equal structures
EIGH = 32  # multiplications by which a decomposition profits as from one in a product


class Pass(NamedTuple):
    """Relative residuals after one pass over the parts."""

    residual: float
    dual_residual: float


def decompose(
    y: ArrayLike,
    structures: Sequence[Structure],
    *,
    tol: float = 1e-7,
    max_iter: int = 2000,
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
    check_count("max_iter", max_iter)
    check_seed(random_state)
    data = real_array(y).astype(np.float64)
    observed = ~missing_values(data)
    data = np.where(observed, data, 0.0)
    groups = _named(structures, data.shape)
    unit = 2.0 ** np.floor(np.log2(np.abs(data).max())) if data.any() else 1.0
    data = data / unit
    side = min(data.shape[0], data.size // data.shape[0])

    with (
        reporting(progress, "Decomposing") as report,
        blas_threads(data.size * side // EIGH),
    ):
        recorder = Recorder(report, tol, max_iter)

        def proceed(state: State) -> bool:
            fraction = np.log(max(state.error, 1e-300)) / np.log(tol)
            return recorder.note(Pass(state.primal, state.dual), fraction)

        rng = np.random.default_rng(random_state)
        terms = weighted_parts(groups, observed, rng)
        parts = [part for group in terms.values() for part in group]
        _check_distinct(parts, observed.shape)
        state = integrate(data, parts, tol, max_iter, proceed)
        state.X, status = _finished(data, parts, state, recorder)
        certificate = certificate_from(data, terms, state.X, state.M)
    rest = np.where(observed, unit * residual(data, parts, state.X), np.nan)
    scaled = iter([unit * x for x in state.X])
    named = {name: [(part, next(scaled)) for part in g] for name, g in terms.items()}
    result = Decomposition(
        parts={name: np.sum([x for _, x in g], axis=0) for name, g in named.items()},
        weights={name: group[0].lam for name, group in terms.items()},
        certificate=certificate,
        residual=rest,
        status=status,
        history=recorder.history(),
        _terms=named,
        _dual=state.M,
    )
    for sentence, category in _caveats(result, state):
        warnings.warn(sentence, category, stacklevel=2)
    return result


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
        structure.check_shape(part_shape(structure, shape))
        name, count = structure.name, 2
        while name in named:
            name, count = f"{structure.name} {count}", count + 1
        named[name] = structure
    return named


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


def _finished(
    data: Array, parts: list[Part], state: State, recorder: Recorder
) -> tuple[list[Array], Status]:
    """Polish the parts if that gives an exact fit at the optimum; say how it ended."""
    if recorder.stopped or state.error >= recorder.tol:
        sentence = f"{recorder.end}: residual {state.primal:.1e}"
        return state.X, Status(recorder.outcome, sentence)
    if data.any():
        X, error = polish(data, parts, state.X)
        terms = {str(i): [part] for i, part in enumerate(parts)}
        gap = abs(certificate_from(data, terms, X, state.M).gap)
        if error < EXACT and gap < POLISHED_GAP:
            return X, Status(Outcome.EXACT, "converged: exact to rounding")
    sentence = f"converged: residual {state.primal:.0e} below tol {recorder.tol:.0e}"
    return state.X, Status(Outcome.CONVERGED, sentence)


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
    free = sum(free_parameters(*term) for group in terms.values() for term in group)
    values = int(np.isfinite(result.residual).sum())
    if result.status.converged and free >= values:
        yield (
            f"The parts have {free:,} free parameters for {values:,} values: the data "
            "are noisy, or no mixture of these structures; the parts may be wrong"
            + ("." if entries else ", so add Entries() for sparse errors."),
            UserWarning,
        )
