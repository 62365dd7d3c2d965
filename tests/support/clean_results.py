"""A synthetic `CleanResult`, for tests of figures and reports."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from discrepant.table.example_data import sensor_table
from discrepant.table.result import CleanResult, ColumnSummary


@dataclass(frozen=True)
class StoredScores:
    """Arrays of all cells that a `CleanResult` reads."""

    expected: pd.DataFrame
    log_odds: pd.DataFrame
    probability: pd.DataFrame

    def frame(self, name):
        """Return the data frame of the given name."""
        return getattr(self, name)


def synthetic_result(rows=600, *, names=None, bad_rows=(), caveats=()):
    """Return a result for a sensor table whose errors are all flagged and replaced."""
    frame, corrupt = sensor_table(rows)
    if names is not None:
        frame.columns = names
    corrupt[list(bad_rows), 3:] = True
    expected = pd.DataFrame(np.nan, frame.index, frame.columns)
    for place in range(3, frame.shape[1]):
        clean = frame.iloc[:, place].mask(corrupt[:, place])
        smooth = clean.rolling(7, center=True, min_periods=1).median().interpolate()
        expected.isetitem(place, smooth.bfill())
    sizes = [
        (frame.iloc[:, place] - expected.iloc[:, place]).abs().median()
        for place in range(3, 15)
    ]
    noise = pd.Series([np.nan] * 3 + sizes, frame.columns)
    table = frame.copy()
    flags = []
    for row, place in np.argwhere(corrupt & frame.notna().to_numpy()):
        centre, half = expected.iloc[row, place], 3 * noise.iloc[place]
        interval = centre - half, centre + half
        table.iloc[row, place] = centre
        label, name = frame.index[row], frame.columns[place]
        value = frame.iloc[row, place]
        flags.append((label, name, value, centre, *interval, 9.0, 0.999, "level"))
    flag_columns = "row column value expected low high score probability kind".split()
    mask = pd.DataFrame(corrupt & frame.notna(), frame.index, frame.columns)
    columns = tuple(
        ColumnSummary(
            name,
            ("dates", "identifier", "text", *["numbers"] * 12)[place],
            (-999.0,) if place == 4 else (),
            int(frame.iloc[:, place].isna().sum()),
            int(mask.iloc[:, place].sum()),
            0.97 if place > 2 else float("nan"),
            "not checked" if place < 3 else "",
        )
        for place, name in enumerate(frame.columns)
    )
    return CleanResult(
        table=table,
        flagged=pd.DataFrame(flags, columns=flag_columns),
        mask=mask,
        bad_rows=frame.index[list(bad_rows)],
        row_numbers=np.array(bad_rows, int),
        noise=noise,
        rank=3,
        columns=columns,
        caveats=caveats,
        fdr=0.01,
        original=frame,
        cells=StoredScores(
            expected,
            pd.DataFrame(np.where(mask, 9.0, -9.0)),
            pd.DataFrame(np.where(mask, 0.999, 0.001)),
        ),
        replaced=mask,
    )
