"""Compiled inner loops of the fit with noise, Y = L + S + N.

All numbers are in units of the noise. `lines` holds two arrays with factors of the
cells of each line along the first and the second axis of Z: [0] the inverse of the
noise, and [1] 1/√(1 − h) with the leverage h. `sums` are the sums for each line, again
one array for each axis.

The size z of a residual is looked up in tables of 256 bins of z/(8 + z): 1/32 wide near
zero, and the last one reaches to infinity. `passes` says what each kernel computes.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

import numpy as np

from discrepant.robust_pca.rows.kernels import clipped, kernel

# Bins of z/(Z_AT_HALF + z), from z = 0 to infinity.
BINS = 256
# z at which half of the bins end: bins are 1/32 wide near zero, fine against the noise.
Z_AT_HALF = 8.0
# Bins of the common histogram in one bin of a row's or column's histogram,
# which has fewer cells to count.
LINE_BIN_WIDTH = 4
BINS_PER_LINE = BINS // LINE_BIN_WIDTH
# z beyond which a cell counts as an outlier of its row and column.
OUTLIER_Z = 3.0
# z at which the last bin begins.
LAST_BIN_START = Z_AT_HALF * (BINS - 1)


@kernel
def robust_step(
    Z,
    row,
    column,
    tile,
    lines,
    weight,
    sums,
    histogram,
    unit,
    omega,
    stride_first,
    stride_second,
    histogram_axis,
):
    """Replace L in the tile by T = L + ω·w(z)·e, and by L where Z is missing.

    Sums, for each line of both axes, [0] Σ(w e)² and [1] the number of outliers, and
    counts z of every stride-th line in the histogram; from [2] on, z of each line along
    `histogram_axis` (0, 1, or −1 for none) in wider bins.
    """
    (first, second), (by_first, by_second) = lines, sums
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    reach, fine, limit = zero + Z_AT_HALF, zero + BINS, zero + OUTLIER_Z
    top, last = zero + (BINS - 0.5), zero + LAST_BIN_START
    residual, place = np.empty(width, tile.dtype), np.empty(width, tile.dtype)
    inverse, std = second[0], second[1]
    squares, outside = by_second[0], by_second[1]
    step, start = int(stride_second), (-column) % int(stride_second)
    for i in range(height):
        L, z = tile[i], Z[row + i, column : column + width]
        a, s = first[0, i], first[1, i]
        total, beyond = zero, zero
        for j in range(width):
            y = z[j]
            e = clipped(y, unit, one) * a * inverse[j] - L[j]
            e = e if y == y else zero
            t = abs(e) * s * std[j]
            # No residual counts for more than one at the start of the last bin.
            residual[j] = e * (last / max(t, last))
            place[j] = min(top, fine * (t / (reach + t)))  # top for NaN, too
            o = one if t > limit else zero
            outside[j] += o
            beyond += o
        if (row + i) % int(stride_first) == 0:
            for j in range(start, width, step):
                if z[j] == z[j]:
                    b = np.int32(place[j])
                    histogram[b] += 1
                    if histogram_axis == 1:
                        by_second[2 + b // LINE_BIN_WIDTH, j] += one
                    elif histogram_axis == 0:
                        by_first[2 + b // LINE_BIN_WIDTH, i] += one
        for j in range(width):
            b = np.int32(place[j])
            w = weight[b]
            place[j] = w + (place[j] - b) * (weight[b + 1] - w)
        for j in range(width):
            r = place[j] * residual[j]
            total += r * r
            squares[j] += r * r
            L[j] += omega * r
        by_first[0, i] += total
        by_first[1, i] += beyond


@kernel
def leave_one_out(
    Z, row, column, tile, lines, weight, sums, histogram, unit, histogram_axis
):
    """Compute z of each cell as if it had been left out of the fit; L is in the tile.

    With leverage h and weight w the residual left out is e·(1 − h + h w)/(1 − h), of
    variance σ²/(1 − h). Counts z in the histograms, and leaves z/(8 + z) in the tile.
    """
    (first, second), (by_first, by_second) = lines, sums
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    reach, fine, top = zero + Z_AT_HALF, zero + BINS, zero + (BINS - 0.5)
    for i in range(height):
        L, z = tile[i], Z[row + i, column : column + width]
        a, s = first[0, i], first[1, i]
        for j in range(width):
            if z[j] != z[j]:
                L[j] = z[j]
                continue
            e = abs(clipped(z[j], unit, one) * a * second[0, j] - L[j])
            std = s * second[1, j]  # 1/√(1 − h)
            t = e * std
            x = min(top, fine * (t / (reach + t)))  # top for NaN, too
            b = np.int32(x)
            w = weight[b] + (x - b) * (weight[b + 1] - weight[b])
            keep = one / (std * std)  # 1 − h
            t *= keep + (one - keep) * w
            L[j] = t / (reach + t)
            b = np.int32(min(top, fine * L[j]))
            histogram[b] += 1
            if histogram_axis == 1:
                by_second[b // LINE_BIN_WIDTH, j] += one
            elif histogram_axis == 0:
                by_first[b // LINE_BIN_WIDTH, i] += one


@kernel
def corrupt_probability(
    Z, out, row, column, tile, lines, tables, sums, histogram, unit
):
    """Write the probability that each cell is corrupt; zero where Z is missing.

    The tables are the weights and the probabilities, one after the other.
    """
    weight, no_axis = tables[: BINS + 1], -unit / unit  # −1 in the type of the unit
    leave_one_out(Z, row, column, tile, lines, weight, sums, histogram, unit, no_axis)
    corrupt = tables[BINS + 1 :]
    height, width = tile.shape
    top = unit * 0 + (BINS - 0.5)
    for i in range(height):
        for j in range(width):
            x = tile[i, j] * BINS
            p = unit * 0
            if x == x:
                x = min(top, x)
                b = np.int32(x)
                p = corrupt[b] + (x - b) * (corrupt[b + 1] - corrupt[b])
            out[row + i, column + j] = p
