"""Compiled kernels of the foreground mask: scores, smoothing, connected components.

As in `background_kernels`, threads share a frame by bands of rows, and rows go through
loops without a branch; the few pixels that may be foreground are processed one by one.
Importing this module loads the compiler.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import math
from typing import NamedTuple

import numpy as np

from discrepant.core.jit import njit
from discrepant.core.linalg import Array
from discrepant.video.model.background_kernels import (
    EXACT,
    FAST,
    ONE,
    ZERO,
    noise_variance,
    residuals,
    row_buffers,
)

OUTLINE_STEP = 2  # pixels from a border to where its two sides are compared: soft edges
GHOST_RATIO = 2.0  # votes for a ghost per vote for an object: uneven ground misleads


class RunBuffers(NamedTuple):
    """Buffers of the labelling of connected components by runs of pixels in rows."""

    starts: Array  # int32: first column of each run
    ends: Array  # int32: column after the last of each run
    rows: Array  # int32: row of each run
    parent: Array  # int32: first run of the run's component
    sums: Array  # float64, (runs, 3): sums over components
    age: Array  # int32: frames since the run's component appeared
    total: Array  # int32, (1,): how many runs there are


class FeedbackState(NamedTuple):
    """Where the background has produced short-lived components, all (rows, columns).

    Leaves, water and flicker produce components that vanish soon; objects enter and
    leave over many frames. `factor` multiplies the variances of the decision, not the
    learned ones: it grows where a component vanished soon, and decays slowly.
    """

    factor: Array  # float32: multiplies the variances, at least 1
    component: Array  # int32: first run of the last mask's component; −1: background
    vanished: Array  # bool: pixels of components that vanished soon, with their margin


@njit(**FAST)
def score_pixels(frame, predicted, state, factor, rate, out, top, bottom, settings):
    """Fill the log-odds of foreground of a band, each pixel alone, −1 in a shadow.

    A background that rests on `age` frames, fewer than the learning rate averages, has
    not shown its slow changes yet: the variances of the decision are larger by
    1/√(rate·age).
    """
    width, channels = frame.shape[1:]
    residual, square, brightness, chroma = row_buffers(width, channels)
    half, variance = np.float32(0.5), state.variance
    chroma_weight = half if channels > 1 else ZERO  # grey has no chroma
    for y in range(top, bottom):
        residuals(frame[y], predicted[y], residual, square, brightness, chroma)
        row, scale, age = out[y], factor[y], state.age[y]
        brightness_variance, chroma_variance = variance[0, y], variance[1, y]
        for x in range(width):
            value = half * brightness[x] * brightness[x] / brightness_variance[x]
            value += chroma_weight * chroma[x] / chroma_variance[x]
            value *= np.sqrt(min(rate * age[x], ONE)) / scale[x]
            row[x] = value - half * settings.offset
        for x in range(width):
            if row[x] > ZERO and brightness[x] < ZERO:
                noise = noise_variance(variance, y, x, channels)
                if _is_shadow(frame, predicted, y, x, noise, settings):
                    row[x] = -ONE


@njit(**FAST)
def smooth_scores(arrays, weight, top, bottom):
    """Fill the mask of a band, from each pixel's score and those of its neighbours.

    This is a mean-field step of a Markov random field with eight neighbours, whose
    values v/(1 + |v|) lie between −1 and 1.
    """
    score = arrays.score
    height, width = score.shape
    field = np.empty((3, width + 2), np.float32)  # rows above, here and below
    columns = np.empty(width + 2, np.float32)
    for last in range(top - 1, bottom + 1):
        row, below = score[min(max(last, 0), height - 1)], field[last % 3]
        inner = below[1:-1]
        for x in range(width):
            inner[x] = row[x] / (ONE + abs(row[x]))
        below[0], below[-1] = below[1], below[-2]
        if last <= top:
            continue
        y = last - 1
        above, here = field[(y - 1) % 3], field[y % 3]
        for x in range(width + 2):
            columns[x] = above[x] + here[x] + below[x]
        row, mask, code = score[y], arrays.component_mask[y], arrays.score_code[y]
        for x in range(width):
            square = columns[x] + columns[x + 1] + columns[x + 2]
            value = row[x] + weight * (square - here[x + 1])
            value /= ONE + abs(value)
            mask[x] = value > ZERO
            code[x] = np.uint8(np.float32(127.5) * value + np.float32(128))


@njit(**FAST, forceinline=True)
def _is_shadow(frame, predicted, y, x, noise, settings):
    """Return whether one factor takes the prediction around a pixel to the frame."""
    height, width, channels = frame.shape
    reach = settings.shadow_reach
    y0, y1 = max(0, y - reach), min(height, y + reach + 1)
    x0, x1 = max(0, x - reach), min(width, x + reach + 1)
    cross = 0.0
    predicted_square = 1e-6
    frame_square = predicted_sum = 0.0
    for v in range(y0, y1):
        for u in range(x0, x1):
            for k in range(channels):
                f, p = np.float64(frame[v, u, k]), np.float64(predicted[v, u, k])
                cross += f * p
                predicted_sum += p
                predicted_square += p * p
                frame_square += f * f
    factor = cross / predicted_square
    if not settings.shadow_min < factor < 1.0:
        return False
    count = (y1 - y0) * (x1 - x0) * channels
    # Colour and texture that a shadow keeps. On plain grey ground, a plain dark object
    # looks like a shadow: only a weak one is certain.
    content = factor * factor * (predicted_square - predicted_sum**2 / count)
    plain = content < settings.shadow_content * noise * count
    if plain and factor < settings.shadow_plain_min:
        return False
    misfit = frame_square - factor * cross  # the sum of (f − factor · p)²
    limit = settings.shadow_misfit * min(noise, settings.shadow_max_variance)
    return misfit < limit * (count - 1)


@njit(**EXACT)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(**EXACT)
def _label_runs(mask, value, diagonal, runs):
    """Label the runs of a value in each row by the component they belong to.

    Returns their number.
    """
    height, width = mask.shape
    starts, ends, rows, parent = runs.starts, runs.ends, runs.rows, runs.parent
    count = 0
    above = 0  # first run of the row above
    for y in range(height):
        here = count
        candidate = above
        x = 0
        while x < width:
            if mask[y, x] != value:
                x += 1
                continue
            start = x
            while x < width and mask[y, x] == value:
                x += 1
            starts[count], ends[count], rows[count] = start, x, y
            parent[count] = count
            while candidate < here and ends[candidate] + diagonal <= start:
                candidate += 1
            other = candidate
            while other < here and starts[other] < x + diagonal:
                one, two = _root(parent, other), _root(parent, count)
                if one < two:
                    parent[two] = one
                else:
                    parent[one] = two
                other += 1
            count += 1
        above = here
    for i in range(count):
        parent[i] = _root(parent, i)
    runs.total[0] = count
    return count


@njit(**EXACT)
def clean_components(mask, min_area, max_hole, runs):
    """Remove components and fill holes that have fewer pixels than a limit."""
    height, width = mask.shape
    starts, ends, rows, parent, sums, _, _ = runs
    for value, limit in ((True, min_area), (False, max_hole)):
        count = _label_runs(mask, value, int(value), runs)
        sums[:count, 0] = 0.0
        for i in range(count):
            sums[parent[i], 0] += ends[i] - starts[i]
            on_border = starts[i] == 0 or ends[i] == width or rows[i] in (0, height - 1)
            if on_border and not value:
                sums[parent[i], 0] += limit  # open to the outside: no hole
        for i in range(count):
            if sums[parent[i], 0] < limit:
                mask[rows[i], starts[i] : ends[i]] = not value


@njit(**FAST)
def absorption_speed(frame, predicted, variance, mask, vote, most, least, runs, out):
    """Fill how many votes for a new background value each component has per frame.

    A ghost, the place that an object left, has up to `most`, an object down to `least`,
    and a component that is not clearly either, such as the moved edge of a shadow, one
    per frame. Labels the runs of the mask.

    Along the outline of a component, its inside is compared with its surroundings: of
    an object the prediction fits these better, of a ghost the frame does. `vote` is
    the log-odds of one more vote.
    """
    height = len(mask)
    starts, ends, rows, parent, sums, _, _ = runs
    count = _label_runs(mask, True, 1, runs)
    sums[:count] = 0.0
    for i in range(count):
        votes, y = sums[parent[i]], rows[i]
        _outline_vote(frame, predicted, variance, mask, y, starts[i], 0, -1, votes)
        _outline_vote(frame, predicted, variance, mask, y, ends[i] - 1, 0, 1, votes)
        for x in range(starts[i], ends[i]):
            if y > 0 and not mask[y - 1, x]:
                _outline_vote(frame, predicted, variance, mask, y, x, -1, 0, votes)
            if y < height - 1 and not mask[y + 1, x]:
                _outline_vote(frame, predicted, variance, mask, y, x, 1, 0, votes)
    for i in range(count):
        for_object, for_ghost = sums[parent[i]][:2]
        excess = max(for_ghost - GHOST_RATIO * for_object, 0.0)
        excess -= max(for_object - for_ghost, 0.0)
        speed = max(min(np.exp(vote * min(excess, most)), most), least)
        out[rows[i], starts[i] : ends[i]] = speed


@njit(**EXACT)
def hold(arrays, runs, lifetime, object_speed):
    """Fill where the background is not learned: under components, and beside objects.

    Learning beside an object that stays would take in its soft border, then the pixels
    next to that, and so on. Beside components younger than `lifetime`, which may be
    moving background, and beside ghosts, learning goes on.
    """
    held = arrays.held
    height, width = held.shape
    held[:] = False
    for i in range(runs.total[0]):
        y, start, end = runs.rows[i], runs.starts[i], runs.ends[i]
        held[y, start:end] = True
        speed = arrays.absorption_speed[y, start]
        if runs.age[i] > lifetime and speed <= object_speed:
            left, right = max(0, start - 1), min(width, end + 1)
            held[max(0, y - 1) : min(height, y + 2), left:right] = True


@njit(**EXACT)
def update_feedback(runs, old_runs, state, settings):
    """Follow the components of a mask; raise the factor where they vanish soon.

    `runs` and `old_runs` are the labelled runs of this mask and of the one before.
    """
    height, width = state.factor.shape
    reach, margin = settings.reach, settings.margin
    starts, ends, rows, parent, _, age, total = runs
    old_starts, old_ends, old_rows, old_parent, old_sums, old_age, _ = old_runs
    count, old_count = total[0], old_runs.total[0]
    old_sums[:old_count, 0] = 0  # whether the component continues, or left the frame
    age[:count] = 0
    for i in range(count):
        for v in range(max(0, rows[i] - reach), min(height, rows[i] + reach + 1)):
            for u in range(max(0, starts[i] - reach), min(width, ends[i] + reach)):
                old = state.component[v, u]
                if old >= 0:
                    old_sums[old, 0] = 1
                    age[parent[i]] = max(age[parent[i]], old_age[old])
    for i in range(old_count):
        y, start, end = old_rows[i], old_starts[i], old_ends[i]
        state.component[y, start:end] = -1
        if start == 0 or end == width or y == 0 or y == height - 1:
            old_sums[old_parent[i], 0] = 1
    for i in range(old_count):
        y, start, end = old_rows[i], old_starts[i], old_ends[i]
        if not old_sums[old_parent[i], 0] and old_age[i] <= settings.lifetime:
            top, bottom = max(0, y - margin), min(height, y + margin + 1)
            left, right = max(0, start - margin), min(width, end + margin)
            state.vanished[top:bottom, left:right] = True
    for i in range(count):  # the first run of a component comes before its others
        age[i] = age[parent[i]] + int(parent[i] == i)
        state.component[rows[i], starts[i] : ends[i]] = parent[i]
    for y in range(height):
        factor, vanished = state.factor[y], state.vanished[y]
        for x in range(width):
            growth = settings.growth if vanished[x] else ONE
            grown = settings.decay * growth * factor[x]
            factor[x] = min(max(grown, ONE), settings.max_factor)
            vanished[x] = False


@njit(**EXACT)
def smooth_mask(
    mask, covered, runs, per_side, max_radius, min_area, min_thickness, buffers, out
):
    """Fill a mask whose components are smoothed by a median that follows their size.

    The median's radius is `per_side` times the square root of the component's area, so
    that small objects keep their shape; windows are cut at the border of the frame.
    Components are those of `covered`. They are removed if they have fewer pixels than
    `min_area`, or if 2·area/border is below `min_thickness`.
    """
    height, width = mask.shape
    starts, ends, rows, parent, sums, _, _ = runs
    count = runs.total[0]
    radii, integral = buffers
    sums[:count, :2] = 0
    for i in range(count):
        y = rows[i]
        sums[parent[i], 0] += ends[i] - starts[i]
        border = 2
        for x in range(starts[i], ends[i]):
            border += y > 0 and not covered[y - 1, x]
            border += y < height - 1 and not covered[y + 1, x]
        sums[parent[i], 1] += border
    radii[:] = 0
    for y in range(height):
        total = 0
        for x in range(width):
            total += mask[y, x]
            integral[y + 1, x + 1] = integral[y, x + 1] + total
            out[y, x] = mask[y, x]
    for i in range(count):
        area, border = sums[parent[i], :2]
        if area < min_area or 2 * area < min_thickness * border:
            out[rows[i], starts[i] : ends[i]] = False
            continue
        radius = min(int(per_side * math.sqrt(area)), max_radius)
        left, right = max(0, starts[i] - radius), min(width, ends[i] + radius)
        for v in range(max(0, rows[i] - radius), min(height, rows[i] + radius + 1)):
            for u in range(left, right):
                radii[v, u] = max(radii[v, u], radius)
    for y in range(height):
        for x in range(width):
            radius = radii[y, x]
            if radius:
                y0, y1 = max(0, y - radius), min(height, y + radius + 1)
                x0, x1 = max(0, x - radius), min(width, x + radius + 1)
                total = integral[y1, x1] - integral[y0, x1]
                total += integral[y0, x0] - integral[y1, x0]
                out[y, x] = 2 * total > (y1 - y0) * (x1 - x0)


@njit(**FAST)
def _outline_vote(frame, predicted, variance, mask, y, x, down, right, votes):
    """Add a vote for an object or a ghost at one place of an outline.

    A place just inside is compared with the one just outside.
    """
    height, width, channels = frame.shape
    v, u = y + OUTLINE_STEP * down, x + OUTLINE_STEP * right  # outside
    y -= (OUTLINE_STEP - 1) * down
    x -= (OUTLINE_STEP - 1) * right
    if min(y, x, v, u) < 0 or max(y, v) >= height or max(x, u) >= width:
        return
    if mask[v, u] or not mask[y, x]:
        return
    of_frame = of_ground = ZERO
    for k in range(channels):
        ground = predicted[v, u, k]
        of_frame += (frame[y, x, k] - ground) ** 2
        of_ground += (predicted[y, x, k] - ground) ** 2
    least = np.float32(4) * channels * variance[0, y, x]  # smaller differences: noise
    if of_ground > of_frame + least:
        votes[1] += 1.0
    elif of_frame > of_ground + least:
        votes[0] += 1.0


@njit(**FAST)
def trim_borders(frame, predicted, mask, runs, depth, contrast):
    """Return a mask without border pixels of low contrast relative to the inside.

    Lenses and compression spread an edge over pixels that are mostly background. Up
    to `depth` pixels are removed, one after the other.
    """
    height, width = mask.shape
    out = mask.copy()
    for _ in range(depth):
        mask = out.copy()
        for i in range(runs.total[0]):
            y = runs.rows[i]
            if y == 0 or y == height - 1:
                continue
            for x in range(max(runs.starts[i], 1), min(runs.ends[i], width - 1)):
                inside = mask[y - 1, x] and mask[y + 1, x]
                inside = inside and mask[y, x - 1] and mask[y, x + 1]
                if inside or not mask[y, x]:
                    continue
                largest = 0.0
                for v in range(max(0, y - 2), min(height, y + 3)):
                    for u in range(max(0, x - 2), min(width, x + 3)):
                        if mask[v, u]:
                            square = _square_residual(frame, predicted, v, u)
                            largest = max(largest, square)
                own = _square_residual(frame, predicted, y, x)
                if own < contrast * contrast * largest:
                    out[y, x] = False
    return out


@njit(**FAST, forceinline=True)
def _square_residual(frame, predicted, y, x):
    """Return the squared residual of a pixel, summed over the channels."""
    total = 0.0
    for k in range(frame.shape[2]):
        total += (frame[y, x, k] - predicted[y, x, k]) ** 2
    return total
