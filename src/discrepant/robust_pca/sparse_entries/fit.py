"""From stored entries to factors, noise, and which entries are wrong.

Rows and columns are fitted in turn by weighted least squares. The weights are those of
`robust_pca.noisy`: first they clip, which forgives a bad start, then they are
the probability of being clean. Directions are added while any stands out of chance.
Where the noise keeps falling, the fit is finished on the entries that it has found
clean, without weights, to rounding.
"""

from dataclasses import dataclass

import numpy as np

from discrepant.core.linalg import Array
from discrepant.robust_pca.noisy.histogram import MAD, MIDDLE, at_edges, quantile
from discrepant.robust_pca.noisy.mixture import NORMAL, Mixture, fit_mixture
from discrepant.robust_pca.recorder import Recorder, Step
from discrepant.robust_pca.rows.robust_kernels import BINS
from discrepant.robust_pca.sparse_entries import kernels
from discrepant.robust_pca.sparse_entries.entries import StoredEntries
from discrepant.robust_pca.sparse_entries.new_components import directions


@dataclass(frozen=True)
class Tuning:
    """When what happens. Chosen on made problems of 4 to 16 entries a parameter."""

    clip: float = 1.5  # deviations beyond which the first weights clip
    clipped: int = 3  # rounds with them
    calm: float = 0.97  # ratio of noises from one round to the next: it stands
    still: int = 3  # rounds that it must stand
    wide: float = 1.5  # of the usual: a line beyond, and beyond chance, lags
    chance: float = 4.0  # √entries of a line: scatter of its median, four times
    vanishing: float = 1e-3  # of the data's size: so little noise may be none
    sure: float = 6.0  # deviations within which an entry is taken for clean then
    rounding: float = 1e-12  # of the data's size: nothing is left
    finishing: int = 60  # rounds for that


TUNING = Tuning()
CLIP = at_edges(np.minimum(1, TUNING.clip / MIDDLE))


