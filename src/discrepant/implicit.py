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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from discrepant import kernels
from discrepant.blocks import Rows
from discrepant.certificate import Certificate
from discrepant.dual import certify_factors, settle
from discrepant.errors import InputError
from discrepant.linalg import CORRUPT, Array, check_square, clip_bound
from discrepant.polish import polish
from discrepant.result import History, Status
from discrepant.spectra import distance, eigenpairs, product, triplets

_GROWTH = 2.0  # μ per fast step
_LOOK = 3e-2  # residual at which the rank and the support begin to show
_GAP = 4.0  # drop in singular values that is taken for the rank
_START_RANK = 16
_RIPE = 5e-6  # gap at which the dual of a polished result is good enough
_MANY = 0.1  # share of clipped entries that are not corrupt, to start again at once
_AGREE = 0.5  # duality gap, by the dual of the fast steps, that a polish may leave


class Step(NamedTuple):
    """What one step did."""

    gait: str  # "fast", "polish" or "careful"
    residual: float  # ‖Y − X − S‖ / ‖Y‖
    dual_residual: float  # μ‖ΔX‖ / ‖M‖; NaN in polish
    rank: int
    mu: float  # step size, in the unit of the integration; NaN in polish
    support: float  # share of observed entries where S ≠ 0


@dataclass(frozen=True)
class Split:
    """Low-rank part as U diag(s) Vᵀ, and all that is needed to compute the rest."""

    U: Array  # (m, r), orthonormal
    s: Array  # (r,), decreasing
    Vt: Array  # (r, n), orthonormal rows; the caller's orientation
    status: Status
    n_steps: int
    history: History
    lam: float
    psd: bool
    polished: bool
    mu: float
    _rows: Rows = field(repr=False)
    _T: Array = field(repr=False)
    _last: tuple[Array, Array] = field(repr=False)
    _scale: "_Scale" = field(repr=False)
    _zeta: float = field(repr=False)
    _feasibility: float = field(repr=False)

    @property
    def rank(self) -> int:
        """Rank of the low-rank part."""
        return len(self.s)

    @cached_property
    def low_rank(self) -> Array:
        """X, m×n, in the type of the data; computed when first asked for."""
        rows = self._rows
        X = rows.scratch()
        with rows:
            rows.sweep(
                kernels.low_rank_part, (X,), (self._unit,), low_rank=self._factors
            )
        return X.T if rows.Z_is_transposed else X

    @cached_property
    def sparse(self) -> Array:
        """S, m×n, in the type of the data; computed when first asked for.

        It is zero off its support, Y − X on it, and zero where Y is missing.
        """
        rows = self._rows
        S = rows.scratch()
        S[:] = 0
        # A polished support is known from the residual alone.
        M, reach = (S, 0.0) if self.polished else (self.dual, self._reach)
        with rows:
            rows.sweep(
                kernels.sparse_part,
                (S, M),
                (self._unit, reach, self._zeta),
                low_rank=self._factors,
            )
        return S.T if rows.Z_is_transposed else S

    def fits(self, Y: Array) -> bool:
        """Whether a solve of Y can start from here: same shape, order and type."""
        other = Rows(Y)
        return self._rows.lies_like(other) and self._rows.dtype == other.dtype

    @cached_property
    def dual(self) -> Array:
        """The dual M, laid out as the data are in memory; takes the place of T."""
        rows, M = self._rows, self._T
        with rows:
            rows.sweep(
                kernels.dual_from, (M,), (self.mu, self.lam), low_rank=self._last
            )
            if self.polished and self.rank:
                settle(
                    rows,
                    M,
                    self._factors,
                    self.psd,
                    self._unit,
                    self.lam,
                    self._reach,
                    self._zeta,
                )
                if self._certify(M).gap > _RIPE:
                    _ripen(self, M)
        return M

    @cached_property
    def certificate(self) -> Certificate:
        """Proof of optimality from the dual; no SVD of anything m×n."""
        M = self.dual
        with self._rows:
            return self._certify(M)

    def _certify(self, M: Array) -> Certificate:
        return certify_factors(
            self._rows,
            M,
            self._factors,
            float(np.sum(self.s, dtype=np.float64)) * self._unit,
            psd=self.psd,
            unit=self._unit,
            lam=self.lam,
            feasibility=self._feasibility,
        )

    @property
    def _unit(self) -> float:
        """What the data are multiplied by."""
        return self._scale.unit(self._rows.dtype)

    @property
    def _factors(self) -> tuple[Array, Array]:
        """L = U Cᵀ in the unit and the orientation of the blocks."""
        C = (self.s * self._unit)[:, None]
        if self._rows.turned:
            return self.Vt.T, (self.U * C.T)
        return self.U, (C * self.Vt).T

    @property
    def _reach(self) -> float:
        """Below λ by enough to tell, in float32 too, a dual on its bound."""
        return self.lam * (1 - 1e-4)


