"""The paper's image method φ(θ) + g∘g − h∘h, and filters to compare it with.

To restore an image, call `discrepant.restore`. The names below load PyTorch or
scikit-image when they are first used; ``pip install 'discrepant[image]'`` installs
both.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from discrepant.core.errors import missing_extra

if TYPE_CHECKING:
    from discrepant.image.baseline_filters import (
        adaptive_median,
        inpaint_extremes,
        median,
    )
    from discrepant.image.deep_image_prior.architecture import Network
    from discrepant.image.deep_image_prior.corruption import Corruption
    from discrepant.image.deep_image_prior.fit import (
        ImageRecovery,
        dip,
        dip_l1,
        recover_image,
    )
    from discrepant.image.deep_image_prior.prior import NetworkPrior, Settings
    from discrepant.image.restore.result import Restoration

__all__ = [
    "Corruption",
    "ImageRecovery",
    "Network",
    "NetworkPrior",
    "Restoration",
    "Settings",
    "adaptive_median",
    "dip",
    "dip_l1",
    "inpaint_extremes",
    "median",
    "recover_image",
]

# Let PyTorch allocate memory in pages of 2 MB instead of 4 kB: each step of the network
# allocates and frees gigabytes. PyTorch reads this once, at its first allocation.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

_MODULES = {  # each public name with the module that defines it
    "Corruption": "deep_image_prior.corruption",
    "ImageRecovery": "deep_image_prior.fit",
    "Network": "deep_image_prior.architecture",
    "NetworkPrior": "deep_image_prior.prior",
    "Restoration": "restore.result",
    "Settings": "deep_image_prior.prior",
    "adaptive_median": "baseline_filters",
    "dip": "deep_image_prior.fit",
    "dip_l1": "deep_image_prior.fit",
    "inpaint_extremes": "baseline_filters",
    "median": "baseline_filters",
    "recover_image": "deep_image_prior.fit",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "skimage"):
            raise
        raise missing_extra("Images need PyTorch and scikit-image", "image") from None


def __dir__() -> list[str]:
    return sorted(__all__)