class EntriesFit:
    """A low-rank part U Vᵀ of stored entries, and the scale σ of what it leaves."""

    def __init__(
        self,
        entries: StoredEntries,
        sigma: float | None,
        rng: np.random.Generator,
        log: Recorder,
    ) -> None:
        self.entries, self.rng, self.log = entries, rng, log
        m, n = entries.shape
        self.U, self.V = np.zeros((m, 0)), np.zeros((n, 0))
        self.e = entries.y.copy()
        self.w = np.empty(len(entries.y))
        usual = float(np.median(np.abs(entries.y)))
        self.size = usual / MAD or float(np.abs(entries.y).mean()) or 1.0
        self.told = sigma is not None
        self.sigma = self.size if sigma is None else sigma
        self.lag = np.ones(m), np.ones(n)  # σ of a line over the usual one
        self.table = CLIP
        self.mixture = self._mixture()

    @property
    def rank(self) -> int:
        """Number of directions."""
        return int(self.U.shape[1])

    def run(self) -> bool:
        """Fit; returns whether it came to an end of its own."""
        while not self.log.ended:
            self._weigh()
            U, V = directions(self.entries, self.w * self.e, self.rng)
            if not U.shape[1] or self.rank + U.shape[1] >= min(self.entries.shape):
                return True
            self.U, self.V = np.hstack([self.U, U]), np.hstack([self.V, V])
            self.table = CLIP
            self._catch_up()
            if self._settle():
                return True
        return False

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left on the clean entries."""
        return self.sigma < TUNING.rounding * self.size * 10

    def ridges(self) -> tuple[Array, Array]:
        """Return what a line's coordinates are held back by: noise over their spread.

        Lines of few entries would follow their noise, and lines of none anything.
        """
        spread = np.maximum(np.mean(self.U**2, axis=0), np.finfo(float).tiny)
        return self.sigma**2 / spread, np.full(self.rank, self.sigma**2)

    def _settle(self) -> bool:
        """Fit at the present rank until the noise stands; whether it has vanished."""
        since = calm = 0
        tried, patient = self.told, True
        while not self.log.ended and calm < TUNING.still:
            self._weigh()
            self._balance()
            self._solve(self.ridges())
            if patient:
                self._follow_lines()
            before = self.sigma
            self._read_noise(clipping=since < TUNING.clipped)
            since += 1
            self._note("clipped" if since <= TUNING.clipped else "weighed")
            standing = since > TUNING.clipped + 1 and self.sigma > TUNING.calm * before
            calm = calm + 1 if standing else 0
            small = self.sigma < TUNING.vanishing * self.size
            if small and not tried and since > TUNING.clipped + 2:
                tried = True
                if self._finish():
                    return True
            if calm == TUNING.still and any((lag > 1).any() for lag in self.lag):
                self._catch_up()  # they have had their time: errors, not lag
                calm, patient = 1, False
        return False

    def _weigh(self) -> None:
        entries, inverse = self.entries, 1 / self.sigma
        entries.each(
            *(entries.rows, kernels.weights, self.e, inverse, *self.lag),
            *(self.table, self.w),
        )

    def _balance(self) -> None:
        """Turn the factors: V gets columns of length √n, and U orthogonal ones."""
        Q, R = np.linalg.qr(self.V)
        A = self.U @ R.T
        turn = np.linalg.svd(A.T @ A)[0]
        long = np.sqrt(len(self.V))
        self.U, self.V = A @ turn / long, Q @ turn * long

    def _solve(self, ridges: tuple[Array, Array]) -> None:
        """Fit the rows to the columns, then the columns to the rows."""
        entries, y, w = self.entries, self.entries.y, self.w
        solve = kernels.least_squares
        entries.each(entries.rows, solve, y, w, self.V, ridges[0], self.lag[0], self.U)
        entries.each(
            entries.columns, solve, y, w, self.U, ridges[1], self.lag[1], self.V
        )
        entries.each(entries.rows, kernels.residuals, y, self.U, self.V, self.e)

    def _follow_lines(self) -> None:
        """Find the lines that lag: most of their entries are off by more than σ.

        Judged by the common σ, all their entries would be wrong, and stay so.
        """
        for side, lag in zip(self.entries.sides, self.lag, strict=True):
            self.entries.each(side, kernels.medians, self.e, lag)
            lag /= MAD * self.sigma
            chance = TUNING.wide + TUNING.chance / np.sqrt(np.maximum(side.counts, 1))
            lag[lag < chance] = 1

    def _catch_up(self) -> None:
        """Let no line lag."""
        for lag in self.lag:
            lag[:] = 1

    def _read_noise(self, clipping: bool) -> None:
        """Read σ, and the weights of the next round, off the deviations."""
        self.mixture = mixture = self._mixture()
        lagging = sum(float(np.mean(lag > 1)) for lag in self.lag)
        tau = mixture.tau
        if lagging > 0.02:  # their deviations were made to look usual
            half = max(mixture.clean, 0.4) / 2
            ones = np.ones_like(self.lag[0]), np.ones_like(self.lag[1])
            tau = float(quantile(self._histogram(ones), half)[0]) / MAD
        m, n = self.entries.shape
        clean = max(mixture.clean, 0.3) * len(self.e)
        left = max(1 - self.rank * (m + n - self.rank) / clean, 0.2)
        ratio = 1.0 if self.told else max(tau / np.sqrt(left), 0.05)
        self.sigma *= ratio
        if not clipping:
            corrupt = np.interp(MIDDLE * ratio, MIDDLE, mixture.corrupt)
            heavy = (mixture.nu + 1) / (mixture.nu + MIDDLE**2)
            self.table = at_edges(
                (1 - corrupt) * (1.0 if mixture.nu == NORMAL else heavy)
            )

    def _mixture(self) -> Mixture:
        return fit_mixture(self._histogram(self.lag), 1.0, told=self.told)

    def _histogram(self, lag: tuple[Array, Array]) -> Array:
        """Count the deviations."""
        counts = np.zeros(BINS, np.int64)
        side = self.entries.rows
        arguments = (self.e, 1 / self.sigma, *lag, counts)
        before = (side.pointer, side.other, side.place)
        # One thread: they would count in one place.
        kernels.histogram(*before, *arguments, 0, side.lines)
        return counts

    def _finish(self) -> bool:
        """Fit the clean entries alone, without weights, to rounding; if it works."""
        kept = self.U.copy(), self.V.copy(), self.sigma
        tiny = np.full(self.rank, 1e-14 * len(self.V))
        for turn in range(TUNING.finishing):
            if turn % 10 == 0:
                limit = (
                    TUNING.sure
                    * self.sigma
                    * np.maximum(
                        self.lag[0][self.entries.row], self.lag[1][self.entries.column]
                    )
                )
                self.w[:] = np.abs(self.e) < limit
            self._catch_up()
            self._solve((tiny, tiny))
            clean = self.w > 0
            self.sigma = float(np.sqrt(np.mean(self.e[clean] ** 2)))
            self._note("polish")
            if self.exact or self.log.ended:
                break
            if turn % 10 == 9:
                self._follow_lines()
        if self.exact:
            return True
        self.U, self.V, self.sigma = kept
        side = self.entries.rows
        self.entries.each(
            side, kernels.residuals, self.entries.y, self.U, self.V, self.e
        )
        self._follow_lines()
        return False

    def _note(self, phase: str) -> None:
        relative = self.sigma / self.size
        wrong = 1 - self.mixture.clean
        self.log.note(Step(phase, relative, np.nan, self.rank, np.nan, wrong))
