"""restore(): PSNR gain, clean values unchanged, tiles, time limit, input errors."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.ndimage import median_filter

from discrepant import InputError, restore
from discrepant.image.restore.tiling import tiles
from support.photographs import CAT, corrupt, data, psnr


@pytest.mark.parametrize(
    ("kind", "fraction", "gain"),
    [
        ("salt-and-pepper", 0.1, 10),
        ("salt-and-pepper", 0.5, 8),
        ("salt-and-pepper", 0.8, 8),
        ("random", 0.3, 5),
        ("random", 0.5, 5),
        ("random", 0.7, 5),
        ("hot", 0.02, 10),
        ("lines", 0, 5),
        ("pixels", 0.3, 4),
    ],
)
def test_psnr_exceeds_that_of_the_best_median_filter(kind, fraction, gain):
    corrupted = corrupt(CAT, kind, fraction)
    median = max(psnr(median_filter(corrupted, (k, k, 1)), CAT) for k in (3, 5, 7))
    assert psnr(restore(corrupted, quality="fast").image, CAT) > median + gain


def test_grey_image_is_restored():
    truth = data.camera()[100:196, 180:276]
    corrupted = corrupt(truth, "random", 0.3)
    result = restore(corrupted, quality="fast")
    median = max(psnr(median_filter(corrupted, k), truth) for k in (3, 5, 7))
    assert result.image.shape == truth.shape
    assert psnr(result.image, truth) > median + 2


@pytest.mark.parametrize("name", ["chelsea", "camera", "coffee", "brick", "page"])
def test_clean_photograph_is_unchanged(name):
    truth = getattr(data, name)()[40:168, 40:168]
    result = restore(truth, quality="fast")
    assert np.mean(result.image != truth) < 1e-3
    assert psnr(result.image, truth) > 55


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", ">f4", ">f8"])
def test_unflagged_values_are_unchanged_bit_for_bit(dtype):
    corrupted = corrupt(CAT, "salt-and-pepper", 0.2)
    given = (corrupted.astype(int) * (3 if dtype != "uint8" else 1)).astype(dtype)
    result = restore(given, quality="fast")
    assert result.image.dtype == given.dtype
    assert result.image.shape == result.mask.shape == result.probability.shape
    assert np.array_equal(result.image[~result.mask], given[~result.mask])
    assert not result.corruption[~result.mask].any()
    back = result.image + result.corruption
    assert np.allclose(back.astype(float), given.astype(float))
    assert 0.15 < result.mask.mean() < 0.25


def test_transparency_is_unchanged():
    opacity = np.random.default_rng(0).integers(0, 256, CAT.shape[:2], np.uint8)
    rgba = np.dstack([corrupt(CAT, "salt-and-pepper", 0.2), opacity])
    result = restore(rgba, quality="fast")
    assert np.array_equal(result.image[..., 3], opacity)
    assert not result.mask[..., 3].any()
    assert psnr(result.image[..., :3], CAT) > 35


def test_many_channels_in_the_first_axis():
    rng = np.random.default_rng(0)
    mixing = rng.random((3, 32))
    stack = np.moveaxis((CAT[:48, :48] / 255.0) @ mixing, -1, 0).astype(np.float32)
    corrupted = np.where(rng.random(stack.shape) < 0.2, stack.max(), stack)
    result = restore(corrupted, quality="fast", channel_axis=0)
    assert result.image.shape == stack.shape
    before, after = (np.mean((x - stack) ** 2) for x in (corrupted, result.image))
    assert after < before / 100


def test_nan_and_masked_values_are_replaced():
    given = (CAT / 255.0).astype(np.float32)
    hole = np.zeros(given.shape[:2], bool)
    hole[30:36, 40:60] = True
    given[hole] = np.nan
    by_nan = restore(given, quality="fast")
    assert np.isfinite(by_nan.image).all()
    assert by_nan.mask[hole].all()
    assert (by_nan.probability[hole] == 1).all()
    by_mask = restore(CAT, quality="fast", mask=hole)
    assert by_mask.mask[hole].all()
    assert psnr(by_mask.image, CAT) > 30


def test_extreme_outliers_do_not_compress_the_intensity_scale():
    rng = np.random.default_rng(0)
    truth = CAT.astype(np.float32)
    corrupted = np.where(
        rng.random(truth.shape) < 0.03, 1e6 * rng.random(truth.shape), truth
    )
    result = restore(corrupted.astype(np.float32), quality="fast")
    assert psnr(result.image, truth) > 38


def test_black_background_is_not_flagged():
    truth = data.astronaut()[200:400, 300:500]  # an arm before a dark shuttle
    assert (truth < 4).mean() > 0.3
    result = restore(corrupt(truth, "random", 0.5), quality="fast")
    assert psnr(result.image, truth) > 30  # 12.6 if black counts as corrupted


def test_channels_in_different_units_are_scaled_separately():
    scales = np.array([1, 100, 1000])
    truth = CAT / 255 * scales
    rng = np.random.default_rng(0)
    hit = rng.random(truth.shape) < 0.05
    result = restore(np.where(hit, scales, truth), quality="fast")
    for channel in range(3):
        clearly_corrupt = hit[..., channel] & (
            truth[..., channel] < 0.7 * scales[channel]
        )
        assert result.mask[..., channel][clearly_corrupt].mean() > 0.95


def test_masked_array_is_combined_with_the_mask():
    hit = np.random.default_rng(0).random(CAT.shape) < 0.2
    hidden = np.ma.masked_array(CAT, hit)
    assert restore(hidden, quality="fast").mask[hit].all()
    hole = np.zeros(CAT.shape[:2], bool)
    hole[30:36, 40:60] = True
    result = restore(hidden, quality="fast", mask=hole)
    assert result.mask[hit].all()
    assert result.mask[hole].all()


def test_many_channels_make_small_tiles():
    rows, columns = next(tiles(2000, 2000, 200)).padded
    assert (rows.stop - rows.start) * (columns.stop - columns.start) < 40_000


def test_tile_cores_partition_the_image():
    decided = np.zeros((2500, 1100), int)
    for tile in tiles(2500, 1100, 3):
        decided[tile.core] += 1
        padded = decided[tile.padded]
        assert np.shares_memory(padded[tile.core_in_padded], decided[tile.core])
        assert padded[tile.core_in_padded].shape == decided[tile.core].shape
    assert (decided == 1).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (3, 3, 3), (2, 50, 3)])
def test_small_images_keep_their_shape(shape):
    image = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    assert restore(image, quality="fast").image.shape == shape


@pytest.mark.parametrize("value", [0, 7, 255])
def test_constant_image_is_unchanged(value):
    image = np.full((40, 40, 3), value, np.uint8)
    assert not restore(image, quality="fast").mask.any()


def test_pure_noise_gives_a_warning():
    noise = np.random.default_rng(0).integers(0, 256, (48, 48, 3), np.uint8)
    with pytest.warns(UserWarning, match="a guess"):
        result = restore(noise, quality="fast")
    assert np.isfinite(result.probability).all()


def test_four_channels_in_the_first_axis_have_no_transparency():
    stack = np.concatenate([CAT, CAT[..., :1]], axis=2)
    stack[40, 50] = 255
    assert not restore(stack, quality="fast").mask[..., 3].any()
    front = restore(np.moveaxis(stack, -1, 0), quality="fast", channel_axis=0)
    assert front.mask[3, 40, 50]


def test_result_does_not_depend_on_the_number_of_threads(monkeypatch):
    corrupted = corrupt(CAT, "random", 0.4)
    first = restore(corrupted, quality="fast").image
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    assert np.array_equal(restore(corrupted, quality="fast").image, first)


def cut_into_small_tiles(monkeypatch):
    monkeypatch.setattr("discrepant.image.restore.tiling.MAX_UNCUT_SIDE", 48)


def test_tiles_leave_no_seam(monkeypatch):
    corrupted = corrupt(CAT, "salt-and-pepper", 0.5)
    whole = restore(corrupted, quality="fast").image
    cut_into_small_tiles(monkeypatch)
    tiled = restore(corrupted, quality="fast")
    assert set(tiled.history["tile"]) == {0, 1, 2, 3}
    seam = np.s_[46:50]
    assert psnr(tiled.image, CAT) > psnr(whole, CAT) - 0.3
    assert psnr(tiled.image[seam], CAT[seam]) > psnr(whole[seam], CAT[seam]) - 0.3


def test_one_step_is_taken_however_short_the_time_limit():
    corrupted = corrupt(CAT, "salt-and-pepper", 0.3)
    result = restore(corrupted, time_limit=1e-3)
    assert len(result.history["step"]) == 1
    assert psnr(result.image, CAT) > psnr(corrupted, CAT) + 5


def test_tiles_after_the_time_limit_are_unchanged(monkeypatch):
    cut_into_small_tiles(monkeypatch)
    corrupted = corrupt(CAT, "salt-and-pepper", 0.3)
    result = restore(corrupted, time_limit=1e-3)
    assert set(result.history["tile"]) == {0}
    assert np.array_equal(result.image[48:], corrupted[48:])


def test_progress_callback_stops_the_work():
    reports = []

    def progress(done, note):
        reports.append(done)
        return len(reports) < 3

    restore(corrupt(CAT, "random", 0.3), progress=progress)
    assert reports == sorted(reports)
    assert reports[-1] == 1
    assert len(reports) <= 5


def test_progress_callback_that_returns_none_continues():
    reports = []
    result = restore(
        CAT, quality="fast", progress=lambda *report: reports.append(report)
    )
    assert result.complete
    assert len(reports) == len(result.history["step"]) + 1
    assert reports[-1] == (1, "0% corrupted")


def test_tiles_after_a_stop_are_unchanged(monkeypatch):
    cut_into_small_tiles(monkeypatch)
    corrupted = corrupt(CAT, "salt-and-pepper", 0.3)
    result = restore(corrupted, progress=lambda done, note: False)
    assert not result.complete
    assert result.history["tile"].tolist() == [0]
    assert np.array_equal(result.image[48:], corrupted[48:])
    assert psnr(result.image[:48, :48], CAT[:48, :48]) > 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": np.zeros((4, 4, 3, 2))}, "shape"),
        ({"image": np.zeros((0, 4))}, "empty"),
        ({"image": np.zeros((4, 4), complex)}, "complex"),
        ({"image": np.full((4, 4), np.nan)}, "nothing to restore"),
        ({"image": np.zeros((4, 4)), "mask": np.ones((4, 4), bool)}, "nothing"),
        ({"image": np.zeros((4, 4)), "mask": np.ones((3, 4), bool)}, "mask"),
        ({"image": np.zeros((4, 4)), "quality": "good"}, "quality"),
        ({"image": np.zeros((4, 4)), "time_limit": 0}, "time_limit"),
        ({"image": np.zeros((4, 4, 3)), "channel_axis": 5}, "channel_axis"),
        ({"image": np.zeros((4, 4, 3)), "channel_axis": None}, "channel_axis"),
        ({"image": np.zeros((4, 4)), "mask": np.ones((4, 4))}, "bools"),
        ({"image": [[1.0], [1.0, 2.0]]}, "rows of different lengths"),
    ],
)
def test_invalid_input_gives_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        restore(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fraction", "least"),
    [("salt-and-pepper", 0.5, 33), ("random", 0.3, 33), ("random", 0.5, 29)],
)
def test_best_is_better_than_fast(kind, fraction, least):
    truth = data.astronaut()
    corrupted = corrupt(truth, kind, fraction)
    fast, best = (
        psnr(restore(corrupted, quality=q).image, truth) for q in ("fast", "best")
    )
    assert best > fast
    assert best > least


@pytest.mark.slow
def test_large_image_takes_bounded_memory():
    code = (
        "import resource, numpy as np; from discrepant import restore\n"
        "from discrepant.image.restore.tiling import tiles\n"
        "from skimage import data\n"
        "image = np.tile(data.astronaut(), (8, 6, 1))[:4000, :3000]\n"
        "image[::3, ::5] = 255\n"
        "result = restore(image, quality='fast')\n"
        "assert result.history['tile'].max() == len([*tiles(*image.shape)]) - 1\n"
        "assert result.mask[::3, ::5].mean() > 0.9\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 6e6  # kilobytes
