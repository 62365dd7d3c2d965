"""The house: imports point one way, and heavy ones wait."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "discrepant"
# A module may import only what stands above it.
ORDER = [
    "errors",
    "progress",
    "linalg",
    "kernels",
    "operators",
    "alpha",
    "parameters",
    "result",
    "stopping",
    "descent",
    "certificate",
    "blocks",
    "spectra",
    "polish",
    "dual",
    "stepping",
    "split",
    "implicit",
    "problems",
    "baselines",
    "subspace",
    "estimators",
    "image",
    "tables",
    "outputs",
    "plotting",
    "restoring",
    "experiments",
    "demo",
    "cli",
    "__main__",
]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts == ["discrepant"]:
                names |= {alias.name for alias in node.names} & set(ORDER)
            elif parts[0] == "discrepant":
                names.add(parts[1])
    return names


def test_every_module_has_its_place():
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py"}
    rooms |= {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"__init__"} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_point_one_way(name):
    room = SOURCE / name
    files = room.glob("*.py") if room.is_dir() else [SOURCE / f"{name}.py"]
    allowed = set(ORDER[: ORDER.index(name)]) | ({name} if room.is_dir() else set())
    for file in files:
        assert imported(file) <= allowed, file


def test_import_is_light():
    heavy = ("torch", "matplotlib", "dask", "skimage", "numba", "pandas", "typer")
    code = f"import discrepant, sys; print(*[m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    # scikit-learn itself may load pandas where it is installed.
    assert set(loaded) <= {"pandas"}
