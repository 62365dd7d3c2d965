"""`separate` on synthetic videos: masks, background, types, notes and errors."""

import warnings

import numpy as np
import pytest

from discrepant import InputError, separate
from discrepant.video.example_data import street
from discrepant.video.model.background import Background, FrameFit
from discrepant.video.model.row_bands import RowBands
from discrepant.video.model.scene_changes import CameraMotion
from discrepant.video.whole_video import BackgroundSnapshots


@pytest.fixture(scope="module")
def street_video():
    return street(80)


def f_measure(masks, truth):
    return 2 * (masks & truth).sum() / (masks.sum() + truth.sum())


@pytest.fixture(scope="module")
def result(street_video):
    return separate(street_video[0])


def test_cars_of_the_street_are_detected(street_video, result):
    truth = street_video[1]
    assert f_measure(result.foreground, truth) > 0.9
    assert result.foreground.shape == truth.shape
    assert result.foreground.dtype == bool
    assert result.noise.shape == truth.shape[1:]
    assert not result.notes
    assert "80 frames" in str(result)


def test_background_is_lazy_and_of_the_type_of_the_frames(street_video, result):
    frames, truth = street_video
    assert len(result.background) == len(frames)
    background = result.background[-1]
    assert background.shape == frames[0].shape and background.dtype == np.uint8
    still = ~truth[-1]
    error = np.abs(background.astype(int) - frames[-1])[still]
    assert np.median(error) <= 3
    assert np.asarray(result.background[:2]).shape == (2, *frames[0].shape)


def test_probability_agrees_with_the_mask(result):
    probability = result.probability[40]
    assert probability.dtype == np.float32
    assert 0 <= probability.min() and probability.max() <= 1
    mask = result.foreground[40]
    assert probability[mask].mean() > 0.9 > 0.1 > probability[~mask].mean()


def test_stream_agrees_with_the_whole_video():
    rng = np.random.default_rng(4)
    frames = rng.uniform(30, 220, (60, 80)) + 2 * rng.standard_normal((120, 60, 80))
    truth = np.zeros(frames.shape, bool)
    for time in range(120):  # empty at the start, and no object stays long
        left = 3 * (time - 20) % 80
        truth[time, 20:40, left : left + 10] = time >= 20
    frames[truth] = 250 * rng.random(np.count_nonzero(truth))
    frames = np.clip(frames, 0, 255).astype(np.uint8)
    flow = separate(iter(frames))
    masks = np.stack([frame.foreground for frame in flow])
    assert f_measure(masks, truth) > 0.9
    assert f_measure(masks, separate(frames).foreground) > 0.95
    assert flow.rank == 1 and flow.noise.shape == truth.shape[1:]


def test_ghost_disappears_and_stopped_object_stays():
    rng = np.random.default_rng(5)
    frames = rng.uniform(80, 120, (60, 80)) + 2 * rng.standard_normal((75, 60, 80))
    frames[:20, 10:30, 10:22] -= 70  # there from the start, then leaves
    frames[40:, 30:50, 50:62] -= 70  # enters, then stays
    flow = separate(iter(np.clip(frames, 0, 255).astype(np.uint8)))
    masks = np.stack([frame.foreground for frame in flow])
    assert masks[20, 10:30, 10:22].mean() > 0.9
    assert not masks[35:, 10:30, 10:22].any()
    assert masks[40:, 30:50, 50:62].mean() > 0.9


def test_results_are_reproducible(street_video):
    frames = street_video[0][:30]
    one, two = separate(frames), separate(frames)
    assert np.array_equal(one.foreground, two.foreground)
    assert np.array_equal(one.background[7], two.background[7])


def test_threads_do_not_change_the_result(street_video, result, monkeypatch):
    monkeypatch.setattr("discrepant.video.model.row_bands.MIN_VALUES", 2000)
    monkeypatch.setattr("discrepant.video.model.row_bands.cpu_count", lambda: 4)
    other = separate(street_video[0])
    assert np.array_equal(other.foreground, result.foreground)
    assert np.array_equal(other.probability[50], result.probability[50])


