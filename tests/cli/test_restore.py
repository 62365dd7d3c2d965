"""Restoring one or many files, and the command `discrepant restore`."""

import signal
import sys
import warnings

import numpy as np
import pytest

from discrepant import InputError, restore
from discrepant.cli.interrupt import interruptible
from discrepant.image.display import describe_values
from discrepant.image.files.formats import read
from discrepant.image.files.image_file import ImageFile
from discrepant.image.restore_files import (
    Job,
    Options,
    plan,
    restore_file,
    restore_files,
)
from support.images import corrupted_image, ramp_image

Image = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")


@pytest.mark.parametrize("module", ["PIL", "imagecodecs"])
def test_a_missing_package_is_reported_before_the_work(tmp_path, monkeypatch, module):
    np.save(tmp_path / "a.npy", ramp_image(dtype=np.uint16))
    monkeypatch.setitem(sys.modules, module, None)
    job = plan([tmp_path / "a.npy"], tmp_path / "b.png")[0]
    with pytest.raises(InputError, match=r"pip install '.*\[restore\]'"):
        restore_file(job, Options("fast"))


def test_files_are_overwritten_only_on_request(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, corrupted_image())
    with pytest.raises(InputError, match="exists"):
        restore_file(plan([path], path)[0], Options("fast"))
    assert np.array_equal(np.load(path), corrupted_image())
    restore_file(plan([path], path)[0], Options("fast", overwrite=True))
    assert not np.array_equal(np.load(path), corrupted_image())


