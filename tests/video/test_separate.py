"""Videos: what moves is told from what stands still, whatever the frames come in."""

import warnings

import numpy as np
import pytest

from discrepant import InputError, separate
from discrepant.video.example_data import street
from discrepant.video.model.background import Background, Place
from discrepant.video.model.bands import Bands
from discrepant.video.model.camera_motion import Steadiness
from discrepant.video.separate import _Plates


@pytest.fixture(scope="module")
def made():
    return street(80)


def f_measure(masks, truth):
    return 2 * (masks & truth).sum() / (masks.sum() + truth.sum())


@pytest.fixture(scope="module")
def found(made):
    return separate(made[0])


def test_the_made_street_is_told_apart(made, found):
    truth = made[1]
    assert f_measure(found.foreground, truth) > 0.9
    assert found.foreground.shape == truth.shape
    assert found.foreground.dtype == bool
    assert found.noise.shape == truth.shape[1:]
    assert not found.notes
    assert "80 frames" in str(found)


def test_the_background_is_lazy_and_in_the_type_of_the_frames(made, found):
    frames, truth = made
    assert len(found.background) == len(frames)
    ground = found.background[-1]
    assert ground.shape == frames[0].shape and ground.dtype == np.uint8
    still = ~truth[-1]
    away = np.abs(ground.astype(int) - frames[-1])[still]
    assert np.median(away) <= 3
    assert np.asarray(found.background[:2]).shape == (2, *frames[0].shape)


def test_probability_goes_with_the_mask(found):
    chance = found.probability[40]
    assert chance.dtype == np.float32
    assert 0 <= chance.min() and chance.max() <= 1
    mask = found.foreground[40]
    assert chance[mask].mean() > 0.9 > 0.1 > chance[~mask].mean()


def test_a_stream_says_the_same_as_the_whole():
    rng = np.random.default_rng(4)
    frames = rng.uniform(30, 220, (60, 80)) + 2 * rng.standard_normal((120, 60, 80))
    truth = np.zeros(frames.shape, bool)
    for time in range(120):  # nobody stands there at the start, nor too long
        left = 3 * (time - 20) % 80
        truth[time, 20:40, left : left + 10] = time >= 20
    frames[truth] = 250 * rng.random(np.count_nonzero(truth))
    frames = np.clip(frames, 0, 255).astype(np.uint8)
    flow = separate(iter(frames))
    masks = np.stack([frame.foreground for frame in flow])
    assert f_measure(masks, truth) > 0.9
    assert f_measure(masks, separate(frames).foreground) > 0.95
    assert flow.rank == 1 and flow.noise.shape == truth.shape[1:]


def test_a_ghost_goes_and_a_thing_that_stops_stays():
    rng = np.random.default_rng(5)
    frames = rng.uniform(80, 120, (60, 80)) + 2 * rng.standard_normal((75, 60, 80))
    frames[:20, 10:30, 10:22] -= 70  # was there from the start, and goes
    frames[40:, 30:50, 50:62] -= 70  # comes, and stands
    flow = separate(iter(np.clip(frames, 0, 255).astype(np.uint8)))
    masks = np.stack([frame.foreground for frame in flow])
    assert masks[20, 10:30, 10:22].mean() > 0.9
    assert not masks[35:, 10:30, 10:22].any()
    assert masks[40:, 30:50, 50:62].mean() > 0.9


def test_same_frames_same_bytes(made):
    frames = made[0][:30]
    one, two = separate(frames), separate(frames)
    assert np.array_equal(one.foreground, two.foreground)
    assert np.array_equal(one.background[7], two.background[7])


def test_threads_do_not_matter(made, found, monkeypatch):
    monkeypatch.setattr("discrepant.video.model.bands.LEAST", 2000)
    monkeypatch.setattr("discrepant.video.model.bands.cpu_count", lambda: 4)
    other = separate(made[0])
    assert np.array_equal(other.foreground, found.foreground)
    assert np.array_equal(other.probability[50], found.probability[50])


