"""Fit factors and noise to stored entries by alternating robust least squares.

Rows and columns are fitted in turn by weighted least squares. The weights are those of
`robust_pca.noisy`: first Huber's, which tolerate a bad start, until the residual has no
component that exceeds chance; then the probability of being clean. The other order
would reject half of the entries while components are missing. If the noise keeps
falling, the fit is finished by unweighted least squares on the clean entries, to
rounding.
"""

import numpy as np
from sklearn.utils.extmath import randomized_svd

from discrepant.core.linalg import Array, svd
from discrepant.core.recorder import Recorder
from discrepant.core.robust_statistics import MAD
from discrepant.robust_pca.noisy.histogram import BIN_CENTRES, quantile, to_table
from discrepant.robust_pca.noisy.mixture import Mixture, fit_mixture
from discrepant.robust_pca.result import Step
from discrepant.robust_pca.rows.robust_kernels import BINS
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries

# Chosen on synthetic problems with 4 to 16 entries for each parameter.
# z (residual over σ) beyond which Huber's weights fall.
HUBER_Z = 1.5
# Rounds with Huber's weights, after components were added.
HUBER_ROUNDS = 5
# Ratio of σ to that of the round before, below which it falls.
FALLING_RATIO = 0.5
# Ratio of σ to that of the round before, above which σ has settled.
SETTLED_RATIO = 0.97
# Rounds in a row in which σ must have settled.
SETTLED_ROUNDS = 3
# A row or column lags if its scale exceeds the common one by this factor, plus
LAGGING_RATIO = 1.5
# this many standard errors 1/√entries of its median.
LAGGING_ERRORS = 4.0
# σ over the size of the data below which there may be no noise at all.
VANISHING_NOISE = 1e-3
# z within which an entry counts as clean in the finish without weights.
CLEAN_Z = 6.0
# σ over the size of the data at which only rounding is left.
ROUNDING = 1e-12
# Rounds of the finish, at most.
FINISH_ROUNDS = 60
# Rounds of the finish after which the clean entries are selected again.
RESELECT_ROUNDS = 10

# Search for new components: largest singular value, over that by chance, from which a
# component is new. It covers the scatter of chance and a power iteration cut short.
MIN_OVER_CHANCE = 1.1
# Steps of the power iteration.
POWER_STEPS = 8
# Components searched for at a time.
MAX_NEW_COMPONENTS = 8

HUBER_WEIGHTS = to_table(np.minimum(1, HUBER_Z / BIN_CENTRES))