def test_plans_are_checked_before_the_work(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no"):
        plan([tmp_path / "empty"], tmp_path / "out")
    with pytest.raises(InputError, match=r"nothing\.png does not exist"):
        plan([tmp_path / "nothing.png"], tmp_path / "out")
    (tmp_path / "b").mkdir()
    for name in ("a.png", "b.png", "a.tif", "a-mask.png", "a-png-mask.png", "b/a.png"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="folder"):
        plan([tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "c.png")
    with pytest.raises(InputError, match="called"):
        plan([tmp_path / "a.png", tmp_path / "b" / "a.png"], tmp_path / "out")
    with pytest.raises(InputError, match="ending"):
        plan([tmp_path / "a.png"], tmp_path / "b.gif")
    files, out = [tmp_path / "a.png", tmp_path / "a.tif"], tmp_path / "out"
    assert len(plan(files, out)) == 2
    two = plan(files, out, Options(mask=True, side_by_side=True))
    assert [job.mask(".png").name for job in two] == [
        "a-png-mask.png",
        "a-tif-mask.png",
    ]
    files.append(tmp_path / "a-png-mask.png")
    with pytest.raises(InputError, match="called a-png-mask"):
        plan(files, out, Options(mask=True))
    with pytest.raises(InputError, match="called a-mask"):
        plan([files[0], tmp_path / "a-mask.png"], out, Options(mask=True))
    for limit in (0, -5, float("nan")):
        with pytest.raises(InputError, match="positive"):
            Options(time_limit=limit)


@pytest.mark.parametrize(
    ("shape", "bad", "expected"),
    [
        ((24, 30, 3), (24, 30), (24, 30)),
        ((24, 30, 3), (24, 30, 3), (3, 24, 30)),
        ((24, 30, 4), (24, 30, 4), (3, 24, 30)),
        ((24, 30, 4), (24, 30, 3), (3, 24, 30)),
        ((24, 30, 7), (24, 30, 7), (7, 24, 30)),
        ((24, 30, 7), (7, 24, 30), (7, 24, 30)),
        ((24, 30, 7), (24, 30, 1), (24, 30)),
        ((24, 30), (24, 30, 3), (24, 30)),
        ((40, 24, 30), (24, 30), (24, 30)),
        ((40, 24, 30), (40, 24, 30), (24, 30)),
    ],
)
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_a_known_bad_mask_is_matched_to_pages_and_channels(
    tmp_path, monkeypatch, shape, bad, expected, dtype
):
    masks = []

    def record_mask(page, *, mask, **options):
        masks.append(mask)
        raise InputError("enough")

    monkeypatch.setattr("discrepant.image.restore_files.restore", record_mask)
    known_bad = np.zeros(bad, dtype)
    known_bad.flat[0] = 1
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    np.save(tmp_path / "bad.npy", known_bad)
    job = Job(tmp_path / "a.npy", tmp_path / "b.npy")
    with pytest.raises(InputError, match="enough"):
        restore_file(job, Options(known_bad=read(tmp_path / "bad.npy")))
    assert masks[0].shape == expected
    assert masks[0].sum() == 1


def test_a_known_bad_mask_of_another_shape_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", ramp_image((24, 30, 7)))
    job = Job(tmp_path / "a.npy", tmp_path / "b.npy")
    three = ImageFile(ramp_image(), (), 2, "NPY")
    with pytest.raises(InputError, match="3 channels, this one 7"):
        restore_file(job, Options("fast", known_bad=three))
    pages = ImageFile(np.zeros((2, 24, 30)), (0,), None, "NPY")
    with pytest.raises(InputError, match="2 pages, this one 1"):
        restore_file(job, Options("fast", known_bad=pages))
    large = ImageFile(np.zeros((40, 40)), (), None, "NPY")
    with pytest.raises(InputError, match="shape"):
        restore_file(job, Options("fast", known_bad=large))
    assert not (tmp_path / "b.npy").exists()


@pytest.mark.parametrize(
    ("ending", "shape", "options"),
    [
        (".png", (24, 30, 4), {}),
        (".png", (24, 30, 2), {}),
        (".tif", (24, 30, 5), {"photometric": "minisblack", "planarconfig": "contig"}),
        (".tif", (2, 24, 30, 3), {"photometric": "rgb"}),
        (
            ".tif",
            (4, 24, 30),
            {"photometric": "minisblack", "metadata": {"axes": "CYX"}},
        ),
    ],
)
def test_a_written_mask_can_be_used_as_known_bad(tmp_path, ending, shape, options):
    # On a constant image an isolated dot may be content; on a ramp it is corrupted.
    truth = 60 + np.indices(shape).sum(0)
    values = truth.astype(np.uint8)
    rows = (..., 5, 7, slice(None)) if len(shape) == 4 else (5, 7)
    values[(..., 5, 7) if "metadata" in options else rows] = 255
    path = tmp_path / f"a{ending}"
    if ending == ".tif":
        tifffile.imwrite(path, values, **options)
    else:
        Image.fromarray(values).save(path)
    job = Job(path, tmp_path / f"b{ending}")
    restore_file(job, Options("fast", mask=True, side_by_side=True))
    (mask,) = (p for p in tmp_path.iterdir() if p.stem == "b-mask")
    written, image = read(mask), read(path)
    assert not written.transparent
    assert written.channels == image.channels - image.transparent
    assert all(page.any() for _, page in written.pages())
    options = Options("fast", known_bad=written, overwrite=True, mask=True)
    report = restore_file(job, options)
    assert "corrupted" in str(report)
    rewritten, restored = read(mask).values, read(job.target).values
    assert np.array_equal(rewritten, written.values)
    corrupted = values == 255
    assert np.array_equal(restored[~corrupted], values[~corrupted])
    error = np.abs(restored - truth)
    error = np.delete(error, -1, -1)[5, 7] if image.transparent else error[corrupted]
    assert (error <= 2).all()


def test_a_failing_file_does_not_stop_the_others(tmp_path, monkeypatch):
    for name in ("a.npy", "b.npy", "c.npy"):
        np.save(tmp_path / name, corrupted_image((24, 30)))
    reasons = [ValueError("of a sudden\nand more"), MemoryError(), None]

    def failing(page, **options):
        if (reason := reasons.pop(0)) is not None:
            raise reason
        return restore(page, **options)

    monkeypatch.setattr("discrepant.image.restore_files.restore", failing)
    reports = []
    jobs = plan(sorted(tmp_path.iterdir()), tmp_path / "out")
    failures = restore_files(jobs, Options("fast"), on_restored=reports.append).failures
    assert [path.name for path in failures] == ["a.npy", "b.npy"]
    first, second = failures.values()
    assert first == "an unexpected ValueError stopped it: of a sudden"
    assert "memory" in second
    assert len(reports) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["c.npy"]


def test_a_failing_writer_is_reported_before_the_work(tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError

    def failing(*args):
        raise ValueError("no such thing")

    monkeypatch.setattr("discrepant.image.restore_files.restore", never)
    monkeypatch.setattr("discrepant.image.files.formats.write_tiff", failing)
    np.save(tmp_path / "a.npy", ramp_image())
    with pytest.raises(InputError, match="cannot be written as TIFF: no such thing"):
        restore_file(Job(tmp_path / "a.npy", tmp_path / "b.tif"), Options())
    assert not (tmp_path / "b.tif").exists()


def test_the_report_of_a_stopped_run_says_so(tmp_path):
    np.save(tmp_path / "a.npy", corrupted_image((24, 30)))
    job = Job(tmp_path / "a.npy", tmp_path / "b.npy")
    assert "stopped early" not in str(restore_file(job, Options("fast")))
    job = Job(tmp_path / "a.npy", tmp_path / "c.npy")
    assert "stopped early" in str(restore_file(job, Options(time_limit=1e-9)))


def test_warnings_name_the_file(tmp_path, monkeypatch):
    def warning_restore(page, **options):
        warnings.warn("the result is a guess", stacklevel=2)
        return restore(page, **options)

    monkeypatch.setattr("discrepant.image.restore_files.restore", warning_restore)
    np.save(tmp_path / "a.npy", corrupted_image((24, 30)))
    with pytest.warns(UserWarning, match=r"^a\.npy: the result is a guess"):
        restore_file(Job(tmp_path / "a.npy", tmp_path / "b.npy"), Options("fast"))


def test_an_interruption_writes_the_best_so_far(tmp_path, monkeypatch, capsys):
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, corrupted_image())

    def interrupted(page, *, progress, **options):
        def interrupt(done, note):
            if done < 0.1:
                signal.raise_signal(signal.SIGINT)
            return progress(done, note)

        return restore(page, progress=interrupt, **options)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("discrepant.image.restore_files.restore", interrupted)
    jobs = plan([tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out")
    reports = []
    with interruptible("Restoring") as progress:
        failures = restore_files(
            jobs, Options("best"), progress=progress, on_restored=reports.append
        ).failures
    assert failures == {tmp_path / "b.npy": "not started."}
    assert len(reports) == 1
    assert read(tmp_path / "out" / "a.npy").values.shape == ramp_image().shape
    assert "best result so far" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_corrupted_values_are_described():
    values = np.array([0, 0, 255, 255, 7, 9])
    mask = np.array([True, True, True, True, False, False])
    assert describe_values(values, mask).endswith("0 or 255")
    assert describe_values(np.arange(99), np.arange(99) > 7) == ", of many sizes"
    assert describe_values(values, values < 0) == ""


def test_the_command_reports_failures_at_the_end(discrepant, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    Image.fromarray(corrupted_image()).save(folder / "a.png")
    Image.fromarray(corrupted_image((24, 30))).save(folder / "c.png")
    (folder / "b.png").write_bytes(b"broken")
    (folder / "notes.txt").write_text("no image")
    Image.fromarray(np.eye(24, 30, dtype=bool)).save(tmp_path / "bad.png")
    arguments = ["restore", "in", "-o", "out", "--fast", "--mask", "--side-by-side"]
    arguments += ["--known-bad", "bad.png", "--time-limit", "60"]
    run = discrepant(*arguments, cwd=tmp_path)
    assert run.returncode == 1
    assert "1 of 3 files failed" in run.stderr
    assert "b.png" in run.stderr
    assert "corrupted" in run.stdout
    assert "Traceback" not in run.stderr
    mask = read(tmp_path / "out" / "a-mask.png").values
    assert (mask[np.eye(24, 30, dtype=bool)] == 255).all()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "a.png",
        "a-mask.png",
        "a-side-by-side.png",
        "c.png",
        "c-mask.png",
        "c-side-by-side.png",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time-limit", "0"), "--time-limit must be positive"),
        (("--time-limit", "-5"), "--time-limit must be positive"),
        (("--known-bad", "nowhere.png"), "nowhere.png is not a file"),
    ],
)
def test_invalid_options_are_one_sentence_before_the_work(
    run_in_process, tmp_path, arguments, message
):
    Image.fromarray(corrupted_image()).save(tmp_path / "a.png")
    done = run_in_process("restore", "a.png", "-o", "out.png", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out.png").exists()


def test_warnings_of_the_command_name_the_file(discrepant, tmp_path):
    Image.fromarray(ramp_image()).save(tmp_path / "a.png")
    bad = np.ones((24, 30), bool)
    bad[::5, ::5] = False
    np.save(tmp_path / "bad.npy", bad)
    arguments = ("a.png", "-o", "out", "--fast", "--known-bad", "bad.npy")
    done = discrepant("restore", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("discrepant: a.png: ")
    assert "a guess" in done.stderr
