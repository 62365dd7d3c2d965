"""An image cleaned of gross corruption, told neither its kind nor its level."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discrepant.image.restore.front import restore
    from discrepant.image.restore.result import Restoration

__all__ = ["Restoration", "restore"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from discrepant.image.restore import front  # SciPy's filters are loaded when needed

    return getattr(front, name)


def __dir__() -> list[str]:
    return sorted(__all__)
