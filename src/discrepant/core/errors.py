"""The one error a user can cause: a sentence that says what is wrong and what to do."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


class InputError(ValueError):
    """What was passed in cannot be worked with; the message says what to do."""


class InputTypeError(InputError, TypeError):
    """The same, where scikit-learn expects a TypeError."""


def missing_extra(what: str, extra: str) -> InputError:
    """Return the error that says what is missing, and how to get it.

    Parameters
    ----------
    what : str
        The beginning of the sentence, such as "Video files need PyAV".
    extra : str
        The extra that brings it.
    """
    return InputError(f"{what}: pip install '{_origin()}[{extra}]'.")


def _origin() -> str:
    """Return what pip installed this from: its name, or the folder of a checkout."""
    here = Path(__file__).parents[3]
    if (here / "pyproject.toml").is_file() and here.joinpath("src").is_dir():
        return str(here)
    try:
        told = distribution("discrepant").read_text("direct_url.json")
    except PackageNotFoundError:
        told = None
    address = urlsplit(json.loads(told)["url"] if told else "")
    folder = url2pathname(address.path)
    if address.scheme == "file" and Path(folder, "pyproject.toml").is_file():
        return folder
    return "discrepant"
