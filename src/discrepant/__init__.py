"""Find and replace gross errors in tables, images, videos and matrices.

No rank, threshold or stopping time has to be chosen. All functions separate data
``y = A(X) + s`` into a structured part, such as a low-rank matrix X, and a sparse
corruption s. The method is that of You, Zhu, Qu and Ma (NeurIPS 2020): both parts are
over-parameterised, ``X = U Uᵀ`` and ``s = g∘g − h∘h``, and the ratio α of their
learning rates selects the solution of the convex program with λ = 1/α.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discrepant.core.errors import InputError

if TYPE_CHECKING:
    from discrepant.core.results import Certificate, History, Outcome, Result, Status
    from discrepant.image.restore.restore import restore
    from discrepant.operators.entrywise import Entries, Identity, Mask
    from discrepant.operators.linear_operator import Wrapped
    from discrepant.operators.measurements import Diagonal, Outer, Sensing
    from discrepant.paper.baselines import convex, l1_factorisation
    from discrepant.paper.certificate import certify
    from discrepant.paper.recovery import Recovery
    from discrepant.robust_pca.estimator import RobustPCA
    from discrepant.sensing.recover import recover
    from discrepant.structures.decompose import decompose
    from discrepant.structures.decomposition import Decomposition
    from discrepant.table.clean import clean
    from discrepant.table.cleaner import Cleaner
    from discrepant.video.separate import separate

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Cleaner",
    "Decomposition",
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
    "decompose",
    "l1_factorisation",
    "recover",
    "restore",
    "separate",
]

# Modules and their public names. They are imported on first use, so that importing this
# package (and ``discrepant --help``) loads neither SciPy nor scikit-learn.
_LAZY = {
    "image.restore.restore": ["restore"],
    "sensing.recover": ["recover"],
    "robust_pca.estimator": ["RobustPCA"],
    "paper.baselines": ["convex", "l1_factorisation"],
    "paper.certificate": ["certify"],
    "operators.entrywise": ["Entries", "Identity", "Mask"],
    "operators.linear_operator": ["Wrapped"],
    "paper.recovery": ["Recovery"],
    "operators.measurements": ["Diagonal", "Outer", "Sensing"],
    "core.results": ["Certificate", "History", "Outcome", "Result", "Status"],
    "structures.decompose": ["decompose"],
    "structures.decomposition": ["Decomposition"],
    "table.cleaner": ["Cleaner"],
    "table.clean": ["clean"],
    "video.separate": ["separate"],
}
_MODULES = {name: module for module, names in _LAZY.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"discrepant.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
