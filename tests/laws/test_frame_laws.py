"""Laws of separate, and of restore in tiles and on memory maps (Hypothesis)."""

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
def videos(draw, min_frames=10, max_frames=18):
    """A textured background with noise and a moving block; grey or colour."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(20, 32)), draw(st.integers(20, 32))
    count = draw(st.integers(min_frames, max_frames))
    shape = (rows, columns, *draw(st.sampled_from([(), (3,)])))
    frames = rng.uniform(60, 180, shape) + rng.standard_normal((count, *shape))
    colour = rng.choice([0, 255], shape[2:] or 1)
    if draw(st.booleans()):
        for time in range(count):
            left = int(time * (columns + 8) / count) - 8
            frames[time, 6:14, max(left, 0) : max(left + 8, 0)] = colour
    return np.clip(np.rint(frames), 0, 255).astype(np.uint8)


def separate_quietly(frames, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return separate(frames, **options)


def assert_same(one, other):
    """Assert that two results are equal, bit for bit."""
    assert np.array_equal(one.foreground, other.foreground)
    for name in ("background", "probability"):
        pair = (np.asarray(getattr(result, name)) for result in (one, other))
        assert np.array_equal(*pair)


def agreement(mask, other):
    """Return the fraction of pixels at which two masks agree."""
    return (mask == other).mean()


@given(videos())
def test_results_are_deterministic(frames):
    before = frames.tobytes()
    result = separate_quietly(frames)
    assert_same(separate_quietly(frames), result)
    assert_same(separate_quietly(list(frames)), result)
    assert frames.tobytes() == before


@given(videos())
def test_the_order_in_memory_does_not_matter(frames):
    result = separate_quietly(frames)
    apart = np.repeat(frames, 2, axis=2)[:, :, ::2]
    for same in (np.asfortranarray(frames), apart):
        assert_same(separate_quietly(same), result)


@given(videos())
def test_streaming_equals_the_whole_video(frames):
    stream = separate_quietly(frames, stream=True)
    masks = np.stack([frame.foreground for frame in stream])
    assert np.array_equal(masks, separate_quietly(frames).foreground)


@given(videos(max_frames=12))
def test_iterators_of_few_frames_equal_their_array(frames):
    """Few frames are buffered in any case; longer arrays get a preview."""
    stream = separate_quietly(iter(frames))
    masks = np.stack([frame.foreground for frame in stream])
    assert np.array_equal(masks, separate_quietly(frames).foreground)


@given(videos(), st.integers(-60, 60))
def test_the_unit_of_the_frames_does_not_matter(frames, power):
    frames = frames.astype(np.float32) / 4
    one, other = separate_quietly(frames), separate_quietly(np.ldexp(frames, power))
    assert np.array_equal(one.foreground, other.foreground)
    assert np.array_equal(np.ldexp(one.background[-1], power), other.background[-1])


SYMMETRIES = {
    "left to right": (lambda a: a[:, :, ::-1], lambda a: a[:, :, ::-1]),
    "top to bottom": (lambda a: a[:, ::-1], lambda a: a[:, ::-1]),
    "transposed": (lambda a: a.swapaxes(1, 2), lambda a: a.swapaxes(1, 2)),
    "a quarter": (
        lambda a: np.rot90(a, axes=(1, 2)),
        lambda a: np.rot90(a, -1, axes=(1, 2)),
    ),
}


@given(videos(), st.sampled_from(sorted(SYMMETRIES)))
def test_flips_and_rotations_of_a_video(frames, name):
    there, back = SYMMETRIES[name]
    transformed = back(separate_quietly(np.ascontiguousarray(there(frames))).foreground)
    assert agreement(transformed, separate_quietly(frames).foreground) >= 0.97


@given(videos(), st.permutations(range(3)))
def test_permuted_channels_of_a_video(frames, order):
    if frames.ndim == 3:
        frames = np.stack([frames, frames // 2, 255 - frames], -1)
    masks = [separate_quietly(each).foreground for each in (frames, frames[..., order])]
    assert agreement(*masks) >= 0.97


@st.composite
def large_images(draw):
    """Smooth images that are larger than a small tile, with salt-and-pepper noise."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(40, 56)), draw(st.integers(40, 56))
    i, j = np.mgrid[:rows, :columns]
    ground = 120 + 40 * np.sin(i / 9 + rng.uniform(0, 6)) * np.cos(j / 11)
    picture = np.rint(ground + rng.standard_normal(ground.shape)).astype(np.uint8)
    corrupt = rng.random(picture.shape) < draw(st.sampled_from([0.0, 0.05, 0.3]))
    picture[corrupt] = rng.choice([0, 255], int(corrupt.sum()))
    return picture


def restored(picture, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return restore(picture, quality="fast", **options)


@given(large_images(), st.integers(20, 36))
def test_the_size_of_the_tiles_hardly_matters(picture, side):
    whole = restored(picture)
    with patch.object(tiling, "MAX_UNCUT_SIDE", side):
        cut = restored(picture)
    assert agreement(whole.mask, cut.mask) >= 0.97
    apart = np.abs(whole.image.astype(int) - cut.image.astype(int))
    assert np.median(apart) == 0 and apart.mean() <= 1


@given(large_images())
def test_memory_maps_are_restored_like_arrays(picture):
    stack = np.stack([picture, picture[::-1], picture])[:, :24, :24]
    mapped = array_on_file(stack.shape, stack.dtype)
    mapped[:] = stack
    one, other = (restored(each, axes="TYX") for each in (stack, mapped))
    assert one.image.tobytes() == other.image.tobytes()
    assert np.array_equal(one.mask, other.mask)
    assert np.array_equal(one.probability, other.probability)
