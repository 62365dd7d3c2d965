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
from discrepant.image.deep_image_prior.fused_batch_norm import batch_norm_leaky_relu

# Number of scales, each half as fine as the one before (Deep Image Prior).
SCALES = 5
# Channels of each skip connection (Deep Image Prior).
SKIP_CHANNELS = 4
# Channels of the noise that is the network's input (Deep Image Prior).
INPUT_CHANNELS = 32
# Slope of LeakyReLU below zero (Deep Image Prior).
SLOPE = 0.2


class Network(nn.Module):
    """Encoder–decoder that maps noise of `padded` size to an image of any size.

    Parameters
    ----------
    channels : int
        Channels of the image, 1 to 32.
    width : int
        Channels of every hidden layer.
    input_channels : int
        Channels of the input noise.
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
        in_channels = [input_channels] + [width] * (SCALES - 1)
        self.scales = nn.ModuleList(Scale(c, width) for c in in_channels)
        self.last = nn.Conv2d(width, channels, 1)

    @staticmethod
    def padded(height: int, width: int) -> tuple[int, int]:
        """Return the size of the input noise: multiples of 32, and at least 64.

        Halved five times, 64 leaves two rows, the fewest that reflection can pad.
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
            z = scale.downsample(z)
        for scale, skip in zip(self.levels()[::-1], skips[::-1], strict=True):
            z = scale.upsample(skip, z)
        image = torch.sigmoid(self.last(z))
        return image if size is None else image[..., : size[0], : size[1]]


class Scale(nn.Module):
    """One scale: downsampling, a skip past the coarser scales, and upsampling."""

    def __init__(self, in_channels: int, width: int) -> None:
        super().__init__()
        self.skip = Layer(in_channels, SKIP_CHANNELS, 1)
        self.first = Layer(in_channels, width, 3, stride=2)
        self.second = Layer(width, width, 3)
        self.norm = norm(SKIP_CHANNELS + width)
        self.merge = Layer(SKIP_CHANNELS + width, width, 3)
        self.mix = Layer(width, width, 1)

    def downsample(self, z: Tensor) -> Tensor:
        """Halve the resolution of the finer scale's features."""
        z = functional.pad(z, (1, 1, 1, 1), mode="reflect")
        halved: Tensor = self.second(self.first(z, margin=1))
        return halved

    def upsample(self, skip: Tensor, coarser: Tensor) -> Tensor:
        """Double the coarser scale's features and join them with the skip."""
        doubled = functional.interpolate(coarser, scale_factor=2, mode="bilinear")
        joined = torch.cat([skip, doubled], dim=1)
        normed = batch_norm_leaky_relu(joined, self.norm, slope=1, margin=1)
        mixed: Tensor = self.mix(self.merge(normed))
        return mixed


class Layer(nn.Module):
    """Convolution of a padded input, batch norm, and LeakyReLU."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, stride: int = 1
    ):
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, kernel, stride)
        self.norm = norm(out_channels)

    def forward(self, z: Tensor, margin: int = 0) -> Tensor:
        """Return the output, padded by reflection for the next convolution."""
        return batch_norm_leaky_relu(self.convolution(z), self.norm, SLOPE, margin)


def norm(channels: int) -> nn.BatchNorm2d:
    """Return a batch norm over one image, without averages between steps."""
    return nn.BatchNorm2d(channels, track_running_stats=False)


def multiplications(network: Network, height: int, width: int) -> int:
    """Return the multiply–adds of a step: forward once, backward twice as many."""
    height, width = network.padded(height, width)
    total = network.last.weight.numel() * height * width
    for depth, scale in enumerate(network.levels()):
        size = (height >> depth) * (width >> depth)
        for layer, pixels in (
            (scale.skip, size),
            (scale.first, size // 4),
            (scale.second, size // 4),
            (scale.merge, size),
            (scale.mix, size),
        ):
            total += layer.convolution.weight.numel() * pixels
    return 3 * total
