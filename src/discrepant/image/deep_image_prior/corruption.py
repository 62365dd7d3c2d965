"""The sparse corruption g∘g − h∘h as a module for any training loop."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from discrepant.core.errors import InputError
from discrepant.image.deep_image_prior.checkpoints import Arrays

# The paper descends on the mean square over 512×512×3 values at a rate of 500. Its
# gradient in g is 4 r∘g / N, so that is a rate of 4·500/N on r∘g, value by value.
PAPER_VALUES = 512 * 512 * 3
PAPER_RATE = 4 * 500 / PAPER_VALUES
START = 1e-5  # the paper's


class Corruption(nn.Module):
    """``s = g∘g − h∘h``, with a learning rate of its own.

    Add it to what a model predicts, and take its step beside the model's: what the
    model cannot explain, and only that, ends up in s. ::

        corruption = Corruption(targets.shape, rate=10)
        loss = criterion(model(x) + corruption(index), targets[index])
        ...                         # loss.backward(), optimizer.step()
        corruption.step()

    Parameters
    ----------
    shape : tuple of int
        Shape of the targets, all of the data set.
    rate : float
        Learning rate of g and h. In `recover_image` it is per value: g moves by
        ``−rate·r∘g`` whatever the number of values.
    start : float
        g and h start from it, so that s starts at zero.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        rate: float = PAPER_RATE,
        start: float = START,
    ) -> None:
        super().__init__()
        for name, value in (("rate", rate), ("start", start)):
            if not 0 < value < math.inf:
                raise InputError(f"{name} must be a positive number, got {value!r}.")
        self.rate = rate
        self.g = nn.Parameter(torch.full(tuple(shape), float(start)))
        self.h = nn.Parameter(torch.full(tuple(shape), float(start)))

    def forward(self, index: Any = ...) -> Tensor:
        """Return s, or the part of it that belongs to a batch."""
        return self.g[index].square() - self.h[index].square()

    @torch.no_grad()
    def step(self) -> None:
        """Descend at ``rate`` on the gradients that ``backward`` left, and clear them.

        A value that has no gradient yet stays where it is.
        """
        for parameter in (self.g, self.h):
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=self.rate)
                parameter.grad = None

    @torch.no_grad()
    def value(self) -> Tensor:
        """Return s, for reading."""
        return self.g.square() - self.h.square()

    @torch.no_grad()
    def descend(self, grad: Tensor, rate: float) -> None:
        """Take ``g ← g − rate·r∘g`` and ``h ← h + rate·r∘h``, the paper's (8)."""
        self.g.addcmul_(grad, self.g, value=-rate)
        self.h.addcmul_(grad, self.h, value=rate)

    def state(self) -> Arrays:
        """Return g and h, for a checkpoint."""
        return {
            name: parameter.detach().cpu().numpy()
            for name, parameter in (("g", self.g), ("h", self.h))
        }

    @torch.no_grad()
    def restore(self, arrays: Arrays) -> None:
        """Go back to what `state` returned."""
        self.g.copy_(torch.from_numpy(arrays["g"]))
        self.h.copy_(torch.from_numpy(arrays["h"]))
