"""How a text file lays out its table: separator, decimal mark and labels."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from discrepant.errors import InputError

_WORDS = ("na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none")
MISSING = ["", "NaN", "-NaN", *_WORDS, *map(str.upper, _WORDS), "Null", "None"]


@dataclass(frozen=True)
class Layout:
    """Where the cells of a text file are; found from its first lines.

    ``first`` holds the cells of the first line, ``before`` counts the blank lines
    above it, and ``width`` is the longest of the lines that were looked at.
    """

    separator: str
    decimal: str
    header: bool
    index: bool
    first: list[str]
    before: int
    width: int
    encoding: str = "utf-8-sig"

    def labels(self, path: Path, width: int) -> list[str]:
        """Return one label a column, the index too; columns are counted if none."""
        if not self.header:
            return [str(number) for number in range(1, width + 1)]
        first = self.first
        if len(first) == width - 1 and self.index:
            first = ["", *first]  # as R writes it: no cell above the row labels
        if len(first) != width:
            raise InputError(
                f"{path.name} has {len(first)} labels in its first line but {width} "
                "columns below."
            )
        return first


def layout_of(
    path: Path,
    suffix: str,
    header: bool | None,
    index: bool | None,
    *,
    mixed: bool = False,
    encoding: str = "utf-8-sig",
) -> Layout:
    """Find out how a text file is laid out.

    Parameters
    ----------
    path, suffix
        The file, and its ending.
    header, index : bool, optional
        Whether the first line and column hold labels, if it is known.
    mixed : bool
        Whether columns of text are part of the table; a first column of text then
        holds labels only if the cell above it is empty.
    encoding : str
        That of the file.
    """
    with path.open(encoding=encoding, newline="") as file:
        raw = [line for line in (file.readline() for _ in range(30)) if line]
    head = [line for line in raw if line.strip()][:20]
    if not head:
        raise InputError(f"{path.name} is empty.")
    separator = _separator(head[0], suffix)
    lines = list(csv.reader(head, delimiter=separator, skipinitialspace=mixed))
    if all(len(line) == 1 for line in lines) and len(head[-1].split()) > 1:
        raise InputError(
            f"{path.name} has no commas, semicolons, tabs or bars between its cells; "
            "save it with one of them."
        )
    comma = separator != "," and any(
        re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell) for line in lines for cell in line
    )
    decimal = "," if comma else "."
    first, body = lines[0], lines[1:]
    cornered = _is_cornered(first, body, decimal)
    if header is None:
        header = cornered or (
            _stands_above(first, body, decimal)
            if mixed
            else any(not is_number(cell, decimal) for cell in first[1:] or first)
        )
    if index is None:
        below = [line[0] for line in lines[header:]]
        words = sum(not is_number(cell, decimal) for cell in below)
        texts = not mixed and 2 * words >= max(len(below), 1)
        index = (cornered and header) or texts
    if len(lines) <= header:
        raise InputError(f"{path.name} holds no rows below its labels.")
    return Layout(
        separator,
        decimal,
        header,
        index,
        first,
        raw.index(head[0]),
        max(map(len, lines)),
        encoding,
    )


def is_number(cell: str, decimal: str) -> bool:
    """Tell whether a cell is a number or stands for a missing one."""
    text = cell.strip()
    if text.lower() in {"", *_WORDS}:
        return True
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"

    def cells(mark: str) -> int:
        return len(next(csv.reader([line], delimiter=mark)))

    return max(",;\t|", key=cells)  # on a tie the comma, which comes first


def _stands_above(first: list[str], body: list[list[str]], decimal: str) -> bool:
    """Tell whether the first line names columns of which some are of text.

    It does where a word stands above numbers, or where it holds words alone and none
    of them comes again below.
    """
    words = [not is_number(cell, decimal) for cell in first]
    for place, word in enumerate(words):
        below = [line[place] for line in body if len(line) > place]
        numbers = sum(bool(c.strip()) and is_number(c, decimal) for c in below)
        if word and numbers > len(below) / 2:
            return True
    again = {cell for line in body for cell in line}
    return all(words) and not again & set(first)


def _is_cornered(first: list[str], body: list[list[str]], decimal: str) -> bool:
    """Tell whether the first line and column hold labels by the corner between them.

    The corner is empty and the column below is not, or (as R writes it) the first line
    is one cell short. Labels may be whole numbers, such as years, but all differ.
    """
    if body and all(len(line) == len(first) + 1 for line in body):
        return not all(is_number(cell, decimal) for cell in first)
    names = [cell.strip() for cell in first[1:]]
    return (
        bool(names and body)
        and not first[0].strip()
        and all(line[0].strip() for line in body)
        and all(
            re.fullmatch(r"-?\d+", name) or not is_number(name, decimal)
            for name in names
        )
        and (len(set(names)) == len(names) or any(not n.isdigit() for n in names))
    )
