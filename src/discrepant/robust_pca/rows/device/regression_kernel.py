"""Robust regression of rows on a device, all of a block at once.

The twin of `robust_pca.rows.regression_kernel`, which says how it goes: Huber steps
whose δ follows the residual down, then least squares on the entries within 2δ. There
each row goes its own way; here all rows of a block go on together, and what a row that
is done would still be given is not taken.
"""

from typing import Any, NamedTuple

from discrepant.core.device_arrays import Place
from discrepant.robust_pca.rows.regression_kernel import (
    HUBER_STEPS,
    LEAST_SQUARES,
    NOISE,
    PRESSED,
    ROUNDED,
    ROUNDING,
    SETTLING,
    SHOWING,
    WITHIN,
)

FALLS = 400  # δ follows the residual down by a tenth at least, from 1 to rounding
ROUNDING_STEPS = 45.0  # of the type, where they are more than `ROUNDING`
SINGULAR = 1e-10  # pivot over the usual one at which a row is not determined


class Rows(NamedTuple):
    """Rows to be fitted, and what they are fitted by."""

    place: Place
    y: Any  # (b, q), zero where missing
    seen: Any  # (b, q), one where observed
    number: Any  # (b, 1), of observed entries
    X: Any  # (r, q)

    def residual(self, c: Any) -> Any:
        """Return e = y − cX where an entry is seen, and zero elsewhere."""
        return (self.y - c @ self.X) * self.seen

    def size(self, e: Any, size: Any, floor: Any, rows: Any) -> Any:
        """Follow δ = 2·mean min(|e|, δ) down from `size`, in some of the rows."""
        xp, far = self.place.xp, self.place.xp.abs(e)
        falls = rows & (size > floor)
        for _ in range(FALLS):
            if not bool(xp.any(falls)):
                break
            mean = xp.sum(xp.minimum(far, size), axis=1, keepdims=True) / self.number
            falls = falls & (2 * mean <= 0.9 * size)
            size = xp.where(falls, 2 * mean, size)
            falls = falls & (size > floor)
        return xp.where(rows, xp.maximum(size, floor), size)


def fit_rows(
    place: Place, y: Any, seen: Any, X: Any, inverse: Any, noise: float
) -> tuple[Any, Any, Any, Any]:
    """Fit rows y (b, q) by X (r, q).

    `inverse` is that of XXᵀ, and `noise` what the entries have, or zero if it is not
    known. Returns, of each row, coordinates, what is left on the clean entries, the
    number of these (zero: it failed), and of the observed ones.
    """
    xp, r = place.xp, X.shape[0]
    seen = xp.astype(seen, y.dtype)
    observed = xp.sum(seen, axis=1, keepdims=True)
    rows = Rows(place, y, seen, xp.maximum(observed, xp.ones_like(observed)), X)
    top = xp.max(xp.abs(y), axis=1, keepdims=True)
    floor = max(ROUNDING, ROUNDING_STEPS * float(xp.finfo(y.dtype).eps)) * top
    enough = observed > r
    c, e, size, last = _huber(rows, inverse, noise, floor, enough & (top > 0))
    c, left, clean = _least_squares(
        rows, c, e, size, last, noise, floor, enough & (top > 0)
    )
    still = enough & (top == 0)  # rows of zeros fit as they are
    clean = xp.where(still, observed, clean)
    return c, left[:, 0], clean[:, 0], observed[:, 0]


