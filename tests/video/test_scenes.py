"""Scene changes, tints, ghosts and camera motion: detected, or reported in a note."""

import warnings

import numpy as np
import pytest

from discrepant import separate
from discrepant.video.model.scene_changes import CameraMotion, scene_length

SIZE = (60, 80, 3)


def blocks(seed, size=SIZE):
    """An image of random blocks of six pixels."""
    coarse = np.random.default_rng(seed).uniform(20, 220, (10, 14, size[2]))
    return coarse.repeat(6, axis=0).repeat(6, axis=1)[: size[0], : size[1]]


def with_noise(images, noise=2.0):
    rng = np.random.default_rng(9)
    noisy = images + noise * rng.standard_normal(images.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def streamed(frames):
    flow = separate(iter(frames))
    results = list(flow)
    return np.stack([frame.foreground for frame in results]), results, flow.notes


@pytest.fixture(scope="module")
def cut():
    one, two = blocks(0), blocks(1)
    return with_noise(np.stack([one] * 40 + [two] * 40))


def test_new_background_after_a_cut(cut):
    with pytest.warns(UserWarning, match="changed at once and stayed so"):
        whole = separate(cut)
    masks, results, notes = streamed(cut)
    assert "changed at once" in notes[0]
    for each in (whole.foreground, masks):
        assert not each[:40].any() and not each[50:].any()
    for number in (39, 70):  # each scene has its own background
        for background in (whole.background[number], results[number].background):
            assert np.abs(background.astype(int) - cut[number]).mean() < 4


def test_previous_scene_is_recognised_at_once(cut):
    masks, results, notes = streamed(np.concatenate([cut, cut[:20]]))
    assert not masks[80:].any()
    assert np.abs(results[-1].background.astype(int) - cut[0]).mean() < 4
    assert "80" in notes[0]


def test_flash_is_not_a_cut():
    images = np.stack([blocks(0)] * 60)
    images[30:32] = 250
    masks, _, notes = streamed(with_noise(images))
    assert not notes
    assert not masks[34:].any()


def test_scene_length_compares_edges(cut):
    assert scene_length(list(cut[::5])) == 8
    assert scene_length(list(cut[:40:2])) == 20
    light = np.linspace(0.4, 1, 10)[:, None, None, None]
    assert scene_length(list((light * cut[:10]).astype(np.float32))) == 10
    assert scene_length(list(np.random.default_rng(0).random((10, *SIZE)))) == 10


def test_light_that_changes_its_colour_is_background():
    tint = np.where((np.arange(80) // 20 % 2)[:, None], (1.2, 1.0, 0.8), 1.0)
    frames = with_noise(blocks(0) * tint[:, None, None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert separate(frames).foreground.mean() < 1e-3
    assert streamed(frames)[0].mean() < 1e-3


def test_video_without_still_parts_has_a_note():
    frames = np.random.default_rng(3).integers(0, 256, (40, 40, 50), np.uint8)
    with pytest.warns(UserWarning, match="Nothing seems to be still"):
        separate(frames)
    still = blocks(2, (60, 80, 1))[None, ..., 0]  # strong noise is not motion
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        separate(with_noise(np.repeat(still, 40, axis=0), noise=40.0))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_frames_have_a_note(count):
    with pytest.warns(UserWarning, match=f"only {count} frames"):
        separate(with_noise(np.stack([blocks(0)] * count)))


def test_large_passing_object_is_not_a_moving_camera():
    images = np.stack([blocks(0)] * 60)
    large = blocks(5)
    motion = CameraMotion(SIZE)
    for time, image in enumerate(images):
        left = 2 * time - 45
        columns = slice(max(left, 0), max(left + 45, 0))
        part = large[:, max(-left, 0) : 45]
        image[:, columns] = part[:, : image[:, columns].shape[1]]
    for frame in with_noise(images):
        motion.add_frame(frame)
    assert motion.note() is None


def test_ghost_on_uneven_ground_disappears_soon():
    """The outline of a ghost is distinguished from edges of the ground."""
    images = np.stack([blocks(0, (60, 80, 1))[..., 0]] * 100)
    shape = np.random.default_rng(4).uniform(0, 30, (24, 12))
    images[:50, 20:44, 30:42] = shape  # there from the start, then leaves
    images[50:, 10:34, 60:72] = shape  # enters, then stays
    masks, _, notes = streamed(with_noise(images))
    assert masks[50, 20:44, 30:42].mean() > 0.8
    assert not masks[62:, 20:44, 30:42].any()
    assert masks[50:, 10:34, 60:72].mean() > 0.8
    assert not notes


def test_moved_edge_of_a_shadow_becomes_background_soon():
    """Its outline is neither an object's nor a ghost's."""
    rng = np.random.default_rng(15)
    texture, x = rng.uniform(-6, 6, SIZE[:2]), np.arange(SIZE[1])
    images = []
    for time in range(320):
        edge = 40 + 5 * np.clip((time - 90) / 10, 0, 1)
        images.append(90 + 100 / (1 + np.exp(2 * (edge - x))) + texture)
    masks, _, _ = streamed(with_noise(np.stack(images)))
    assert masks[110:130].mean() > 0.05
    assert not masks[260:].any()


def trembling(shifts, noise=2.0):
    """A square that crosses a wide scene, seen by a camera that moves."""
    wide = blocks(3, (60, 84, 3)).repeat(2, axis=0).repeat(2, axis=1)
    frames, truth = [], []
    for time, (down, right) in enumerate(shifts):
        image, mask = wide.copy(), np.zeros(wide.shape[:2], bool)
        mask[50:70, time % 140 : time % 140 + 20] = True
        image[mask] = 250
        view = np.s_[8 - down : 108 - down, 8 - right : 148 - right]
        frames.append(image[view])
        truth.append(mask[view])
    return with_noise(np.stack(frames), noise), np.stack(truth)


def test_trembling_camera_is_compensated():
    """A camera that trembles by two pixels costs at most .02 of the F-measure."""
    shifts = np.random.default_rng(6).integers(-2, 3, (80, 2))
    scores = []
    for each in (0 * shifts, shifts):
        frames, truth = trembling(each)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = separate(frames)
        hits = 2 * np.sum(result.foreground & truth)
        scores.append(hits / (np.sum(result.foreground) + np.sum(truth)))
        background = result.background[60].astype(int)
        error = np.abs(background - frames[60])[~truth[60]]
        assert np.median(error) < 4
    assert scores[0] > 0.9 and scores[1] > scores[0] - 0.02


def test_slow_pan_has_one_note():
    wide = blocks(4, (60, 84, 1)).repeat(2, axis=0).repeat(3, axis=1)[..., 0]
    pan = np.stack([wide[:, time // 4 : time // 4 + 180] for time in range(200)])
    with pytest.warns(UserWarning) as warned:
        separate(with_noise(pan))
    assert len(warned) == 1 and "camera seems to move" in str(warned[0].message)
    assert "cut" not in str(warned[0].message)


def test_cut_of_a_moving_camera_is_noted():
    pans = []
    for seed in (4, 5):
        wide = blocks(seed, (60, 84, 1)).repeat(2, axis=0).repeat(3, axis=1)[..., 0]
        pans += [wide[:, time : time + 160] for time in range(80)]
    with pytest.warns(UserWarning, match="seems to move.* cut before frame 80;"):
        separate(with_noise(np.stack(pans)))
