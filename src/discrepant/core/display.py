"""HTML cards that notebooks show for a result, and PNG images in them."""

import base64
import io
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

    The sentence is in bold, facts are a table and notes (remarks to read before
    trusting the result) a list. Pictures are images (uint8, grey or RGB) by title;
    `body` is HTML between these and the notes.
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
    """Return an image (uint8, grey or RGB) as a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(file, "PNG")
    return file.getvalue()


def _figure(name: str, image: Array) -> str:
    image = subsample(image, MAX_SIDE)
    data = base64.b64encode(png(image)).decode()
    width = max(image.shape[1], MAX_SIDE // 2)
    return (
        f'<figure style="margin:0"><img alt="{escape(name)}" width="{width}" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )
