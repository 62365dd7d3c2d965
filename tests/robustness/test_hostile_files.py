"""Hostile and damaged files give a result or one sentence, in little memory."""

import io
import json
import logging
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from discrepant import InputError
from discrepant.image.files.formats import read, write
from discrepant.table.io.array_files import ZarrFile
from discrepant.table.io.table_file import read_table_file

pytest.importorskip("resource", reason="memory limits need Unix")
fuzz = pytest.importorskip("fuzz")
tifffile = pytest.importorskip("tifffile")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def log_counter():
    counter = fuzz.LogCounter()
    logging.getLogger().addHandler(counter)
    yield counter
    logging.getLogger().removeHandler(counter)


@pytest.mark.parametrize(
    "path", sorted(fuzz.CORPUS.iterdir()), ids=lambda path: path.name
)
def test_files_that_failed_before_give_a_result_or_one_sentence(path, log_counter):
    outcome, message = fuzz.read_file(path.name.split("-")[0], path, log_counter)
    assert outcome in fuzz.GOOD_OUTCOMES, message


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_damaged_files_give_a_result_or_one_sentence(kind, tmp_path, log_counter):
    rng = np.random.default_rng(7)
    seeds, ending, _ = fuzz.KINDS[kind]
    path = tmp_path / f"file{ending}"
    contents = seeds(rng)
    for number in range(14 if kind == "video" else 40):  # videos take longer
        damage = fuzz.damage_bytes
        if number % 2:
            damage = fuzz.FORMAT_AWARE_DAMAGE.get(kind, damage)
        path.write_bytes(damage(contents[number % len(contents)], rng))
        outcome, message = fuzz.read_file(kind, path, log_counter)
        assert outcome in fuzz.GOOD_OUTCOMES, message


def test_outcomes_of_the_child_process_are_counted():
    counts = fuzz.run("npy", 120, 3, keep=False, max_files=30)
    assert counts["result"] + counts["sentence"] >= 30
    assert sum(counts.values()) == counts["result"] + counts["sentence"]


def png_chunk(name, body):
    checksum = zlib.crc32(name + body).to_bytes(4, "big")
    return len(body).to_bytes(4, "big") + name + body + checksum


def png_bomb(width, height, colours=2, depth=8):
    """Return a PNG file of a few bytes that declares a huge image."""
    head = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*parts) for parts in chunks)


def npz_bomb(declared):
    """Return an NPZ file whose array declares more data than the file holds."""
    header = io.BytesIO()
    fields = {"descr": "<f8", "fortran_order": False, "shape": (declared, 8)}
    np.lib.format.write_array_header_1_0(header, fields)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(1 << 20))
    return file.getvalue()


def webp_bomb():
    file = io.BytesIO()
    Image.new("RGB", (4000, 4000)).save(file, "WEBP", lossless=True)
    return file.getvalue()


def tiff_bomb():
    file = io.BytesIO()
    flat = np.zeros((8000, 8000), np.uint8)
    tifffile.imwrite(file, flat, compression="zlib")
    return file.getvalue()


def xlsx_bomb():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active["A1"] = book.active.cell(20_000, 8000).value = 1
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


BOMBS = {
    "wide.png": lambda: png_bomb(60_000, 60_000),
    "deep.png": lambda: png_bomb(30_000, 30_000, depth=16),
    "bits.png": lambda: png_bomb(2**30, 2**10, colours=0, depth=1),
    "a.webp": webp_bomb,
    "a.tif": tiff_bomb,
    "short.npz": lambda: npz_bomb(10**12),
    "long.npz": lambda: npz_bomb(2**14),
    "a.csv": lambda: b"," * 30_000 + b"\n" + b"1\n" * 5000,
    "a.xlsx": xlsx_bomb,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_memory_is_allocated(name, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    assert path.stat().st_size < 1_000_000
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.001" if name == "long.npz" else "0.1")
    is_image = path.suffix in (".png", ".webp", ".tif")
    tracemalloc.start()
    with pytest.raises(InputError, match=r"declares|needs some|cannot be read"):
        (read if is_image else read_table_file)(path)
    peak_memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_memory < 100_000_000


def test_an_invalid_memory_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREPANT_MEMORY", "much")
    path = tmp_path / "a.npz"
    np.savez(path, np.eye(3))
    with pytest.raises(InputError, match="DISCREPANT_MEMORY must be a number"):
        read_table_file(path)


class CreatesFolder:
    """An object that would create a folder when it is unpickled."""

    def __reduce__(self):
        return (Path("/nothing").mkdir, ())


def test_pickles_are_never_loaded(tmp_path):
    objects = np.array([[CreatesFolder()]], object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", objects)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match="never loaded"):
            read_table_file(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "a.npy")


PICKLE, DELTA = {"id": "pickle"}, {"id": "delta", "dtype": "<f8"}


@pytest.mark.parametrize(
    "codecs",
    [
        {"filters": [PICKLE]},
        {"filters": [DELTA, PICKLE]},
        {"filters": [PICKLE, DELTA]},
        {"compressor": PICKLE},
        {"filters": [DELTA], "compressor": PICKLE},
        {"filters": [PICKLE], "dtype": "|O"},
    ],
)
def test_pickles_in_zarr_are_never_loaded(tmp_path, codecs):
    """Zarr arrays name the codecs of their chunks; one of them is pickle."""
    pytest.importorskip("zarr")
    array = {
        **{"zarr_format": 2, "shape": [4, 4], "chunks": [4, 4], "dtype": "<f8"},
        **{"compressor": None, "filters": None, "fill_value": 0, "order": "C"},
        **codecs,
    }
    (tmp_path / ".zarray").write_text(json.dumps(array))
    (tmp_path / "0.0").write_bytes(pickle.dumps(CreatesFolder()))
    with pytest.raises(InputError, match="cannot be read as Zarr"):
        ZarrFile(tmp_path, None)


def test_damaged_archives_are_closed(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, np.eye(3))
    path.write_bytes(path.read_bytes()[:-9])
    before = len(os.listdir("/proc/self/fd"))
    errors = []  # tracebacks refer to objects that would close the file otherwise
    for _ in range(3):
        with pytest.raises(InputError, match="not a zip file") as caught:
            read_table_file(path)
        errors.append(caught)
    assert len(os.listdir("/proc/self/fd")) == before


def test_zip_members_are_never_extracted_by_name(tmp_path):
    path, inner = tmp_path / "in" / "a.npz", io.BytesIO()
    path.parent.mkdir()
    np.save(inner, np.eye(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../evil.npy", inner.getvalue())
    table = read_table_file(path)
    assert np.array_equal(table.table, np.eye(3))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize(
    ("options", "intact"),
    [
        ({"metadata": None}, 1),
        ({"imagej": True}, 4),
        ({}, 4),
        ({"metadata": None, "compression": "zlib"}, 4),
        ({"compression": "zlib"}, 4),
        ({"ome": True}, 1),
    ],
)
def test_intact_pages_of_damaged_tiffs_are_read(tmp_path, options, intact, log_counter):
    pages = np.random.default_rng(0).integers(0, 255, (6, 40, 50), np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pages, photometric="minisblack", **options)
    path.write_bytes(path.read_bytes()[:9700])
    with pytest.warns(UserWarning, match="can be read, and the others are lost"):
        picture = read(path)
    assert picture.incomplete
    assert np.array_equal(picture.values.reshape(-1, 40, 50), pages[:intact])
    assert not log_counter.lines
    write(tmp_path / "b.tif", picture, picture.values)
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), picture.values)


def test_the_command_restores_intact_pages_and_reports_lost_ones(tmp_path, discrepant):
    pages = np.add.outer(np.arange(6), np.add.outer(np.arange(20), np.arange(30)))
    pages = pages.astype(np.uint8)
    for name, options in (("a", {"imagej": True}), ("whole", {}), ("none", {})):
        tifffile.imwrite(tmp_path / f"{name}.tif", pages, **options)
    for name, size in (("a", 2600), ("none", 500)):
        path = tmp_path / f"{name}.tif"
        path.write_bytes(path.read_bytes()[:size])
    command = ("restore", "--fast", "-o")
    done = discrepant(*command, "out.tif", "a.tif", cwd=tmp_path)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "Compiling for" not in line]
    assert len(lines) == 1 and "3 of its pages can be read" in lines[0]
    assert tifffile.imread(tmp_path / "out.tif").shape == (3, 20, 30)
    done = discrepant(*command, "out", "a.tif", "whole.tif", "none.tif", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 of 3 files failed" in done.stderr
    assert tifffile.imread(tmp_path / "out" / "whole.tif").shape == (6, 20, 30)


def test_unreadable_tags_give_a_warning(tmp_path):
    pages = np.zeros((3, 40, 50), np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pages, ome=True, photometric="minisblack")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="tags cannot be read"):
        read(path)


def test_no_network_is_used_at_run_time(tmp_path):
    """Public functions and a command run in a process that refuses sockets."""
    code = """
import sys, warnings
def refuse_sockets(event, args):
    if event.startswith("socket."):
        raise AssertionError(event)
sys.addaudithook(refuse_sockets)
warnings.simplefilter("ignore")
import numpy as np
from discrepant import RobustPCA, clean, recover, restore
Y = np.outer(np.arange(1.0, 21), np.arange(1.0, 13)); Y[3, 4] = 900
RobustPCA(random_state=0).fit(Y).certificate_
recover(Y, solver="descent", max_iter=3, random_state=0)
clean(Y).report("report.html")
restore(np.add.outer(np.arange(20), np.arange(20)).astype(np.uint8), quality="fast")
np.savetxt("y.csv", Y, delimiter=",")
sys.argv = ["discrepant", "pca", "y.csv", "-o", "out"]
from discrepant.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    links = [part for part in ("src=", "href=", "url(") if f"{part}http" in page]
    assert not links
