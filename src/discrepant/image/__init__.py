"""Images: the paper's network φ(θ) + g∘g − h∘h, rivals, and the quick `restore`.

`discrepant.restore` is the front door. The names below load PyTorch or scikit-image
when they are first used, both part of ``pip install 'discrepant[image]'``.
"""

import os
from importlib import import_module
from typing import Any

from discrepant.errors import InputError

# A step allocates gigabytes and gives them back. In pages of 2 MB instead of 4 kB the
# system has far less to do; PyTorch reads this once, when it first allocates.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# name → the module that holds it
_PUBLIC = {
    "Corruption": "network.corruption",
    "ImageRecovery": "network.prior",
    "Network": "network.architecture",
    "NetworkPrior": "network.prior",
    "Restoration": "restore.front",
    "adaptive_median": "filters",
    "dip": "network.baselines",
    "dip_l1": "network.baselines",
    "inpaint_extremes": "filters",
    "median": "filters",
    "Settings": "network.prior",
    "recover_image": "network.prior",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "skimage"):
            raise
        raise InputError(
            "Images need PyTorch and scikit-image: pip install 'discrepant[image]'."
        ) from None


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
