"""The implicit integrator: robust PCA in a few big steps, each one pass over the data.

Implicit Euler with step μ on the limit of the discrepant flow, Ṁ = Y − X − S with
M ∈ ∂(‖X‖_* + λ‖S‖₁), is an augmented-Lagrangian step for the convex program (see
`program`).  In place of the dual we keep T = L + M/μ, so that the step for S is a clip,
the step for L is singular-value shrinking of T, and the subspace of T, warm from the
step before, follows it with a single product TᵀT V.

The integration has three phases.

*Fast*: μ doubles at every step.  A few steps suffice to see the rank as a gap in the
singular values and the corruption as what sticks out of the residual.

*Polish*: with the rank known, least squares on the clean entries (`polish`).  It is
accepted only if it is exact, and if the dual of the fast steps agrees that it is the
minimiser.

*Careful*: if it is not (noise on every entry, too high a rank), μ is steered so that
primal and dual residuals fall together, down to the convex optimum.

The optimum does not depend on how large a gross error is, only on its sign: M = ±λ
there.  So entries are clipped, far above their usual size, as they are read, and one
huge entry drowns nothing.  If in the end an entry was clipped that is not corrupt, the
bound is raised to it and the integration starts again.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from discrepant.core.errors import InputError
from discrepant.core.progress import Report
from discrepant.core.results import Outcome, Status
from discrepant.core.validation import check_square
from discrepant.robust_pca.exact.dual import dual_of
from discrepant.robust_pca.exact.factored_svd import product
from discrepant.robust_pca.exact.polish import Polished, polish
from discrepant.robust_pca.exact.result import ExactResult, split_of
from discrepant.robust_pca.exact.step import TUNING as STEP
from discrepant.robust_pca.exact.step import State, Stepper
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.recorder import Recorder, Step
from discrepant.robust_pca.row_regression import extended


@dataclass(frozen=True)
class Tuning:
    """Constants of the integration."""

    # μ per fast step.  At 1.5 a fit takes two more passes, at 3 the rank shows less
    # often before the steps have run past it (`benchmarks/matrix.py`).
    growth: float = 2.0
    # Drop between singular values that is taken for the rank.  Those of the corruption
    # that has not been told apart yet lie within a factor of two of each other.
    gap: float = 4.0
    # Share of clipped entries that are not corrupt, to start again at once.
    many_clipped: float = 0.1
    # Duality gap, by the dual of the fast steps, that a polish may leave: that dual is
    # far from converged, and another exact splitting would miss by more.
    agree: float = 0.5
    # The residual falls by so much before another polish is tried.
    patience: float = 30.0
    # Wanted ratio of the dual to the primal residual in the careful phase.
    bias: float = 2.0
    # Steps after which that ratio is pulled back to its usual value.
    settling: int = 150
    # The dual residual may be so many times tol: it is measured against ‖M‖, which is
    # that much smaller than ‖Y‖ is large in the usual problem.
    dual_slack: float = 30.0


TUNING = Tuning()
HIGH_RANK = 0.3  # share of the columns beyond which a rank is that of noise
CAUGHT_UP = 10.0  # times the error of the usual row: what is left if all are like it


def integrate(
    program: ConvexProblem,
    *,
    tol: float = 1e-7,
    max_iter: int = 200,
    polish: bool = True,
    careful: bool = True,
    looks: int = 2,
    rng: np.random.Generator | None = None,
    warm: ExactResult | None = None,
    report: Report = lambda share, note: True,
    log: Recorder | None = None,
) -> ExactResult:
    """Split the data of a program into a low-rank and a sparse part.

    Parameters
    ----------
    program : Program
        What is solved.  Its data are never written to.
    tol : float
        Stop when ``‖Y − X − S‖ ≤ tol·‖Y‖`` and the dual residual ``μ‖ΔX‖ ≤
        30·tol·‖M‖``; at least 20 times the rounding error of the data's type.
    max_iter : int
        Passes over the data, of all phases together.
    polish : bool
        Refine to rounding where the solution is exact.
    careful : bool
        Go on to the convex optimum where no exact solution is found soon.
    looks : int
        Otherwise: how often a polish may fail.
    rng : numpy.random.Generator, optional
        Draws the few random columns that look for new directions.
    warm : Split, optional
        Start from the low-rank part, the dual and the step of a result of equal shape.
    report : callable, optional
        Told of each pass, ``report(share, note)``; False stops.
    log : Log, optional
        Where passes are written down; by default a new one.
    """
    rows = program.rows
    check_square(rows.shape, program.psd)
    if warm is not None and not warm.program.rows.same_layout(rows):
        raise InputError(
            "A warm start needs data of the same shape, type and memory order."
        )
    tol = max(tol, 20 * float(np.finfo(rows.dtype).eps))
    rng = np.random.default_rng() if rng is None else rng
    log = Recorder(report, tol, max_iter) if log is None else log
    most = np.inf if careful else looks
    with rows:
        while True:
            stepper = Stepper(program, rng, rows.empty_like_data())
            found = _Integration(stepper, tol, polish, most, log).run(warm)
            wrong = stepper.wrongly_clipped()
            if not wrong or log.ended:
                return found
            program = program.clipped_at(wrong)
            del stepper, found  # and T with them


class _Integration:
    """The phases of one integration; `run` is its story."""

    def __init__(
        self, stepper: Stepper, tol: float, polish: bool, looks: float, log: Recorder
    ) -> None:
        self.stepper, self.tol, self.polish, self.log = stepper, tol, polish, log
        # Looks at a possible exact solution that may fail. The second may succeed, near
        # the limit of what is recoverable.
        self.looks = looks
        self.zeta = 0.0  # where the clean residuals end, once polished
        self.next_change = 0  # of μ, at this step
        self.bias = TUNING.bias  # wanted ratio of dual to primal residual

    # -- the story ---------------------------------------------------------------

    def run(self, warm: ExactResult | None) -> ExactResult:
        """Go fast until there is something to see; then polish, or go carefully."""
        stepper, log = self.stepper, self.log
        if stepper.program.scale.top == 0:
            stepper.T = stepper.program.rows.empty_like_data(fill=0.0)
            return self.result(
                Outcome.EXACT, "converged: nothing but zeros or missing entries"
            )
        self.begin(warm)
        phase, look_at = ("fast", STEP.showing) if self.polish else ("careful", 0.0)
        while not log.ended:
            step = stepper.step(phase)
            log.note(step)
            residual, dual_residual = step.residual, step.dual_residual
            if residual <= self.tol and dual_residual <= TUNING.dual_slack * self.tol:
                return self.result(
                    Outcome.CONVERGED,
                    f"converged: residual {residual:.0e} below tol {self.tol:.0e}",
                )
            if residual < look_at and not stepper.saturated:
                r = self.visible_rank()
                self.looks -= 1
                if r and self.try_polish(r, residual):
                    return self.result(Outcome.EXACT, "converged: exact to rounding")
                if stepper.wrongly_clipped(TUNING.many_clipped):
                    return self.result(
                        Outcome.NOT_EXACT, "clipped entries that are not corrupt"
                    )
                phase, look_at = "careful", residual / TUNING.patience
                if self.looks <= 0:
                    return self.result(Outcome.NOT_EXACT)
            if phase == "careful" and np.isfinite(self.looks) and self.is_high(step):
                return self.result(Outcome.NOT_EXACT)
            stepper.grow(self.growth(step))
        return self.result(log.outcome, f"{log.end}: residual {log.residual:.1e}")

    def is_high(self, step: Step) -> bool:
        """Whether the rank is that of noise; under X ⪰ 0 it may fall again."""
        program = self.stepper.program
        return not program.psd and step.rank > HIGH_RANK * program.rows.n

    def begin(self, warm: ExactResult | None) -> None:
        """Start from the data; or from a result, unless its scale is another one."""
        stepper = self.stepper
        if warm is None or not warm.rank:
            stepper.begin()
            return
        ratio = stepper.program.unit / warm.program.unit
        if not 1e-8 < ratio < 1e8:
            stepper.begin()
            return
        state = warm.state
        M = dual_of(warm.program, state)
        stepper.start_from(state.U, state.C * ratio, M, state.mu / ratio)

    def growth(self, step: Step) -> float:
        """Fast: double μ.  Careful: let primal and dual residuals fall together."""
        if self.stepper.saturated:
            return 1.0
        if step.phase == "fast":
            return TUNING.growth
        taken = len(self.log.steps)
        if taken < self.next_change or step.residual == 0:
            return 1.0
        # Rarer and rarer: with μ at rest the iteration is sure to converge.
        self.next_change = taken + max(3, taken // 30)
        if taken > TUNING.settling:
            self.bias = max(TUNING.bias, 0.7 * self.bias)
        dual_residual = max(step.dual_residual, self.tol / 10)
        pull = np.sqrt(self.bias * step.residual / dual_residual)
        return float(np.clip(pull, 0.5, 2.0))

    # -- polish ------------------------------------------------------------------

    def visible_rank(self) -> int:
        """Where the singular values drop to the noise, or 0 if they do not."""
        stepper = self.stepper
        above = np.maximum(stepper.s[: stepper.C.shape[1]] * stepper.mu, 1.0)
        if not len(above):
            return 0
        drops = above / np.append(above[1:], 1.0)
        return int(np.max(np.flatnonzero(drops > TUNING.gap), initial=-1)) + 1

    def try_polish(self, r: int, residual: float) -> bool:
        """Polish, and take the result if it is exact and the dual agrees with it."""
        stepper = self.stepper
        found = polish(
            stepper.program,
            stepper.U[:, :r],
            stepper.C[:, :r],
            active=stepper.active,
            norm_Y=stepper.norm_Y,
            residual=residual,
            log=self.log,
        )
        if found.lagging and not self.log.ended:
            found = self.catch_up(found)
        if found.noise:
            # The primal residual is to be measured by the noise, and not by Y, when it
            # is weighed against the dual one.
            wanted = 0.4 / max(found.noise, 1e-9)
            self.bias = float(np.clip(wanted, TUNING.bias, 400.0))
        if not found.exact:
            self.looks += found.rounding  # a few lines were left behind: it is exact
            if found.settled and np.isfinite(self.looks):
                self.looks = 0
            return False
        U, V, s = product(found.A, found.B)
        primal = s.sum() + stepper.program.lam * found.beyond
        if stepper.product < (1 - TUNING.agree) * primal:
            return False
        stepper.U, stepper.C, self.zeta = U, V * s, found.zeta
        return True

    # -- the end -----------------------------------------------------------------

    def catch_up(self, found: Polished) -> Polished:
        """Fit all rows anew by the row space of a polish that left some behind."""
        stepper = self.stepper
        program, rows = stepper.program, stepper.program.rows
        basis = linalg.qr(found.B, mode="economic")[0]
        wrong = stepper.active / program.scale.observed
        fits = extended(program, basis, np.ones(rows.n), wrong, stepper.rng)
        size = np.sqrt(program.scale.observed) / stepper.norm_Y
        return polish(
            program,
            fits.coordinates,
            basis,
            active=stepper.active,
            norm_Y=stepper.norm_Y,
            residual=CAUGHT_UP * found.lagging * size,
            log=self.log,
        )

    def result(self, outcome: Outcome, sentence: str = "") -> ExactResult:
        """Hand back where the integration stands."""
        stepper, log = self.stepper, self.log
        state = State(
            U=stepper.U,
            C=stepper.C,
            T=stepper.T,
            last=stepper.last,
            mu=stepper.last_mu,
            zeta=self.zeta,
            residual=log.residual,
        )
        status = Status(outcome, sentence or outcome.value)
        return split_of(stepper.program, state, status, log.history())
