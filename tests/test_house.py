"""The house: imports point one way, inside the folders too, and heavy ones wait."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "discrepant"
# For each folder its rooms, top to bottom: a room may import only what stands above it,
# in its own folder and in every folder around it.
ORDER = {
    "": """
        errors progress compiled checks memory foreign linalg arrays labels result
        outputs plotting showing paper matrix table image video experiments app __main__
    """,
    "paper": """
        kernels operators sensing observation alpha parameters subspace stopping
        certificate
        recovery
        descent matrices problems baselines
    """,
    "matrix": """
        sweep once log program parts spectra extend polish steps dual split integrator
        noise observed sample solve asked caveats linear whole door abroad inputs
        fitted lazy tracking estimator
    """,
    "matrix.sweep": """
        held kernels robust regression workers tiles pages device rows blocks cluster
        lazy opening
    """,
    "matrix.sweep.device": "kernels robust regression rows",
    "matrix.noise": """
        kernels bins mixture edge lines model pace fit coordinates split solve
    """,
    "matrix.observed": "kernels entries directions fit split solve",
    "matrix.linear": """
        measuring tangent squares log pursuit flow dual certify noise split solve
    """,
    "table": """
        numbers layout files verbatim mixed example kernels maps columns tails model
        wide odds rules bends learning judging grids sheet rewrite result verdict door
        cleaner lazy view plot svg report
    """,
    "image": "arrays memory noise filters files restore network",
    "image.files": "logs picture pillow tiff formats",
    "image.restore": """
        kernels patch_kernels numbering smooth likelihood lines judge calibrate mode
        detect screen borders tone mark_network
        marks patches contexts clusters graphic rounds tile tiles planes
        comb spread flat ringing compressed outliers standing cosmic motion_kernels
        motion temporal axes stack denoise result grids front
    """,
    "image.network": """
        fused_kernels fused architecture device checkpoints corruption prior fit
        baselines
    """,
    "video": """
        bands kernels coordinates masks model foreground files frames motion cuts
        stream result example door
    """,
    "experiments": """
        running learning_curves ratio phase beyond comparison regression theorem1
        photographs images
    """,
    "app": """
        interrupt summary shown restore clean demo pca stored scaled reproduce video
        server options speech video_command cli
    """,
    "app.server": "outcome pictures tables videos jobs guard site launch command",
}
ROOMS = {folder: rooms.split() for folder, rooms in ORDER.items()}


def place(module: str) -> list[tuple[str, int]]:
    """Return, for each folder on the way to a module, how far down it turns off."""
    found, folder = [], ""
    for part in module.split("."):
        if folder not in ROOMS or part not in ROOMS[folder]:
            break  # a name inside a module
        found.append((folder, ROOMS[folder].index(part)))
        folder = f"{folder}.{part}".lstrip(".")
    return found


def imported(path: Path) -> set[str]:
    """Return all that a file imports from the package, relative to it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in {path}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name[len("discrepant.") :] for name in names if name[:11] == "discrepant."}


def modules() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize("folder", ROOMS)
def test_every_room_has_its_place(folder):
    inside = SOURCE / folder.replace(".", "/")
    rooms = {path.stem for path in inside.glob("*.py")}
    rooms |= {path.parent.name for path in inside.glob("*/__init__.py")}
    assert rooms - {"__init__"} == set(ROOMS[folder])


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    here = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for name in imported(path):
        for (folder, mine), (other, theirs) in zip(
            place(here), place(name), strict=False
        ):
            assert folder == other
            assert theirs <= mine, f"{here} imports {name}, which stands below it"
            if theirs < mine:
                break
        else:
            assert not place(name), f"{here} imports itself or its own folder: {name}"


def test_the_order_sees_every_way_to_import(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "import discrepant.app.cli\n"
        "from discrepant import matrix\n"
        "def later():\n    from discrepant.image.restore import front\n"
    )
    assert imported(file) == {"app.cli", "matrix", "image.restore.front"}


def test_import_is_light():
    heavy = ("torch", "matplotlib", "dask", "skimage", "numba", "pandas", "typer")
    code = f"import discrepant, sys; print(*[m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    # scikit-learn itself may load pandas where it is installed.
    assert set(loaded) <= {"pandas"}


def test_front_doors_that_load_more_are_known_all_the_same():
    import discrepant

    assert set(discrepant.__all__) <= set(dir(discrepant))
    assert callable(discrepant.restore)
    # Type checkers see what is imported for them.
    told = {
        alias.name
        for node in ast.walk(ast.parse((SOURCE / "__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(discrepant.__all__) <= told


def test_the_version_stands_in_one_place():
    project = (SOURCE.parents[1] / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert 'path = "src/discrepant/__init__.py"' in project


MOST = 400  # lines of a file


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_is_a_room_not_a_hall(path):
    assert len(path.read_text().splitlines()) <= MOST


def test_every_public_name_stands_in_the_reference():
    import discrepant.image

    reference = SOURCE.parents[1] / "docs" / "api.rst"
    listed = set(reference.read_text(encoding="utf-8").split())
    public = {*discrepant.__all__, *(f"image.{n}" for n in discrepant.image.__all__)}
    assert not sorted(public - listed)
