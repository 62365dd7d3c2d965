"""The command line, run as a person would: in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from PIL import Image

from discrepant.cli.main import app
from discrepant.cli.messages import in_flags
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.video.example_data import street


@pytest.fixture
def table(tmp_path):
    problem = corrupted_matrix((40, 30), 2, 0.05, missing=0.05, random_state=0)
    frame = pd.DataFrame(problem.observed)
    frame.index = [f"sample {i}" for i in frame.index]
    frame.columns = [f"gene {i}" for i in frame.columns]
    path = tmp_path / "table.csv"
    frame.to_csv(path)
    return path


def test_pca_keeps_labels_and_writes_everything(discrepant, table, tmp_path):
    done = discrepant("pca", table, "-o", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # quiet when piped
    assert "rank 2" in done.stdout
    low_rank = pd.read_csv(tmp_path / "out" / "low_rank.csv", index_col=0)
    source = pd.read_csv(table, index_col=0)
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


def test_warnings_are_shown_and_kept(discrepant, tmp_path):
    np.save(tmp_path / "thin.npy", np.arange(1.0, 41.0)[:, None])
    done = discrepant("pca", "thin.npy", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0
    assert "alpha" in done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(summary["warnings"]) == 1


def test_the_same_seed_gives_the_same_result(discrepant, table, tmp_path):
    for name in ("one", "two"):
        discrepant("pca", table, "-o", name, "--seed", 3, cwd=tmp_path)
    one, two = (tmp_path / name / "sparse.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_nothing_is_overwritten_unasked(discrepant, table, tmp_path):
    (tmp_path / "out").mkdir()
    precious = tmp_path / "out" / "summary.json"
    precious.write_text("precious")
    refused = discrepant("pca", table, "-o", "out", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert precious.read_text() == "precious"
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize("command", ["clean", "pca", "zarr", "restore", "video"])
def test_overwrite_replaces_all_results(discrepant, table, tmp_path, command):
    """The second run is refused, the third replaces what the first one wrote."""
    (tmp_path / "in").mkdir()
    if command == "zarr":
        data = np.outer(np.arange(1.0, 31), np.ones(20))
        zarr.save(tmp_path / "in.zarr", data)
        args: tuple = ("pca", "in.zarr", "--workers", 1)
    elif command == "restore":
        image = np.add.outer(np.arange(32), np.arange(32)).astype(np.uint8)
        Image.fromarray(image).save(tmp_path / "in" / "a.png")
        args = ("restore", "in", "--fast", "--mask")
    elif command == "video":
        for number, frame in enumerate(street(8)[0]):
            Image.fromarray(frame).save(tmp_path / "in" / f"{number}.png")
        args = ("video", "in", "--masks", "--background")
    else:
        args = (command, table)

    def run(*more):
        return discrepant(*args, "-o", "out", *more, cwd=tmp_path)

    def written():
        files = (tmp_path / "out").rglob("*")
        return {p: p.stat().st_ino for p in files if not p.name.startswith(".")}

    done = run()
    assert done.returncode == 0, done.stderr
    first = written()
    refused = run()
    assert refused.returncode in (1, 2) and "--overwrite" in refused.stderr
    assert written() == first
    for folder in [path for path in first if path.is_dir()]:
        (folder / "stale").write_text("of an earlier run")
    done = run("--overwrite")
    assert done.returncode == 0, done.stderr
    assert written().keys() == first.keys()
    assert all(written()[path] != first[path] for path in first if path.is_file())


def test_the_input_is_never_overwritten(discrepant, table, tmp_path):
    trap = tmp_path / "low_rank.csv"
    table.rename(trap)
    before = trap.read_bytes()
    done = discrepant("pca", trap, "-o", tmp_path, "--overwrite", cwd=tmp_path)
    assert done.returncode == 2
    assert trap.read_bytes() == before


@pytest.mark.parametrize(
    "args",
    [
        ("pca", "missing.csv", "-o", "out"),
        ("pca", ".", "-o", "out"),
        ("pca", "text.csv", "-o", "out"),
        ("pca", "pickled.npy", "-o", "out"),
        ("pca", "complex.npy", "-o", "out"),
        ("pca", "infinite.npy", "-o", "out"),
        ("pca", "nothing.npy", "-o", "out"),
        ("pca", "good.npy", "-o", "good.npy"),
        ("pca", "good.npy", "-o", "good.npy/inside"),
        ("pca", "good.npy", "-o", "out", "--alpha", "many"),
        ("pca", "good.npy", "-o", "out", "--alpha", "-3"),
        ("pca", "good.npy", "-o", "out", "--noise", "loud"),
        ("pca", "good.npy", "-o", "out", "--fdr", "1.5"),
        ("pca", "good.npy", "-o", "out", "--max-iter", "0"),
        ("pca", "wide.npy", "-o", "out", "--psd"),
        ("pca", "good.npy"),
        ("pca", "dates.npy", "-o", "out"),
        ("pca", "good.npy", "-o", "out", "--seed", "-1"),
        ("demo", "-o", "out", "--seed", "-1"),
        ("reproduce", "fig9", "-o", "out"),
        ("reproduce", "fig3", "-o", "out", "--quick", "--scale", "paper"),
        ("reproduce", "fig1a", "-o", "out", "--jobs", "0"),
        ("unknown",),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_two(discrepant, tmp_path, args):
    (tmp_path / "text.csv").write_text("a,b\n1,x\n2,y\n")
    np.save(tmp_path / "pickled.npy", np.array([[{}]], object), allow_pickle=True)
    np.save(tmp_path / "complex.npy", np.ones((3, 3), complex))
    np.save(tmp_path / "infinite.npy", np.full((3, 3), np.inf))
    np.save(tmp_path / "nothing.npy", np.full((3, 3), np.nan))
    np.save(tmp_path / "dates.npy", np.zeros((3, 3), "M8[s]"))
    np.save(tmp_path / "good.npy", np.ones((4, 4)))
    np.save(tmp_path / "wide.npy", np.ones((4, 5)))
    before = sorted(path.name for path in tmp_path.iterdir())
    done = discrepant(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_reproduce_writes_picture_points_and_settings(discrepant, tmp_path):
    done = discrepant(
        *("reproduce", "regression", "--quick", "-o", "out", "--jobs", "1"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("regression.png", "regression.csv", "regression.json"),
    }
    details = json.loads((tmp_path / "out" / "regression.json").read_text())
    assert details["seed"] == 0
    assert details["versions"]["discrepant"]


def test_help_comes_before_anything_heavy_is_loaded():
    code = (
        "import sys; sys.argv = ['discrepant', 'restore', '--help']\n"
        "from discrepant.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*{'scipy', 'sklearn', 'pandas'} & {*sys.modules})"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "--fast" in said
    assert not said.splitlines()[-1].strip()


def test_compiling_is_announced_once(monkeypatch):
    from discrepant.core import jit, progress

    said = []
    monkeypatch.setattr(progress, "_listeners", [said.append])
    monkeypatch.setattr(jit, "PATIENCE", -1.0)
    monkeypatch.setattr(jit.NOTICE, "announced", False)

    def double(x):
        return 2 * x

    double.__module__ = "discrepant.double"
    function = jit.njit(cache=False)(double)
    assert function(2) == 4 and function(2.5) == 5.0
    assert len(said) == 1
    assert said[0].startswith("Compiling for this machine")


def test_hints_name_what_was_installed_from(monkeypatch, tmp_path):
    from importlib.metadata import PackageNotFoundError

    from discrepant.core import errors

    here = Path(errors.__file__).parents[3]
    assert str(errors.missing_extra("It needs X", "web")) == (
        f"It needs X: pip install '{here}[web]'."
    )

    def nowhere(name):
        raise PackageNotFoundError

    monkeypatch.setattr(errors, "__file__", str(tmp_path / "a" / "b" / "errors.py"))
    monkeypatch.setattr(errors, "distribution", nowhere)
    assert "'discrepant[web]'" in str(errors.missing_extra("It needs X", "web"))


def test_help_names_every_command(discrepant, tmp_path):
    done = discrepant("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("demo", "clean", "pca", "restore", "reproduce"):
        assert command in done.stdout
    assert "discrepant" in discrepant("--version", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("jobs must be positive, got 0.", "--jobs must be positive, got 0."),
        ("time_limit must be positive.", "--time-limit must be positive."),
        ("a exists; pass overwrite=True.", "a exists; pass --overwrite."),
        ("say which with key=.", "say which with --key."),
        ("Raise max_iter, or raise tol.", "Raise --max-iter, or raise --tol."),
        ('quick=True and scale="paper" clash.', "--quick and --scale paper clash."),
        (
            "psd=True needs a square matrix; pass psd=False.",
            "--psd needs a square matrix; leave out --psd.",
        ),
        ("a.csv holds no key; alpha is fine.", "a.csv holds no key; alpha is fine."),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_command_line(said, shown):
    assert in_flags(said, app) == shown


def test_what_belongs_to_other_commands_is_refused_in_flags(discrepant, tmp_path):
    done = discrepant("reproduce", "fig1a", "-o", "out", "--jobs", 0, cwd=tmp_path)
    assert "--jobs must be a positive number or -1" in done.stderr
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    done = discrepant("pca", "two.npz", "-o", "out", cwd=tmp_path)
    assert "say which with --key." in done.stderr
