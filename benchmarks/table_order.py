"""Detection of errors in ordered tables: `clean` with and without the order of rows.

    pip install 'discrepant[bench]'
    python benchmarks/table_order.py stations FOLDER    labelled station-years (CSV)
    python benchmarks/table_order.py injected           synthetic errors in real series
    python benchmarks/table_order.py uncorrupted        flags in uncorrupted tables
    python benchmarks/table_order.py shuffled           shuffled rows: the same mask?
    python benchmarks/table_order.py speed              rows per second

"stations" reads the files of the Logan River Observatory as distributed with pyhydroqc:
raw values, and the label of the technician (``_qual``; anything but NULL marks a wrong
value). Precision (P), recall (R), F1 and average precision (AP) are over the cells that
are not missing and are no missing-value code. "short" is the fraction of labelled
events of at most 8 rows (2 hours) in which any cell is flagged, "stuck" that of
labelled cells in runs of at least 5 equal values, "false" the percentage of unlabelled
cells that are flagged.

"injected" corrupts 1% of the cells of each series by spikes of 4 to 12 times the usual
step between neighbours, or by stuck values in runs of 12 rows, seeds 0 and 1.

Methods: Hampel filter (11 rows, 3 MAD); z: more than 3 robust deviations from the
median of the column; STL residuals beyond 3.5 MAD (period of a day, or 12); DDC is
robpy's, left out if it is not installed.
"""

import argparse
import importlib
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from record import recorded
from sklearn.metrics import average_precision_score
from tables import DEVELOPMENT, ddc, load, z_score

from discrepant import clean
from discrepant.table.model.order_kernels import running_median

SERIES = ("co2", "sunspots", "nile", "elnino", "macrodata", "interest_inflation")
SHORT_ROWS = 8
STUCK_ROWS = 5


