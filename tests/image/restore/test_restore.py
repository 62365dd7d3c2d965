"""restore(): what it mends, what it must not touch, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.ndimage import median_filter

from discrepant import InputError, restore
from discrepant.image.restore.core.border_lines import split_border_lines
from discrepant.image.restore.tiling import tiles

data = pytest.importorskip("skimage.data")
CAT = data.chelsea()[60:156, 130:226]


def psnr(image, truth):
    error = np.mean((image.astype(float) - truth) ** 2)
    return 10 * np.log10(255**2 / error) if error else np.inf


def spoil(truth, kind, share, seed=0):
    rng = np.random.default_rng(seed)
    hit = rng.random(truth.shape) < share
    values = rng.integers(0, 256, truth.shape)
    if kind == "salt-and-pepper":
        values = np.where(values < 128, 0, 255)
    elif kind == "hot":
        values[:] = 255
    elif kind == "lines":
        hit[:] = False
        hit[20], hit[60], hit[:, 33] = True, True, True
        values[20], values[60], values[:, 33] = 0, 180, 255
    elif kind == "pixels":
        hit[:] = hit[..., :1]
        values = np.where(values[..., :1] < 128, 0, 255) + np.zeros_like(values)
    return np.where(hit, values, truth).astype(truth.dtype)


@pytest.mark.parametrize(
    ("kind", "share", "gain"),
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
def test_it_beats_the_best_median_untold(kind, share, gain):
    spoiled = spoil(CAT, kind, share)
    median = max(psnr(median_filter(spoiled, (k, k, 1)), CAT) for k in (3, 5, 7))
    assert psnr(restore(spoiled, quality="fast").image, CAT) > median + gain


def test_grey_images_too():
    truth = data.camera()[100:196, 180:276]
    spoiled = spoil(truth, "random", 0.3)
    result = restore(spoiled, quality="fast")
    median = max(psnr(median_filter(spoiled, k), truth) for k in (3, 5, 7))
    assert result.image.shape == truth.shape
    assert psnr(result.image, truth) > median + 2


@pytest.mark.parametrize("name", ["chelsea", "camera", "coffee", "brick", "page"])
def test_a_clean_photograph_is_left_alone(name):
    truth = getattr(data, name)()[40:168, 40:168]
    result = restore(truth, quality="fast")
    assert np.mean(result.image != truth) < 1e-3
    assert psnr(result.image, truth) > 55


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", ">f4", ">f8"])
def test_what_is_judged_clean_is_kept_bit_for_bit(dtype):
    spoiled = spoil(CAT, "salt-and-pepper", 0.2)
    given = (spoiled.astype(int) * (3 if dtype != "uint8" else 1)).astype(dtype)
    result = restore(given, quality="fast")
    assert result.image.dtype == given.dtype
    assert result.image.shape == result.mask.shape == result.probability.shape
    assert np.array_equal(result.image[~result.mask], given[~result.mask])
    assert not result.corruption[~result.mask].any()
    back = result.image + result.corruption
    assert np.allclose(back.astype(float), given.astype(float))
    assert 0.15 < result.mask.mean() < 0.25


def test_transparency_is_kept():
    opacity = np.random.default_rng(0).integers(0, 256, CAT.shape[:2], np.uint8)
    rgba = np.dstack([spoil(CAT, "salt-and-pepper", 0.2), opacity])
    result = restore(rgba, quality="fast")
    assert np.array_equal(result.image[..., 3], opacity)
    assert not result.mask[..., 3].any()
    assert psnr(result.image[..., :3], CAT) > 35


def test_channels_may_come_first_and_be_many():
    rng = np.random.default_rng(0)
    mixing = rng.random((3, 32))
    stack = np.moveaxis((CAT[:48, :48] / 255.0) @ mixing, -1, 0).astype(np.float32)
    spoiled = np.where(rng.random(stack.shape) < 0.2, stack.max(), stack)
    result = restore(spoiled, quality="fast", channel_axis=0)
    assert result.image.shape == stack.shape
    before, after = (np.mean((x - stack) ** 2) for x in (spoiled, result.image))
    assert after < before / 100


def test_nan_and_a_mask_mark_known_bad_values():
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


def test_zingers_do_not_crush_the_scale():
    rng = np.random.default_rng(0)
    truth = CAT.astype(np.float32)
    spoiled = np.where(
        rng.random(truth.shape) < 0.03, 1e6 * rng.random(truth.shape), truth
    )
    result = restore(spoiled.astype(np.float32), quality="fast")
    assert psnr(result.image, truth) > 38


def test_a_black_ground_is_not_taken_for_corruption():
    truth = data.astronaut()[200:400, 300:500]  # an arm before a dark shuttle
    assert (truth < 4).mean() > 0.3
    found = restore(spoil(truth, "random", 0.5), quality="fast")
    assert psnr(found.image, truth) > 30  # 12.6 where black was held to be corrupted


def test_dark_first_row_is_not_taken_for_corruption():
    framed = CAT.copy()
    framed[0] //= 16
    assert (
        split_border_lines(framed / np.float32(255), np.ones(CAT.shape, bool))[0].start
        == 1
    )
    assert not restore(framed, quality="fast").mask[0].any()


BORDERS = {
    "first row": np.s_[:1],
    "last row": np.s_[-1:],
    "first column": np.s_[:, :1],
    "last three columns": np.s_[:, -3:],
}


@pytest.mark.parametrize("value", [0, 255, "random"])
@pytest.mark.parametrize("border", BORDERS)
def test_dead_and_random_border_lines_are_mended(border, value):
    line, spoiled = BORDERS[border], CAT.copy()
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, spoiled[line].shape)
    spoiled[line] = noise if value == "random" else value
    found = restore(spoiled, quality="fast")
    assert found.mask[line].mean() > 0.9
    assert psnr(found.image, CAT) > 30


@pytest.mark.parametrize("border", BORDERS)
def test_an_unknown_border_line_continues_the_picture(border):
    line, mask = BORDERS[border], np.zeros(CAT.shape, bool)
    mask[line] = True
    found = restore(CAT, quality="fast", mask=mask)
    assert psnr(found.image[line], CAT[line]) > 25


@pytest.mark.parametrize("width", [1, 2])
def test_a_frame_is_kept(width):
    framed = np.full_like(CAT, 99)
    inside = (slice(width, -width),) * 2
    framed[inside] = CAT[inside]
    framed[-1] = 0
    assert restore(framed, quality="fast").mask.mean() < 1e-3


def test_channels_of_other_units_are_judged_on_their_own_scale():
    scales = np.array([1, 100, 1000])
    truth = CAT / 255 * scales
    rng = np.random.default_rng(0)
    hit = rng.random(truth.shape) < 0.05
    found = restore(np.where(hit, scales, truth), quality="fast")
    for channel in range(3):
        wrong = hit[..., channel] & (truth[..., channel] < 0.7 * scales[channel])
        assert found.mask[..., channel][wrong].mean() > 0.95


def test_masked_values_of_a_masked_array_are_bad():
    hit = np.random.default_rng(0).random(CAT.shape) < 0.2
    hidden = np.ma.masked_array(CAT, hit)
    assert restore(hidden, quality="fast").mask[hit].all()
    hole = np.zeros(CAT.shape[:2], bool)
    hole[30:36, 40:60] = True
    found = restore(hidden, quality="fast", mask=hole)
    assert found.mask[hit].all()
    assert found.mask[hole].all()


def test_many_channels_make_small_tiles():
    rows, columns = next(tiles(2000, 2000, 200)).padded
    assert (rows.stop - rows.start) * (columns.stop - columns.start) < 40_000


def test_tiles_decide_on_every_value_once():
    decided = np.zeros((2500, 1100), int)
    for window in tiles(2500, 1100, 3):
        decided[window.core] += 1
        seen = decided[window.padded]
        assert np.shares_memory(seen[window.core_in_padded], decided[window.core])
        assert seen[window.core_in_padded].shape == decided[window.core].shape
    assert (decided == 1).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (3, 3, 3), (2, 50, 3)])
def test_small_images_come_back(shape):
    image = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    assert restore(image, quality="fast").image.shape == shape


@pytest.mark.parametrize("value", [0, 7, 255])
def test_a_constant_image_is_left_alone(value):
    image = np.full((40, 40, 3), value, np.uint8)
    assert not restore(image, quality="fast").mask.any()


def test_pure_noise_ends_with_a_warning():
    noise = np.random.default_rng(0).integers(0, 256, (48, 48, 3), np.uint8)
    with pytest.warns(UserWarning, match="a guess"):
        found = restore(noise, quality="fast")
    assert np.isfinite(found.probability).all()


def test_of_four_channels_in_front_none_is_transparency():
    stack = np.concatenate([CAT, CAT[..., :1]], axis=2)
    stack[40, 50] = 255
    assert not restore(stack, quality="fast").mask[..., 3].any()
    front = restore(np.moveaxis(stack, -1, 0), quality="fast", channel_axis=0)
    assert front.mask[3, 40, 50]


def test_the_same_input_gives_the_same_output(monkeypatch):
    spoiled = spoil(CAT, "random", 0.4)
    first = restore(spoiled, quality="fast").image
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    assert np.array_equal(restore(spoiled, quality="fast").image, first)


def cut_into_small_tiles(monkeypatch):
    monkeypatch.setattr("discrepant.image.restore.tiling.MAX_UNCUT_SIDE", 48)


def test_tiles_leave_no_seam(monkeypatch):
    spoiled = spoil(CAT, "salt-and-pepper", 0.5)
    whole = restore(spoiled, quality="fast").image
    cut_into_small_tiles(monkeypatch)
    tiled = restore(spoiled, quality="fast")
    assert set(tiled.history["tile"]) == {0, 1, 2, 3}
    seam = np.s_[46:50]
    assert psnr(tiled.image, CAT) > psnr(whole, CAT) - 0.3
    assert psnr(tiled.image[seam], CAT[seam]) > psnr(whole[seam], CAT[seam]) - 0.3


def test_time_runs_out_and_there_is_a_result():
    spoiled = spoil(CAT, "salt-and-pepper", 0.3)
    result = restore(spoiled, time_limit=1e-3)
    assert len(result.history["step"]) == 1
    assert psnr(result.image, CAT) > psnr(spoiled, CAT) + 5


def test_tiles_beyond_the_time_stay_as_they_were(monkeypatch):
    cut_into_small_tiles(monkeypatch)
    spoiled = spoil(CAT, "salt-and-pepper", 0.3)
    result = restore(spoiled, time_limit=1e-3)
    assert set(result.history["tile"]) == {0}
    assert np.array_equal(result.image[48:], spoiled[48:])


def test_progress_may_stop_it():
    told = []

    def progress(done, note):
        told.append(done)
        return len(told) < 3

    restore(spoil(CAT, "random", 0.3), progress=progress)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(told) <= 5


def test_progress_that_answers_nothing_goes_on():
    told = []
    found = restore(CAT, quality="fast", progress=lambda *report: told.append(report))
    assert found.complete
    assert len(told) == len(found.history["step"]) + 1
    assert told[-1] == (1, "0% corrupted")


def test_a_stop_keeps_what_was_not_reached(monkeypatch):
    cut_into_small_tiles(monkeypatch)
    spoiled = spoil(CAT, "salt-and-pepper", 0.3)
    found = restore(spoiled, progress=lambda share, note: False)
    assert not found.complete
    assert found.history["tile"].tolist() == [0]
    assert np.array_equal(found.image[48:], spoiled[48:])
    assert psnr(found.image[:48, :48], CAT[:48, :48]) > 20


@pytest.mark.parametrize(
    ("arguments", "sentence"),
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
def test_mistakes_are_one_sentence(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        restore(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "share", "least"),
    [("salt-and-pepper", 0.5, 33), ("random", 0.3, 33), ("random", 0.5, 29)],
)
def test_best_is_better_than_fast(kind, share, least):
    truth = data.astronaut()
    spoiled = spoil(truth, kind, share)
    fast, best = (
        psnr(restore(spoiled, quality=q).image, truth) for q in ("fast", "best")
    )
    assert best > fast
    assert best > least


@pytest.mark.slow
def test_a_large_image_stays_within_memory():
    code = (
        "import resource, numpy as np; from discrepant import restore\n"
        "from discrepant.image.restore.tiling import windows\n"
        "from skimage import data\n"
        "image = np.tile(data.astronaut(), (8, 6, 1))[:4000, :3000]\n"
        "image[::3, ::5] = 255\n"
        "found = restore(image, quality='fast')\n"
        "assert found.history['tile'].max() == len([*windows(*image.shape)]) - 1\n"
        "assert found.mask[::3, ::5].mean() > 0.9\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 6e6  # kilobytes
