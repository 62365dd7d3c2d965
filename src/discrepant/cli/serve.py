"""The command `discrepant serve`."""

from typing import Annotated

import typer

from discrepant.core.errors import missing_extra


def serve(
    port: Annotated[
        int, typer.Option(help="Port; 0 chooses a free one.", min=0, max=65535)
    ] = 0,
    limit: Annotated[
        int, typer.Option(help="Largest accepted file, in megabytes.", min=1)
    ] = 512,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Open a web page that restores images, cleans tables and separates videos.

    The page runs on this machine, and no file leaves it. Other machines cannot
    connect; from one of them, forward the port by SSH. Ctrl-C stops the server.

    Example: `discrepant serve`
    """
    try:
        from discrepant.server.run import serve as run_server
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise missing_extra("The page needs Starlette and uvicorn", "web") from None
    run_server(
        port=port,
        limit=limit * 2**20,
        show=show,
        say=typer.echo,
    )
