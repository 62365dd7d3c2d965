"""Errors that a user can cause, each a sentence that says what to do about it."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


class InputError(ValueError):
    """An argument or a file cannot be used; the message says why and what to do."""


class InputTypeError(InputError, TypeError):
    """An `InputError` for a wrong type, where scikit-learn expects a TypeError."""


def missing_extra(need: str, extra: str) -> InputError:
    """Return the error for a missing optional package, with the command to install it.

    Parameters
    ----------
    need : str
        The first half of the sentence, such as "Video files need PyAV".
    extra : str
        The extra of this package that installs it.
    """
    return InputError(f"{need}: pip install '{_origin()}[{extra}]'.")


def _origin() -> str:
    """Return the argument for pip: the package's name or the folder of a checkout."""
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "src").is_dir():
        return str(checkout)
    try:
        record = distribution("discrepant").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    address = urlsplit(json.loads(record)["url"] if record else "")
    folder = url2pathname(address.path)
    if address.scheme == "file" and Path(folder, "pyproject.toml").is_file():
        return folder
    return "discrepant"
