"""A second attempt at images whose corruption went through JPEG."""

import time
from dataclasses import replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.image.restore.core.similar_patches import Search
from discrepant.image.restore.jpeg.detection import impulsive, luma, rounding
from discrepant.image.restore.jpeg.repair import unring
from discrepant.image.restore.tiling import Mended

# Of what was taken out, the largest percent over the smallest quarter. The normal law
# has 8, and noise is to stay; of impulses it is 30 and more.
HEAVY = 20.0


def again_if_compressed(
    found: Mended,
    values: Array,
    bad: Array,
    search: Search,
    seconds: float | None,
    report: Report,
) -> Mended:
    """Return what was found, or better if the corruption was there before JPEG.

    Only images of 8 bits, grey or of three colours, are JPEG's; and only where the
    first attempt found some corruption, or nearly all blocks have the spectrum of
    impulses, is there anything to look at, so that a clean image stays as it was. A
    graphic is exact, and so was not JPEG's. After so many ``seconds``, if they are
    given, what is there is handed back.
    """
    started = time.perf_counter()
    jpegs_own = values.dtype == np.uint8 and values.shape[2] in (1, 3)
    if not (jpegs_own and found.complete) or found.graphic:
        return found
    deviation = rounding(values, found.mask & ~bad) if found.mask.any() else None
    if deviation is None:
        held = impulsive(values)
        deviation = None if held is None else rounding(values, held)
    if deviation is None:
        return found

    def going(done: float) -> bool:
        late = seconds is not None and time.perf_counter() - started > seconds
        return report(done, "spoiled before JPEG") and not late

    better = unring(found, values, bad, deviation, search, going)
    report(1.0, "spoiled before JPEG")
    if not _impulses(luma(values) - luma(better.values)):
        return replace(found, complete=better.complete)
    return better


def _impulses(taken: Array) -> bool:
    """Return whether what was taken out has the heavy tails of impulses."""
    low, high = np.quantile(np.abs(taken), (0.25, 0.99))
    return bool(high > HEAVY * max(low, 0.5))  # half a grey level: rounding
