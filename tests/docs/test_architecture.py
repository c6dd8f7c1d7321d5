"""What ARCHITECTURE.md points at is there: the layers, modules, functions and names of the source."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cofio"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def find_definitions(file: Path) -> set[str]:
    """The functions, classes and methods of a module, methods as `Class.method`."""
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    top = [node for node in ast.parse(file.read_text()).body if isinstance(node, defined)]
    inner = [(node, each) for node in top for each in ast.iter_child_nodes(node) if isinstance(each, defined)]
    return {node.name for node in top} | {f"{node.name}.{each.name}" for node, each in inner}


def test_the_picture_shows_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if "containers" in each]
    rows = re.findall(r"^│ (.+?) *│ (.+?) *│$", PAGE, re.MULTILINE)
    assert [row for row, _ in rows] == layers
    packages = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    packages |= {file.stem for file in SOURCE.glob("[!_]*.py")}
    assert {name for row in layers for name in row.split(" | ")} == packages


def test_every_function_and_module_that_is_named_is_there() -> None:
    functions = re.findall(r"`([\w/]+\.py): ([\w.]+)`", PAGE)
    assert len(functions) >= 20
    for path, name in functions:
        files = [file for file in SOURCE.rglob(Path(path).name) if file.as_posix().endswith(f"/{path}")]
        assert any(name in find_definitions(file) for file in files), (path, name)
    modules = [each for each in re.findall(r"`([\w/]+\.py)`", PAGE) if not (ROOT / each).exists()]
    known = [file.as_posix() for file in SOURCE.rglob("*.py")]
    assert [each for each in modules if not any(file.endswith(f"/{each}") for file in known)] == []


def test_every_name_that_is_shown_as_code_is_in_the_source() -> None:
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql")]
    words = set(re.findall(r"\w+", " ".join(file.read_text() for file in files)))
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    codes = re.findall(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`", prose)
    names = {name for code in codes if not code.endswith((".py", ".md", ".toml", ".db")) for name in code.split(".")}
    assert {"Engine", "change", "seq"} <= names
    systems = {"LockFileEx", "lockf"}
    assert sorted(names - words - systems) == []
