"""The examples run, print their result and write their figure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# script → (part of its output, whether it is slow)
SCRIPTS = {
    "clean_table": ("errors that are flagged", False),
    "corrupted_table": ("rank 3", False),
    "kspace_spikes": ("of the spikes found", False),
    "label_noise": ("wrong labels that are flagged", True),
    "localisation": ("of the wrong distances found", False),
    "matrix_sensing": ("converged", False),
    "occluded_image": ("behind the objects", False),
    "quantum_state": ("of the wrong settings found", False),
    "separate_video": ("car pixels detected", True),
    "stuck_blocks": ("error of the low rank", False),
    "tensor_mode": ("mode 1 is in use", False),
    "wrong_rows": ("area under the ROC curve", False),
}


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SCRIPTS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(name, message, marks=[pytest.mark.slow] * slow)
        for name, (message, slow) in SCRIPTS.items()
    ],
)
def test_example(tmp_path, name, message):
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / f"{name}.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    assert message in done.stdout
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
