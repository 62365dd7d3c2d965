"""Image experiments: cases, figures, resumed runs, invalid arguments."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from skimage import data
from skimage.io import imsave

from discrepant.core.errors import InputError
from discrepant.experiments import image_figures as images
from discrepant.experiments import photographs
from discrepant.experiments.runner import Runner

QUICK = images.Config.quick("fig3")
TINY = replace(QUICK, width=2, steps=4, settling=0, every=2, size=40)
NAMES = ["a", "b", "c"]


def test_each_figure_has_its_cases():
    paper = {name: images.Config.paper(name) for name in ("fig1b", "fig3", "fig4")}
    assert paper["fig1b"].cases(NAMES) == [("a", 0.5)]
    assert paper["fig3"].cases(NAMES) == [("a", 0.5), ("b", 0.5), ("c", 0.5)]
    assert paper["fig4"].cases(NAMES) == [("a", s) for s in (0.1, 0.3, 0.5, 0.7)]
    assert len(images.Config.paper("fig5").cases(NAMES)) == 6
    assert len(images.Config("fig5").cases(NAMES)) == 9
    assert images.Config.paper("fig3").corruption_rate == pytest.approx(
        2.54e-3, rel=0.01
    )


def test_encoding_an_image_is_lossless():
    image = data.astronaut()[:20, :30]
    encoded = json.loads(json.dumps(photographs.encode_image(image / 255)))
    assert np.array_equal(photographs.decode_image(encoded), image)


@pytest.mark.parametrize("figure", ["fig1b", "fig3", "fig4", "fig5"])
def test_figures_are_drawn(figure):
    config = replace(TINY, figure=figure, max_images=2, fractions=(0.3, 0.5))
    outcome = images.run(config, Runner(jobs=1))
    assert "dB" in outcome.finding
    cases = config.cases(list(photographs.SHIPPED))
    assert len(outcome.points) == len(cases) * len(images.METHODS) * 3
    assert outcome.table.count("\n") == len(cases) + 1
    curves, pictures = images.curves(outcome), images.pictures(outcome)
    assert sum(bool(ax.lines) for ax in curves.axes) == len(cases)
    assert sum(bool(ax.images) for ax in pictures.axes) == 5 * len(cases)
    drawn = images.plot(outcome)
    assert bool(drawn.axes[0].lines) == (figure in ("fig1b", "fig5"))


def test_images_of_a_folder_are_cropped(tmp_path):
    for name in ("other", "F16"):
        imsave(tmp_path / f"{name}.png", data.astronaut(), check_contrast=False)
    imsave(tmp_path / "small.png", data.camera()[:30, :20], check_contrast=False)
    assert list(photographs.available(str(tmp_path))) == ["F16", "other", "small"]

    def photograph(name):
        return photographs.photograph(name, str(tmp_path), 40)

    assert photograph("F16").shape == (40, 40, 3)
    assert photograph("small").shape == (30, 20)
    with pytest.raises(InputError, match="not a folder"):
        photographs.available(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no"):
        photographs.available(str(tmp_path / "empty"))


@pytest.mark.parametrize("channels", [1, 2, 4, 5])
def test_images_of_any_channels_are_drawn(tmp_path, channels):
    values = np.repeat(data.camera()[:44, :44, None] / 255, channels, axis=2)
    np.save(tmp_path / "a.npy", values)
    outcome = images.run(replace(TINY, images=str(tmp_path)), Runner(jobs=1))
    panels = [ax.get_images()[0].get_array() for ax in images.plot(outcome).axes]
    # The truth, the observation and three results; without three channels, the first.
    assert [panel.shape for panel in panels] == [(40, 40)] * 5
    assert np.allclose(panels[0], data.camera()[2:42, 2:42] / 255)


def test_missing_requirements_are_reported_before_any_run(tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(images, "descent", never)
    config = replace(TINY, images=str(tmp_path))
    for values in (np.full((40, 40), 7.0), np.ones((40, 40), np.int16)):
        np.save(tmp_path / "a.npy", values)
        with pytest.raises(InputError, match=r"a\.npy: .* needed"):
            images.run(config, Runner(jobs=1))
    np.save(tmp_path / "a.npy", np.ones((40, 40)))
    for module in ("torch", "skimage"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, module, None)
            with pytest.raises(InputError, match=r"\[image\]"):
                images.run(config, Runner(jobs=1))
    (tmp_path / "a.tif").touch()
    with pytest.raises(InputError, match="two files of one name"):
        images.run(config, Runner(jobs=1))


def test_results_do_not_depend_on_an_interruption(tmp_path, monkeypatch):
    whole = images.run(TINY, Runner(jobs=1))
    runner = Runner(jobs=1, folder=tmp_path)
    calls = []

    def stop_at_the_second(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return psnr(*args, **kwargs)

    psnr = images.psnr
    monkeypatch.setattr(images, "psnr", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        images.run(TINY, runner)
    monkeypatch.setattr(images, "psnr", psnr)
    resumed = images.run(TINY, runner)
    assert resumed.points.equals(whole.points)
    runner.discard_stored()
    (kept,) = tmp_path.iterdir()
    assert {path.suffix for path in kept.iterdir()} == {".json"}


def test_figures_use_the_runs_of_each_other(tmp_path, monkeypatch):
    first = images.run(TINY, Runner(jobs=1, folder=tmp_path))

    def never(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr("discrepant.image.deep_image_prior.fit.descend", never)
    other = images.run(replace(TINY, figure="fig1b"), Runner(jobs=1, folder=tmp_path))
    assert other.points.equals(first.points)


@pytest.mark.slow
def test_double_overparameterisation_needs_no_early_stopping():
    config = replace(images.Config("fig4"), fractions=(0.5, 0.7))
    outcome = images.run(config, Runner())
    runs = outcome.extra["runs"]
    for fraction in config.fractions:
        ours, absolute, squares = (
            runs.loc["astronaut", fraction, method]
            for method in ("double", "dip-l1", "dip")
        )
        assert ours["last"] > ours["best"] - 0.3
        assert absolute["last"] < absolute["best"] - 1
        assert ours["last"] > absolute["best"] > squares["best"] + 2
