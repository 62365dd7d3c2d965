"""What a job hands to the page: facts to show, and files to look at or download."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Show = Callable[[dict[str, str]], None]  # told of pictures while the work goes on


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a job.

    Attributes
    ----------
    facts : dict
        What the page says, in words and numbers that JSON knows.
    files : dict of str to Path
        What may be fetched, by the last part of its address.
    kept : object
        What a later choice of the person at the page needs; it stays on this side.
    """

    facts: dict[str, Any]
    files: dict[str, Path]
    kept: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Upload:
    """A file that was sent: what its sender calls it, and where it lies here.

    The name is only shown, and gives the kind of file; no path is made of it.
    """

    name: str
    path: Path

    @property
    def stem(self) -> str:
        """The name without its ending, as text for a command or a download."""
        return Path(self.name).stem or "file"

    @property
    def suffix(self) -> str:
        """The ending, in small letters."""
        return self.path.suffix
