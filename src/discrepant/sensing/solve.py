"""Any operator, one answer: exact where there is one, else at the level of the noise.

The pursuit comes first: it costs least, and where it ends exactly nothing is left to
ask. Where it does not, the convex program is followed instead, and the pursuit tries
again from there: beyond the reach of the one the other often succeeds. If no fit is
exact there is noise on every measurement, or nothing to be told; a fit at the level of
the noise has to predict measurements that were held out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from discrepant.core.linalg import Array, norm, rank_at_gap
from discrepant.core.progress import Report
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
    Symmetry,
    dual_norm,
    solve_normal_equations,
)
from discrepant.operators.operator import Operator
from discrepant.paper.alpha import alpha_from_operator
from discrepant.sensing.certificate import Proof
from discrepant.sensing.dual import bound_from, primal_of
from discrepant.sensing.primal_dual import Moving, flow
from discrepant.sensing.recorder import Recorder
from discrepant.sensing.result import SensingResult


@dataclass(frozen=True)
class Tuning:
    """Constants of the strategy."""

    # Scale of a pursuit at rest, in units of the data's, below which it stands for the
    # noise without a second opinion.
    small: float = 0.1
    bold: int = 2  # components that are tried though nothing says that they are there
    attempts: tuple[int, ...] = (30, 80, 150)  # steps of the flow before a pursuit
    look: int = 20  # steps of the flow between looks at its gap
    certified: float = 1e-4  # gap up to which an exact fit is the convex optimum
    # Steps of conjugate gradients, and their accuracy, to see whether X is determined:
    # few are enough as a rule, and then it may be badly conditioned only.
    probes: tuple[tuple[int, float], ...] = ((20, 3e-3), (150, 1e-6))
    undetermined: float = 0.01  # share of a random change that measurements do not see
    # Distance of held-out measurements beyond which a fit with noise predicts nothing:
    # in units of its own noise, and of the data.
    surprise: float = 1.6
    needed: float = 1.2  # measurements for each degree of freedom, with noise
    useless: float = 0.8
    # Of the largest component: what noise may hide without a word, and when nothing is
    # left that is not hidden.
    hidden: float = 0.25
    nothing: float = 0.6


TUNING = Tuning()


@dataclass(frozen=True)
class Asked:
    """What is asked of a solve; `discrepant.recover` explains each."""

    kind: Symmetry = "general"
    alpha: float | str = "auto"
    noise: float | str = "auto"
    fdr: float = 0.01
    tol: float = 1e-6
    max_iter: int = 2000
    random_state: Any = None
    callback: Any = None


class Solver:
    """One problem on its way to an answer: what the phases share."""

    def __init__(self, A: Measurements, asked: Asked, report: Report) -> None:
        self.A, self.asked = A, asked
        self.rng = np.random.default_rng(asked.random_state)
        self.log = Recorder(
            report, asked.callback, asked.max_iter, norm(A.y), asked.tol
        )
        self.alpha = self._alpha()
        self.lam = 1 / self.alpha
        self.moving: Moving | None = None  # where the flow stands
        self._flow: Iterator[Moving] | None = None

    def _alpha(self) -> float:
        if not isinstance(self.asked.alpha, str):
            return float(self.asked.alpha)
        # Where X is symmetric only that part of A*(±1) can pass for signal.
        kind: Symmetry = "general" if self.asked.kind == "general" else "symmetric"
        found = alpha_from_operator(
            cast(Operator, self.A), lambda Z: dual_norm(Z, kind), self.rng
        )
        return found or 1.0

    @property
    def sigma(self) -> float | None:
        """The noise where it is told."""
        noise = self.asked.noise
        return None if isinstance(noise, str) else float(noise)

    def pursuit(self, at: FixedRankMatrix | None, bold: int = 0) -> Fit:
        """Follow the residuals down, from a point or from zero."""
        found = initial_fit(self.A, at, self.asked.kind)
        return pursue(self.A, found, self.rng, self.log, self.sigma, bold)

    def reconsidered(self, found: Fit) -> Fit:
        """Return a fit at rest after a second look at what it takes for wrong."""
        return refit_outliers(self.A, found, self.asked.fdr, self.rng, self.log)

    def convex(self, most: float, polish: bool) -> Fit | None:
        """Follow the convex program, so many steps at the most, towards its optimum.

        Returns an exact fit if a pursuit from a state on the way ends in one.
        """
        if self._flow is None:
            start_from, kind = None, self.asked.kind
            self._flow = flow(self.A, kind, self.lam, math.inf, self.rng, start_from)
            self.taken, self.gap = 0, math.inf
        for now in self._flow:
            self.moving, self.taken = now, self.taken + 1
            go_on = self.log.note("flow", now.at, now.e, self.A)
            if self.taken % TUNING.look == 0:
                self.gap = self._gap_of(now)
            done = self.gap <= self.asked.tol or not go_on or self.log.ended
            if polish and (self.taken in TUNING.attempts or done):
                leading = _leading(now.at)
                found = self.pursuit(leading) if _low(leading) and go_on else None
                if found is not None and found.exact:
                    return found
            if done or self.taken >= most:
                break
        return None

    def _gap_of(self, now: Moving) -> float:
        primal = primal_of(now.at, now.e, self.lam, math.inf)
        dual = bound_from(self.A, self.A.y, now.nu, self.lam, math.inf, self.asked.kind)
        return (primal - dual) / (primal or 1.0)

    def with_noise(self, found: Fit) -> tuple[FitWithNoise, list[str]]:
        """Refit at the level of the noise; also why that cannot be believed, if so."""
        A = self.A
        noisy = fit_with_noise(A, found, self.sigma, self.asked.fdr, self.rng, self.log)
        at, right = noisy.at, int(np.sum(~noisy.is_outlier))
        if noisy.detection_limit > TUNING.nothing:
            return noisy, [
                "No component of X stands out of what measurements of this size give "
                "by chance"
            ]
        if right * A.n_numbers / A.y.size < TUNING.needed * at.degrees_of_freedom:
            return noisy, [
                f"The {right} measurements that fit are too few to tell X of rank "
                f"{at.rank}, which has {at.degrees_of_freedom} degrees of freedom, "
                "from noise"
            ]
        noisy = replace(noisy, held_out_scale=held_out_scale(A, noisy, self.rng))
        if noisy.is_outlier.mean() > 0.5:
            return noisy, ["More than half of the measurements do not fit"]
        surprise = (
            noisy.held_out_scale > TUNING.surprise * noisy.expected_held_out_scale
        )
        if surprise or noisy.held_out_scale > TUNING.useless * found.data_scale:
            return noisy, ["X fits measurements that it was given, but not others"]
        return noisy, []

    def determined(self, at: FixedRankMatrix, clean: Array) -> bool:
        """Whether no change of X within its rank is invisible to the measurements.

        A random change is measured and solved for: what does not come back was not
        seen.
        """
        A = self.A
        z = at.project(_random(A, self.rng))
        weights = clean.astype(float)
        g = at.project(A.adjoint(weights * A.forward(*at.expand(z))))
        for steps, tol in TUNING.probes:
            solved = solve_normal_equations(A, at, weights, g, steps, tol)
            if norm(solved.x - z) <= TUNING.undetermined * norm(z):
                return True
        return False


def solve(
    A: Measurements, asked: Asked, report: Report, warm: FixedRankMatrix | None = None
) -> SensingResult:
    """Split ``y = A(X) + s``, told no more than is asked."""
    solver = Solver(A, asked, report)
    if not A.y.any():
        return _zero(solver)
    told = not isinstance(asked.alpha, str)
    found = solver.pursuit(warm) if warm is not None else None
    if found is None or not found.exact:
        found = solver.pursuit(None)
    if not found.exact and not solver.log.stopped:
        found = solver.reconsidered(found)
    if solver.log.stopped:
        return _as_noise(solver, solver.with_noise(found)[0])
    if found.exact:
        answer = _as_exact(solver, found)
        if not told or answer.certificate.gap <= TUNING.certified:
            return answer
        solver.convex(math.inf, polish=False)
        return _as_convex(solver, [])
    if solver.sigma:
        noisy, doubts = solver.with_noise(found)
        return _as_noise(solver, noisy, doubts)
    untold = asked.noise == "auto" and not told
    if untold and found.scale <= TUNING.small * found.data_scale:
        noisy, doubts = solver.with_noise(found)
        if not doubts:
            return _as_noise(solver, noisy)
    again: Fit | None = solver.pursuit(found.at, TUNING.bold)
    if again is None or not again.exact:
        again = solver.convex(TUNING.attempts[-1] if untold else math.inf, polish=True)
    if again is not None:
        answer = _as_exact(solver, again)
        if not told or answer.certificate.gap <= TUNING.certified:
            return answer
    if not untold:
        solver.convex(math.inf, polish=False)
        return _as_convex(solver, [])
    return _second_opinion(solver, found)


def _second_opinion(solver: Solver, first: Fit) -> SensingResult:
    """Return the better of two fits with noise, if it can be believed at all."""
    fits = [first]
    if solver.moving is not None and _low(leading := _leading(solver.moving.at)):
        fits.append(solver.reconsidered(solver.pursuit(leading)))
    judged = [solver.with_noise(found) for found in fits]
    noisy, doubts = min(judged, key=lambda pair: pair[0].held_out_scale)
    if not doubts:
        return _as_noise(solver, noisy)
    solver.convex(math.inf, polish=False)
    return _as_convex(solver, doubts)


def _as_exact(solver: Solver, found: Fit) -> SensingResult:
    """Hand back an exact fit."""
    A, rng, caveats = solver.A, solver.rng, []
    sure = solver.determined(found.at, found.clean)
    if not sure or outliers_explained_by_signal(
        A, found.at, found.e, ~found.clean, rng
    ):
        reach = float(np.max(np.abs(found.e)))
        again = refit_with_shrinking_cutoff(A, found, reach, rng, solver.log)
        better = again.exact and again.clean.sum() >= found.clean.sum()
        found = again if better else found
        sure = solver.determined(found.at, found.clean)
    clean = found.clean
    if not sure:
        caveats.append(
            "The measurements do not determine X: a part of it could change without "
            "any of those that fit taking notice, and is arbitrary. More measurements, "
            "or others, are needed."
        )
    sentence = f"{int(clean.sum())} of {clean.size} measurements fit exactly"
    proof = Proof(found.e, ~clean, solver.lam)
    return _split(solver, found.at, proof, sentence, True, caveats)


def _as_noise(
    solver: Solver, noisy: FitWithNoise, doubts: list[str] | None = None
) -> SensingResult:
    """Hand back a fit at the level of the noise."""
    caveats = [f"{doubt}: it need not be the truth." for doubt in doubts or []]
    if not noisy.settled and not solver.log.stopped:
        caveats.append(
            "The fit with noise went on changing its flags; they are less "
            "sure than they say."
        )
    if noisy.detection_limit > TUNING.hidden:
        caveats.append(
            f"Components of X below {noisy.detection_limit:.0%} of its largest would "
            "not stand out of the noise, and may be missing."
        )
    sentence = f"noise of {noisy.sigma:.2g} on every measurement"
    # λ/κ is 2σ, and 1/κ then the size of the noise that passes for signal (`alpha`).
    kappa = solver.lam / (2 * noisy.sigma) if noisy.sigma else math.inf
    proof = Proof(noisy.e, noisy.is_outlier, solver.lam, kappa)
    converged = noisy.settled and not solver.log.stopped
    return _split(solver, noisy.at, proof, sentence, converged, caveats, noisy)


def _as_convex(solver: Solver, doubts: list[str]) -> SensingResult:
    """Hand back the optimum of the convex program."""
    A, now = solver.A, solver.moving
    assert now is not None
    wrong = np.abs(now.nu) >= solver.lam * (1 - 1e-6)
    if not math.isfinite(solver.gap):
        solver.gap = solver._gap_of(now)
    certified = solver.gap <= max(solver.asked.tol, TUNING.certified)
    caveats = []
    if A.n_numbers <= now.at.degrees_of_freedom:
        caveats.append(
            f"{A.y.size} measurements are too few to tell: X of rank {now.at.rank} "
            f"has {now.at.degrees_of_freedom} degrees of freedom. What is handed "
            "back has the least ‖X‖_* + λ‖s‖₁ of all that fit."
        )
    elif doubts:
        caveats.append(
            f"{doubts[0]}: what is handed back is the optimum of the convex program, "
            "which need not be the truth. More measurements are needed, or fewer wrong "
            "ones."
        )
    if not certified and not solver.log.stopped:
        caveats.append(
            f"The convex program is within {solver.gap:.1e} of its optimum only; raise "
            "max_iter, or tol."
        )
    proof = Proof(now.e, wrong, solver.lam, nu=now.nu)
    sentence = f"within {solver.gap:.1e} of the optimum of the convex program"
    return _split(solver, now.at, proof, sentence, certified, caveats)


def _zero(solver: Solver) -> SensingResult:
    """Hand back zero for data that are zero."""
    A = solver.A
    at = FixedRankMatrix.zero(A.shape, solver.asked.kind, A.dtype)
    proof = Proof(A.y, np.zeros(A.y.shape, bool), solver.lam)
    solver.log.note("pursuit", at, A.y, A)
    return _split(solver, at, proof, "all measurements are zero", True, [])


def _split(
    solver: Solver,
    at: FixedRankMatrix,
    proof: Proof,
    sentence: str,
    converged: bool,
    caveats: list[str],
    noisy: FitWithNoise | None = None,
) -> SensingResult:
    A, rounds = solver.A, len(solver.log.rows)
    order = np.argsort(-np.abs(at.d))
    shape = A.observation.shape
    probability = (
        proof.wrong.astype(float) if noisy is None else noisy.corrupt_probability
    )
    if solver.log.stopped:
        outcome, how = Outcome.STOPPED, "stopped on request"
        caveats = ["The fit was stopped early: X may be far off."]
    elif converged:
        outcome, how = Outcome.CONVERGED, "converged"
        if noisy is not None:
            outcome = Outcome.NOISE_LEVEL
    else:
        outcome, how = Outcome.LIMIT, "ended"
    return SensingResult(
        point=at.select(order),
        y=A.observation,
        operator=A.operator,
        alpha=solver.alpha,
        psd=solver.asked.kind == "psd",
        symmetric=solver.asked.kind != "general",
        outliers=proof.wrong.reshape(shape),
        probability=probability.reshape(shape),
        sigma=0.0 if noisy is None else noisy.sigma,
        status=Status(outcome, f"{how} after {rounds} rounds: {sentence}"),
        history=solver.log.history(),
        caveats=tuple(caveats),
        bound=clipping_bound(np.abs(A.y), float(np.abs(A.y).max())) or math.inf,
        measuring=A,
        proof=proof,
    )


def _random(A: Measurements, rng: np.random.Generator) -> Array:
    X = rng.standard_normal(A.shape)
    return X if A.real else X + 1j * rng.standard_normal(A.shape)


def _leading(at: FixedRankMatrix) -> FixedRankMatrix:
    """Return the components before the largest gap between two of them."""
    order = np.argsort(-np.abs(at.d))
    return at.select(order[: rank_at_gap(np.abs(at.d)[order])])


def _low(at: FixedRankMatrix) -> bool:
    return 0 < at.rank <= max(1, min(len(at.U), len(at.V)) // 2)
