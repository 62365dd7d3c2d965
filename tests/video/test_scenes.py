"""Scenes that are no steady view: cuts, tints, all in motion. Right, or said."""

import warnings

import numpy as np
import pytest

from discrepant import separate
from discrepant.video.model.camera_motion import Steadiness
from discrepant.video.model.scene_changes import scene_length

SIZE = (60, 80, 3)


def plate(seed, size=SIZE):
    """A rough picture: blocks of six pixels."""
    coarse = np.random.default_rng(seed).uniform(20, 220, (10, 14, size[2]))
    return coarse.repeat(6, axis=0).repeat(6, axis=1)[: size[0], : size[1]]


def filmed(pictures, noise=2.0):
    rng = np.random.default_rng(9)
    seen = pictures + noise * rng.standard_normal(pictures.shape)
    return np.clip(np.rint(seen), 0, 255).astype(np.uint8)


def streamed(frames):
    flow = separate(iter(frames))
    found = list(flow)
    return np.stack([frame.foreground for frame in found]), found, flow.notes


@pytest.fixture(scope="module")
def cut():
    one, two = plate(0), plate(1)
    return filmed(np.stack([one] * 40 + [two] * 40))


def test_after_a_cut_the_background_begins_anew(cut):
    with pytest.warns(UserWarning, match="changed at once and stayed so"):
        whole = separate(cut)
    masks, found, notes = streamed(cut)
    assert "changed at once" in notes[0]
    for each in (whole.foreground, masks):
        assert not each[:40].any() and not each[50:].any()
    for number in (39, 70):  # each scene has its own background
        for ground in (whole.background[number], found[number].background):
            assert np.abs(ground.astype(int) - cut[number]).mean() < 4


def test_a_scene_that_comes_back_is_known_at_once(cut):
    masks, found, notes = streamed(np.concatenate([cut, cut[:20]]))
    assert not masks[80:].any()
    assert np.abs(found[-1].background.astype(int) - cut[0]).mean() < 4
    assert "80" in notes[0]


def test_a_flash_is_no_cut():
    pictures = np.stack([plate(0)] * 60)
    pictures[30:32] = 250
    masks, _, notes = streamed(filmed(pictures))
    assert not notes
    assert not masks[34:].any()


def test_frames_of_one_scene_are_told_by_their_edges(cut):
    assert scene_length(list(cut[::5])) == 8
    assert scene_length(list(cut[:40:2])) == 20
    light = np.linspace(0.4, 1, 10)[:, None, None, None]
    assert scene_length(list((light * cut[:10]).astype(np.float32))) == 10
    assert scene_length(list(np.random.default_rng(0).random((10, *SIZE)))) == 10


def test_light_may_change_its_colour():
    tint = np.where((np.arange(80) // 20 % 2)[:, None], (1.2, 1.0, 0.8), 1.0)
    frames = filmed(plate(0) * tint[:, None, None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert separate(frames).foreground.mean() < 1e-3
    assert streamed(frames)[0].mean() < 1e-3


def test_where_all_moves_it_is_said():
    frames = np.random.default_rng(3).integers(0, 256, (40, 40, 50), np.uint8)
    with pytest.warns(UserWarning, match="Nothing seems to stand still"):
        separate(frames)
    still = plate(2, (60, 80, 1))[None, ..., 0]  # strong noise is no motion
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        separate(filmed(np.repeat(still, 40, axis=0), noise=40.0))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_frames_are_said(count):
    with pytest.warns(UserWarning, match=f"only {count} frames"):
        separate(filmed(np.stack([plate(0)] * count)))


def test_a_large_thing_that_passes_is_no_moving_camera():
    pictures = np.stack([plate(0)] * 60)
    large = plate(5)
    steady = Steadiness(SIZE)
    for time, picture in enumerate(pictures):
        left = 2 * time - 45
        columns = slice(max(left, 0), max(left + 45, 0))
        part = large[:, max(-left, 0) : 45]
        picture[:, columns] = part[:, : picture[:, columns].shape[1]]
    for frame in filmed(pictures):
        steady.look(frame)
    assert steady.note() is None


def test_the_ghost_of_one_who_stood_long_goes_soon():
    """Where the ground is uneven, the outline must be told from the ground's edges."""
    pictures = np.stack([plate(0, (60, 80, 1))[..., 0]] * 100)
    shape = np.random.default_rng(4).uniform(0, 30, (24, 12))
    pictures[:50, 20:44, 30:42] = shape  # stands from the start, and goes
    pictures[50:, 10:34, 60:72] = shape  # comes, and stands
    masks, _, notes = streamed(filmed(pictures))
    assert masks[50, 20:44, 30:42].mean() > 0.8
    assert not masks[62:, 20:44, 30:42].any()
    assert masks[50:, 10:34, 60:72].mean() > 0.8
    assert not notes
