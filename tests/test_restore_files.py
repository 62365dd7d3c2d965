"""Image files and the command: whole or not at all, and nothing lost on the way."""

import signal
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest

from discrepant import InputError, restore
from discrepant.app.interrupt import interruptible
from discrepant.app.restore import (
    Job,
    Options,
    kind_of_values,
    plan,
    restore_file,
    restore_files,
)
from discrepant.image import memory
from discrepant.image.files.formats import check_fits, read, write
from discrepant.image.files.picture import Picture, upright

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


def written_again(path, ending=None):
    """Read a file, write what was read, and return the new file."""
    found = read(path)
    out = path.with_name(f"again{ending or path.suffix}")
    write(out, found, found.values)
    return out


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
    alpha = shape[2:] in ((2,), (4,))
    path = tmp_path / f"a{ending}"
    write(path, Picture(values, (), axis, "NPY", alpha), values)
    again = read(path)
    assert again.values.dtype == dtype
    assert (again.channel_axis, again.page_axes, again.alpha) == (axis, (), alpha)
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


def test_a_stack_of_bands_is_one_picture_to_others(tmp_path):
    np.save(tmp_path / "a.npy", picture((40, 48, 5)))
    with tifffile.TiffFile(written_again(tmp_path / "a.npy", ".tif")) as file:
        assert [page.shape for page in file.pages] == [(40, 48, 5)]


def test_bytes_in_either_order_are_read(tmp_path):
    np.save(tmp_path / "a.npy", picture((24, 30), ">u2"))
    out = written_again(tmp_path / "a.npy", ".png")
    assert np.array_equal(read(out).values, picture((24, 30)))


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


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_palettes_are_read_as_colours(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    held = Image.fromarray(picture()).quantize(16)
    held.save(path)
    out = written_again(path)
    assert np.array_equal(read(out).values, np.array(held.convert("RGB")))
    with Image.open(out) as file:
        assert file.mode == "RGB"


def test_palettes_of_sixteen_bits_keep_them(tmp_path):
    colours = np.arange(768, dtype=np.uint16).reshape(3, 256) * 85
    options = {"photometric": "palette", "colormap": colours}
    tifffile.imwrite(tmp_path / "a.tif", picture((24, 30)), **options)
    found = read(tmp_path / "a.tif").values
    assert np.array_equal(found[3, 4], colours[:, picture((24, 30))[3, 4]])


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((24, 30), {"photometric": "miniswhite"}),
        ((24, 30), {"photometric": "miniswhite", "compression": "lzw"}),
        ((24, 30), {"photometric": "miniswhite", "bitspersample": 7}),
        ((3, 24, 30), {"photometric": "rgb", "planarconfig": "separate"}),
        (
            (2, 4, 24, 30),
            {"photometric": "rgb", "planarconfig": "separate", "extrasamples": [1]},
        ),
        ((24, 30, 4), {"photometric": "rgb", "extrasamples": [0]}),
        ((24, 30, 5), {"photometric": "rgb", "extrasamples": [0, 2]}),
        ((24, 30, 5), {"photometric": "minisblack", "planarconfig": "contig"}),
        ((24, 30, 2), {"photometric": "minisblack", "extrasamples": [1]}),
        ((24, 30, 3), {"photometric": "rgb", "compression": "zlib", "predictor": True}),
        ((24, 30), {"photometric": "minisblack", "byteorder": ">"}),
        ((24, 30), {"photometric": "minisblack", "tile": (16, 16)}),
    ],
)
@pytest.mark.parametrize("metadata", [None, {}])
def test_a_tiff_is_written_as_it_was(tmp_path, shape, options, metadata):
    size = int(np.prod(shape))
    values = (np.arange(size) % 128).astype(np.uint8).reshape(shape)
    if shape[-1] in (2, 4, 5):
        options = {"planarconfig": "contig", **options}
    tifffile.imwrite(tmp_path / "a.tif", values, metadata=metadata, **options)
    names = ("photometric", "planarconfig", "extrasamples", "compression", "predictor")
    kinds = []
    for path in (tmp_path / "a.tif", written_again(tmp_path / "a.tif")):
        with tifffile.TiffFile(path) as file:
            page, series = file.pages[0], file.series[0]
            kinds.append([getattr(page, name) for name in names])
            kinds[-1] += [page.bitspersample, len(file.pages), series.axes]
            kinds[-1] += [file.byteorder, page.is_tiled]
            assert np.array_equal(series.asarray(), values)
    assert kinds[0] == kinds[1]
    assert read(tmp_path / "a.tif").alpha == (options.get("extrasamples", [0])[-1] > 0)


