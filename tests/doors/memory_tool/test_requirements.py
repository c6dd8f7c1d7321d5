"""Every requirement is shown by a test, and every mark names one that there is."""

from __future__ import annotations

import ast
from pathlib import Path

from .requirements import REQUIREMENTS


def marks() -> list[str]:
    """The requirements that the tests beside this file are marked with."""
    found = []
    for file in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
                found += [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
    return found


def test_every_requirement_has_a_test() -> None:
    assert sorted(set(REQUIREMENTS) - set(marks())) == []


def test_every_mark_names_a_requirement() -> None:
    assert sorted(set(marks()) - set(REQUIREMENTS)) == []
