"""The running of a fit: X = φ(θ) and s = g∘g − h∘h, from the first step to the last.

    r = φ(θ) + g∘g − h∘h − y
    θ ← θ − τ·∂/∂θ mean(r²)     g ← g − ρ·r∘g     h ← h + ρ·r∘h

The loop is `discrepant.paper.descent.descend`, the same as for matrices. The mean makes
θ's gradient independent of the number N of values, while it makes that of g shrink as
1/N; so the corruption's rate ρ is given per value, and one setting holds at every size.
The paper's rate of 500 at 512×512×3 is ρ = 4·500/N = 2.5·10⁻³.
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
from discrepant.image.deep_image_prior.device import check_memory, chosen_device
from discrepant.image.deep_image_prior.prior import (
    PAPER,
    NetworkPrior,
    Settings,
    to_array,
    to_tensor,
)
from discrepant.operators.entrywise import Identity
from discrepant.paper.descent import FIRST_ITERATION, DivergenceError, descend
from discrepant.paper.stopping import Iteration, Steps
from discrepant.structures.factorisations import NoCorruption, Parameterisation

# Between checkpoints: a kill costs a minute at most, where a run takes hours.
SECONDS_BETWEEN = 60.0


@dataclass(frozen=True, eq=False)
class ImageRecovery:
    """An image and a corruption that together explain the observation.

    Attributes
    ----------
    image : ndarray
        φ(θ) at the end, in [0, 1] and of the shape of the input.
    corruption : ndarray
        The sparse part s.
    status : Status
        How the run ended.
    history : History
        ``step``, ``residual``, ``seconds``, ``loss`` (the mean square, whatever was
        descended on) and, where the truth is known, ``psnr``.
    best : ndarray or None
        The image of the best PSNR on the way, which only the truth can tell.
    """

    image: Array
    corruption: Array
    status: Status
    history: History
    best: Array | None = None

    @property
    def last_psnr(self) -> float:
        """PSNR at the end; the truth must have been given."""
        return float(self.history["psnr"][-1])

    @property
    def best_psnr(self) -> float:
        """Best PSNR on the way: what a stop by an oracle would have given."""
        return float(self.history["psnr"].max())

    @property
    def best_step(self) -> int:
        """Where that was."""
        return int(self.history["step"][self.history["psnr"].argmax()])


@dataclass(frozen=True)
class Fit:
    """A way to fit the network to an image: call it as a function.

    `recover_image` is the one with a corruption beside the network; the others are
    `discrepant.image.dip` and `dip_l1`.

    Attributes
    ----------
    name : str
        Tells checkpoints of one kind from those of another.
    robust : bool
        Whether a corruption g∘g − h∘h is fitted beside the network.
    gradient : callable, optional
        The derivative of N/2 times the mean loss, given the residual; by default that
        of squares, the residual itself.
    about : str
        What it is, in a sentence: its own docstring.
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
        """Fit the network, and the corruption if there is one.

        Parameters
        ----------
        image : array-like of shape (H, W) or (H, W, C)
            Values in [0, 1], or unsigned integers; 1 to 32 channels. The fourth channel
            of an integer image is transparency, and is kept.
        settings : Settings
            Width, rates and steps; by default the paper's.
        truth : array-like, optional
            The clean image, if known, to record the PSNR. It guides nothing.
        every : int, default 100
            The history has a point every so many steps.
        device : str, default "auto"
            "cuda", "mps", "cpu", or "auto" for the first of them that is there.
        random_state : int, default 0
            Seed; on the CPU the same seed gives the same result.
        checkpoint : path, optional
            A file in which the run notes where it stands, once a minute at most, when
            the history has a point. If the file is there, the run goes on from it, to
            the result that it would have had.
        progress : bool or callable, optional
            True shows a bar with loss, time and PSNR; a callable is told
            ``(share done, note)``, and ends the run by returning False.

        Returns
        -------
        ImageRecovery
        """
        observed, transparency = _without_transparency(image)
        known = None if truth is None else _checked_truth(truth, observed)
        _check_integers(every=(every, 1), random_state=(random_state, 0))
        place = chosen_device(device)
        height, width = observed.shape[:2]
        check_memory(height, width, settings.width, place)
        y = to_tensor(observed, place)  # (1, C, H, W)
        shape = (height, width, y.shape[1])
        signal = NetworkPrior(shape, settings, place, random_state)
        corruption: Parameterisation = NoCorruption()
        if self.robust:
            corruption = Corruption(tuple(y.shape), start=settings.start).to(place)
        watch = Watch(
            power=float(y.square().mean()) or 1 / y.numel(),  # as `descend` takes it
            truth=None if known is None else known.reshape(shape),
        )
        if checkpoint is not None:
            about = {
                **asdict(settings),
                "kind": self.name,
                "every": int(every),
                "seed": int(random_state),
                "device": place.type,
            }
            images = [observed] if known is None else [observed, known]
            watch.keep(Path(checkpoint), checkpoints.fingerprint(about, *images))
            watch.resume(signal, corruption)
        try:
            status, history = descend(
                y,
                Identity(tuple(y.shape)),  # type: ignore[arg-type]  # no matrix
                signal,
                corruption,
                step=settings.rate_at,
                alpha=settings.corruption_rate / settings.rate,
                stop=(Steps(settings.steps),),
                gradient=self.gradient,
                check_every=every,
                callback=watch,
                progress=progress,
                start=watch.start,
            )
        except DivergenceError as error:
            raise InputError(
                f"The descent {error}; smaller rates than rate={settings.rate:g} and "
                f"corruption_rate={settings.corruption_rate:g} are needed."
            ) from None
        sparse = np.zeros(shape, np.float32)
        if isinstance(corruption, Corruption):
            sparse = to_array(corruption.value())
        opaque = None if transparency is None else np.zeros_like(transparency)
        parts = (observed.shape, transparency)
        return ImageRecovery(
            _with_transparency(signal.image(), *parts),
            _with_transparency(sparse, observed.shape, opaque),
            status,
            watch.joined(history),
            None if watch.best is None else _with_transparency(watch.best, *parts),
        )


