"""Images: the paper's network φ(θ) + g∘g − h∘h, rivals, and the quick `restore`.

`discrepant.restore` is the front door. The names below load PyTorch or scikit-image
when they are first used, both part of ``pip install 'discrepant[image]'``.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from discrepant.errors import needs

if TYPE_CHECKING:
    from discrepant.image.filters import adaptive_median, inpaint_extremes, median
    from discrepant.image.network.architecture import Network
    from discrepant.image.network.baselines import dip, dip_l1
    from discrepant.image.network.corruption import Corruption
    from discrepant.image.network.fit import ImageRecovery, recover_image
    from discrepant.image.network.prior import NetworkPrior, Settings
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
    "Corruption": "network.corruption",
    "ImageRecovery": "network.fit",
    "Network": "network.architecture",
    "NetworkPrior": "network.prior",
    "Restoration": "restore.result",
    "Settings": "network.prior",
    "adaptive_median": "filters",
    "dip": "network.baselines",
    "dip_l1": "network.baselines",
    "inpaint_extremes": "filters",
    "median": "filters",
    "recover_image": "network.fit",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "skimage"):
            raise
        raise needs("Images need PyTorch and scikit-image", "image") from None


def __dir__() -> list[str]:
    return sorted(__all__)
