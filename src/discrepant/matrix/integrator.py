"""The implicit integrator: robust PCA in a few big steps, each one pass over the data.

Implicit Euler with step μ on the limit of the discrepant flow, Ṁ = Y − X − S with
M ∈ ∂(‖X‖_* + λ‖S‖₁), is an augmented-Lagrangian step for

    minimise ‖X‖_* + λ‖S‖₁   subject to   X + S = Y on the observed entries,  λ = 1/α

(and X ⪰ 0 if `psd`).  In place of the dual we keep T = L + M/μ, so that the step for S
is a clip, the step for L is singular-value shrinking of T, and the subspace of T, warm
from the step before, follows it with a single product TᵀT V.

The integration has three gaits.

*Fast*: μ doubles at every step.  A few steps suffice to see the rank as a gap in the
singular values and the corruption as what sticks out of the residual.

*Polish*: with the rank known, least squares on the clean entries (`polish`).  It is
accepted only if it is exact, and if the dual of the fast steps agrees that it is the
minimiser.

*Careful*: if it is not (noise on every entry, too high a rank), μ is steered so
that primal and dual residuals fall together, down to the convex optimum.

The optimum does not depend on how large a gross error is, only on its sign: M = ±λ
there.  So entries are clipped, far above their usual size, as they are read, and one
huge entry drowns nothing.  If in the end an entry was clipped that is not corrupt, the
bound is raised to it and the integration starts again.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from discrepant.errors import InputError
from discrepant.linalg import check_square
from discrepant.matrix.polish import polish
from discrepant.matrix.spectra import product
from discrepant.matrix.split import Split
from discrepant.matrix.steps import LOOK, Scale, Step, Stepper
from discrepant.matrix.sweep.rows import Rows
from discrepant.result import History, Status

_GROWTH = 2.0  # μ per fast step
_GAP = 4.0  # drop in singular values that is taken for the rank
_MANY = 0.1  # share of clipped entries that are not corrupt, to start again at once
_AGREE = 0.5  # duality gap, by the dual of the fast steps, that a polish may leave


def integrate(
    Y: Any,
    *,
    alpha: float,
    psd: bool = False,
    tol: float = 1e-7,
    max_iter: int = 200,
    polish: bool = True,
    rng: np.random.Generator | None = None,
    warm: Split | None = None,
    callback: Callable[[int, Step], object] | None = None,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
) -> Split:
    """Split Y into a low-rank and a sparse part.

    Parameters
    ----------
    Y : array of shape (m, n)
        Float64 or float32 (kept); NaN is missing.  Never written to.
    alpha : float
        Ratio of the learning rates of corruption and signal; λ = 1/α.
    psd : bool
        Ask for a positive semidefinite low-rank part; Y need not be symmetric.
    tol : float
        Stop when ``‖Y − X − S‖ ≤ tol·‖Y‖`` and the dual residual ``μ‖ΔX‖ ≤
        30·tol·‖M‖``; at least 20 times the rounding error of the data's type.
    max_iter : int
        Passes over the data, of all gaits together.
    polish : bool
        Refine to rounding where the solution is exact.
    rng : numpy.random.Generator, optional
        Draws the few random columns that look for new directions.
    warm : Split, optional
        Start from the low-rank part, the dual and the step of a result of equal shape.
    callback : callable, optional
        Called as ``callback(number, step)``; a true return value stops.
    n_jobs, memory_limit
        As for `blocks.Rows`.
    """
    rows = Rows(Y, n_jobs=n_jobs, memory_limit=memory_limit)
    check_square(rows.shape, psd)
    if warm is not None and not warm._rows.lies_like(rows):
        raise InputError("A warm start needs data of the same shape and memory order.")
    tol = max(tol, 20 * float(np.finfo(rows.dtype).eps))
    rng = np.random.default_rng() if rng is None else rng
    history: list[Step] = []
    with rows:
        scale = Scale.of(rows)
        while True:
            stepper = Stepper(rows, scale, 1 / alpha, psd, rng, rows.scratch())
            run = _Integration(stepper, tol, max_iter, polish, callback, history)
            found = run.run(warm)
            wrong = stepper.wrongly_clipped()
            if not wrong or run.stopped or len(history) >= max_iter:
                return found
            scale = replace(scale, bound=wrong)
            del stepper, run, found  # and T with them


class _Integration:
    """The gaits of one integration; `run` is its story."""

    def __init__(
        self,
        stepper: Stepper,
        tol: float,
        max_iter: int,
        polish: bool,
        callback: Callable[[int, Step], object] | None,
        history: list[Step],
    ) -> None:
        self.stepper, self.tol, self.max_iter = stepper, tol, max_iter
        self.polish, self.callback, self.history = polish, callback, history
        self.stopped = False
        self.zeta = 0.0  # where the clean residuals end, once polished
        self.next_change = 0  # of μ, at this step
        self.bias = 2.0  # wanted ratio of dual to primal residual

    # -- the story ---------------------------------------------------------------

    def run(self, warm: Split | None) -> Split:
        """Go fast until there is something to see; then polish, or go carefully."""
        stepper = self.stepper
        if stepper.scale.top == 0:
            stepper.T[:] = 0
            return self.result("converged: nothing but zeros or missing entries", True)
        self.begin(warm)
        gait, look = ("fast", LOOK) if self.polish else ("careful", 0.0)
        while len(self.history) < self.max_iter and not self.stopped:
            step = stepper.step(gait)
            self.note(step)
            residual, dual_residual = step.residual, step.dual_residual
            if residual <= self.tol and dual_residual <= 30 * self.tol:
                return self.result(
                    f"converged: residual {residual:.0e} below tol {self.tol:.0e}", True
                )
            if residual < look and not stepper.saturated:
                r = self.visible_rank()
                if r and self.try_polish(r, residual):
                    return self.result("converged: exact to rounding", True)
                if stepper.wrongly_clipped(_MANY):
                    return self.result("clipped entries that are not corrupt", False)
                gait, look = "careful", residual / 30
            stepper.grow(self.growth(step))
        if self.stopped:
            return self.result("stopped by the callback", False)
        return self.result(
            f"took all of {self.max_iter} steps: residual {residual:.1e}", False
        )

    def begin(self, warm: Split | None) -> None:
        """Start from the data; or from a result, unless its scale is another one."""
        stepper = self.stepper
        ratio = 0.0 if warm is None or not warm.rank else stepper.unit / warm._unit
        if warm is None or not 1e-8 < ratio < 1e8:
            stepper.begin()
            return
        U, C = warm._factors
        stepper.start_from(U, C * ratio, warm.dual, warm.mu / ratio)

    def growth(self, step: Step) -> float:
        """Fast: double μ.  Careful: let primal and dual residuals fall together."""
        if self.stepper.saturated:
            return 1.0
        if step.gait == "fast":
            return _GROWTH
        taken = len(self.history)
        if taken < self.next_change or step.residual == 0:
            return 1.0
        # Rarer and rarer: with μ at rest the iteration is sure to converge.
        self.next_change = taken + max(3, taken // 30)
        if taken > 150:
            self.bias = max(2.0, 0.7 * self.bias)
        dual_residual = max(step.dual_residual, self.tol / 10)
        pull = np.sqrt(self.bias * step.residual / dual_residual)
        return float(np.clip(pull, 0.5, 2.0))

    def note(self, step: Step) -> None:
        """Write a step down and tell the caller."""
        self.history.append(step)
        if self.callback is not None and self.callback(len(self.history), step):
            self.stopped = True

    # -- polish ------------------------------------------------------------------

    def visible_rank(self) -> int:
        """Where the singular values drop to the noise, or 0 if they do not."""
        stepper = self.stepper
        above = np.maximum(stepper.s[: stepper.C.shape[1]] * stepper.mu, 1.0)
        if not len(above):
            return 0
        drops = above / np.append(above[1:], 1.0)
        return int(np.max(np.flatnonzero(drops > _GAP), initial=-1)) + 1

    def try_polish(self, r: int, residual: float) -> bool:
        """Polish, and take the result if it is exact and the dual agrees with it."""

        def note(relative: float, support: float) -> bool:
            self.note(Step("polish", relative, np.nan, r, np.nan, support))
            return self.stopped or len(self.history) >= self.max_iter

        stepper = self.stepper
        found = polish(
            stepper.rows,
            stepper.U[:, :r],
            stepper.C[:, :r],
            psd=stepper.psd,
            unit=stepper.unit,
            observed=stepper.scale.observed,
            active=stepper.active,
            norm_Y=stepper.norm_Y,
            residual=residual,
            note=note,
        )
        if found.noise:
            # The primal residual is to be measured by the noise, and not by Y, when it
            # is weighed against the dual one.
            self.bias = float(np.clip(0.4 / max(found.noise, 1e-9), 2.0, 400.0))
        if not found.exact:
            return False
        U, V, s = product(found.A, found.B)
        primal = s.sum() + stepper.lam * found.beyond
        if stepper.product < (1 - _AGREE) * primal:
            return False
        stepper.U, stepper.C, self.zeta = U, V * s, found.zeta
        return True

    # -- the end -----------------------------------------------------------------

    def result(self, sentence: str, converged: bool) -> Split:
        """Turn the factors to the caller's orientation and unit."""
        stepper, rows = self.stepper, self.stepper.rows
        s = np.linalg.norm(stepper.C, axis=0)
        order = np.argsort(-s)
        floor = 10 * np.finfo(rows.dtype).eps  # in units of the bound
        order = order[s[order] > floor]
        s = s[order]
        U, V = rows.turn(stepper.U[:, order], stepper.C[:, order] / s)
        return Split(
            U=U.astype(rows.dtype),
            s=(s / stepper.unit).astype(rows.dtype),
            Vt=np.ascontiguousarray(V.T, rows.dtype),
            status=Status(converged, sentence),
            n_steps=len(self.history),
            history=_columns(self.history),
            lam=stepper.lam,
            psd=stepper.psd,
            polished=self.zeta > 0,
            mu=stepper.last_mu,
            _rows=rows,
            _T=stepper.T,
            _last=stepper.last,
            _scale=stepper.scale,
            _zeta=self.zeta,
            _feasibility=self.history[-1].residual if self.history else 0.0,
        )


def _columns(steps: list[Step]) -> History:
    """Turn steps into one array a name."""
    columns = {
        name: np.array([getattr(s, name) for s in steps]) for name in Step._fields
    }
    return History({"step": np.arange(1, len(steps) + 1), **columns})
