"""Make `recorded` of benchmarks/record.py importable in the scripts of this folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from record import recorded

__all__ = ["recorded"]
