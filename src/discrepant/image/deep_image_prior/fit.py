"""Fit X = φ(θ) and s = g∘g − h∘h to an image: `recover_image`, `dip` and `dip_l1`.

    r = φ(θ) + g∘g − h∘h − y
    θ ← θ − τ·∂/∂θ mean(r²)     g ← g − ρ·r∘g     h ← h + ρ·r∘h

The loop is `discrepant.paper.descent.descend`, the same as for matrices. Because of the
mean, θ's gradient does not depend on the number N of values, while that of g shrinks as
1/N. The corruption's rate ρ is therefore given per value, so that one setting suits
every size. The paper's rate of 500 at 512×512×3 is ρ = 4·500/N = 2.5·10⁻³.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.progress import Progress
from discrepant.core.results import History, Status
from discrepant.image.arrays import has_transparency, psnr, unit_image
from discrepant.image.deep_image_prior import checkpoints
from discrepant.image.deep_image_prior.corruption import Corruption
from discrepant.image.deep_image_prior.prior import (
    PAPER,
    NetworkPrior,
    Settings,
    check_memory,
    choose_device,
    to_array,
    to_tensor,
)
from discrepant.operators.entrywise import Identity
from discrepant.paper.descent import (
    FIRST_ITERATION,
    DivergenceError,
    Iteration,
    descend,
)
from discrepant.structures.factorisations import NoCorruption, Parameterisation

# Seconds between checkpoints: an interruption loses at most a minute of a run of hours.
SECONDS_BETWEEN_CHECKPOINTS = 60.0


@dataclass(frozen=True, eq=False)
class ImageRecovery:
    """Result of a fit: an image and a sparse corruption that sum to the observation.

    Attributes
    ----------
    image : ndarray
        φ(θ) after the last step, in [0, 1] and of the shape of the input.
    corruption : ndarray
        The sparse part s.
    status : Status
        Reason why the run ended.
    history : History
        ``step``, ``residual``, ``seconds``, ``loss`` (the mean square, whichever loss
        was minimised) and, if the truth was given, ``psnr``.
    best : ndarray or None
        The image of the step with the best PSNR; None without the truth.
    """

    image: Array
    corruption: Array
    status: Status
    history: History
    best: Array | None = None


@dataclass(frozen=True)
class Fit:
    """A method to fit the network to an image; an instance is called as a function.

    `recover_image` also fits a corruption; `dip` and `dip_l1` fit the network alone.

    Attributes
    ----------
    name : str
        Distinguishes checkpoints of different methods.
    robust : bool
        Whether a corruption g∘g − h∘h is fitted beside the network.
    gradient : callable, optional
        Derivative of N/2 times the mean loss, as a function of the residual; by default
        that of the mean square, which is the residual itself.
    about : str
        Docstring of the instance.
    """

    name: str
    robust: bool = False
    gradient: Callable[[Tensor], Tensor] | None = None
    about: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.about or type(self).__doc__)

    def __call__(
        self,
        image: ArrayLike,
        settings: Settings = PAPER,
        *,
        truth: ArrayLike | None = None,
        every: int = 100,
        device: str = "auto",
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | Progress | None = None,
    ) -> ImageRecovery:
        """Fit the network, and the corruption if the method has one.

        Parameters
        ----------
        image : array-like of shape (H, W) or (H, W, C)
            Values in [0, 1], or unsigned integers; 1 to 32 channels. The fourth channel
            of an integer image is transparency and is unchanged.
        settings : Settings
            Width, rates and number of steps; by default the paper's.
        truth : array-like, optional
            The clean image, to record the PSNR; it does not influence the fit.
        every : int, default 100
            Number of steps between two entries of the history.
        device : str, default "auto"
            "cuda", "mps", "cpu", or "auto" for the first of these that is available.
        random_state : int, default 0
            Seed; on the CPU the same seed gives the same result.
        checkpoint : path, optional
            A file to which the state of the run is saved, at most once a minute. If the
            file exists, the run continues from it, with the same result as a run that
            was not interrupted.
        progress : bool or callable, optional
            True shows a bar with loss, time and PSNR; a callable is called with
            ``(fraction done, note)`` and ends the run by returning False.

        Returns
        -------
        ImageRecovery
        """
        observed, transparency = _without_transparency(image)
        clean = None if truth is None else _checked_truth(truth, observed)
        _check_integers(every=(every, 1), random_state=(random_state, 0))
        torch_device = choose_device(device)
        height, width = observed.shape[:2]
        check_memory(height, width, settings.width, torch_device)
        y = to_tensor(observed, torch_device)  # (1, C, H, W)
        shape = (height, width, y.shape[1])
        signal = NetworkPrior(shape, settings, torch_device, random_state)
        corruption: Parameterisation = NoCorruption()
        if self.robust:
            corruption = Corruption(tuple(y.shape), start=settings.start).to(
                torch_device
            )
        recorder = FitRecorder(
            power=float(y.square().mean()) or 1 / y.numel(),  # as `descend` takes it
            truth=None if clean is None else clean.reshape(shape),
        )
        if checkpoint is not None:
            run = {
                **asdict(settings),
                "kind": self.name,
                "every": int(every),
                "seed": int(random_state),
                "device": torch_device.type,
            }
            images = [observed] if clean is None else [observed, clean]
            recorder.use_checkpoint(
                Path(checkpoint), checkpoints.fingerprint(run, *images)
            )
            recorder.resume(signal, corruption)
        try:
            status, history = descend(
                y,
                Identity(tuple(y.shape)),  # type: ignore[arg-type]  # no matrix
                signal,
                corruption,
                step=settings.rate_at,
                alpha=settings.corruption_rate / settings.rate,
                tol=0.0,
                max_iter=settings.steps,
                gradient=self.gradient,
                check_every=every,
                callback=recorder,
                progress=progress,
                start=recorder.start,
            )
        except DivergenceError as error:
            raise InputError(
                f"The descent {error}; smaller rates than rate={settings.rate:g} and "
                f"corruption_rate={settings.corruption_rate:g} are needed."
            ) from None
        sparse = np.zeros(shape, np.float32)
        if isinstance(corruption, Corruption):
            sparse = to_array(corruption.value())
        best = recorder.best
        no_corruption = None if transparency is None else np.zeros_like(transparency)
        layout = (observed.shape, transparency)
        return ImageRecovery(
            _with_transparency(signal.image(), *layout),
            _with_transparency(sparse, observed.shape, no_corruption),
            status,
            recorder.full_history(history),
            None if best is None else _with_transparency(best, *layout),
        )


recover_image = Fit(
    "double",
    robust=True,
    about="Split an image into φ(θ) and a sparse corruption by the paper's descent.\n\n"
    "Neither the corrupted fraction nor a stopping time has to be chosen.",
)

# The methods that the paper compares with. They fit φ(θ) to the corrupted image alone
# and overfit unless stopped in time. The paper grants them the step of the best PSNR,
# which only the truth reveals: ``best`` of the result is that image.
dip = Fit(
    "squares",
    about="Fit φ(θ) alone under the mean-squared error (Deep Image Prior).",
)
dip_l1 = Fit(
    "absolute",
    gradient=lambda residual: residual.sign() / 2,
    about="Fit φ(θ) alone under the mean absolute error (DIP-ℓ1).",
)


def _without_transparency(image: ArrayLike) -> tuple[Array, Array | None]:
    """Return the colours of an image in [0, 1], and its transparency if any."""
    values = unit_image(image)
    if values.ndim == 3 and has_transparency(np.asarray(image), 2):
        return values[..., :3], values[..., 3]
    return values, None


def _with_transparency(
    values: Array, shape: tuple[int, ...], transparency: Array | None
) -> Array:
    """Return values in the shape of the image, with its transparency appended."""
    values = values.reshape(shape)
    return values if transparency is None else np.dstack([values, transparency])


def _checked_truth(truth: ArrayLike, observed: Array) -> Array:
    clean, _ = _without_transparency(truth)
    if clean.shape != observed.shape:
        raise InputError(
            f"The truth has shape {clean.shape}, but the image {observed.shape}."
        )
    return clean


def _check_integers(**options: tuple[object, int]) -> None:
    """Raise an InputError for options that are not integers from their minimum."""
    for name, (value, minimum) in options.items():
        if not (isinstance(value, (int, np.integer)) and value >= minimum):
            raise InputError(
                f"{name} must be an integer from {minimum}, got {value!r}."
            )


@dataclass
class FitRecorder:
    """Callback of a fit: records loss and PSNR, the best image, and checkpoints.

    Attributes
    ----------
    power : float
        Mean square of the observation, which turns a relative residual into a loss.
    truth : ndarray of shape (H, W, C) or None
        The clean image, if known.
    start : Iteration
        The iteration at which the run started or was resumed.
    best, best_psnr : ndarray or None, float
        The image with the best PSNR so far, and that PSNR.
    rows : list of dict
        The history so far, including that of the interrupted run before this one.
    """

    power: float
    truth: Array | None = None
    start: Iteration = FIRST_ITERATION
    best: Array | None = None
    best_psnr: float = -math.inf
    rows: list[dict[str, float]] = field(default_factory=list)
    _path: Path | None = None
    _fingerprint: str = ""
    _last_save: float = field(default_factory=time.monotonic)

    def __call__(
        self,
        iteration: Iteration,
        signal: Parameterisation,
        corruption: Parameterisation,
    ) -> dict[str, float]:
        """Record an iteration; save a checkpoint if the last one is old enough."""
        assert isinstance(signal, NetworkPrior)
        if (
            self._path is not None
            and iteration.step > self.start.step
            and time.monotonic() - self._last_save >= SECONDS_BETWEEN_CHECKPOINTS
        ):
            self.save(iteration, signal, corruption)
        image = signal.image()
        extra = {"loss": self.power * iteration.residual**2}
        if self.truth is not None:
            extra["psnr"] = psnr(image, self.truth)
            if extra["psnr"] > self.best_psnr:
                self.best, self.best_psnr = image, extra["psnr"]
        row = {
            "step": iteration.step,
            "residual": iteration.residual,
            "seconds": iteration.seconds,
        }
        self.rows.append({**row, **extra})
        return extra

    def use_checkpoint(self, path: Path, fingerprint: str) -> None:
        """Set the file for checkpoints, and the fingerprint of this run."""
        self._path, self._fingerprint = path, fingerprint

    def save(
        self, iteration: Iteration, signal: NetworkPrior, corruption: Parameterisation
    ) -> None:
        """Save the state of the run from before the network's last value was drawn."""
        assert self._path is not None
        arrays = signal.state()
        arrays["moment"] = np.array(
            [iteration.step, iteration.residual, iteration.seconds]
        )
        if isinstance(corruption, Corruption):
            arrays |= corruption.state()
        for name in self.rows[0] if self.rows else ():
            arrays[f"history.{name}"] = np.array([row[name] for row in self.rows])
        if self.best is not None:
            arrays["best"] = self.best
        failure = checkpoints.save(self._path, self._fingerprint, arrays)
        if failure:
            warnings.warn(
                f"No checkpoint could be written to {self._path}: {failure}; the last "
                "good one is kept.",
                RuntimeWarning,
                stacklevel=2,
            )
        self._last_save = time.monotonic()

    def resume(self, signal: NetworkPrior, corruption: Parameterisation) -> None:
        """Restore the last checkpoint, if there is one."""
        assert self._path is not None
        arrays = checkpoints.load(self._path, self._fingerprint)
        if arrays is None:
            return
        signal.restore(arrays)
        if isinstance(corruption, Corruption):
            corruption.restore(arrays)
        step, residual, seconds = arrays["moment"].tolist()
        self.start = Iteration(int(step), residual, seconds)
        columns = {
            key.removeprefix("history."): array.tolist()
            for key, array in arrays.items()
            if key.startswith("history.")
        }
        self.rows = [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
        self.best = arrays.get("best")
        if self.best is not None:
            self.best_psnr = max(row["psnr"] for row in self.rows)

    def full_history(self, history: History) -> History:
        """Return the history of the whole run, including interrupted parts."""
        return History(
            {name: np.array([row[name] for row in self.rows]) for name in history}
        )
