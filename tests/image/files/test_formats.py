"""Image files of any format: nothing is lost on the way, and errors are a sentence."""

import numpy as np
import pytest

from discrepant.core.errors import InputError
from discrepant.image.files.formats import check_fits, read, write
from discrepant.image.files.image_file import ImageFile, upright
from discrepant.image.restore_files import Options, plan, restore_file
from support.images import exif, picture, spoiled, written_again

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
def test_what_is_written_is_read_again(tmp_path, ending, shape, dtype):
    values = picture(shape, dtype)
    axis = 2 if len(shape) == 3 else None
    transparent = shape[2:] in ((2,), (4,))
    path = tmp_path / f"a{ending}"
    write(path, ImageFile(values, (), axis, "NPY", transparent), values)
    again = read(path)
    assert again.values.dtype == dtype
    assert (again.channel_axis, again.page_axes) == (axis, ())
    assert again.transparent == transparent
    assert np.array_equal(again.values, values)


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
def test_axes_of_arrays_and_of_what_becomes_of_them(tmp_path, shape, pages, channel):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(np.prod(shape), dtype=np.uint16).reshape(shape))
    found = read(path)
    assert (found.page_axes, found.channel_axis) == (pages, channel)
    again = read(written_again(path, ".tif"))
    assert again.n_pages == found.n_pages
    assert again.channels == found.channels
    assert np.array_equal(np.squeeze(again.values), np.squeeze(found.values))


def test_bytes_in_either_order_are_read(tmp_path):
    np.save(tmp_path / "a.npy", picture((24, 30), ">u2"))
    out = written_again(tmp_path / "a.npy", ".png")
    assert np.array_equal(read(out).values, picture((24, 30)))


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_palettes_are_read_as_colours(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    held = Image.fromarray(picture()).quantize(16)
    held.save(path)
    out = written_again(path)
    assert np.array_equal(read(out).values, np.array(held.convert("RGB")))
    with Image.open(out) as file:
        assert file.mode == "RGB"


def test_pages_are_never_dropped(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(picture((24, 30)))
        file.write(picture((20, 20)))
    with pytest.raises(InputError, match="2 images of different sizes"):
        read(tmp_path / "a.tif")
    frames = [Image.fromarray(spoiled() // (k + 1)) for k in range(3)]
    for ending in (".png", ".webp"):
        path = tmp_path / f"a{ending}"
        frames[0].save(path, save_all=True, append_images=frames[1:])
        with pytest.raises(InputError, match="3 frames"):
            read(path)
    path = tmp_path / "a.jpg"
    frames[0].save(path, "MPO", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match="3 pictures"):
        assert read(path).n_pages == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_upright_as_others_do(orientation):
    from PIL import ImageOps

    image = Image.fromarray(picture())
    image.getexif()[274] = orientation
    turned = upright(picture(), orientation, (0, 1))
    assert np.array_equal(turned, np.array(ImageOps.exif_transpose(image)))


@pytest.mark.parametrize("source", [".jpg", ".tif", ".png", ".webp"])
@pytest.mark.parametrize("target", [".jpg", ".tif", ".png", ".webp"])
def test_orientation_goes_with_the_picture(tmp_path, source, target):
    path = tmp_path / f"a{source}"
    if source == ".tif":
        tag = [(274, 3, 1, 6, True)]
        tifffile.imwrite(path, picture(), photometric="rgb", extratags=tag)
    else:
        Image.fromarray(picture()).save(path, exif=exif(6))
    assert read(written_again(path, target)).orientation == 6


@pytest.mark.parametrize(("source", "target"), [(".jpg", ".tif"), (".tif", ".png")])
def test_the_colour_profile_goes_with_the_picture(tmp_path, source, target):
    path = tmp_path / f"a{source}"
    Image.fromarray(picture()).save(path, icc_profile=b"a profile")
    with Image.open(written_again(path, target)) as file:
        assert file.info["icc_profile"] == b"a profile"


def test_what_has_no_orientation_is_turned(tmp_path):
    Image.fromarray(picture()).save(tmp_path / "a.png", exif=exif(6))
    found = np.load(written_again(tmp_path / "a.png", ".npy"))
    assert np.array_equal(found, np.rot90(picture(), -1))


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_transparency_is_kept_however_odd(tmp_path, ending, channels):
    values = spoiled((24, 30, channels))
    values[..., -1] = 255 * (np.indices((24, 30)).sum(axis=0) % 7 == 0)
    path, out = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    Image.fromarray(values).save(path)
    restore_file(plan([path], out)[0], Options("fast"))
    found = read(out).values
    assert np.array_equal(found[..., -1], values[..., -1])
    assert (found[5, 7, :-1] < 255).all()


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
def test_a_format_that_cannot_hold_the_result_is_refused(tmp_path, name, shape, dtype):
    axis = 2 if len(shape) == 3 else None
    with pytest.raises(InputError, match="cannot hold"):
        check_fits(tmp_path / name, ImageFile(picture(shape, dtype), (), axis, "NPY"))


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"x"])
@pytest.mark.parametrize("ending", [".png", ".jpg", ".tif", ".npy", ".webp"])
def test_broken_files_are_one_sentence(tmp_path, ending, content):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read|is not a"):
        read(path)


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", picture())
    Image.fromarray(picture()).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "a.tif", picture(), photometric="rgb")
    monkeypatch.setenv("DISCREPANT_MEMORY", "0.0005")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InputError, match=r"needs some .* of memory"):
            read(path)
    monkeypatch.setenv("DISCREPANT_MEMORY", "1")
    assert read(tmp_path / "a.npy").values.shape == (24, 30, 3)


def test_the_header_tells_the_memory(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(8 * 10**12 + 128)
    with pytest.raises(InputError, match="of memory, and there are"):
        read(tmp_path / "a.npy")


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    extra = {"photometric": 1, "axes": "YX", "resolution": "nonsense"}
    held = ImageFile(picture((24, 30)), (), None, "TIFF", extra=extra)
    with pytest.raises(InputError, match=r"a\.tif cannot be written as TIFF"):
        write(tmp_path / "a.tif", held, held.values)
