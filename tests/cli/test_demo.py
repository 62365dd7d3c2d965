"""`discrepant demo`."""

import json
import sys

import pytest

from discrepant.cli.demo import run_demo


def test_matrix_and_table_are_recovered_without_scikit_image(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    summary, text = run_demo(tmp_path)
    matrix = summary["matrix"]
    assert matrix["rank"] == {"true": 8, "estimated": 8}
    assert matrix["relative_error"] < 1e-10
    assert "estimated rank 8" in text
    table = summary["table"]
    assert table["flagged_and_wrong"] >= 0.95 * max(table["flagged"], table["wrong"])
    assert (tmp_path / "table.html").exists()
    assert "The photograph needs scikit-image: pip install" in text
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["matrix"]["rank"]["estimated"] == 8
    assert written["photograph"] is None
    assert "photograph.png" not in text
    assert not (tmp_path / "photograph.png").exists()


@pytest.mark.slow
def test_a_photograph_is_restored(tmp_path):
    summary, text = run_demo(tmp_path)
    photograph = summary["photograph"]
    assert photograph["after"] > photograph["before"] + 10
    assert f"{photograph['after']:.1f} dB after" in text
    assert (tmp_path / "photograph.png").exists()