def load_station(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the raw values with their time, and the labelled cells."""
    table = pd.read_csv(path, na_values=["NULL"], low_memory=False)
    names = [c for c in table if f"{c}_qual" in table]
    wrong = np.column_stack([table[f"{name}_qual"].notna() for name in names])
    values = table[names].astype(float)
    values.insert(0, "datetime", pd.to_datetime(table["datetime"], format="mixed"))
    return values, np.column_stack([np.zeros(len(table), bool), wrong])


def load_series(name: str) -> pd.DataFrame:
    """Return the numeric columns of a series of statsmodels, in the order of time."""
    data = importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data
    data = data.select_dtypes("number").astype(float)
    return data.drop(columns=[c for c in data if str(c).lower() in ("year", "quarter")])


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return start and end of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return list(zip(edges[::2], edges[1::2], strict=True))


def events(values: np.ndarray, wrong: np.ndarray, mask: np.ndarray):
    """Return fractions of detected short events, and of detected stuck cells."""
    short, stuck = [], []
    for x, w, m in zip(values.T, wrong.T, mask.T, strict=True):
        short += [m[a:b].any() for a, b in runs(w) if b - a <= SHORT_ROWS]
        same = np.concatenate([[False], x[1:] == x[:-1]])
        for a, b in runs(same):
            if b - a + 1 >= STUCK_ROWS and w[a - 1 : b].all():
                stuck += m[a - 1 : b].tolist()
    return np.mean(short or [np.nan]), np.mean(stuck or [np.nan])


def hampel(table: pd.DataFrame) -> np.ndarray:
    scores = []
    for x in table.to_numpy(float).T:
        away = np.abs(x - running_median(x, -5, 5, 3))
        scale = 1.4826 * running_median(away, -5, 5, 3)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores.append(np.nan_to_num(away / scale, posinf=1e9))
    return np.column_stack(scores)


def stl(table: pd.DataFrame, period: int) -> np.ndarray:
    from statsmodels.tsa.seasonal import STL

    scores = []
    for name in table:
        x = table[name].interpolate(limit_direction="both")
        if x.isna().any() or len(x) < 2 * period:
            scores.append(np.zeros(len(x)))
            continue
        rest = STL(x.to_numpy(), period=period, robust=False).fit().resid
        away = np.abs(rest - np.median(rest))
        scores.append(away / (1.4826 * np.median(away) + 1e-12))
    return np.nan_to_num(np.column_stack(scores))


def methods(table: pd.DataFrame, period: int):
    """Yield name, mask and score of each method; time columns excluded."""
    numbers = table.select_dtypes("number")
    for name, order in (("clean, rows alone", None), ("clean", "auto")):
        result = clean(table, order=order)
        keep = [table.columns.get_loc(c) for c in numbers]
        mask, score = result.mask.to_numpy(), result.scores.to_numpy()
        yield name, mask[:, keep], np.nan_to_num(score[:, keep], nan=-50.0)
    score = hampel(numbers)
    yield "Hampel 11, 3 MAD", score > 3, score
    score = z_score(numbers)
    yield "z > 3", score > 3, score
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = stl(numbers, period)
        yield "STL + 3.5 MAD", score > 3.5, score
        flags, score, _ = ddc(numbers)
        if np.isfinite(score).all():
            yield "DDC", flags, score


def figures(truth: np.ndarray, mask: np.ndarray, score: np.ndarray) -> list[float]:
    right = (truth & mask).sum()
    precision, recall = right / max(mask.sum(), 1), right / max(truth.sum(), 1)
    f1 = 2 * right / max(mask.sum() + truth.sum(), 1)
    false = 100 * (mask & ~truth).sum() / max((~truth).sum(), 1)
    return [precision, recall, f1, average_precision_score(truth, score), false]


def show(name: str, numbers) -> None:
    cells = ["–" if np.isnan(v) else f"{v:.2f}" for v in numbers]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def stations(folder: Path) -> None:
    """Print the figures of all files together."""
    pooled: dict[str, list] = {}
    for path in sorted(folder.glob("*.csv")):
        table, wrong = load_station(path)
        values = table.select_dtypes("number").to_numpy(float)
        wrong = wrong[:, 1:]
        observed = np.isfinite(values) & (values != -9999)
        table.iloc[:, 1:] = np.where(observed, values, np.nan)
        for name, mask, score in methods(table, 96):
            part = wrong & observed, mask & observed
            pooled.setdefault(name, []).append(
                (*(a[observed] for a in part), score[observed], *events(values, *part))
            )
    print("| method | P | R | F1 | AP | false % | short | stuck |")
    print("| --- |" + " ---: |" * 7)
    for name, parts in pooled.items():
        truth, mask, score = (np.concatenate([p[k] for p in parts]) for k in range(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            detected = [np.nanmean([p[k] for p in parts]) for k in (3, 4)]
        show(name, [*figures(truth, mask, score), *detected])


def inject(table: pd.DataFrame, kind: str, seed: int):
    """Return a corrupted copy of a table, and the cells that differ."""
    rng = np.random.default_rng(seed)
    values = table.to_numpy(float).copy()
    wrong = np.zeros(values.shape, bool)
    for j in range(values.shape[1]):
        x = values[:, j]
        steps = np.abs(np.diff(x))
        usual = np.nanmedian(steps[steps > 0])
        count = max(round(0.01 * len(x)), 1)
        if kind == "spikes":
            at = rng.choice(len(x), count, replace=False)
            x[at] += rng.choice([-1, 1], count) * usual * rng.uniform(4, 12, count)
            wrong[at, j] = np.isfinite(x[at])
        else:
            for start in rng.choice(len(x) - 12, max(count // 12, 1), replace=False):
                run = slice(start, start + 12)
                wrong[run, j] = np.isfinite(x[run]) & (x[run] != x[start])
                x[run] = x[start]
    return pd.DataFrame(values, columns=table.columns), wrong


def injected() -> None:
    """Print mean F1 and percentage of false flags of each kind of error."""
    print("| error | method | F1 | AP | false % |\n| --- | --- | ---: | ---: | ---: |")
    for kind in ("spikes", "stuck"):
        every: dict[str, list] = {}
        for name in SERIES:
            table = load_series(name)
            for seed in (0, 1):
                corrupted, wrong = inject(table, kind, seed)
                observed = corrupted.notna().to_numpy()
                for method, mask, score in methods(corrupted, 12):
                    part = figures(wrong[observed], mask[observed], score[observed])
                    every.setdefault(method, []).append(part)
        for method, parts in every.items():
            mean = np.mean(parts, axis=0)
            show(f"{kind} | {method}", [mean[2], mean[3], mean[4]])


def uncorrupted() -> None:
    """Print the number of flags in uncorrupted development tables, by kind."""
    print("| table | rows alone | in order | replaced | kinds |")
    print("| --- | ---: | ---: | ---: | --- |")
    totals = np.zeros(3, int)
    for name in DEVELOPMENT.split():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = load(name)
        alone, result = clean(table, order=None), clean(table)
        counts = [len(alone.flagged), len(result.flagged)]
        counts.append(int(result.replaced.to_numpy().sum()))
        totals += counts
        kinds = result.flagged["kind"].value_counts().to_dict()
        print(f"| {name} | {' | '.join(map(str, counts))} | {kinds} |", flush=True)
    print(f"| total | {' | '.join(map(str, totals))} | |")


def shuffled() -> None:
    """Print whether shuffled rows give the mask of ``order=None``."""
    import sklearn.datasets

    tables = {name: load_series(name) for name in SERIES}
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        tables[name] = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).data
    print("| table | rows | same mask | order of the original |")
    print("| --- | ---: | --- | --- |")
    for name, table in tables.items():
        moved = table.sample(frac=1, random_state=0).reset_index(drop=True)
        alone, auto = (clean(moved, order=order).mask for order in (None, "auto"))
        order = clean(table).order or "none"
        print(f"| {name} | {len(table)} | {alone.equals(auto)} | {order} |")


def speed() -> None:
    """Print rows per second of 100,000 rows of 10 columns with a time."""
    rng = np.random.default_rng(0)
    n = 100_000
    common = 0.05 * np.cumsum(rng.normal(size=n))
    day = np.sin(2 * np.pi * np.arange(n) / 96)
    weights, noise = rng.normal(size=(2, 10)), 0.1 * rng.normal(size=(n, 10))
    values = np.column_stack([day, common]) @ weights + noise
    table = pd.DataFrame(values).rename(columns="c{}".format)
    table["time"] = pd.date_range("2020-01-01", periods=n, freq="15min")
    print("| order | rows per second |\n| --- | ---: |")
    for order in (None, "auto"):
        clean(table, order=order)
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            clean(table, order=order)
            seconds.append(time.perf_counter() - began)
        print(f"| {order} | {n / min(seconds):,.0f} |", flush=True)


PARTS = {
    "stations": stations,
    "injected": injected,
    "uncorrupted": uncorrupted,
    "shuffled": shuffled,
    "speed": speed,
}


def main() -> None:
    """Run one part of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    if options.part == "stations":
        if options.folder is None:
            parser.error("stations needs a folder of CSV files")
        stations(options.folder)
    else:
        PARTS[options.part]()


if __name__ == "__main__":
    recorded(main)
