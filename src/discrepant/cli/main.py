"""Entry point of the command line: the commands, and what happens to errors."""

import os
import signal
import sys
import threading
import warnings
from types import FrameType
from typing import Annotated

import typer

from discrepant import __version__
from discrepant.cli.clean import clean
from discrepant.cli.demo import demo
from discrepant.cli.messages import print_warning, set_commands
from discrepant.cli.pca import pca
from discrepant.cli.reproduce import reproduce
from discrepant.cli.restore import restore
from discrepant.cli.serve import serve
from discrepant.cli.video import video
from discrepant.core.errors import InputError
from discrepant.core.progress import StoppedError, add_listener
from discrepant.core.validation import error_text

# Signals that end a process. The commands handle them like an error, to clean up.
TERMINATION_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)

app = typer.Typer(
    help="Find and replace gross errors in tables, images, videos and matrices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, clean, pca, restore, video, reproduce, serve):
    app.command()(command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"discrepant {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line of this package."""
    run(app)


def run(app: typer.Typer) -> None:
    """Run a command line; a user's mistake is one sentence and exit code 2."""
    _prepare_streams()
    set_commands(typer.main.get_command(app))
    warnings.showwarning = lambda message, *_: print_warning(message)
    add_listener(print_warning)
    if threading.current_thread() is threading.main_thread():
        for number in TERMINATION_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, _exit_on_signal)
    try:
        app()
    except InputError as error:
        print_warning(error)
        sys.exit(2)
    except StoppedError:
        print_warning("interrupted; nothing was written.")
        sys.exit(130)
    except KeyboardInterrupt:
        print_warning("interrupted.")
        sys.exit(130)
    except MemoryError:
        print_warning("not enough memory for data of this size.")
        sys.exit(2)
    except OSError as error:  # an unexpected failure of a disk, a folder or a file
        path = f"{error.filename}: " if error.filename else ""
        print_warning(f"{path}{error.strerror or error_text(error)}.")
        sys.exit(2)


def _prepare_streams() -> None:
    """Open closed standard streams, and let them print any character.

    The number of a closed stream would go to the next file that is opened, and
    messages of libraries would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    """End the process with the exit code of the signal, after cleaning up."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
