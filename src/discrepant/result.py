"""What a solve hands back: the recovery, how it ended, and how it went."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Status:
    """How a run ended: whether it converged, and a sentence a person can read."""

    converged: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class History(Mapping[str, np.ndarray]):
    """Numbers recorded along the way, one array a name, all of one length.

    ``history["step"]``, ``history["residual"]`` and ``history["seconds"]`` are always
    there; whatever a callback returns is recorded beside them.
    """

    columns: dict[str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


class Result(Protocol):
    """Stub until merged."""

    low_rank: Any
    sparse: Any
    rank: Any
    certificate: Any
    status: Any
    history: Any
    n_steps: Any
    lam: Any
    singular_values: Any
    components: Any

    def block(self, rows: slice, columns: slice) -> Any:
        """Stub."""
