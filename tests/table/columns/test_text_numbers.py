"""Numbers written as text are parsed, checked, and written back in their notation."""

from decimal import Decimal

import numpy as np
import pytest

from discrepant import Cleaner, clean
from discrepant.table.columns.text_numbers import (
    NumberFormat,
    is_code_column,
    parse_column,
    parse_number,
)
from support.tables import corrupted, frame_of

DATA, WRONG = corrupted()


def test_numbers_written_as_text_are_parsed():
    frame = frame_of(DATA)
    texts = [f"{value:.2f}".replace(".", ",") for value in frame["a"]]
    texts[3], texts[8], texts[12] = "n/a", "broken", "99,00"
    frame["a"] = texts
    result = clean(frame)
    assert result.columns[0].role == "numbers"
    assert result.mask.loc[8, "a"]
    assert result.mask.loc[12, "a"]
    assert not result.mask.loc[3, "a"]
    assert result.table["a"].dtype == frame["a"].dtype
    kept = ~result.mask["a"]
    assert result.table["a"][kept].equals(frame["a"][kept])
    assert parse_number(result.table.loc[8, "a"], ",") == pytest.approx(
        result.expected.loc[8, "a"], abs=0.006
    )
    line = result.flagged.query("row == 8 and column == 'a'").iloc[0]
    assert line["value"] == "broken"
    assert any("'broken'" in caveat for caveat in result.caveats)


def test_words_like_powers_of_ten_are_text():
    frame = frame_of(DATA)
    floors = [f"E{k % 90}" for k in range(len(frame))]
    assert clean(frame.assign(a=floors)).columns[0].role == "text"
    texts = [f"{value:.2f}" for value in frame["a"]]
    texts[5] = "E26"
    result = clean(frame.assign(a=texts))
    assert result.mask.loc[5, "a"]
    assert result.flagged["value"].isin(["E26"]).any()


def test_cells_of_several_types():
    cells = np.array([1, 2.5, "3,5", "1 234", "n/a", None, "word", True], object)
    result = parse_column(cells, np.array([cell is None for cell in cells]))
    np.testing.assert_array_equal(
        result.values, [1, 2.5, 3.5, 1234, np.nan, np.nan, np.nan, 1]
    )
    assert result.unparsed.tolist() == [False] * 6 + [True, False]


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        *[("12,5", ",", 12.5), ("12.5", ",", 12.5), ("12,5", ".", 12.5)],
        *[("1,234.5", ".", 1234.5), ("1.234,5", ",", 1234.5), (" 3 ", ".", 3)],
        *[("1,234", ".", 1234), ("1,234", ",", 1.234), ("−4e-3", ".", -0.004)],
        *[("a", ".", None), ("", ".", np.nan), ("12 kg", ".", None)],
        *[("1,2,3", ".", None), ("-", ".", np.nan), ("+.5", ".", 0.5)],
        *[("0,049", ".", 0.049), ("1’234.5", ".", 1234.5), ("1e400", ".", None)],
        *[("E26", ".", None), ("-e5", ",", None), (".E2", ".", None)],
        *[("1\u2009234", ".", 1234), ("—", ".", np.nan), ("1,234 567", ".", None)],
    ],
)
def test_parse_number(text, mark, value):
    result = parse_number(text, mark)
    assert result == value or (result is not None and np.isnan([result, value]).all())


def test_number_format():
    assert NumberFormat(",", 2).format(-1.005) in ("-1,00", "-1,01")
    assert NumberFormat().format(2.7) == "3"
    money = NumberFormat(".", 2, "$", thousands_mark=",")
    assert money.format(-1234.5) == "-$1,234.50"
    assert money.parse("-$1,234.50") == -1234.5
    assert (
        NumberFormat(",", 1, suffix=" kg", thousands_mark=".").format(1234.56)
        == "1.234,6 kg"
    )
    assert NumberFormat(".", 1, suffix="%").format(-0.01) == "0.0%"
    assert NumberFormat(".", 1, suffix=" m2").format(-0.01) == "0.0 m2"


