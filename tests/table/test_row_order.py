"""clean(): errors that contradict the cells before and after them."""

import numpy as np
import pandas as pd
import pytest

from discrepant import InputError, clean
from discrepant.table.model.order_kernels import running_median
from discrepant.table.model.row_order import autocorrelation


def series(n=3000, seed=0):
    """Return three smooth columns, one of noise, and a time."""
    rng = np.random.default_rng(seed)
    time = np.arange(n)
    smooth = [
        np.sin(2 * np.pi * time / period) + 0.02 * np.cumsum(rng.normal(size=n))
        for period in (96, 150, 400)
    ]
    values = np.column_stack([*smooth, rng.normal(size=n)])
    values[:, :3] += 0.02 * rng.normal(size=(n, 3))
    table = pd.DataFrame(values, columns=["a", "b", "c", "noise"])
    table.insert(0, "time", pd.date_range("2024-01-01", periods=n, freq="h"))
    return table


def test_spikes_stuck_values_and_shifts_are_flagged():
    table = series()
    spikes = [300, 900, 2000]
    table.loc[spikes, "a"] += [0.6, -0.6, 0.8]
    table.loc[1000:1040, "b"] = table.loc[1000, "b"]
    table.loc[1500:1529, "c"] += 3.0
    result = clean(table)
    kinds = result.flagged.set_index(["row", "column"])["kind"]
    assert all(kinds.get((row, "a")) in ("spike", "level") for row in spikes)
    assert result.mask.loc[1001:1040, "b"].mean() > 0.9
    assert "stuck" in set(kinds.xs("b", level="column"))
    assert result.mask.loc[1500:1529, "c"].mean() > 0.9
    assert result.order == "by time"
    assert result.ordered_columns == ("a", "b", "c")
    wrong = np.zeros(result.mask.shape, bool)
    wrong[spikes, 1] = wrong[1000:1041, 2] = wrong[1500:1530, 3] = True
    assert (result.mask.to_numpy() & ~wrong).sum() <= 5
    replaced = result.table.loc[spikes, "a"] - series().loc[spikes, "a"]
    assert replaced.abs().max() < 0.3


def test_shuffled_rows_give_the_mask_without_order():
    table = series().drop(columns="time").sample(frac=1, random_state=0)
    table.iloc[5, 1] += 9
    result = clean(table)
    alone = clean(table, order=None)
    assert result.order == ""
    assert result.ordered_columns == ()
    pd.testing.assert_frame_equal(result.mask, alone.mask)
    pd.testing.assert_frame_equal(result.flagged, alone.flagged)


def test_rows_are_sorted_by_their_time():
    table = series()
    table.loc[700, "a"] += 0.8
    moved = table.sample(frac=1, random_state=1)
    result = clean(moved)
    assert result.order == "by time"
    assert result.mask.loc[700, "a"]
    named = clean(moved, order="time")
    pd.testing.assert_frame_equal(named.mask, result.mask)


def test_descending_order_gives_the_same_mask():
    table = series()
    table.loc[700, "a"] += 0.8
    table.loc[1000:1040, "b"] = table.loc[1000, "b"]
    down = clean(table.iloc[::-1]).mask.iloc[::-1]
    pd.testing.assert_frame_equal(clean(table).mask, down)


def test_series_are_separated_by_group():
    parts = [series(seed=k).assign(site=f"s{k}") for k in range(3)]
    table = pd.concat(parts).sort_values("time", kind="stable", ignore_index=True)
    for k in range(3):
        table.loc[table["site"] == f"s{k}", ["a", "b", "c"]] += 5.0 * k
    table.loc[4000, "b"] += 0.8
    result = clean(table)
    assert result.order == "by time within site"
    assert result.mask.loc[4000, "b"]


def test_unordered_columns_are_not_affected():
    table = series()
    alone, auto = clean(table, order=None), clean(table)
    pd.testing.assert_series_equal(auto.mask["noise"], alone.mask["noise"])


