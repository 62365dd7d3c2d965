"""clean(): flags, replacements and summaries, and the laws that results obey."""

import numpy as np
import pandas as pd
import pytest

from discrepant import Cleaner, InputError, clean
from discrepant.cell_model.calibration import fdr_threshold
from discrepant.core.progress import StoppedError
from discrepant.table.columns.table_output import as_type
from discrepant.table.example_data import CHANNELS, sensor_table
from discrepant.table.model import score
from discrepant.table.report.view import View
from support.tables import correlated, corrupted, sensors


@pytest.fixture(scope="module")
def table():
    return sensors()


@pytest.fixture(scope="module")
def result(table):
    return clean(table[0])


def test_errors_of_sensors_are_flagged_with_high_precision_and_recall(table, result):
    _, wrong, _, _ = table
    flagged = result.mask.filter(like="sensor").to_numpy()
    assert (flagged & wrong).sum() >= 0.95 * flagged.sum()
    assert (flagged & wrong).sum() >= 0.95 * wrong.sum()
    assert not result.mask[["time", "reading", "station"]].to_numpy().any()


@pytest.mark.parametrize("seed", range(20, 23))
def test_errors_in_a_short_sensor_table(seed):
    frame, wrong = sensor_table(300, seed)
    result = clean(frame)
    flagged = result.mask.to_numpy()
    assert (flagged & wrong).sum() >= 0.95 * flagged.sum()
    assert (flagged & wrong).sum() >= 0.95 * wrong.sum()
    noise = [channel[2] for channel in CHANNELS.values()]
    assert np.median(result.noise.to_numpy()[3:] / noise) < 1.6


def test_replacements_are_close_to_the_true_values(table, result):
    frame, wrong, _, right = table
    both = result.mask.filter(like="sensor").to_numpy() & wrong
    away = result.table.filter(like="sensor").to_numpy() - right
    before = frame.filter(like="sensor").to_numpy() - right
    spread = right.std(axis=0) * np.ones(right.shape)
    size = np.sqrt(np.mean((away / spread)[both] ** 2))
    assert size < 0.15 * np.sqrt(np.mean((before / spread)[both] ** 2))


def test_noise_is_the_standard_deviation_of_clean_residuals(table, result):
    frame, wrong, _, _ = table
    for k, name in enumerate(frame.filter(like="sensor")):
        away = (frame[name] - result.expected[name])[~wrong[:, k]]
        assert 0.7 < result.noise[name] / away.std() < 1.2
    assert np.isnan(result.noise["time"])
    assert result.rank == 3


def test_columns_and_caveats_name_unchecked_columns(result):
    roles = {report.name: report.role for report in result.columns}
    assert roles["reading"] == "identifier"
    assert roles["time"] == "dates"
    assert roles["station"] == "text"
    assert roles["sensor_0"] == "numbers"
    assert any("'reading'" in caveat for caveat in result.caveats)
    assert sum(report.flagged for report in result.columns) == len(result.flagged)
    assert "flagged" in str(result)
    assert "flagged" in repr(result)


def test_flagged_lists_the_cells_of_the_mask(table, result):
    frame = table[0]
    listed = result.flagged
    assert list(listed.columns) == [
        *("row", "column", "value", "expected", "low", "high", "score", "probability"),
        "kind",
    ]
    assert len(listed) == result.mask.to_numpy().sum()
    assert listed["probability"].is_monotonic_decreasing
    assert listed["probability"].between(0.5, 1).all()
    assert (listed["low"] <= listed["expected"]).all()
    assert (listed["expected"] <= listed["high"]).all()
    for line in listed.itertuples():
        assert result.mask.loc[line.row, line.column]
        assert frame.loc[line.row, line.column] == line.value
        assert result.table.loc[line.row, line.column] == line.expected


def test_intervals_contain_the_true_values(table, result):
    _, wrong, _, right = table
    inside = []
    for line in result.flagged.itertuples():
        column = int(line.column[-1])
        if wrong[line.row, column]:
            inside.append(line.low <= right[line.row, column] <= line.high)
    assert np.mean(inside) > 0.85  # the sensors are not normal


