"""A cleaned table that is made, not computed: for tests of what shows it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from discrepant.table.example_data import sensor_table


@dataclass(frozen=True)
class Column:
    name: object
    role: str = "numeric"
    sentinels: tuple = ()
    missing: int = 0
    flagged: int = 0
    explained: float = float("nan")
    note: str = ""


@dataclass(frozen=True, eq=False)
class Cleaned:
    original: object
    table: object
    mask: object
    flagged: pd.DataFrame
    expected: pd.DataFrame
    probability: pd.DataFrame
    noise: pd.Series
    columns: tuple
    rows: tuple = ()
    row_numbers: tuple = ()
    rank: int = 3
    caveats: tuple = ()
    fdr: float = 0.01


def made(rows=600, *, names=None, bad_rows=(), caveats=()):
    """Return a sensor table "cleaned" by what is known of it."""
    frame, wrong = sensor_table(rows)
    if names is not None:
        frame.columns = names
    wrong[list(bad_rows), 3:] = True
    expected = pd.DataFrame(np.nan, frame.index, frame.columns)
    for place in range(3, frame.shape[1]):
        clean = frame.iloc[:, place].mask(wrong[:, place])
        smooth = clean.rolling(7, center=True, min_periods=1).median().interpolate()
        expected.isetitem(place, smooth.bfill())
    sizes = [
        (frame.iloc[:, place] - expected.iloc[:, place]).abs().median()
        for place in range(3, 15)
    ]
    noise = pd.Series([np.nan] * 3 + sizes, frame.columns)
    table = frame.copy()
    cells = []
    for row, place in np.argwhere(wrong & frame.notna().to_numpy()):
        hope, half = expected.iloc[row, place], 3 * noise.iloc[place]
        table.iloc[row, place] = hope
        label, name = frame.index[row], frame.columns[place]
        value = frame.iloc[row, place]
        cells.append((label, name, value, hope, hope - half, hope + half, 9.0, 0.999))
    heads = "row column value expected low high score probability".split()
    mask = pd.DataFrame(wrong & frame.notna(), frame.index, frame.columns)
    columns = tuple(
        Column(
            name,
            ("date", "identifier", "text", *["numeric"] * 12)[place],
            (-999.0,) if place == 4 else (),
            int(frame.iloc[:, place].isna().sum()),
            int(mask.iloc[:, place].sum()),
            0.97 if place > 2 else float("nan"),
            "set aside" if place < 3 else "",
        )
        for place, name in enumerate(frame.columns)
    )
    return Cleaned(
        frame,
        table,
        mask,
        pd.DataFrame(cells, columns=heads),
        expected,
        mask.astype(float) * 0.999,
        noise,
        columns,
        tuple(frame.index[list(bad_rows)]),
        tuple(bad_rows),
        caveats=caveats,
    )
