"""PNG, JPEG and WebP files: metadata, depth and transparency survive."""

import struct
import warnings
import zlib

import numpy as np
import pytest

from discrepant.image.files.formats import read, write
from discrepant.image.files.image_file import ImageFile
from discrepant.image.restore_files import Options, plan, restore_file
from support.images import exif, picture, spoiled, written_again

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_metadata_survive(tmp_path, dtype):
    path, out = tmp_path / "a.png", tmp_path / "b.png"
    extra = {"text": {"Author": "somebody"}, "dpi": (300, 300)}
    values = spoiled(dtype=dtype)
    write(path, ImageFile(values, (), 2, "PNG", extra=extra), values)
    restore_file(plan([path], out)[0], Options("fast"))
    with Image.open(out) as file:
        assert file.text["Author"] == "somebody"
        assert round(file.info["dpi"][0]) == 300


@pytest.mark.parametrize("orientation", [0, 9, 6])
def test_odd_exif_does_no_harm(tmp_path, orientation):
    held = exif(orientation)
    if orientation == 6:
        held = held[:-9]
    Image.fromarray(picture()).save(tmp_path / "a.jpg", exif=held)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow on EXIF that was cut short
        assert read(tmp_path / "a.jpg").values.shape == (24, 30, 3)
        assert read(written_again(tmp_path / "a.jpg", ".tif")).orientation in (1, 6)


@pytest.mark.parametrize("ending", [".jpg", ".webp"])
def test_metadata_of_photographs_survive(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    options = {"exif": exif(1), "icc_profile": b"a profile", "xmp": b"<x:xmpmeta/>"}
    Image.fromarray(picture()).save(path, **options)
    with Image.open(written_again(path)) as file:
        assert file.getexif()[271] == "maker"
        assert file.info["icc_profile"] == b"a profile"
        assert file.info["xmp"] == b"<x:xmpmeta/>"


def test_colours_under_full_transparency_stay(tmp_path):
    values = picture((24, 30, 4))
    values[..., 3] = 0
    np.save(tmp_path / "a.npy", values)
    out = written_again(tmp_path / "a.npy", ".webp")
    assert np.array_equal(read(out).values, values)


def png_of_greys(depth, rows, transparent):
    def chunk(name, content):
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    width = 8 * len(rows[0]) // depth
    head = struct.pack(">IIBBBBB", width, len(rows), depth, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    content = chunk(b"IHDR", head) + chunk(b"tRNS", struct.pack(">H", transparent))
    return b"\x89PNG\r\n\x1a\n" + content + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("depth", "row", "transparent"), [(2, b"\x1b", 2), (8, b"\1\2\3\4", 3)]
)
def test_a_transparent_grey_becomes_a_channel(tmp_path, depth, row, transparent):
    (tmp_path / "a.png").write_bytes(png_of_greys(depth, [row, row], transparent))
    found = read(tmp_path / "a.png")
    assert found.transparent
    assert found.values[0, :, 1].tolist() == [255, 255, 0, 255]


def test_a_transparent_colour_becomes_a_channel(tmp_path):
    key = tuple(picture()[3, 4].tolist())
    Image.fromarray(picture()).save(tmp_path / "a.png", transparency=key)
    found = read(written_again(tmp_path / "a.png"))
    clear = (picture() == key).all(axis=2)
    assert np.array_equal(found.values[..., :3], picture())
    assert np.array_equal(found.values[..., 3] == 0, clear)


def test_large_photographs_are_no_threat(tmp_path, monkeypatch):
    Image.fromarray(picture()).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert read(tmp_path / "a.png").values.shape == (24, 30, 3)
    assert Image.MAX_IMAGE_PIXELS == 100
