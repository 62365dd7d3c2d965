"""Robust coordinates: where a corrupted, incomplete row lies in a known subspace.

For a row y and orthonormal components V (k×n) the coordinates are those of

    min ‖y − c V‖₁  over the observed entries,

the convex program with the subspace held fixed. An augmented-Lagrangian iteration finds
which entries are clean; least squares on those then gives the coordinates to rounding.
Where no entry is clean, the sum of absolute errors is that of the minimum to a few
parts in a thousand or better.
"""

from typing import Any

import numpy as np

from discrepant.core.device_arrays import Place, parts_of, place_of
from discrepant.core.linalg import Array

BLOCK = 1 << 22  # entries worked on at a time
GROWTH = 1.2  # of μ at each step, in the end
HOLD = 300  # steps until then, in which μ keeps the two residuals together
PULL = 1.5  # change of μ, every fifth of these steps
APART = 10.0  # ratio of the residuals that calls for it
# Share of rows that must have settled before they leave a device: every other number of
# rows is compiled for anew by some libraries.
LEAVE = 0.5
TOL = 1e-7  # change, over the size of a row, at which it has settled
RIDGE = 1e4  # times rounding: what makes a matrix of clean entries invertible


def l1_coordinates(rows: Any, components: Array) -> Array:
    """Return the coordinates (b, k) of rows (b, n), where NaN marks missing entries.

    Each row is treated by itself: its result does not depend on the others. Rows on a
    device are worked on there, and there are the coordinates.
    """
    place, wanted = place_of(rows), np.asarray(components, dtype=np.float64)
    xp, (number, n), k = place.xp, rows.shape, len(wanted)
    V = place.bring(wanted, place.widest)
    found = [xp.zeros((0, k), dtype=place.widest, device=place.device)]
    for part in parts_of(number, max(1, BLOCK // n)):
        block = xp.astype(rows[part, :], place.widest)
        observed = ~xp.isnan(block)
        block = xp.where(observed, block, 0.0)
        size = xp.max(xp.abs(block), axis=1, keepdims=True)
        # Rows of zeros, or of nothing, stay at the origin.
        some = np.flatnonzero(place.fetch(size[:, 0] > 0))
        C = xp.zeros((block.shape[0], k), dtype=place.widest, device=place.device)
        if k and len(some):
            at = place.bring(some)
            y, seen, unit = (xp.take(a, at, axis=0) for a in (block, observed, size))
            C = place.put(C, some, _least_absolute(place, y / unit, seen, V) * unit)
        found.append(C)
    all_rows: Array = xp.concat(found, axis=0)
    return all_rows


def _least_absolute(
    place: Place, Y: Any, observed: Any, V: Any, max_iter: int = 1000
) -> Any:
    """Minimise ``‖Y − C V‖₁`` row by row; rows leave the iteration as they settle."""
    xp = place.xp
    tol = max(TOL, 20 * float(xp.finfo(Y.dtype).eps))
    left, done = np.arange(Y.shape[0]), np.zeros(Y.shape[0], bool)
    found = []  # of rows that have left: which, their coordinates and clean entries
    C = xp.zeros((Y.shape[0], V.shape[0]), dtype=Y.dtype, device=place.device)
    clean = xp.zeros_like(observed)
    y, seen = Y, observed
    S, D = xp.zeros_like(Y), xp.zeros_like(Y)  # corruption, and multiplier over μ
    weight = xp.astype(observed, Y.dtype)
    inverse_mu = xp.sum(xp.abs(Y), axis=1, keepdims=True) / xp.sum(
        weight, axis=1, keepdims=True
    )
    for k in range(max_iter):
        c = (y - S + D) @ V.T
        E = y - c @ V
        kept = place.clip(E + D, -inverse_mu, inverse_mu)
        S_new = xp.where(seen, E + D - kept, E)
        D = xp.where(seen, kept, 0.0)
        primal, dual = (
            xp.max(xp.abs(a), axis=1, keepdims=True) for a in (E - S_new, S_new - S)
        )
        S = S_new
        growth = None
        if k >= HOLD:  # growing for good, μ ends the iteration
            growth = GROWTH
        elif k % 5 == 4:
            up, down = primal > APART * dual, dual > APART * primal
            one = xp.ones_like(primal)
            growth = xp.where(up, PULL * one, xp.where(down, one / PULL, one))
        if growth is not None:
            D, inverse_mu = D / growth, inverse_mu / growth
        settled = place.fetch(xp.maximum(primal, dual)[:, 0] <= tol)
        new = (settled | (k == max_iter - 1)) & ~done
        if not new.any():
            continue
        mask = place.bring(new[:, None])
        C, clean = xp.where(mask, c, C), xp.where(mask, seen & (S == 0), clean)
        done = done | new
        if done.mean() >= (0 if place.is_numpy else LEAVE):
            at = place.bring(np.flatnonzero(done))
            gone = (xp.take(a, at, axis=0) for a in (C, clean))
            found.append((left[done], *gone))
            left, done, at = left[~done], done[~done], np.flatnonzero(~done)
            if not len(left):
                break
            y, seen, S, D, inverse_mu, C, clean = (
                xp.take(a, place.bring(at), axis=0)
                for a in (y, seen, S, D, inverse_mu, C, clean)
            )
    which, *parts = zip(*found, strict=True)
    order = place.bring(np.argsort(np.concatenate(which)))
    C, clean = (xp.take(xp.concat(a, axis=0), order, axis=0) for a in parts)
    if place.is_numpy:
        return _polish(C, Y, observed, clean, V)
    return _polish_together(place, C, Y, observed, clean, V)


def _polish(
    C: Array, Y: Array, observed: np.ndarray, clean: np.ndarray, V: Array
) -> Array:
    """Refit on the clean entries, and keep what fits no worse.

    Where no more entries are seen than there are coordinates, all count as clean, and
    of the coordinates that fit them the smallest are taken.
    """
    few = observed.sum(axis=1) <= len(V)
    for i in np.flatnonzero(few):
        C[i] = np.linalg.lstsq(V[:, observed[i]].T, Y[i, observed[i]], rcond=None)[0]
    clean[few] = False
    for i in np.flatnonzero(clean.sum(axis=1) >= len(V)):
        refit = np.linalg.lstsq(V[:, clean[i]].T, Y[i, clean[i]], rcond=None)[0]
        loss, loss_refit = (
            np.abs(Y[i] - c @ V).sum(where=observed[i]) for c in (C[i], refit)
        )
        if loss_refit <= loss * (1 + 1e-6):
            C[i] = refit
    return C


def _polish_together(
    place: Place, C: Any, Y: Any, observed: Any, clean: Any, V: Any
) -> Any:
    """Do the same for rows on a device, many at a time.

    Least squares are corrected twice, which makes up for the squares in G.
    """
    xp, (k, n) = place.xp, V.shape
    few = xp.sum(xp.astype(observed, Y.dtype), axis=1, keepdims=True) <= k
    ridge = RIDGE * float(xp.finfo(Y.dtype).eps)
    ridge = ridge * xp.eye(k, dtype=Y.dtype, device=place.device)
    found = []
    for part in parts_of(Y.shape[0], max(1, BLOCK // (n * k))):
        y, w, c = Y[part, :], xp.astype(clean[part, :], Y.dtype), C[part, :]
        G = xp.matmul(xp.expand_dims(w, axis=1) * V, V.T) + ridge
        refit = c
        for _ in range(3):
            g = ((y - refit @ V) * w) @ V.T
            refit = refit + xp.linalg.solve(G, xp.expand_dims(g, axis=2))[:, :, 0]
        loss, loss_refit = (
            xp.sum(
                xp.where(observed[part, :], xp.abs(y - a @ V), 0.0),
                axis=1,
                keepdims=True,
            )
            for a in (c, refit)
        )
        enough = xp.sum(w, axis=1, keepdims=True) >= k
        better = enough & ~few[part, :] & (loss_refit <= loss * (1 + 1e-6))
        found.append(xp.where(better, refit, c))
    C, which = xp.concat(found, axis=0), np.flatnonzero(place.fetch(few[:, 0]))
    if not len(which):
        return C
    least = [
        Y[i : i + 1, :] @ xp.linalg.pinv(xp.where(observed[i : i + 1, :], V, 0.0))
        for i in which.tolist()
    ]
    return place.put(C, which, xp.concat(least, axis=0))
