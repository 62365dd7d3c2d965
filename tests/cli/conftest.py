"""Fixtures for the command line: run inside the test process, which is quicker."""

import sys
import warnings
from typing import NamedTuple

import pandas as pd
import pytest

from discrepant.cli import main
from discrepant.core import progress
from discrepant.paper.synthetic import corrupted_matrix


class Finished(NamedTuple):
    """Exit code and printed text of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run_in_process(monkeypatch, capsys, tmp_path):
    """Return a function that runs a command in a folder; global state is restored."""
    monkeypatch.setattr(main, "TERMINATION_SIGNALS", ())
    monkeypatch.setattr(main, "_prepare_streams", lambda: None)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(progress, "_listeners", [])
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args, cwd=tmp_path):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["discrepant", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main()
        return Finished(ended.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def matrix_csv(tmp_path):
    """Return the path of a corrupted low-rank matrix with labels, as CSV."""
    problem = corrupted_matrix((40, 30), 2, 0.05, missing=0.05, random_state=0)
    frame = pd.DataFrame(problem.observed)
    frame.index = [f"sample {i}" for i in frame.index]
    frame.columns = [f"gene {i}" for i in frame.columns]
    path = tmp_path / "table.csv"
    frame.to_csv(path)
    return path
