"""What a fit is asked for, looked at before any work: each parameter by itself."""

from typing import Any

from discrepant.core.validation import (
    check_choice,
    check_fdr,
    check_flag,
    check_integer,
    check_number,
    check_rates,
    check_seed,
)

SOLVERS = ("implicit", "descent")


def check_asked(model: Any) -> None:
    """Refuse parameters of `RobustPCA` that cannot be meant.

    `noise` and `width` are looked at with the data, whose columns they count.
    """
    check_choice("solver", model.solver, SOLVERS)
    check_choice("missing", model.missing, ("nan", "unstored"))
    check_rates(model.alpha, model.step, model.init_scale)
    check_fdr(model.fdr)
    check_seed(model.random_state)
    for name in ("psd", "polish", "warm_start"):
        check_flag(name, getattr(model, name))
    if model.tol is not None:
        check_number("tol", model.tol, "zero or more", lambda tol: tol >= 0)
    if model.max_iter is not None:
        what = "a whole number of steps, at least 1, or None"
        check_integer("max_iter", model.max_iter, what, lambda steps: steps >= 1)
    if model.memory_limit is not None:
        what = "a whole number of bytes, or None"
        check_integer("memory_limit", model.memory_limit, what, lambda size: size >= 0)
    # True and False are whole numbers, too; a function is told of the progress.
    if not callable(model.verbose) and not isinstance(model.verbose, int):
        check_flag("verbose", model.verbose)
