"""The command `discrepant video`."""

from pathlib import Path
from typing import Annotated

import typer

from discrepant.cli.messages import print_result, print_warning
from discrepant.cli.options import Output, Overwrite


def video(
    file: Annotated[
        str,
        typer.Argument(
            help="A video file, a folder of images, the number of a camera, or `-` for "
            "a video from standard input."
        ),
    ],
    output: Output,
    background: Annotated[
        bool, typer.Option("--background", help="Also write the background as a video.")
    ] = False,
    masks: Annotated[
        bool, typer.Option("--masks", help="Also write each mask as a PNG image.")
    ] = False,
    learning_time: Annotated[
        float,
        typer.Option(help="Seconds until an object that stays becomes background."),
    ] = 60.0,
    roi: Annotated[
        Path | None,
        typer.Option(help="Image of the region of interest: black is never movement."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Start with the background of an earlier `model.npz`."),
    ] = None,
    freeze: Annotated[
        bool, typer.Option("--freeze", help="Do not update the background of --model.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Separate moving objects from the background in a fixed-camera video.

    Writes `background.png`, `mask.mp4`, `side-by-side.mp4` (input, background,
    foreground), the activity over time (`activity.csv`, `activity.png`), the bounding
    boxes (`boxes.csv`), the background model (`model.npz`) and `summary.json`.
    Memory use does not grow with the length of the video. Ctrl-C stops early and
    writes the frames that are done.

    Examples: `discrepant video in.mp4 -o out`,
    `ffmpeg … -f nut - | discrepant video - -o out`
    """
    from discrepant.cli.interrupt import interruptible
    from discrepant.core.errors import InputError
    from discrepant.video.separate import SeparationOptions
    from discrepant.video.separate_file import separate_file

    if freeze and model is None:
        raise InputError("--freeze needs --model, the background to keep.")
    with interruptible("Separating") as progress:
        report = separate_file(
            file,
            output,
            background=background,
            masks=masks,
            options=SeparationOptions(learning_time, roi, model, not freeze),
            overwrite=overwrite,
            progress=progress,
        )
    for caveat in report.caveats:
        print_warning(caveat)
    print_result(report)
