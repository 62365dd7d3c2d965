"""Valid files of every format, which `tools/fuzz.py` damages."""

import io

import numpy as np


def sample_images(rng):
    """Return small images: 8-bit grey, 8-bit colour, 16-bit grey."""
    ramp = np.add.outer(np.arange(40), np.arange(56))
    grey = (ramp + rng.integers(0, 9, ramp.shape)).astype(np.uint8)
    colour = np.stack([grey, grey[::-1], grey[:, ::-1]], -1)
    return grey, colour, (grey * np.uint16(250))


def png_seeds(rng):
    """Return PNG files: grey, colour, palette, transparency, 16 bits."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    grey, colour, deep = sample_images(rng)
    info = PngInfo()
    info.add_text("Title", "a ramp", zip=True)
    files = [
        _encode(Image.fromarray(grey), "PNG", pnginfo=info),
        _encode(Image.fromarray(colour), "PNG", dpi=(72, 72)),
        _encode(Image.fromarray(deep), "PNG"),
        _encode(Image.fromarray(colour).convert("RGBA"), "PNG"),
        _encode(Image.fromarray(colour).quantize(16), "PNG", transparency=3),
        _encode(Image.fromarray(grey > 40), "PNG"),
    ]
    import imagecodecs

    deep_colour = np.stack([deep] * 3, -1)
    return [*files, bytes(imagecodecs.png_encode(deep_colour))]


def jpeg_seeds(rng):
    """Return JPEG files: grey, colour, progressive, with EXIF."""
    from PIL import Image

    grey, colour, _ = sample_images(rng)
    exif = Image.Exif()
    exif[274] = 6
    return [
        _encode(Image.fromarray(grey), "JPEG"),
        _encode(Image.fromarray(colour), "JPEG", exif=exif.tobytes()),
        _encode(Image.fromarray(colour), "JPEG", progressive=True, quality=50),
    ]


def webp_seeds(rng):
    """Return WebP files: lossy and lossless."""
    from PIL import Image

    _, colour, _ = sample_images(rng)
    image = Image.fromarray(colour)
    return [_encode(image, "WEBP"), _encode(image, "WEBP", lossless=True)]


def tiff_seeds(rng):
    """Return TIFF files: pages, tiles, compressions, ImageJ and OME."""
    import tifffile

    grey, colour, deep = sample_images(rng)
    pages = np.stack([grey, grey[::-1], grey])
    options = [
        (grey, {}),
        (colour, {"photometric": "rgb", "compression": "zlib", "predictor": True}),
        (deep, {"compression": "lzw", "tile": (16, 16)}),
        (pages, {"metadata": None, "photometric": "minisblack"}),
        (pages, {"imagej": True}),
        (pages, {"ome": True, "photometric": "minisblack"}),
        (deep.astype(np.float32), {"compression": "zstd"}),
        (colour, {"photometric": "rgb", "planarconfig": "contig", "bigtiff": True}),
    ]
    files = []
    for values, arguments in options:
        file = io.BytesIO()
        tifffile.imwrite(file, values, **arguments)
        files.append(file.getvalue())
    return files


def npy_seeds(rng):
    """Return NPY files with several data types and memory orders."""
    values = rng.standard_normal((30, 12))
    arrays = [
        values,
        values.astype(np.float32),
        np.asfortranarray(values),
        (100 * values).astype(np.int16),
        values.astype(">f8"),
        values > 0,
    ]
    return [_encode_npy(array) for array in arrays]


def npz_seeds(rng):
    """Return NPZ files, stored and compressed."""
    values, files = rng.standard_normal((30, 12)), []
    for save in (np.savez, np.savez_compressed):
        for arrays in ({"data": values}, {"a": values, "b": values[:3]}):
            file = io.BytesIO()
            save(file, **arrays)
            files.append(file.getvalue())
    return files


def csv_seeds(rng):
    """Return text tables with several separators, headers and encodings."""
    rows = rng.standard_normal((12, 4)).round(3)
    plain = [",".join(map(str, row)) for row in rows]
    comma = [";".join(str(x).replace(".", ",") for x in row) for row in rows]
    named = [f'"r {i}",{row}' for i, row in enumerate(plain)]
    texts = [
        "\n".join(["a,b,c,d", *plain]),
        "\r\n".join([",2001,2002,2003,2004", *named]),
        "\n".join(["a;b;c;d", *comma]),
        "\ufeff" + "\n".join(plain).replace(",", "\t"),
        "\n".join(["day,x,y", *(f"2020-01-{i + 1:02},{i},NA" for i in range(12))]),
    ]
    return [text.encode() for text in texts] + [texts[0].encode("utf-16")]


def parquet_seeds(rng):
    """Return Parquet files with several compressions."""
    import pandas as pd

    frame = pd.DataFrame(rng.standard_normal((30, 4)), columns=list("abcd"))
    mixed = frame.assign(name="x", when=pd.Timestamp("2020-01-01"))
    files = []
    for table, compression in ((frame, "snappy"), (frame, "zstd"), (mixed, None)):
        file = io.BytesIO()
        table.to_parquet(file, compression=compression)
        files.append(file.getvalue())
    return files


def xlsx_seeds(rng):
    """Return one Excel workbook."""
    import pandas as pd

    file = io.BytesIO()
    frame = pd.DataFrame(rng.standard_normal((12, 4)), columns=list("abcd"))
    frame.to_excel(file, index=False)
    return [file.getvalue()]


# Codecs of each video container, lossy and lossless.
CODECS = {
    "mp4": ("libx264", "mpeg4"),
    "avi": ("mjpeg", "ffv1", "rawvideo"),
    "webm": ("libvpx", "libvpx-vp9"),
}


def video_seeds(rng):
    """Return a video of 12 frames in every available container and codec."""
    import av

    from discrepant.video.example_data import street

    frames = street(12, (24, 32), int(rng.integers(2**31)))[0]
    files = []
    for kind, codecs in CODECS.items():
        for codec in filter(av.codecs_available.__contains__, codecs):
            file = io.BytesIO()
            with av.open(file, "w", format=kind) as container:
                stream = container.add_stream(codec, rate=20)
                stream.width, stream.height = 32, 24
                stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
                images = (av.VideoFrame.from_ndarray(f, format="rgb24") for f in frames)
                for frame in (*images, None):
                    container.mux(stream.encode(frame))
            files.append(file.getvalue())
    return files


def _encode(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _encode_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
