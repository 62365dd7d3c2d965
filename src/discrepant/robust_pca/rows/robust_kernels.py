"""Compiled inner loops of the three-part model Y = L + S + N.

All is in units of the noise. `first` and `second` hold, for the two axes of Z, what a
cell of that line is multiplied by: [0] the inverse of its noise, [1] the inverse of the
share of it that the fit leaves, √(1 − h) with the leverage h, and [2] how far off L may
still be there. A cell's deviation z is looked up in tables of 256 bins of z/(8 + z):
1/32 wide near zero, and the last reaches to infinity.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np

from discrepant.robust_pca.rows.kernels import clipped, kernel

BINS = 256
Z_AT_HALF = 8.0
# Bins of the common histogram in one bin of a row's or column's own histogram, which
# has fewer cells to count.
LINE_BIN_WIDTH = 4
BINS_PER_LINE = BINS // LINE_BIN_WIDTH
OUTLIER_Z = 3.0  # z beyond which a cell counts against its row and column
LAST_BIN_START = Z_AT_HALF * (BINS - 1)  # where the last bin begins


@kernel
def robust_step(
    Z,
    row,
    column,
    tile,
    first,
    second,
    weight,
    by_first,
    by_second,
    histogram,
    unit,
    omega,
    stride_first,
    stride_second,
    own,
):
    """From L in the tile to T = L + ω·w(z)·e, with T = L where Z is missing.

    Adds up, for each line of both axes, [0] Σ(w e)² and [1] the cells outside, and, of
    every stride-th line, the histogram of z; from [2] on that of each line of the axis
    `own` (0, 1, or neither), coarser.
    """
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    reach, fine, limit = zero + Z_AT_HALF, zero + BINS, zero + OUTLIER_Z
    top, last = zero + (BINS - 0.5), zero + LAST_BIN_START
    residual, place = np.empty(width, tile.dtype), np.empty(width, tile.dtype)
    inverse, std, off = second[0], second[1], second[2]
    squares, outside = by_second[0], by_second[1]
    step, start = int(stride_second), (-column) % int(stride_second)
    for i in range(height):
        L, z = tile[i], Z[row + i, column : column + width]
        a, s, f = first[0, i], first[1, i], first[2, i]
        total, beyond = zero, zero
        for j in range(width):
            y = z[j]
            e = clipped(y, unit, one) * a * inverse[j] - L[j]
            e = e if y == y else zero
            t = abs(e) * s * std[j]
            g = max(f * off[j], one)
            # Nothing pulls by more than a cell in the last bin.
            residual[j] = e * (last * g / max(t, last * g))
            place[j] = min(top, fine * (t / (reach * g + t)))  # top for NaN, too
            o = one if t > limit * g else zero
            outside[j] += o
            beyond += o
        if (row + i) % int(stride_first) == 0:
            for j in range(start, width, step):
                if z[j] == z[j]:
                    b = np.int32(place[j])
                    histogram[b] += 1
                    if own == 1:
                        by_second[2 + b // LINE_BIN_WIDTH, j] += one
                    elif own == 0:
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
    Z,
    row,
    column,
    tile,
    first,
    second,
    weight,
    by_first,
    by_second,
    histogram,
    unit,
    own,
):
    """From L in the tile to z of each cell as if it had been left out of the fit.

    With leverage h and weight w the residual left out is e·(1 − h + h w)/(1 − h), of
    variance σ²/(1 − h). Fills the histograms, and leaves z/(8 + z) in the tile.
    """
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
            if own == 1:
                by_second[b // LINE_BIN_WIDTH, j] += one
            elif own == 0:
                by_first[b // LINE_BIN_WIDTH, i] += one


@kernel
def corrupt_probability(
    Z,
    out,
    row,
    column,
    tile,
    first,
    second,
    tables,
    by_first,
    by_second,
    histogram,
    unit,
):
    """Write the probability that each cell is corrupt; zero where Z is missing.

    The tables are the weights and the probabilities, one after the other.
    """
    leave_one_out(
        Z,
        row,
        column,
        tile,
        first,
        second,
        tables[: BINS + 1],
        by_first,
        by_second,
        histogram,
        unit,
        -unit / unit,  # of the unit's type: nobody's own
    )
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


@kernel
def count_observed(
    Z, row, column, tile, first, second, table, by_first, by_second, histogram, unit
):
    """Count the observed cells of each line."""
    height, width = tile.shape
    for i in range(height):
        for j in range(width):
            if Z[row + i, column + j] == Z[row + i, column + j]:
                by_first[0, i] += 1
                by_second[0, j] += 1


@kernel
def count_clean(
    Z,
    row,
    column,
    tile,
    first,
    second,
    table,
    by_first,
    by_second,
    histogram,
    unit,
    zeta,
):
    """Count, by line, the cells with |Z − L| ≤ ζ and the observed ones, with L given.

    Then Σ(Z − L)² over the former, and ΣZ² over the latter.
    """
    height, width = tile.shape
    zero, one = unit * 0, unit / unit
    clean, observed = by_second[0], by_second[1]
    squares, sizes = by_second[2], by_second[3]
    for i in range(height):
        L, z = tile[i], Z[row + i, column : column + width]
        a, b, c, d = zero, zero, zero, zero
        for j in range(width):
            y = clipped(z[j], unit, one)
            e = y - L[j]
            there = one if y == y else zero
            inside = one if abs(e) <= zeta else zero  # zero for NaN
            e2 = e * e if abs(e) <= zeta else zero
            y2 = y * y if y == y else zero
            a += inside
            b += there
            c += e2
            d += y2
            clean[j] += inside
            observed[j] += there
            squares[j] += e2
            sizes[j] += y2
        by_first[0, i] += a
        by_first[1, i] += b
        by_first[2, i] += c
        by_first[3, i] += d