def test_white_is_white_in_other_formats(tmp_path):
    values = picture((24, 30))
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite")
    with Image.open(written_again(tmp_path / "a.tif", ".png")) as file:
        assert np.array_equal(np.array(file), 255 - values)


@pytest.mark.parametrize(
    ("photometric", "samples"), [("separated", 4), ("cielab", 3), ("ycbcr", 3)]
)
def test_colours_that_are_not_known_are_refused(tmp_path, photometric, samples):
    values = picture((24, 30, samples))
    tifffile.imwrite(tmp_path / "a.tif", values, photometric=photometric)
    with pytest.raises(InputError, match=f"{photometric.upper()}.*save it as RGB"):
        read(tmp_path / "a.tif")


def test_colours_that_the_codec_decodes_are_read(tmp_path):
    Image.fromarray(picture()).save(tmp_path / "a.tif", compression="jpeg")
    found = read(written_again(tmp_path / "a.tif")).values
    assert np.abs(found.astype(int) - picture()).max() < 12
    options = {"photometric": "rgb", "compression": "jpeg"}
    tifffile.imwrite(tmp_path / "b.tif", picture(), **options)
    found = read(written_again(tmp_path / "b.tif")).values
    assert np.abs(found.astype(int) - picture()).max() < 30


def test_a_band_that_is_not_alpha_is_restored(tmp_path):
    values = spoiled((24, 30, 4))
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    tifffile.imwrite(path, values, photometric="rgb", extrasamples=[0])
    restore_file(plan([path], out)[0], Options("fast"))
    assert (read(out).values[5, 7] < 255).all()
    with tifffile.TiffFile(out) as file:
        assert file.pages[0].extrasamples == (0,)


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


