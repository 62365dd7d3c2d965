"""Surface defects: which are replaced, which are suggested, and clean photographs."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter
from typer.testing import CliRunner

from discrepant import restore
from discrepant.cli.main import app
from discrepant.image.files.formats import read
from discrepant.image.restore.defects.network import image_features, run_gate
from discrepant.image.restore.defects.surface_defects import (
    collect_evidence,
    detect_surface_defects,
    gate_log_odds,
    log_odds_with_evidence,
)
from discrepant.image.restore_files import Job, Options, restore_file

data = pytest.importorskip("skimage.data")
CAT = data.chelsea()[:256, 60:316]


def defect_layer(shape, seed=0, width=2.0):
    """Return the opacity of soft specks and scratches at each pixel."""
    rng = np.random.default_rng(seed)
    i, j = np.mgrid[: shape[0], : shape[1]]
    hard = np.zeros(shape[:2])
    for _ in range(60):
        p, q, r = rng.uniform(0, shape[0]), rng.uniform(0, shape[1]), rng.uniform(1, 3)
        hard[np.hypot(i - p, j - q) < r] = 1
    for _ in range(6):
        p, q, angle = *rng.uniform(0, shape[0], 2), rng.uniform(0, np.pi)
        across = np.abs((i - p) * np.cos(angle) - (j - q) * np.sin(angle))
        along = np.abs((i - p) * np.sin(angle) + (j - q) * np.cos(angle))
        hard[(across < width / 2) & (along < shape[0] / 3)] = 1
    return gaussian_filter(hard, 0.5)


def with_defects(truth, colour=255, seed=0, noise=6):
    """Return a photograph with defects and noise, and the opacity of the defects."""
    return overlay(truth, defect_layer(truth.shape, seed), colour, seed, noise)


def overlay(truth, opacity, colour, seed=0, noise=6):
    alpha = opacity[..., None] if truth.ndim == 3 else opacity
    out = (1 - alpha) * truth + alpha * colour
    out += np.random.default_rng(seed).normal(0, noise, truth.shape)
    return np.clip(np.rint(out), 0, 255).astype(np.uint8), opacity


def with_writing(truth):
    """Return a photograph with three lines of dark writing, and their opacity."""
    page = Image.new("L", (4 * truth.shape[1], 4 * truth.shape[0]))
    for k, size in enumerate((14, 20, 11)):
        font = ImageFont.load_default(4 * size)
        position = (80, 240 + 260 * k)
        ImageDraw.Draw(page).text(
            position, "keep dry  no. 7152  second copy", 255, font
        )
    return overlay(truth, gaussian_filter(np.asarray(page.reduce(4)) / 255, 0.5), 20)


def psnr(image, truth):
    return -10 * np.log10(np.mean((image.astype(float) - truth) ** 2) / 255**2)


def to_unit(image):
    return (image / 255).astype(np.float32).reshape(*image.shape[:2], -1)


def defects_of(image):
    y = to_unit(image)
    return detect_surface_defects(y, np.ones(y.shape, bool))


@pytest.fixture(scope="module")
def restored_scan():
    given, opacity = with_defects(CAT)
    return given, opacity, restore(given, quality="fast")


def test_soft_defects_are_replaced(restored_scan):
    given, opacity, result = restored_scan
    replaced = result.mask.any(axis=2)
    assert replaced[opacity > 0.25].mean() > 0.5
    assert replaced[opacity < 0.02].mean() < 0.005
    assert psnr(result.image, CAT) > psnr(given, CAT) + 3


def test_unflagged_values_are_unchanged(restored_scan):
    given, _, result = restored_scan
    assert np.array_equal(result.image[~result.mask], given[~result.mask])
    assert not (result.suggestions & result.mask).any()
    assert result.suggestions.shape == given.shape
    assert result.suggestions.dtype == bool


@pytest.mark.parametrize("name", ["chelsea", "camera", "coffee", "brick", "page"])
@pytest.mark.parametrize("noise", [0, 6])
def test_a_clean_photograph_has_no_certain_defects(name, noise):
    truth = getattr(data, name)()[:280, :320]
    noisy = truth + np.random.default_rng(1).normal(0, noise, truth.shape)
    assert not defects_of(np.clip(np.rint(noisy), 0, 255)).mask.any()


def test_writing_on_a_page_is_at_most_suggested():
    result = defects_of(data.page())
    assert not result.mask.any()
    assert result.suggested.any()


def test_defects_on_drawings_are_at_most_suggested():
    drawing = CAT // 64 * 64 + 32  # like a map: few colours, no noise
    given, opacity = with_defects(drawing, noise=0)
    result = defects_of(given)
    assert not result.mask.any()
    assert result.suggested[opacity > 0.5].mean() > 0.3
    assert defects_of(with_defects(drawing, noise=4)[0]).mask.any()


def smooth_gradient(side):
    i, j = np.mgrid[:side, :side]
    return (120 + 0.1 * i + 0.05 * j)[..., None] + np.array([0, 10, 30])


def test_defects_on_a_smooth_background_are_only_suggested():
    given, opacity = with_defects(smooth_gradient(256))
    result = defects_of(given)
    assert not result.mask.any()
    assert result.suggested[opacity > 0.5].mean() > 0.7


def test_impulses_are_not_taken_for_defects():
    rng = np.random.default_rng(0)
    for fraction in (0.02, 0.1, 0.3):
        corrupted = rng.random(CAT.shape) < fraction
        given = np.where(corrupted, 255 * rng.integers(0, 2, CAT.shape), CAT)
        assert not defects_of(given).mask.any()


def test_a_grey_image_saved_in_colour_is_treated_as_grey():
    grey = CAT.mean(axis=2).round()
    given, _ = with_defects(grey, noise=0)
    one, three = defects_of(given), defects_of(np.stack([given] * 3, axis=2))
    assert np.array_equal(one.mask, three.mask)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7, 3), (33, 40, 2), (40, 33, 3)])
def test_any_shape_is_accepted(shape):
    result = defects_of(np.random.default_rng(0).integers(0, 256, shape))
    assert result.mask.shape == result.suggested.shape == shape[:2]


def test_log_odds_depend_on_a_neighbourhood_only():
    y = to_unit(with_defects(CAT)[0])
    full = run_gate(image_features(y))
    part = run_gate(image_features(y[64:192, 64:192]))
    assert np.abs(part - full[64:192, 64:192])[48:-48, 48:-48].max() < 1e-3
    odd_size = run_gate(image_features(y[:101, :77]))
    assert odd_size.shape == (101, 77)


def test_the_common_colour_of_defects_adds_evidence():
    colour = np.array([250, 140, 30])
    given, opacity = with_defects(CAT, colour=colour, noise=3)
    y = to_unit(given)
    x = image_features(y)
    gain = gate_log_odds(y, x) - run_gate(x)
    assert gain[opacity > 0.5].mean() > 0.5
    assert gain[opacity < 0.01].mean() < 0


def recalls(given, opacity):
    """Return the recall of each network at 0.5% false positives."""
    y, defective = to_unit(given), opacity > 0.1
    x = image_features(y)
    evidence = collect_evidence(y, x)
    log_odds = [
        log_odds_with_evidence(network, x, evidence)
        for network in ("second_gate", "segmentation")
    ]
    assert all(each.dtype == np.float32 for each in log_odds)
    return [
        np.mean(each[defective] > np.quantile(each[~defective], 0.995))
        for each in (gate_log_odds(y, x), *log_odds)
    ]


@pytest.mark.parametrize("truth", [CAT, CAT.mean(axis=2)], ids=["colour", "grey"])
def test_larger_networks_have_higher_recall_of_defects(truth):
    gate, second_gate, segmentation = recalls(*with_defects(truth, seed=3))
    assert second_gate > gate
    assert segmentation > gate - 0.01


@pytest.mark.parametrize("truth", [CAT, CAT.mean(axis=2)], ids=["colour", "grey"])
def test_segmentation_has_the_highest_recall_of_writing(truth):
    gate, second_gate, segmentation = recalls(*with_writing(truth))
    assert segmentation > second_gate + 0.1 > gate


def test_a_reflected_image_has_the_same_defects():
    given, _ = with_defects(CAT)
    reflected = defects_of(given[:, ::-1]).mask[:, ::-1]
    assert np.mean(reflected != defects_of(given).mask) < 0.001


def test_suggestions_can_be_written_and_used_as_known_bad(tmp_path):
    given, opacity = with_defects(smooth_gradient(160))
    Image.fromarray(given).save(tmp_path / "scan.png")
    job = Job(tmp_path / "scan.png", tmp_path / "clean.png")
    report = restore_file(job, Options("fast", side_by_side=True, suggestions=True))
    assert report.suggested > 0
    assert "suggested" in str(report)
    suggested = read(tmp_path / "clean-suggestions.png").values > 0
    assert suggested[opacity > 0.5].mean() > 0.5
    assert read(job.side_by_side).values.shape[1] == 3 * 160 + 2 * 8
    arguments = ["restore", str(tmp_path / "scan.png"), "-o", str(tmp_path / "b.png")]
    arguments += ["--fast", "--known-bad", str(tmp_path / "clean-suggestions.png")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    changed = read(tmp_path / "b.png").values != given
    assert changed[suggested].mean() > 0.5