def integrate(
    Y: Any,
    *,
    alpha: float,
    psd: bool = False,
    tol: float = 1e-7,
    max_iter: int = 200,
    polish: bool = True,
    rng: np.random.Generator | None = None,
    warm: "Split | None" = None,
    callback: Callable[[int, Step], object] | None = None,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
) -> "Split":
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
    check_square(rows.Z.T.shape if rows.Z_is_transposed else rows.Z.shape, psd)
    if warm is not None and not warm._rows.lies_like(rows):
        raise InputError("A warm start needs data of the same shape and memory order.")
    tol = max(tol, 20 * float(np.finfo(rows.dtype).eps))
    rng = np.random.default_rng() if rng is None else rng
    history: list[Step] = []
    with rows:
        scale = _Scale.of(rows)
        while True:
            run = _Integration(
                rows,
                scale,
                1 / alpha,
                psd,
                tol,
                max_iter,
                polish,
                rng,
                callback,
                history,
            )
            found = run.run(warm)
            wrong = run.wrongly_clipped()
            if not wrong or run.stopped or len(history) >= max_iter:
                return found
            scale = replace(scale, bound=wrong)
            del run, found  # and T with them


@dataclass(frozen=True)
class _Scale:
    """What there is to see before the first step."""

    observed: int  # entries
    top: float  # the largest |entry|
    bound: float  # where |entries| are clipped

    @classmethod
    def of(cls, rows: Rows) -> "_Scale":
        """Scan the data."""
        _, _, scanned = rows.sweep(kernels.scan, scalars=(0.0,))
        top = float(scanned[:, 0].max(initial=0.0)) if scanned.size else 0.0
        if not np.isfinite(top):
            raise InputError(
                "The data contain infinite values; replace them by NaN to mark them "
                "as missing."
            )
        observed = int(scanned[:, 1].sum()) if scanned.size else 0
        return cls(observed, top, clip_bound(rows.Z, top))

    def unit(self, dtype: np.dtype) -> float:
        """Return what the data are multiplied by, so that the bound becomes one."""
        highest = float(np.finfo(dtype).max) / 4
        return 1.0 if self.top == 0 else min(1 / self.bound, highest)


