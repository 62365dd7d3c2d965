"""The network as one more parameterisation of the descent: X = φ(θ), s = g∘g − h∘h.

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
from typing import TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from discrepant.errors import InputError
from discrepant.image.arrays import checked_image, has_alpha, psnr
from discrepant.image.network import checkpoints
from discrepant.image.network.architecture import INPUT_CHANNELS, Network
from discrepant.image.network.corruption import PAPER_RATE, START, Corruption
from discrepant.image.network.device import check_memory, chosen_device
from discrepant.linalg import Array
from discrepant.paper.descent import BEGINNING, DivergenceError, descend
from discrepant.paper.operators import Identity
from discrepant.paper.parameters import Absent, Parameterisation
from discrepant.paper.stopping import Moment, Steps
from discrepant.result import History, Status

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
}

SECONDS_BETWEEN = 60.0  # checkpoints


@dataclass(frozen=True)
class Kind:
    """What is fitted: with a corruption beside the network or not, and which loss.

    ``gradient`` is the derivative of N/2 times the mean loss, given the residual; by
    default that of squares.
    """

    name: str
    robust: bool = False
    gradient: Callable[[Tensor], Tensor] | None = None


DOUBLE = Kind("double", robust=True)
SQUARES = Kind("squares")
ABSOLUTE = Kind("absolute", gradient=lambda r: r.sign() / 2)


@dataclass(frozen=True)
class Settings:
    """How an image is descended on; the defaults are the paper's.

    Attributes
    ----------
    width : int
        Channels of every hidden layer.
    optimiser : {"sgd", "adam"}
        What moves θ.
    rate : float
        Its learning rate τ.
    corruption_rate : float
        The rate ρ of g and h, per value.
    start : float
        Where g and h start.
    steps : int
        How long.
    settling : int
        Over so many steps at the end both rates fall to zero; none by default.
    perturbation : float
        Standard deviation of what is added to the network's input at each step.
    """

    width: int = 128
    optimiser: str = "sgd"
    rate: float = 1.0
    corruption_rate: float = PAPER_RATE
    start: float = START
    steps: int = 150_000
    settling: int = 0
    perturbation: float = 1 / 30

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise InputError(
                f"optimiser must be one of {', '.join(OPTIMISERS)}, got "
                f"{self.optimiser!r}."
            )
        for name in ("rate", "corruption_rate", "start"):
            value = getattr(self, name)
            if not (
                isinstance(value, (int, float, np.number)) and 0 < value < math.inf
            ):
                raise InputError(f"{name} must be a positive number, got {value!r}.")
        for name, least in (("width", 1), ("steps", 1), ("settling", 0)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InputError(
                    f"{name} must be an integer from {least}, got {value!r}."
                )
        if not (
            isinstance(self.perturbation, (int, float)) and 0 <= self.perturbation < 1
        ):
            raise InputError(
                f"perturbation must be from 0 to 1, got {self.perturbation!r}."
            )


PAPER = Settings()


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


class NetworkPrior:
    """``X = φ(θ)``: an image is what the network makes of fixed noise.

    ``descend`` moves θ against ``∂/∂θ mean(r²)`` by back-propagation.

    Parameters
    ----------
    shape : (H, W, C)
        Shape of the image.
    settings : Settings
        Width, optimiser and perturbation.
    device : torch.device
        Where to run.
    seed : int
        Seed of the weights, the noise and its perturbation.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        settings: Settings = PAPER,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        height, width, channels = shape
        self.size = (height, width)
        self.perturbation = settings.perturbation
        # Weights and noise are drawn on the CPU, so that they are the same everywhere.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Network(channels, settings.width)
            noise = 0.1 * torch.rand(1, INPUT_CHANNELS, *network.padded(*self.size))
        self.network, self.noise = network.to(device), noise.to(device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.optimiser = OPTIMISERS[settings.optimiser](
            self.network.parameters(), lr=settings.rate
        )
        self._before = self.generator.get_state()
        self._output: Tensor | None = None

    def value(self) -> Tensor:
        """Return φ(θ) at a freshly perturbed input, (1, C, H, W)."""
        self._before = self.generator.get_state()
        z = torch.empty_like(self.noise).normal_(generator=self.generator)
        z = z.mul_(self.perturbation).add_(self.noise)
        self._output = self.network(z, self.size)
        return self._output.detach()

    def descend(self, grad: Tensor, rate: float) -> None:
        """Move θ against the gradient of the mean square at the last value."""
        assert self._output is not None, "value() comes first"
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        self._output.backward(grad * (2 / grad.numel()))
        self.optimiser.step()

    def image(self) -> Array:
        """Return the last value as an array, (H, W, C)."""
        assert self._output is not None, "value() comes first"
        return _to_array(self._output.detach())

    def state(self) -> checkpoints.Arrays:
        """Return all that the next value and every later one depend on."""
        arrays = {"generator": self._before.numpy()}
        for name, tensor in self.network.state_dict().items():
            arrays[f"network.{name}"] = tensor.cpu().numpy()
        for i, moments in self.optimiser.state_dict()["state"].items():
            for name, tensor in moments.items():
                if tensor is not None:
                    arrays[f"optimiser.{i}.{name}"] = tensor.cpu().numpy()
        return arrays

    def restore(self, arrays: checkpoints.Arrays) -> None:
        """Go back to a state."""
        self.generator.set_state(torch.from_numpy(arrays["generator"]))
        self.network.load_state_dict(
            {
                name.removeprefix("network."): torch.from_numpy(array)
                for name, array in arrays.items()
                if name.startswith("network.")
            }
        )
        state: dict[int, dict[str, Tensor]] = {}
        for key, array in arrays.items():
            if key.startswith("optimiser."):
                _, i, name = key.split(".")
                state.setdefault(int(i), {})[name] = torch.from_numpy(array)
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})


