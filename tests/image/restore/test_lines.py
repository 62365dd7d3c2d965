"""Dead rows and columns, border lines and frames."""

import numpy as np
import pytest

from discrepant import restore
from discrepant.image.restore.core.border_lines import split_border_lines
from support.photographs import CAT, psnr


def test_dark_first_row_is_cut_off_and_not_flagged():
    framed = CAT.copy()
    framed[0] //= 16
    rows, _, _ = split_border_lines(framed / np.float32(255), np.ones(CAT.shape, bool))
    assert rows.start == 1
    assert not restore(framed, quality="fast").mask[0].any()


BORDERS = {
    "first row": np.s_[:1],
    "last row": np.s_[-1:],
    "first column": np.s_[:, :1],
    "last three columns": np.s_[:, -3:],
}


@pytest.mark.parametrize("value", [0, 255, "random"])
@pytest.mark.parametrize("border", BORDERS)
def test_dead_and_random_border_lines_are_replaced(border, value):
    line, corrupted = BORDERS[border], CAT.copy()
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, corrupted[line].shape)
    corrupted[line] = noise if value == "random" else value
    result = restore(corrupted, quality="fast")
    assert result.mask[line].mean() > 0.9
    assert psnr(result.image, CAT) > 30


@pytest.mark.parametrize("border", BORDERS)
def test_masked_border_line_continues_the_picture(border):
    line, mask = BORDERS[border], np.zeros(CAT.shape, bool)
    mask[line] = True
    result = restore(CAT, quality="fast", mask=mask)
    assert psnr(result.image[line], CAT[line]) > 25


@pytest.mark.parametrize("width", [1, 2])
def test_frame_is_not_flagged(width):
    framed = np.full_like(CAT, 99)
    inside = (slice(width, -width),) * 2
    framed[inside] = CAT[inside]
    framed[-1] = 0
    assert restore(framed, quality="fast").mask.mean() < 1e-3
