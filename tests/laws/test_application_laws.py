"""Laws of clean and restore, on tables and pictures that Hypothesis draws."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discrepant import Cleaner, clean, restore

pytestmark = pytest.mark.law


@st.composite
def tables(draw):
    """Columns that go together, with a few gross errors, gaps and units."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(40, 80)), draw(st.integers(4, 6))
    table = rng.standard_normal((n, 1)) @ rng.uniform(0.5, 2, (1, p))
    table += draw(st.sampled_from([0.05, 0.3])) * rng.standard_normal((n, p))
    for _ in range(draw(st.integers(0, 4))):
        table[rng.integers(n), rng.integers(p)] += rng.choice([-20, 20])
    if draw(st.booleans()):
        table[rng.random((n, p)) < 0.03] = np.nan
    return table


@st.composite
def pictures(draw):
    """A smooth ground with impulses of any value on it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(20, 30)), draw(st.integers(20, 30))
    i, j = np.mgrid[:rows, :columns]
    ground = 100 + 3 * i * rng.uniform(-1, 1) + 3 * j * rng.uniform(-1, 1)
    picture = np.clip(np.rint(ground), 1, 254).astype(np.uint8)
    if draw(st.booleans()):
        picture = np.stack([picture, picture // 2 + 20, 255 - picture], -1)
    wrong = rng.random(picture.shape) < draw(st.sampled_from([0.0, 0.05, 0.2]))
    picture[wrong] = rng.choice([0, 255], int(wrong.sum()))
    return picture


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def mask_of(table):
    return np.asarray(quietly(clean, table).mask)


@given(tables())
def test_cells_that_are_not_flagged_stay_bit_for_bit(table):
    before = table.tobytes()
    found = quietly(clean, table)
    kept = ~np.asarray(found.mask)
    assert np.asarray(found.table)[kept].tobytes() == table[kept].tobytes()
    again = quietly(clean, table)
    assert np.asarray(again.table).tobytes() == np.asarray(found.table).tobytes()
    assert table.tobytes() == before


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_matter(table, random):
    rows, columns = (random.sample(range(k), k) for k in table.shape)
    mixed = np.ix_(rows, columns)
    assert np.array_equal(mask_of(table[mixed]), mask_of(table)[mixed])


@given(tables(), st.integers(-40, 40), st.integers(0, 3))
def test_the_unit_of_a_column_does_not_matter(table, power, column):
    other = table.copy()
    other[:, column] = -np.ldexp(other[:, column], power)
    assert np.array_equal(mask_of(other), mask_of(table))


@given(tables(), st.integers(1, 30))
def test_rows_are_judged_by_themselves(table, cut):
    cleaner = quietly(Cleaner().fit, table)
    whole = np.asarray(quietly(cleaner.clean, table).mask)
    parts = [quietly(cleaner.clean, part).mask for part in (table[:cut], table[cut:])]
    assert np.array_equal(np.vstack(list(map(np.asarray, parts))), whole)


@given(tables())
def test_a_frame_is_cleaned_as_its_array(table):
    frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(table.shape[1])])
    assert np.array_equal(np.asarray(quietly(clean, frame).mask), mask_of(table))


def restored(picture):
    return quietly(restore, picture, quality="fast")


def agree(one, other, share=0.97):
    """Whether two ways to the same picture flag the same, and say much the same."""
    assert (one.mask == other.mask).mean() >= share
    apart = np.abs(one.image.astype(int) - other.image.astype(int))
    assert np.median(apart) == 0
    assert apart.mean() <= 2


@given(pictures())
def test_values_that_are_not_in_the_mask_stay_bit_for_bit(picture):
    before = picture.tobytes()
    found = restored(picture)
    assert np.array_equal(found.image[~found.mask], picture[~found.mask])
    assert found.image.dtype == picture.dtype
    taken = found.corruption
    assert np.array_equal(found.image + taken, picture)
    assert restored(picture).image.tobytes() == found.image.tobytes()
    assert picture.tobytes() == before


class Turned:
    """What was found in a picture, turned back."""

    def __init__(self, found, back):
        self.image, self.mask = back(found.image), back(found.mask)


TURNS = {
    "left to right": (lambda a: a[:, ::-1], lambda a: a[:, ::-1]),
    "top to bottom": (lambda a: a[::-1], lambda a: a[::-1]),
    "transposed": (lambda a: a.swapaxes(0, 1), lambda a: a.swapaxes(0, 1)),
}


@given(pictures(), st.sampled_from(sorted(TURNS)))
def test_flips_and_turns(picture, way):
    there, back = TURNS[way]
    turned = Turned(restored(np.ascontiguousarray(there(picture))), back)
    agree(turned, restored(picture))


@given(pictures())
def test_inverting_brightness(picture):
    found = restored(255 - picture)
    found = Turned(found, lambda a: a if a.dtype == bool else 255 - a)
    agree(found, restored(picture))


@given(pictures(), st.permutations(range(3)))
def test_swapping_channels(picture, order):
    if picture.ndim == 2:
        picture = np.stack([picture] * 3, -1)
    back = np.argsort(order)
    agree(
        Turned(restored(picture[..., order]), lambda a: a[..., back]), restored(picture)
    )


@given(pictures())
def test_masking_what_is_found_to_be_bad_keeps_it_found(picture):
    found = restored(picture)
    told = quietly(restore, picture, quality="fast", mask=found.mask)
    assert (told.mask >= found.mask).all()
