"""Recover low-rank matrices from data of which a large part is grossly wrong.

The observation ``y = A(X) + s`` is split into a low-rank signal X and a sparse
corruption s. Both are over-parameterised, ``X = U Uᵀ`` and ``s = g∘g − h∘h``, and
descended on with two learning rates whose ratio α alone decides which of the
infinitely many exact fits is reached: that of the convex program with λ = 1/α
(You, Zhu, Qu, Ma; NeurIPS 2020).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discrepant.errors import InputError

if TYPE_CHECKING:
    from discrepant.image.restore.front import restore
    from discrepant.matrix.door import recover
    from discrepant.matrix.estimator import RobustPCA
    from discrepant.paper.baselines import convex, l1_factorisation
    from discrepant.paper.certificate import certify
    from discrepant.paper.operators import Diagonal, Entries, Identity, Mask, Wrapped
    from discrepant.paper.recovery import Recovery
    from discrepant.paper.sensing import Outer, Sensing
    from discrepant.result import Certificate, History, Outcome, Result, Status
    from discrepant.table.cleaner import Cleaner
    from discrepant.table.door import clean
    from discrepant.video.door import separate

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Cleaner",
    "Diagonal",
    "Entries",
    "History",
    "Identity",
    "InputError",
    "Mask",
    "Outcome",
    "Outer",
    "Recovery",
    "Result",
    "RobustPCA",
    "Sensing",
    "Status",
    "Wrapped",
    "certify",
    "clean",
    "convex",
    "l1_factorisation",
    "recover",
    "restore",
    "separate",
]

# What is public waits until it is used, so that a command can say how it is used
# before SciPy and scikit-learn are loaded: module → its names. Type checkers are told
# above.
_LATER = {
    "image.restore.front": ["restore"],
    "matrix.door": ["recover"],
    "matrix.estimator": ["RobustPCA"],
    "paper.baselines": ["convex", "l1_factorisation"],
    "paper.certificate": ["certify"],
    "paper.operators": ["Diagonal", "Entries", "Identity", "Mask", "Wrapped"],
    "paper.recovery": ["Recovery"],
    "paper.sensing": ["Outer", "Sensing"],
    "result": ["Certificate", "History", "Outcome", "Result", "Status"],
    "table.cleaner": ["Cleaner"],
    "table.door": ["clean"],
    "video.door": ["separate"],
}
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"discrepant.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