def test_smaller_copies_are_left_out(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(picture((24, 30)), metadata=None)
        file.write(picture((12, 15)), metadata=None, subfiletype=1)
    assert read(tmp_path / "a.tif").values.shape == (24, 30)


def test_units_that_are_not_ascii_are_kept(tmp_path):
    path = tmp_path / "a.ome.tif"
    values = np.stack([picture((24, 30), np.uint16) + k for k in range(6)])
    values = values.reshape(3, 2, 24, 30)
    metadata = {"axes": "ZCYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm"}
    tifffile.imwrite(path, values, metadata=metadata)
    with (
        tifffile.TiffFile(path) as before,
        tifffile.TiffFile(written_again(path, ".ome.tif")) as after,
    ):
        assert "µm" in after.pages[0].description
        assert after.pages[0].description == before.pages[0].description
        assert after.series[0].axes == "ZCYX"
        assert np.array_equal(after.series[0].asarray(), values)


def test_every_page_keeps_its_description(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for text in ("one", "two", "three"):
            file.write(picture((24, 30)), description=text, metadata=None)
    with tifffile.TiffFile(written_again(tmp_path / "a.tif")) as file:
        assert [page.description for page in file.pages] == ["one", "two", "three"]


def test_imagej_keeps_its_labels(tmp_path):
    labels = ["a", "µ", "c"]
    metadata = {"axes": "ZYX", "Labels": labels, "Info": "µ", "unit": "twelve"}
    values = np.stack([picture((24, 30))] * 3)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, values, imagej=True, metadata=metadata)
    path.write_bytes(path.read_bytes().replace(b"twelve", "µm   ".encode()))
    with tifffile.TiffFile(written_again(path)) as file:
        held = file.imagej_metadata
    assert held["Labels"] == labels
    assert (held["Info"], held["unit"]) == ("µ", "\\u00B5m")  # as ImageJ writes it


def test_what_tifffile_notes_is_kept(tmp_path):
    options = {"description": "a text", "metadata": {"axes": "YX", "note": "µ"}}
    tifffile.imwrite(tmp_path / "a.tif", picture((24, 30)), **options)
    with tifffile.TiffFile(written_again(tmp_path / "a.tif")) as file:
        assert file.pages[0].description == "a text"
        assert file.shaped_metadata[0]["note"] == "µ"


def test_tags_of_a_tiff_are_kept(tmp_path):
    tags = [(315, 2, 0, "É. Auteur".encode(), True), (34735, 3, 4, (1, 1, 0, 0), True)]
    tags += [(34737, 2, 0, "WGS 84|", True), (33550, 12, 3, (0.5, 0.5, 0.0), True)]
    options = {"extratags": tags, "software": "scanner", "resolution": (300, 300)}
    tifffile.imwrite(tmp_path / "a.tif", picture(), photometric="rgb", **options)
    with tifffile.TiffFile(written_again(tmp_path / "a.tif")) as file:
        held = {tag.code: tag.value for tag in file.pages[0].tags}
    assert held[315] == "É. Auteur"
    assert held[34735] == (1, 1, 0, 0)
    assert held[34737] == "WGS 84|"
    assert held[33550] == (0.5, 0.5, 0.0)
    assert (held[305], held[282]) == ("scanner", (300, 1))


def exif(orientation):
    held = Image.Exif()
    held[274] = orientation
    held[271] = "maker"
    return held.tobytes()


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
def test_a_transparent_grey_becomes_alpha(tmp_path, depth, row, transparent):
    (tmp_path / "a.png").write_bytes(png_of_greys(depth, [row, row], transparent))
    found = read(tmp_path / "a.png")
    assert found.alpha
    assert found.values[0, :, 1].tolist() == [255, 255, 0, 255]


def test_a_transparent_colour_becomes_alpha(tmp_path):
    key = tuple(picture()[3, 4].tolist())
    Image.fromarray(picture()).save(tmp_path / "a.png", transparency=key)
    found = read(written_again(tmp_path / "a.png"))
    clear = (picture() == key).all(axis=2)
    assert np.array_equal(found.values[..., :3], picture())
    assert np.array_equal(found.values[..., 3] == 0, clear)


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
        check_fits(tmp_path / name, Picture(picture(shape, dtype), (), axis, "NPY"))


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"x"])
@pytest.mark.parametrize("ending", [".png", ".jpg", ".tif", ".npy", ".webp"])
def test_broken_files_are_one_sentence(tmp_path, ending, content):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read|is not a"):
        read(path)


@pytest.mark.parametrize("module", ["PIL", "imagecodecs"])
def test_what_is_not_installed_is_said_before_the_work(tmp_path, monkeypatch, module):
    np.save(tmp_path / "a.npy", picture(dtype=np.uint16))
    monkeypatch.setitem(sys.modules, module, None)
    job = plan([tmp_path / "a.npy"], tmp_path / "b.png")[0]
    with pytest.raises(InputError, match=r"pip install 'discrepant\[restore\]'"):
        restore_file(job, Options("fast"))


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", picture())
    Image.fromarray(picture()).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "a.tif", picture(), photometric="rgb")
    monkeypatch.setattr(memory, "physical_memory", lambda: 2**19)
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InputError, match=r"needs some .* GiB of memory"):
            read(path)
    monkeypatch.setattr(memory, "physical_memory", lambda: None)
    assert read(tmp_path / "a.npy").values.shape == (24, 30, 3)


