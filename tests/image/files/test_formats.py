"""Image files of any format keep values and metadata; errors are one sentence."""

import numpy as np
import pytest

from discrepant.core.errors import InputError
from discrepant.image.files.formats import check_fits, read, write
from discrepant.image.files.image_file import ImageFile, upright
from discrepant.image.restore_files import Options, plan, restore_file
from support.images import corrupted_image, exif_bytes, ramp_image, read_and_rewrite

Image = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")


@pytest.mark.parametrize(
    ("ending", "shape", "dtype"),
    [
        (".png", (24, 30), np.uint8),
        (".png", (24, 30), np.bool_),
        (".png", (24, 30), np.uint16),
        (".png", (24, 30, 3), np.uint8),
        (".png", (24, 30, 4), np.uint8),
        (".png", (24, 30, 2), np.uint16),
        (".png", (24, 30, 3), np.uint16),
        (".png", (24, 30, 4), np.uint16),
        (".tif", (24, 30), np.float32),
        (".tif", (24, 30, 3), np.uint16),
        (".tif", (24, 30), np.bool_),
        (".tif", (24, 30, 2), np.uint8),
        (".tif", (24, 30, 4), np.uint8),
        (".tif", (24, 30, 5), np.uint16),
        (".tif", (24, 30, 7), np.float64),
        (".webp", (24, 30, 3), np.uint8),
        (".webp", (24, 30, 4), np.uint8),
        (".npy", (24, 30, 7), np.float64),
    ],
)
def test_written_values_are_read_unchanged(tmp_path, ending, shape, dtype):
    values = ramp_image(shape, dtype)
    axis = 2 if len(shape) == 3 else None
    transparent = shape[2:] in ((2,), (4,))
    path = tmp_path / f"a{ending}"
    write(path, ImageFile(values, (), axis, "NPY", transparent), values)
    image = read(path)
    assert image.values.dtype == dtype
    assert (image.channel_axis, image.page_axes) == (axis, ())
    assert image.transparent == transparent
    assert np.array_equal(image.values, values)


@pytest.mark.parametrize(
    ("shape", "pages", "channel"),
    [
        ((40, 48, 7), (), 2),
        ((7, 40, 48), (), 0),
        ((60, 40, 48), (0,), None),
        ((40, 60, 48), (0,), None),
        ((64, 64, 64), (0,), None),
        ((40, 48, 1), (), 2),
    ],
)
def test_axes_of_arrays_are_kept_in_tiff(tmp_path, shape, pages, channel):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(np.prod(shape), dtype=np.uint16).reshape(shape))
    image = read(path)
    assert (image.page_axes, image.channel_axis) == (pages, channel)
    copy = read(read_and_rewrite(path, ".tif"))
    assert copy.n_pages == image.n_pages
    assert copy.channels == image.channels
    assert np.array_equal(np.squeeze(copy.values), np.squeeze(image.values))


