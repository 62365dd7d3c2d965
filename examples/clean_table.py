"""
Wrong readings of twelve sensors
================================

Flag wrong readings in a table of twelve sensors, and replace them.
"""

from pathlib import Path

from discrepant import clean
from discrepant.table.example_data import sensor_table
from discrepant.table.report.figures import before_after

table, wrong = sensor_table(rows=600, random_state=0)
result = clean(table)

print(result)
print(result.flagged.head())
flagged = result.mask.to_numpy()
print(f"precision of the flags:  {(flagged & wrong).sum() / flagged.sum():.1%}")
print(f"errors that are flagged: {(flagged & wrong).sum() / wrong.sum():.1%}")

picture = Path("clean_table.png")
before_after(result, "humidity %").savefig(picture)
print(f"picture: {picture}")
# result.plot() draws all cells, result.report(path) writes an HTML page.
