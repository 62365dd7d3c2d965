"""What corrupted values are like, in a few words."""

import numpy as np

from discrepant.linalg import Array


def kind_of_values(values: Array, mask: Array) -> str:
    """Say in a few words what the corrupted values are; nothing if there are none."""
    wrong = values[mask]
    if not wrong.size:
        return ""
    if wrong.dtype.kind == "f" and not np.isfinite(wrong).any():
        return ", all missing"
    found, counts = np.unique(wrong, return_counts=True)
    order = np.argsort(-counts)[:2]
    if counts[order[0]] > 0.9 * wrong.size:
        return f", nearly all of them {found[order[0]]:g}"
    if counts[order].sum() > 0.9 * wrong.size:
        low, high = sorted(found[order].tolist())
        return f", nearly all of them {low:g} or {high:g}"
    return ", of many sizes"
