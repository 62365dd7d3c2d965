"""Recover low-rank matrices from data of which a large part is grossly wrong.

The observation ``y = A(X) + s`` is split into a low-rank signal X and a sparse
corruption s. Both are over-parameterised, ``X = U Uᵀ`` and ``s = g∘g − h∘h``, and
descended on with two learning rates whose ratio α alone decides which of the
infinitely many exact fits is reached: that of the convex program with λ = 1/α
(You, Zhu, Qu, Ma; NeurIPS 2020).
"""

from typing import Any

from discrepant.errors import InputError
from discrepant.matrix.estimator import RobustPCA
from discrepant.paper.baselines import convex, l1_factorisation
from discrepant.paper.certificate import Certificate, certify
from discrepant.paper.descent import recover
from discrepant.paper.operators import Diagonal, Identity, Mask, Sensing, Wrapped
from discrepant.paper.recovery import Recovery
from discrepant.result import History, Status

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Diagonal",
    "History",
    "Identity",
    "InputError",
    "Mask",
    "Recovery",
    "RobustPCA",
    "Sensing",
    "Status",
    "Wrapped",
    "certify",
    "convex",
    "l1_factorisation",
    "recover",
    "restore",
]


def __getattr__(name: str) -> Any:
    if name == "restore":  # loads more than matrices need
        from discrepant.image.restore.front import restore

        return restore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
