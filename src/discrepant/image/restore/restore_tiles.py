"""Restore an image tile by tile, each as a graphic or as a photograph."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from discrepant.core.linalg import Array
from discrepant.core.progress import Report
from discrepant.core.threads import blas_threads
from discrepant.image.restore.budget import Budget
from discrepant.image.restore.core.border_lines import split_border_lines
from discrepant.image.restore.core.mixture import CorruptionMixture
from discrepant.image.restore.core.photograph import (
    MIN_CLEAN_PROBABILITY,
    full_pass,
    max_steps,
    restore_photograph,
)
from discrepant.image.restore.core.similar_patches import PatchSearch
from discrepant.image.restore.defects.surface_defects import (
    SurfaceDefects,
    detect_surface_defects,
)
from discrepant.image.restore.estimate import Estimate, TileEstimate
from discrepant.image.restore.graphics.clustering import denser_than_chance
from discrepant.image.restore.graphics.graphic import Graphic, restore_graphic
from discrepant.image.restore.intensity_scale import IntensityScale
from discrepant.image.restore.tiling import Place, tiles


def restore_tiled(
    values: Array,
    known_bad: Array,
    search: PatchSearch,
    time_limit: float | None,
    report: Report,
) -> Estimate:
    """Restore an image of any dtype and size, tile by tile.

    Parameters
    ----------
    values, known_bad : ndarray of shape (rows, columns, channels)
        The image, and True where its values are known to be bad.
    search : PatchSearch
        Effort of the comparison of patches.
    time_limit : float or None
        Seconds. Tiles that are not reached stay unchanged; their known-bad values
        become grey.
    report : callable
        Called with the fraction of the work done and a note; returns False to stop.
    """
    scale = IntensityScale.fit(values, known_bad)
    places = list(tiles(*values.shape))
    image = values.copy()
    mask = np.zeros(values.shape, bool)
    probability = np.zeros(values.shape, np.float32)
    budget = Budget(report, len(places), max_steps(search), time_limit)
    undetermined = is_graphic = False
    defects, suggestions = np.zeros((2, *values.shape[:2]), bool)
    for number, tile in enumerate(places):
        core, inside = tile.core, tile.core_in_padded
        if budget.start_tile(number):
            y, valid = scale.to_unit(values[tile.padded]), ~known_bad[tile.padded]
            estimate = restore_tile(y, valid, scale.levels, search, budget)
            undetermined = undetermined or estimate.undetermined
            is_graphic = is_graphic or estimate.is_graphic
            prediction = scale.from_unit(estimate.prediction[inside])
            mask[core] = estimate.replaced[inside]
            if estimate.defects is not None:
                defects[core] = estimate.defects.mask[inside]
                suggestions[core] = estimate.defects.suggested[inside]
            corrupt = 1 - estimate.clean_probability[inside]
            probability[core] = np.where(known_bad[core], 1, corrupt)
        else:
            prediction = scale.from_unit(np.full(values.shape[2], 0.5))
            mask[core] = probability[core] = known_bad[core]
        image[core] = np.where(mask[core], prediction, image[core])
    report(1.0, f"{mask.mean():.0%} corrupted")
    return Estimate(
        image=image,
        mask=mask,
        probability=probability,
        history=budget.history(),
        complete=budget.complete,
        undetermined=undetermined,
        is_graphic=is_graphic,
        defects=defects,
        suggestions=suggestions,
    )


def restore_tile(
    y: Array, valid: Array, levels: float, search: PatchSearch, budget: Budget
) -> TileEstimate:
    """Restore one tile, as a graphic if equal values form areas, else as a photograph.

    Parameters
    ----------
    y, valid : ndarray of shape (rows, columns, channels)
        Values on [0, 1] in single precision, and True where they are valid.
    levels : float
        Number of different values that the image could have.
    search : PatchSearch
        Effort of the comparison of patches.
    budget : Budget
        Records the steps and ends them in time.
    """
    graphic = restore_graphic(y, valid, levels)
    if graphic is None:
        return _restore_photographic_tile(y, valid, search, budget)
    return _restore_graphic_tile(y, valid, graphic, search, budget)


def _restore_photographic_tile(
    y: Array, valid: Array, search: PatchSearch, budget: Budget
) -> TileEstimate:
    """Restore a photograph, and separately any border line that is not part of it."""
    rows, columns, valid = split_border_lines(y, valid)
    inside = (rows, columns)
    valid_inside = np.zeros_like(valid)
    valid_inside[inside] = valid[inside]
    with ThreadPoolExecutor(1) as pool, blas_threads(0):
        # Most photographs have no surface defects. While they are searched for, the
        # photograph is restored as if there were none.
        attempt = _Attempt(budget, pool.submit(detect_surface_defects, y, valid_inside))
        estimate, model = restore_photograph(y[inside], valid[inside], search, attempt)
        defects = attempt.defects.result()
    if defects.mask.any():
        valid = valid & ~defects.mask[..., None]
        estimate, model = restore_photograph(y[inside], valid[inside], search, budget)
    prediction, clean = y.copy(), np.zeros_like(y)
    replaced = np.zeros(y.shape, bool)
    prediction[inside], clean[inside] = estimate.prediction, estimate.clean_probability
    replaced[inside] = estimate.replaced
    for line in _lines_outside(y.shape, rows, columns):
        # Corruption has the same fraction and values there as in the photograph.
        mixture = CorruptionMixture(y[line], valid[line], model=model)
        prediction[line], clean[line] = full_pass(
            y[line], valid[line], mixture, lambda clean_probability: True
        )
        replaced[line] = clean[line] < MIN_CLEAN_PROBABILITY
    return TileEstimate(prediction, clean, replaced, defects=defects)


@dataclass(frozen=True, eq=False)
class _Attempt:
    """The budget of a restoration that ends as soon as surface defects are certain."""

    budget: Budget
    defects: Future[SurfaceDefects]

    @property
    def keep_going(self) -> bool:
        obsolete = self.defects.done() and self.defects.result().mask.any()
        return self.budget.keep_going and not obsolete

    def step(self, clean_probability: Array) -> bool:
        self.budget.step(clean_probability)
        return self.keep_going


def _lines_outside(
    shape: tuple[int, ...], rows: slice, columns: slice
) -> Iterator[Place]:
    """Yield the border rows and columns outside the given slices."""
    everything = slice(None)
    for edge in _ends(rows, shape[0]):
        yield edge, everything
    for edge in _ends(columns, shape[1]):
        yield everything, edge


def _ends(inner: slice, length: int) -> Iterator[slice]:
    """Yield the parts before and after a slice that are not empty."""
    start, stop, _ = inner.indices(length)
    for edge in (slice(0, start), slice(stop, length)):
        if edge.start < edge.stop:
            yield edge


def _restore_graphic_tile(
    y: Array, valid: Array, graphic: Graphic, search: PatchSearch, budget: Budget
) -> TileEstimate:
    """Restore a graphic, and photographs inside it as photographs."""
    unpredicted = np.isnan(graphic.restored)
    prediction = np.where(unpredicted, y, graphic.restored)
    clean, replaced = 1 - graphic.probability, graphic.corrupt | ~valid
    # Corruption has the same fraction everywhere: if there is none in the graphic,
    # there is none in the photographs inside it.
    all_clean = graphic.fraction == 0 and graphic.determined.mean() > 0.5
    inset = graphic.photograph
    if not unpredicted.any() and (all_clean or not inset.any()):
        budget.step(clean)
    else:
        known_clean = ~unpredicted & ~inset
        photograph, _ = restore_photograph(
            prediction, ~unpredicted, search, budget, known_clean
        )
        if graphic.fraction > 0:
            # More flagged values than the graphic's fraction are detail of the inset.
            detail = valid & denser_than_chance(
                photograph.replaced & inset, graphic.fraction
            )
            photograph = replace(photograph, replaced=photograph.replaced & ~detail)
        prediction = np.where(known_clean, prediction, photograph.prediction)
        clean = np.where(inset, photograph.clean_probability, clean)
        replaced = np.where(inset, photograph.replaced, replaced)
    return TileEstimate(
        prediction, clean, replaced, graphic.undetermined, is_graphic=True
    )
