"""TIFF files keep their pages, channels, colours and tags when rewritten."""

import numpy as np
import pytest

from discrepant.core.errors import InputError
from discrepant.image.files.formats import read
from discrepant.image.restore_files import Options, plan, restore_file
from support.images import corrupted_image, ramp_image, read_and_rewrite

Image = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")


def test_many_bands_are_written_as_one_page(tmp_path):
    np.save(tmp_path / "a.npy", ramp_image((40, 48, 5)))
    with tifffile.TiffFile(read_and_rewrite(tmp_path / "a.npy", ".tif")) as file:
        assert [page.shape for page in file.pages] == [(40, 48, 5)]


def test_pages_and_channels_are_kept_and_restored(tmp_path):
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    stack = np.stack([corrupted_image((24, 30), np.uint16) * 100 for _ in range(6)])
    stack = stack.reshape(3, 2, 24, 30)
    tifffile.imwrite(path, stack, imagej=True, metadata={"axes": "TCYX", "unit": "um"})
    image = read(path)
    assert (image.n_pages, image.channels) == (3, 2)
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
    tifffile.imwrite(tmp_path / "a.tif", ramp_image(), compression=compression)
    assert np.array_equal(read(tmp_path / "a.tif").values, ramp_image())


def test_palettes_of_sixteen_bits_stay_sixteen_bits(tmp_path):
    colours = np.arange(768, dtype=np.uint16).reshape(3, 256) * 85
    options = {"photometric": "palette", "colormap": colours}
    tifffile.imwrite(tmp_path / "a.tif", ramp_image((24, 30)), **options)
    values = read(tmp_path / "a.tif").values
    assert np.array_equal(values[3, 4], colours[:, ramp_image((24, 30))[3, 4]])


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
def test_layout_and_values_are_kept(tmp_path, shape, options, metadata):
    size = int(np.prod(shape))
    values = (np.arange(size) % 128).astype(np.uint8).reshape(shape)
    if shape[-1] in (2, 4, 5):
        options = {"planarconfig": "contig", **options}
    tifffile.imwrite(tmp_path / "a.tif", values, metadata=metadata, **options)
    names = ("photometric", "planarconfig", "extrasamples", "compression", "predictor")
    layouts = []
    for path in (tmp_path / "a.tif", read_and_rewrite(tmp_path / "a.tif")):
        with tifffile.TiffFile(path) as file:
            page, series = file.pages[0], file.series[0]
            layouts.append([getattr(page, name) for name in names])
            layouts[-1] += [page.bitspersample, len(file.pages), series.axes]
            layouts[-1] += [file.byteorder, page.is_tiled]
            assert np.array_equal(series.asarray(), values)
    assert layouts[0] == layouts[1]
    assert read(tmp_path / "a.tif").transparent == (
        options.get("extrasamples", [0])[-1] > 0
    )


def test_white_is_white_in_other_formats(tmp_path):
    values = ramp_image((24, 30))
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite")
    with Image.open(read_and_rewrite(tmp_path / "a.tif", ".png")) as file:
        assert np.array_equal(np.array(file), 255 - values)


@pytest.mark.parametrize(
    ("photometric", "samples"), [("separated", 4), ("cielab", 3), ("ycbcr", 3)]
)
def test_unsupported_colours_are_refused(tmp_path, photometric, samples):
    values = ramp_image((24, 30, samples))
    tifffile.imwrite(tmp_path / "a.tif", values, photometric=photometric)
    with pytest.raises(InputError, match=f"{photometric.upper()}.*save it as RGB"):
        read(tmp_path / "a.tif")


def test_jpeg_compressed_tiffs_are_read(tmp_path):
    Image.fromarray(ramp_image()).save(tmp_path / "a.tif", compression="jpeg")
    values = read(read_and_rewrite(tmp_path / "a.tif")).values
    assert np.abs(values.astype(int) - ramp_image()).max() < 12
    options = {"photometric": "rgb", "compression": "jpeg"}
    tifffile.imwrite(tmp_path / "b.tif", ramp_image(), **options)
    values = read(read_and_rewrite(tmp_path / "b.tif")).values
    assert np.abs(values.astype(int) - ramp_image()).max() < 30


