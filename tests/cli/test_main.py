"""Behaviour of all commands: help, errors, outputs, Ctrl-C."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import typer
import zarr
from PIL import Image

from discrepant.cli.interrupt import interruptible
from discrepant.cli.main import app
from discrepant.cli.messages import parameters_as_options, set_commands
from discrepant.video.example_data import street


def test_nothing_is_overwritten_by_default(run_in_process, matrix_csv, tmp_path):
    (tmp_path / "out").mkdir()
    existing = tmp_path / "out" / "summary.json"
    existing.write_text("precious")
    refused = run_in_process("pca", matrix_csv, "-o", "out")
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert existing.read_text() == "precious"
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize("command", ["clean", "pca", "zarr", "restore", "video"])
def test_overwrite_replaces_all_results(run_in_process, matrix_csv, tmp_path, command):
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
        args = (command, matrix_csv)

    def run(*more):
        return run_in_process(*args, "-o", "out", *more)

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


def test_the_input_is_never_overwritten(run_in_process, matrix_csv, tmp_path):
    file = tmp_path / "low_rank.csv"
    matrix_csv.rename(file)
    before = file.read_bytes()
    done = run_in_process("pca", file, "-o", tmp_path, "--overwrite")
    assert done.returncode == 2
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pca missing.csv -o out", "missing.csv does not exist."),
        ("pca . -o out", "is a folder"),
        ("pca text.csv -o out", "text.csv"),
        ("pca pickled.npy -o out", "pickled.npy"),
        ("pca complex.npy -o out", "complex128"),
        ("pca infinite.npy -o out", "infinite"),
        ("pca nothing.npy -o out", "missing"),
        ("pca good.npy -o good.npy", "good.npy"),
        ("pca good.npy -o good.npy/inside", "good.npy"),
        ("pca good.npy -o out --alpha many", "--alpha must be a number"),
        ("pca good.npy -o out --alpha -3", "--alpha must be"),
        ("pca good.npy -o out --noise loud", "--noise must be a number"),
        ("pca good.npy -o out --fdr 1.5", "--fdr must be"),
        ("pca good.npy -o out --max-iter 0", "--max-iter"),
        ("pca good.npy -o out --workers 1 --psd", "--psd"),
        ("pca wide.npy -o out --psd", "--psd"),
        ("pca good.npy", "--output"),
        ("pca dates.npy -o out", "datetime64"),
        ("pca good.npy -o out --seed -1", "--seed"),
        ("pca two.npz -o out", "--key"),
        ("demo -o out --seed -1", "--seed"),
        ("reproduce fig9 -o out", "fig9"),
        ("reproduce fig3 -o out --quick --scale paper", "--quick and --scale paper"),
        ("reproduce fig1a -o out --scale cpu", "leave out --scale and --images."),
        ("reproduce fig1a -o out --jobs 0", "--jobs must be a positive number or -1"),
        ("serve --port 70000 --no-open", "--port"),
        ("unknown", "unknown"),
    ],
)
def test_mistakes_get_a_message_and_exit_code_two(
    run_in_process, tmp_path, command, message
):
    (tmp_path / "text.csv").write_text("a,b\n1,x\n2,y\n")
    np.save(tmp_path / "pickled.npy", np.array([[{}]], object), allow_pickle=True)
    np.save(tmp_path / "complex.npy", np.ones((3, 3), complex))
    np.save(tmp_path / "infinite.npy", np.full((3, 3), np.inf))
    np.save(tmp_path / "nothing.npy", np.full((3, 3), np.nan))
    np.save(tmp_path / "dates.npy", np.zeros((3, 3), "M8[s]"))
    np.save(tmp_path / "good.npy", np.ones((4, 4)))
    np.save(tmp_path / "wide.npy", np.ones((4, 5)))
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run_in_process(*command.split())
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_process_prints_one_line_for_a_mistake(discrepant, tmp_path):
    done = discrepant("pca", "missing.csv", "-o", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "discrepant: missing.csv does not exist.\n"


def test_help_loads_no_numerical_packages():
    code = (
        "import sys; sys.argv = ['discrepant', 'restore', '--help']\n"
        "from discrepant.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*{'scipy', 'sklearn', 'pandas'} & {*sys.modules})"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "--fast" in printed
    assert not printed.splitlines()[-1].strip()


def test_compiling_is_announced_once(monkeypatch):
    from discrepant.core import jit, progress

    messages = []
    monkeypatch.setattr(progress, "_listeners", [messages.append])
    monkeypatch.setattr(jit, "ANNOUNCE_AFTER", -1.0)
    monkeypatch.setattr(jit.COMPILE_NOTICE, "announced", False)

    def double(x):
        return 2 * x

    double.__module__ = "discrepant.double"
    function = jit.njit(cache=False)(double)
    assert function(2) == 4 and function(2.5) == 5.0
    assert len(messages) == 1
    assert messages[0].startswith("Compiling for this machine")


def test_a_missing_extra_names_the_command_that_installs_it():
    from discrepant.core.errors import missing_extra

    assert str(missing_extra("It needs X", "web")) == (
        "It needs X: pip install 'discrepant[web]'."
    )


def test_help_names_every_command(run_in_process):
    done = run_in_process("--help")
    assert done.returncode == 0
    for command in ("demo", "clean", "pca", "restore", "video", "reproduce", "serve"):
        assert command in done.stdout
        assert run_in_process(command, "--help").stdout.count("Example") == 1
    assert run_in_process("--version").stdout.startswith("discrepant ")


@pytest.mark.parametrize(
    ("message", "printed"),
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
def test_parameters_in_messages_become_options(message, printed):
    set_commands(typer.main.get_command(app))
    assert parameters_as_options(message) == printed


def test_the_second_interrupt_stops_at_once(capsys):
    with pytest.raises(KeyboardInterrupt), interruptible("work") as progress:
        assert progress(0.1, "")
        signal.raise_signal(signal.SIGINT)
        assert not progress(0.2, "")
        signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr().err.count("Press Ctrl-C again") == 1
