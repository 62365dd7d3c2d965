"""The background of a fixed camera, updated frame by frame.

A frame is the background image in the present light, patterns of change (flicker, a
lamp, waves) whose number follows the scene, noise with a variance of its own at each
pixel, and the objects in front of it. Importing this module loads the compiler.
"""

from typing import NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.video.model import background_kernels as kernels
from discrepant.video.model.background_kernels import BackgroundState, MaskArrays
from discrepant.video.model.illumination import Illumination, robust_fit
from discrepant.video.model.registration import align_frames
from discrepant.video.model.row_bands import Band, RowBands
from discrepant.video.model.settings import (
    COVERED_FRAMES,
    DARK,
    FIT_SAMPLES,
    ILLUMINATION_MODES,
    ILLUMINATION_RIDGE,
    LARGE_FRAME,
    LEARNING_RATE,
    MAX_PATTERNS,
    MIN_GAIN,
    PATTERN_EIGENVALUE,
    START_FRAMES,
    VARIANCE_FLOOR,
    UpdateSettings,
)


class FrameFit(NamedTuple):
    """The fit of a frame by the background.

    ``coefficients`` are the gain of the background image and then one per pattern;
    ``pattern_ids`` names the pattern of each, see `Background.pattern_ids`.
    """

    coefficients: Array
    row_gains: Array  # see `Illumination.row_gains`
    residuals: Array  # of the samples, in standard deviations
    pattern_ids: tuple[int, ...]
    shift: tuple[int, int] = (0, 0)  # of the frame, down and right, in pixels


