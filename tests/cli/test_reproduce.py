"""`discrepant reproduce`, and the function behind it."""

import json

import pytest

from discrepant import InputError
from discrepant.experiments.reproduce import reproduce


def test_figure_points_and_settings_are_written(discrepant, tmp_path):
    done = discrepant(
        *("reproduce", "regression", "--quick", "-o", "out", "--jobs", "1"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("regression.png", "regression.csv", "regression.json"),
    }
    details = json.loads((tmp_path / "out" / "regression.json").read_text())
    assert details["seed"] == 0
    assert details["versions"]["discrepant"]


def test_progress_ends_at_one(tmp_path):
    fractions = []
    report = reproduce(
        "regression",
        tmp_path,
        quick=True,
        jobs=1,
        progress=lambda fraction, note: fractions.append(fraction),
    )
    assert str(report) == report.finding
    assert fractions[-1] == 1
    assert {path.name for path in tmp_path.iterdir()} == set(report.files)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fig9", {}, "name must be"),
        ("fig1a", {"jobs": 0}, "^jobs must be a positive number or -1, got 0"),
        ("fig1a", {"scale": "cpu"}, "fig1a uses no images; leave out scale="),
        ("fig3", {"scale": "huge"}, 'scale must be "cpu" or "paper"'),
        ("fig3", {"quick": True, "scale": "paper"}, "contradict each other"),
    ],
)
def test_errors_of_the_function_name_no_options(tmp_path, name, settings, message):
    with pytest.raises(InputError, match=message) as caught:
        reproduce(name, tmp_path / "out", **settings)
    assert "--" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("fig2c", "--scale", "cpu"), "fig2c uses no images"),
        (("fig3", "--images", "nowhere"), "nowhere is not a folder"),
        (("fig3", "--images", "broken"), "a.png cannot be read as PNG"),
        (("fig3", "--quick", "--scale", "paper"), "contradict each other"),
    ],
)
def test_invalid_images_and_scales_give_one_sentence_and_exit_code_two(
    run_in_process, tmp_path, args, message
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    done = run_in_process("reproduce", *args, "-o", "out", "--jobs", "1")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_missing_packages_are_named(tmp_path, monkeypatch):
    name = "discrepant.experiments.image_figures.find_spec"
    monkeypatch.setattr(name, lambda module: None)
    with pytest.raises(InputError, match=r"need PyTorch and scikit-image: .*\[image\]"):
        reproduce("fig5", tmp_path / "out")
    assert not (tmp_path / "out").exists()
