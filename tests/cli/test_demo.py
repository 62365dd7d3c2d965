"""`discrepant demo`."""

import json

import pytest

from discrepant.cli.demo import run_demo


@pytest.mark.parametrize(
    "photograph", [{"before": 11.0, "after": 30.0, "seconds": 1.0}, None]
)
def test_matrix_and_table_are_recovered(tmp_path, monkeypatch, photograph):
    monkeypatch.setattr("discrepant.cli.demo.restore_photograph", lambda *_: photograph)
    summary, text = run_demo(tmp_path)
    assert summary["rank"] == {"true": 8, "estimated": 8}
    assert summary["relative_error"] < 1e-10
    assert "estimated rank       8" in text
    table = summary["table"]
    assert table["flagged_and_wrong"] >= 0.95 * max(table["flagged"], table["wrong"])
    assert (tmp_path / "table.html").exists()
    assert ("11.0 dB before, 30.0 dB after" in text) == (photograph is not None)
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["rank"]["estimated"] == 8
    assert (written["photograph"] is None) == (photograph is None)


@pytest.mark.slow
def test_a_photograph_is_restored(tmp_path):
    photograph = run_demo(tmp_path)[0]["photograph"]
    assert photograph["after"] > photograph["before"] + 10
    assert (tmp_path / "photograph.png").exists()
