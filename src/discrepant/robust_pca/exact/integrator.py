"""Solve exact robust PCA by implicit steps along the paper's limit flow.

Implicit Euler with step μ on the limit of the discrepant flow, Ṁ = Y − X − S with
M ∈ ∂(‖X‖_* + λ‖S‖₁), is an augmented-Lagrangian step for the convex program (see
`problem`). Each step is one pass over the data. T = L + M/μ replaces the dual: the step
for S clips, the step for L shrinks the singular values of T, and one product TᵀT V
updates the singular subspace of T.

The solver has three phases.

*Fast*: μ doubles at every step. After a few steps, the rank shows as a gap in the
singular values, and the corruption as large residuals.

*Polish*: least squares on the clean entries at the visible rank (`polish`). The result
is accepted only if it is exact: more clean entries than a matrix of this rank has
degrees of freedom fit to rounding.

*Careful*: otherwise (noise on every entry, too high a rank), μ is adapted so that
primal and dual residuals fall together, down to the convex optimum.

The optimum depends on the sign of a gross error and not on its size: M = ±λ there.
Entries are therefore clipped, far above their typical size, as they are read. If a
clipped entry proves clean, the bound is raised to it and the solve starts again.
"""

import numpy as np

from discrepant.core.errors import InputError
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.validation import check_square
from discrepant.robust_pca.exact.dual import dual_variable
from discrepant.robust_pca.exact.factored_svd import svd_of_product
from discrepant.robust_pca.exact.polish import PolishOutcome, polish
from discrepant.robust_pca.exact.result import ExactResult, exact_result
from discrepant.robust_pca.exact.step import VISIBLE_BELOW, State, Stepper
from discrepant.robust_pca.problem import ConvexProblem
from discrepant.robust_pca.result import Step

# Factor of μ per fast step. At 1.5 a fit takes two more passes; at 3 the steps pass the
# rank more often before it becomes visible (`benchmarks/matrix.py`).
GROWTH = 2.0
# Ratio of successive singular values that marks the rank. Those of corruption that is
# not separated yet lie within a factor of two of each other.
RANK_GAP = 4.0
# Fraction of clean entries among the clipped ones at which the solve restarts at once.
MANY_CLIPPED = 0.1
# Passes after which an exact solution is given up, unless the convex program is solved
# then. Nearly all exact solutions appear in fewer; some, near the limit of what is
# recoverable, in more than 100.
MAX_EXACT_PASSES = 150
# Polishes that end above rounding after which it is given up, too: the first one may
# have had too low a rank.
MAX_NOISE_FLOORS = 2
# Factor by which the residual falls before the next attempt to polish.
POLISH_AGAIN_FACTOR = 30.0
# Target ratio of the dual to the primal residual in the careful phase, and the largest
# one, beside noise.
RESIDUAL_RATIO, MAX_RATIO = 2.0, 400.0
# Steps after which a larger target ratio decays to RESIDUAL_RATIO.
RATIO_DECAYS_AFTER = 150
# Steps between two changes of μ in the careful phase.
STEPS_PER_MU = 3
# The dual residual may be this many times tol: it is relative to ‖M‖, which is smaller
# than ‖Y‖ by about this factor in typical problems.
DUAL_SLACK = 30.0
# Rank, as a fraction of the columns, above which it is the rank of noise.
HIGH_RANK = 0.3


def integrate(
    program: ConvexProblem,
    *,
    tol: float = 1e-7,
    max_iter: int = 200,
    polish: bool = True,
    exact_only: bool = False,
    rng: np.random.Generator | None = None,
    warm: ExactResult | None = None,
    log: Recorder | None = None,
) -> ExactResult:
    """Split the data of a problem into a low-rank and a sparse part.

    Parameters
    ----------
    program : ConvexProblem
        The problem; its data are not modified.
    tol : float
        Stop when ``‖Y − X − S‖ ≤ tol·‖Y‖`` and the dual residual ``μ‖ΔX‖ ≤
        30·tol·‖M‖``; at least 20 times the rounding error of the data's type.
    max_iter : int
        Largest number of passes over the data, unless there is a `log`.
    polish : bool
        Refine to rounding error if the solution is exact.
    exact_only : bool
        Give up if no exact solution appears soon, instead of solving the convex
        program.
    rng : numpy.random.Generator, optional
        Draws the random columns that search for new directions.
    warm : ExactResult, optional
        Start from the low-rank part, the dual and the step size of this result.
    log : Recorder, optional
        Records the passes, and may stop the solve.
    """
    rows = program.rows
    check_square(rows.shape, program.psd)
    if warm is not None and not warm.program.rows.same_layout(rows):
        raise InputError(
            "A warm start needs data of the same shape, type and memory order."
        )
    tol = max(tol, 20 * float(np.finfo(rows.dtype).eps))
    rng = np.random.default_rng() if rng is None else rng
    log = Recorder(lambda fraction, note: True, tol, max_iter) if log is None else log
    with rows:
        while True:
            stepper = Stepper(program, rng, rows.empty_like_data())
            result = _Integration(stepper, tol, polish, exact_only, log).run(warm)
            clipped_clean = stepper.wrongly_clipped()
            if not clipped_clean or log.ended:
                return result
            program = program.clipped_at(clipped_clean)
            del stepper, result  # frees T


