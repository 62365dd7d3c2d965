"""What a benchmark printed, kept: ``--json`` appends a record to docs/benchmarks.jsonl.

A record says what was run, on which commit and machine, when and for how long, and
holds the lines that were printed: those of a table by the names of its columns, others
as they are. ``make docs`` shows the last record of each command, and how the time of
those that were recorded more than once went.
"""

import io
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parents[1]
KEPT = HERE / "docs" / "benchmarks.jsonl"


def recorded(main, kept=KEPT):
    """Run a benchmark and, if it was asked for by ``--json``, keep what it prints."""
    if "--json" not in sys.argv:
        try:
            main()
        finally:
            if {"-h", "--help"} & set(sys.argv):
                print("  --json  also append what is printed to docs/benchmarks.jsonl")
        return
    sys.argv.remove("--json")
    script = Path(sys.argv[0]).resolve()
    name = script.relative_to(HERE) if script.is_relative_to(HERE) else script.name
    command = f"python {name} {shlex.join(sys.argv[1:])}"
    both = _Both(sys.stdout)
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    started, before = time.perf_counter(), _work()
    with redirect_stdout(both):
        main()
    record = {
        "command": command.strip(),
        "commit": _commit(),
        "machine": _machine(),
        "load": load,  # of others, when it began: what seconds are to be read with
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - started, 1),
        "work": round(_work() - before, 1),  # seconds of processors, whoever waits
        "rows": rows_of(both.getvalue()),
    }
    with kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def rows_of(printed):
    """Return the lines of Markdown tables by column, and all others as they are."""
    rows, heads = [], None
    lines = [line.strip() for line in printed.splitlines()]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            heads = None
            if line:
                rows.append({"": line})
        elif re.fullmatch(r"[|\s:-]+", line):
            continue
        elif heads is None and re.fullmatch(r"\|[|\s:-]*-[|\s:-]*", after):
            heads = _cells(line)
        else:
            cells = _cells(line)
            names = heads if heads and len(heads) == len(cells) else range(len(cells))
            rows.append({str(n): cell for n, cell in zip(names, cells, strict=True)})
    return rows


class _Both(io.StringIO):
    """Keeps what is written, and passes it on."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def write(self, text):
        self.other.write(text)
        return super().write(text)

    def flush(self):
        self.other.flush()


def _cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def _commit():
    """Return the commit, with a + where files were changed since, but for records."""
    commit = _git("rev-parse", "--short=10", "HEAD") or "unknown"
    others = ["--", ".", ":(exclude)docs/benchmarks.jsonl"]
    return commit + ("+" if _git("status", "--porcelain", "-uno", *others) else "")


def _work():
    """Return the processor time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def _git(*words):
    told = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True)
    return told.stdout.strip()


def _machine():
    """Return processor, cores and system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.M)
        model = named[1] if named else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"
