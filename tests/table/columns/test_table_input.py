"""clean(): containers and column types are preserved, other input is refused."""

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from discrepant import InputError, clean
from support.tables import correlated, corrupted, frame_of

DATA, WRONG = corrupted()


class TestContainers:
    def test_array(self):
        before = DATA.copy()
        result = clean(DATA)
        assert isinstance(result.table, np.ndarray)
        mask = result.mask.to_numpy()
        np.testing.assert_array_equal(result.table[~mask], before[~mask])
        np.testing.assert_array_equal(DATA, before)
        assert not (result.table[mask] == before[mask]).any()

    def test_float32_stays(self):
        result = clean(DATA.astype(np.float32))
        assert result.table.dtype == np.float32

    def test_integers_stay(self):
        result = clean(np.round(10 * DATA).astype(np.int16))
        assert result.table.dtype == np.int16
        assert result.mask.to_numpy().any()

    def test_lists(self):
        rows = np.round(DATA, 3).tolist()
        result = clean(rows)
        assert isinstance(result.table, pd.DataFrame)
        np.testing.assert_array_equal(result.table == np.array(rows), ~result.replaced)

    def test_masked_arrays(self):
        gaps = np.zeros(DATA.shape, bool)
        gaps[::7, 1] = True
        masked = np.ma.masked_array(np.where(gaps, 1e9, DATA), gaps)
        result = clean(masked)
        plain = clean(np.where(gaps, np.nan, DATA))
        np.testing.assert_array_equal(result.mask, plain.mask)

    def test_arrays_of_objects(self):
        mixed = DATA.astype(object)
        mixed[3, 0] = "n/a"
        result = clean(mixed)
        assert result.table.dtype == object
        assert result.table[3, 0] == "n/a"

    def test_read_only(self):
        table = DATA.copy()
        table.flags.writeable = False
        assert clean(table).mask.to_numpy().any()

    def test_polars(self):
        polars = pytest.importorskip("polars")
        table = polars.DataFrame(frame_of(DATA).to_dict("list"))
        result = clean(table)
        assert isinstance(result.table, polars.DataFrame)
        assert result.table.schema == table.schema
        np.testing.assert_array_equal(result.mask, clean(DATA).mask)


class TestLabels:
    def test_duplicated_names(self):
        frame = pd.DataFrame(DATA, columns=list("aabbcc"))
        result = clean(frame)
        np.testing.assert_array_equal(result.mask, clean(DATA).mask)
        assert list(result.table.columns) == list("aabbcc")
        assert any("the same name" in caveat for caveat in result.caveats)

    def test_several_levels_on_both_axes(self):
        frame = pd.DataFrame(DATA)
        frame.columns = pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]])
        frame.index = pd.MultiIndex.from_product([range(30), range(10)])
        result = clean(frame)
        assert result.table.columns.equals(frame.columns)
        assert result.table.index.equals(frame.index)
        line = result.flagged.iloc[0]
        assert result.mask.loc[line["row"], line["column"]]

    def test_repeated_rows_labels(self):
        frame = frame_of(DATA)
        frame.index = [0] * len(frame)
        result = clean(frame)
        np.testing.assert_array_equal(result.mask, clean(DATA).mask)

    def test_names_of_any_type(self):
        frame = pd.DataFrame(DATA, columns=[1, "two", 3.0, None, ("f", 5), 6])
        assert clean(frame).table.columns.equals(frame.columns)

    def test_attributes_stay(self):
        frame = frame_of(DATA)
        frame.attrs["source"] = "here"
        assert clean(frame).table.attrs == {"source": "here"}


