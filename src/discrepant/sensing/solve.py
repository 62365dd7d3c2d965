"""Recover X from measurements: pursuit, then the convex program, then a fit with noise.

The pursuit comes first: it is cheapest, and an exact fit needs nothing else. Where it
is not exact, primal-dual steps of the convex program run, and the pursuit starts again
from their result: together they recover more than either. If no fit is exact, there is
noise on every measurement, or the measurements do not determine X. A fit with noise has
to predict measurements that were held out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from discrepant.core.linalg import Array, Symmetry, dual_norm, norm, rank_at_gap
from discrepant.core.progress import Report
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.robust_statistics import clipping_bound
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.noise import (
    FitWithNoise,
    fit_with_noise,
    held_out_scale,
    refit_outliers,
)
from discrepant.fixed_rank.pursuit import (
    Fit,
    initial_fit,
    outliers_explained_by_signal,
    pursue,
    refit_with_shrinking_cutoff,
)
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    solve_normal_equations,
)
from discrepant.paper.alpha import alpha_from_operator
from discrepant.sensing.certificate import CertificateInputs
from discrepant.sensing.primal_dual import (
    ConvexProgram,
    PrimalDualState,
    primal_dual_steps,
)
from discrepant.sensing.result import SensingResult

# Scale of a settled pursuit, over that of the data, below which it counts as noise
# without trying another fit.
SMALL_SCALE = 0.1
# Components that are added without evidence before the convex program is tried.
EXTRA_COMPONENTS = 2
# Primal-dual steps after which a pursuit starts from the present X.
PURSUIT_AFTER = 150
# Primal-dual steps between two computations of the gap.
GAP_INTERVAL = 20
# Relative gap up to which a fit counts as the optimum of the convex program.
CERTIFIED_GAP = 1e-4
# Steps and accuracy of conjugate gradients in the test whether X is determined. A few
# steps suffice as a rule; if not, X may only be badly conditioned, and more are made.
DETERMINED_CG = ((20, 3e-3), (150, 1e-6))
# Fraction of a random change of X that may not be recovered from its measurements.
MAX_UNDETERMINED = 0.01
# Scale of held-out measurements over that of the data, at most.
MAX_HELD_OUT = 0.8
# Clean measurements for each degree of freedom of a fit with noise, at least.
MIN_MEASUREMENTS = 1.2
# Size, over the largest component, that noise may hide without a warning.
MAX_HIDDEN = 0.25
# The same from which on the fit has no component that exceeds noise.
ALL_HIDDEN = 0.6
# Residuals above this many median moduli are left out of the recorded residual.
GROSS_RESIDUAL = 7.4


@dataclass(frozen=True)
class SensingSettings:
    """Settings of a solve; `discrepant.recover` explains each."""

    kind: Symmetry = "general"
    alpha: float | str = "auto"
    noise: float | str = "auto"
    fdr: float = 0.01
    tol: float = 1e-6
    max_iter: int = 2000
    random_state: Any = None

    @property
    def alpha_is_given(self) -> bool:
        """Whether the user chose α: then the optimum of that program is wanted."""
        return not isinstance(self.alpha, str)

    @property
    def estimates_noise(self) -> bool:
        """Whether there may be noise of a level to be estimated."""
        return self.noise == "auto" and not self.alpha_is_given


def solve(
    A: Measurements,
    settings: SensingSettings,
    report: Report,
    start: FixedRankMatrix | None = None,
) -> SensingResult:
    """Decompose ``y = A(X) + s`` into a low-rank X and a sparse s."""
    run = SensingRun(A, settings, report)
    if not A.y.any():
        return _zero_result(run)
    objection = None
    for fit in _fits(run, start):
        if isinstance(fit, FitWithNoise):
            objection = fit.objection
            if objection is None or run.sigma or run.recorder.stopped:
                return _noisy_result(run, fit)
        elif fit.exact:
            result = _exact_result(run, fit)
            gap = result.certificate.gap if settings.alpha_is_given else 0.0
            if gap <= CERTIFIED_GAP:
                return result
            break  # the user wants the optimum of another convex program
    for _ in run.convex(math.inf):
        pass
    return _convex_result(run, objection)


def _fits(
    run: "SensingRun", start: FixedRankMatrix | None
) -> Iterator[Fit | FitWithNoise]:
    """Yield fits to choose from, cheapest first.

    An exact one is an answer; one with noise if there may be noise and nothing speaks
    against the fit. If there is none, the answer is the convex optimum.
    """
    if start is not None:
        yield run.pursuit(start)
    first = run.pursuit(None)
    yield first
    first = run.refit_flagged(first)
    yield first
    if run.sigma or run.recorder.stopped:
        yield run.fit_noise(first)
        return
    may_be_noisy = run.settings.estimates_noise
    if may_be_noisy and first.scale <= SMALL_SCALE * first.data_scale:
        yield run.fit_noise(first)
    yield run.pursuit(first.at, EXTRA_COMPONENTS)
    for leading in run.convex(PURSUIT_AFTER if may_be_noisy else math.inf):
        yield run.pursuit(leading)
    if may_be_noisy:
        noisy = run.fit_noise(first)
        if (at := run.leading_components()) is not None:
            other = run.fit_noise(run.refit_flagged(run.pursuit(at)))
            noisy = min(noisy, other, key=lambda fit: fit.held_out_scale)
        yield noisy


class Round(NamedTuple):
    """Outcome of one round."""

    phase: str  # "pursuit", "flow", "noise", …
    residual: float  # of the measurements that are not gross
    rank: int
    applications: int  # of the operator and its adjoint so far


class SensingRun:
    """One solve: settings, random numbers, history, and the attempts of a strategy."""

    def __init__(
        self, A: Measurements, settings: SensingSettings, report: Report
    ) -> None:
        self.A, self.settings = A, settings
        self.rng = np.random.default_rng(settings.random_state)
        self.recorder = Recorder(report, settings.tol, settings.max_iter)
        self.norm_y = norm(A.y) or 1.0
        self.alpha = self._alpha()
        self.lam = 1 / self.alpha
        self.program = ConvexProgram(A, settings.kind, self.lam, A.y)
        self.state: PrimalDualState | None = None  # after the last primal-dual step
        self.gap = math.inf  # relative duality gap of that state, when last computed
        self._n_steps = 0  # primal-dual steps so far
        self._steps: Iterator[PrimalDualState] | None = None

    def _alpha(self) -> float:
        if not isinstance(self.settings.alpha, str):
            return float(self.settings.alpha)
        # If X is symmetric, only the symmetric part of A*(±1) can look like signal.
        general = self.settings.kind == "general"
        kind: Symmetry = "general" if general else "symmetric"
        norm = partial(dual_norm, kind=kind)
        return alpha_from_operator(self.A, norm, self.rng) or 1.0

    @property
    def sigma(self) -> float | None:
        """The noise if it is given, else None."""
        noise = self.settings.noise
        return None if isinstance(noise, str) else float(noise)

    def note(self, phase: str, at: FixedRankMatrix, e: Array, A: Measurements) -> bool:
        """Record a round; return whether to continue."""
        size = np.abs(e)
        small = size[size <= GROSS_RESIDUAL * np.median(size)]
        residual = norm(small) / self.norm_y
        return self.recorder.note(Round(phase, residual, at.rank, A.n_applications))

    def pursuit(self, at: FixedRankMatrix | None, extra_components: int = 0) -> Fit:
        """Run a pursuit from a matrix or from zero."""
        fit = initial_fit(self.A, at, self.settings.kind)
        return pursue(self.A, fit, self.rng, self, self.sigma, extra_components)

    def refit_flagged(self, fit: Fit) -> Fit:
        """Return a settled fit, refitted if X could explain some of its outliers."""
        return refit_outliers(self.A, fit, self.settings.fdr, self.rng, self)

    def convex(self, max_steps: float) -> Iterator[FixedRankMatrix]:
        """Make primal-dual steps of the convex program, up to a total number.

        Yields the leading components of X on the way, for pursuits to start from.
        """
        if self._steps is None:
            self._steps = primal_dual_steps(self.program, self.rng)
        for state in self._steps:
            self.state, self._n_steps = state, self._n_steps + 1
            self.note("flow", state.at, state.e, self.A)
            if self._n_steps % GAP_INTERVAL == 0:
                self.gap = self.gap_of(state)
            done = self.gap <= self.settings.tol or self.recorder.ended
            if self._n_steps == PURSUIT_AFTER or done:
                leading = self.leading_components()
                if leading is not None and not self.recorder.stopped:
                    yield leading
            if done or self._n_steps >= max_steps:
                break

    def leading_components(self) -> FixedRankMatrix | None:
        """Return X before the largest gap of its singular values, if that is small."""
        if self.state is None:
            return None
        at = self.state.at
        order = np.argsort(-np.abs(at.d))
        leading = at.select(order[: rank_at_gap(np.abs(at.d)[order])])
        is_low_rank = 0 < leading.rank <= max(1, min(self.A.shape) // 2)
        return leading if is_low_rank else None

    def gap_of(self, state: PrimalDualState) -> float:
        """Return the relative duality gap of a state."""
        program = self.program
        primal = program.primal(state.at, state.e)
        dual = program.dual(program.feasible(state.nu))
        return (primal - dual) / (primal or 1.0)

    def fit_noise(self, fit: Fit) -> FitWithNoise:
        """Refit with noise; the result says what speaks against it, if anything."""
        A, fdr = self.A, self.settings.fdr
        noisy = fit_with_noise(A, fit, self.sigma, fdr, self.rng, self)
        freedom, n_clean = noisy.at.degrees_of_freedom, int(np.sum(~noisy.is_outlier))
        few = n_clean * A.n_numbers / A.y.size < MIN_MEASUREMENTS * freedom
        objection: str | None = None
        if noisy.detection_limit > ALL_HIDDEN:
            objection = "No component of X exceeds what noise of this size gives"
        elif few:
            objection = (
                f"The {n_clean} measurements that fit are too few to distinguish X of "
                f"rank {noisy.at.rank}, which has {freedom} degrees of freedom, from "
                "noise"
            )
        else:
            noisy = replace(noisy, held_out_scale=held_out_scale(A, noisy, self.rng))
            if noisy.is_outlier.mean() > 0.5:
                objection = "More than half of the measurements do not fit"
            elif noisy.held_out_scale > MAX_HELD_OUT * fit.data_scale:
                objection = "X does not predict measurements that were held out"
        return replace(noisy, objection=objection)

    def is_determined(self, at: FixedRankMatrix, clean: Array) -> bool:
        """Whether the clean measurements determine X among matrices of its rank.

        A random change of X is measured and solved for: if it is not recovered, some
        change of X leaves all measurements as they are.
        """
        A, weights = self.A, clean.astype(float)
        change = at.project(_random_matrix(A, self.rng))
        g = at.project(A.adjoint(weights * A.forward(*at.expand(change))))
        for steps, tol in DETERMINED_CG:
            solution = solve_normal_equations(A, at, weights, g, steps, tol)
            if norm(solution.x - change) <= MAX_UNDETERMINED * norm(change):
                return True
        return False


def _exact_result(run: SensingRun, fit: Fit) -> SensingResult:
    """Return the result of an exact fit, with a warning if X is not determined."""
    A, caveats = run.A, []
    determined = run.is_determined(fit.at, fit.clean)
    if not determined or outliers_explained_by_signal(
        A, fit.at, fit.e, ~fit.clean, run.rng
    ):
        cutoff = float(np.max(np.abs(fit.e)))
        refit = refit_with_shrinking_cutoff(A, fit, cutoff, run.rng, run)
        if refit.exact and refit.clean.sum() >= fit.clean.sum():
            fit = refit
        determined = run.is_determined(fit.at, fit.clean)
    clean = fit.clean
    if not determined:
        caveats.append(
            "The measurements do not determine X: a part of it can change without "
            "changing any of the measurements that fit, and is arbitrary. More, or "
            "different, measurements are needed."
        )
    sentence = f"{int(clean.sum())} of {clean.size} measurements fit exactly"
    inputs = CertificateInputs(fit.e, ~clean, run.lam)
    return _result(run, fit.at, inputs, sentence, True, caveats)


def _noisy_result(run: SensingRun, noisy: FitWithNoise) -> SensingResult:
    """Return the result of a fit with noise, with its doubts as warnings."""
    caveats = []
    if noisy.objection:
        caveats.append(f"{noisy.objection}: the result need not be the truth.")
    if not noisy.settled and not run.recorder.stopped:
        caveats.append(
            "The flags of the fit with noise did not settle; they are less reliable "
            "than their probabilities."
        )
    if noisy.detection_limit > MAX_HIDDEN:
        caveats.append(
            f"Components of X below {noisy.detection_limit:.0%} of its largest cannot "
            "be distinguished from noise, and may be missing."
        )
    sentence = f"noise of {noisy.sigma:.2g} on every measurement"
    # λ/κ is 2σ, and 1/κ then the size of the noise that looks like signal (`alpha`).
    kappa = run.lam / (2 * noisy.sigma) if noisy.sigma else math.inf
    inputs = CertificateInputs(noisy.e, noisy.is_outlier, run.lam, kappa)
    converged = noisy.settled and not run.recorder.stopped
    return _result(run, noisy.at, inputs, sentence, converged, caveats, noisy)


def _convex_result(run: SensingRun, objection: str | None) -> SensingResult:
    """Return the optimum of the convex program, which a fit with noise was not."""
    A, state = run.A, run.state
    assert state is not None
    is_outlier = np.abs(state.nu) >= run.lam * (1 - 1e-6)
    if not math.isfinite(run.gap):
        run.gap = run.gap_of(state)
    certified = run.gap <= max(run.settings.tol, CERTIFIED_GAP)
    freedom, caveats = state.at.degrees_of_freedom, []
    if A.n_numbers <= freedom:
        caveats.append(
            f"{A.y.size} measurements are too few: X of rank {state.at.rank} has "
            f"{freedom} degrees of freedom. The result has the least ‖X‖_* + λ‖s‖₁ of "
            "all that fit."
        )
    elif objection:
        caveats.append(
            f"{objection}: the result is the optimum of the convex program, which "
            "need not be the truth. More measurements, or fewer corrupted ones, are "
            "needed."
        )
    if not certified and not run.recorder.stopped:
        caveats.append(
            f"The result is only within {run.gap:.1e} of the optimum of the convex "
            "program; raise max_iter, or tol."
        )
    inputs = CertificateInputs(state.e, is_outlier, run.lam, nu=state.nu)
    sentence = f"within {run.gap:.1e} of the optimum of the convex program"
    return _result(run, state.at, inputs, sentence, certified, caveats)


def _zero_result(run: SensingRun) -> SensingResult:
    """Return X = 0 for data that are all zero."""
    A = run.A
    at = FixedRankMatrix.zero(A.shape, run.settings.kind, A.dtype)
    inputs = CertificateInputs(A.y, np.zeros(A.y.shape, bool), run.lam)
    run.note("pursuit", at, A.y, A)
    return _result(run, at, inputs, "all measurements are zero", True, [])


def _result(
    run: SensingRun,
    at: FixedRankMatrix,
    inputs: CertificateInputs,
    sentence: str,
    converged: bool,
    caveats: list[str],
    noisy: FitWithNoise | None = None,
) -> SensingResult:
    """Return a `SensingResult`, with its status and the warnings for the user."""
    A, rounds = run.A, len(run.recorder.steps)
    order = np.argsort(-np.abs(at.d))
    shape = A.observation.shape
    probability = inputs.is_outlier.astype(float)
    if noisy is not None:
        probability = noisy.corrupt_probability
    if run.recorder.stopped:
        outcome, how = Outcome.STOPPED, "stopped on request"
        caveats = ["The fit was stopped early: X may be far off."]
    elif converged:
        outcome = Outcome.CONVERGED if noisy is None else Outcome.NOISE_LEVEL
        how = "converged"
    else:
        outcome, how = Outcome.LIMIT, "ended"
    return SensingResult(
        point=at.select(order),
        y=A.observation,
        operator=A.operator,
        alpha=run.alpha,
        psd=run.settings.kind == "psd",
        symmetric=run.settings.kind != "general",
        outliers=inputs.is_outlier.reshape(shape),
        probability=probability.reshape(shape),
        sigma=0.0 if noisy is None else noisy.sigma,
        status=Status(outcome, f"{how} after {rounds} rounds: {sentence}"),
        history=run.recorder.history(),
        caveats=tuple(caveats),
        bound=clipping_bound(np.abs(A.y), float(np.abs(A.y).max())) or math.inf,
        measurements=A,
        certificate_inputs=inputs,
    )


def _random_matrix(A: Measurements, rng: np.random.Generator) -> Array:
    X = rng.standard_normal(A.shape)
    return X if A.real else X + 1j * rng.standard_normal(A.shape)
