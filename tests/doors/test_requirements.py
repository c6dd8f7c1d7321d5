"""Every requirement of a door is shown by a test of it, and every test of a door shows a requirement."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

DOORS = sorted(file.parent for file in Path(__file__).parents[1].rglob("requirements.py"))


def required(door: Path) -> set[str]:
    """The requirements of a door."""
    return set(runpy.run_path(str(door / "requirements.py"))["REQUIREMENTS"])


def find_tests(door: Path) -> Iterator[tuple[str, set[str]]]:
    """The tests of a door, each with the requirements that it is marked with, itself or one of its cases."""
    for file in sorted(door.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{file.name}::{node.name}", {mark for each in node.decorator_list for mark in named(each)}


def named(decorator: ast.expr) -> Iterator[str]:
    """The requirements that a decorator names."""
    for node in ast.walk(decorator):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def test_there_are_doors_with_requirements() -> None:
    assert {door.name for door in DOORS} >= {"animus", "library", "mcp", "memory_tool", "rest"}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_every_requirement_has_a_test_and_every_test_shows_a_requirement(door: Path) -> None:
    tests = dict(find_tests(door))
    marks = {mark for marked in tests.values() for mark in marked}
    assert sorted(required(door) - marks) == []
    assert sorted(marks - required(door)) == []
    assert [name for name, marked in tests.items() if not marked] == []