class _Integration:
    """One run of the solver with a fixed clipping bound: fast, polish, careful."""

    def __init__(
        self,
        stepper: Stepper,
        tol: float,
        polish: bool,
        exact_only: bool,
        log: Recorder,
    ) -> None:
        self.stepper, self.tol, self.polish, self.log = stepper, tol, polish, log
        self.exact_only = exact_only
        self.first_pass = len(log.steps)  # passes that were made before this run
        self.noise_floors = 0  # number of polishes that ended above rounding
        self.zeta = 0.0  # cutoff of the clean residuals after a polish
        self.residual_ratio = RESIDUAL_RATIO  # target of dual over primal residual

    def run(self, warm: ExactResult | None) -> ExactResult:
        """Take fast steps until the rank is visible; then polish, or step carefully."""
        stepper, log = self.stepper, self.log
        if stepper.program.scale.top == 0:
            stepper.T = stepper.program.rows.empty_like_data(fill=0.0)
            return self.result(
                Outcome.EXACT, "converged: all entries are zero or missing"
            )
        self.begin(warm)
        phase, polish_below = (
            ("fast", VISIBLE_BELOW) if self.polish else ("careful", 0.0)
        )
        while not log.ended:
            step = stepper.step(phase)
            log.note(step)
            residual, dual_residual = step.residual, step.dual_residual
            if residual <= self.tol and dual_residual <= DUAL_SLACK * self.tol:
                if self.polish and self.try_polish(step.rank, residual):
                    return self.result(Outcome.EXACT, "converged: exact to rounding")
                return self.result(
                    Outcome.CONVERGED,
                    f"converged: residual {residual:.0e} below tol {self.tol:.0e}",
                )
            if residual < polish_below and not stepper.basis_is_full:
                if self.try_polish(self.visible_rank(), residual):
                    return self.result(Outcome.EXACT, "converged: exact to rounding")
                if stepper.wrongly_clipped(MANY_CLIPPED):
                    return self.result(
                        Outcome.NOT_EXACT, "clipped entries are not corrupt"
                    )
                phase, polish_below = "careful", residual / POLISH_AGAIN_FACTOR
            if self.exact_only and self.is_hopeless(step):
                return self.result(Outcome.NOT_EXACT)
            stepper.grow(self.growth(step))
        return self.result(log.outcome, f"{log.end}: residual {log.residual:.1e}")

    def is_hopeless(self, step: Step) -> bool:
        """Whether no exact solution is likely to appear: see the constants."""
        program = self.stepper.program
        # With X ⪰ 0 a high rank may still fall.
        rank_is_noise = not program.psd and step.rank > HIGH_RANK * program.rows.n
        return (
            len(self.log.steps) - self.first_pass > MAX_EXACT_PASSES
            or self.noise_floors >= MAX_NOISE_FLOORS
            or (step.phase == "careful" and rank_is_noise)
        )

    def begin(self, warm: ExactResult | None) -> None:
        """Start from a previous result if its scale is similar, else from the data."""
        stepper = self.stepper
        if warm is None or not warm.rank:
            stepper.begin()
            return
        ratio = stepper.program.unit / warm.program.unit
        if not 1e-8 < ratio < 1e8:
            stepper.begin()
            return
        state = warm.state
        M = dual_variable(warm.program, state)
        stepper.start_from(state.U, state.C * ratio, M, state.mu / ratio)

    def growth(self, step: Step) -> float:
        """Return the factor of μ: 2 if fast, else by the ratio of the residuals."""
        if self.stepper.basis_is_full:
            return 1.0
        if step.phase == "fast":
            return GROWTH
        taken = len(self.log.steps)
        if taken % STEPS_PER_MU or step.residual == 0:
            return 1.0
        if taken > RATIO_DECAYS_AFTER:
            self.residual_ratio = max(RESIDUAL_RATIO, 0.7 * self.residual_ratio)
        dual_residual = max(step.dual_residual, self.tol / 10)
        factor = np.sqrt(self.residual_ratio * step.residual / dual_residual)
        return float(np.clip(factor, 0.5, 2.0))

    def visible_rank(self) -> int:
        """Return the position of the last large gap in the singular values, or 0."""
        stepper = self.stepper
        above = np.maximum(stepper.s[: stepper.C.shape[1]] * stepper.mu, 1.0)
        if not len(above):
            return 0
        drops = above / np.append(above[1:], 1.0)
        return int(np.max(np.flatnonzero(drops > RANK_GAP), initial=-1)) + 1

    def try_polish(self, r: int, residual: float) -> bool:
        """Polish at rank r; keep the result if it is exact."""
        stepper = self.stepper
        if not r:
            return False
        polished = polish(
            stepper.program,
            stepper.U[:, :r],
            stepper.C[:, :r],
            n_corrupt=stepper.n_corrupt,
            error=residual * stepper.norm_Y / np.sqrt(stepper.program.scale.observed),
            log=self.log,
        )
        if polished.outcome is PolishOutcome.NOISE_FLOOR:
            self.noise_floors += 1
            # Balance the dual residual against the noise instead of ‖Y‖.
            ratio = 0.4 / max(self.log.residual, 1e-9)
            self.residual_ratio = min(max(ratio, RESIDUAL_RATIO), MAX_RATIO)
        if not polished.exact:
            return False
        U, V, s = svd_of_product(polished.A, polished.B)
        stepper.U, stepper.C, self.zeta = U, V * s, polished.zeta
        return True

    def result(self, outcome: Outcome, sentence: str = "") -> ExactResult:
        """Return the present state as a result."""
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
        return exact_result(stepper.program, state, status, log.history())