def test_the_header_tells_the_memory(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(8 * 10**12 + 128)
    with pytest.raises(InputError, match="this machine has"):
        read(tmp_path / "a.npy")


def test_large_photographs_are_no_threat(tmp_path, monkeypatch):
    Image.fromarray(picture()).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert read(tmp_path / "a.png").values.shape == (24, 30, 3)
    assert Image.MAX_IMAGE_PIXELS == 100


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
    files, out = [tmp_path / "a.png", tmp_path / "a.tif"], tmp_path / "out"
    assert len(plan(files, out)) == 2
    with pytest.raises(InputError, match="called a-mask"):
        plan(files, out, Options(mask=True))
    with pytest.raises(InputError, match="called a-side-by-side"):
        plan(files, out, Options(beside=True))
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
def test_a_mask_is_paired_with_pages_and_channels(
    tmp_path, monkeypatch, shape, bad, expected, dtype
):
    seen = []

    def noted(page, *, mask, **options):
        seen.append(mask)
        raise InputError("enough")

    monkeypatch.setattr("discrepant.app.restore.restore", noted)
    marks = np.zeros(bad, dtype)
    marks.flat[0] = 1
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    np.save(tmp_path / "bad.npy", marks)
    job = Job(tmp_path / "a.npy", tmp_path / "b.npy")
    with pytest.raises(InputError, match="enough"):
        restore_file(job, Options(bad=read(tmp_path / "bad.npy")))
    assert seen[0].shape == expected
    assert seen[0].sum() == 1


def test_a_mask_that_does_not_fit_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", picture((24, 30, 7)))
    job = Job(tmp_path / "a.npy", tmp_path / "b.npy")
    three = Picture(picture(), (), 2, "NPY")
    with pytest.raises(InputError, match="3 channels, this one 7"):
        restore_file(job, Options("fast", bad=three))
    pages = Picture(np.zeros((2, 24, 30)), (0,), None, "NPY")
    with pytest.raises(InputError, match="2 pages, this one 1"):
        restore_file(job, Options("fast", bad=pages))
    large = Picture(np.zeros((40, 40)), (), None, "NPY")
    with pytest.raises(InputError, match="shape"):
        restore_file(job, Options("fast", bad=large))
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
def test_a_mask_can_be_handed_back(tmp_path, ending, shape, options):
    values = np.full(shape, 90, np.uint8)
    rows = (..., 5, 7, slice(None)) if len(shape) == 4 else (5, 7)
    values[(..., 5, 7) if "metadata" in options else rows] = 255
    path = tmp_path / f"a{ending}"
    if ending == ".tif":
        tifffile.imwrite(path, values, **options)
    else:
        Image.fromarray(values).save(path)
    job = Job(path, tmp_path / f"b{ending}")
    restore_file(job, Options("fast", mask=True, beside=True))
    (mask,) = (p for p in tmp_path.iterdir() if p.stem == "b-mask")
    held, image = read(mask), read(path)
    assert not held.alpha
    assert held.channels == image.channels - image.alpha
    marks = [page.any() for _, page in held.pages()]
    assert all(marks)
    options = Options("fast", bad=held, overwrite=True)
    restore_file(job, options)


def test_one_file_does_not_cost_the_others(tmp_path, monkeypatch):
    for name in ("a.npy", "b.npy", "c.npy"):
        np.save(tmp_path / name, spoiled((24, 30)))
    reasons = [ValueError("of a sudden\nand more"), MemoryError(), None]

    def failing(page, **options):
        if (reason := reasons.pop(0)) is not None:
            raise reason
        return restore(page, **options)

    monkeypatch.setattr("discrepant.app.restore.restore", failing)
    said = []
    jobs = plan(sorted(tmp_path.iterdir()), tmp_path / "out")
    failures = restore_files(jobs, Options("fast"), tell=said.append).failures
    assert [path.name for path in failures] == ["a.npy", "b.npy"]
    first, second = failures.values()
    assert first == "an unforeseen ValueError ended it: of a sudden"
    assert "memory" in second
    assert len(said) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["c.npy"]


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    extra = {"photometric": 1, "axes": "YX", "resolution": "nonsense"}
    held = Picture(picture((24, 30)), (), None, "TIFF", extra=extra)
    with pytest.raises(InputError, match=r"a\.tif cannot be written as TIFF"):
        write(tmp_path / "a.tif", held, held.values)


def test_what_cannot_be_written_shows_before_the_work(tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError

    def failing(*args):
        raise ValueError("no such thing")

    monkeypatch.setattr("discrepant.app.restore.restore", never)
    monkeypatch.setattr("discrepant.image.files.formats.write_tiff", failing)
    np.save(tmp_path / "a.npy", picture())
    with pytest.raises(InputError, match="cannot be written as TIFF: no such thing"):
        restore_file(Job(tmp_path / "a.npy", tmp_path / "b.tif"), Options())
    assert not (tmp_path / "b.tif").exists()


def test_a_run_that_was_stopped_says_so(tmp_path):
    np.save(tmp_path / "a.npy", spoiled((24, 30)))
    job = Job(tmp_path / "a.npy", tmp_path / "b.npy")
    assert "stopped early" not in str(restore_file(job, Options("fast")))
    job = Job(tmp_path / "a.npy", tmp_path / "c.npy")
    assert "stopped early" in str(restore_file(job, Options(time_limit=1e-9)))


def test_warnings_name_the_file(tmp_path, monkeypatch):
    def guessing(page, **options):
        warnings.warn("the result is a guess", stacklevel=2)
        return restore(page, **options)

    monkeypatch.setattr("discrepant.app.restore.restore", guessing)
    np.save(tmp_path / "a.npy", spoiled((24, 30)))
    with pytest.warns(UserWarning, match=r"^a\.npy: the result is a guess"):
        restore_file(Job(tmp_path / "a.npy", tmp_path / "b.npy"), Options("fast"))


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
    monkeypatch.setattr("discrepant.app.restore.restore", interrupted)
    jobs = plan([tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out")
    said = []
    with interruptible(False, "Restoring", print) as progress:
        failures = restore_files(
            jobs, Options("best"), progress=progress, tell=said.append
        ).failures
    assert failures == {tmp_path / "b.npy": "not started."}
    assert len(said) == 1
    assert read(tmp_path / "out" / "a.npy").values.shape == picture().shape
    assert "best so far" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before


def test_the_kind_of_values_is_told():
    values = np.array([0, 0, 255, 255, 7, 9])
    wrong = np.array([True, True, True, True, False, False])
    assert kind_of_values(values, wrong).endswith("0 or 255")
    assert kind_of_values(np.arange(99), np.arange(99) > 7) == ", of many sizes"
    assert kind_of_values(values, values < 0) == ""


def test_the_command_reports_failures_at_the_end(discrepant, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    Image.fromarray(spoiled()).save(folder / "a.png")
    Image.fromarray(spoiled((24, 30))).save(folder / "c.png")
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
    marked = read(tmp_path / "out" / "a-mask.png").values
    assert (marked[np.eye(24, 30, dtype=bool)] == 255).all()
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
    ("arguments", "said"),
    [
        (("--time-limit", "0"), "--time-limit must be positive"),
        (("--time-limit", "-5"), "--time-limit must be positive"),
        (("--known-bad", "nowhere.png"), "nowhere.png is not a file"),
    ],
)
def test_mistakes_are_one_sentence_before_the_work(
    discrepant, tmp_path, arguments, said
):
    Image.fromarray(spoiled()).save(tmp_path / "a.png")
    done = discrepant("restore", "a.png", "-o", "out.png", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out.png").exists()


def test_a_guess_is_told_with_its_file(discrepant, tmp_path):
    Image.fromarray(picture()).save(tmp_path / "a.png")
    bad = np.ones((24, 30), bool)
    bad[::5, ::5] = False
    np.save(tmp_path / "bad.npy", bad)
    arguments = ("a.png", "-o", "out", "--fast", "--known-bad", "bad.npy")
    done = discrepant("restore", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("discrepant: a.png: ")
    assert "a guess" in done.stderr
