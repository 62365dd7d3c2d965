"""The network as one more parameterisation of the descent: X = φ(θ).

`Settings` says how it is descended on, `NetworkPrior` is the network with its weights,
its input and its optimiser. What runs a descent from its first step to its last is
`discrepant.image.deep_image_prior.fit`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discrepant.core.errors import InputError
from discrepant.core.linalg import Array
from discrepant.image.deep_image_prior import checkpoints
from discrepant.image.deep_image_prior.architecture import INPUT_CHANNELS, Network
from discrepant.image.deep_image_prior.corruption import PAPER_RATE, START

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
}
INPUT_SIZE = 0.1  # the noise that goes in is drawn evenly from 0 to this, as in DIP


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
        The learning rate τ of θ.
    corruption_rate : float
        The learning rate ρ of g and h, per value.
    start : float
        The value from which all of g and h start.
    steps : int
        How many steps are taken.
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

    def rate_at(self, step: int) -> float:
        """Return the learning rate τ of a step, which falls to zero while settling."""
        left = self.steps - step
        return self.rate * min(1, left / max(self.settling, 1))


PAPER = Settings()


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
            noise = INPUT_SIZE * torch.rand(
                1, INPUT_CHANNELS, *network.padded(*self.size)
            )
        self.network, self.noise = network.to(device), noise.to(device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.optimiser = OPTIMISERS[settings.optimiser](
            self.network.parameters(), lr=settings.rate
        )
        self._before = self.generator.get_state()  # as it was before the last value
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
        torch.autograd.backward(self._output, grad * (2 / grad.numel()))
        self.optimiser.step()

    def image(self) -> Array:
        """Return the last value as an array, (H, W, C)."""
        assert self._output is not None, "value() comes first"
        return to_array(self._output.detach())

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
        """Go back to what `state` returned."""
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
    """Turn (H, W) or (H, W, C) into (1, C, H, W) in single precision."""
    stacked = image[..., None] if image.ndim == 2 else image
    moved = np.ascontiguousarray(np.moveaxis(stacked, 2, 0)[None], dtype=np.float32)
    return torch.from_numpy(moved).to(device)


def to_array(tensor: Tensor) -> Array:
    """Turn (1, C, H, W) into (H, W, C)."""
    return np.moveaxis(tensor[0].cpu().numpy(), 0, 2).copy()
