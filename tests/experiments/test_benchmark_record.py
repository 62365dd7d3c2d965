"""Benchmarks append what they print to a file of records."""

import importlib.util
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load_record_module():
    spec = importlib.util.spec_from_file_location("record", BENCHMARKS / "record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_recorded_by_column(tmp_path, monkeypatch, capsys):
    def main():
        assert sys.argv[1:] == ["--seed", "1"]
        print("Of two:\n\n| size | s |\n| --- | ---: |\n| 5×5 | 0.1 |\n| 6×6 | 0.2 |")

    record, file = load_record_module(), tmp_path / "records.jsonl"
    monkeypatch.setattr(sys, "argv", ["benchmarks/some.py", "--json", "--seed", "1"])
    record.recorded(main, file)
    record.recorded(main, file)  # without --json nothing is recorded
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(records) == 1
    assert records[0]["command"] == "python benchmarks/some.py --seed 1"
    assert records[0]["rows"] == [
        {"": "Of two:"},
        {"size": "5×5", "s": "0.1"},
        {"size": "6×6", "s": "0.2"},
    ]
    assert set(records[0]) >= {"commit", "machine", "date", "seconds"}
    assert capsys.readouterr().out.count("0.2") == 2


def test_every_benchmark_can_be_recorded():
    for path in sorted(BENCHMARKS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # The training script measures nothing.
        if "ArgumentParser(" in text and path.stem != "train_defect_network":
            assert "\n    recorded(main)\n" in text, path.name
