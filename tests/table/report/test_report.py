"""Report and figures of a result table: self-contained, escaped, legible."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from discrepant import InputError
from discrepant.table.example_data import sensor_table
from discrepant.table.report.figures import before_after, cell_map
from discrepant.table.report.report import LISTED, fragment, page, write_report
from discrepant.table.report.view import MAP_LINES, View, format_number
from support.clean_results import synthetic_result

VOID = {"meta", "img", "br"}
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
        if tag == "img":
            assert dict(attrs)["alt"]
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
def result():
    return synthetic_result(bad_rows=[100, 400], caveats=("One & only <caveat>.",))


def test_the_page_is_self_contained(result, tmp_path):
    write_report(result, tmp_path / "report.html", title="sensors.csv")
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


def test_the_page_has_counts_codes_and_names(result):
    text = page(result)
    count = int(result.mask.to_numpy().sum())
    assert f"{count} cells are flagged" in text
    assert "2 rows are wrong as a whole" in text
    assert "-999 read as missing" in text
    assert f"… and {count - LISTED} more." in text
    for name in result.original.columns:
        assert name in text
    assert text.count("<img") == 1 + 4


def test_hostile_names_and_values_are_text():
    names = [f"{HOSTILE} {i}" for i in range(15)]
    result = synthetic_result(60, names=names)
    frame = result.flagged.astype({"value": object, "row": object})
    frame.loc[0, "value"] = frame.loc[0, "row"] = HOSTILE
    result = synthetic_result(60, names=names, caveats=(HOSTILE,))
    object.__setattr__(result, "flagged", frame)
    for text in (page(result, title=HOSTILE, rows=HOSTILE), fragment(result)):
        parsed = Page(text)
        assert not {"script", "b"} & set(parsed.tags)
        assert "<script>" not in text
        assert "&lt;script&gt;" in text


def test_the_notebook_card_is_short(result):
    text = fragment(result)
    Page(text)
    assert len(text) < 6000
    assert text.count("<tr>") == 9
    assert "cells are flagged" in text


def test_the_page_of_a_table_without_flags():
    result = synthetic_result(60)
    nothing = result.mask & False
    object.__setattr__(result, "mask", nothing)
    object.__setattr__(result, "flagged", result.flagged.iloc[:0])
    text = page(result)
    Page(text)
    assert "is flagged" in text


def test_one_flag_among_many_rows_is_visible():
    result = synthetic_result(5000)
    mask = np.zeros(result.mask.shape, bool)
    row = int(result.original["air °C"].notna().to_numpy().nonzero()[0][-1])
    mask[row, 3] = True
    object.__setattr__(result, "mask", pd.DataFrame(mask))
    grid = View(result).cell_grid()
    assert grid.strength.shape == (-(-5000 // grid.rows_per_line), 15)
    assert len(grid.strength) <= MAP_LINES
    assert np.count_nonzero(grid.strength) == 1
    assert grid.strength.max() >= 0.2
    assert grid.strength[-1, 3] > 0 or grid.strength[-2, 3] > 0


def test_figures_are_drawn_for_checked_columns(result, tmp_path):
    figure = cell_map(result)
    figure.savefig(tmp_path / "map.png")
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == list(result.original.columns)
    before_after(result, "air °C").savefig(tmp_path / "column.png")
    with pytest.raises(InputError, match="no column"):
        before_after(result, "nothing")
    with pytest.raises(InputError, match="not checked"):
        before_after(result, "site")


def test_dollars_in_names_are_text(tmp_path):
    result = synthetic_result(60, names=[f"$\\frac{i}" for i in range(15)])
    figure = cell_map(result)
    figure.savefig(tmp_path / "map.png")
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == list(result.original.columns)
    before_after(result, "$\\frac5").savefig(tmp_path / "column.png")


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
def test_format_number(value, text):
    assert format_number(value) == text


def test_the_synthetic_sensor_table():
    table, wrong = sensor_table(600, random_state=1)
    values = table.iloc[:, 3:]
    assert wrong.shape == table.shape
    assert not wrong[:, :3].any()
    assert wrong.sum() == round(0.03 * values.size)
    assert values.isna().to_numpy().sum() == round(0.05 * values.size)
    again, _ = sensor_table(600, random_state=1)
    pd.testing.assert_frame_equal(table, again)


def test_no_colour_carries_meaning_alone(result):
    text = page(result)
    assert re.search(r'title="too high">[^<]*▲', text)
    assert re.search(r'title="too low">[^<]*▼', text)
