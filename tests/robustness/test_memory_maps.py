"""Arrays in files: cut while they are read, gone, or on a disk that is full."""

import os
import sys
import tempfile

import numpy as np
import pytest

from discrepant import InputError, RobustPCA, recover, restore
from discrepant.core.memory import array_on_file
from discrepant.core.validation import check_mapped
from discrepant.robust_pca.rows.in_memory import ArrayRows
from support.disks import data, mounted, unmounted

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="maps and disks as on Linux"
)
CUT = "was cut short while it was in use"


def test_a_map_that_is_cut_after_a_fit_is_said(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, data((600, 400)))
    model = RobustPCA(random_state=0).fit(np.load(path, mmap_mode="r"))
    os.truncate(path, 1000)
    with pytest.raises(InputError, match=CUT):
        model.sparse_  # noqa: B018


def test_an_input_that_vanishes_is_held(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, data())
    mapped = np.load(path, mmap_mode="r")
    path.unlink()
    check_mapped(mapped)
    assert RobustPCA(random_state=0).fit(mapped).sparse_.shape == mapped.shape


def test_a_map_that_is_cut_within_a_fit_is_said(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, data((600, 400)))

    def cut(share, note):
        os.truncate(path, 1000)
        return True

    with pytest.raises(InputError, match=CUT):
        recover(np.load(path, mmap_mode="r"), random_state=0, progress=cut)


def test_a_map_is_looked_at_before_each_tile(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, data((2000, 400)))
    rows = ArrayRows(np.load(path, mmap_mode="r"))
    tiles = rows._tiles((0, 2000), None)
    next(tiles)
    os.truncate(path, 1000)
    with pytest.raises(InputError, match=CUT):
        next(tiles)


def test_a_mapped_stack_that_is_cut_is_said(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, np.full((6, 40, 40), 9, np.uint8))

    def cut(share, note):
        os.truncate(path, 1000)
        return True

    frames = np.load(path, mmap_mode="r")
    with pytest.raises(InputError, match=CUT):
        restore(frames, axes="TYX", quality="fast", progress=cut)


def test_a_full_disk_is_named_before_anything_is_written(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    mounted(disk, "64k")
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    try:
        assert array_on_file((10, 100), np.float64).shape == (10, 100)
        with pytest.raises(InputError, match=f"{disk} has no space for"):
            RobustPCA(random_state=0, memory_limit=0).fit(data((200, 100)))
    finally:
        unmounted(disk)