def test_natural_runs_are_not_stuck():
    table = series()
    rng = np.random.default_rng(0)
    wet = np.repeat(rng.random(150) < 0.4, 20)
    table["rain"] = np.where(wet, np.round(rng.exponential(2, 3000), 1), 0.0)
    assert clean(table).mask["rain"].sum() <= 3


def test_single_steps_are_reported_and_not_flagged():
    table = series()
    table.loc[1500:, "c"] += 5.0
    result = clean(table)
    assert any("'c'" in caveat and "1500" in caveat for caveat in result.caveats)
    assert not (result.flagged["kind"] == "shift").any()


def test_missing_cells_are_never_flagged():
    table = series()
    table.loc[1010:1015, "b"] = np.nan
    table.loc[1000:1040, "c"] += 3.0
    table.loc[1020, "c"] = np.nan
    result = clean(table)
    assert not result.mask.to_numpy()[table.isna().to_numpy()].any()


def test_scores_and_expected_agree_with_the_flags(monkeypatch):
    table = series()
    table.loc[300, "a"] += 0.6
    table.loc[1000:1040, "b"] = table.loc[1000, "b"]
    stored = clean(table)
    monkeypatch.setattr("discrepant.table.model.score.MAX_STORED_CELLS", 0)
    computed = clean(table)
    for result in (stored, computed):
        for flag in result.flagged.itertuples():
            assert result.expected.loc[flag.row, flag.column] == flag.expected
            assert result.scores.loc[flag.row, flag.column] > 0
            assert flag.low <= flag.expected <= flag.high
            assert result.table.loc[flag.row, flag.column] == flag.expected
    pd.testing.assert_frame_equal(stored.flagged, computed.flagged)


def test_an_order_that_is_no_column_is_refused():
    with pytest.raises(InputError, match="order= names 'when'"):
        clean(series(), order="when")
    table = series().assign(site="north")
    with pytest.raises(InputError, match="neither dates nor numbers"):
        clean(table, order="site")


@pytest.mark.parametrize("window", [(-9, -1), (1, 9), (0, 8), (-24, 24), (-1, 1)])
def test_running_medians_are_those_of_pandas(window):
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=400), 1)
    x[rng.random(400) < 0.2] = np.nan
    first, last = window
    expected = [
        np.nan
        if np.isfinite(part := x[max(i + first, 0) : max(i + last + 1, 0)]).sum() < 2
        else np.nanmedian(part)
        for i in range(400)
    ]
    np.testing.assert_allclose(running_median(x, first, last, 2), expected)


def test_autocorrelation_of_shuffled_ranks_is_small():
    rng = np.random.default_rng(0)
    scores = [autocorrelation(rng.permutation(np.arange(500.0)))[1] for _ in range(200)]
    assert abs(np.mean(scores)) < 0.3
    assert 0.8 < np.std(scores) < 1.2
    assert autocorrelation(np.arange(500.0))[0] > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_any_shuffle_gives_the_flags_without_order(seed):
    table = series(600, seed).drop(columns="time").sample(frac=1, random_state=seed)
    table.iloc[::50, 0] += 5
    auto, alone = clean(table), clean(table, order=None)
    pd.testing.assert_frame_equal(auto.flagged, alone.flagged)
    pd.testing.assert_frame_equal(auto.table, alone.table)


def test_rows_that_repeat_a_design_are_not_stuck():
    rng = np.random.default_rng(0)
    recipes = np.repeat(rng.normal(size=(80, 4)), rng.integers(1, 4, 80), axis=0)
    recipes[100:116] = recipes[100]
    strength = recipes.sum(axis=1) + 0.1 * rng.normal(size=len(recipes))
    result = clean(np.column_stack([recipes, strength]))
    assert "stuck" not in set(result.flagged["kind"])


