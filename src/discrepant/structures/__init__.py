"""Structures: factorised parameterisations, and mixtures of block structures."""

from discrepant.structures.blocks import Columns as Columns
from discrepant.structures.blocks import Entries as Entries
from discrepant.structures.blocks import Groups as Groups
from discrepant.structures.blocks import Rows as Rows
from discrepant.structures.blocks import Structure as Structure
from discrepant.structures.blocks import Tiles as Tiles
from discrepant.structures.blocks import Unfolding as Unfolding
from discrepant.structures.blocks import Whole as Whole
