"""Recover X from measurements: pursuit, then the convex program, then a fit with noise.

The pursuit comes first: it is cheapest, and an exact fit needs nothing else. Where it
is not exact, primal-dual steps of the convex program run, and the pursuit starts again
from their result: together they recover more than either. If no fit is exact, there is
noise on every measurement, or the measurements do not determine X. A fit with noise has
to predict measurements that were held out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from discrepant.core.linalg import Array, Symmetry, dual_norm, norm, rank_at_gap
from discrepant.core.progress import Report
from discrepant.core.recorder import Recorder
from discrepant.core.results import Outcome, Status
from discrepant.core.robust_statistics import clipping_bound
from discrepant.fixed_rank.measurements import Measurements
from discrepant.fixed_rank.noise import FitWithNoise, fit_with_noise
from discrepant.fixed_rank.pursuit import Fit, Pursuit
from discrepant.fixed_rank.tangent_space import (
    FixedRankMatrix,
    solve_normal_equations,
)
from discrepant.paper.alpha import alpha_from_operator
from discrepant.robust_pca.doubts import Doubt, FitWarning, doubts_of_noise
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
# Size of a component that noise may hide, relative to the largest one, from which on no
# component exceeds noise.
ALL_HIDDEN = 0.6


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
    explained = True
    for fit in _fits(run, start):
        if isinstance(fit, NoisyAttempt):
            explained = not fit.objections
            if explained or run.sigma or run.recorder.stopped:
                return _noisy_result(run, fit)
        elif fit.exact:
            result = _exact_result(run, fit)
            gap = result.certificate.gap if settings.alpha_is_given else 0.0
            if gap <= CERTIFIED_GAP:
                return result
            break  # the user wants the optimum of another convex program
    for _ in run.convex(math.inf):
        pass
    return _convex_result(run, explained)


class NoisyAttempt(NamedTuple):
    """A fit with noise, and what speaks against it."""

    fit: FitWithNoise
    held_out_scale: float  # of the residuals of held-out measurements
    objections: tuple[FitWarning, ...]


def _fits(
    run: "SensingRun", start: FixedRankMatrix | None
) -> Iterator[Fit | NoisyAttempt]:
    """Yield fits to choose from, cheapest first.

    An exact one is an answer; one with noise if there may be noise and nothing speaks
    against the fit. If there is none, the answer is the convex optimum.
    """
    pursuit = run.pursuit
    if start is not None:
        yield pursuit.fit(start)
    first = pursuit.fit()
    yield first
    if run.sigma or run.recorder.stopped:
        yield run.fit_noise(first)
        return
    may_be_noisy = run.settings.estimates_noise
    if may_be_noisy and first.scale <= SMALL_SCALE * run.A.scale:
        noisy = run.fit_noise(first)
        if noisy.fit.sigma <= run.A.rounding * run.A.scale:
            yield pursuit.run(noisy.fit.at)
        yield noisy
    yield pursuit.run(first.at, EXTRA_COMPONENTS)
    for leading in run.convex(PURSUIT_AFTER if may_be_noisy else math.inf):
        yield pursuit.run(leading)
    if may_be_noisy:
        noisy = run.fit_noise(first)
        if (at := run.leading_components()) is not None:
            other = run.fit_noise(pursuit.fit(at))
            noisy = min(noisy, other, key=lambda attempt: attempt.held_out_scale)
        yield noisy


class SensingRun:
    """One solve: settings, random numbers, history, and the attempts of a strategy."""

    def __init__(
        self, A: Measurements, settings: SensingSettings, report: Report
    ) -> None:
        self.A, self.settings = A, settings
        self.rng = np.random.default_rng(settings.random_state)
        self.recorder = Recorder(report, settings.tol, settings.max_iter)
        self.alpha = self._alpha()
        self.lam = 1 / self.alpha
        self.program = ConvexProgram(A, settings.kind, self.lam, A.y)
        self.pursuit = Pursuit(
            A, settings.kind, self.rng, self.recorder.note, settings.fdr, self.sigma
        )
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

    def convex(self, max_steps: float) -> Iterator[FixedRankMatrix]:
        """Make primal-dual steps of the convex program, up to a total number.

        Yields the leading components of X on the way, for pursuits to start from.
        """
        if self._steps is None:
            self._steps = primal_dual_steps(self.program, self.rng)
        for state in self._steps:
            self.state, self._n_steps = state, self._n_steps + 1
            self.pursuit.record("flow", state.at, state.e)
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

    def fit_noise(self, fit: Fit) -> NoisyAttempt:
        """Refit with noise, and say what speaks against the result."""
        A, noisy = self.A, fit_with_noise(self.pursuit, fit)
        at, is_outlier = noisy.at, noisy.is_outlier
        freedom, n_clean = at.degrees_of_freedom, int(np.sum(~is_outlier))
        if noisy.detection_limit > ALL_HIDDEN:
            return NoisyAttempt(noisy, math.inf, (Doubt.NOTHING_GAINED.warning(),))
        if n_clean * A.n_numbers / A.y.size < MIN_MEASUREMENTS * freedom:
            few = Doubt.TOO_FEW.warning(count=n_clean, rank=at.rank, freedom=freedom)
            return NoisyAttempt(noisy, math.inf, (few,))
        objections = []
        scale = noisy.held_out_scale(self.rng)
        if is_outlier.mean() > 0.5:
            objections.append(Doubt.MOSTLY_CORRUPT.warning(fraction=is_outlier.mean()))
        if scale > MAX_HELD_OUT * A.scale:
            ratio = scale / noisy.expected_held_out_scale
            objections.append(Doubt.NOT_PREDICTED.warning(ratio=ratio))
        return NoisyAttempt(noisy, scale, tuple(objections))

    def is_determined(self, fit: Fit) -> bool:
        """Whether the clean measurements determine X among matrices of its rank.

        A random change of X is measured and solved for: if it is not recovered, some
        change of X leaves all measurements as they are.
        """
        A, at, weights = self.A, fit.at, fit.clean.astype(float)
        change = at.project(_random_matrix(A, self.rng))
        g = at.project(A.adjoint(weights * A.forward(*at.expand(change))))
        for steps, tol in DETERMINED_CG:
            solution = solve_normal_equations(A, at, weights, g, steps, tol)
            if norm(solution.x - change) <= MAX_UNDETERMINED * norm(change):
                return True
        return False


def _exact_result(run: SensingRun, fit: Fit) -> SensingResult:
    """Return the result of an exact fit, with a warning if X is not determined."""
    doubts = []
    if not run.is_determined(fit):
        fit = run.pursuit.include_outliers(fit)
        if not run.is_determined(fit):
            doubts.append(Doubt.UNDETERMINED.warning(where=""))
    clean = fit.clean
    sentence = f"{int(clean.sum())} of {clean.size} measurements fit exactly"
    inputs = CertificateInputs(fit.e, ~clean, run.lam)
    return _result(run, fit.at, inputs, sentence, True, doubts)


def _noisy_result(run: SensingRun, attempt: NoisyAttempt) -> SensingResult:
    """Return the result of a fit with noise, with its doubts."""
    noisy, doubts = attempt.fit, list(attempt.objections)
    if not noisy.settled:
        doubts.append(Doubt.UNSETTLED.warning())
    if noisy.detection_limit <= ALL_HIDDEN:
        doubts.extend(doubts_of_noise(noisy, of_entries=False))
    sentence = f"noise of {noisy.sigma:.2g} on every measurement"
    # λ/κ is 2σ, and 1/κ then the size of the noise that looks like signal (`alpha`).
    kappa = run.lam / (2 * noisy.sigma) if noisy.sigma else math.inf
    inputs = CertificateInputs(noisy.e, noisy.is_outlier, run.lam, kappa)
    return _result(run, noisy.at, inputs, sentence, noisy.settled, doubts, noisy)


def _convex_result(run: SensingRun, explained: bool) -> SensingResult:
    """Return the optimum of the convex program.

    `explained` is False if a fit with noise was tried and has to be doubted.
    """
    A, state = run.A, run.state
    assert state is not None
    is_outlier = np.abs(state.nu) >= run.lam * (1 - 1e-6)
    if not math.isfinite(run.gap):
        run.gap = run.gap_of(state)
    certified = run.gap <= max(run.settings.tol, CERTIFIED_GAP)
    rank, freedom, doubts = state.at.rank, state.at.degrees_of_freedom, []
    if A.n_numbers <= freedom:
        few = Doubt.TOO_FEW.warning(count=A.y.size, rank=rank, freedom=freedom)
        doubts.append(few)
    elif not explained:
        doubts.append(Doubt.UNCONFIRMED.warning(fraction=is_outlier.mean()))
    optimum = f"within {run.gap:.1e} of the optimum of the convex program"
    if not certified:
        status = "The fit did not converge"
        doubts.append(Doubt.NOT_OPTIMAL.warning(status=status, certificate=optimum))
    inputs = CertificateInputs(state.e, is_outlier, run.lam, nu=state.nu)
    return _result(run, state.at, inputs, optimum, certified, doubts)


def _zero_result(run: SensingRun) -> SensingResult:
    """Return X = 0 for data that are all zero."""
    A = run.A
    at = FixedRankMatrix.zero(A.shape, run.settings.kind, A.dtype)
    inputs = CertificateInputs(A.y, np.zeros(A.y.shape, bool), run.lam)
    run.pursuit.record("pursuit", at, A.y)
    return _result(run, at, inputs, "all measurements are zero", True, [])


def _result(
    run: SensingRun,
    at: FixedRankMatrix,
    inputs: CertificateInputs,
    sentence: str,
    converged: bool,
    doubts: list[FitWarning],
    noisy: FitWithNoise | None = None,
) -> SensingResult:
    """Return a `SensingResult`, with its status and the warnings for the user."""
    A, rounds = run.A, len(run.recorder.steps)
    shape = A.observation.shape
    probability = inputs.is_outlier.astype(float)
    if noisy is not None:
        probability = noisy.corrupt_probability
    if run.recorder.stopped:
        outcome, how = Outcome.STOPPED, "stopped on request"
        doubts = [Doubt.STOPPED.warning()]
    elif converged:
        outcome = Outcome.CONVERGED if noisy is None else Outcome.NOISE_LEVEL
        how = "converged"
    else:
        outcome, how = Outcome.LIMIT, "ended"
    status = Status(
        outcome,
        f"{how} after {rounds} rounds: {sentence}",
        tuple(warning.doubt for warning in doubts),
    )
    return SensingResult(
        point=at.select(np.argsort(-np.abs(at.d))),
        y=A.observation,
        operator=A.operator,
        alpha=run.alpha,
        psd=run.settings.kind == "psd",
        symmetric=run.settings.kind != "general",
        outliers=inputs.is_outlier.reshape(shape),
        probability=probability.reshape(shape),
        sigma=0.0 if noisy is None else noisy.sigma,
        status=status,
        history=run.recorder.history(),
        doubts=tuple(doubts),
        bound=clipping_bound(np.abs(A.y), float(np.abs(A.y).max())) or math.inf,
        measurements=A,
        certificate_inputs=inputs,
    )


def _random_matrix(A: Measurements, rng: np.random.Generator) -> Array:
    X = rng.standard_normal(A.shape)
    return X if A.real else X + 1j * rng.standard_normal(A.shape)
