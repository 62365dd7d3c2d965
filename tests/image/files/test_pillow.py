"""PNG, JPEG and WebP files: metadata, depth and transparency are kept."""

import struct
import warnings
import zlib

import numpy as np
import pytest

from discrepant.image.files.formats import read, write
from discrepant.image.files.image_file import ImageFile
from discrepant.image.restore_files import Options, plan, restore_file
from support.images import corrupted_image, exif_bytes, ramp_image, read_and_rewrite

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_metadata_are_kept(tmp_path, dtype):
    path, out = tmp_path / "a.png", tmp_path / "b.png"
    extra = {"text": {"Author": "somebody"}, "dpi": (300, 300)}
    values = corrupted_image(dtype=dtype)
    write(path, ImageFile(values, (), 2, "PNG", extra=extra), values)
    restore_file(plan([path], out)[0], Options("fast"))
    with Image.open(out) as file:
        assert file.text["Author"] == "somebody"
        assert round(file.info["dpi"][0]) == 300


@pytest.mark.parametrize("orientation", [0, 9, 6])
def test_invalid_exif_does_not_prevent_reading(tmp_path, orientation):
    exif = exif_bytes(orientation)
    if orientation == 6:
        exif = exif[:-9]
    Image.fromarray(ramp_image()).save(tmp_path / "a.jpg", exif=exif)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of truncated EXIF
        assert read(tmp_path / "a.jpg").values.shape == (24, 30, 3)
        assert read(read_and_rewrite(tmp_path / "a.jpg", ".tif")).orientation in (1, 6)


@pytest.mark.parametrize("ending", [".jpg", ".webp"])
def test_jpeg_and_webp_metadata_are_kept(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    options = {
        "exif": exif_bytes(1),
        "icc_profile": b"a profile",
        "xmp": b"<x:xmpmeta/>",
    }
    Image.fromarray(ramp_image()).save(path, **options)
    with Image.open(read_and_rewrite(path)) as file:
        assert file.getexif()[271] == "maker"
        assert file.info["icc_profile"] == b"a profile"
        assert file.info["xmp"] == b"<x:xmpmeta/>"


def test_colours_of_transparent_pixels_are_kept(tmp_path):
    values = ramp_image((24, 30, 4))
    values[..., 3] = 0
    np.save(tmp_path / "a.npy", values)
    out = read_and_rewrite(tmp_path / "a.npy", ".webp")
    assert np.array_equal(read(out).values, values)


def grey_png(depth, rows, transparent):
    """Return a grey PNG in which one grey value is declared transparent."""

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
    (tmp_path / "a.png").write_bytes(grey_png(depth, [row, row], transparent))
    image = read(tmp_path / "a.png")
    assert image.transparent
    assert image.values[0, :, 1].tolist() == [255, 255, 0, 255]


def test_a_transparent_colour_becomes_a_channel(tmp_path):
    key = tuple(ramp_image()[3, 4].tolist())
    Image.fromarray(ramp_image()).save(tmp_path / "a.png", transparency=key)
    image = read(read_and_rewrite(tmp_path / "a.png"))
    clear = (ramp_image() == key).all(axis=2)
    assert np.array_equal(image.values[..., :3], ramp_image())
    assert np.array_equal(image.values[..., 3] == 0, clear)


def test_large_images_are_read_despite_the_limit_of_pillow(tmp_path, monkeypatch):
    Image.fromarray(ramp_image()).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert read(tmp_path / "a.png").values.shape == (24, 30, 3)
    assert Image.MAX_IMAGE_PIXELS == 100
