"""Small mounted disks, and a matrix to write to them."""

import shutil
import subprocess

import numpy as np
import pytest


def data(shape=(30, 20), seed=0):
    """A matrix of rank one with 5% of its entries wrong."""
    rng = np.random.default_rng(seed)
    Y = np.outer(*(rng.uniform(1, 2, size) for size in shape))
    Y[rng.random(shape) < 0.05] = 10
    return Y


def mounted(folder, size):
    """Mount a small disk; skip where this may not be done."""
    folder.mkdir()
    made = (
        shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)],
            capture_output=True,
        ).returncode
    )
    if not made:
        pytest.skip("no disk can be mounted here")


def unmounted(folder):
    subprocess.run(["umount", str(folder)], check=True)
