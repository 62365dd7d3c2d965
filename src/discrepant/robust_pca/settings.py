"""Settings of the matrix solvers, and the validation of `RobustPCA`'s parameters."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.validation import (
    check_choice,
    check_fdr,
    check_flag,
    check_integer,
    check_number,
    check_rates,
    check_seed,
    quote,
    refuse_unused,
)
from discrepant.paper.matrix_descent import DESCENT_ONLY

SOLVERS = ("implicit", "descent")
# How long an exact decomposition is searched for.
EFFORTS = ("best", "fast")
# Default tolerance of the residual and limit of passes of the implicit solver.
DEFAULT_TOL, DEFAULT_PASSES = 1e-7, 500
# Parameters of `RobustPCA` that the descent does not use, and their defaults.
IMPLICIT_ONLY = {
    "noise": "auto",
    "fdr": 0.01,
    "polish": True,
    "effort": "best",
    "warm_start": False,
    "memory_limit": None,
    "n_jobs": None,
}
# Those that a fit of the stored entries of a sparse matrix does not use.
NOT_OF_STORED_ENTRIES = {
    "solver": "implicit",
    "alpha": "auto",
    "psd": False,
    "polish": True,
    "effort": "best",
    "warm_start": False,
    "memory_limit": None,
}


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the implicit solver, as for `RobustPCA`."""

    alpha: float | str = "auto"
    psd: bool = False
    noise: Any = "auto"
    fdr: float = 0.01
    tol: float = DEFAULT_TOL
    max_iter: int = DEFAULT_PASSES
    polish: bool = True
    effort: str = "best"
    random_state: Any = None

    @classmethod
    def of(cls, model: Any) -> "SolverSettings":
        """Return the settings of a `RobustPCA`, whose None means the default."""
        values = {field.name: getattr(model, field.name) for field in fields(cls)}
        return cls(**{name: v for name, v in values.items() if v is not None})

    @property
    def alpha_is_given(self) -> bool:
        """Whether the user chose α, and with it a convex program."""
        return not isinstance(self.alpha, str)

    @property
    def noise_by_column(self) -> bool | None:
        """True for one noise level per column; None if the fit decides."""
        by_column = isinstance(self.noise, str) and self.noise == "column"
        return True if by_column else None


def check_parameters(model: Any) -> None:
    """Refuse invalid and unused parameters of `RobustPCA` before any work.

    `noise` is checked later, against the number of columns.
    """
    check_choice("solver", model.solver, SOLVERS)
    check_choice("effort", model.effort, EFFORTS)
    check_choice("missing", model.missing, ("nan", "unstored"))
    check_rates(model.alpha, model.step, model.init_scale)
    check_fdr(model.fdr)
    check_seed(model.random_state)
    for name in ("psd", "polish", "warm_start"):
        check_flag(name, getattr(model, name))
    if model.tol is not None:
        check_number("tol", model.tol, "zero or more", lambda tol: tol >= 0)
    if model.max_iter is not None:
        requirement = "a whole number of steps, at least 1, or None"
        check_integer("max_iter", model.max_iter, requirement, lambda steps: steps >= 1)
    if model.memory_limit is not None:
        requirement = "a whole number of bytes, or None"
        check_integer(
            "memory_limit", model.memory_limit, requirement, lambda size: size >= 0
        )
    if model.solver == "descent":
        refuse_unused(vars(model), IMPLICIT_ONLY, 'belongs to solver="implicit"')
    else:
        refuse_unused(vars(model), DESCENT_ONLY, 'belongs to solver="descent"')
    if model.missing == "unstored":
        why = 'is not used with missing="unstored"'
        refuse_unused(vars(model), NOT_OF_STORED_ENTRIES, why)
    # An integer counts as true or false; a function receives progress reports.
    if not callable(model.verbose) and not isinstance(model.verbose, int):
        check_flag("verbose", model.verbose)


def parse_noise(noise: Any, n_columns: int) -> Array | None:
    """Return the given noise of each column; None if it is to be estimated."""
    if isinstance(noise, str):
        if noise not in ("auto", "column"):
            raise InputError(
                f'noise must be "auto", "column", or a number of zero or more, or one '
                f"for each column, got {quote(noise)}."
            )
        return None
    try:
        sigma = np.asarray(np.nan if isinstance(noise, bool) else noise, np.float64)
    except (TypeError, ValueError, OverflowError):
        sigma = np.full(0, np.nan)
    if sigma.ndim == 0:
        sigma = np.full(n_columns, sigma)
    if sigma.shape != (n_columns,):
        raise InputError(
            f"noise must be a number or one for each of the {n_columns} columns, got "
            f"{quote(noise)}."
        )
    if not (np.isfinite(sigma) & (sigma >= 0)).all():
        raise InputError(f"noise must be zero or more everywhere, got {quote(noise)}.")
    return sigma


def check_noise_scale(sigma: Array, bound: float, eps: float) -> None:
    """Refuse given noise of the columns that does not suit the size of the data.

    `bound` is the size of the largest entries that are not gross errors, and `eps` the
    relative rounding error of the data's type.
    """
    if not (sigma > 0).all():
        raise InputError(
            "noise is zero for some columns and not for others; give every column a "
            "positive one, or noise=0 for a table without noise."
        )
    if (sigma < eps * bound).any():
        raise InputError(
            f"noise of {sigma.min():.3g} is below the rounding of entries of size "
            f"{bound:.3g}; pass noise=0 for a table without noise."
        )
    if (sigma * eps > bound).any():
        raise InputError(
            f"noise of {sigma.max():.3g} is far above entries of size {bound:.3g}; "
            "give it in the unit of the data."
        )
