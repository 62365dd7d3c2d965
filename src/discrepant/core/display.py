"""Results that show themselves: a line on a terminal, a card in a notebook, a figure.

A result says what it is in one sentence, lists a few facts, and may hold pictures; how
these look is decided here, once.
"""

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discrepant.core.arrays import subsample
from discrepant.core.linalg import Array
from discrepant.core.plotting import plot_decomposition, plot_measurements
from discrepant.core.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY = 4_000_000  # entries beyond which a card does not count the corrupt ones
SMALL = 320  # pixels of a picture in a card, along each side
DRAWN = 1200  # rows and columns of a sparse matrix that are drawn


class DisplayMixin:
    """What shows itself: ``str`` is its sentence, the rest is added by overriding."""

    def _facts(self) -> dict[str, str]:
        return {}

    def _notes(self) -> Iterable[str]:
        return ()

    def _pictures(self) -> dict[str, Array]:
        """Return pictures by what they show: uint8, grey or RGB."""
        return {}

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card(str(self), self._facts(), self._notes(), self._pictures())


class ResultDisplayMixin(DisplayMixin):
    """A `discrepant.core.results.Result` that shows itself."""

    def plot(self) -> "Figure":
        """Draw the data, the low-rank part and the corruption.

        Of measurements that are no matrix, the matrix and the measurements' corruption.
        """
        found = cast(Result, self)
        rows, columns = shape_of(found)
        part = np.s_[: min(rows, DRAWN), : min(columns, DRAWN)]
        if hasattr(found.sparse, "tocsr"):  # only what is stored is known
            low_rank = found.block(*part)
            sparse, residual = (
                _dense(values, part) for values in (found.sparse, found.residual)
            )
            return plot_decomposition(low_rank + residual + sparse, low_rank, sparse)
        if found.sparse.shape != (rows, columns):
            return plot_measurements(found.low_rank, found.sparse, found.outliers)
        low_rank, sparse, residual = (
            _here(values, part)
            for values in (found.low_rank, found.sparse, found.residual)
        )
        observed = low_rank + sparse + residual
        return plot_decomposition(*map(_real, (observed, low_rank, sparse)))

    def _facts(self) -> dict[str, str]:
        return result_facts(cast(Result, self))

    def __str__(self) -> str:
        return result_sentence(cast(Result, self))


def shape_of(found: Result) -> tuple[int, int]:
    """Return the shape of the low-rank matrix, without computing it."""
    columns = found.components.shape[1]
    return len(found.block(slice(None), slice(0, 1))), columns


def result_sentence(found: Result) -> str:
    """Say what was recovered, and how the run ended."""
    rows, columns = shape_of(found)
    return f"{rows}×{columns} matrix of rank {found.rank}; {found.status}"


def result_facts(found: Result) -> dict[str, str]:
    """Return what there is to know of a recovery at a glance."""
    sizes = np.atleast_1d(found.noise)
    noise = "none" if not sizes.any() else f"{sizes.min():.3g}"
    if sizes.max() > sizes.min():
        noise += f" to {sizes.max():.3g}, by column"
    facts = {"rank": str(found.rank), "noise": noise, "steps": str(found.n_steps)}
    rows, columns = shape_of(found)
    flagged = found.outliers if rows * columns <= MANY else None
    if flagged is not None and not hasattr(flagged, "compute"):  # nor is one begun
        stored = hasattr(flagged, "nnz")  # of a sparse one
        count, known = int(flagged.sum()), flagged.size if stored else rows * columns
        if known:
            facts["corrupt"] = f"{count:,} of {known:,} values ({count / known:.2%})"
    if found.rank:
        values = found.singular_values[:6]
        more = ", …" if found.rank > len(values) else ""
        facts["singular values"] = ", ".join(f"{value:.3g}" for value in values) + more
    return facts


def card(
    sentence: str,
    facts: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
    pictures: Mapping[str, Array] | None = None,
    body: str = "",
) -> str:
    """Return a piece of HTML for notebooks, in the colours of whatever is around it.

    Parameters
    ----------
    sentence : str
        What it is; first, and in bold.
    facts : mapping of str to str
        Few words each, by name.
    notes : iterable of str
        What to know before trusting it.
    pictures : mapping of str to ndarray
        Grey or RGB in bytes, by what they show.
    body : str
        HTML that stands between the facts and the notes.
    """
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in (facts or {}).items()
    )
    shown = "".join(_figure(name, image) for name, image in (pictures or {}).items())
    said = "".join(f"<li>{escape(str(note))}</li>" for note in notes)
    return (
        f'<div class="discrepant"><p><strong>{escape(sentence)}</strong></p>'
        + (f"<table>{lines}</table>" if lines else "")
        + (f'<div style="display:flex;flex-wrap:wrap;gap:1em">{shown}</div>')
        * bool(shown)
        + body
        + (f"<ul>{said}</ul>" if said else "")
        + "</div>"
    )


def png(image: Array) -> bytes:
    """Return an image, uint8 and grey or RGB, as a PNG; nothing needs to be installed.

    A card must not fail where Pillow is not there.
    """

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
        )

    rows, columns = image.shape[:2]
    colour = 2 if image.ndim == 3 else 0
    lines = np.ascontiguousarray(image).reshape(rows, -1)
    plain = np.concatenate([np.zeros((rows, 1), np.uint8), lines], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", columns, rows, 8, colour, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(plain)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def _figure(name: str, image: Array) -> str:
    image = subsample(image, SMALL)
    data = base64.b64encode(png(image)).decode()
    wide = max(image.shape[1], SMALL // 2)
    return (
        f'<figure style="margin:0"><img alt="{escape(name)}" width="{wide}" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )


def _dense(values: Any, part: tuple[slice, slice]) -> Array:
    """Return a part of a sparse matrix, NaN where nothing is stored."""
    cut = values.tocsr()[part].tocoo()
    dense = np.full(cut.shape, np.nan)
    dense[cut.row, cut.col] = cut.data
    return dense


def _here(values: Any, part: tuple[slice, ...]) -> Array:
    """Return an array; of a Dask array, compute a part."""
    if hasattr(values, "compute"):
        return np.asarray(values[part].compute())
    return np.asarray(values)


def _real(values: Array) -> Array:
    """Return complex values by their size: that is what can be drawn."""
    return np.abs(values) if np.iscomplexobj(values) else values
