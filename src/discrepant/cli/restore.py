"""The command `discrepant restore`."""

from pathlib import Path
from typing import Annotated

import typer

from discrepant.cli.messages import print_result
from discrepant.cli.options import Overwrite
from discrepant.core.errors import InputError


def restore(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Images (PNG, JPEG, TIFF, WebP, NPY) or folders of images."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="The restored image; a folder for several images."
        ),
    ],
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Take seconds instead of minutes, at lower quality."
        ),
    ] = False,
    mask: Annotated[
        bool, typer.Option("--mask", help="Also write the mask of corrupted values.")
    ] = False,
    side_by_side: Annotated[
        bool,
        typer.Option(
            "--side-by-side", help="Also write before and after in one image."
        ),
    ] = False,
    suggestions: Annotated[
        bool,
        typer.Option(
            "--suggestions",
            help="Also write a mask of possible scratches, dust or writing, which are "
            "left unchanged. Check it, then pass it to another run as `--known-bad`.",
        ),
    ] = False,
    known_bad: Annotated[
        Path | None,
        typer.Option(
            help="Image that is nonzero where values are known to be bad, with the "
            "pages and channels of the input, or with one for all."
        ),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Maximum time for each file, in seconds.")
    ] = None,
    axes: Annotated[
        str | None,
        typer.Option(
            help="Image stacks: the meaning of each axis, such as `TYX`. Frames of one "
            "scene (T) and slices of one volume (Z) are restored together. OME and "
            "ImageJ files name their axes themselves.",
        ),
    ] = None,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Also remove noise.")
    ] = False,
    gain: Annotated[
        float | None, typer.Option(help="Detector gain, in electrons per count.")
    ] = None,
    read_noise: Annotated[
        float, typer.Option(help="Read noise of the detector, in electrons.")
    ] = 0.0,
    saturation: Annotated[
        float | None,
        typer.Option(
            help="Saturation level of the detector; values at or above it are left "
            "unchanged."
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Detect corrupted values in images and replace them.

    The kind and amount of corruption need not be known. Without `--denoise`, all other
    values stay as they are, bit for bit. Ctrl-C stops early and writes the best result
    so far.

    Examples: `discrepant restore photo.png -o clean.png`,
    `discrepant restore scans -o clean --fast`
    """
    from discrepant.cli.interrupt import interruptible
    from discrepant.image.files.formats import read
    from discrepant.image.restore.detector import Detector
    from discrepant.image.restore_files import Options, plan, restore_files

    options = Options(
        quality="fast" if fast else "best",
        known_bad=None if known_bad is None else read(known_bad),
        mask=mask,
        side_by_side=side_by_side,
        suggestions=suggestions,
        overwrite=overwrite,
        time_limit=time_limit,
        axes=axes,
        denoise=denoise,
        detector=Detector(gain=gain, read_noise=read_noise, saturation=saturation),
    )
    jobs = plan(files, output, options)
    with interruptible("Restoring") as progress:
        report = restore_files(
            jobs, options, progress=progress, on_restored=print_result
        )
    if len(jobs) == 1 and report.failures:
        raise InputError(next(iter(report.failures.values())))
    if report.failures:
        typer.echo(str(report), err=True)
    if report.failures or any(done.pages_lost for done in report.done):
        raise typer.Exit(1)