def test_unflagged_cells_are_unchanged(table, result):
    frame = table[0]
    assert result.table.dtypes.equals(frame.dtypes)
    assert result.table.index.equals(frame.index)
    assert result.table.columns.equals(frame.columns)
    kept = ~result.mask
    pd.testing.assert_frame_equal(result.table.where(kept), frame.where(kept))


def test_missing_cells_are_imputed_only_with_fill(table, result):
    frame, _, gaps, right = table
    assert result.table.filter(like="sensor").isna().to_numpy().sum() == gaps.sum()
    filled = clean(frame, fill=True).table.filter(like="sensor").to_numpy()
    assert np.isfinite(filled).all()
    missed = ((filled - right) / right.std(axis=0))[gaps]
    assert np.sqrt(np.mean(missed**2)) < 0.3


def test_imputations_of_a_skewed_column_have_its_mean():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=(400, 3)), rng.exponential(size=400)])
    table[::4, 3] = np.nan
    filled = clean(table, fill=True).table[::4, 3]
    assert abs(filled.mean() - np.nanmean(table[:, 3])) < 0.2


def test_scores_of_a_large_table_are_computed_on_demand(table, result, monkeypatch):
    monkeypatch.setattr(score, "MAX_STORED_CELLS", 0)
    again = clean(table[0])
    pd.testing.assert_frame_equal(again.table, result.table)
    pd.testing.assert_frame_equal(again.flagged, result.flagged)
    pd.testing.assert_frame_equal(again.expected, result.expected)
    pd.testing.assert_frame_equal(again.scores, result.scores)


def test_the_input_is_not_changed(table):
    frame = table[0]
    before = frame.copy()
    clean(frame, fill=True)
    pd.testing.assert_frame_equal(frame, before)


def test_probability_and_expected_have_the_labels_of_the_table(table, result):
    frame = table[0]
    for part in (result.mask, result.expected, result.probability):
        assert part.shape == frame.shape
        assert part.index.equals(frame.index)
        assert part.columns.equals(frame.columns)
    sensor = result.probability.filter(like="sensor")
    assert sensor.isna().equals(frame.filter(like="sensor").isna())


@pytest.mark.parametrize("seed", range(3))
def test_uncorrupted_tables_have_hardly_any_flags(seed):
    assert clean(correlated(seed=seed)).mask.to_numpy().mean() <= 0.002


@pytest.mark.parametrize("loader", ["iris", "wine", "breast_cancer", "diabetes"])
def test_real_tables_have_few_flags(loader):
    import sklearn.datasets

    table = getattr(sklearn.datasets, f"load_{loader}")(as_frame=True).data
    assert clean(table).mask.to_numpy().mean() <= 0.02


class TestLaws:
    data, wrong = corrupted()

    def flags(self, table, **options):
        return clean(table, **options).mask.to_numpy()

    def test_gross_errors_are_flagged(self):
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

    def test_a_larger_rate_flags_uncertain_cells(self):
        noisy = self.data + np.random.default_rng(1).normal(size=self.data.shape)
        few, many = (self.flags(noisy, fdr=fdr).sum() for fdr in (0.01, 0.2))
        assert few < many

    def test_cleaning_again_flags_hardly_more(self):
        once = clean(self.data).table
        assert self.flags(once).sum() <= 2


def test_independent_columns_get_a_caveat():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 6))
    table[4, 2], table[9, 0] = 30, -25
    result = clean(table)
    assert np.argwhere(result.mask.to_numpy()).tolist() == [[4, 2], [9, 0]]
    assert any("No column predicts another" in caveat for caveat in result.caveats)


@pytest.mark.parametrize("law", ["normal", "uniform", "exponential", "laplace"])
def test_independent_columns_are_not_flagged(law):
    rng = np.random.default_rng(1)
    table = getattr(rng, law)(size=(500, 8))
    assert clean(table).mask.to_numpy().mean() <= 0.005


def test_rows_that_are_wrong_as_a_whole():
    table = correlated()
    rng = np.random.default_rng(5)
    table[[10, 50, 200]] = 8 * rng.normal(size=(3, 6))
    result = clean(pd.DataFrame(table).rename("r{}".format))
    assert {"r10", "r50", "r200"} >= set(result.bad_rows)
    assert len(result.bad_rows) >= 2
    assert any("as a whole" in caveat for caveat in result.caveats)


