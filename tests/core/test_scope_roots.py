"""The table of a store's top-level scopes."""

from __future__ import annotations

import ast
from pathlib import Path

import cofio
from cofio.values.scopes import OWN, OWNERS

SOURCE = Path(cofio.__file__).parent


def test_no_root_is_taken_twice_and_each_says_what_it_holds() -> None:
    roots = [scope for scope in OWNERS if len(scope.names) == 1]
    assert len({scope.names[0].casefold() for scope in roots}) == len(roots)
    assert all(scope in OWN for scope in OWNERS if scope not in roots)
    assert all(OWNERS.values())


def test_no_scope_is_written_out_elsewhere() -> None:
    written = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file.relative_to(SOURCE).as_posix() == "values/scopes.py":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if called == "Scope" or (called == "parse" and "Scope" in ast.dump(node.func)):
                    written.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert written == []
