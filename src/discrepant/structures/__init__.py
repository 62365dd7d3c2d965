"""Structures: factorised parameterisations, and mixtures of block structures."""

from discrepant.structures.blocks import (
    Columns,
    Entries,
    Groups,
    Rows,
    Structure,
    Tiles,
    Unfolding,
    Whole,
)

__all__ = [
    "Columns",
    "Entries",
    "Groups",
    "Rows",
    "Structure",
    "Tiles",
    "Unfolding",
    "Whole",
]
