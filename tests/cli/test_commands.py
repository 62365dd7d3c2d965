"""What the commands do, without the command line: functions that return reports."""

import json
import signal

import numpy as np
import pytest

from discrepant import InputError
from discrepant.cli.demo import PhotographReport, demo
from discrepant.core.interrupt import interruptible
from discrepant.experiments.reproduce import reproduce
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.table.pca_file import fit_pca_file


def test_pca(tmp_path):
    problem = corrupted_matrix((40, 30), 2, 0.05, missing=0.05, random_state=0)
    np.save(tmp_path / "table.npy", problem.observed)
    report = fit_pca_file(tmp_path / "table.npy", tmp_path / "out")
    assert report.rank == 2
    assert report.shape == (40, 30)
    assert report.certificate.gap < 1e-3
    assert report.warnings == ()
    assert "rank 2" in str(report)
    assert report.noise == 0
    assert "No noise" in str(report)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(report.files)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert written["rank"] == 2
    assert written["certificate"]["gap"] == report.certificate.gap
    with pytest.raises(InputError, match="pass overwrite=True"):
        fit_pca_file(tmp_path / "table.npy", tmp_path / "out")


def test_pca_told_to_stop_writes_the_best_so_far(tmp_path):
    problem = corrupted_matrix((40, 30), 2, 0.05, random_state=0)
    np.save(tmp_path / "table.npy", problem.observed)
    report = fit_pca_file(
        tmp_path / "table.npy", tmp_path / "out", progress=lambda share, note: False
    )
    assert "stopped early" in str(report)
    assert report.certificate is None
    assert "no certificate was computed" in str(report)
    assert any("so far may be far off" in said for said in report.warnings)
    assert not any("optimum" in said for said in report.warnings)
    assert np.load(tmp_path / "out" / "low_rank.npy").shape == (40, 30)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(report.files)


def test_pca_by_descent_counts_what_is_more_than_dust(tmp_path):
    problem = corrupted_matrix((40, 30), 2, 0.1, missing=0.1, random_state=1)
    np.save(tmp_path / "table.npy", problem.observed)
    report = fit_pca_file(tmp_path / "table.npy", tmp_path / "out", solver="descent")
    truly = (problem.sparse != 0)[~np.isnan(problem.observed)].mean()
    assert abs(report.corrupted - truly) < 0.03


def test_pca_tells_noise_from_corruption(tmp_path):
    rng = np.random.default_rng(0)
    problem = corrupted_matrix((120, 60), 3, 0.05, random_state=0)
    sizes = np.where(np.arange(60) < 45, 0.05, 0.5)
    noise = sizes * rng.standard_normal((120, 60))
    np.save(tmp_path / "t.npy", problem.observed + noise)
    report = fit_pca_file(
        tmp_path / "t.npy", tmp_path / "out", noise="column", fdr=0.02
    )
    assert report.rank == 3
    assert len(report.noise) == 60
    np.testing.assert_allclose(report.noise, sizes, rtol=0.5)
    assert 0.02 < report.corrupted < 0.07
    assert "by column" in str(report)
    assert "false discovery rate of 2%" in str(report)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(written["noise"]) == 60
    assert 0 < written["noise_share"] < 0.1
    known = fit_pca_file(
        tmp_path / "t.npy", tmp_path / "two", noise=0.0, max_iter=3, tol=0.1
    )
    assert known.steps <= 3


def test_pca_without_matplotlib(tmp_path, monkeypatch):
    np.save(tmp_path / "table.npy", corrupted_matrix(20, 1, 0.0).observed)
    monkeypatch.setattr("discrepant.core.plotting.find_spec", lambda name: None)
    report = fit_pca_file(tmp_path / "table.npy", tmp_path / "out")
    assert "matplotlib" in report.no_picture
    assert "picture.png" not in report.files
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(report.files)


@pytest.mark.parametrize("photograph", [PhotographReport(11.0, 30.0, 1.0), None])
def test_demo(tmp_path, monkeypatch, photograph):
    monkeypatch.setattr("discrepant.cli.demo._photograph", lambda *_: photograph)
    report = demo(tmp_path)
    assert report.matrix.rank_found == report.matrix.rank == 8
    assert report.matrix.relative_error < 1e-10
    assert "rank found       8" in str(report)
    table = report.table
    assert table.found >= 0.95 * max(table.flagged, table.wrong)
    assert (tmp_path / "table.html").exists()
    assert ("from 11.0 dB to 30.0 dB" in str(report)) == (photograph is not None)
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["rank"]["found"] == 8
    assert (written["photograph"] is None) == (photograph is None)


def test_demo_without_matplotlib_lists_no_picture(tmp_path, monkeypatch):
    monkeypatch.setattr("discrepant.core.plotting.find_spec", lambda name: None)
    monkeypatch.setattr("discrepant.cli.demo._photograph", lambda *_: None)
    report = demo(tmp_path)
    assert "[plot]" in str(report)
    assert ".png" not in str(report)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"table.csv", "table.html", "summary.json"}


@pytest.mark.slow
def test_demo_restores_a_photograph(tmp_path):
    found = demo(tmp_path).photograph
    assert found.after > found.before + 10
    assert (tmp_path / "photograph.png").exists()


def test_reproduce(tmp_path):
    told = []
    report = reproduce(
        "regression",
        tmp_path,
        quick=True,
        jobs=1,
        progress=lambda share, note: told.append(share),
    )
    assert str(report) == report.finding
    assert told[-1] == 1
    assert {path.name for path in tmp_path.iterdir()} == set(report.files)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("fig9", {}, "name must be"),
        ("fig1a", {"jobs": 0}, "^jobs must be a positive number or -1, got 0"),
        ("fig1a", {"scale": "cpu"}, "fig1a has no scale="),
        ("fig3", {"scale": "huge"}, 'scale must be "cpu" or "paper"'),
        ("fig3", {"quick": True, "scale": "paper"}, "contradict each other"),
    ],
)
def test_mistakes_name_no_flags(tmp_path, name, settings, said):
    with pytest.raises(InputError, match=said) as caught:
        reproduce(name, tmp_path / "out", **settings)
    assert "--" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_all_that_a_figure_needs_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("discrepant.experiments.reproduce.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs matplotlib: .*\[plot\]"):
        reproduce("regression", tmp_path)
    said = r"needs matplotlib, PyTorch, scikit-image: .*\[plot,image\]"
    with pytest.raises(InputError, match=said):
        reproduce("fig5", tmp_path)


def test_a_second_interrupt_gives_up():
    said = []
    with (
        pytest.raises(KeyboardInterrupt),
        interruptible(None, "work", said.append) as progress,
    ):
        assert progress(0.1, "")
        signal.raise_signal(signal.SIGINT)
        assert not progress(0.2, "")
        signal.raise_signal(signal.SIGINT)
    assert len(said) == 1
