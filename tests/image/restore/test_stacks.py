"""Stacks: frames of one scene inform each other, and what moves is no corruption."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from discrepant import restore
from discrepant.core.errors import InputError
from discrepant.image.files import formats, tiff
from discrepant.image.restore.stack.axes import Axes
from discrepant.image.restore.stack.motion import TUNING, motion, moved
from discrepant.image.restore_files import Options, plan, restore_file


def scene(rows=72, columns=80, seed=0):
    """Detail of several sizes, on [0, 1]."""
    rng = np.random.default_rng(seed)
    parts = [gaussian_filter(rng.normal(size=(rows, columns)), s) for s in (1, 3, 9)]
    made = sum(p / p.std() for p in parts)
    return (made - made.min()) / np.ptp(made)


def burst(frames=7, noise=0.02, shift=0, seed=0):
    rng = np.random.default_rng(seed)
    still = scene(columns=80 + shift * frames, seed=seed)
    stack = [still[:, shift * t : shift * t + 80] for t in range(frames)]
    made = np.stack(stack) * 0.8 + 0.1 + noise * rng.normal(size=(frames, 72, 80))
    return np.clip(255 * made, 0, 255).astype(np.uint8)


def spoiled(stack, share, seed=1):
    rng = np.random.default_rng(seed)
    mask = rng.random(stack.shape) < share
    values = rng.integers(0, 256, stack.shape).astype(stack.dtype)
    return np.where(mask, values, stack), mask


@pytest.mark.parametrize("shift", [0, 3])
def test_a_clean_stack_comes_back_as_it_was(shift):
    stack = burst(shift=shift)
    found = restore(stack, axes="TYX", quality="fast")
    assert np.array_equal(found.image, stack)
    assert found.image.dtype == stack.dtype
    assert not found.mask.any()


def test_frames_tell_more_than_one_by_one():
    stack = burst()
    bad, mask = spoiled(stack, 0.1)
    found = restore(bad, axes="TYX", quality="fast")
    alone = np.stack([restore(frame, quality="fast").image for frame in bad])
    error = [np.mean((a.astype(float) - stack) ** 2) for a in (found.image, alone)]
    assert error[0] < error[1] / 2
    assert (found.mask & ~mask).sum() < 0.005 * mask.size
    # What is kept is kept bit for bit, and the parts add up.
    assert np.array_equal(found.image[~found.mask], bad[~found.mask])
    assert np.array_equal(found.image + found.corruption, bad.astype(int))
    assert found.probability.shape == bad.shape


def test_a_small_thing_that_moves_survives():
    stack = burst(noise=0.01)
    for t in range(len(stack)):
        stack[t, 20:24, 8 * t + 4 : 8 * t + 8] = 250
    found = restore(stack, axes="TYX", quality="fast")
    kept = [
        found.image[t, 20:24, 8 * t + 4 : 8 * t + 8] == 250 for t in range(len(stack))
    ]
    assert np.mean(kept) > 0.95


def test_a_weak_pixel_that_is_hot_in_every_frame_is_found():
    rng = np.random.default_rng(2)
    hot = rng.random((84, 84)) < 0.003
    ground = 1000 + np.linspace(0, 200, 84)
    stack = ground + 20 * rng.normal(size=(10, 84, 84)) + 80 * hot
    stack = stack.astype(np.uint16)
    found = restore(stack, axes="TYX", quality="fast")
    always = found.mask.all(axis=0)
    assert (always & hot).sum() >= 0.9 * hot.sum()
    assert (found.mask & ~hot).mean() < 1e-3


def test_a_stack_of_one_frame_is_the_image():
    bad, _ = spoiled(burst(1), 0.05)
    found = restore(bad, axes="ZYX", quality="fast")
    alone = restore(bad[0], quality="fast")
    assert np.array_equal(found.image[0], alone.image)
    assert np.array_equal(found.mask[0], alone.mask)


def test_axes_may_stand_in_any_order_and_in_a_file(tmp_path):
    first, second = (spoiled(burst(5, seed=s), 0.03, seed=s)[0] for s in (3, 4))
    stack = np.stack([first, second])
    mapped = np.lib.format.open_memmap(
        tmp_path / "stack.npy", "w+", stack.dtype, stack.shape
    )
    mapped[:] = stack
    found = restore(mapped, axes="QTYX", quality="fast")
    assert isinstance(found.image, np.memmap)
    apart = restore(np.moveaxis(second, 0, -1), axes="YXT", quality="fast")
    assert np.array_equal(found.image[1], np.moveaxis(apart.image, -1, 0))
    assert found.corruption.shape == stack.shape


def test_known_bad_values_are_marked_for_all_frames_or_each():
    stack = burst(4)
    marks = np.zeros(stack.shape[1:], bool)
    marks[30, 40] = True
    found = restore(stack, axes="TYX", mask=marks, quality="fast")
    assert found.mask[:, 30, 40].all()
    assert found.mask.sum() == len(stack)
    # In one frame alone, the others know what it was.
    each = np.zeros(stack.shape, bool)
    each[1, 30, 40] = True
    found = restore(stack, axes="TYX", mask=each, quality="fast")
    assert abs(int(found.image[1, 30, 40]) - int(stack[1, 30, 40])) < 20


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ("TY", "names 2 axes"),
        ("TXX", "twice"),
        ("TZC", "rows, Y"),
        ("T-X", "letters"),
        (3, "letters"),
        ("TYXC", "names 4 axes"),
    ],
)
def test_wrong_axes_get_one_sentence(axes, says):
    with pytest.raises(InputError, match=says):
        restore(burst(2), axes=axes)


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(InputError, match="mask has shape"):
        restore(burst(2), axes="TYX", mask=np.zeros((3, 3), bool))


def test_names_say_what_each_axis_is():
    axes = Axes.of("tzcyx", (5, 4, 3, 20, 30))
    views = list(axes.stacks(np.zeros((5, 4, 3, 20, 30))))
    assert len(views) == 4
    assert views[0][0].shape == (5, 20, 30, 3)


def test_blocks_are_found_where_they_went():
    still = scene(96, 120).astype(np.float32)
    here, there = still[8:72, 16:96], still[5:69, 12:92]
    moves = motion(here, there)
    inner = moves[2:-2, 2:-2]
    assert (inner == [3, 4]).all()
    values, weights = moved(there[..., None], np.ones((64, 80, 1), np.float32), moves)
    assert np.array_equal(values[24:-24, 24:-24, 0], here[24:-24, 24:-24])
    assert TUNING.block * moves.shape[0] >= 64
    assert not motion(here, here).any()
    assert weights.max() == 1


def test_large_files_of_frames_stay_on_file(tmp_path, monkeypatch):
    tifffile = pytest.importorskip("tifffile")
    stack = spoiled(burst(6), 0.03)[0][:, :32, :36].astype(">u2") * 256
    np.save(tmp_path / "a.npy", stack)
    options = {"compression": "zlib", "byteorder": ">"}
    tifffile.imwrite(tmp_path / "b.tif", stack, photometric="minisblack", **options)
    made = {}
    for most in (10**9, 0):
        for module in (formats, tiff):
            monkeypatch.setattr(module, "SMALL", most)
        for name in ("a.npy", "b.tif"):
            picture = formats.read(tmp_path / name, mapped=True)
            assert isinstance(picture.values, np.memmap) == (most == 0)
            assert np.array_equal(picture.values, stack)
            job = plan([tmp_path / name], tmp_path / f"{most}-{name}")[0]
            restore_file(job, Options("fast", axes="TYX", mask=True))
            paths = job.target, job.mask(".tif")
            made[most, name] = [formats.read(path).values for path in paths]
    for name in ("a.npy", "b.tif"):
        for read, mapped in zip(made[10**9, name], made[0, name], strict=True):
            assert np.array_equal(read, mapped)
        assert made[0, name][1].any()
