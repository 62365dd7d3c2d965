"""Marks on photographs: what is mended, what is only suggested, what is left alone."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter
from typer.testing import CliRunner

from discrepant import restore
from discrepant.cli.main import app
from discrepant.image.files.formats import read
from discrepant.image.restore.defects.network import first_look, seen
from discrepant.image.restore.defects.surface_defects import (
    detect_surface_defects,
    first_odds,
    known_before,
    odds_again,
)
from discrepant.image.restore_files import Job, Options, restore_file

data = pytest.importorskip("skimage.data")
CAT = data.chelsea()[:256, 60:316]


def layer(shape, seed=0, thick=2.0):
    """Return how far soft specks, strokes and scratches cover each pixel."""
    rng = np.random.default_rng(seed)
    i, j = np.mgrid[: shape[0], : shape[1]]
    hard = np.zeros(shape[:2])
    for _ in range(60):
        p, q, r = rng.uniform(0, shape[0]), rng.uniform(0, shape[1]), rng.uniform(1, 3)
        hard[np.hypot(i - p, j - q) < r] = 1
    for _ in range(6):
        p, q, turn = *rng.uniform(0, shape[0], 2), rng.uniform(0, np.pi)
        aside = np.abs((i - p) * np.cos(turn) - (j - q) * np.sin(turn))
        along = np.abs((i - p) * np.sin(turn) + (j - q) * np.cos(turn))
        hard[(aside < thick / 2) & (along < shape[0] / 3)] = 1
    return gaussian_filter(hard, 0.5)


def scanned(truth, colour=255, seed=0, noise=6):
    """Return a photograph under marks and noise, and what is covered."""
    return under(truth, layer(truth.shape, seed), colour, seed, noise)


def under(truth, covered, colour, seed=0, noise=6):
    part = covered[..., None] if truth.ndim == 3 else covered
    out = (1 - part) * truth + part * colour
    out += np.random.default_rng(seed).normal(0, noise, truth.shape)
    return np.clip(np.rint(out), 0, 255).astype(np.uint8), covered


def written(truth):
    """Return the same under three lines of dark writing."""
    page = Image.new("L", (4 * truth.shape[1], 4 * truth.shape[0]))
    for k, size in enumerate((14, 20, 11)):
        font = ImageFont.load_default(4 * size)
        line = (80, 240 + 260 * k)
        ImageDraw.Draw(page).text(line, "keep dry  no. 7152  second copy", 255, font)
    return under(truth, gaussian_filter(np.asarray(page.reduce(4)) / 255, 0.5), 20)


def psnr(image, truth):
    return -10 * np.log10(np.mean((image.astype(float) - truth) ** 2) / 255**2)


def unit(image):
    return (image / 255).astype(np.float32).reshape(*image.shape[:2], -1)


def marks_of(image):
    y = unit(image)
    return detect_surface_defects(y, np.ones(y.shape, bool))


@pytest.fixture(scope="module")
def mended():
    given, covered = scanned(CAT)
    return given, covered, restore(given, quality="fast")


def test_soft_marks_are_mended(mended):
    given, covered, found = mended
    touched = found.mask.any(axis=2)
    assert touched[covered > 0.25].mean() > 0.5
    assert touched[covered < 0.02].mean() < 0.005
    assert psnr(found.image, CAT) > psnr(given, CAT) + 3


def test_what_is_left_alone_is_left_bit_for_bit(mended):
    given, _, found = mended
    assert np.array_equal(found.image[~found.mask], given[~found.mask])
    assert not (found.suggestions & found.mask).any()
    assert found.suggestions.shape == given.shape
    assert found.suggestions.dtype == bool


@pytest.mark.parametrize("name", ["chelsea", "camera", "coffee", "brick", "page"])
@pytest.mark.parametrize("noise", [0, 6])
def test_a_clean_photograph_has_no_marks(name, noise):
    truth = getattr(data, name)()[:280, :320]
    noisy = truth + np.random.default_rng(1).normal(0, noise, truth.shape)
    assert not marks_of(np.clip(np.rint(noisy), 0, 255)).mask.any()


def test_writing_on_a_page_is_at_most_suggested():
    found = marks_of(data.page())
    assert not found.mask.any()
    assert found.suggested.any()


def test_what_a_program_has_drawn_is_at_most_suggested():
    ground = CAT // 64 * 64 + 32  # as maps are: few colours, no noise
    given, covered = scanned(ground, noise=0)
    found = marks_of(given)
    assert not found.mask.any()
    assert found.suggested[covered > 0.5].mean() > 0.3
    assert marks_of(scanned(ground, noise=4)[0]).mask.any()


def sky(side):
    i, j = np.mgrid[:side, :side]
    return (120 + 0.1 * i + 0.05 * j)[..., None] + np.array([0, 10, 30])


def test_marks_on_a_smooth_ground_are_only_suggested():
    given, covered = scanned(sky(256))
    found = marks_of(given)
    assert not found.mask.any()
    assert found.suggested[covered > 0.5].mean() > 0.7


def test_impulses_are_not_taken_for_marks():
    rng = np.random.default_rng(0)
    for share in (0.02, 0.1, 0.3):
        hit = rng.random(CAT.shape) < share
        given = np.where(hit, 255 * rng.integers(0, 2, CAT.shape), CAT)
        assert not marks_of(given).mask.any()


def test_a_grey_picture_saved_in_colour_is_judged_as_grey():
    grey = CAT.mean(axis=2).round()
    given, _ = scanned(grey, noise=0)
    one, three = marks_of(given), marks_of(np.stack([given] * 3, axis=2))
    assert np.array_equal(one.mask, three.mask)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7, 3), (33, 40, 2), (40, 33, 3)])
def test_any_shape(shape):
    found = marks_of(np.random.default_rng(0).integers(0, 256, shape))
    assert found.mask.shape == found.suggested.shape == shape[:2]


def test_odds_follow_from_what_is_around():
    y = unit(scanned(CAT)[0])
    whole = first_look(seen(y))
    part = first_look(seen(y[64:192, 64:192]))
    assert np.abs(part - whole[64:192, 64:192])[48:-48, 48:-48].max() < 1e-3
    odd = first_look(seen(y[:101, :77]))
    assert odd.shape == (101, 77)


def test_colours_that_marks_share_tell_more_of_them():
    colour = np.array([250, 140, 30])
    given, covered = scanned(CAT, colour=colour, noise=3)
    y = unit(given)
    alone, together = first_look(seen(y)), first_odds(y, seen(y))
    under = covered > 0.5
    assert (together - alone)[under].mean() > 0.5
    assert (together - alone)[covered < 0.01].mean() < 0


def looks(given, covered):
    """Return the share of marks that each look finds at 0.5% of the rest."""
    y, marked = unit(given), covered > 0.1
    x = seen(y)
    before = known_before(y, x)
    again = [odds_again(look, x, before) for look in ("second", "third")]
    assert all(odds.dtype == np.float32 for odds in again)
    return [
        np.mean(odds[marked] > np.quantile(odds[~marked], 0.995))
        for odds in (first_odds(y, x), *again)
    ]


@pytest.mark.parametrize("truth", [CAT, CAT.mean(axis=2)], ids=["colour", "grey"])
def test_the_second_look_sees_more_and_takes_less_for_marks(truth):
    first, second, third = looks(*scanned(truth, seed=3))
    assert second > first
    assert third > first - 0.01


@pytest.mark.parametrize("truth", [CAT, CAT.mean(axis=2)], ids=["colour", "grey"])
def test_the_third_look_reads(truth):
    first, second, third = looks(*written(truth))
    assert third > second + 0.1 > first


def test_a_mirror_image_has_the_marks_of_the_picture():
    given, _ = scanned(CAT)
    mirrored = marks_of(given[:, ::-1]).mask[:, ::-1]
    assert np.mean(mirrored != marks_of(given).mask) < 0.001


def test_suggestions_are_written_drawn_and_accepted(tmp_path):
    given, covered = scanned(sky(160))
    Image.fromarray(given).save(tmp_path / "scan.png")
    job = Job(tmp_path / "scan.png", tmp_path / "clean.png")
    report = restore_file(job, Options("fast", side_by_side=True, suggestions=True))
    assert report.suggested > 0
    assert "suggested" in str(report)
    suggested = read(tmp_path / "clean-suggestions.png").values > 0
    assert suggested[covered > 0.5].mean() > 0.5
    assert read(job.side_by_side).values.shape[1] == 3 * 160 + 2 * 8
    arguments = ["restore", str(tmp_path / "scan.png"), "-o", str(tmp_path / "b.png")]
    arguments += ["--fast", "--known-bad", str(tmp_path / "clean-suggestions.png")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    changed = read(tmp_path / "b.png").values != given
    assert changed[suggested].mean() > 0.5