@pytest.mark.parametrize(
    ("value", "texts", "written"),
    [
        (-5, ["$-7", "$3", "$-2"], "-$5"),
        (-5, ["−7", "3", "−2"], "−5"),
        (1234.5, ["1\u202f003,5\u00a0€", "207,4\u00a0€"], "1\u202f234,5\u00a0€"),
        (1234.5, ["1’003.5", "2’007.4"], "1’234.5"),
        (8.5e-7, ["1.25e-06 m", "2.50e-06 m"], "8.50e-07 m"),
        (-8.5e-7, ["1.25E-06", "-2.50E-06"], "-8.50E-07"),
        (1.5e-5, ["0.5", "1.75", "2e-05", "3.75"], "1.5e-05"),
        (0.5, ["0,049", "1,253", "2,750"], "0,500"),
    ],
)
def test_replacements_have_the_notation_of_the_column(value, texts, written):
    column = parse_column(np.array(texts, object), np.zeros(len(texts), bool))
    number_format = column.number_format
    assert number_format.format(value) == written
    assert number_format.parse(written) == pytest.approx(value)


def test_other_notations_are_unchanged_and_get_a_caveat():
    frame = frame_of(DATA)
    texts = [f"{value:.2f}" for value in frame["a"]]
    texts[::20] = [f"<{text}" for text in texts[::20]]
    texts[7] = "1O.5"
    result = clean(frame.assign(a=texts), fill=True)
    assert result.columns[0].role == "numbers"
    assert list(result.table["a"][::20]) == texts[::20]
    assert not result.mask["a"][::20].any()
    assert result.mask.loc[7, "a"]
    assert any("left as they are ('<" in caveat for caveat in result.caveats)
    again = Cleaner().fit(frame.assign(a=texts)).clean(frame.assign(a=texts)[:21])
    assert list(again.table["a"][::20]) == texts[:21:20]


def test_decimals_keep_their_type():
    cells = [Decimal(str(round(value, 3))) for value in DATA[:, 0]]
    cells[9] = Decimal("987.5")
    result = clean(frame_of(DATA).assign(a=cells))
    assert result.mask.loc[9, "a"]
    assert {type(cell) for cell in result.table["a"]} == {Decimal}


@pytest.mark.parametrize("shape", ["${:,.2f}", "{:.1f} kg", "{:.1f}%", "EUR {:.0f}"])
def test_numbers_with_a_unit_are_checked_and_written_with_it(shape):
    frame = frame_of(DATA)
    texts = [shape.format(1000 + 100 * value) for value in frame["a"]]
    texts[4] = shape.format(98765)
    numbers = parse_column(np.array(texts, object), np.zeros(len(texts), bool))
    plain = clean(frame.assign(a=numbers.values))
    result = clean(frame.assign(a=texts))
    assert result.mask.equals(plain.mask)
    assert result.mask.loc[4, "a"]
    expected = numbers.number_format.format(plain.expected.loc[4, "a"])
    assert result.table.loc[4, "a"] == expected
    assert len(expected) < len(texts[4])


@pytest.mark.parametrize(
    "shape", ["A{}", "Hall {}", "INV-{}", "+49 30 {}", "12:{}", "{}/24", "v1.{}"]
)
def test_words_with_digits_are_not_numbers(shape):
    texts = np.array([shape.format(k) for k in range(1010, 1060)], object)
    assert not parse_column(texts, np.zeros(50, bool)).is_numeric


def test_a_column_with_two_units_is_text():
    texts = [f"{k} {'kg' if k % 5 else 'lb'}" for k in range(50, 100)]
    assert not parse_column(np.array(texts, object), np.zeros(50, bool)).is_numeric


def test_digits_of_one_length_with_leading_zeros_are_codes():
    assert is_code_column({"00501", "12345", "99999"})
    assert not is_code_column({"05", "12", "23"})
    assert not is_code_column({"0123", "12345", "7"})
