"""How the commands talk to a person."""

import sys

import typer


def terminal() -> bool:
    """Progress is shown to a person, not to a pipe."""
    return sys.stderr.isatty()


def complain(sentence: object) -> None:
    """Say what is wrong, on standard error."""
    typer.echo(f"discrepant: {sentence}", err=True)
