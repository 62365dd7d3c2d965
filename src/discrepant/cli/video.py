"""The command `discrepant video`: arguments in, a report printed."""

from typing import Annotated

import typer

from discrepant.cli.messages import complain, on_terminal
from discrepant.cli.options import Output, Overwrite


def video(
    file: Annotated[
        str,
        typer.Argument(
            help="A video, a folder of images, the number of a camera, or - for raw "
            "frames from a pipe."
        ),
    ],
    output: Output,
    background: Annotated[
        bool, typer.Option("--background", help="Also write the background as a video.")
    ] = False,
    masks: Annotated[
        bool, typer.Option("--masks", help="Also write each mask as a PNG.")
    ] = False,
    size: Annotated[
        str | None, typer.Option(help="Raw frames: columns and rows, such as 320x240.")
    ] = None,
    grey: Annotated[
        bool, typer.Option("--grey", help="Raw frames are grey, not RGB.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Tell background from foreground in the video of a fixed camera.

    Writes `background.png`, `mask.mp4`, `side-by-side.mp4` (input, background,
    foreground), the activity over time and `summary.json`. Of any length, in bounded
    memory; Ctrl-C writes what is done.

    Examples: `discrepant video in.mp4 -o out`,
    `ffmpeg … -f rawvideo -pix_fmt rgb24 - | discrepant video - --size 320x240 -o out`
    """
    from discrepant.core.interrupt import interruptible
    from discrepant.video.separate_file import separate_file as run

    with interruptible(on_terminal(), "Separating", complain) as progress:
        report = run(
            file,
            output,
            background=background,
            masks=masks,
            size=size,
            grey=grey,
            overwrite=overwrite,
            progress=progress,
        )
    for caveat in report.caveats:
        complain(caveat)
    if report.no_picture:
        complain(f"no picture: {report.no_picture}")
    typer.echo(str(report))
