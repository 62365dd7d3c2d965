"""Batch norm, LeakyReLU and reflected margin in one pass, on the CPU.

Between two convolutions stand three operations that each read and write the whole
layer. Channel by channel, while it is in cache, they are one; the mathematics is that
of `torch.nn.BatchNorm2d`, `leaky_relu` and ``pad(mode="reflect")``.
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

# As many as PyTorch may use on any machine; threads are started when first needed.
POOL = ThreadPoolExecutor(max_workers=64, thread_name_prefix="discrepant")
# Values of a layer from which on handing out parts costs less than it saves; chosen by
# the times of `python benchmarks/image.py`.
WORTH_SHARING = 200_000


def norm_leak(z: Tensor, norm: nn.BatchNorm2d, slope: float, margin: int = 0) -> Tensor:
    """Normalise, apply LeakyReLU (slope 1 is none), and reflect a margin of 0 or 1."""
    if z.device.type == "cpu" and len(z) == 1:
        fused: Callable[..., Tensor] = _NormLeak.apply
        return fused(z, norm.weight, norm.bias, norm.eps, float(slope), margin)
    z = norm(z)
    if slope != 1:
        z = functional.leaky_relu_(z, slope)
    return functional.pad(z, (margin,) * 4, mode="reflect") if margin else z


class _NormLeak(torch.autograd.Function):
    """The fused operation and its gradient."""

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
        from discrepant.image.deep_image_prior.fused_kernels import norm_leak as kernel

        z = z.contiguous()
        _, channels, height, width = z.shape
        out = z.new_empty(1, channels, height + 2 * margin, width + 2 * margin)
        mean, scale = torch.empty_like(weight), torch.empty_like(weight)
        arrays = [_array(t) for t in (z[0], weight, bias, out[0], mean, scale)]

        def part(some: slice) -> None:
            x, w, b, o, m, s = (array[some] for array in arrays)
            kernel(x, w, b, eps, slope, margin, o, m, s)

        _share(part, channels, z.numel())
        ctx.save_for_backward(z, weight, bias, mean, scale)
        ctx.slope, ctx.margin = slope, margin
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from discrepant.image.deep_image_prior.fused_kernels import (
            norm_leak_backward as kernel,
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

        def part(some: slice) -> None:
            g, x, w, b, m, s, dx, dw, db = (array[some] for array in arrays)
            kernel(g, x, w, b, m, s, ctx.slope, ctx.margin, dx, dw, db)

        _share(part, z.shape[1], z.numel())
        return dz, dweight, dbias, None, None, None


def _array(tensor: Tensor) -> np.ndarray:
    """View a tensor as an array."""
    return tensor.detach().numpy()


def _share(part: Callable[[slice], None], channels: int, values: int) -> None:
    """Work on the channels with as many threads as PyTorch uses."""
    threads = min(torch.get_num_threads(), channels)
    if threads == 1 or values < WORTH_SHARING:
        part(slice(0, channels))
        return
    edges = np.linspace(0, channels, threads + 1).astype(int).tolist()
    others = [POOL.submit(part, slice(low, high)) for low, high in pairwise(edges[1:])]
    part(slice(edges[0], edges[1]))
    for other in others:
        other.result()
