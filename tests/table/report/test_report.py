"""What is shown of a cleaned table: harmless, whole by itself, legible."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from discrepant import InputError
from discrepant.table.example_data import sensor_table
from discrepant.table.report import svg
from discrepant.table.report.figures import before_after, cell_map
from discrepant.table.report.report import LISTED, fragment, page, write_report
from discrepant.table.report.view import BINS, View, format_number
from support.clean_results import made

VOID = {"meta", "image", "rect", "path", "circle", "br"}
HOSTILE = "<script>alert(1)</script>\"'&$x_{ $title"


class Page(HTMLParser):
    """A page taken apart: every tag closed, and all that it would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.loads, self.headers = [], [], [], 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for key, value in attrs if key in ("src", "href")]
        assert not any(key.startswith("on") for key, _ in attrs)
        if tag == "svg":
            assert dict(attrs)["aria-label"]
        if tag == "th":
            assert dict(attrs)["scope"] in ("row", "col")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def cleaned():
    return made(bad_rows=[100, 400], caveats=("One & only <caveat>.",))


def test_the_page_needs_nothing_beside_it(cleaned, tmp_path):
    write_report(cleaned, tmp_path / "report.html", title="sensors.csv")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert "script" not in parsed.tags
    assert all(link.startswith("data:image/png;base64,") for link in parsed.loads)
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "<title>sensors.csv</title>" in text
    assert "One &amp; only &lt;caveat&gt;." in text


def test_everything_is_said(cleaned):
    text = page(cleaned)
    count = int(cleaned.mask.to_numpy().sum())
    assert f"{count} cells are flagged" in text
    assert "2 rows are wrong from end to end" in text
    assert "-999 taken for missing" in text
    assert f"… and {count - LISTED} more." in text
    for name in cleaned.original.columns:
        assert name in text
    assert text.count("<svg") == 1 + 4


def test_hostile_names_and_values_are_text():
    names = [f"{HOSTILE} {i}" for i in range(15)]
    cleaned = made(60, names=names)
    frame = cleaned.flagged.astype({"value": object, "row": object})
    frame.loc[0, "value"] = frame.loc[0, "row"] = HOSTILE
    cleaned = made(60, names=names, caveats=(HOSTILE,))
    object.__setattr__(cleaned, "flagged", frame)
    for text in (page(cleaned, title=HOSTILE, rows=HOSTILE), fragment(cleaned)):
        parsed = Page(text)
        assert not {"script", "img", "b"} & set(parsed.tags)
        assert "<script>" not in text
        assert "&lt;script&gt;" in text


def test_the_page_needs_no_matplotlib(cleaned, monkeypatch):
    monkeypatch.setattr("discrepant.core.plotting.find_spec", lambda name: None)
    assert page(cleaned).count("<svg") == 5
    with pytest.raises(InputError, match="matplotlib"):
        cell_map(cleaned)


def test_the_piece_for_notebooks_is_short(cleaned):
    text = fragment(cleaned)
    Page(text)
    assert len(text) < 6000
    assert text.count("<tr>") == 9
    assert "cells are flagged" in text


def test_a_clean_table_has_a_page():
    cleaned = made(60)
    nothing = cleaned.mask & False
    object.__setattr__(cleaned, "mask", nothing)
    object.__setattr__(cleaned, "flagged", cleaned.flagged.iloc[:0])
    text = page(cleaned)
    Page(text)
    assert "stands out" in text


def test_the_inline_picture_is_a_png():
    image = pytest.importorskip("PIL.Image")
    import io

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    read = np.asarray(image.open(io.BytesIO(svg.png(pixels))))
    np.testing.assert_array_equal(read, pixels)


def test_one_flag_among_many_rows_is_seen():
    cleaned = made(5000)
    mask = np.zeros(cleaned.mask.shape, bool)
    row = int(cleaned.original["air °C"].notna().to_numpy().nonzero()[0][-1])
    mask[row, 3] = True
    object.__setattr__(cleaned, "mask", pd.DataFrame(mask))
    bins = View(cleaned).bins()
    assert bins.strength.shape == (-(-5000 // bins.rows), 15)
    assert len(bins.strength) <= BINS
    assert np.count_nonzero(bins.strength) == 1
    assert bins.strength.max() >= 0.2
    assert bins.strength[-1, 3] > 0 or bins.strength[-2, 3] > 0


def test_pictures(cleaned, tmp_path):
    figure = cell_map(cleaned)
    figure.savefig(tmp_path / "map.png")
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == list(cleaned.original.columns)
    before_after(cleaned, "air °C").savefig(tmp_path / "column.png")
    with pytest.raises(InputError, match="no column"):
        before_after(cleaned, "nothing")
    with pytest.raises(InputError, match="set aside"):
        before_after(cleaned, "site")


def test_dollars_in_names_are_no_mathematics(tmp_path):
    cleaned = made(60, names=[f"$\\frac{i}" for i in range(15)])
    cell_map(cleaned).savefig(tmp_path / "map.png")
    before_after(cleaned, "$\\frac5").savefig(tmp_path / "column.png")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234567.0, "1234567"),
        (1e9, "1e+09"),
        (0.000012345, "1.23e-05"),
        (12.3456, "12.35"),
        (-0.5, "-0.5"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
        (7, "7"),
        (True, "True"),
        (None, "–"),
        ("x", "x"),
    ],
)
def test_numbers_for_readers(value, text):
    assert format_number(value) == text


def test_the_made_table_is_what_it_says():
    table, wrong = sensor_table(600, random_state=1)
    values = table.iloc[:, 3:]
    assert wrong.shape == table.shape
    assert not wrong[:, :3].any()
    assert wrong.sum() == round(0.03 * values.size)
    assert values.isna().to_numpy().sum() == round(0.05 * values.size)
    again, _ = sensor_table(600, random_state=1)
    pd.testing.assert_frame_equal(table, again)


def test_no_colour_carries_meaning_alone(cleaned):
    text = page(cleaned)
    assert re.search(r'title="too high">[^<]*▲', text)
    assert re.search(r'title="too low">[^<]*▼', text)