class Options(TypedDict, total=False):
    """What every fit can be told beside its settings; see `recover_image`."""

    truth: ArrayLike | None
    every: int
    device: str
    random_state: int
    checkpoint: str | Path | None
    progress: bool


def recover_image(
    image: ArrayLike, settings: Settings = PAPER, **options: Unpack[Options]
) -> ImageRecovery:
    """Split an image into φ(θ) and a sparse corruption by the paper's descent.

    Neither how much is corrupted nor when to stop has to be known.

    Parameters
    ----------
    image : array-like of shape (H, W) or (H, W, C)
        Values in [0, 1], or unsigned integers; 1 to 32 channels. The fourth channel of
        an integer image is alpha, and is kept.
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
        A file in which the run notes where it stands, once a minute at most, when the
        history has a point. If the file is there, the run goes on from it, to the
        result that it would have had.
    progress : bool, default False
        Show a bar with loss, time left and PSNR.

    Returns
    -------
    ImageRecovery
    """
    return fit(image, settings, DOUBLE, **options)


def fit(
    image: ArrayLike,
    settings: Settings,
    kind: Kind,
    /,
    *,
    truth: ArrayLike | None = None,
    every: int = 100,
    device: str = "auto",
    random_state: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool = False,
) -> ImageRecovery:
    """Fit the network; see `recover_image` for the options."""
    observed, alpha = _without_alpha(checked_image(image), image)
    known = None
    if truth is not None:
        known, _ = _without_alpha(checked_image(truth), truth)
        if known.shape != observed.shape:
            raise InputError(
                f"The truth has shape {known.shape}, but the image {observed.shape}."
            )
    for name, value, least in (("every", every, 1), ("random_state", random_state, 0)):
        if not (isinstance(value, (int, np.integer)) and value >= least):
            raise InputError(f"{name} must be an integer from {least}, got {value!r}.")
    place = chosen_device(device)
    height, width = observed.shape[:2]
    check_memory(height, width, settings.width, place)
    y = _to_tensor(observed, place)  # (1, C, H, W)
    shape = (height, width, y.shape[1])
    signal = NetworkPrior(shape, settings, place, random_state)
    corruption: Parameterisation = Absent()
    if kind.robust:
        corruption = Corruption(tuple(y.shape), start=settings.start).to(place)
    watch = Watch(
        power=float(y.square().mean()) or 1 / y.numel(),  # as `descend` takes it
        truth=None if known is None else known.reshape(shape),
    )
    if checkpoint is not None:
        about = {
            **asdict(settings),
            "kind": kind.name,
            "every": int(every),
            "seed": int(random_state),
            "device": place.type,
        }
        images = [observed] if known is None else [observed, known]
        watch.keep(Path(checkpoint), checkpoints.fingerprint(about, *images))
        watch.resume(signal, corruption)

    def rate(k: int) -> float:
        left = settings.steps - k
        return settings.rate * min(1, left / max(settings.settling, 1))

    try:
        status, history = descend(
            y,
            Identity(tuple(y.shape)),  # type: ignore[arg-type]  # no matrix
            signal,
            corruption,
            step=rate,
            alpha=settings.corruption_rate / settings.rate,
            stop=(Steps(settings.steps),),
            gradient=kind.gradient,
            every=every,
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
        sparse = _to_array(corruption.value())

    def whole(values: Array, last: Array | None = alpha) -> Array:
        values = values.reshape(observed.shape)
        return values if last is None else np.dstack([values, last])

    return ImageRecovery(
        whole(signal.image()),
        whole(sparse, None if alpha is None else np.zeros_like(alpha)),
        status,
        watch.joined(history),
        None if watch.best is None else whole(watch.best),
    )


def _without_alpha(values: Array, given: ArrayLike) -> tuple[Array, Array | None]:
    """Set transparency aside: it is handed back as it is."""
    if values.ndim == 3 and has_alpha(np.asarray(given), 2):
        return values[..., :3], values[..., 3]
    return values, None


@dataclass
class Watch:
    """The callback: records loss and PSNR, keeps the best image, notes checkpoints."""

    power: float  # mean square of the observation
    truth: Array | None = None
    start: Moment = BEGINNING
    best: Array | None = None
    best_psnr: float = -math.inf
    rows: list[dict[str, float]] = field(default_factory=list)
    _path: Path | None = None
    _mark: str = ""
    _saved: float = field(default_factory=time.monotonic)

    def __call__(
        self, moment: Moment, signal: Parameterisation, corruption: Parameterisation
    ) -> dict[str, float]:
        """Look at the run."""
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
        """Note checkpoints in a file."""
        self._path, self._mark = path, mark

    def save(
        self, moment: Moment, signal: NetworkPrior, corruption: Parameterisation
    ) -> None:
        """Note where the run stands before this moment's value was drawn."""
        assert self._path is not None
        arrays = signal.state()
        arrays["moment"] = np.array([moment.step, moment.residual, moment.seconds])
        if isinstance(corruption, Corruption):
            arrays["g"] = corruption.g.detach().cpu().numpy()
            arrays["h"] = corruption.h.detach().cpu().numpy()
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
            with torch.no_grad():
                corruption.g.copy_(torch.from_numpy(arrays["g"]))
                corruption.h.copy_(torch.from_numpy(arrays["h"]))
        step, residual, seconds = arrays["moment"].tolist()
        self.start = Moment(int(step), residual, seconds)
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


def _to_tensor(image: Array, device: torch.device) -> Tensor:
    """Turn (H, W) or (H, W, C) into (1, C, H, W) in single precision."""
    stacked = image[..., None] if image.ndim == 2 else image
    moved = np.ascontiguousarray(np.moveaxis(stacked, 2, 0)[None], dtype=np.float32)
    return torch.from_numpy(moved).to(device)


def _to_array(tensor: Tensor) -> Array:
    """Turn (1, C, H, W) into (H, W, C)."""
    return np.moveaxis(tensor[0].cpu().numpy(), 0, 2).copy()
