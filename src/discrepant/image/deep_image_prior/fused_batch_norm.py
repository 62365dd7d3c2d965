"""Batch norm, LeakyReLU and reflection padding fused into one operation on the CPU.

Between two convolutions, each of these three operations would read and write the whole
layer. Fused, they run channel by channel while the channel is in cache. The result is
that of `torch.nn.BatchNorm2d`, `leaky_relu` and ``pad(mode="reflect")``.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

# Threads for parts of a layer: the most that PyTorch may use on any machine. They are
# started when first needed.
POOL = ThreadPoolExecutor(max_workers=64, thread_name_prefix="discrepant")
# Values of a layer from which several threads are faster than one, by the times of
# `python benchmarks/images/network_step.py`.
MIN_SIZE_FOR_THREADS = 200_000


def batch_norm_leaky_relu(
    z: Tensor, norm: nn.BatchNorm2d, slope: float, margin: int = 0
) -> Tensor:
    """Apply batch norm and LeakyReLU, and pad by reflection.

    A ``slope`` of 1 omits LeakyReLU; the ``margin`` of the padding is 0 or 1 pixels.
    """
    if z.device.type == "cpu" and len(z) == 1:
        fused: Callable[..., Tensor] = _FusedBatchNorm.apply
        return fused(z, norm.weight, norm.bias, norm.eps, float(slope), margin)
    z = norm(z)
    if slope != 1:
        z = functional.leaky_relu_(z, slope)
    return functional.pad(z, (margin,) * 4, mode="reflect") if margin else z


class _FusedBatchNorm(torch.autograd.Function):
    """The fused operation and its gradient, for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        slope: float,
        margin: int,
    ) -> Tensor:
        from discrepant.image.deep_image_prior.fused_kernels import (
            batch_norm_leaky_relu as kernel,
        )

        z = z.contiguous()
        _, channels, height, width = z.shape
        out = z.new_empty(1, channels, height + 2 * margin, width + 2 * margin)
        mean, scale = torch.empty_like(weight), torch.empty_like(weight)
        arrays = [_array(t) for t in (z[0], weight, bias, out[0], mean, scale)]

        def run_channels(part: slice) -> None:
            x, w, b, o, m, s = (array[part] for array in arrays)
            kernel(x, w, b, eps, slope, margin, o, m, s)

        _run_in_threads(run_channels, channels, z.numel())
        ctx.save_for_backward(z, weight, bias, mean, scale)
        ctx.slope, ctx.margin = slope, margin
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from discrepant.image.deep_image_prior.fused_kernels import (
            batch_norm_leaky_relu_backward as kernel,
        )

        z, weight, bias, mean, scale = ctx.saved_tensors
        dz = torch.empty_like(z)
        dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
        arrays = [
            _array(t)
            for t in (
                *(grad.contiguous()[0], z[0], weight, bias, mean, scale),
                *(dz[0], dweight, dbias),
            )
        ]

        def run_channels(part: slice) -> None:
            g, x, w, b, m, s, dx, dw, db = (array[part] for array in arrays)
            kernel(g, x, w, b, m, s, ctx.slope, ctx.margin, dx, dw, db)

        _run_in_threads(run_channels, z.shape[1], z.numel())
        return dz, dweight, dbias, None, None, None


def _array(tensor: Tensor) -> np.ndarray:
    """Return an array that shares the memory of a tensor."""
    return tensor.detach().numpy()


def _run_in_threads(run: Callable[[slice], None], channels: int, n_values: int) -> None:
    """Run a function on parts of the channels, in as many threads as PyTorch uses."""
    threads = min(torch.get_num_threads(), channels)
    if threads == 1 or n_values < MIN_SIZE_FOR_THREADS:
        run(slice(0, channels))
        return
    edges = np.linspace(0, channels, threads + 1).astype(int).tolist()
    others = [POOL.submit(run, slice(low, high)) for low, high in pairwise(edges[1:])]
    run(slice(edges[0], edges[1]))
    for other in others:
        other.result()