class EntriesFit:
    """A low-rank matrix U Vᵀ fitted to stored entries, and their noise σ."""

    def __init__(
        self,
        entries: StoredEntries,
        sigma: float | None,
        rng: np.random.Generator,
        recorder: Recorder,
    ) -> None:
        self.entries, self.rng, self.recorder = entries, rng, recorder
        m, n = entries.shape
        self.U, self.V = np.zeros((m, 0)), np.zeros((n, 0))
        self.residual = entries.y.copy()
        self.weights = np.empty(len(entries.y))
        median = float(np.median(np.abs(entries.y)))
        self.data_size = median / MAD or float(np.abs(entries.y).mean()) or 1.0
        self.noise_is_given = sigma is not None
        self.sigma = self.data_size if sigma is None else sigma
        # σ of each row and column over the common σ; one unless it lags.
        self.line_scale = np.ones(m), np.ones(n)
        self.weight_table = HUBER_WEIGHTS
        self.mixture = self._fit_mixture()

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.U.shape[1])

    @property
    def exact(self) -> bool:
        """Whether only rounding is left on the clean entries."""
        return self.sigma < ROUNDING * self.data_size * 10

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the low-rank matrix."""
        m, n = self.entries.shape
        return self.rank * (m + n - self.rank)

    def run(self) -> bool:
        """Fit; return whether the fit finished before the limit of rounds."""
        is_weighed = False
        while not self.recorder.ended:
            self._update_weights()
            if self._add_components():
                is_weighed, self.weight_table = False, HUBER_WEIGHTS
                self._reset_line_scales()
                for _ in range(HUBER_ROUNDS):
                    before = self.sigma
                    self._one_round("clipped")
                    if self.recorder.ended:
                        return False
                # As long as the noise falls, the components suffice.
                if self.sigma > FALLING_RATIO * before:
                    continue
            elif is_weighed or not self.rank:
                return True
            is_weighed = True
            if self._fit_weighed():
                return True
        return False

    def ridges(self) -> tuple[Array, Array]:
        """Return the ridge penalties of rows and columns: noise over signal variance.

        They keep lines with few entries from following their noise, and lines without
        entries at zero.
        """
        variance = np.maximum(np.mean(self.U**2, axis=0), np.finfo(float).tiny)
        return self.sigma**2 / variance, np.full(self.rank, self.sigma**2)

    def _add_components(self) -> bool:
        """Add the components of the residual that exceed chance; return if any do.

        The level of chance is measured: the weighted residual with random signs has the
        same sizes at the same entries, but no low-rank component.
        """
        entries, x = self.entries, self.weights * self.residual
        U, s, V = self._leading_triplets(x, MAX_NEW_COMPONENTS)
        signs = self.rng.integers(0, 2, len(x)) * 2.0 - 1
        by_chance = self._leading_triplets(x * signs, 2)[1][0]
        new = int(np.sum(s > MIN_OVER_CHANCE * by_chance))
        if not new or self.rank + new >= min(entries.shape):
            return False
        observed_fraction = len(x) / np.prod(entries.shape, dtype=np.float64)
        size = np.sqrt(s[:new] / observed_fraction)
        self.U = np.hstack([self.U, U[:, :new] * size])
        self.V = np.hstack([self.V, V[:, :new] * size])
        return True

    def _leading_triplets(self, x: Array, k: int) -> tuple[Array, Array, Array]:
        """Return leading singular triplets of the matrix that is x at the entries."""
        U, s, Vt = randomized_svd(
            self.entries.to_csr(x),
            min(k, *self.entries.shape),
            n_oversamples=0,
            n_iter=POWER_STEPS,
            power_iteration_normalizer="QR",
            random_state=int(self.rng.integers(1 << 31)),
        )
        return U, s, Vt.T

    def _one_round(self, phase: str, follow_lagging: bool = True) -> None:
        """Fit U, V and the noise once."""
        self._update_weights()
        self._normalise_factors()
        self._least_squares(self.ridges())
        if follow_lagging:
            self._update_line_scales()
        self._update_noise(phase == "clipped")
        self._record(phase)

    def _fit_weighed(self) -> bool:
        """Fit at the present rank until σ has settled; return whether it vanished."""
        settled_rounds = 0
        finish_tried, follow_lagging = self.noise_is_given, True
        while not self.recorder.ended:
            before = self.sigma
            self._one_round("weighed", follow_lagging)
            settled = self.sigma > SETTLED_RATIO * before
            settled_rounds = settled_rounds + 1 if settled else 0
            vanishing = self.sigma < VANISHING_NOISE * self.data_size
            if vanishing and not finish_tried:
                finish_tried = True
                if self._finish():
                    return True
            if settled_rounds == SETTLED_ROUNDS:
                if not any((scale > 1).any() for scale in self.line_scale):
                    break
                self._reset_line_scales()  # by now these lines have errors, not lag
                settled_rounds, follow_lagging = 1, False
        return False

    def _update_weights(self) -> None:
        """Set the weight of each entry from its residual."""
        entries = self.entries
        entries.run(
            0,
            kernels.weights,
            self.residual,
            1 / self.sigma,
            self.line_scale,
            self.weight_table,
            self.weights,
        )

    def _normalise_factors(self) -> None:
        """Transform the factors: columns of V of length √n, those of U orthogonal."""
        Q, R = np.linalg.qr(self.V)
        A = self.U @ R.T
        rotation = svd(A.T @ A)[0]
        length = np.sqrt(len(self.V))
        self.U, self.V = A @ rotation / length, Q @ rotation * length

    def _least_squares(self, ridges: tuple[Array, Array]) -> None:
        """Fit U for the present V, then V for the new U, and update the residual."""
        entries, y, w = self.entries, self.entries.y, self.weights
        row_scale, column_scale = self.line_scale
        solve = kernels.least_squares
        entries.run(0, solve, y, w, self.V, ridges[0], row_scale, self.U)
        entries.run(1, solve, y, w, self.U, ridges[1], column_scale, self.V)
        self._update_residual()

    def _update_residual(self) -> None:
        entries = self.entries
        entries.run(0, kernels.residuals, entries.y, self.U, self.V, self.residual)

    def _update_line_scales(self) -> None:
        """Set the scale of rows and columns that lag, that is fit worse than the rest.

        With the common σ all their entries would count as corrupt, and remain so.
        """
        for axis, scale in enumerate(self.line_scale):
            self.entries.run(axis, kernels.medians, self.residual, scale)
            scale /= MAD * self.sigma
            counts = self.entries.by_axis[axis].counts
            error = LAGGING_ERRORS / np.sqrt(np.maximum(counts, 1))
            scale[scale < LAGGING_RATIO + error] = 1

    def _reset_line_scales(self) -> None:
        """Give all rows and columns the common σ."""
        for scale in self.line_scale:
            scale[:] = 1

    def _update_noise(self, huber: bool) -> None:
        """Estimate σ from the residuals; set the weights of the next round from them.

        With `huber` the weights remain Huber's.
        """
        self.mixture = mixture = self._fit_mixture()
        lagging = sum(float(np.mean(scale > 1)) for scale in self.line_scale)
        tau = mixture.tau
        if lagging > 0.02:  # the scales of lagging lines hide large residuals
            half = max(mixture.clean, 0.4) / 2
            row_scale, column_scale = self.line_scale
            ones = np.ones_like(row_scale), np.ones_like(column_scale)
            tau = float(quantile(self._histogram(ones), half)[0]) / MAD
        n_clean = max(mixture.clean, 0.3) * len(self.residual)
        unused = max(1 - self.freedom / n_clean, 0.2)
        ratio = 1.0 if self.noise_is_given else max(tau / np.sqrt(unused), 0.05)
        self.sigma *= ratio
        if not huber:
            self.weight_table = to_table(mixture.weight_at(ratio))

    def _fit_mixture(self) -> Mixture:
        counts = self._histogram(self.line_scale)
        return fit_mixture(counts, 1.0, scale_is_given=self.noise_is_given)

    def _histogram(self, line_scale: tuple[Array, Array]) -> Array:
        """Count z = |residual|/σ in bins, with σ of each row and column."""
        counts = np.zeros(BINS, np.int64)
        arrays, inverse = self.entries.rows.arrays, 1 / self.sigma
        # In one thread: threads would increment the same counts.
        bounds = 0, self.entries.shape[0]
        kernels.histogram(arrays, self.residual, inverse, line_scale, counts, *bounds)
        return counts

    def _finish(self) -> bool:
        """Fit the clean entries without weights, to rounding; undo it if that fails."""
        before = self.U.copy(), self.V.copy(), self.sigma
        no_ridge = np.full(self.rank, 1e-14 * len(self.V))
        for round_ in range(FINISH_ROUNDS):
            if round_ % RESELECT_ROUNDS == 0:
                row_scale, column_scale = self.line_scale
                rows = self.entries.rows
                scale = np.maximum(
                    np.repeat(row_scale, rows.counts), column_scale[rows.cross_index]
                )
                self.weights[:] = np.abs(self.residual) < CLEAN_Z * self.sigma * scale
            self._reset_line_scales()
            self._least_squares((no_ridge, no_ridge))
            clean = self.weights > 0
            self.sigma = float(np.sqrt(np.mean(self.residual[clean] ** 2)))
            self._record("polish")
            if self.exact or self.recorder.ended:
                break
            if round_ % RESELECT_ROUNDS == RESELECT_ROUNDS - 1:
                self._update_line_scales()
        if self.exact:
            return True
        self.U, self.V, self.sigma = before
        self._update_residual()
        self._update_line_scales()
        return False

    def _record(self, phase: str) -> None:
        relative = self.sigma / self.data_size
        corrupt = 1 - self.mixture.clean
        self.recorder.note(Step(phase, relative, np.nan, self.rank, np.nan, corrupt))
