"""Small mounted disks, and a corrupted matrix for tests of files."""

import shutil
import subprocess

import numpy as np
import pytest


def corrupted_rank_one(shape=(30, 20), seed=0):
    """Return a matrix of rank one with 5% of its entries corrupted."""
    rng = np.random.default_rng(seed)
    Y = np.outer(*(rng.uniform(1, 2, size) for size in shape))
    Y[rng.random(shape) < 0.05] = 10
    return Y


def mount_small_disk(folder, size):
    """Mount a disk of the given size at a new folder; skip the test if refused."""
    folder.mkdir()
    mounted = (
        shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)],
            capture_output=True,
        ).returncode
    )
    if not mounted:
        pytest.skip("no disk can be mounted here")


def unmount(folder):
    """Unmount the disk at a folder."""
    subprocess.run(["umount", str(folder)], check=True)
