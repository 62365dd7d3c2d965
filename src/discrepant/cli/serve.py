"""The command that starts the page."""

from typing import Annotated

import typer

from discrepant.core.errors import missing_extra


def serve(
    port: Annotated[
        int, typer.Option(help="Port; by default one that is free.", min=0, max=65535)
    ] = 0,
    host: Annotated[
        str, typer.Option(help="Address to bind to; this machine only, by default.")
    ] = "127.0.0.1",
    anyone: Annotated[
        bool, typer.Option("--anyone", help="Let other machines reach the page.")
    ] = False,
    limit: Annotated[
        int, typer.Option(help="Megabytes of the largest file that is taken.", min=1)
    ] = 512,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser.")
    ] = True,
) -> None:
    """Open a page that mends the pictures, tables and videos dropped on it.

    It runs on this machine and answers to nobody else. Ctrl-C ends it.

    Example: `discrepant serve`
    """
    try:
        from discrepant.server.run import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise missing_extra("The page needs Starlette and uvicorn", "web") from None
    run(
        host=host,
        port=port,
        anyone=anyone,
        limit=limit * 2**20,
        show=show,
        say=typer.echo,
    )
