"""Every requirement of a door is shown by a test of it, and every mark names one that there is."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

DOORS = sorted(file.parent for file in Path(__file__).parents[1].rglob("requirements.py"))
doors = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)


def required(door: Path) -> set[str]:
    """The requirements of a door."""
    return set(runpy.run_path(str(door / "requirements.py"))["REQUIREMENTS"])


def marks(door: Path) -> set[str]:
    """The requirements that the tests of a door are marked with."""
    found: set[str] = set()
    for file in door.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
                found |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    return found


def test_there_are_doors_with_requirements() -> None:
    assert {door.name for door in DOORS} >= {"animus", "library", "mcp", "memory_tool", "rest"}


@doors
def test_every_requirement_has_a_test(door: Path) -> None:
    assert sorted(required(door) - marks(door)) == []


@doors
def test_every_mark_names_a_requirement(door: Path) -> None:
    assert sorted(marks(door) - required(door)) == []
