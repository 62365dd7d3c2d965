"""Record the output of a benchmark: ``--json`` appends to docs/benchmarks.jsonl.

A record has the command, commit, machine, date and duration, and the printed lines:
rows of tables by column name, other lines as text. ``make docs`` shows the last record
of each command, and the times of commands that were recorded more than once.
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

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "benchmarks.jsonl"


def recorded(main, file=RECORDS):
    """Run a benchmark; with ``--json``, append what it prints to a file."""
    if "--json" not in sys.argv:
        try:
            main()
        finally:
            if {"-h", "--help"} & set(sys.argv):
                print("  --json  also append what is printed to docs/benchmarks.jsonl")
        return
    sys.argv.remove("--json")
    script = Path(sys.argv[0]).resolve()
    name = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    command = f"python {name} {shlex.join(sys.argv[1:])}"
    output = _CopiedOutput(sys.stdout)
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    started, before = time.perf_counter(), _cpu_seconds()
    with redirect_stdout(output):
        main()
    record = {
        "command": command.strip(),
        "commit": _commit(),
        "machine": _machine(),
        "load": load,  # of the machine at the start: it affects the seconds
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - started, 1),
        "work": round(_cpu_seconds() - before, 1),  # processor time in seconds
        "rows": rows_of(output.getvalue()),
    }
    with file.open("a", encoding="utf-8") as records:
        records.write(json.dumps(record, ensure_ascii=False) + "\n")


def rows_of(printed):
    """Return rows of Markdown tables by column name, and other lines as text."""
    rows, header = [], None
    lines = [line.strip() for line in printed.splitlines()]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            header = None
            if line:
                rows.append({"": line})
        elif re.fullmatch(r"[|\s:-]+", line):
            continue
        elif header is None and re.fullmatch(r"\|[|\s:-]*-[|\s:-]*", after):
            header = _cells(line)
        else:
            cells = _cells(line)
            named = header and len(header) == len(cells)
            names = header if named else range(len(cells))
            rows.append({str(n): cell for n, cell in zip(names, cells, strict=True)})
    return rows


class _CopiedOutput(io.StringIO):
    """A stream that stores what is written and also writes it to another stream."""

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
    """Return the commit, with a + if files other than the records were changed."""
    commit = _git("rev-parse", "--short=10", "HEAD") or "unknown"
    others = ["--", ".", ":(exclude)docs/benchmarks.jsonl"]
    return commit + ("+" if _git("status", "--porcelain", "-uno", *others) else "")


def _cpu_seconds():
    """Return the processor time of this process and of its finished children."""
    return sum(os.times()[:4])


def _git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def _machine():
    """Return the name of the processor, the number of cores and the system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.M)
        model = named[1] if named else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"