def test_both_byte_orders_are_read(tmp_path):
    np.save(tmp_path / "a.npy", ramp_image((24, 30), ">u2"))
    out = read_and_rewrite(tmp_path / "a.npy", ".png")
    assert np.array_equal(read(out).values, ramp_image((24, 30)))


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_palettes_are_read_as_colours(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    palette = Image.fromarray(ramp_image()).quantize(16)
    palette.save(path)
    out = read_and_rewrite(path)
    assert np.array_equal(read(out).values, np.array(palette.convert("RGB")))
    with Image.open(out) as file:
        assert file.mode == "RGB"


def test_pages_are_never_dropped(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(ramp_image((24, 30)))
        file.write(ramp_image((20, 20)))
    with pytest.raises(InputError, match="2 images of different sizes"):
        read(tmp_path / "a.tif")
    frames = [Image.fromarray(corrupted_image() // (k + 1)) for k in range(3)]
    for ending in (".png", ".webp"):
        path = tmp_path / f"a{ending}"
        frames[0].save(path, save_all=True, append_images=frames[1:])
        with pytest.raises(InputError, match="3 frames"):
            read(path)
    path = tmp_path / "a.jpg"
    frames[0].save(path, "MPO", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match="3 images"):
        assert read(path).n_pages == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_agrees_with_pillow(orientation):
    from PIL import ImageOps

    image = Image.fromarray(ramp_image())
    image.getexif()[274] = orientation
    rotated = upright(ramp_image(), orientation, (0, 1))
    assert np.array_equal(rotated, np.array(ImageOps.exif_transpose(image)))


@pytest.mark.parametrize("source", [".jpg", ".tif", ".png", ".webp"])
@pytest.mark.parametrize("target", [".jpg", ".tif", ".png", ".webp"])
def test_orientation_is_kept_in_every_format(tmp_path, source, target):
    path = tmp_path / f"a{source}"
    if source == ".tif":
        tag = [(274, 3, 1, 6, True)]
        tifffile.imwrite(path, ramp_image(), photometric="rgb", extratags=tag)
    else:
        Image.fromarray(ramp_image()).save(path, exif=exif_bytes(6))
    assert read(read_and_rewrite(path, target)).orientation == 6


@pytest.mark.parametrize(("source", "target"), [(".jpg", ".tif"), (".tif", ".png")])
def test_colour_profile_is_kept_in_every_format(tmp_path, source, target):
    path = tmp_path / f"a{source}"
    Image.fromarray(ramp_image()).save(path, icc_profile=b"a profile")
    with Image.open(read_and_rewrite(path, target)) as file:
        assert file.info["icc_profile"] == b"a profile"


def test_formats_without_orientation_get_rotated_values(tmp_path):
    Image.fromarray(ramp_image()).save(tmp_path / "a.png", exif=exif_bytes(6))
    values = np.load(read_and_rewrite(tmp_path / "a.png", ".npy"))
    assert np.array_equal(values, np.rot90(ramp_image(), -1))


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_transparency_is_unchanged_whatever_its_values(tmp_path, ending, channels):
    values = corrupted_image((24, 30, channels))
    values[..., -1] = 255 * (np.indices((24, 30)).sum(axis=0) % 7 == 0)
    path, out = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    Image.fromarray(values).save(path)
    restore_file(plan([path], out)[0], Options("fast"))
    restored = read(out).values
    assert np.array_equal(restored[..., -1], values[..., -1])
    assert (restored[5, 7, :-1] < 255).all()


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("a.jpg", (24, 30), np.uint16),
        ("a.jpg", (24, 30, 4), np.uint8),
        ("a.png", (24, 30), np.float32),
        ("a.png", (24, 30, 7), np.uint16),
        ("a.png", (24, 30, 2), np.uint8),
        ("a.webp", (24, 30, 7), np.uint8),
        ("a.webp", (2, 16_384), np.uint8),
        ("a.jpg", (65_501, 2), np.uint8),
        ("a.tif", (24, 30), np.longdouble),
    ],
)
def test_a_format_that_cannot_store_the_result_is_refused(tmp_path, name, shape, dtype):
    axis = 2 if len(shape) == 3 else None
    with pytest.raises(InputError, match="cannot hold"):
        check_fits(
            tmp_path / name, ImageFile(ramp_image(shape, dtype), (), axis, "NPY")
        )


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"x"])
@pytest.mark.parametrize("ending", [".png", ".jpg", ".tif", ".npy", ".webp"])
def test_broken_files_raise_one_sentence(tmp_path, ending, content):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read|is not a"):
        read(path)


def test_files_too_large_for_memory_are_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", ramp_image())
    Image.fromarray(ramp_image()).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "a.tif", ramp_image(), photometric="rgb")
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.0005")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InputError, match=r"needs some .* of memory"):
            read(path)
    monkeypatch.setenv("DISCREPANT_MEMORY", "1")
    assert read(tmp_path / "a.npy").values.shape == (24, 30, 3)


def test_the_memory_is_estimated_from_the_header(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(8 * 10**12 + 128)
    with pytest.raises(InputError, match="of memory, and there are"):
        read(tmp_path / "a.npy")


def test_a_failing_writer_raises_one_sentence(tmp_path):
    extra = {"photometric": 1, "axes": "YX", "resolution": "nonsense"}
    image = ImageFile(ramp_image((24, 30)), (), None, "TIFF", extra=extra)
    with pytest.raises(InputError, match=r"a\.tif cannot be written as TIFF"):
        write(tmp_path / "a.tif", image, image.values)
