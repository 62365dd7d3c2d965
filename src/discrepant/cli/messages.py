"""Printing by the commands: results, warnings, and parameters written as options."""

import re
import sys
from typing import Any

import typer

from discrepant.core.progress import bars_paused

_options: dict[str, str] = {}  # options by the name of their parameter


def on_terminal() -> bool:
    """Return whether standard error is a terminal, where a progress bar is useful."""
    return sys.stderr is not None and sys.stderr.isatty()


def print_result(result: object) -> None:
    """Print a result to standard output."""
    with bars_paused():
        typer.echo(str(result))


def print_warning(message: object) -> None:
    """Print a warning or an error to standard error, with options for parameters."""
    with bars_paused():
        typer.echo(f"discrepant: {parameters_as_options(str(message))}", err=True)


def set_commands(commands: Any) -> None:
    """Set the commands (a group of click) whose options messages name."""
    _options.clear()
    for command in commands.commands.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                _options[parameter.name] = max(parameter.opts, key=len)


def parameters_as_options(message: str) -> str:
    """Replace parameter names in a message by the options of the command line.

    The functions behind the commands write parameters as in Python: ``key=``,
    ``overwrite=True``, ``scale="paper"``, "jobs must be".
    """
    if not _options:
        return message
    names = "|".join(sorted(map(re.escape, _options), key=len, reverse=True))
    name = rf"\b({names})"

    def option(match: re.Match[str]) -> str:
        return _options[match[1]]

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
