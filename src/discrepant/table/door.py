"""Stand-in."""

from typing import Any


def clean(table: Any, **kwargs: Any) -> Any: ...