def test_forty_rows_and_five_columns():
    table = correlated(40, 5)
    table[3, 2] += 9
    table[9, 0] -= 9
    result = clean(table)
    assert {(3, 2), (9, 0)} <= {tuple(cell) for cell in np.argwhere(result.mask)}
    assert result.mask.to_numpy().sum() <= 3


def test_missing_value_codes_are_flagged_and_replaced_only_with_fill():
    table = correlated()
    rows = np.random.default_rng(0).choice(300, 20, replace=False)
    table[rows, 1] = -999
    result = clean(table)
    assert result.columns[1].sentinels == (-999.0,)
    assert result.mask[1].to_numpy()[rows].all()
    assert result.mask.to_numpy().sum() <= 22
    assert any("-999" in caveat for caveat in result.caveats)
    assert (result.table[rows, 1] == -999).all()
    assert (np.abs(clean(table, fill=True).table[rows, 1]) < 20).all()
    cleaner = Cleaner().fit(table)
    assert (cleaner.transform(table)[rows, 1] == -999).all()
    cleaner.set_params(fill=True)
    assert (np.abs(cleaner.transform(table)[rows, 1]) < 20).all()


def test_repeated_errors_are_not_missing_value_codes():
    table = np.column_stack([correlated(), np.arange(300) % 5 + 1.0])
    table[::30, 6] = 50
    result = clean(table)
    assert result.columns[6].sentinels == ()
    assert result.mask[6].to_numpy()[::30].all()
    assert (result.table[::30, 6] < 6).all()


def test_rare_nonzero_values_are_valid():
    table = correlated()
    rng = np.random.default_rng(2)
    rain = np.where(rng.random(300) < 0.08, np.round(rng.exponential(0.1, 300), 2), 0.0)
    result = clean(np.column_stack([table, rain]))
    assert result.mask[6].sum() <= 1
    rain[5] = 40
    assert clean(np.column_stack([table, rain])).mask.loc[5, 6]


def test_gross_values_beside_a_point_mass_are_flagged():
    rng = np.random.default_rng(0)
    X = correlated(1500, 5, seed=0)
    X[:, 4] = np.where(rng.random(1500) < 0.93, 0.0, np.exp(X[:, 4]))  # rain
    X[[7, 300], 4] = 400.0, -50.0
    result = clean(X, order=None)
    assert result.mask.to_numpy()[[7, 300], 4].all()
    assert result.mask.to_numpy().sum() <= 5


def test_a_nearly_constant_column_is_not_flagged():
    table = correlated(2400, 5)
    counts = np.zeros(2400)
    counts[1::40] = np.arange(60) % 12
    result = clean(np.column_stack([table, counts]))
    assert result.mask.to_numpy().mean() <= 0.002


def test_a_gap_in_one_of_two_equal_columns_does_not_flag_the_other():
    table = correlated()
    table = np.column_stack([table, table[:, 0] + 1e-3 * table[:, 1]])
    table[::9, 0] = np.nan
    assert clean(table).mask.to_numpy().mean() <= 0.002


def test_progress_is_reported_and_can_stop():
    fractions = []
    clean(correlated(), progress=lambda fraction, note: fractions.append(fraction))
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    with pytest.raises(StoppedError):
        clean(correlated(), progress=lambda fraction, note: False)


@pytest.mark.parametrize("fdr", [0, 1, -0.1, "much", None, True])
def test_invalid_rates_are_refused(fdr):
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
    kept = Cleaner(fdr=0.3).fit(table).clean(table)
    assert kept.mask.to_numpy().sum() == counts[2]


def test_a_table_without_flags_leaves_a_threshold_for_new_rows():
    assert fdr_threshold(np.array([2.5], np.float32), 0.01) < 6


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int64", "uint64"])
def test_replacements_reach_the_ends_of_integers(kind):
    ends = np.iinfo(kind)
    beyond = np.array([ends.max, ends.min, ends.max * 2.0, ends.min - 1e19])
    expected = [ends.max, ends.min, ends.max, ends.min]
    assert as_type(beyond, np.dtype(kind)).tolist() == expected
    assert as_type(np.array([3.5, 99.7]), np.dtype(kind)).tolist() == [4, 100]


