"""`discrepant pca`, and the functions behind it that return a report."""

import json

import numpy as np
import pandas as pd
import pytest

from discrepant import InputError, RobustPCA
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.table.pca_file import fit_pca_file


def test_labels_are_kept_and_all_files_written(discrepant, matrix_csv, tmp_path):
    done = discrepant("pca", matrix_csv, "-o", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar in a pipe
    assert "rank 2" in done.stdout
    low_rank = pd.read_csv(tmp_path / "out" / "low_rank.csv", index_col=0)
    source = pd.read_csv(matrix_csv, index_col=0)
    assert low_rank.index.equals(source.index)
    assert low_rank.columns.equals(source.columns)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["rank"] == 2
    assert summary["labels"] == "first line, first column"
    assert summary["labels"] in done.stdout
    assert summary["warnings"] == []
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        *("low_rank.csv", "sparse.csv", "summary.json", "picture.png"),
    }


def test_warnings_are_printed_and_written_to_the_summary(discrepant, tmp_path):
    np.save(tmp_path / "thin.npy", np.arange(1.0, 41.0)[:, None])
    done = discrepant("pca", "thin.npy", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0
    assert "alpha" in done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(summary["warnings"]) == 1


def test_the_same_seed_gives_the_same_result(run_in_process, matrix_csv, tmp_path):
    for name in ("one", "two"):
        run_in_process("pca", matrix_csv, "-o", name, "--seed", 3)
    one, two = (tmp_path / name / "sparse.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_report_summary_and_files_agree(tmp_path):
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


def test_stopping_early_writes_the_best_result_so_far(tmp_path):
    problem = corrupted_matrix((40, 30), 2, 0.05, random_state=0)
    np.save(tmp_path / "table.npy", problem.observed)
    report = fit_pca_file(
        tmp_path / "table.npy", tmp_path / "out", progress=lambda fraction, note: False
    )
    assert "stopped early" in str(report)
    assert report.certificate is None
    assert "no certificate was computed" in str(report)
    assert any("so far may be far off" in warning for warning in report.warnings)
    assert not any("optimum" in warning for warning in report.warnings)
    assert np.load(tmp_path / "out" / "low_rank.npy").shape == (40, 30)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(report.files)


def test_descent_does_not_count_tiny_residuals_as_corrupted(tmp_path):
    problem = corrupted_matrix((40, 30), 2, 0.1, missing=0.1, random_state=1)
    np.save(tmp_path / "table.npy", problem.observed)
    model = RobustPCA("descent", random_state=0)
    report = fit_pca_file(tmp_path / "table.npy", tmp_path / "out", model)
    corrupted = (problem.sparse != 0)[~np.isnan(problem.observed)].mean()
    assert abs(report.corrupted - corrupted) < 0.03


def test_noise_of_each_column_is_estimated(tmp_path):
    rng = np.random.default_rng(0)
    problem = corrupted_matrix((120, 60), 3, 0.05, random_state=0)
    sigmas = np.where(np.arange(60) < 45, 0.05, 0.5)
    noise = sigmas * rng.standard_normal((120, 60))
    np.save(tmp_path / "t.npy", problem.observed + noise)
    model = RobustPCA(noise="column", fdr=0.02, random_state=0)
    report = fit_pca_file(tmp_path / "t.npy", tmp_path / "out", model)
    assert report.rank == 3
    assert len(report.noise) == 60
    np.testing.assert_allclose(report.noise, sigmas, rtol=0.5)
    assert 0.02 < report.corrupted < 0.07
    assert "by column" in str(report)
    assert "false discovery rate of 2%" in str(report)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(written["noise"]) == 60
    assert 0 < written["noise_fraction"] < 0.1


def test_max_iter_limits_the_number_of_steps(tmp_path):
    problem = corrupted_matrix((120, 60), 3, 0.05, random_state=0)
    np.save(tmp_path / "t.npy", problem.observed)
    model = RobustPCA(noise=0.0, max_iter=3, tol=0.1, random_state=0)
    report = fit_pca_file(tmp_path / "t.npy", tmp_path / "out", model)
    assert report.steps <= 3
