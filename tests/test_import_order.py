"""A room imports only from rooms above it, and files have no circular imports, type-only and late imports included."""

import ast
import importlib.util
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import trl_mle


PACKAGE = Path(trl_mle.__file__).parent
ROOMS = [
    "spelling", "showing", "waits", "user_code", "files", "data_files", "competitions", "execution", "prompts", "models", "instrumentation", "solutions", "rewards", "environments", "trainer",
    "evaluation", "report", "starter", "shipped", "launching", "scripts", "cli",
]  # fmt: skip
FILES = {
    ".".join(("trl_mle", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported(name: str, path: Path) -> set[str]:
    """The files of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # Files that run inside the sandbox use relative imports, because the package is not there
            folder = ".".join(path.relative_to(PACKAGE.parent).parts[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (folder, node.module)))
            found |= {f"{module}.{alias.name}" for alias in node.names} & FILES.keys() or {module}
    return found & FILES.keys() - {name}


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def test_a_room_imports_from_rooms_above_it():
    assert {room(name) for name in FILES} == {"", *ROOMS}
    wrong = [
        f"{name} imports {other}"
        for name, path in FILES.items()
        for other in imported(name, path)
        if room(name) and room(other) and ROOMS.index(room(other)) > ROOMS.index(room(name))
    ]
    assert wrong == []


def test_no_circle_of_files():
    graph = {name: imported(name, path) for name, path in FILES.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle
    assert len(order) == len(FILES) > 90


# Most of them run for hours, and some only on a GPU
@pytest.mark.parametrize("folder", ["benchmarks", "docs/_build", "recipes"])
def test_what_scripts_outside_the_package_name_is_there(folder):
    scripts = sorted((PACKAGE.parent / folder).glob("*.py"))
    assert scripts
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trl_mle"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    is_folder = hasattr(module, "__path__")
                    there = hasattr(module, alias.name) or (
                        is_folder and importlib.util.find_spec(f"{node.module}.{alias.name}")
                    )
                    assert there, f"{script.name}: {node.module}.{alias.name}"
        for parts in re.findall(r'ROOT((?: / "[^"]+")+)', text):
            path = PACKAGE.parent.joinpath(*re.findall(r'"([^"]+)"', parts))
            assert path.exists(), f"{script.name}: {path}"
