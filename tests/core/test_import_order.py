"""Imports inside the package point one way, so that any part can be read without the parts built on it."""

import ast
from pathlib import Path

import pytest

import jaxvar

ROOT = Path(jaxvar.__file__).parent
# Lowest first. A module imports from earlier layers only; a folder may also import from itself.
LAYERS = (
    {"checks"},
    {"claims", "parameters", "random", "status"},
    {"constants", "files", "lowering", "sums", "tidy"},
    {"blocks", "ridge", "sharp"},
    {"cholesky", "nets"},
    {"planning"},
    {"algorithms", "environments"},
    {"listing", "records"},
    {"cli"},
    {"game"},
    {"duels", "episodes"},
    {"engine"},
    {"memory"},
    {"wrappers"},
    {"simulate"},
    {"run"},
    {"study"},
    {"analysis", "exit_codes"},
    {"until"},
    {"commands"},
    {"figures", "tables"},
    {"report"},
    {"theory"},
    {"testing"},
    {"bench", "public", "show"},
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
MODULES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of jaxvar that a file imports anywhere, functions included."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names += [node.module] if node.module != "jaxvar" else [f"jaxvar.{a.name}" for a in node.names]
    parts = {n.split(".")[1] for n in names if n.startswith("jaxvar.")}
    return {part for part in parts if part in RANK or (ROOT / part).is_dir() or (ROOT / f"{part}.py").exists()}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_to_earlier_layers(path):
    """A later layer, or a neighbour in the same one, must not be needed to understand a module."""
    part = part_of(path)
    assert part in RANK, f"give {part} a place in LAYERS"
    for other in imported_parts(path) - {part}:
        assert RANK[other] < RANK[part], f"{part} imports {other}, which is not below it"


def test_algorithms_and_environments_are_neighbours():
    """The rule above keeps them apart only while they share a layer."""
    assert RANK["algorithms"] == RANK["environments"]
