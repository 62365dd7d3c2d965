"""Stacks of frames: joint restoration, moving objects, axes and large files."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from discrepant import restore
from discrepant.core.errors import InputError
from discrepant.image.files import formats, tiff
from discrepant.image.restore.stack.axes import Axes
from discrepant.image.restore.stack.motion import BLOCK, block_motion, warp_blocks
from discrepant.image.restore_files import Options, plan, restore_file


def textured_image(rows=72, columns=80, seed=0):
    """Return an image on [0, 1] with detail of several sizes."""
    rng = np.random.default_rng(seed)
    parts = [gaussian_filter(rng.normal(size=(rows, columns)), s) for s in (1, 3, 9)]
    image = sum(p / p.std() for p in parts)
    return (image - image.min()) / np.ptp(image)


def burst(frames=7, noise=0.02, shift=0, seed=0):
    """Return noisy frames of one image, each shifted by so many columns."""
    rng = np.random.default_rng(seed)
    image = textured_image(columns=80 + shift * frames, seed=seed)
    stack = [image[:, shift * t : shift * t + 80] for t in range(frames)]
    values = np.stack(stack) * 0.8 + 0.1 + noise * rng.normal(size=(frames, 72, 80))
    return np.clip(255 * values, 0, 255).astype(np.uint8)


def with_random_impulses(stack, fraction, seed=1):
    """Return a corrupted copy of a stack, and the mask of the corrupted values."""
    rng = np.random.default_rng(seed)
    mask = rng.random(stack.shape) < fraction
    values = rng.integers(0, 256, stack.shape).astype(stack.dtype)
    return np.where(mask, values, stack), mask


@pytest.mark.parametrize("shift", [0, 3])
def test_a_clean_stack_is_unchanged(shift):
    stack = burst(shift=shift)
    result = restore(stack, axes="TYX", quality="fast")
    assert np.array_equal(result.image, stack)
    assert result.image.dtype == stack.dtype
    assert not result.mask.any()


def test_joint_restoration_is_better_than_single_frames():
    stack = burst()
    corrupted, mask = with_random_impulses(stack, 0.1)
    result = restore(corrupted, axes="TYX", quality="fast")
    alone = np.stack([restore(frame, quality="fast").image for frame in corrupted])
    error = [np.mean((a.astype(float) - stack) ** 2) for a in (result.image, alone)]
    assert error[0] < error[1] / 2
    assert (result.mask & ~mask).sum() < 0.005 * mask.size
    # Unflagged values are unchanged, and image and corruption add up to the input.
    assert np.array_equal(result.image[~result.mask], corrupted[~result.mask])
    assert np.array_equal(result.image + result.corruption, corrupted.astype(int))
    assert result.probability.shape == corrupted.shape


def test_a_small_moving_object_is_kept():
    stack = burst(noise=0.01)
    for t in range(len(stack)):
        stack[t, 20:24, 8 * t + 4 : 8 * t + 8] = 250
    result = restore(stack, axes="TYX", quality="fast")
    kept = [
        result.image[t, 20:24, 8 * t + 4 : 8 * t + 8] == 250 for t in range(len(stack))
    ]
    assert np.mean(kept) > 0.95


def test_weak_hot_pixels_of_every_frame_are_flagged():
    rng = np.random.default_rng(2)
    hot = rng.random((84, 84)) < 0.003
    background = 1000 + np.linspace(0, 200, 84)
    stack = background + 20 * rng.normal(size=(10, 84, 84)) + 80 * hot
    stack = stack.astype(np.uint16)
    result = restore(stack, axes="TYX", quality="fast")
    in_all_frames = result.mask.all(axis=0)
    assert (in_all_frames & hot).sum() >= 0.9 * hot.sum()
    assert (result.mask & ~hot).mean() < 1e-3


def test_a_stack_of_one_frame_is_restored_as_an_image():
    corrupted, _ = with_random_impulses(burst(1), 0.05)
    result = restore(corrupted, axes="ZYX", quality="fast")
    alone = restore(corrupted[0], quality="fast")
    assert np.array_equal(result.image[0], alone.image)
    assert np.array_equal(result.mask[0], alone.mask)


def test_axes_in_any_order_and_memory_maps_are_accepted(tmp_path):
    first, second = (
        with_random_impulses(burst(5, seed=s), 0.03, seed=s)[0] for s in (3, 4)
    )
    stack = np.stack([first, second])
    mapped = np.lib.format.open_memmap(
        tmp_path / "stack.npy", "w+", stack.dtype, stack.shape
    )
    mapped[:] = stack
    result = restore(mapped, axes="QTYX", quality="fast")
    assert isinstance(result.image, np.memmap)
    separate = restore(np.moveaxis(second, 0, -1), axes="YXT", quality="fast")
    assert np.array_equal(result.image[1], np.moveaxis(separate.image, -1, 0))
    assert result.corruption.shape == stack.shape


def test_a_mask_applies_to_all_frames_or_to_each():
    stack = burst(4)
    mask = np.zeros(stack.shape[1:], bool)
    mask[30, 40] = True
    result = restore(stack, axes="TYX", mask=mask, quality="fast")
    assert result.mask[:, 30, 40].all()
    assert result.mask.sum() == len(stack)
    # A value that is bad in one frame is predicted from the others.
    mask = np.zeros(stack.shape, bool)
    mask[1, 30, 40] = True
    result = restore(stack, axes="TYX", mask=mask, quality="fast")
    assert abs(int(result.image[1, 30, 40]) - int(stack[1, 30, 40])) < 20


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("TY", "names 2 axes"),
        ("TXX", "twice"),
        ("TZC", "rows, Y"),
        ("T-X", "letters"),
        (3, "letters"),
        ("TYXC", "names 4 axes"),
    ],
)
def test_invalid_axes_are_refused(axes, message):
    with pytest.raises(InputError, match=message):
        restore(burst(2), axes=axes)


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(InputError, match="mask has shape"):
        restore(burst(2), axes="TYX", mask=np.zeros((3, 3), bool))


def test_axes_of_a_volume_over_time():
    axes = Axes.of("tzcyx", (5, 4, 3, 20, 30))
    views = list(axes.stacks(np.zeros((5, 4, 3, 20, 30))))
    assert len(views) == 4
    assert views[0][0].shape == (5, 20, 30, 3)


def test_block_motion_of_a_shifted_image():
    image = textured_image(96, 120).astype(np.float32)
    here, there = image[8:72, 16:96], image[5:69, 12:92]
    moves = block_motion(here, there)
    inner = moves[2:-2, 2:-2]
    assert (inner == [3, 4]).all()
    ones = np.ones((64, 80, 1), np.float32)
    values, weights = warp_blocks(there[..., None], ones, moves)
    assert np.array_equal(values[24:-24, 24:-24, 0], here[24:-24, 24:-24])
    assert BLOCK * moves.shape[0] >= 64
    assert not block_motion(here, here).any()
    assert weights.max() == 1


def test_mapped_and_unmapped_files_give_the_same_result(tmp_path, monkeypatch):
    tifffile = pytest.importorskip("tifffile")
    stack = with_random_impulses(burst(6), 0.03)[0][:, :32, :36].astype(">u2") * 256
    np.save(tmp_path / "a.npy", stack)
    options = {"compression": "zlib", "byteorder": ">"}
    tifffile.imwrite(tmp_path / "b.tif", stack, photometric="minisblack", **options)
    results = {}
    for max_unmapped in (10**9, 0):
        for module in (formats, tiff):
            monkeypatch.setattr(module, "MAX_UNMAPPED_BYTES", max_unmapped)
        for name in ("a.npy", "b.tif"):
            image = formats.read(tmp_path / name, mapped=True)
            assert isinstance(image.values, np.memmap) == (max_unmapped == 0)
            assert np.array_equal(image.values, stack)
            job = plan([tmp_path / name], tmp_path / f"{max_unmapped}-{name}")[0]
            restore_file(job, Options("fast", axes="TYX", mask=True))
            paths = job.target, job.mask(".tif")
            results[max_unmapped, name] = [formats.read(path).values for path in paths]
    for name in ("a.npy", "b.tif"):
        for unmapped, mapped in zip(
            results[10**9, name], results[0, name], strict=True
        ):
            assert np.array_equal(unmapped, mapped)
        assert results[0, name][1].any()
