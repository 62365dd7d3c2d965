"""Images: the paper's network φ(θ) + g∘g − h∘h, rivals, and the quick `restore`.

`discrepant.restore` is the front door. The names below load PyTorch or scikit-image
when they are first used, both part of ``pip install 'discrepant[image]'``.
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
    from discrepant.image.deep_image_prior.baselines import dip, dip_l1
    from discrepant.image.deep_image_prior.corruption import Corruption
    from discrepant.image.deep_image_prior.fit import ImageRecovery, recover_image
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

# A step allocates gigabytes and gives them back. In pages of 2 MB instead of 4 kB the
# system has far less to do; PyTorch reads this once, when it first allocates.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

_MODULES = {  # the same names as above, each with the module that holds it
    "Corruption": "deep_image_prior.corruption",
    "ImageRecovery": "deep_image_prior.fit",
    "Network": "deep_image_prior.architecture",
    "NetworkPrior": "deep_image_prior.prior",
    "Restoration": "restore.result",
    "Settings": "deep_image_prior.prior",
    "adaptive_median": "baseline_filters",
    "dip": "deep_image_prior.baselines",
    "dip_l1": "deep_image_prior.baselines",
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