def test_an_extra_band_is_restored(tmp_path):
    values = corrupted_image((24, 30, 4))
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    tifffile.imwrite(path, values, photometric="rgb", extrasamples=[0])
    restore_file(plan([path], out)[0], Options("fast"))
    assert (read(out).values[5, 7] < 255).all()
    with tifffile.TiffFile(out) as file:
        assert file.pages[0].extrasamples == (0,)


def test_a_fourth_channel_without_transparency_is_restored(tmp_path):
    values = np.moveaxis(corrupted_image((24, 30, 4), np.uint16), -1, 0)
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    tifffile.imwrite(path, values, metadata={"axes": "CYX"}, photometric="minisblack")
    restore_file(plan([path], out)[0], Options("fast"))
    assert (read(out).values[:, 5, 7] < 255).all()


def test_reduced_copies_are_left_out(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(ramp_image((24, 30)), metadata=None)
        file.write(ramp_image((12, 15)), metadata=None, subfiletype=1)
    assert read(tmp_path / "a.tif").values.shape == (24, 30)


def test_units_that_are_not_ascii_are_kept(tmp_path):
    path = tmp_path / "a.ome.tif"
    values = np.stack([ramp_image((24, 30), np.uint16) + k for k in range(6)])
    values = values.reshape(3, 2, 24, 30)
    metadata = {"axes": "ZCYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm"}
    tifffile.imwrite(path, values, metadata=metadata)
    with (
        tifffile.TiffFile(path) as before,
        tifffile.TiffFile(read_and_rewrite(path, ".ome.tif")) as after,
    ):
        assert "µm" in after.pages[0].description
        assert after.pages[0].description == before.pages[0].description
        assert after.series[0].axes == "ZCYX"
        assert np.array_equal(after.series[0].asarray(), values)


def test_every_page_keeps_its_description(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for text in ("one", "two", "three"):
            file.write(ramp_image((24, 30)), description=text, metadata=None)
    with tifffile.TiffFile(read_and_rewrite(tmp_path / "a.tif")) as file:
        assert [page.description for page in file.pages] == ["one", "two", "three"]


def test_imagej_metadata_are_kept(tmp_path):
    labels = ["a", "µ", "c"]
    metadata = {"axes": "ZYX", "Labels": labels, "Info": "µ", "unit": "twelve"}
    values = np.stack([ramp_image((24, 30))] * 3)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, values, imagej=True, metadata=metadata)
    path.write_bytes(path.read_bytes().replace(b"twelve", "µm   ".encode()))
    with tifffile.TiffFile(read_and_rewrite(path)) as file:
        stored = file.imagej_metadata
    assert stored["Labels"] == labels
    assert (stored["Info"], stored["unit"]) == ("µ", "\\u00B5m")  # as ImageJ writes it


def test_tifffile_metadata_are_kept(tmp_path):
    options = {"description": "a text", "metadata": {"axes": "YX", "note": "µ"}}
    tifffile.imwrite(tmp_path / "a.tif", ramp_image((24, 30)), **options)
    with tifffile.TiffFile(read_and_rewrite(tmp_path / "a.tif")) as file:
        assert file.pages[0].description == "a text"
        assert file.shaped_metadata[0]["note"] == "µ"


def test_tags_are_kept(tmp_path):
    tags = [(315, 2, 0, "É. Auteur".encode(), True), (34735, 3, 4, (1, 1, 0, 0), True)]
    tags += [(34737, 2, 0, "WGS 84|", True), (33550, 12, 3, (0.5, 0.5, 0.0), True)]
    options = {"extratags": tags, "software": "scanner", "resolution": (300, 300)}
    tifffile.imwrite(tmp_path / "a.tif", ramp_image(), photometric="rgb", **options)
    with tifffile.TiffFile(read_and_rewrite(tmp_path / "a.tif")) as file:
        stored = {tag.code: tag.value for tag in file.pages[0].tags}
    assert stored[315] == "É. Auteur"
    assert stored[34735] == (1, 1, 0, 0)
    assert stored[34737] == "WGS 84|"
    assert stored[33550] == (0.5, 0.5, 0.0)
    assert (stored[305], stored[282]) == ("scanner", (300, 1))
