"""Images: gross corruption of unknown kind and amount removed from one image alone.

The names below load what they need when they are first used.
"""

from importlib import import_module
from typing import Any

# name → the module that holds it
_PUBLIC = {"Restoration": "restore", "restore": "restore"}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
