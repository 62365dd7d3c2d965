"""The network as a parameterisation X = φ(θ) of the descent, and its device.

`Settings` holds the options of a descent; `NetworkPrior` is the network with its
weights, input and optimiser. `discrepant.image.deep_image_prior.fit` runs a descent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.core.memory import available_memory
from discrepant.image.deep_image_prior import checkpoints
from discrepant.image.deep_image_prior.architecture import INPUT_CHANNELS, Network
from discrepant.image.deep_image_prior.corruption import PAPER_RATE, START

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
}
# The input noise is uniform on [0, INPUT_AMPLITUDE], as in Deep Image Prior.
INPUT_AMPLITUDE = 0.1
# Floats held at once for each pixel and hidden channel: an upper bound of what
# `python benchmarks/images/network_step.py --memory` measures from 256×256 pixels.
FLOATS_PER_PIXEL_AND_WIDTH = 14
# Floats held at once for each pixel beside those of the hidden channels.
FLOATS_PER_PIXEL = 400


@dataclass(frozen=True)
class Settings:
    """Options of the descent on an image; the defaults are the paper's.

    Attributes
    ----------
    width : int
        Channels of every hidden layer.
    optimiser : {"sgd", "adam"}
        The optimiser of θ.
    rate : float
        The learning rate τ of θ.
    corruption_rate : float
        The learning rate ρ of g and h, per value.
    start : float
        Initial value of all entries of g and h.
    steps : int
        Number of steps.
    settling : int
        Number of steps at the end over which both rates fall to zero; none by default.
    perturbation : float
        Standard deviation of the noise added to the network's input at each step.
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
        for name, minimum in (("width", 1), ("steps", 1), ("settling", 0)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= minimum):
                raise InputError(
                    f"{name} must be an integer from {minimum}, got {value!r}."
                )
        if not (
            isinstance(self.perturbation, (int, float)) and 0 <= self.perturbation < 1
        ):
            raise InputError(
                f"perturbation must be from 0 to 1, got {self.perturbation!r}."
            )

    def rate_at(self, step: int) -> float:
        """Return the learning rate τ of a step; it falls to zero while settling."""
        left = self.steps - step
        return self.rate * min(1, left / max(self.settling, 1))


PAPER = Settings()


class NetworkPrior:
    """Parameterisation ``X = φ(θ)`` of an image: the network's output on fixed noise.

    ``descend`` takes a step along ``−∂/∂θ mean(r²)`` by back-propagation.

    Parameters
    ----------
    shape : (H, W, C)
        Shape of the image.
    settings : Settings
        Width, optimiser and perturbation.
    device : torch.device
        The device to run on.
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
            noise = INPUT_AMPLITUDE * torch.rand(
                1, INPUT_CHANNELS, *network.padded(*self.size)
            )
        self.network, self.noise = network.to(device), noise.to(device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.optimiser = OPTIMISERS[settings.optimiser](
            self.network.parameters(), lr=settings.rate
        )
        self._state_before_value = self.generator.get_state()
        self._output: Tensor | None = None

    def value(self) -> Tensor:
        """Return φ(θ) at a newly perturbed input, of shape (1, C, H, W)."""
        self._state_before_value = self.generator.get_state()
        z = torch.empty_like(self.noise).normal_(generator=self.generator)
        z = z.mul_(self.perturbation).add_(self.noise)
        self._output = self.network(z, self.size)
        return self._output.detach()

    def descend(self, grad: Tensor, rate: float) -> None:
        """Take a step on θ along the negative gradient of the mean square."""
        assert self._output is not None, "call value() first"
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        torch.autograd.backward(self._output, grad * (2 / grad.numel()))
        self.optimiser.step()

    def image(self) -> Array:
        """Return the last value as an array of shape (H, W, C)."""
        assert self._output is not None, "call value() first"
        return to_array(self._output.detach())

    def state(self) -> checkpoints.Arrays:
        """Return all arrays that the next value and every later one depend on."""
        arrays = {"generator": self._state_before_value.numpy()}
        for name, tensor in self.network.state_dict().items():
            arrays[f"network.{name}"] = tensor.cpu().numpy()
        for i, moments in self.optimiser.state_dict()["state"].items():
            for name, tensor in moments.items():
                if tensor is not None:
                    arrays[f"optimiser.{i}.{name}"] = tensor.cpu().numpy()
        return arrays

    def restore(self, arrays: checkpoints.Arrays) -> None:
        """Set the state to the arrays that `state` returned."""
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


def to_tensor(image: Array, device: torch.device) -> Tensor:
    """Convert an array (H, W) or (H, W, C) to a float32 tensor (1, C, H, W)."""
    stacked = image[..., None] if image.ndim == 2 else image
    moved = np.ascontiguousarray(np.moveaxis(stacked, 2, 0)[None], dtype=np.float32)
    return torch.from_numpy(moved).to(device)


def to_array(tensor: Tensor) -> Array:
    """Convert a tensor (1, C, H, W) to an array (H, W, C)."""
    return np.moveaxis(tensor[0].cpu().numpy(), 0, 2).copy()


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of a name; "auto" is CUDA, else MPS, else the CPU."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind in available if available[kind]))
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(
            f'device must be "auto", "cuda", "mps" or "cpu", got {name!r}.'
        ) from None
    if not available.get(device.type, False):
        raise InputError(
            f"device={name!r} is not available to PyTorch here; leave it out to use "
            "the best device that is."
        )
    return device


def check_memory(height: int, width: int, hidden: int, device: torch.device) -> None:
    """Raise an InputError if the network for an image does not fit into memory."""
    needed = memory_needed(height, width, hidden)
    available = _device_memory(device)
    if available is not None and needed > available:
        raise InputError(
            f"A {height}×{width} image at width {hidden} needs some "
            f"{needed / 2**30:.0f} GiB of memory, and this device has "
            f"{available / 2**30:.0f} GiB; pass a smaller width, or the image in tiles."
        )


def memory_needed(height: int, width: int, hidden: int) -> int:
    """Return roughly how many bytes one step takes at most."""
    height, width = Network.padded(height, width)
    floats = FLOATS_PER_PIXEL_AND_WIDTH * hidden + FLOATS_PER_PIXEL
    return 4 * floats * height * width


def _device_memory(device: torch.device) -> int | None:
    """Return the bytes of memory of a device, or None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return available_memory()