def test_a_table_that_is_sorted_by_a_column_has_no_order_of_time():
    rng = np.random.default_rng(0)
    size = np.sort(np.exp(rng.normal(size=2000)))
    table = pd.DataFrame({"price": np.round(300 * size, -1)})
    for name in "abc":
        table[name] = size * np.exp(0.05 * rng.normal(size=2000))
    result = clean(pd.concat([table.iloc[:1900:3], table]))
    assert result.order == ""
    assert not result.mask.to_numpy().any()


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_cells_that_break_the_sequence_of_a_counter_are_replaced(kind):
    table = series(300)
    table.insert(1, "record", np.arange(1, 301).astype(kind))
    table.insert(2, "year", np.arange(1700, 2300, 2).astype(kind))
    wrong = table.copy()
    wrong.loc[[0, 17, 18], "record"] = [10, 1700, 2]
    wrong.loc[[40, 299], "year"] = [18800, 2000]
    result = clean(wrong)
    assert result.mask[["record", "year"]].to_numpy().sum() == 5
    pd.testing.assert_frame_equal(
        result.table[["record", "year"]], table[["record", "year"]]
    )
    assert not clean(wrong, order=None).mask[["record", "year"]].to_numpy().any()
    moved = wrong.drop(columns=["time", "year"]).sample(frac=1, random_state=0)
    assert not clean(moved).mask["record"].any()


def test_identifiers_that_do_not_count_have_no_sequence():
    rng = np.random.default_rng(0)
    table = series(600)
    table.insert(1, "key", np.cumsum(rng.integers(1, 9, 600)))
    table.insert(2, "id", rng.permutation(600))
    assert not clean(table).mask[["key", "id"]].to_numpy().any()


def test_long_runs_of_a_state_that_recurs_are_natural():
    rng = np.random.default_rng(0)
    table = series(12000)
    hour = np.arange(12000)
    weather = np.cumsum(rng.normal(size=12000)) * 0.02
    water = 3 + 6 * np.sin(2 * np.pi * hour / 9000) + 2 * np.sin(hour / 15) + weather
    table["water"] = np.round(np.maximum(water, 0.0), 1)  # ice
    frozen = (table["water"] == 0).to_numpy()
    runs = np.diff(np.flatnonzero(np.diff(frozen.astype(int), prepend=0, append=0)))
    assert runs[::2].max() > 1000
    assert clean(table).mask["water"].sum() <= 12
    table.loc[9000:9300, "water"] = table.loc[9000, "water"]
    assert clean(table).mask.loc[9001:9300, "water"].mean() > 0.9


def test_stuck_values_are_flagged_beside_coarse_columns_without_a_time():
    table = series().drop(columns="time")
    table[["a", "c"]] = np.round(table[["a", "c"]] * 20) / 20  # many repeat
    table.loc[1000:1040, "b"] = table.loc[1000, "b"]
    result = clean(table)
    assert result.order == "rows as given"
    assert result.mask.loc[1001:1040, "b"].mean() > 0.9


def test_drops_of_a_skewed_column_are_flagged():
    rng = np.random.default_rng(0)
    table = series(4000)
    log_level = 1 + np.cumsum(rng.normal(size=4000)) * 0.03
    noise = 0.05 * rng.standard_t(3, size=4000)
    table["turbidity"] = np.exp(log_level - log_level.mean() + 1 + noise)
    rows = rng.choice(np.arange(50, 3950, 40), 20, replace=False)
    table.loc[rows, "turbidity"] *= 0.15
    assert clean(table).mask.loc[rows, "turbidity"].mean() >= 0.9


@pytest.mark.parametrize("answered", ["number", "text"])
def test_columns_that_are_constant_in_a_group_are_not_stuck(answered):
    rng = np.random.default_rng(0)
    size = np.exp(rng.normal(size=1500))
    table = pd.DataFrame({name: size * np.exp(0.3 * rng.normal(size=1500))
                          for name in ("last", "mean")})  # fmt: skip
    gives = rng.random(1500) < 0.4
    table["gift"] = np.where(gives, np.ceil(np.sqrt(size)) * 5, 0.0)
    table["answer"] = gives.astype(float)
    if answered == "text":
        table["answer"] = np.where(gives, "yes", "no")
    assert "stuck" not in set(clean(table).flagged["kind"])
