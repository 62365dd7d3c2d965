"""Memory-mapped inputs that are truncated or deleted, and full disks."""

import os
import sys
import tempfile

import numpy as np
import pytest

from discrepant import InputError, RobustPCA, recover, restore
from discrepant.core.memory import array_on_file
from discrepant.core.validation import check_mapped
from support.disks import corrupted_rank_one, mount_small_disk, unmount

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory maps and mounted disks need Linux"
)
TRUNCATED = "was cut short while it was in use"


def test_a_file_truncated_after_a_fit_gives_a_message(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, corrupted_rank_one((600, 400)))
    model = RobustPCA(random_state=0).fit(np.load(path, mmap_mode="r"))
    os.truncate(path, 1000)
    with pytest.raises(InputError, match=TRUNCATED):
        model.sparse_  # noqa: B018


def test_a_deleted_input_can_still_be_read(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, corrupted_rank_one())
    mapped = np.load(path, mmap_mode="r")
    path.unlink()
    check_mapped(mapped)
    assert RobustPCA(random_state=0).fit(mapped).sparse_.shape == mapped.shape


def test_a_file_truncated_during_a_fit_gives_a_message(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, corrupted_rank_one((600, 400)))

    def truncate(fraction, note):
        os.truncate(path, 1000)
        return True

    with pytest.raises(InputError, match=TRUNCATED):
        recover(np.load(path, mmap_mode="r"), random_state=0, progress=truncate)


def test_a_stack_truncated_during_restoration_gives_a_message(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, np.full((6, 40, 40), 9, np.uint8))

    def truncate(fraction, note):
        os.truncate(path, 1000)
        return True

    frames = np.load(path, mmap_mode="r")
    with pytest.raises(InputError, match=TRUNCATED):
        restore(frames, axes="TYX", quality="fast", progress=truncate)


def test_a_full_disk_is_reported_before_the_work(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    mount_small_disk(disk, "64k")
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    try:
        assert array_on_file((10, 100), np.float64).shape == (10, 100)
        with pytest.raises(InputError, match=f"{disk} has no space for"):
            RobustPCA(random_state=0, memory_limit=0).fit(
                corrupted_rank_one((200, 100))
            )
    finally:
        unmount(disk)