class Background:
    """Background image, patterns and noise of a scene.

    Parameters
    ----------
    first : ndarray of shape (frames, rows, columns, channels)
        The first frames, or a sample of the video.
    age : float
        Number of frames that the initial image counts for.
    bands : RowBands
        Of the rows of a frame.

    Attributes
    ----------
    state : BackgroundState
        The arrays of all pixels.
    pattern_ids : tuple of int
        The number of each pattern; the background image is number 0. A pattern keeps
        its number when others come and go, and no number is used twice.
    pixels : ndarray of int
        Flat positions of the pixels that the fit samples.
    """

    def __init__(self, first: Array, age: float, bands: RowBands) -> None:
        self._bands = bands
        height, width, channels = first.shape[1:]
        rng = np.random.default_rng(0)
        count = min(FIT_SAMPLES // channels, height * width)
        self.pixels = np.sort(rng.choice(height * width, count, replace=False))
        first = align_frames(first, self.pixels)
        self.illumination = Illumination(first.shape[1:], ILLUMINATION_MODES)
        # Eight bits end at white; the largest value of wider types is not known.
        self.white = np.float32(255 if first.dtype == np.uint8 else np.inf)
        modes = self.illumination.at(*np.divmod(self.pixels, width))
        self._sampled_modes = modes.astype(np.float32)
        # Of large frames, rows are updated in turns, each at a higher rate.
        self._turns = 1 if height * width <= LARGE_FRAME else 2
        self._turn = 0
        rate = np.float32(LEARNING_RATE * self._turns)
        self.settings = UpdateSettings(learning_rate=rate, floor=VARIANCE_FLOOR)
        image, variance = initial_background(first, self.pixels, bands)
        zeros = np.zeros((height, width), np.float32)
        self.state = BackgroundState(
            image=image,
            patterns=np.empty((0, *image.shape), np.float32),
            variance=variance,
            age=np.minimum(zeros + np.float32(age), self.settings.max_age),
            candidate=image.copy(),
            candidate_votes=zeros,
        )
        self.pattern_ids: tuple[int, ...] = (0,)
        self._patterns_so_far = 0
        self._coefficient_moments = np.eye(1)
        self._pattern_power = np.zeros(0)
        uncovered = np.zeros((height, width), bool)
        self.find_patterns([(frame, uncovered) for frame in first])

    @property
    def rank(self) -> int:
        """Rank of the background: the image and its patterns."""
        return len(self.pattern_ids)

    @property
    def noise(self) -> Array:
        """Standard deviation of each pixel's noise, in grey levels."""
        return self._sigma(self.state.variance)

    @property
    def sampled_noise(self) -> Array:
        """The noise at the samples."""
        return self._sigma(self.state.variance.reshape(2, -1)[:, self.pixels])

    def _sigma(self, variance: Array) -> Array:
        channels = self.state.image.shape[-1]
        chroma = variance[1] * ((channels - 1) / channels)
        return np.asarray(np.sqrt(variance[0] + chroma))

    def arrays(self) -> dict[str, Array]:
        """Return all that `restore` needs to continue with this background."""
        return {
            **self.state._asdict(),
            "pattern_ids": np.array(self.pattern_ids),
            "coefficient_moments": self._coefficient_moments,
            "pattern_power": self._pattern_power,
        }

    def restore(self, saved: dict[str, Array], name: str) -> None:
        """Continue with the arrays of another background; `name` is for messages."""
        expected = {*self.arrays(), "feedback"}
        if not expected <= saved.keys():
            raise InputError(f"{name} is not a saved background model.")
        shape = saved["image"].shape
        if shape != self.state.image.shape:
            sizes = ["×".join(map(str, s)) for s in (shape, self.state.image.shape)]
            raise InputError(
                f"The model in {name} is for frames of {sizes[0]}; got {sizes[1]}."
            )
        self.state = BackgroundState(*(saved[n] for n in BackgroundState._fields))
        self.pattern_ids = tuple(saved["pattern_ids"].tolist())
        self._patterns_so_far = max(self.pattern_ids)
        self._coefficient_moments = saved["coefficient_moments"]
        self._pattern_power = saved["pattern_power"]

    def fit_frame(self, frame: Array) -> FrameFit:
        """Fit gain, illumination and patterns to the samples of a frame."""
        rank, (modes, count) = self.rank, self._sampled_modes.shape
        noise = np.repeat(self.sampled_noise, self.state.image.shape[-1])
        basis = np.empty((rank + modes, count), np.float32)
        basis[0] = self._samples(self.state.image) / noise
        for row, pattern in zip(basis[1:], self.state.patterns, strict=False):
            row[:] = self._samples(pattern) / noise
        values = self._samples(frame) / noise
        bright = basis[0] * noise > DARK
        lit = bright.any()
        c, ridge = np.zeros((2, rank + modes))
        c[0] = np.median(values[bright] / basis[0, bright]) if lit else 1.0
        ridge[0] = 0.0 if lit else 1.0  # black frames do not determine the gain
        residual = robust_fit(basis[:rank], values, ridge[:rank], c[:rank])
        lit = np.multiply(self._sampled_modes, basis[0], out=basis[rank:])
        squares = np.square(lit).sum(axis=1) + 1e-9
        power = np.max((lit @ np.clip(residual, -3, 3)) ** 2 / squares)
        # Light is uneven if a mode has more power than noise alone would give it;
        # objects that cover a few percent of the frame do not reach this limit.
        uneven = power >= 40 + 0.01 * count
        if uneven:
            ridge[0], ridge[rank:] = 0.0, ILLUMINATION_RIDGE * squares
            residual = robust_fit(basis, values, ridge, c)
        c[0] = max(c[0], MIN_GAIN)
        row_gains = self.illumination.row_gains(c[0], c[rank:] if uneven else None)
        return FrameFit(c[:rank], row_gains, residual, self.pattern_ids)

    def _samples(self, image: Array) -> Array:
        """Return the sampled values of an image, of all channels."""
        return np.take(image.reshape(-1, image.shape[-1]), self.pixels, axis=0).ravel()

    def matches(self, frame: Array, fraction: float) -> bool:
        """Whether that fraction of a frame's samples fits this scene, up to noise."""
        return bool(np.mean(np.abs(self.fit_frame(frame).residuals) < 3) > fraction)

    def predict(self, fit: FrameFit, out: Array, band: Band) -> None:
        """Fill a band of the frame that the background predicts."""
        modes = self.illumination.column_modes[: fit.row_gains.shape[1]]
        c = fit.coefficients.astype(np.float32)
        kernels.predict(
            self.state.image, self.state.patterns, c, fit.row_gains, modes, self.white,
            out, *band,
        )  # fmt: skip

    def update(
        self,
        frame: Array,
        predicted: Array,
        arrays: MaskArrays,
        fit: FrameFit,
        pattern_gains: Array,
        band: Band,
    ) -> None:
        """Update a band of the background by a classified frame."""
        kernels.update(
            frame, predicted, arrays, self.state,
            fit.coefficients.astype(np.float32), pattern_gains, *band,
            self._turn % self._turns, self._turns, self.settings,
        )  # fmt: skip

    def pattern_gains(self, c: Array) -> Array:
        """Return each pattern's step per unit of residual (recursive least squares)."""
        self._turn += 1
        forget = 1 - LEARNING_RATE
        self._coefficient_moments = forget * self._coefficient_moments + np.outer(c, c)
        if self.rank > 1:
            self._pattern_power += LEARNING_RATE * (c[1:] ** 2 - self._pattern_power)
        moments = self._coefficient_moments
        ridge = 1e-6 * np.trace(moments) * np.eye(self.rank)
        return np.linalg.solve(moments + ridge, c).astype(np.float32)

    def find_patterns(self, recent: list[tuple[Array, Array]]) -> None:
        """Search some frames, each with its mask, for patterns of change.

        There is a pattern where the residuals of many samples move together: the
        largest eigenvalue of their Gram matrix lies far above the edge of the noise's.
        """
        free = MAX_PATTERNS + 1 - self.rank
        if free <= 0 or len(recent) < START_FRAMES:
            return
        fits = [self.fit_frame(frame) for frame, _ in recent]
        residuals = [fit.residuals for fit in fits]
        # What is covered without a break is an object that stays, not a pattern.
        last_masks = [mask.ravel()[self.pixels] for _, mask in recent[-COVERED_FRAMES:]]
        covered = np.logical_and.reduce(last_masks)
        for residual in residuals:
            residual[np.repeat(covered, self.state.image.shape[-1])] = np.inf
        eigenvalues, vectors = pattern_spectrum(residuals)
        count = int(np.sum(eigenvalues[:free] > PATTERN_EIGENVALUE))
        if not count:
            return
        shape = self.state.image.shape
        predicted = np.empty(shape, np.float32)
        patterns = np.zeros((count, *shape), np.float32)
        weight = np.full((count, *shape[:2]), 1e-3, np.float32)

        def accumulate(band: Band) -> None:
            for (frame, mask), fit, vector in zip(recent, fits, vectors, strict=True):
                self.predict(fit, predicted, band)
                kernels.accumulate_pattern(
                    frame, predicted, mask, self.state.variance,
                    vector[:count].astype(np.float32), patterns, weight, *band,
                )  # fmt: skip

        self._bands.each(accumulate)
        patterns /= weight[..., None]
        both = np.concatenate([self.state.patterns, patterns])
        self.state = self.state._replace(patterns=both)
        first = self._patterns_so_far + 1
        self._patterns_so_far += count
        self.pattern_ids += tuple(range(first, first + count))
        moments = [*np.diag(self._coefficient_moments)] + [1 / LEARNING_RATE] * count
        self._coefficient_moments = np.diag(moments)
        power = np.full(count, 1 / len(recent))
        self._pattern_power = np.concatenate([self._pattern_power, power])

    def drop_weak_patterns(self) -> None:
        """Drop patterns whose recent contribution is below a tenth of the noise."""
        if self.rank == 1:
            return
        squares = (self.state.patterns**2).mean(axis=-1)
        size = np.sqrt((squares / self.noise**2).mean((1, 2)))
        keep = np.sqrt(self._pattern_power) * size > 0.1
        if keep.all():
            return
        patterns = np.ascontiguousarray(self.state.patterns[keep])
        self.state = self.state._replace(patterns=patterns)
        self._pattern_power = self._pattern_power[keep]
        keep = np.concatenate([[True], keep])
        self.pattern_ids = tuple(np.array(self.pattern_ids)[keep].tolist())
        self._coefficient_moments = self._coefficient_moments[np.ix_(keep, keep)]


def pattern_spectrum(residuals: list[Array]) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of the Gram matrix of frames' residuals.

    Eigenvalues are in units of the edge of what noise alone would give, largest first.
    Residuals of objects, or infinite, do not count.
    """
    Z = np.stack(residuals)
    visible = np.abs(Z) < 6
    Z = np.where(visible, np.clip(Z, -3, 3), 0.0)
    frames, count = Z.shape
    sigma = max(np.median(np.abs(Z[visible] if visible.any() else Z)) * 1.4826, 0.05)
    edge = (sigma * (np.sqrt(count) + np.sqrt(frames))) ** 2
    values, vectors = np.linalg.eigh(Z @ Z.T)
    return values[::-1] / edge, vectors[:, ::-1]


def initial_background(
    first: Array, pixels: Array, bands: RowBands
) -> tuple[Array, Array]:
    """Return the temporal median of frames brought to one brightness, and its noise."""
    times, height, width, channels = first.shape
    samples = first.reshape(times, -1, channels)[:, pixels]
    median = np.median(samples, axis=0)
    scale = np.ones((times, channels), np.float32)
    for k in range(channels):
        bright = median[:, k] > DARK
        if bright.any():
            gains = np.median(samples[:, bright, k] / median[bright, k], axis=1)
            scale[:, k] /= np.maximum(gains, MIN_GAIN)
    scale = np.tile(scale, (1, width))
    image = np.empty((height, width, channels), np.float32)
    spread = np.empty((2, height, width), np.float32)  # of brightness and of chroma
    bands.each(
        lambda band: kernels.temporal_medians(first, scale, image, spread, *band)
    )
    # Averaged over neighbours; a step between frames has the noise of both.
    variance = (uniform_filter(spread, (0, 5, 5)) * 1.4826) ** 2 / 2
    floor = VARIANCE_FLOOR
    least = floor.brightness + (floor.relative * image.mean(axis=-1)) ** 2
    variance[0] = np.maximum(variance[0], least)
    variance[1] = np.maximum(variance[1], floor.chroma)
    return image, variance
