"""Imports point down the layers, heavy ones wait, and what is public is documented."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "discrepant"
# Bottom to top. A folder may import from its own and from those before it.
LAYERS = (
    ("core",),
    ("operators", "structures"),
    ("paper", "fixed_rank", "cell_model"),
    ("robust_pca", "sensing"),
    ("table", "image", "video", "experiments"),
    ("server", "cli"),
)
ORDER = [folder for layer in LAYERS for folder in layer]


def imported(path: Path) -> set[str]:
    """Return the folders of the package that a file imports from."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in {path}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "discrepant" and len(part) > 1}


def test_every_folder_belongs_to_a_layer():
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == set(ORDER)


@pytest.mark.parametrize("folder", ORDER)
def test_imports_point_down_the_layers(folder):
    allowed = set(ORDER[: ORDER.index(folder) + 1])
    for path in (SOURCE / folder).rglob("*.py"):
        above = (imported(path) & set(ORDER)) - allowed
        assert not above, f"{path.relative_to(SOURCE)} imports from {sorted(above)}"


def test_every_way_to_import_is_recognised(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "import discrepant.cli.main\n"
        "from discrepant import paper\n"
        "def later():\n    from discrepant.image.restore import restore\n"
    )
    assert imported(file) == {"cli", "paper", "image"}


def test_import_is_light():
    heavy = ("torch", "matplotlib", "dask", "skimage", "numba", "pandas", "typer")
    code = f"import discrepant, sys; print(*[m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    # scikit-learn itself may load pandas where it is installed.
    assert set(loaded) <= {"pandas"}


def test_lazily_loaded_names_are_listed_and_typed():
    import discrepant

    assert set(discrepant.__all__) <= set(dir(discrepant))
    assert callable(discrepant.restore)
    # Type checkers read the imports under TYPE_CHECKING.
    typed = {
        alias.name
        for node in ast.walk(ast.parse((SOURCE / "__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(discrepant.__all__) <= typed


def test_the_version_has_one_source():
    project = (SOURCE.parents[1] / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert 'path = "src/discrepant/__init__.py"' in project


def test_every_public_name_is_in_the_reference():
    import discrepant.image

    reference = SOURCE.parents[1] / "docs" / "api.rst"
    listed = set(reference.read_text(encoding="utf-8").split())
    public = {*discrepant.__all__, *(f"image.{n}" for n in discrepant.image.__all__)}
    assert not sorted(public - listed)