@pytest.mark.parametrize("kind", [np.uint16, np.float32, np.float64])
def test_units_do_not_matter(made, found, kind):
    frames = made[0].astype(kind) * 100
    other = separate(frames)
    assert other.background[0].dtype == kind
    assert f_measure(other.foreground, found.foreground) > 0.95
    assert np.median(other.noise) == pytest.approx(
        100 * np.median(found.noise), rel=0.2
    )


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_memory_order_does_not_matter(made, kind):
    frames = made[0][:20].astype(kind)
    one, two = separate(frames), separate(np.asfortranarray(frames))
    assert np.array_equal(one.foreground, two.foreground)
    assert np.array_equal(one.background[7], two.background[7])


@pytest.mark.parametrize("kind", ["fixed", "once"])
def test_a_hot_pixel_does_not_blind(made, found, kind):
    """Scaled by its largest value, all else was black, and nothing was found."""
    for frames, hot in ((made[0].astype(np.uint16) * 4, 65535), (made[0] / 255, 1e6)):
        frames[slice(None) if kind == "fixed" else 3, 5, 5] = hot
        other = separate(frames)
        assert (other.foreground == found.foreground).mean() > 0.999
        assert kind == "once" or np.allclose(other.background[-1][5, 5], hot, rtol=0.1)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_white_of_64_bits_is_not_black(made, kind):
    limits = np.iinfo(kind)
    frames = np.full(made[0].shape, limits.min, kind)
    frames[made[0] > 100] = limits.max
    background = separate(frames).background[-1]
    assert (background > limits.max // 2).mean() == pytest.approx(
        (frames[-1] > 0).mean(), abs=0.1
    )


def test_beyond_single_precision(made, found):
    other = separate(made[0] * 1e300)
    assert np.array_equal(other.foreground, found.foreground)
    assert np.isfinite(other.background[-1]).all()