recover_image = Fit(
    "double",
    robust=True,
    about="Split an image into φ(θ) and a sparse corruption by the paper's descent.\n\n"
    "Neither how much is corrupted nor when to stop has to be known.",
)


def _without_transparency(image: ArrayLike) -> tuple[Array, Array | None]:
    """Return an image on [0, 1], and apart from it its transparency, if it has some."""
    values = unit_image(image)
    if values.ndim == 3 and has_transparency(np.asarray(image), 2):
        return values[..., :3], values[..., 3]
    return values, None


def _with_transparency(
    values: Array, shape: tuple[int, ...], transparency: Array | None
) -> Array:
    """Return values in the shape of the image, with its transparency again."""
    values = values.reshape(shape)
    return values if transparency is None else np.dstack([values, transparency])


def _checked_truth(truth: ArrayLike, observed: Array) -> Array:
    known, _ = _without_transparency(truth)
    if known.shape != observed.shape:
        raise InputError(
            f"The truth has shape {known.shape}, but the image {observed.shape}."
        )
    return known


def _check_integers(**options: tuple[object, int]) -> None:
    """Refuse options that are not integers, or below the least each may be."""
    for name, (value, least) in options.items():
        if not (isinstance(value, (int, np.integer)) and value >= least):
            raise InputError(f"{name} must be an integer from {least}, got {value!r}.")


@dataclass
class Watch:
    """The callback: records loss and PSNR, keeps the best image, notes checkpoints.

    Attributes
    ----------
    power : float
        Mean square of the observation, which turns a relative residual into a loss.
    truth : ndarray of shape (H, W, C) or None
        The clean image, if known.
    start : Moment
        Where the run began, or was resumed.
    best, best_psnr : ndarray or None, float
        The image nearest to the truth so far, and how near.
    rows : list of dict
        The history so far, that of an interrupted run before this one included.
    """

    power: float
    truth: Array | None = None
    start: Iteration = FIRST_ITERATION
    best: Array | None = None
    best_psnr: float = -math.inf
    rows: list[dict[str, float]] = field(default_factory=list)
    _path: Path | None = None
    _mark: str = ""
    _saved: float = field(default_factory=time.monotonic)

    def __call__(
        self, moment: Iteration, signal: Parameterisation, corruption: Parameterisation
    ) -> dict[str, float]:
        """Record how the run stands; save a checkpoint if it is time."""
        assert isinstance(signal, NetworkPrior)
        if (
            self._path is not None
            and moment.step > self.start.step
            and time.monotonic() - self._saved >= SECONDS_BETWEEN
        ):
            self.save(moment, signal, corruption)
        image = signal.image()
        extra = {"loss": self.power * moment.residual**2}
        if self.truth is not None:
            extra["psnr"] = psnr(image, self.truth)
            if extra["psnr"] > self.best_psnr:
                self.best, self.best_psnr = image, extra["psnr"]
        row = {
            "step": moment.step,
            "residual": moment.residual,
            "seconds": moment.seconds,
        }
        self.rows.append({**row, **extra})
        return extra

    def keep(self, path: Path, mark: str) -> None:
        """Keep checkpoints in a file; ``mark`` is the fingerprint of this run."""
        self._path, self._mark = path, mark

    def save(
        self, moment: Iteration, signal: NetworkPrior, corruption: Parameterisation
    ) -> None:
        """Save where the run stood before the network's last value was drawn."""
        assert self._path is not None
        arrays = signal.state()
        arrays["moment"] = np.array([moment.step, moment.residual, moment.seconds])
        if isinstance(corruption, Corruption):
            arrays |= corruption.state()
        for name in self.rows[0] if self.rows else ():
            arrays[f"history.{name}"] = np.array([row[name] for row in self.rows])
        if self.best is not None:
            arrays["best"] = self.best
        failed = checkpoints.save(self._path, self._mark, arrays)
        if failed:
            warnings.warn(
                f"No checkpoint could be written to {self._path}: {failed}; the last "
                "good one stays.",
                RuntimeWarning,
                stacklevel=2,
            )
        self._saved = time.monotonic()

    def resume(self, signal: NetworkPrior, corruption: Parameterisation) -> None:
        """Go back to the last checkpoint, if there is one."""
        assert self._path is not None
        arrays = checkpoints.load(self._path, self._mark)
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

    def joined(self, history: History) -> History:
        """Return the history of the whole run, interrupted or not."""
        return History(
            {name: np.array([row[name] for row in self.rows]) for name in history}
        )
