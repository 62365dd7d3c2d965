"""Display of results: a sentence, an HTML card for notebooks, and a figure."""

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

# Entries of a matrix beyond which a card does not count the corrupt ones: the flags
# would first have to be computed.
MAX_COUNTED = 4_000_000
# Largest side of an image in a card, in pixels.
MAX_SIDE = 320
# Rows and columns of a sparse or lazy matrix that are drawn.
MAX_DRAWN = 1200


class DisplayMixin:
    """Notebook card: the object's ``str``, and facts, notes and images by override."""

    def _facts(self) -> dict[str, str]:
        return {}

    def _notes(self) -> Iterable[str]:
        return ()

    def _pictures(self) -> dict[str, Array]:
        """Return images (uint8, grey or RGB) by title."""
        return {}

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card(str(self), self._facts(), self._notes(), self._pictures())


class ResultDisplayMixin(DisplayMixin):
    """Sentence, notebook card and figure of a `discrepant.core.results.Result`."""

    def plot(self) -> "Figure":
        """Draw the data, the low-rank part and the corruption.

        If the data are not a matrix but measurements of one, the matrix and the
        corruption of the measurements are drawn.
        """
        result = cast(Result, self)
        rows, columns = shape_of(result)
        drawn = np.s_[: min(rows, MAX_DRAWN), : min(columns, MAX_DRAWN)]
        if hasattr(result.sparse, "tocsr"):  # only stored entries are observed
            low_rank = result.block(*drawn)
            sparse, residual = (
                _to_dense(values, drawn) for values in (result.sparse, result.residual)
            )
            return plot_decomposition(low_rank + residual + sparse, low_rank, sparse)
        if result.sparse.shape != (rows, columns):
            return plot_measurements(result.low_rank, result.sparse, result.outliers)
        low_rank, sparse, residual = (
            _to_numpy(values, drawn)
            for values in (result.low_rank, result.sparse, result.residual)
        )
        observed = low_rank + sparse + residual
        return plot_decomposition(*map(_modulus, (observed, low_rank, sparse)))

    def _facts(self) -> dict[str, str]:
        return result_facts(cast(Result, self))

    def __str__(self) -> str:
        return result_sentence(cast(Result, self))


def shape_of(result: Result) -> tuple[int, int]:
    """Return the shape of the low-rank matrix of a result, without computing it."""
    columns = result.components.shape[1]
    return len(result.block(slice(None), slice(0, 1))), columns


def result_sentence(result: Result) -> str:
    """Return a sentence with the shape and rank of a result and its status."""
    rows, columns = shape_of(result)
    return f"{rows}×{columns} matrix of rank {result.rank}; {result.status}"


def result_facts(result: Result) -> dict[str, str]:
    """Return rank, noise, steps, corrupt entries and singular values as text."""
    sigma = np.atleast_1d(result.noise)
    noise = "none" if not sigma.any() else f"{sigma.min():.3g}"
    if sigma.max() > sigma.min():
        noise += f" to {sigma.max():.3g}, by column"
    facts = {"rank": str(result.rank), "noise": noise, "steps": str(result.n_steps)}
    rows, columns = shape_of(result)
    flagged = result.outliers if rows * columns <= MAX_COUNTED else None
    is_lazy = hasattr(flagged, "compute")  # Dask: nothing is computed for a card
    if flagged is not None and not is_lazy:
        is_sparse = hasattr(flagged, "nnz")
        count = int(flagged.sum())
        observed = flagged.size if is_sparse else rows * columns
        if observed:
            facts["corrupt"] = (
                f"{count:,} of {observed:,} values ({count / observed:.2%})"
            )
    if result.rank:
        values = result.singular_values[:6]
        more = ", …" if result.rank > len(values) else ""
        facts["singular values"] = ", ".join(f"{value:.3g}" for value in values) + more
    return facts


def card(
    sentence: str,
    facts: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
    pictures: Mapping[str, Array] | None = None,
    body: str = "",
) -> str:
    """Return a card for notebooks as HTML, in the colours of its surroundings.

    Parameters
    ----------
    sentence : str
        The first line, in bold.
    facts : mapping of str to str
        Short texts by name, shown as a table.
    notes : iterable of str
        Remarks to read before trusting the result, shown as a list.
    pictures : mapping of str to ndarray
        Images (uint8, grey or RGB) by title.
    body : str
        HTML between the images and the notes.
    """
    table = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in (facts or {}).items()
    )
    figures = "".join(_figure(name, image) for name, image in (pictures or {}).items())
    remarks = "".join(f"<li>{escape(str(note))}</li>" for note in notes)
    return (
        f'<div class="discrepant"><p><strong>{escape(sentence)}</strong></p>'
        + (f"<table>{table}</table>" if table else "")
        + (f'<div style="display:flex;flex-wrap:wrap;gap:1em">{figures}</div>')
        * bool(figures)
        + body
        + (f"<ul>{remarks}</ul>" if remarks else "")
        + "</div>"
    )


def png(image: Array) -> bytes:
    """Return an image (uint8, grey or RGB) as a PNG file, without Pillow.

    Cards work without any optional package.
    """

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    rows, columns = image.shape[:2]
    colour_type = 2 if image.ndim == 3 else 0
    lines = np.ascontiguousarray(image).reshape(rows, -1)
    pixels = np.concatenate([np.zeros((rows, 1), np.uint8), lines], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, colour_type, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def _figure(name: str, image: Array) -> str:
    image = subsample(image, MAX_SIDE)
    data = base64.b64encode(png(image)).decode()
    width = max(image.shape[1], MAX_SIDE // 2)
    return (
        f'<figure style="margin:0"><img alt="{escape(name)}" width="{width}" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )


def _to_dense(values: Any, block: tuple[slice, slice]) -> Array:
    """Return a block of a sparse matrix, with NaN at entries that are not stored."""
    stored = values.tocsr()[block].tocoo()
    dense = np.full(stored.shape, np.nan)
    dense[stored.row, stored.col] = stored.data
    return dense


def _to_numpy(values: Any, block: tuple[slice, ...]) -> Array:
    """Return a NumPy array; of a Dask array, a computed block."""
    if hasattr(values, "compute"):
        return np.asarray(values[block].compute())
    return np.asarray(values)


def _modulus(values: Array) -> Array:
    """Return the modulus of complex values, which can be drawn; others unchanged."""
    return np.abs(values) if np.iscomplexobj(values) else values
