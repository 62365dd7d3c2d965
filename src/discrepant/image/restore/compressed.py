"""A second attempt at images whose corruption went through JPEG."""

from dataclasses import replace

import numpy as np

from discrepant.image.restore.comb import rounding
from discrepant.image.restore.patches import Search
from discrepant.image.restore.ringing import unring
from discrepant.image.restore.tiles import Mended
from discrepant.linalg import Array
from discrepant.progress import Report


def again_if_compressed(
    found: Mended, values: Array, bad: Array, search: Search, report: Report
) -> Mended:
    """Return what was found, or better if the corruption was there before JPEG.

    Only images of 8 bits, grey or of three colours, are JPEG's; and only where the
    first attempt found some corruption is there anything to look at, so that a clean
    image stays as it was.
    """
    jpegs_own = values.dtype == np.uint8 and values.shape[2] in (1, 3)
    if not (jpegs_own and found.complete and found.mask.any()):
        return found
    deviation = rounding(values, found.mask & ~bad)
    if deviation is None:
        return found
    better = unring(values, bad, deviation, search, report)
    if better is None:
        return replace(found, complete=False)
    report(1.0, "spoiled before JPEG")
    out, mask, probability = better
    return replace(found, values=out, mask=mask, probability=probability)