def test_bad_rows_with_repeated_labels_are_given_by_position():
    table = correlated()
    table[10] = 8 * np.random.default_rng(5).normal(size=6)
    result = clean(pd.DataFrame(table, index=np.arange(300) // 2))
    assert list(result.bad_rows) == [5]
    assert result.row_numbers.tolist() == [10]
    assert View(result).bad_rows.tolist() == [10]


def test_one_percentage_for_one_result(tmp_path):
    table = pd.DataFrame(correlated()).assign(name="x", other="y")
    table.iloc[3, 2] += 9
    result = clean(table)
    result.report(tmp_path / "report.html")
    sentence = str(result).split(". ")[0]
    assert "0.056%" in sentence  # of 1800 cells of numbers
    assert sentence in (tmp_path / "report.html").read_text("utf-8")


def test_scores_after_an_early_stop_cover_the_rows_that_the_mask_covers(monkeypatch):
    monkeypatch.setattr(score, "MAX_STORED_CELLS", 0)
    table = correlated(3000)
    table[::100, 2] += 9
    stops = iter([True, True, True, True, False])
    result = clean(table, progress=lambda fraction, note: next(stops, False))
    last = np.flatnonzero(result.mask.to_numpy().any(axis=1)).max()
    scores = result.scores.to_numpy()
    assert last < 2900
    assert (scores[2900:] == -50).all()
    assert result.expected.iloc[2900:].isna().all(axis=None)
    assert (result.mask.to_numpy() <= (scores > 0)).all()


@pytest.mark.parametrize(
    ("name", "low", "high", "distinct"),
    [
        *[("zip", 1001, 99950, 60), ("postal_code", 10115, 99998, 80)],
        *[("CustomerID", 1, 40, 40), ("phone number", 2_000_000, 9_999_999, 250)],
        *[("calls", 2_012_000_000, 9_899_999_999, 300), (3, 10**12, 10**13, 90)],
        *[("town", 10_001, 99_950, 60), ("product", 1_000, 9_999, 40)],
    ],
)
def test_codes_are_identifiers(name, low, high, distinct):
    rng = np.random.default_rng(0)
    names = rng.choice(rng.integers(low, high, distinct), 300)
    names[:2] = low, high - 1
    table = pd.DataFrame(correlated())
    table.insert(0, name if isinstance(name, str) else "x", names)
    result = clean(table)
    assert result.columns[0].role == "identifier"
    assert result.table.iloc[:, 0].equals(table.iloc[:, 0])
    assert any("identifier" in caveat for caveat in result.caveats)


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
    result = clean(table)
    assert result.columns[-1].role == "numbers"
    assert result.mask.loc[7, name]


def test_facts_about_groups_are_analysed():
    table = pd.DataFrame(correlated(400, 5))
    group = np.round(40 * table[0].rank(pct=True))
    table["income"] = np.round(
        45_321 + 9000 * table[0].groupby(group).transform("mean")
    )
    table.loc[7, "income"] = 99_559
    result = clean(table)
    assert result.columns[-1].role == "numbers"
    assert result.mask.loc[7, "income"]


def test_row_scores_rank_rows_of_another_population():
    table = correlated(400, 8)
    rng = np.random.default_rng(1)
    table[:20] = rng.normal(size=(20, 8)) * table.std(axis=0)  # without correlation
    result = clean(pd.DataFrame(table).rename("r{}".format))
    score = result.row_score
    assert list(score.index[:2]) == ["r0", "r1"]
    others = np.sort(score.to_numpy()[20:])
    assert np.mean(score.to_numpy()[:20] > others[int(0.95 * len(others))]) > 0.9


def test_row_scores_ignore_missing_cells_and_text():
    table = pd.DataFrame(correlated()).assign(name="x")
    table.iloc[3, :6] = np.nan
    score = clean(table).row_score
    assert score[3] == 0
    assert np.isfinite(score).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_intervals_of_a_positive_column_are_not_negative(sign):
    table = correlated()
    price = np.abs(table[:, 0]) + 0.1 * np.abs(table[:, 1])
    table = np.column_stack([table, sign * price])
    table[::25, 6] = sign * 40
    flagged = clean(table).flagged
    prices = flagged[flagged["column"] == 6]
    assert len(prices) >= 10
    assert (sign * prices[["low", "expected", "high"]] >= 0).all(axis=None)


def test_likely_cells_are_replaced_and_not_flagged():
    rng = np.random.default_rng(1)
    table = np.exp(rng.normal(size=(400, 1)) + 0.4 * rng.normal(size=(400, 4)))
    rows, columns = rng.permutation(400)[:40], rng.integers(0, 4, 40)
    table[rows, columns] *= 10
    plain, likely = clean(table, replace="flagged"), clean(table)
    pd.testing.assert_frame_equal(likely.mask, plain.mask)
    pd.testing.assert_frame_equal(likely.flagged, plain.flagged)
    extra = likely.replaced.to_numpy() & ~plain.replaced.to_numpy()
    assert extra.sum() > 0
    assert (likely.probability.to_numpy()[extra] > 1 / 3).all()
    assert f"{extra.sum()} more cell" in likely.summary()
    kept = ~likely.replaced.to_numpy()
    np.testing.assert_array_equal(likely.table[kept], table[kept])
    assert (likely.table[extra] == likely.expected.to_numpy()[extra]).all()
    pd.testing.assert_frame_equal(plain.replaced, plain.mask)


def test_an_unknown_rule_of_replacement_is_refused():
    with pytest.raises(InputError, match="replace"):
        clean(correlated(), replace="all")


@pytest.mark.parametrize("fraction", [0.05, 0.15, 0.25])
def test_a_stuck_column_is_blamed_itself(fraction):
    table = pd.DataFrame(correlated(500, 5), columns=list("abcde"))
    stuck = np.zeros(table.shape, bool)
    rows = np.random.default_rng(1).permutation(500)[: int(500 * fraction)]
    stuck[rows, 2] = True
    table.iloc[rows, 2] = table["c"].median()
    result = clean(table)
    found = result.mask.to_numpy()
    assert found[stuck].all()
    assert found[~stuck].sum() <= 2
    assert any(f"{len(rows)} cells of 'c' equal" in text for text in result.caveats)


@pytest.mark.parametrize("end", [np.min, np.max])
def test_a_column_stuck_at_an_end_of_its_range_is_blamed_itself(end):
    table = correlated(500, 5) + 20
    rows = np.random.default_rng(1).permutation(500)[:75]
    table[rows, 2] = end(table[:, 2])
    found = clean(table).mask.to_numpy()
    assert found[rows, 2].all()
    assert found.sum() <= 77


def test_values_at_the_end_of_a_range_are_not_stuck():
    table = correlated(500, 5)
    table[:, 2] = np.maximum(table[:, 2], np.quantile(table[:, 2], 0.2))
    result = clean(table)
    assert not result.mask[2].any()
    assert not result.caveats


@pytest.mark.parametrize("value", [0.0, 0.4])
def test_several_wrong_cells_of_a_row_compete_as_a_set(value):
    rng = np.random.default_rng(1)
    size = np.exp(0.35 * rng.normal(size=2000))
    side = 5.7 * size ** (1 / 3)
    noise = rng.normal(size=(5, 2000))
    table = pd.DataFrame(
        {
            "carat": 0.8 * size * np.exp(0.02 * noise[0]),
            "price": 3000 * size**1.7 * np.exp(0.25 * noise[1]),
            "x": side * (1 + 0.01 * noise[2]),
            "y": side * (1 + 0.01 * noise[3]),
            "z": 0.617 * side * (1 + 0.02 * noise[4]),
        }
    ).round(2)
    rows = [100, 700, 1500]
    table.loc[rows, ["x", "y", "z"]] = value
    result = clean(table)
    assert result.mask.loc[rows, ["x", "y", "z"]].all(axis=None)
    assert not result.replaced.loc[rows, ["carat", "price"]].any(axis=None)


def test_cells_ten_times_too_large_do_not_outvote_their_row():
    rng = np.random.default_rng(0)
    size = 7 + rng.normal(size=(800, 1))
    table = np.exp(size + 0.3 * rng.normal(size=(800, 8)))
    table[np.argsort(size[:, 0])[-3:], :3] *= 10
    found = clean(table).mask.to_numpy()
    rows = np.argsort(size[:, 0])[-3:]
    assert found[rows, :3].all()
    assert not found[rows, 3:].any()


def test_a_gross_cell_is_flagged_whatever_the_tail_of_its_column():
    rng = np.random.default_rng(2)
    table = 200 + 50 * correlated(600, 5)
    table[:, 1] += 24 * rng.standard_t(2, size=600)
    table[5, 1] = 3.33 * 300
    result = clean(table)
    assert result.mask.loc[5, 1]


@pytest.mark.parametrize("freedom", [2, 3, 5, 30])
def test_cells_eight_noises_off_are_flagged_in_columns_of_any_tail(freedom):
    rng = np.random.default_rng(freedom)
    level = rng.normal(size=(1000, 1))
    table = 216 + 50 * (level + 0.5 * rng.normal(size=(1000, 5)))
    table[:, 1] = 216 + 50 * level[:, 0] + 12 * rng.standard_t(freedom, size=1000)
    first = clean(table)
    rows = rng.choice(1000, 24, replace=False)
    signs = rng.choice([-1, 1], 24)
    expected = first.expected.loc[rows, 1]
    table[rows, 1] = expected + 8.5 * signs * first.noise[1]
    mask = clean(table).mask
    assert mask.loc[rows, 1].sum() >= 22
    assert mask.to_numpy().sum() <= 24 + 12


def test_repeated_errors_may_be_accompanied_by_others():
    rng = np.random.default_rng(0)
    table = correlated(600, 5) + 20
    rows = rng.permutation(600)[:30]
    table[rows[:20], 1] = 900.0
    table[rows[20:25], 1] = np.linspace(100, 700, 5)
    assert clean(table).mask.loc[rows[:25], 1].all()


def test_expected_values_lie_inside_their_intervals():
    rng = np.random.default_rng(0)
    table = np.exp(rng.normal(size=(400, 1)) + 0.3 * rng.normal(size=(400, 5)))
    table[rng.permutation(400)[:30], rng.integers(0, 5, 30)] *= 50
    flagged = clean(table).flagged
    assert len(flagged) >= 15
    assert (flagged["low"] < flagged["expected"]).all()
    assert (flagged["expected"] < flagged["high"]).all()


def test_a_frequent_natural_value_is_not_stuck():
    rng = np.random.default_rng(0)
    ability, luck = rng.normal(size=(2, 800))
    school = np.clip(np.round(12.4 + 1.6 * ability + 1.6 * luck), 5, 17)
    school[(school > 10) & (school < 14.5)] = 12  # most leave with a degree
    wage = np.exp(1 + 0.3 * ability + 0.1 * rng.normal(size=800))
    parents = 10 + 2 * ability + rng.normal(size=800)
    table = pd.DataFrame({"educ": school, "wage": wage, "parents": parents})
    assert (school == 12).mean() > 0.5
    assert clean(table).mask["educ"].sum() <= 2


@pytest.mark.parametrize("seed", [0, 4])
def test_errors_in_columns_that_determine_each_other(seed):
    rng = np.random.default_rng(seed)
    date = pd.Timestamp("2001-01-01") + pd.to_timedelta(
        rng.integers(0, 7000, 1500), unit="D"
    )
    dates = {"month": date.month, "day_of_year": date.day_of_year, "day": date.day}
    births = rng.normal(9600, 1250, 1500).round()
    table = pd.DataFrame({"births": births, **dates, "weekday": date.day_of_week + 1})
    table, wrong = table.astype(float), np.zeros((1500, 5), bool)
    rows = rng.permutation(1500)[:60]
    table.loc[rows, "births"] *= 10
    wrong[rows, 0] = True
    for j, name in enumerate(table.columns[1:], 1):
        rows = rng.permutation(1500)[:90]
        wrong[rows, j] = True
        column = table[name]
        spread = column.quantile(0.75) - column.quantile(0.25)
        uniform = (column.median() + rng.uniform(-5, 5, 45) * spread).round()
        table.loc[rows[:45], name] *= 10
        table.loc[rows[45:], name] = uniform
    mask = clean(table, order=None).mask.to_numpy()
    assert mask[wrong].mean() > 0.85
    assert mask[~wrong].mean() < 0.005
