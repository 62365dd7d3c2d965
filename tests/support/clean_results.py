"""The result of a synthetic table, for tests of figures and reports."""

from dataclasses import replace

from discrepant import clean
from discrepant.table.example_data import sensor_table


def synthetic_result(rows=600, *, names=None, bad_rows=(), caveats=()):
    """Return the result of a sensor table with a missing-value code and bad rows."""
    frame, _ = sensor_table(rows)
    if names is not None:
        frame.columns = names
    frame.iloc[list(bad_rows), 3:] *= -20
    frame.iloc[::15, 4] = -999.0
    return replace(clean(frame, order=None), caveats=caveats)
