"""clean: wrong cells by the company they keep, and the laws of what comes out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from discrepant import Cleaner, InputError, clean
from discrepant.core.progress import StoppedError
from discrepant.table import build_result as verdict
from discrepant.table.columns.table_output import as_type
from discrepant.table.example_data import CHANNELS, sensor_table
from discrepant.table.model.calibration import cutoff
from discrepant.table.report.view import View
from support.tables import correlated, sensors, spoilt


@pytest.fixture(scope="module")
def table():
    return sensors()


@pytest.fixture(scope="module")
def found(table):
    return clean(table[0])


def test_sensors_are_flagged_rightly_and_completely(table, found):
    _, wrong, _, _ = table
    flagged = found.mask.filter(like="sensor").to_numpy()
    assert (flagged & wrong).sum() >= 0.95 * flagged.sum()
    assert (flagged & wrong).sum() >= 0.95 * wrong.sum()
    assert not found.mask[["time", "reading", "station"]].to_numpy().any()


@pytest.mark.parametrize("seed", range(20, 23))
def test_a_short_table_of_sensors(seed):
    frame, wrong = sensor_table(300, seed)
    found = clean(frame)
    flagged = found.mask.to_numpy()
    assert (flagged & wrong).sum() >= 0.95 * flagged.sum()
    assert (flagged & wrong).sum() >= 0.95 * wrong.sum()
    made = [channel[2] for channel in CHANNELS.values()]
    assert np.median(found.noise.to_numpy()[3:] / made) < 1.6


def test_what_is_flagged_is_mended(table, found):
    frame, wrong, _, right = table
    both = found.mask.filter(like="sensor").to_numpy() & wrong
    away = found.table.filter(like="sensor").to_numpy() - right
    before = frame.filter(like="sensor").to_numpy() - right
    spread = right.std(axis=0) * np.ones(right.shape)
    size = np.sqrt(np.mean((away / spread)[both] ** 2))
    assert size < 0.15 * np.sqrt(np.mean((before / spread)[both] ** 2))


def test_noise_is_the_spread_around_what_is_expected(table, found):
    frame, wrong, _, _ = table
    for k, name in enumerate(frame.filter(like="sensor")):
        away = (frame[name] - found.expected[name])[~wrong[:, k]]
        assert 0.7 < found.noise[name] / away.std() < 1.2
    assert np.isnan(found.noise["time"])
    assert found.rank == 3


def test_columns_and_caveats_say_what_was_set_aside(found):
    roles = {report.name: report.role for report in found.columns}
    assert roles["reading"] == "identifier"
    assert roles["time"] == "dates"
    assert roles["station"] == "text"
    assert roles["sensor_0"] == "numbers"
    assert any("'reading'" in caveat for caveat in found.caveats)
    assert sum(report.flagged for report in found.columns) == len(found.flagged)
    assert "flagged" in str(found)
    assert "flagged" in repr(found)


def test_flagged_is_the_mask_as_a_list(table, found):
    frame = table[0]
    listed = found.flagged
    assert list(listed.columns) == [
        *("row", "column", "value", "expected", "low", "high", "score", "probability"),
    ]
    assert len(listed) == found.mask.to_numpy().sum()
    assert listed["probability"].is_monotonic_decreasing
    assert listed["probability"].between(0.5, 1).all()
    assert (listed["low"] <= listed["expected"]).all()
    assert (listed["expected"] <= listed["high"]).all()
    for line in listed.itertuples():
        assert found.mask.loc[line.row, line.column]
        assert frame.loc[line.row, line.column] == line.value
        assert found.table.loc[line.row, line.column] == line.expected


def test_intervals_hold_what_they_should(table, found):
    _, wrong, _, right = table
    inside = []
    for line in found.flagged.itertuples():
        column = int(line.column[-1])
        if wrong[line.row, column]:
            inside.append(line.low <= right[line.row, column] <= line.high)
    assert np.mean(inside) > 0.85  # the sensors are not normal


def test_what_is_not_flagged_is_the_input_bit_for_bit(table, found):
    frame = table[0]
    assert found.table.dtypes.equals(frame.dtypes)
    assert found.table.index.equals(frame.index)
    assert found.table.columns.equals(frame.columns)
    kept = ~found.mask
    pd.testing.assert_frame_equal(found.table.where(kept), frame.where(kept))


def test_gaps_are_filled_only_if_asked(table, found):
    frame, _, gaps, right = table
    assert found.table.filter(like="sensor").isna().to_numpy().sum() == gaps.sum()
    filled = clean(frame, fill=True).table.filter(like="sensor").to_numpy()
    assert np.isfinite(filled).all()
    missed = ((filled - right) / right.std(axis=0))[gaps]
    assert np.sqrt(np.mean(missed**2)) < 0.3


def test_gaps_of_a_lopsided_column_are_filled_around_its_mean():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=(400, 3)), rng.exponential(size=400)])
    table[::4, 3] = np.nan
    filled = clean(table, fill=True).table[::4, 3]
    assert abs(filled.mean() - np.nanmean(table[:, 3])) < 0.2


def test_of_a_large_table_all_cells_are_judged_again(table, found, monkeypatch):
    monkeypatch.setattr(verdict, "TUNING", replace(verdict.TUNING, kept=0))
    again = clean(table[0])
    pd.testing.assert_frame_equal(again.table, found.table)
    pd.testing.assert_frame_equal(again.flagged, found.flagged)
    pd.testing.assert_frame_equal(again.expected, found.expected)
    pd.testing.assert_frame_equal(again.scores, found.scores)


def test_the_input_is_not_changed(table):
    frame = table[0]
    before = frame.copy()
    clean(frame, fill=True)
    pd.testing.assert_frame_equal(frame, before)


def test_probability_and_expected_have_the_tables_labels(table, found):
    frame = table[0]
    for part in (found.mask, found.expected, found.probability):
        assert part.shape == frame.shape
        assert part.index.equals(frame.index)
        assert part.columns.equals(frame.columns)
    sensor = found.probability.filter(like="sensor")
    assert sensor.isna().equals(frame.filter(like="sensor").isna())


@pytest.mark.parametrize("seed", range(3))
def test_nothing_wrong_nothing_flagged(seed):
    assert clean(correlated(seed=seed)).mask.to_numpy().mean() <= 0.002


@pytest.mark.parametrize("loader", ["iris", "wine", "breast_cancer", "diabetes"])
def test_real_tables_as_they_are(loader):
    import sklearn.datasets

    table = getattr(sklearn.datasets, f"load_{loader}")(as_frame=True).data
    assert clean(table).mask.to_numpy().mean() <= 0.02


class TestLaws:
    data, wrong = spoilt()

    def flags(self, table, **options):
        return clean(table, **options).mask.to_numpy()

    def test_errors_are_found(self):
        flagged = self.flags(self.data)
        assert (flagged & self.wrong).sum() >= 14
        assert (flagged & ~self.wrong).sum() <= 1

    def test_the_order_of_rows_does_not_matter(self):
        order = np.random.default_rng(0).permutation(len(self.data))
        moved = self.flags(self.data[order])
        np.testing.assert_array_equal(moved, self.flags(self.data)[order])

    def test_the_order_of_columns_does_not_matter(self):
        order = [3, 0, 5, 1, 4, 2]
        moved = self.flags(self.data[:, order])
        np.testing.assert_array_equal(moved, self.flags(self.data)[:, order])

    def test_units_and_offsets_do_not_matter(self):
        scale = np.array([1e-9, 0.3, -7.0, 1e6, 12.0, 1e3])
        offset = np.array([0.0, -4.0, 1e3, -1e7, 0.0, 1e5])
        moved = self.flags(self.data * scale + offset)
        np.testing.assert_array_equal(moved, self.flags(self.data))

    def test_the_same_seed_gives_the_same(self):
        one, two = (clean(self.data, random_state=3) for _ in range(2))
        np.testing.assert_array_equal(one.table, two.table)
        np.testing.assert_array_equal(one.scores, two.scores)

    def test_a_larger_rate_flags_no_less(self):
        few, many = (self.flags(self.data, fdr=fdr) for fdr in (1e-6, 0.2))
        assert not (few & ~many).any()

    def test_the_rate_goes_beyond_the_sure_cells(self):
        noisy = self.data + np.random.default_rng(1).normal(size=self.data.shape)
        few, many = (self.flags(noisy, fdr=fdr).sum() for fdr in (0.01, 0.2))
        assert few < many

    def test_cleaning_twice_finds_little_more(self):
        once = clean(self.data).table
        assert self.flags(once).sum() <= 2


def test_independent_columns_are_said_to_be():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 6))
    table[4, 2], table[9, 0] = 30, -25
    found = clean(table)
    assert np.argwhere(found.mask.to_numpy()).tolist() == [[4, 2], [9, 0]]
    assert any("No column says anything" in caveat for caveat in found.caveats)


@pytest.mark.parametrize("law", ["normal", "uniform", "exponential", "laplace"])
def test_independent_columns_are_not_flagged(law):
    rng = np.random.default_rng(1)
    table = getattr(rng, law)(size=(500, 8))
    assert clean(table).mask.to_numpy().mean() <= 0.005


def test_rows_wrong_from_end_to_end():
    table = correlated()
    rng = np.random.default_rng(5)
    table[[10, 50, 200]] = 8 * rng.normal(size=(3, 6))
    found = clean(pd.DataFrame(table).rename("r{}".format))
    assert {"r10", "r50", "r200"} >= set(found.rows)
    assert len(found.rows) >= 2
    assert any("end to end" in caveat for caveat in found.caveats)


def test_short_and_narrow():
    table = correlated(40, 5)
    table[3, 2] += 9
    table[9, 0] -= 9
    found = clean(table)
    assert {(3, 2), (9, 0)} <= {tuple(cell) for cell in np.argwhere(found.mask)}
    assert found.mask.to_numpy().sum() <= 3


def test_sentinels_are_codes():
    table = correlated()
    rows = np.random.default_rng(0).choice(300, 20, replace=False)
    table[rows, 1] = -999
    found = clean(table)
    assert found.columns[1].sentinels == (-999.0,)
    assert found.mask[1].to_numpy()[rows].all()
    assert found.mask.to_numpy().sum() <= 22
    assert any("-999" in caveat for caveat in found.caveats)
    assert (found.table[rows, 1] == -999).all()
    assert (np.abs(clean(table, fill=True).table[rows, 1]) < 20).all()
    cleaner = Cleaner().fit(table)
    assert (cleaner.transform(table)[rows, 1] == -999).all()
    cleaner.set_params(fill=True)
    assert (np.abs(cleaner.transform(table)[rows, 1]) < 20).all()


def test_errors_that_repeat_are_no_codes():
    table = np.column_stack([correlated(), np.arange(300) % 5 + 1.0])
    table[::30, 6] = 50
    found = clean(table)
    assert found.columns[6].sentinels == ()
    assert found.mask[6].to_numpy()[::30].all()
    assert (found.table[::30, 6] < 6).all()


def test_rain_is_no_stray():
    table = correlated()
    rng = np.random.default_rng(2)
    rain = np.where(rng.random(300) < 0.08, np.round(rng.exponential(0.1, 300), 2), 0.0)
    found = clean(np.column_stack([table, rain]))
    assert found.mask[6].sum() <= 1
    rain[5] = 40
    assert clean(np.column_stack([table, rain])).mask.loc[5, 6]


def test_a_column_that_hardly_varies_is_no_trouble():
    table = correlated(2400, 5)
    counts = np.zeros(2400)
    counts[1::40] = np.arange(60) % 12
    clean(np.column_stack([table, counts]))


def test_of_two_columns_alike_a_gap_in_one_leaves_the_other_in_peace():
    table = correlated()
    table = np.column_stack([table, table[:, 0] + 1e-3 * table[:, 1]])
    table[::9, 0] = np.nan
    assert clean(table).mask.to_numpy().mean() <= 0.002


def test_progress_is_told_and_can_stop():
    shares = []
    clean(correlated(), progress=lambda share, note: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    with pytest.raises(StoppedError):
        clean(correlated(), progress=lambda share, note: False)


@pytest.mark.parametrize("fdr", [0, 1, -0.1, "much", None, True])
def test_rates_that_are_none(fdr):
    with pytest.raises(InputError, match="fdr"):
        clean(correlated(), fdr=fdr)


@pytest.mark.slow
def test_a_million_rows():
    rng = np.random.default_rng(0)
    table = correlated(1_000_000, 10)
    wrong = rng.random(table.shape) < 0.01
    table[wrong] += 8
    flagged = clean(table).mask.to_numpy()
    assert (flagged & wrong).sum() > 0.97 * flagged.sum()
    assert (flagged & wrong).sum() > 0.95 * wrong.sum()


def test_rates_above_a_twentieth_flag_more():
    table = correlated(noise=0.3)
    rng = np.random.default_rng(3)
    wrong = rng.random(table.shape) < 0.05
    table[wrong] += rng.choice([-3, 3], wrong.sum())
    counts = [clean(table, fdr=rate).mask.to_numpy().sum() for rate in (0.05, 0.1, 0.3)]
    assert counts[0] < counts[1] < counts[2]
    kept = Cleaner(fdr=0.3).fit(table).judge(table)
    assert kept.mask.to_numpy().sum() == counts[2]


def test_a_cleaner_that_was_sure_of_nothing_still_flags_new_rows():
    assert cutoff(np.array([2.5], np.float32), 0.01) < 6


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int64", "uint64"])
def test_replacements_reach_the_ends_of_integers(kind):
    ends = np.iinfo(kind)
    beyond = np.array([ends.max, ends.min, ends.max * 2.0, ends.min - 1e19])
    expected = [ends.max, ends.min, ends.max, ends.min]
    assert as_type(beyond, np.dtype(kind)).tolist() == expected
    assert as_type(np.array([3.5, 99.7]), np.dtype(kind)).tolist() == [4, 100]


def test_rows_wrong_from_end_to_end_are_told_apart_by_place():
    table = correlated()
    table[10] = 8 * np.random.default_rng(5).normal(size=6)
    found = clean(pd.DataFrame(table, index=np.arange(300) // 2))
    assert list(found.rows) == [5]
    assert found.row_numbers.tolist() == [10]
    assert View(found).bad_rows.tolist() == [10]


def test_one_percentage_for_one_result(tmp_path):
    table = pd.DataFrame(correlated()).assign(name="x", other="y")
    table.iloc[3, 2] += 9
    found = clean(table)
    found.report(tmp_path / "report.html")
    sentence = str(found).split(". ")[0]
    assert "0.056%" in sentence  # of 1800 cells of numbers
    assert sentence in (tmp_path / "report.html").read_text("utf-8")


def test_scores_after_an_early_stop_cover_the_rows_that_the_mask_covers(monkeypatch):
    monkeypatch.setattr(verdict, "TUNING", replace(verdict.TUNING, kept=0))
    table = correlated(3000)
    table[::100, 2] += 9
    stops = iter([True, True, True, True, False])
    found = clean(table, progress=lambda share, note: next(stops, False))
    judged = np.flatnonzero(found.mask.to_numpy().any(axis=1)).max()
    scores = found.scores.to_numpy()
    assert judged < 2900
    assert (scores[2900:] == -50).all()
    assert found.expected.iloc[2900:].isna().all(axis=None)
    assert (found.mask.to_numpy() <= (scores > 0)).all()


@pytest.mark.parametrize(
    ("name", "low", "high", "distinct"),
    [
        *[("zip", 1001, 99950, 60), ("postal_code", 10115, 99998, 80)],
        *[("CustomerID", 1, 40, 40), ("phone number", 2_000_000, 9_999_999, 250)],
        *[("calls", 2_012_000_000, 9_899_999_999, 300), (3, 10**12, 10**13, 90)],
    ],
)
def test_numbers_that_name_something_are_set_aside(name, low, high, distinct):
    rng = np.random.default_rng(0)
    names = rng.choice(rng.integers(low, high, distinct), 300)
    names[:2] = low, high - 1
    table = pd.DataFrame(correlated())
    table.insert(0, name if isinstance(name, str) else "x", names)
    found = clean(table)
    assert found.columns[0].role == "identifier"
    assert found.table.iloc[:, 0].equals(table.iloc[:, 0])
    assert any("identifier" in caveat for caveat in found.caveats)


@pytest.mark.parametrize(
    ("name", "unit", "offset"),
    [
        *[("income", 9000, 45_000), ("pressure", 12, 1013), ("year", 8, 1990)],
        *[("population", 2e6, 9e6), ("volume", 2e9, 9.5e9), ("post", 10, 50)],
        *[("phones", 2, 5), ("grid", 30, 400), ("zipped", 500, 4000)],
    ],
)
def test_whole_measurements_are_analysed(name, unit, offset):
    values = np.round(offset + unit * correlated()[:, 0])
    if name == "volume":
        values = np.round(values, -6)
    table = pd.DataFrame(correlated()).assign(**{name: values})
    table.loc[7, name] = offset + 12 * unit
    found = clean(table)
    assert found.columns[-1].role == "numbers"
    assert found.mask.loc[7, name]
