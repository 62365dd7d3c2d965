"""The sparse corruption g∘g − h∘h as a module for any training loop."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from discrepant.core.errors import InputError
from discrepant.image.deep_image_prior.checkpoints import Arrays

# Number of values of the paper's images.
PAPER_VALUES = 512 * 512 * 3
# The paper descends on the mean square over N values at a rate of 500. Its gradient in
# g is 4 r∘g / N, so the rate on r∘g is 4·500/N per value.
PAPER_RATE = 4 * 500 / PAPER_VALUES
# Initial value of all entries of g and h, the paper's.
START = 1e-5


class Corruption(nn.Module):
    """Sparse corruption ``s = g∘g − h∘h`` with its own learning rate.

    Add it to the prediction of a model, and call `step` after the model's optimiser:
    s converges to what the model cannot explain. ::

        corruption = Corruption(targets.shape, rate=10)
        loss = criterion(model(x) + corruption(index), targets[index])
        ...                         # loss.backward(), optimizer.step()
        corruption.step()

    Parameters
    ----------
    shape : tuple of int
        Shape of all targets of the data set.
    rate : float
        Learning rate of g and h. In `recover_image` it is per value: g changes by
        ``−rate·r∘g`` whatever the number of values.
    start : float
        Initial value of all entries of g and h, so that s starts at zero.
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
        """Return s, or the entries of s at the index of a batch."""
        return self.g[index].square() - self.h[index].square()

    @torch.no_grad()
    def step(self) -> None:
        """Descend at ``rate`` along the gradients of ``backward``, and clear them.

        Parameters without a gradient are unchanged.
        """
        for parameter in (self.g, self.h):
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=self.rate)
                parameter.grad = None

    @torch.no_grad()
    def value(self) -> Tensor:
        """Return s without gradient tracking."""
        return self.g.square() - self.h.square()

    @torch.no_grad()
    def descend(self, grad: Tensor, rate: float) -> None:
        """Update ``g ← g − rate·r∘g`` and ``h ← h + rate·r∘h``, equation (8)."""
        self.g.addcmul_(grad, self.g, value=-rate)
        self.h.addcmul_(grad, self.h, value=rate)

    def state(self) -> Arrays:
        """Return g and h as arrays, for a checkpoint."""
        return {
            name: parameter.detach().cpu().numpy()
            for name, parameter in (("g", self.g), ("h", self.h))
        }

    @torch.no_grad()
    def restore(self, arrays: Arrays) -> None:
        """Set g and h to the arrays that `state` returned."""
        self.g.copy_(torch.from_numpy(arrays["g"]))
        self.h.copy_(torch.from_numpy(arrays["h"]))
