"""clean: numbers as people write them are read, judged, and written back as such."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from discrepant import Cleaner, clean
from discrepant.table.columns.text_numbers import Writing, are_names, parse, read
from support.tables import frame_of, spoilt

DATA, WRONG = spoilt()


def test_numbers_as_text_are_read():
    frame = frame_of(DATA)
    texts = [f"{value:.2f}".replace(".", ",") for value in frame["a"]]
    texts[3], texts[8], texts[12] = "n/a", "broken", "99,00"
    frame["a"] = texts
    found = clean(frame)
    assert found.columns[0].role == "numbers"
    assert found.mask.loc[8, "a"]
    assert found.mask.loc[12, "a"]
    assert not found.mask.loc[3, "a"]
    assert found.table["a"].dtype == frame["a"].dtype
    kept = ~found.mask["a"]
    assert found.table["a"][kept].equals(frame["a"][kept])
    assert parse(found.table.loc[8, "a"], ",") == pytest.approx(
        found.expected.loc[8, "a"], abs=0.006
    )
    line = found.flagged.query("row == 8 and column == 'a'").iloc[0]
    assert line["value"] == "broken"
    assert any("'broken'" in caveat for caveat in found.caveats)


def test_words_like_powers_of_ten_are_text():
    frame = frame_of(DATA)
    floors = [f"E{k % 90}" for k in range(len(frame))]
    assert clean(frame.assign(a=floors)).columns[0].role == "text"
    texts = [f"{value:.2f}" for value in frame["a"]]
    texts[5] = "E26"
    found = clean(frame.assign(a=texts))
    assert found.mask.loc[5, "a"]
    assert found.flagged["value"].isin(["E26"]).any()


def test_mixed_cells():
    cells = np.array([1, 2.5, "3,5", "1 234", "n/a", None, "word", True], object)
    found = read(cells, np.array([cell is None for cell in cells]))
    np.testing.assert_array_equal(
        found.values, [1, 2.5, 3.5, 1234, np.nan, np.nan, np.nan, 1]
    )
    assert found.unreadable.tolist() == [False] * 6 + [True, False]


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
def test_reading(text, mark, value):
    found = parse(text, mark)
    assert found == value or (found is not None and np.isnan([found, value]).all())


def test_writing():
    assert Writing(",", 2).write(-1.005) in ("-1,00", "-1,01")
    assert Writing().write(2.7) == "3"
    money = Writing(".", 2, "$", group=",", booked=True)
    assert money.write(-1234.5) == "($1,234.50)"
    assert money.read("($1,234.50)") == -1234.5
    assert Writing(",", 1, after=" kg", group=".").write(1234.56) == "1.234,6 kg"
    assert Writing(".", 1, after="%").write(-0.01) == "0.0%"
    assert Writing(".", 1, after=" m2").write(-0.01) == "0.0 m2"


@pytest.mark.parametrize(
    ("value", "texts", "written"),
    [
        (-5, ["$-7", "$3", "$-2"], "$-5"),
        (-5, ["−7", "3", "−2"], "−5"),
        (-1234, ["$(7)", "$1,003", "$(2)"], "$(1,234)"),
        (1234.5, ["1\u202f003,5\u00a0€", "207,4\u00a0€"], "1\u202f234,5\u00a0€"),
        (1234.5, ["1’003.5", "2’007.4"], "1’234.5"),
        (8.5e-7, ["1.25e-06 m", "2.50e-06 m"], "8.50e-07 m"),
        (-8.5e-7, ["1.25E-06", "-2.50E-06"], "-8.50E-07"),
        (1.5e-5, ["0.5", "1.75", "2e-05", "3.75"], "1.5e-05"),
        (0.5, ["0,049", "1,253", "2,750"], "0,500"),
    ],
)
def test_what_is_mended_is_written_as_the_others_are(value, texts, written):
    writing = read(np.array(texts, object), np.zeros(len(texts), bool)).writing
    assert writing.write(value) == written
    assert writing.read(written) == pytest.approx(value)


def test_other_ways_of_writing_are_left_alone_and_said():
    frame = frame_of(DATA)
    texts = [f"{value:.2f}" for value in frame["a"]]
    texts[::20] = [f"<{text}" for text in texts[::20]]
    texts[7] = "1O.5"
    found = clean(frame.assign(a=texts), fill=True)
    assert found.columns[0].role == "numbers"
    assert list(found.table["a"][::20]) == texts[::20]
    assert not found.mask["a"][::20].any()
    assert found.mask.loc[7, "a"]
    assert any("left as they are ('<" in caveat for caveat in found.caveats)
    again = Cleaner().fit(frame.assign(a=texts)).judge(frame.assign(a=texts)[:21])
    assert list(again.table["a"][::20]) == texts[:21:20]


def test_numbers_of_other_types_stay_what_they_are():
    for kind in (Decimal, Fraction):
        cells = [kind(str(round(value, 3))) for value in DATA[:, 0]]
        cells[9] = kind("987.5")
        found = clean(frame_of(DATA).assign(a=cells))
        assert found.mask.loc[9, "a"]
        assert {type(cell) for cell in found.table["a"]} == {kind}


@pytest.mark.parametrize("shape", ["${:,.2f}", "{:.1f} kg", "{:.1f}%", "EUR {:.0f}"])
def test_numbers_with_a_unit_are_judged_and_written_with_it(shape):
    frame = frame_of(DATA)
    texts = [shape.format(1000 + 100 * value) for value in frame["a"]]
    texts[4] = shape.format(98765)
    numbers = read(np.array(texts, object), np.zeros(len(texts), bool))
    plain = clean(frame.assign(a=numbers.values))
    found = clean(frame.assign(a=texts))
    assert found.mask.equals(plain.mask)
    assert found.mask.loc[4, "a"]
    expected = numbers.writing.write(plain.expected.loc[4, "a"])
    assert found.table.loc[4, "a"] == expected
    assert len(expected) < len(texts[4])


@pytest.mark.parametrize(
    "shape", ["A{}", "Room {}", "INV-{}", "+49 30 {}", "12:{}", "{}/24", "v1.{}"]
)
def test_names_with_digits_are_not_numbers(shape):
    texts = np.array([shape.format(k) for k in range(1010, 1060)], object)
    assert not read(texts, np.zeros(50, bool)).numeric


def test_two_units_in_one_column_are_left_alone():
    texts = [f"{k} {'kg' if k % 5 else 'lb'}" for k in range(50, 100)]
    assert not read(np.array(texts, object), np.zeros(50, bool)).numeric


def test_digits_of_one_length_of_which_some_begin_with_zero_are_names():
    assert are_names({"00501", "12345", "99999"})
    assert not are_names({"05", "12", "23"})
    assert not are_names({"0123", "12345", "7"})
