"""Laws of clean and restore, on random tables and images (Hypothesis)."""

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
    """Correlated columns with a few gross errors and missing cells."""
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
def images(draw):
    """A smooth background with salt-and-pepper noise."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(20, 30)), draw(st.integers(20, 30))
    i, j = np.mgrid[:rows, :columns]
    ground = 100 + 3 * i * rng.uniform(-1, 1) + 3 * j * rng.uniform(-1, 1)
    image = np.clip(np.rint(ground), 1, 254).astype(np.uint8)
    if draw(st.booleans()):
        image = np.stack([image, image // 2 + 20, 255 - image], -1)
    corrupt = rng.random(image.shape) < draw(st.sampled_from([0.0, 0.05, 0.2]))
    image[corrupt] = rng.choice([0, 255], int(corrupt.sum()))
    return image


def without_warnings(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def mask_of(table):
    return np.asarray(without_warnings(clean, table).mask)


@given(tables())
def test_cells_that_are_not_replaced_are_unchanged(table):
    before = table.tobytes()
    result = without_warnings(clean, table)
    kept = ~np.asarray(result.replaced)
    assert np.asarray(result.table)[kept].tobytes() == table[kept].tobytes()
    again = without_warnings(clean, table)
    assert np.asarray(again.table).tobytes() == np.asarray(result.table).tobytes()
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
def test_rows_are_scored_independently(table, cut):
    cleaner = without_warnings(Cleaner().fit, table)
    whole = np.asarray(without_warnings(cleaner.clean, table).mask)
    parts = [
        without_warnings(cleaner.clean, part).mask
        for part in (table[:cut], table[cut:])
    ]
    assert np.array_equal(np.vstack(list(map(np.asarray, parts))), whole)


@given(tables())
def test_data_frames_are_cleaned_like_arrays(table):
    frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(table.shape[1])])
    assert np.array_equal(
        np.asarray(without_warnings(clean, frame).mask), mask_of(table)
    )


def restore_fast(image):
    return without_warnings(restore, image, quality="fast")


def agree(one, other, fraction=0.97):
    """Assert that a fraction of the masks and nearly all values are equal."""
    assert (one.mask == other.mask).mean() >= fraction
    difference = np.abs(one.image.astype(int) - other.image.astype(int))
    assert np.median(difference) == 0
    assert difference.mean() <= 2


@given(images())
def test_pixels_outside_the_mask_are_unchanged(image):
    before = image.tobytes()
    result = restore_fast(image)
    assert np.array_equal(result.image[~result.mask], image[~result.mask])
    assert result.image.dtype == image.dtype
    corruption = result.corruption
    assert np.array_equal(result.image + corruption, image)
    assert restore_fast(image).image.tobytes() == result.image.tobytes()
    assert image.tobytes() == before


class TransformedBack:
    """A result for a transformed image, transformed back."""

    def __init__(self, result, back):
        self.image, self.mask = back(result.image), back(result.mask)


SYMMETRIES = {
    "left to right": (lambda a: a[:, ::-1], lambda a: a[:, ::-1]),
    "top to bottom": (lambda a: a[::-1], lambda a: a[::-1]),
    "transposed": (lambda a: a.swapaxes(0, 1), lambda a: a.swapaxes(0, 1)),
}


@given(images(), st.sampled_from(sorted(SYMMETRIES)))
def test_flips_and_transposes(image, name):
    there, back = SYMMETRIES[name]
    transformed = TransformedBack(
        restore_fast(np.ascontiguousarray(there(image))), back
    )
    agree(transformed, restore_fast(image))


@given(images())
def test_inverted_intensities(image):
    result = restore_fast(255 - image)
    result = TransformedBack(result, lambda a: a if a.dtype == bool else 255 - a)
    agree(result, restore_fast(image))


@given(images(), st.permutations(range(3)))
def test_permuted_channels(image, order):
    if image.ndim == 2:
        image = np.stack([image] * 3, -1)
    back = np.argsort(order)
    agree(
        TransformedBack(restore_fast(image[..., order]), lambda a: a[..., back]),
        restore_fast(image),
    )


@given(images())
def test_given_bad_pixels_stay_in_the_mask(image):
    result = restore_fast(image)
    given = without_warnings(restore, image, quality="fast", mask=result.mask)
    assert (given.mask >= result.mask).all()
