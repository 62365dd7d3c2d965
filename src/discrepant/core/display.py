"""HTML cards that notebooks show for a result, and PNG images in them."""

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping
from html import escape

import numpy as np

from discrepant.core.arrays import subsample
from discrepant.core.linalg import Array

# Largest side of an image in a card, in pixels.
MAX_SIDE = 320


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