class TestColumns:
    def test_choosing(self):
        frame = frame_of(DATA)
        some = clean(frame, columns=["a", "b", "c", "d"])
        assert not some.mask[["e", "f"]].to_numpy().any()
        rest = clean(frame, drop=["e", "f"])
        np.testing.assert_array_equal(some.mask, rest.mask)
        assert rest.columns[5].role == "set aside"
        one = clean(frame, drop="f")
        assert not one.mask["f"].any()
        by_place = clean(DATA, drop=5)
        np.testing.assert_array_equal(by_place.mask, one.mask)

    def test_unknown_columns_are_refused_by_name(self):
        for option in ("columns", "drop"):
            with pytest.raises(InputError, match=f"{option}= names 'z'"):
                clean(frame_of(DATA), **{option: ["a", "z"]})
        with pytest.raises(InputError, match="no column to check"):
            clean(frame_of(DATA), drop=list("abcdef"))

    @pytest.mark.parametrize(
        "kind", ["Int64", "Float64", "Float32", "int32", "uint16", "float32"]
    )
    def test_types_of_numbers_stay(self, kind):
        frame = frame_of(DATA)
        scaled = np.round(100 * frame["a"] + 3000)
        wrong = 7
        scaled[wrong] = 60_000
        frame["a"] = scaled.astype(kind)
        if kind[0].isupper():
            frame.loc[20, "a"] = pd.NA
        result = clean(frame, fill=True)
        assert result.table["a"].dtype == frame["a"].dtype
        assert result.mask.loc[wrong, "a"]
        assert abs(result.table.loc[wrong, "a"] - 3000) < 1500
        assert not result.table["a"].isna().any()
        if "nt" in kind:
            assert result.table.loc[wrong, "a"] % 1 == 0

    @pytest.mark.parametrize("kind", ["bool", "boolean"])
    def test_booleans_stay(self, kind):
        frame = frame_of(DATA)
        frame["on"] = (frame["a"] > 0).astype(kind)
        if kind == "boolean":
            frame.loc[5, "on"] = pd.NA
        result = clean(frame, fill=True)
        assert result.table["on"].dtype == frame["on"].dtype
        assert not result.mask["on"].any()
        assert result.columns[6].role == "booleans"
        assert not result.table["on"].isna().any()

    def test_other_types_are_returned_unchanged(self):
        n = len(DATA)
        frame = frame_of(DATA)
        frame["text"] = "word"
        frame["date"] = pd.date_range("2024", periods=n, tz="UTC")
        frame["span"] = pd.to_timedelta(np.arange(n), unit="s")
        frame["period"] = pd.period_range("2024", periods=n, freq="D")
        frame["level"] = pd.Categorical(np.arange(n) % 3)
        frame["day"] = [datetime.date(2024, 1, 1 + i % 28) for i in range(n)]
        frame["iso"] = [f"2024-01-{1 + i % 28:02d}" for i in range(n)]
        frame["code"] = [f"{i:05d}" for i in range(n)]
        frame["complex"] = 1j * np.arange(n)
        frame["things"] = [[i] for i in range(n)]
        result = clean(frame)
        roles = {report.name: report.role for report in result.columns}
        assert roles["text"] == roles["code"] == roles["things"] == "text"
        assert roles["date"] == roles["period"] == roles["day"] == "dates"
        assert roles["iso"] == "dates"
        assert roles["span"] == "durations"
        assert roles["level"] == "categories"
        assert roles["complex"] == "other"
        others = frame.columns[6:]
        pd.testing.assert_frame_equal(result.table[others], frame[others])
        np.testing.assert_array_equal(result.mask.iloc[:, :6], clean(DATA).mask)

    @pytest.mark.parametrize(
        "identifier",
        [
            np.arange(300) + 1000,
            np.random.default_rng(0).permutation(300),
            0.1 * np.arange(300),
            np.arange(300)[::-1] * 7,
        ],
        ids=["rising", "shuffled", "ticks", "falling"],
    )
    def test_identifiers_are_not_checked(self, identifier):
        frame = frame_of(DATA).assign(which=identifier)
        result = clean(frame)
        assert result.columns[-1].role == "identifier"
        assert any("'which'" in caveat for caveat in result.caveats)

    def test_identifiers_by_name(self):
        numbers = np.random.default_rng(0).integers(10**6, 10**8, 300)
        result = clean(frame_of(DATA).assign(patient_id=numbers))
        assert result.columns[-1].role == "identifier"

    def test_constants(self):
        frame = frame_of(DATA).assign(same=7.0, nearly=0.0, gaps=np.nan)
        frame.loc[3, "nearly"] = 1e-3
        frame.loc[4, "same"] = np.nan
        result = clean(frame)
        assert [report.role for report in result.columns[6:]] == [
            *("constant", "constant", "empty"),
        ]
        np.testing.assert_array_equal(result.mask.iloc[:, :6], clean(DATA).mask)
        assert clean(frame, fill=True).table.loc[4, "same"] == 7

    def test_infinities_are_flagged(self):
        table = correlated()
        table[2, 2], table[5, 1] = np.inf, -np.inf
        result = clean(table)
        assert result.mask.iloc[2, 2]
        assert result.mask.iloc[5, 1]
        assert np.isfinite(result.table).all()

    def test_huge_values_are_flagged(self):
        table = correlated()
        table[2, 2] = 1e300
        result = clean(table)
        assert np.argwhere(result.mask).tolist() == [[2, 2]]
        assert abs(result.table[2, 2]) < 10

    def test_many_gaps(self):
        table = correlated()
        table[np.random.default_rng(0).random(table.shape) < 0.4] = np.nan
        table[:5] = np.nan
        assert clean(table).mask.to_numpy().mean() < 0.005

    def test_columns_that_are_sums_or_copies_of_others(self):
        table = correlated()
        table = np.column_stack([table, table[:, 0], 2 * table[:, 1] + table[:, 2]])
        assert clean(table).mask.to_numpy().mean() < 0.005


