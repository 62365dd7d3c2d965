"""What the paper compares with: Deep Image Prior, under squares and absolute values.

It fits φ(θ) to the corrupted image alone and has to be stopped in time: the paper
grants it the step of the best PSNR, which only the truth can tell, and so ``best`` of
its result is that image.
"""

from typing import Unpack

from numpy.typing import ArrayLike

from discrepant.image.network.prior import (
    ABSOLUTE,
    PAPER,
    SQUARES,
    ImageRecovery,
    Options,
    Settings,
    fit,
)


def dip(
    image: ArrayLike, settings: Settings = PAPER, **options: Unpack[Options]
) -> ImageRecovery:
    """Fit φ(θ) alone under the mean-squared error (Deep Image Prior).

    The arguments are those of `discrepant.image.recover_image`.
    """
    return fit(image, settings, SQUARES, **options)


def dip_l1(
    image: ArrayLike, settings: Settings = PAPER, **options: Unpack[Options]
) -> ImageRecovery:
    """Fit φ(θ) alone under the mean absolute error (DIP-ℓ1).

    The arguments are those of `discrepant.image.recover_image`.
    """
    return fit(image, settings, ABSOLUTE, **options)
