"""Image files and the command: whole or not at all, and nothing lost on the way."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from discrepant import InputError, restore
from discrepant.image.files import Picture, check_fits, read, write
from discrepant.restoring import Options, kind_of_values, plan, restore_file, run

Image = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")


def picture(shape=(24, 30, 3), dtype=np.uint8):
    i, j = np.mgrid[: shape[0], : shape[1]]
    values = 40 + 3 * i + 2 * j
    if len(shape) == 3:
        values = values[..., None] + 5 * np.arange(shape[2])
    return values.astype(dtype)


def spoiled(shape=(24, 30, 3), dtype=np.uint8):
    values = picture(shape, dtype)
    values[5, 7] = values[15, 22] = 255
    return values


@pytest.mark.parametrize(
    ("ending", "shape", "dtype"),
    [
        (".png", (24, 30), np.uint8),
        (".png", (24, 30), np.uint16),
        (".png", (24, 30, 3), np.uint8),
        (".png", (24, 30, 4), np.uint8),
        (".png", (24, 30, 2), np.uint16),
        (".png", (24, 30, 3), np.uint16),
        (".png", (24, 30, 4), np.uint16),
        (".tif", (24, 30), np.float32),
        (".tif", (24, 30, 3), np.uint16),
        (".webp", (24, 30, 3), np.uint8),
        (".npy", (24, 30, 7), np.float64),
    ],
)
def test_what_is_written_is_read_again(tmp_path, ending, shape, dtype):
    values = picture(shape, dtype)
    axis = 2 if len(shape) == 3 else None
    path = tmp_path / f"a{ending}"
    write(path, Picture(values, (), axis, "NPY"), values)
    again = read(path)
    assert again.values.dtype == dtype
    assert np.array_equal(again.values, values)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_metadata_survive(tmp_path, dtype):
    path, out = tmp_path / "a.png", tmp_path / "b.png"
    extra = {"text": {"Author": "somebody"}, "dpi": (300, 300)}
    values = spoiled(dtype=dtype)
    write(path, Picture(values, (), 2, "PNG", extra=extra), values)
    restore_file(plan([path], out)[0], Options("fast"))
    with Image.open(out) as file:
        assert file.text["Author"] == "somebody"
        assert round(file.info["dpi"][0]) == 300


def test_pages_and_channels_of_a_tiff(tmp_path):
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    stack = np.stack([spoiled((24, 30), np.uint16) * 100 for _ in range(6)])
    stack = stack.reshape(3, 2, 24, 30)
    tifffile.imwrite(path, stack, imagej=True, metadata={"axes": "TCYX", "unit": "um"})
    found = read(path)
    assert (found.n_pages, found.channels) == (3, 2)
    restore_file(plan([path], out)[0], Options("fast"))
    with tifffile.TiffFile(out) as file:
        assert file.series[0].axes == "TCYX"
        assert file.imagej_metadata["unit"] == "um"
        values = file.asarray()
    assert values.dtype == np.uint16
    assert values.shape == stack.shape
    assert values[1, 1, 5, 7] < 20_000


@pytest.mark.parametrize("compression", ["lzw", "packbits", "zlib"])
def test_compressed_tiffs_are_read(tmp_path, compression):
    tifffile.imwrite(tmp_path / "a.tif", picture(), compression=compression)
    assert np.array_equal(read(tmp_path / "a.tif").values, picture())


def test_palettes_are_read_as_colours(tmp_path):
    Image.fromarray(picture()).quantize(16).save(tmp_path / "a.png")
    assert read(tmp_path / "a.png").values.shape == (24, 30, 3)


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_alpha_is_kept_however_odd(tmp_path, ending, channels):
    values = spoiled((24, 30, channels))
    values[..., -1] = 255 * (np.indices((24, 30)).sum(axis=0) % 7 == 0)
    path, out = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    Image.fromarray(values).save(path)
    restore_file(plan([path], out)[0], Options("fast"))
    found = read(out).values
    assert np.array_equal(found[..., -1], values[..., -1])
    assert (found[5, 7, :-1] < 255).all()


def test_a_fourth_channel_that_is_not_alpha_is_restored(tmp_path):
    values = np.moveaxis(spoiled((24, 30, 4), np.uint16), -1, 0)
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    tifffile.imwrite(path, values, metadata={"axes": "CYX"}, photometric="minisblack")
    restore_file(plan([path], out)[0], Options("fast"))
    assert (read(out).values[:, 5, 7] < 255).all()


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("a.jpg", (24, 30), np.uint16),
        ("a.jpg", (24, 30, 4), np.uint8),
        ("a.png", (24, 30), np.float32),
        ("a.png", (24, 30, 7), np.uint16),
        ("a.webp", (24, 30, 7), np.uint8),
    ],
)
def test_a_format_that_cannot_hold_the_result_is_refused(tmp_path, name, shape, dtype):
    axis = 2 if len(shape) == 3 else None
    with pytest.raises(InputError, match="cannot hold"):
        check_fits(tmp_path / name, Picture(picture(shape, dtype), (), axis, "NPY"))


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"x"])
@pytest.mark.parametrize("ending", [".png", ".jpg", ".tif", ".npy", ".webp"])
def test_broken_files_are_one_sentence(tmp_path, ending, content):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read|is not a"):
        read(path)


def test_nothing_is_overwritten_unasked(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, spoiled())
    with pytest.raises(InputError, match="exists"):
        restore_file(plan([path], path)[0], Options("fast"))
    assert np.array_equal(np.load(path), spoiled())
    restore_file(plan([path], path)[0], Options("fast", overwrite=True))
    assert not np.array_equal(np.load(path), spoiled())


def test_plans_are_checked_first(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no"):
        plan([tmp_path / "empty"], tmp_path / "out")
    with pytest.raises(InputError, match="folder"):
        plan([tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "c.png")
    with pytest.raises(InputError, match="called"):
        plan([tmp_path / "a.png", tmp_path / "b" / "a.png"], tmp_path / "out")
    with pytest.raises(InputError, match="ending"):
        plan([tmp_path / "a.png"], tmp_path / "b.gif")


def test_interrupted_once_it_writes_the_best_so_far(tmp_path, monkeypatch, capsys):
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, spoiled())

    def interrupted(page, *, progress, **options):
        def tell(done, note):
            if done < 0.1:
                signal.raise_signal(signal.SIGINT)
            return progress(done, note)

        return restore(page, progress=tell, **options)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("discrepant.restoring.restore", interrupted)
    jobs = plan([tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out")
    said = []
    failures = run(jobs, Options("best"), said.append, False)
    assert failures == {tmp_path / "b.npy": "not started."}
    assert len(said) == 1
    assert read(tmp_path / "out" / "a.npy").values.shape == picture().shape
    assert "best so far" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_the_kind_of_values_is_told():
    values = np.array([0, 0, 255, 255, 7, 9])
    wrong = np.array([True, True, True, True, False, False])
    assert kind_of_values(values, wrong).endswith("0 or 255")
    assert kind_of_values(np.arange(99), np.arange(99) > 7) == ", of many sizes"
    assert kind_of_values(values, values < 0) == ""


def test_the_command_reports_failures_at_the_end(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    Image.fromarray(spoiled()).save(folder / "a.png")
    Image.fromarray(spoiled((24, 30))).save(folder / "c.png")
    (folder / "b.png").write_bytes(b"broken")
    (folder / "notes.txt").write_text("no image")
    code = "from discrepant.cli import main; main()"
    arguments = ["restore", str(folder), "-o", str(tmp_path / "out"), "--fast"]
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--mask", "--side-by-side"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "1 of 3 files failed" in run.stderr
    assert "b.png" in run.stderr
    assert "corrupted" in run.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "a.png",
        "a-mask.png",
        "a-side-by-side.png",
        "c.png",
        "c-mask.png",
        "c-side-by-side.png",
    }
