"""What of a report stands in ``summary.json``."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from discrepant import __version__

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

APART = ("folder", "files", "no_picture")  # of use to who asked, not to the file


def summary_of(report: "DataclassInstance") -> dict[str, Any]:
    """Return what a report says of its data, and the version that found it."""
    held = {key: value for key, value in asdict(report).items() if key not in APART}
    return {**held, "version": __version__}
