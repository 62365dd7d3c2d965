"""How a command speaks: results to one stream, one sentence for a mistake to another.

Whatever the streams are (a terminal, a pipe, a file in an old encoding, closed), what
was computed must not be lost over what is said about it.
"""

import os
import re
import signal
import sys
import threading
import warnings
from types import FrameType
from typing import Any

import typer

from discrepant.core.errors import InputError
from discrepant.core.progress import StoppedError, add_listener, bars_paused
from discrepant.core.validation import error_text

# Signals that end a process: the commands end as after an error, and clean up.
ENDING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def on_terminal() -> bool:
    """Progress is shown to a person, not to a pipe."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(text: object) -> None:
    """Say what was found on standard output."""
    with bars_paused():
        typer.echo(str(text))


def complain(sentence: object) -> None:
    """Say a sentence on standard error."""
    with bars_paused():
        typer.echo(f"discrepant: {sentence}", err=True)


def run_command(app: typer.Typer) -> None:
    """Run a command line; a mistake is one sentence and exit code 2."""
    _open_streams()
    warnings.showwarning = lambda message, *place: complain(message)
    add_listener(complain)
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, _end)
    try:
        app()
    except InputError as error:
        complain(in_flags(str(error), app))
        sys.exit(2)
    except StoppedError:
        complain("interrupted; nothing was written.")
        sys.exit(130)
    except KeyboardInterrupt:
        complain("interrupted.")
        sys.exit(130)
    except MemoryError:
        complain("not enough memory for data of this size.")
        sys.exit(2)
    except OSError as error:  # a disk, a folder or a file fails where none should
        named = f"{error.filename}: " if error.filename else ""
        complain(f"{named}{error.strerror or error_text(error)}.")
        sys.exit(2)


def in_flags(sentence: str, app: typer.Typer) -> str:
    """Say a sentence about parameters in the words of the command line.

    The functions behind the commands name parameters as Python does: ``key=``,
    ``overwrite=True``, ``scale="paper"``, "jobs must be". Here they are options.
    """
    group: Any = typer.main.get_command(app)
    flags = {
        option.name: max(option.opts, key=len)
        for command in group.commands.values()
        for option in command.params
        if option.param_type_name == "option"
    }
    told = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))
    name = rf"\b({told})"

    def as_flag(found: re.Match[str]) -> str:
        return str(flags[found[1]])

    sentence = re.sub(
        rf"pass {name}=False", lambda m: f"leave out {flags[m[1]]}", sentence
    )
    sentence = re.sub(
        rf"{name}=False", lambda m: flags[m[1]].replace("--", "--no-", 1), sentence
    )
    sentence = re.sub(rf'{name}="(\w+)"', lambda m: f"{flags[m[1]]} {m[2]}", sentence)
    sentence = re.sub(rf"{name}=(True\b)?", as_flag, sentence)
    sentence = re.sub(rf"(?<=[Rr]aise ){name}\b", as_flag, sentence)
    return re.sub(rf"^{name}(?= must be)", as_flag, sentence)


def _open_streams() -> None:
    """Make sure that the three streams are there and can hold any character.

    A closed one would pass its number on to the next file that is opened, and what
    libraries print would end up in there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _end(number: int, frame: FrameType | None) -> None:
    """End the process as the signal would, but after cleaning up."""
    sys.exit(128 + number)
