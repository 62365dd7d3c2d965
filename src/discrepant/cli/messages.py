"""Printing by the commands: results, warnings, and parameters written as options."""

import re
import sys
from typing import Any

import typer

from discrepant.core.progress import bars_paused


def on_terminal() -> bool:
    """Return whether standard error is a terminal, where a progress bar is useful."""
    return sys.stderr is not None and sys.stderr.isatty()


def print_result(result: object) -> None:
    """Print a result to standard output."""
    with bars_paused():
        typer.echo(str(result))


def print_warning(message: object) -> None:
    """Print a warning or an error to standard error."""
    with bars_paused():
        typer.echo(f"discrepant: {message}", err=True)


def parameters_as_options(message: str, commands: Any) -> str:
    """Replace parameter names in a message by the options of the command line.

    The functions behind the commands write parameters as in Python: ``key=``,
    ``overwrite=True``, ``scale="paper"``, "jobs must be".

    Parameters
    ----------
    message : str
        The message of an error or warning.
    commands : click.Group
        The commands whose options are named.
    """
    options = {
        parameter.name: max(parameter.opts, key=len)
        for command in commands.commands.values()
        for parameter in command.params
        if parameter.param_type_name == "option"
    }
    names = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    name = rf"\b({names})"

    def option(match: re.Match[str]) -> str:
        return str(options[match[1]])

    def negated(match: re.Match[str]) -> str:
        return option(match).replace("--", "--no-", 1)

    message = re.sub(
        rf"pass {name}=False", lambda match: f"leave out {option(match)}", message
    )
    message = re.sub(rf"{name}=False", negated, message)
    message = re.sub(
        rf'{name}="(\w+)"', lambda match: f"{option(match)} {match[2]}", message
    )
    message = re.sub(rf"{name}=(True\b)?", option, message)
    message = re.sub(rf"(?<=[Rr]aise ){name}\b", option, message)
    return re.sub(rf"^{name}(?= must be)", option, message)
