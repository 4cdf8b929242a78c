"""What must be true of the project as a whole: its layers, its imports, its names, its dependencies."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import clearfold

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "clearfold"

# Imports point from a later line to an earlier one, or along a line without a circle.
LAYERS = [
    {"errors"},
    {"cluster", "compiled"},
    {"datasets", "images", "objects", "table"},
    {"features"},
    {"embedding"},
    {"importance", "saliency", "selection"},
    {"evaluate", "survival", "archive", "retrieval"},
    {"papers"},
    {"plot", "report"},
    {"cli", "web"},
]
LAYER = {module: height for height, line in enumerate(LAYERS) for module in line}
PACKAGE = "clearfold"  # the public names themselves: only what the outside world calls may lean on them
FACE = {"report", "cli", "web"}


def part_of(path: Path) -> str:
    """The first-level module or package that a source file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Every import of clearfold in a file: (part, line, whether it happens only when a function runs)."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for name in full_names(child):
                    parts = name.split(".")
                    if parts[0] == PACKAGE:
                        known = len(parts) > 1 and (parts[1] in LAYER or module_exists(parts[1]))
                        yield (parts[1] if known else PACKAGE), child.lineno, lazy
            within_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from visit(child, lazy or within_function)

    def full_names(node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        package = [PACKAGE, *path.relative_to(SOURCE).parts[:-1]]
        base = package[: len(package) - node.level + 1] if node.level else []
        origin = ".".join([*base, *([node.module] if node.module else [])])
        return [f"{origin}.{alias.name}" for alias in node.names]

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), False)


def module_exists(name: str) -> bool:
    return (SOURCE / f"{name}.py").exists() or (SOURCE / name / "__init__.py").exists()


def source_files() -> list[Path]:
    outermost = {SOURCE / "__init__.py", SOURCE / "__main__.py"}
    return sorted(set(SOURCE.rglob("*.py")) - outermost)


def test_every_module_has_its_place_in_the_layers() -> None:
    strangers = {part_of(path) for path in source_files()} - set(LAYER)
    assert not strangers, f"{sorted(strangers)}: give each a line in LAYERS, or a home in a module that has one"


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    wrong = []
    importer = part_of(path)
    for imported, line, lazy in imported_parts(path):
        # A result draws itself with `.plot()`, and drawing stands above every result: so this one import may point
        # upwards, as long as it waits until someone asks for the picture.
        drawing = imported == "plot" and lazy
        allowed = importer in FACE if imported == PACKAGE else LAYER[imported] <= LAYER[importer]
        if not (allowed or drawing):
            wrong.append(f"{path.name}:{line} imports {imported}")
    assert not wrong, wrong


def test_imports_make_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in source_files():
        for imported, _, lazy in imported_parts(path):
            if imported not in {part_of(path), PACKAGE} and not (imported == "plot" and lazy):
                graph.setdefault(part_of(path), set()).add(imported)
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle in it


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("clearfold", {"matplotlib", "pandas", "pyarrow", "sklearn", "typer", "rich", "anndata", "h5py"}),
        # scikit-learn itself imports pandas, which imports pyarrow, and rich where they are installed
        ("clearfold.embedding", {"matplotlib", "typer", "anndata", "h5py"}),
        ("clearfold.images", {"matplotlib", "pandas", "PIL", "tifffile", "openslide", "skimage"}),
    ],
)
def test_import_leaves_heavy_libraries_alone(module: str, heavy: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize("name", ["clearfold", "clearfold.embedding", "clearfold.images"])
def test_every_public_name_can_be_imported(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_the_citation_has_the_version_of_the_package() -> None:
    assert f"version: {clearfold.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


OLDEST, NEWEST_WITH_ALL_WHEELS, NEWEST = "3.11", "3.14", "3.15"


@pytest.mark.parametrize(
    ("python", "options"),
    [
        pytest.param(OLDEST, ["--extra", "all", "--only-binary", ":all:"], id="oldest"),
        pytest.param(NEWEST_WITH_ALL_WHEELS, ["--extra", "all", "--only-binary", ":all:"], id="newest-with-all-wheels"),
        pytest.param(NEWEST, ["--only-binary", ":all:"], id="newest-core"),
        # some have no wheel for 3.15 yet: there `clearfold[all]` resolves, but compiles them
        pytest.param(NEWEST, ["--extra", "all"], id="newest-all-extras"),
        pytest.param(OLDEST, ["--all-extras"], id="oldest-for-development"),
    ],
)
def test_declared_ranges_resolve(python: str, options: list[str]) -> None:
    uv = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python-version", python]
    done = subprocess.run([*uv, *options, "pyproject.toml"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "scikit-learn==" in done.stdout


def test_oldest_python_is_the_declared_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={OLDEST}"
    assert f"Programming Language :: Python :: {NEWEST_WITH_ALL_WHEELS}" in project["classifiers"]


def test_the_page_on_architecture_names_every_module_in_its_layer() -> None:
    lines = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()
    rows = {int(cells[1]): cells[2] for line in lines if (cells := line.split("|"))[1:2] and cells[1].strip().isdigit()}
    named = [set(re.findall(r"`(\w+)`", rows[height])) for height in sorted(rows)]
    assert named == LAYERS


def test_the_lock_pins_what_is_declared_with_checksums() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [
        *extras["dependencies"],
        *(line for lines in extras["optional-dependencies"].values() for line in lines),
    ]
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    pinned: dict[str, list[str]] = {}
    for above, below in zip(lines, [*lines[1:], ""], strict=True):
        if found := re.match(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.+!]+)", above):
            pinned.setdefault(canonicalize_name(found[1]), []).append(found[2])
            assert "--hash=sha256:" in below, above
    for wanted in map(Requirement, declared):
        if wanted.name != "clearfold":
            versions = pinned.get(canonicalize_name(wanted.name), [])
            assert versions, f"{wanted.name} is not in the lock: make lock"
            assert all(wanted.specifier.contains(version, prereleases=True) for version in versions), wanted
