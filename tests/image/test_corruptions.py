"""Synthetic corruption hits the given fraction; baseline filters remove impulses."""

import numpy as np
import pytest
from skimage import data

from discrepant.core.errors import InputError
from discrepant.image import adaptive_median, corruptions, inpaint_extremes, median
from discrepant.image.arrays import psnr

IMAGE = data.astronaut()[100:196:2, 180:280:2] / 255  # (48, 50, 3)


@pytest.mark.parametrize("image", [IMAGE, IMAGE[..., 0]])
@pytest.mark.parametrize(
    "model", [corruptions.salt_and_pepper, corruptions.random_impulses]
)
def test_impulses_hit_the_given_fraction(model, image):
    noisy, mask = model(image, 0.3, random_state=0)
    assert abs(mask.mean() - 0.3) < 0.05
    assert np.array_equal(noisy[~mask], image[~mask])
    if model is corruptions.salt_and_pepper:
        assert set(np.unique(noisy[mask])) == {0, 1}
        assert abs(noisy[mask].mean() - 0.5) < 0.1
    again, _ = model(image, 0.3, random_state=0)
    assert np.array_equal(noisy, again)


def test_invalid_corruption_options_are_refused():
    with pytest.raises(InputError, match="fraction"):
        corruptions.salt_and_pepper(IMAGE, 1.5)
    with pytest.raises(InputError, match="floats"):
        corruptions.salt_and_pepper(data.astronaut(), 0.5)


def test_filters_remove_salt_and_pepper():
    noisy, _ = corruptions.salt_and_pepper(IMAGE, 0.3, random_state=0)
    before = psnr(noisy, IMAGE)
    scores = {
        "median": psnr(median(noisy, 5), IMAGE),
        "adaptive": psnr(adaptive_median(noisy), IMAGE),
        "inpainting": psnr(inpaint_extremes(noisy), IMAGE),
    }
    assert before + 5 < scores["median"] < scores["adaptive"] < scores["inpainting"]
    grey = inpaint_extremes(noisy[..., 0])
    assert grey.shape == IMAGE.shape[:2]
    assert np.array_equal(inpaint_extremes(np.ones((5, 5))), np.ones((5, 5)))
    for size in (2, 1, 4):
        with pytest.raises(InputError, match="odd"):
            median(noisy, size)


def test_psnr_of_known_errors():
    assert psnr(IMAGE, IMAGE) == np.inf
    assert psnr(np.full((4, 4), 0.6), np.full((4, 4), 0.5)) == pytest.approx(20)