def test_columns_at_the_end_of_the_floats():
    with pytest.raises(InputError, match="Column 2 holds values beyond 1e"):
        clean(np.where(np.arange(6) == 2, np.sign(DATA) * 1.7e308, DATA))
    wild = np.sign(DATA[:, 0]) * 10 ** np.linspace(-300, 300, len(DATA))
    assert np.isfinite(clean(np.column_stack([DATA, wild])).table).all()


def bad_tables():
    yield np.zeros((0, 3))
    yield pd.DataFrame()
    yield pd.DataFrame({"a": []})
    yield np.ones((1, 4))
    yield np.ones(5)
    yield np.ones((2, 3, 4))
    yield []
    yield [1, 2, 3]
    yield [[1, 2], [3]]
    yield np.zeros(3, [("a", float), ("b", int)])
    yield np.ones((3, 3), complex)
    yield pd.DataFrame({"a": ["x", "y"], "b": pd.to_datetime(["2024", "2025"])})
    yield np.full((20, 3), np.nan)
    yield pd.DataFrame({"a": [None, None]})
    yield scipy.sparse.eye(5)
    yield {"a": [1, 2]}
    yield "table.csv"
    yield None
    yield 3


@pytest.mark.parametrize("number", range(len(list(bad_tables()))))
def test_invalid_tables_are_refused_in_one_sentence(number):
    with pytest.raises(InputError) as caught:
        clean(list(bad_tables())[number])
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("shape", "phrase"),
    [
        ((2, 3), "too few"),
        ((9, 4), "too few"),
        ((50, 1), "one column"),
        ((12, 3), "few"),
    ],
)
def test_small_tables_get_a_caveat(shape, phrase):
    result = clean(np.random.default_rng(0).normal(size=shape))
    assert not result.mask.to_numpy().any()
    assert any(phrase in caveat for caveat in result.caveats)


def test_constant_tables_get_a_caveat():
    result = clean(np.ones((50, 4)))
    assert not result.mask.to_numpy().any()
    assert any("varies" in caveat for caveat in result.caveats)