def _huber(
    rows: Rows, inverse: Any, noise: float, floor: Any, going: Any
) -> tuple[Any, Any, Any, Any]:
    """Make the steps that forgive any start; returns c, residual and the last two δ."""
    place, y, _, number, X = rows
    xp, q = place.xp, X.shape[1]
    top = xp.max(xp.abs(y), axis=1, keepdims=True)
    least = place.clip(floor, NOISE * noise, float("inf"))
    usual = size = last = rows.size(y, top, least, going)
    c = xp.zeros((y.shape[0], X.shape[0]), dtype=y.dtype, device=place.device)
    held = xp.zeros_like(top)
    e = rows.residual(c)
    for step in range(HUBER_STEPS):
        last = xp.where(going, size, last)
        size = rows.size(e, size, least, going)
        if noise > 0:
            pressed = xp.maximum(least, xp.minimum(size, PRESSED * last))
            size = xp.where(going, pressed, size)
            held = held + xp.astype(going & (size == least), held.dtype)
            going = going & (held <= SETTLING)
        else:
            going = going & ~(size < SHOWING * usual)
            if step > 3:
                going = going & ~(size > 0.97 * last)
        if not bool(xp.any(going)):
            break
        g = place.clip(e, -size, size) @ X.T * (q / number)
        c = xp.where(going, c + g @ inverse, c)
        e = rows.residual(c)
    return c, e, size, last


def _least_squares(
    rows: Rows,
    c: Any,
    e: Any,
    size: Any,
    last: Any,
    noise: float,
    floor: Any,
    going: Any,
) -> tuple[Any, Any, Any]:
    """Fit the entries within 2δ, until these stand; returns c, rest and their number.

    The number is zero where too few are left, or too few that differ.
    """
    place, seen, X = rows.place, rows.seen, rows.X
    xp, (r, q) = place.xp, X.shape
    least = place.clip(floor, NOISE * noise, float("inf"))
    pairs = xp.reshape(xp.expand_dims(X, axis=1) * xp.expand_dims(X, axis=0), (-1, q))
    before = xp.full_like(size, -1.0)
    clean, left, failed = xp.zeros_like(size), size, ~going
    for _ in range(LEAST_SQUARES):
        limit = WITHIN * size
        inside = xp.astype(xp.abs(e) <= limit, e.dtype) * seen
        count = xp.sum(inside, axis=1, keepdims=True)
        failed = failed | (going & (count <= r))
        going = going & ~failed
        freedom = xp.maximum(count - r, xp.ones_like(count))
        rest = xp.sum(e * e * inside, axis=1, keepdims=True)
        clean = xp.where(going, count, clean)
        left = xp.where(going, xp.sqrt(rest / freedom), left)
        stands = (count == before) & (size > 0.5 * last)
        going = going & ~((left < ROUNDED * floor) | stands)
        if not bool(xp.any(going)):
            break
        before = count
        G = xp.reshape(inside @ pairs.T, (-1, r, r))
        move, determined = _solved(xp, G, (e * inside) @ X.T)
        failed = failed | (going & ~determined)
        going = going & determined
        c = xp.where(going, c + move, c)
        e = xp.where(going, rows.residual(c), e)
        last = xp.where(going, size, last)
        # Where the clean ones fit to rounding there is nothing to follow down.
        far = xp.abs(e)
        exact = xp.all((far > limit) | (far < ROUNDED * floor), axis=1, keepdims=True)
        size = rows.size(e, size, least, going & ~exact)
    return c, left, xp.where(failed, xp.zeros_like(clean), clean)


def _solved(xp: Any, G: Any, g: Any) -> tuple[Any, Any]:
    """Solve G c = g for each of many small positive matrices, by elimination.

    Returns c (b, r), and (b, 1) whether G is positive definite.
    """
    r = G.shape[1]
    A = xp.concat([G, xp.expand_dims(g, axis=2)], axis=2)
    unit = xp.eye(r, dtype=G.dtype, device=G.device)
    least = SINGULAR / r * xp.sum(G * unit, axis=(1, 2), keepdims=False)
    good = least > -1  # all, so far
    for k in range(r):
        pivot = A[:, k, k]
        good = good & (pivot > least)
        pivot = xp.where(good, pivot, xp.ones_like(pivot))
        line = A[:, k : k + 1, :] / xp.reshape(pivot, (-1, 1, 1))
        # Off every row but k, of which one time itself is left.
        column = A[:, :, k : k + 1] - xp.expand_dims(unit[:, k : k + 1], axis=0)
        A = A - column * line
    return A[:, :, r], xp.expand_dims(good, axis=1)