@pytest.mark.parametrize("kind", [np.uint16, np.float32, np.float64])
def test_units_do_not_change_the_mask(street_video, result, kind):
    frames = street_video[0].astype(kind) * 100
    other = separate(frames)
    assert other.background[0].dtype == kind
    assert f_measure(other.foreground, result.foreground) > 0.95
    assert np.median(other.noise) == pytest.approx(
        100 * np.median(result.noise), rel=0.2
    )


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_memory_order_does_not_change_the_result(street_video, kind):
    frames = street_video[0][:20].astype(kind)
    one, two = separate(frames), separate(np.asfortranarray(frames))
    assert np.array_equal(one.foreground, two.foreground)
    assert np.array_equal(one.background[7], two.background[7])


@pytest.mark.parametrize("kind", ["fixed", "once"])
def test_hot_pixel_does_not_hide_the_rest(street_video, result, kind):
    """Scaled by the largest value, all other pixels would be black."""
    for frames, hot in (
        (street_video[0].astype(np.uint16) * 4, 65535),
        (street_video[0] / 255, 1e6),
    ):
        frames[slice(None) if kind == "fixed" else 3, 5, 5] = hot
        other = separate(frames)
        assert (other.foreground == result.foreground).mean() > 0.999
        assert kind == "once" or np.allclose(other.background[-1][5, 5], hot, rtol=0.1)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_largest_64_bit_integers_stay_bright(street_video, kind):
    limits = np.iinfo(kind)
    frames = np.full(street_video[0].shape, limits.min, kind)
    frames[street_video[0] > 100] = limits.max
    background = separate(frames).background[-1]
    assert (background > limits.max // 2).mean() == pytest.approx(
        (frames[-1] > 0).mean(), abs=0.1
    )


def test_beyond_single_precision(street_video, result):
    other = separate(street_video[0] * 1e300)
    assert np.array_equal(other.foreground, result.foreground)
    assert np.isfinite(other.background[-1]).all()