def test_floats_may_grow_brighter_than_the_first_frames(made):
    """Held to end at their largest value, two pixels in five were in front."""
    frames = made[0] / 255
    masks = separate(frames).foreground
    frames[len(frames) // 2 :] *= 1.8
    other = separate(frames)
    assert (other.foreground == masks).mean() > 0.99
    assert other.background[-1].max() > 1.2


def test_grey_and_missing_pixels(made):
    frames, truth = made
    grey = 255 - frames.mean(axis=-1)  # plain dark things would pass for shadows
    grey[:, 5, 5] = np.nan
    masks = separate(grey).foreground
    assert f_measure(masks, truth) > 0.8
    assert not masks[:, 5, 5].any()


def test_what_was_never_seen_has_no_background(made):
    frames = made[0].astype(float)
    frames[:, 40:50, 40:50] = np.nan
    frames[0] = np.nan  # seen later
    found = separate(frames)
    for ground in (found.background[30], list(separate(iter(frames)))[30].background):
        missing = np.isnan(ground)
        assert missing[40:50, 40:50].all() and missing.sum() == 300
    assert not found.foreground[:, 40:50, 40:50].any()


def test_units_beyond_single_precision(made):
    found = separate(made[0][:20] * 1e300)
    assert np.isfinite(found.background[5]).all() and np.isfinite(found.noise).all()


def test_nothing_moves_nothing_is_in_front():
    rng = np.random.default_rng(0)
    plate = rng.uniform(30, 220, (60, 80))
    frames = np.clip(plate + 3 * rng.standard_normal((40, 60, 80)), 0, 255)
    assert separate(frames.astype(np.uint8)).foreground.mean() < 1e-4


def test_a_lamp_that_goes_on_is_not_in_front():
    rng = np.random.default_rng(1)
    plate = rng.uniform(40, 120, (60, 80))
    light = np.where(np.arange(60) < 30, 1.0, 1.6)[:, None, None]
    frames = plate * light + 2 * rng.standard_normal((60, 60, 80))
    masks = separate(iter(frames.astype(np.uint8))).__iter__()
    assert np.mean([frame.foreground.mean() for frame in masks]) < 0.005


def test_a_pattern_of_change_is_background():
    rng = np.random.default_rng(2)
    plate = rng.uniform(60, 180, (60, 80))
    screen = rng.standard_normal((60, 80)) * (np.arange(80) < 30) * 15
    part = np.sin(np.arange(80))[:, None, None]
    frames = plate + part * screen + 1.5 * rng.standard_normal((80, 60, 80))
    found = separate(frames.astype(np.uint8))
    assert found.rank >= 2
    assert found.foreground[20:].mean() < 0.002


def test_few_snapshots_show_the_same_background(monkeypatch):
    """Frames before a pattern was learned are shown without it."""
    monkeypatch.setattr("discrepant.video.separate.PLATES", 2)
    rng = np.random.default_rng(3)
    time = np.arange(80)[:, None, None]
    frames = rng.uniform(60, 180, (60, 80)) + 1.5 * rng.standard_normal((80, 60, 80))
    for start, pace in ((14, 1.0), (36, 1.7)):  # learned at frames 31 and 63
        screen = rng.standard_normal((60, 80)) * (np.arange(80) < 30) * 15
        frames += np.where(time >= start, np.sin(pace * time), 0) * screen
    frames = frames.clip(0, 255).astype(np.uint8)
    whole = separate(iter(frames), stream=False)
    assert whole.rank == 3
    for frame in separate(iter(frames)):
        shown = whole.background[frame.number].astype(float)
        assert np.abs(shown - frame.background).mean() < 2


def test_coefficients_belong_to_patterns():
    """A pattern that is dropped does not hand its coefficients to the next one."""
    rng = np.random.default_rng(6)
    first = rng.uniform(0, 255, (12, 16, 20, 1)).astype(np.float32)
    scene = Background(first, 12, Bands(first.shape[1:]))
    scene.U = np.stack([first[0], 9 + 0 * first[0], 5 + 0 * first[0]])
    scene.patterns = (0, 1, 2)
    plates = _Plates()
    plates.take(0, scene, [])
    place = Place(np.array([1.0, 0.5]), np.ones((16, 1)), np.empty(0), (0, 2))
    assert plates.near(3, place)[1].tolist() == [1.0, 0.0, 0.5]
    scene.U, scene.patterns = scene.U[:1], (0,)
    plates.take(8, scene, [])
    assert plates.near(7, place)[1].tolist() == [1.0, 0.0, 0.5]  # has the pattern
    scene.U, scene.patterns = first[:2], (0, 2)
    plates.take(16, scene, [])
    assert plates.near(9, place)[1].tolist() == [1.0, 0.5]


def test_black_is_said():
    with pytest.warns(UserWarning, match="nothing to tell apart"):
        found = separate(np.zeros((20, 30, 40), np.uint8))
    assert not found.foreground.any()


def test_a_moving_camera_is_said():
    rng = np.random.default_rng(3)
    wide = rng.uniform(0, 255, (30, 110)).repeat(4, axis=0).repeat(4, axis=1)
    frames = np.stack([wide[:, k : k + 160] for k in range(0, 160, 2)]).astype(np.uint8)
    with pytest.warns(UserWarning, match="camera seems to move: in .* looks"):
        separate(frames)


def test_a_passing_thing_is_no_moving_camera(made):
    steady = Steadiness(made[0].shape[1:])
    for frame in made[0]:
        steady.look(frame)
    assert steady.note() is None


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (np.zeros((1, 30, 40), np.uint8), "only one frame"),
        (np.zeros((30, 40), np.uint8), "time, rows, columns"),
        (np.zeros((9, 4, 4), np.uint8), "too small"),
        (np.zeros((9, 30, 40, 7), np.uint8), "up to four channels"),
        (np.full((9, 30, 40), "a"), "are not pictures"),
        ([np.zeros((30, 40)), np.zeros((30, 50))], "change their size"),
        (iter([np.zeros((30, 40))] * 20 + [np.zeros((30, 50))]), "at frame 20"),
        (iter([]), "has no frame"),
        (3.5, "Frames are needed"),
    ],
)
def test_bad_input_gets_one_sentence(frames, said):
    with pytest.raises(InputError, match=said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in separate(frames, stream=True):
            pass
