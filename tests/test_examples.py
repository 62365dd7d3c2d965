"""The examples run as they stand, print what they promise and draw their picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# script → (what it prints, and whether it takes long)
SCRIPTS = {
    "clean_table": ("flagged of the wrong", False),
    "corrupted_table": ("rank 3", False),
    "kspace_spikes": ("of the spikes found", False),
    "label_noise": ("wrong labels that it points out", True),
    "localisation": ("of the wrong distances found", False),
    "matrix_sensing": ("converged", False),
    "quantum_state": ("of the wrong settings found", False),
    "separate_video": ("found of the cars", True),
}


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SCRIPTS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(name, said, marks=[pytest.mark.slow] * slow)
        for name, (said, slow) in SCRIPTS.items()
    ],
)
def test_example(tmp_path, name, said):
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / f"{name}.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