class _Integration:
    """The state of one integration; `run` is its story."""

    def __init__(
        self,
        rows: Rows,
        scale: _Scale,
        lam: float,
        psd: bool,
        tol: float,
        max_iter: int,
        polish: bool,
        rng: np.random.Generator,
        callback: Callable[[int, Step], object] | None,
        history: list[Step],
    ) -> None:
        self.rows, self.lam, self.psd, self.tol = rows, lam, psd, tol
        self.max_iter, self.polish, self.rng = max_iter, polish, rng
        self.callback = callback
        self.history = history
        self.stopped = False
        # All numbers below are in units of the bound: no scale is special.
        self.unit, self.observed = scale.unit(rows.dtype), scale.observed
        self.scale = scale
        self.zeta = 0.0
        self.next_change = 0
        self.bias = 2.0  # wanted ratio of dual to primal residual

    # -- the story ---------------------------------------------------------------

    def run(self, warm: "Split | None") -> "Split":
        """Go fast until there is something to see; then polish, or go carefully."""
        rows, n = self.rows, self.rows.n
        self.T = rows.scratch()
        self.U, self.C = np.zeros((rows.m, 0)), np.zeros((n, 0))
        self.mu, self.s, self.below = 1.0, np.zeros(0), 0.0
        if self.scale.top == 0:
            self.T[:] = 0
            self.last, self.last_mu = (self.U, self.C), self.mu
            return self.result("converged: nothing but zeros or missing entries", True)
        self.begin(warm)
        gait, look = ("fast", _LOOK) if self.polish else ("careful", 0.0)
        while len(self.history) < self.max_iter and not self.stopped:
            residual, dual_residual, saturated = self.step(gait)
            if residual <= self.tol and dual_residual <= 30 * self.tol:
                return self.result(
                    f"converged: residual {residual:.0e} below tol {self.tol:.0e}", True
                )
            if residual < look and not saturated:
                r = self.visible_rank()
                if r and self.try_polish(r, residual):
                    return self.result("converged: exact to rounding", True)
                if self.wrongly_clipped(_MANY):
                    return self.result("clipped entries that are not corrupt", False)
                gait, look = "careful", residual / 30
            self.choose_mu(gait, residual, dual_residual, saturated)
        if self.stopped:
            return self.result("stopped by the callback", False)
        return self.result(
            f"took all of {self.max_iter} steps: residual {residual:.1e}", False
        )

    def begin(self, warm: "Split | None") -> None:
        """Look at the spectrum of Y and start M, μ and V; or start from a result."""
        rows, k = self.rows, min(_START_RANK, self.rows.n)
        ratio = 0.0 if warm is None or not warm.rank else self.unit / warm._unit
        if warm is not None and 1e-8 < ratio < 1e8:  # else of another scale altogether
            U, C = warm._factors
            self.start_from(U, C * ratio, warm.dual, warm.mu / ratio)
            return
        V = self.rng.standard_normal((rows.n, k))
        P, B, sums = rows.sweep(kernels.data, scalars=(self.unit,), right=V, power=True)
        self.norm_Y = float(np.sqrt(sums.sum()))
        _, self.V, s = triplets(P, B)
        spectral = 1.01 * s[0]
        self.mu = 1.25 / spectral
        self.first = 1 / (max(spectral, 1 / self.lam) * self.mu)
        self.keep = 0.0
        self.V = self.widen(self.V, k)
        if self.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]

    def start_from(self, U: Array, C: Array, M: Array, mu: float) -> None:
        """Start where a low-rank part, a dual and a step are known."""
        rows = self.rows
        _, _, sums = rows.sweep(kernels.data, scalars=(self.unit,))
        self.norm_Y = float(np.sqrt(sums.sum()))
        rows.sweep(kernels.lift, (self.T, M), (mu,), low_rank=(U, C))
        self.U, self.C, self.mu = U, C, mu
        self.first, self.keep, self.below = 0.0, 1.0, 0.0
        V = C / np.linalg.norm(C, axis=0)
        k = max(V.shape[1] + 4, _START_RANK)
        self.V = self.widen(V, min(k, rows.n))

    def step(self, gait: str) -> tuple[float, float, bool]:
        """One pass: S by clipping, L by shrinking the spectrum of T."""
        rows, mu = self.rows, self.mu
        self.last, self.last_mu = (self.U, self.C), mu
        scalars = (self.unit, self.first, self.keep, self.lam / mu)
        P, B, sums = rows.sweep(
            kernels.step,
            (self.T,),
            scalars,
            low_rank=self.last,
            right=self.V,
            left=self.V if self.psd else None,
            power=not self.psd,
        )
        if self.psd:
            # Shifted by half the most negative eigenvalue seen, so that the largest
            # are also the foremost: the dual is bounded from above only.
            P = (P + B) / 2 + (self.below / (2 * mu)) * self.V
            U, V, s = eigenpairs(rows, self.T, P)
            self.below = max(self.below, -s[-1] * mu)
        else:
            U, V, s = triplets(P, B)
        residual, alignment, active = sums.sum(axis=0)
        r = int(np.sum(s > 1 / mu))
        self.U, self.C = U[:, :r], V[:, :r] * (s[:r] - 1 / mu)
        self.s, self.product, self.active = s, alignment * mu, active
        relative = float(np.sqrt(residual) / self.norm_Y)
        dual_residual = np.nan  # of no use while μ grows
        if gait == "careful" or relative <= _LOOK:
            change = distance(self.last, (self.U, self.C))
            dual_residual = mu * change / np.sqrt(max(r, 1) + self.lam**2 * active)
        self.note(
            Step(
                gait,
                relative,
                float(dual_residual),
                r,
                mu,
                float(active / self.observed),
            )
        )
        # Every direction was needed: there may be more, so look for them.
        saturated = r == self.V.shape[1] and r < rows.n
        spare = max(4, r // 10) if gait == "fast" else 20
        wanted = 2 * r if saturated else max(r + spare, _START_RANK)
        self.V = self.widen(V, min(wanted, rows.n))
        if self.psd:
            self.V = linalg.qr(self.V, mode="economic")[0]
        self.first = 0.0
        return relative, float(dual_residual), saturated

    def choose_mu(
        self, gait: str, residual: float, dual_residual: float, saturated: bool
    ) -> None:
        """Fast: double.  Careful: let primal and dual residuals fall together."""
        growth = 1.0
        if saturated:
            pass
        elif gait == "fast":
            growth = _GROWTH
        elif len(self.history) >= self.next_change and residual > 0:
            # Rarer and rarer: with μ at rest the iteration is sure to converge.
            self.next_change = len(self.history) + max(3, len(self.history) // 30)
            if len(self.history) > 150:
                self.bias = max(2.0, 0.7 * self.bias)
            pull = np.sqrt(self.bias * residual / max(dual_residual, self.tol / 10))
            growth = float(np.clip(pull, 0.5, 2.0))
        self.keep = 1 / growth
        self.mu *= growth

    def widen(self, V: Array, k: int) -> Array:
        """Take k columns of V, filled up with random ones orthogonal to it."""
        if k <= V.shape[1]:
            return V[:, :k]
        X = self.rng.standard_normal((len(V), k - V.shape[1]))
        X -= V @ (V.T @ X)
        return np.hstack([V, X / np.linalg.norm(X, axis=0)])

    def note(self, step: Step) -> None:
        """Write a step down and tell the caller."""
        self.history.append(step)
        if self.callback is not None and self.callback(len(self.history), step):
            self.stopped = True

    # -- polish ------------------------------------------------------------------

    def visible_rank(self) -> int:
        """Where the singular values drop to the noise, or 0 if they do not."""
        above = np.maximum(self.s[: self.C.shape[1]] * self.mu, 1.0)
        if not len(above):
            return 0
        drops = above / np.append(above[1:], 1.0)
        return int(np.max(np.flatnonzero(drops > _GAP), initial=-1)) + 1

    def try_polish(self, r: int, residual: float) -> bool:
        """Polish, and take the result if it is exact and the dual agrees with it."""

        def note(relative: float, support: float) -> bool:
            self.note(Step("polish", relative, np.nan, r, np.nan, support))
            return self.stopped or len(self.history) >= self.max_iter

        found = polish(
            self.rows,
            self.U[:, :r],
            self.C[:, :r],
            psd=self.psd,
            unit=self.unit,
            observed=self.observed,
            active=self.active,
            norm_Y=self.norm_Y,
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
        primal = s.sum() + self.lam * found.beyond
        if self.product < (1 - _AGREE) * primal:
            return False
        self.U, self.C, self.zeta = U, V * s, found.zeta
        return True

    def wrongly_clipped(self, share: float = 0.0) -> float:
        """Return the largest |entry| that was clipped though it is not corrupt.

        It is zero if there are none, or no more than a share of those clipped.
        """
        if self.scale.bound == self.scale.top:
            return 0.0
        _, _, found = self.rows.sweep(
            kernels.unexplained,
            (),
            (self.unit, CORRUPT),
            low_rank=(self.U, self.C),
        )
        wrong, beyond = found[:, 1:].sum(axis=0)
        return float(found[:, 0].max()) if wrong > share * beyond else 0.0

    # -- the end -----------------------------------------------------------------

    def result(self, sentence: str, converged: bool) -> "Split":
        """Turn the factors to the caller's orientation and unit."""
        rows = self.rows
        s = np.linalg.norm(self.C, axis=0)
        order = np.argsort(-s)
        floor = 10 * np.finfo(rows.dtype).eps  # in units of the largest entry
        order = order[s[order] > floor]
        s = s[order]
        U, V = self.U[:, order], self.C[:, order] / s
        if rows.turned:
            U, V = V, U
        return Split(
            U=U.astype(rows.dtype),
            s=(s / self.unit).astype(rows.dtype),
            Vt=np.ascontiguousarray(V.T, rows.dtype),
            status=Status(converged, sentence),
            n_steps=len(self.history),
            history=_columns(self.history),
            lam=self.lam,
            psd=self.psd,
            polished=self.zeta > 0,
            mu=self.last_mu,
            _rows=rows,
            _T=self.T,
            _last=self.last,
            _scale=self.scale,
            _zeta=self.zeta,
            _feasibility=self.history[-1].residual if self.history else 0.0,
        )


def _columns(steps: list[Step]) -> History:
    """Turn steps into one array a name."""
    columns = {
        name: np.array([getattr(s, name) for s in steps]) for name in Step._fields
    }
    return History({"step": np.arange(1, len(steps) + 1), **columns})


def _ripen(result: Split, M: Array) -> None:
    """Step on from the solution for the sake of M alone, in place.

    Near the limit of what is recoverable, a polish succeeds long before the dual has
    converged.  L is right already, so a large and constant μ serves M best.
    """
    rows, lam = result._rows, result.lam
    more = _Integration(
        rows,
        result._scale,
        lam,
        result.psd,
        1e-6,
        0,
        False,
        np.random.default_rng(0),
        None,
        [],
    )
    more.T = M
    mu = 64 * result.mu
    factors = result._factors
    for _ in range(10):
        more.start_from(*factors, M, mu)
        for _ in range(25):
            more.step("careful")
            more.keep = 1.0
        rows.sweep(kernels.dual_from, (M,), (mu, lam), low_rank=more.last)
        factors = more.last
        if result._certify(M).gap < _RIPE:
            return