def test_floats_may_become_brighter_than_the_first_frames(street_video):
    """Clipped at the largest first value, 40% would be foreground."""
    frames = street_video[0] / 255
    masks = separate(frames).foreground
    frames[len(frames) // 2 :] *= 1.8
    other = separate(frames)
    assert (other.foreground == masks).mean() > 0.99
    assert other.background[-1].max() > 1.2


def test_grey_and_missing_pixels(street_video):
    frames, truth = street_video
    grey = 255 - frames.mean(axis=-1)  # plain dark objects would pass as shadows
    grey[:, 5, 5] = np.nan
    masks = separate(grey).foreground
    assert f_measure(masks, truth) > 0.8
    assert not masks[:, 5, 5].any()


def test_pixels_never_observed_have_no_background(street_video):
    frames = street_video[0].astype(float)
    frames[:, 40:50, 40:50] = np.nan
    frames[0] = np.nan  # observed later
    result = separate(frames)
    for background in (
        result.background[30],
        list(separate(iter(frames)))[30].background,
    ):
        missing = np.isnan(background)
        assert missing[40:50, 40:50].all() and missing.sum() == 300
    assert not result.foreground[:, 40:50, 40:50].any()


def test_still_video_has_no_foreground():
    rng = np.random.default_rng(0)
    image = rng.uniform(30, 220, (60, 80))
    frames = np.clip(image + 3 * rng.standard_normal((40, 60, 80)), 0, 255)
    assert separate(frames.astype(np.uint8)).foreground.mean() < 1e-4


def test_lamp_that_goes_on_is_not_foreground():
    rng = np.random.default_rng(1)
    image = rng.uniform(40, 120, (60, 80))
    light = np.where(np.arange(60) < 30, 1.0, 1.6)[:, None, None]
    frames = image * light + 2 * rng.standard_normal((60, 60, 80))
    masks = separate(iter(frames.astype(np.uint8))).__iter__()
    assert np.mean([frame.foreground.mean() for frame in masks]) < 0.005


def test_pattern_of_change_is_background():
    rng = np.random.default_rng(2)
    image = rng.uniform(60, 180, (60, 80))
    screen = rng.standard_normal((60, 80)) * (np.arange(80) < 30) * 15
    part = np.sin(np.arange(80))[:, None, None]
    frames = image + part * screen + 1.5 * rng.standard_normal((80, 60, 80))
    result = separate(frames.astype(np.uint8))
    assert result.rank >= 2
    assert result.foreground[20:].mean() < 0.002


def test_few_snapshots_give_the_same_background(monkeypatch):
    """Frames before a pattern was result have a background without it."""
    monkeypatch.setattr("discrepant.video.whole_video.MAX_SNAPSHOTS", 2)
    rng = np.random.default_rng(3)
    time = np.arange(80)[:, None, None]
    frames = rng.uniform(60, 180, (60, 80)) + 1.5 * rng.standard_normal((80, 60, 80))
    for start, pace in ((14, 1.0), (36, 1.7)):  # found at frames 31 and 63
        screen = rng.standard_normal((60, 80)) * (np.arange(80) < 30) * 15
        frames += np.where(time >= start, np.sin(pace * time), 0) * screen
    frames = frames.clip(0, 255).astype(np.uint8)
    whole = separate(iter(frames), stream=False)
    assert whole.rank == 3
    for frame in separate(iter(frames)):
        background = whole.background[frame.number].astype(float)
        assert np.abs(background - frame.background).mean() < 2


def test_coefficients_belong_to_patterns():
    """A dropped pattern does not pass its coefficients to the next one."""
    rng = np.random.default_rng(6)
    first = rng.uniform(0, 255, (12, 16, 20, 1)).astype(np.float32)
    background = Background(first, 12, RowBands(first.shape[1:]))
    snapshots = BackgroundSnapshots()
    fit = FrameFit(np.array([1.0, 0.5]), np.ones((16, 1)), np.empty(0), (0, 2))

    def take(number, pattern_ids):
        patterns = first[: len(pattern_ids) - 1]
        background.state = background.state._replace(patterns=patterns)
        background.pattern_ids = pattern_ids
        snapshots.add(number, background, [])

    take(0, (0, 1, 2))
    assert snapshots.nearest(3, fit)[2].tolist() == [1.0, 0.0, 0.5]
    take(8, (0,))
    assert snapshots.nearest(7, fit)[2].tolist() == [1.0, 0.0, 0.5]  # has the pattern
    take(16, (0, 2))
    assert snapshots.nearest(9, fit)[2].tolist() == [1.0, 0.5]


def test_black_video_has_a_note():
    with pytest.warns(UserWarning, match="nothing to separate"):
        result = separate(np.zeros((20, 30, 40), np.uint8))
    assert not result.foreground.any()


def test_moving_camera_has_a_note():
    rng = np.random.default_rng(3)
    wide = rng.uniform(0, 255, (30, 110)).repeat(4, axis=0).repeat(4, axis=1)
    frames = np.stack([wide[:, k : k + 160] for k in range(0, 160, 2)]).astype(np.uint8)
    with pytest.warns(UserWarning, match="camera seems to move: in .* comparisons"):
        separate(frames)


def test_passing_object_is_not_a_moving_camera(street_video):
    motion = CameraMotion(street_video[0].shape[1:])
    for frame in street_video[0]:
        motion.add_frame(frame)
    assert motion.note() is None


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((1, 30, 40), np.uint8), "only one frame"),
        (np.zeros((30, 40), np.uint8), "time, rows, columns"),
        (np.zeros((9, 4, 4), np.uint8), "too small"),
        (np.zeros((9, 30, 40, 7), np.uint8), "up to four channels"),
        (np.full((9, 30, 40), "a"), "must hold numbers"),
        ([np.zeros((30, 40)), np.zeros((30, 50))], "change their size"),
        (iter([np.zeros((30, 40))] * 20 + [np.zeros((30, 50))]), "at frame 20"),
        (iter([]), "has no frame"),
        (3.5, "Frames must be an array"),
    ],
)
def test_invalid_input_is_refused(frames, message):
    with pytest.raises(InputError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in separate(frames, stream=True):
            pass


def moving_square(frames=60, seed=7):
    """A square that crosses a textured ground, and its mask."""
    rng = np.random.default_rng(seed)
    video = rng.uniform(60, 180, (60, 80)) + 2 * rng.standard_normal((frames, 60, 80))
    truth = np.zeros(video.shape, bool)
    for time in range(frames):
        left = 2 * time % 80
        truth[time, 20:34, left : left + 14] = True
    video[truth] = 250
    return np.clip(video, 0, 255).astype(np.uint8), truth


def test_region_of_interest_limits_the_foreground():
    frames, truth = moving_square()
    roi = np.zeros(truth.shape[1:], np.uint8)
    roi[:, :40] = 255
    masks = separate(frames, roi=roi).foreground
    assert not masks[:, :, 40:].any()
    assert f_measure(masks[..., :40], truth[..., :40]) > 0.9
    with pytest.raises(InputError, match="the size of a frame"):
        separate(frames, roi=roi[:50])
    with pytest.raises(InputError, match="empty"):
        separate(frames, roi=0 * roi)


def test_saved_model_continues_and_can_be_frozen(tmp_path):
    frames, truth = moving_square()
    path = tmp_path / "model.npz"
    separate(frames).save(path)
    still = np.repeat(frames[40:41], 20, axis=0)  # the square stays from the start
    frozen = separate(still, model=path, learn=False)
    assert f_measure(frozen.foreground, np.repeat(truth[40:41], 20, axis=0)) > 0.9
    assert np.array_equal(frozen.background[0], frozen.background[19])
    with pytest.raises(InputError, match="for frames of 60×80"):
        separate(frames[:, :50], model=path)
    path.write_text("no archive")
    with pytest.raises(InputError, match="cannot be read as a model"):
        separate(frames, model=path)
    np.savez(path, image=frames[0])
    with pytest.raises(InputError, match="not a saved background model"):
        separate(frames, model=path)


def test_learning_time_decides_when_an_object_becomes_background():
    ground = np.random.default_rng(8).integers(60, 180, (60, 80))
    rng = np.random.default_rng(9)
    video = ground + 2 * rng.standard_normal((260, 60, 80))
    video[60:, 20:34, 30:44] = 250  # enters at frame 60, then stays
    video = np.clip(video, 0, 255).astype(np.uint8)
    soon, late = (
        np.stack([f.foreground for f in separate(iter(video), learning_time=t)])
        for t in (2.0, 60.0)
    )
    assert late[-1, 20:34, 30:44].mean() > 0.9
    assert not soon[-1].any() and soon[70, 20:34, 30:44].mean() > 0.9


def test_flickering_region_stops_being_foreground():
    """Components that keep vanishing raise the variance of the decision there."""
    rng = np.random.default_rng(10)
    video = rng.uniform(60, 180, (60, 80)) + 2 * rng.standard_normal((400, 60, 80))
    for time in range(400):  # splashes of water at random places of a corner
        y, x = rng.integers(2, 18, 2)
        video[time, y : y + 8, x : x + 8] += 30
    masks = np.stack(
        [f.foreground for f in separate(iter(np.clip(video, 0, 255).astype(np.uint8)))]
    )
    assert masks[300:].mean() < 0.5 * masks[20:120].mean()


def test_boxes_of_a_frame():
    frames, _ = moving_square()
    boxes = [frame.boxes for frame in separate(iter(frames))]
    assert boxes[30].shape == (1, 5)
    x, y, width, height, area = boxes[30][0]
    assert abs(x - 60) <= 1 and abs(y - 20) <= 1
    assert abs(width - 14) <= 2 and abs(height - 14) <= 2 and 150 < area < 240


def test_on_frame_receives_every_frame_with_mask_and_boxes():
    frames, _ = moving_square()
    batch, streamed = [], []
    whole = separate(frames, on_frame=batch.append)
    list(separate(iter(frames), on_frame=streamed.append))
    assert [frame.number for frame in batch] == list(range(len(frames)))
    assert np.array_equal([frame.foreground for frame in batch], whole.foreground)
    assert len(streamed) == len(frames) and streamed[30].boxes.shape == (1, 5)
    with pytest.raises(InputError, match="must be callable; got int"):
        separate(frames, on_frame=3)


@pytest.mark.parametrize("factor", [0.85, 0.6])
def test_strong_shadow_on_plain_ground_is_an_object(factor):
    """A plain dark object looks like a shadow where the ground has no texture."""
    rng = np.random.default_rng(11)
    texture = np.where(np.arange(80) < 40, 0, rng.uniform(-50, 50, (60, 80)))
    video = np.repeat((160 + texture)[None], 60, axis=0)
    for time in range(20, 60):
        video[time, 10:50, time - 10 : time + 20] *= factor
    video = (video + 2 * rng.standard_normal(video.shape)).clip(0, 255)
    masks = separate(iter(video.astype(np.uint8)))
    covered = np.stack([frame.foreground for frame in masks])
    assert covered[55:, 15:45, 50:70].mean() < 0.2  # texture: a shadow
    assert (covered[22:26, 15:45, 20:35].mean() > 0.8) == (factor < 0.75)


@pytest.mark.parametrize("border", [3, 8])
def test_object_that_stays_does_not_erode(border):
    """Learning beside its soft border would take in the object from outside."""
    rng = np.random.default_rng(12)
    ground = rng.uniform(90, 110, (60, 80))
    y, x = np.mgrid[:60, :80]
    distance = np.maximum(np.abs(y - 30), np.abs(x - 40))
    soft = np.clip((14 - distance) / border, 0, 1)
    video = np.repeat(ground[None], 400, axis=0)
    video[60:] += 40 * soft
    video = (video + 2 * rng.standard_normal(video.shape)).clip(0, 255)
    masks = [f.foreground.copy() for f in separate(iter(video.astype(np.uint8)))]
    areas = [np.mean([m.sum() for m in masks[k : k + 20]]) for k in (90, 380)]
    assert areas[1] > 0.9 * areas[0] > 200


def test_frames_of_many_pixels_are_separated():
    rng = np.random.default_rng(13)
    frames = np.repeat(rng.integers(60, 180, (1, 500, 800), np.uint8), 16, axis=0)
    truth = np.zeros(frames.shape, bool)
    for time in range(16):
        truth[time, 200:280, 40 * time : 40 * time + 60] = True
    frames[truth] = 250
    assert f_measure(separate(frames).foreground, truth) > 0.95


@pytest.mark.parametrize("pixels", [40, 60])
def test_small_objects_are_detected(pixels):
    """In a frame of 320×240; 38 pixels are the limit."""
    rng = np.random.default_rng(14)
    video = rng.uniform(60, 180, (240, 320)) + 2 * rng.standard_normal((60, 240, 320))
    height, width = 5 * pixels // 20, 4
    tops = [30, 100, 170]
    for time in range(60):
        for top in tops:
            left = 4 * time + top
            video[time, top : top + height, left : left + width] = 255
    masks = separate(video.clip(0, 255).astype(np.uint8)).foreground
    counts = [
        masks[time, top : top + height, 4 * time + top : 4 * time + top + width].mean()
        for time in range(20, 35)
        for top in tops
    ]
    assert np.mean(counts) > 0.8
