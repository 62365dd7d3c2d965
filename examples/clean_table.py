"""
Wrong readings of twelve sensors
================================

Find the wrong readings of twelve sensors, and what they should have been.
"""

from pathlib import Path

from discrepant import clean
from discrepant.table.example_data import sensor_table
from discrepant.table.report.figures import before_after

table, wrong = sensor_table(rows=600, random_state=0)
found = clean(table)

print(found)
print(found.flagged.head())
flagged = found.mask.to_numpy()
print(f"right among the flagged: {(flagged & wrong).sum() / flagged.sum():.1%}")
print(f"flagged of the wrong:    {(flagged & wrong).sum() / wrong.sum():.1%}")

picture = Path("clean_table.png")
before_after(found, "humidity %").savefig(picture)
print(f"picture: {picture}")  # found.plot() draws all cells, found.report(path) a page
