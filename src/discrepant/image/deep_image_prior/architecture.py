"""The network φ(θ): Deep Image Prior's encoder–decoder with skip connections.

Each of five scales halves the image on the way down and doubles it on the way up::

    z ─ convolve, stride 2 ─ convolve ─ (the next scale) ─ upsample ┐
    └────────── skip: 1×1 convolution to 4 channels ────────────────┴ concatenate ─
        batch norm ─ convolve ─ 1×1 convolution

Convolutions pad by reflection and are followed by batch norm and LeakyReLU(0.2)
(Ulyanov, Vedaldi, Lempitsky; CVPR 2018). At width 128 with 32 channels in and 3 out
there are 2,217,831 parameters.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from discrepant.core.errors import InputError
from discrepant.image.arrays import MAX_CHANNELS
from discrepant.image.deep_image_prior.fused_batch_norm import norm_leak

# Those of Deep Image Prior, which the paper takes over.
SCALES = 5
SKIP_CHANNELS = 4
INPUT_CHANNELS = 32
SLOPE = 0.2  # of LeakyReLU below zero


class Network(nn.Module):
    """The encoder–decoder: from noise of `padded` size to an image of any size.

    Parameters
    ----------
    channels : int
        Channels of the image, 1 to 32.
    width : int
        Channels of every hidden layer.
    input_channels : int
        Channels of the noise that goes in.
    """

    def __init__(
        self,
        channels: int = 3,
        width: int = 128,
        input_channels: int = INPUT_CHANNELS,
    ) -> None:
        super().__init__()
        if not 1 <= channels <= MAX_CHANNELS:
            raise InputError(
                f"An image of 1 to {MAX_CHANNELS} channels is needed, got {channels}."
            )
        if width < 1:
            raise InputError(f"width must be a positive number, got {width}.")
        entering = [input_channels] + [width] * (SCALES - 1)
        self.scales = nn.ModuleList(Scale(c, width) for c in entering)
        self.last = nn.Conv2d(width, channels, 1)

    @staticmethod
    def padded(height: int, width: int) -> tuple[int, int]:
        """Return the size of the noise: multiples of 32, and 64 at least.

        Halved five times, that leaves two rows and columns, which can be reflected.
        """
        unit = 2**SCALES
        rows, columns = (unit * max(2, -(-size // unit)) for size in (height, width))
        return rows, columns

    def levels(self) -> list["Scale"]:
        """Return the scales, finest first."""
        return [scale for scale in self.scales if isinstance(scale, Scale)]

    def forward(self, z: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """Return the image in (0, 1), cropped to ``size``."""
        skips = []
        for scale in self.levels():
            skips.append(scale.skip(z))
            z = scale.way_down(z)
        for scale, skip in zip(self.levels()[::-1], skips[::-1], strict=True):
            z = scale.way_up(skip, z)
        image = torch.sigmoid(self.last(z))
        return image if size is None else image[..., : size[0], : size[1]]


class Scale(nn.Module):
    """One scale: a way down, a skip past what is deeper, and a way up."""

    def __init__(self, entering: int, width: int) -> None:
        super().__init__()
        self.skip = Layer(entering, SKIP_CHANNELS, 1)
        self.first = Layer(entering, width, 3, stride=2)
        self.second = Layer(width, width, 3)
        self.norm = norm(SKIP_CHANNELS + width)
        self.merge = Layer(SKIP_CHANNELS + width, width, 3)
        self.mix = Layer(width, width, 1)

    def way_down(self, z: Tensor) -> Tensor:
        """Halve what comes from above."""
        z = functional.pad(z, (1, 1, 1, 1), mode="reflect")
        halved: Tensor = self.second(self.first(z, margin=1))
        return halved

    def way_up(self, skip: Tensor, deeper: Tensor) -> Tensor:
        """Double what comes from below and join it with the skip."""
        doubled = functional.interpolate(deeper, scale_factor=2, mode="bilinear")
        joined = torch.cat([skip, doubled], dim=1)
        normed = norm_leak(joined, self.norm, slope=1, margin=1)
        mixed: Tensor = self.mix(self.merge(normed))
        return mixed


class Layer(nn.Module):
    """Convolution, batch norm, LeakyReLU; what goes in has been padded already."""

    def __init__(self, entering: int, leaving: int, kernel: int, stride: int = 1):
        super().__init__()
        self.convolution = nn.Conv2d(entering, leaving, kernel, stride)
        self.norm = norm(leaving)

    def forward(self, z: Tensor, margin: int = 0) -> Tensor:
        """Apply the three, and reflect the margin that the next convolution needs."""
        return norm_leak(self.convolution(z), self.norm, SLOPE, margin)


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm over the one image, which keeps no averages between steps."""
    return nn.BatchNorm2d(channels, track_running_stats=False)


def multiplications(network: Network, height: int, width: int) -> int:
    """Return the multiply–adds of one step: forward, and backward twice that."""
    height, width = network.padded(height, width)
    total = network.last.weight.numel() * height * width
    for depth, scale in enumerate(network.levels()):
        here = (height >> depth) * (width >> depth)
        for layer, pixels in (
            (scale.skip, here),
            (scale.first, here // 4),
            (scale.second, here // 4),
            (scale.merge, here),
            (scale.mix, here),
        ):
            total += layer.convolution.weight.numel() * pixels
    return 3 * total
