"""Laws of separate, and of restore in tiles and on files, as Hypothesis draws them."""

import warnings
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discrepant import restore, separate
from discrepant.core.memory import array_on_file
from discrepant.image.restore import tiling

pytestmark = pytest.mark.law


@st.composite
def videos(draw, least=10, most=18):
    """A rough ground with noise, and a block that crosses it; grey or in colour."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(20, 32)), draw(st.integers(20, 32))
    count = draw(st.integers(least, most))
    shape = (rows, columns, *draw(st.sampled_from([(), (3,)])))
    frames = rng.uniform(60, 180, shape) + rng.standard_normal((count, *shape))
    colour = rng.choice([0, 255], shape[2:] or 1)
    if draw(st.booleans()):
        for time in range(count):
            left = int(time * (columns + 8) / count) - 8
            frames[time, 6:14, max(left, 0) : max(left + 8, 0)] = colour
    return np.clip(np.rint(frames), 0, 255).astype(np.uint8)


def told_apart(frames, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return separate(frames, **options)


def assert_same(one, other):
    """Whether two ways to the same video say the same, to the last bit."""
    assert np.array_equal(one.foreground, other.foreground)
    for name in ("background", "probability"):
        pair = (np.asarray(getattr(found, name)) for found in (one, other))
        assert np.array_equal(*pair)


def agreement(mask, other):
    return (mask == other).mean()


@given(videos())
def test_the_same_frames_the_same_bytes(frames):
    before = frames.tobytes()
    found = told_apart(frames)
    assert_same(told_apart(frames), found)
    assert_same(told_apart(list(frames)), found)
    assert frames.tobytes() == before


@given(videos())
def test_the_order_in_memory_does_not_matter(frames):
    found = told_apart(frames)
    apart = np.repeat(frames, 2, axis=2)[:, :, ::2]
    for same in (np.asfortranarray(frames), apart):
        assert_same(told_apart(same), found)


@given(videos())
def test_frame_by_frame_is_as_at_once(frames):
    flow = told_apart(frames, stream=True)
    masks = np.stack([frame.foreground for frame in flow])
    assert np.array_equal(masks, told_apart(frames).foreground)


@given(videos(most=12))
def test_an_iterator_of_few_frames_is_as_their_array(frames):
    """No more than are held back in any case; of more, an array is looked at ahead."""
    flow = told_apart(iter(frames))
    masks = np.stack([frame.foreground for frame in flow])
    assert np.array_equal(masks, told_apart(frames).foreground)


@given(videos(), st.integers(-60, 60))
def test_the_unit_of_the_frames_does_not_matter(frames, power):
    frames = frames.astype(np.float32) / 4
    one, other = told_apart(frames), told_apart(np.ldexp(frames, power))
    assert np.array_equal(one.foreground, other.foreground)
    assert np.array_equal(np.ldexp(one.background[-1], power), other.background[-1])


TURNS = {
    "left to right": (lambda a: a[:, :, ::-1], lambda a: a[:, :, ::-1]),
    "top to bottom": (lambda a: a[:, ::-1], lambda a: a[:, ::-1]),
    "transposed": (lambda a: a.swapaxes(1, 2), lambda a: a.swapaxes(1, 2)),
    "a quarter": (
        lambda a: np.rot90(a, axes=(1, 2)),
        lambda a: np.rot90(a, -1, axes=(1, 2)),
    ),
}


@given(videos(), st.sampled_from(sorted(TURNS)))
def test_flips_and_turns_of_a_video(frames, way):
    there, back = TURNS[way]
    turned = back(told_apart(np.ascontiguousarray(there(frames))).foreground)
    assert agreement(turned, told_apart(frames).foreground) >= 0.97


@given(videos(), st.permutations(range(3)))
def test_swapping_channels_of_a_video(frames, order):
    if frames.ndim == 3:
        frames = np.stack([frames, frames // 2, 255 - frames], -1)
    masks = [told_apart(each).foreground for each in (frames, frames[..., order])]
    assert agreement(*masks) >= 0.97


@st.composite
def spotted(draw):
    """A smooth ground, larger than a small tile, with salt and pepper."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(40, 56)), draw(st.integers(40, 56))
    i, j = np.mgrid[:rows, :columns]
    ground = 120 + 40 * np.sin(i / 9 + rng.uniform(0, 6)) * np.cos(j / 11)
    picture = np.rint(ground + rng.standard_normal(ground.shape)).astype(np.uint8)
    wrong = rng.random(picture.shape) < draw(st.sampled_from([0.0, 0.05, 0.3]))
    picture[wrong] = rng.choice([0, 255], int(wrong.sum()))
    return picture


def restored(picture, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return restore(picture, quality="fast", **options)


@given(spotted(), st.integers(20, 36))
def test_the_size_of_the_tiles_hardly_matters(picture, side):
    whole = restored(picture)
    with patch.object(tiling, "MAX_UNCUT_SIDE", side):
        cut = restored(picture)
    assert agreement(whole.mask, cut.mask) >= 0.97
    apart = np.abs(whole.image.astype(int) - cut.image.astype(int))
    assert np.median(apart) == 0 and apart.mean() <= 1


@given(spotted())
def test_a_stack_on_file_is_restored_as_in_memory(picture):
    stack = np.stack([picture, picture[::-1], picture])[:, :24, :24]
    held = array_on_file(stack.shape, stack.dtype)
    held[:] = stack
    one, other = (restored(each, axes="TYX") for each in (stack, held))
    assert one.image.tobytes() == other.image.tobytes()
    assert np.array_equal(one.mask, other.mask)
    assert np.array_equal(one.probability, other.probability)
