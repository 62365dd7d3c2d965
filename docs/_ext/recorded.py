"""Write the recorded benchmark runs as a page: their last tables and their times.

`benchmarks/record.py` appends to ``benchmarks.jsonl``; `conf.py` calls `write` before
each build, which writes ``recorded.md`` and ``recorded.png`` for `accuracy.md`.
"""

import json
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parents[1]
FIGURE = DOCS / "recorded.png"


def write():
    """Write the page, and the figure if any command was recorded more than once."""
    lines = (DOCS / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    text = "\n".join(_as_markdown(record) for record in _last(records).values())
    if _draw(records):
        text += "\n![Processor time of each command, by record](recorded.png)\n"
    (DOCS / "recorded.md").write_text(text, encoding="utf-8")


def _last(records):
    """Return the last record of each command."""
    return {record["command"]: record for record in records}


def _as_markdown(record):
    """Return a record as Markdown."""
    parts = [
        f"```\n{record['command']}\n```\n",
        f"Commit {record['commit']}, {record['date']}, {record['machine']}; "
        f"{record['seconds']} s in all{_machine_load(record)}.\n",
    ]
    for heads, rows in groupby(record["rows"], key=lambda row: tuple(row)):
        if heads == ("",):
            parts.append("".join(f"{row[''].lstrip('# ')}\n\n" for row in rows))
            continue
        parts.append(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
        parts += [f"| {' | '.join(row.values())} |" for row in rows]
        parts.append("")
    return "\n".join(parts)


def _machine_load(record):
    """Describe the load of the machine during the run."""
    if record.get("load") is None:
        return ""
    work, load = record["work"], record["load"]
    return f", {work} s of processor time, at a load of {load} when it began"


def _draw(records):
    """Draw the processor time of commands recorded more than once on a machine."""
    import matplotlib

    from discrepant.core.plotting import STYLE, new_figure

    times = {}
    for record in records:
        place = (record["command"], record["machine"])
        if "work" in record:
            times.setdefault(place, []).append(record["work"])
    times = {place: seconds for place, seconds in times.items() if len(seconds) > 1}
    if not times:
        return False
    with matplotlib.rc_context(STYLE):
        figure, axes = new_figure(size=(8, 3))
        for (command, _), seconds in times.items():
            axes.plot(seconds, marker="o", label=command.removeprefix("python "))
        axes.set(xlabel="record", ylabel="seconds", title="Processor time of each")
        axes.set_ylim(bottom=0)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.2))
        figure.savefig(FIGURE, bbox_inches="tight")
    return True
