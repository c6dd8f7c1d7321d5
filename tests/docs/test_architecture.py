"""What ARCHITECTURE.md says of the source is so: its layers, its packages and modules, its flows, its names."""

from __future__ import annotations

import ast
import json
import os
import re
import threading
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from tests.waiting import join

from cofio.backends.sqlite.searcher import SnapshotSearch
from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.jsonrpc import Connection
from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp.stdio import Server
from cofio.values.scopes import MCP

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cofio"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FLOWS = ("write flow", "search flow", "derived work get done", "checkpoint saved")
_FUNCTION = re.compile(r"`([\w/]+\.py): ([\w.]+)`")


def read_section(words: str) -> str:
    """The section whose heading, a question, has these words."""
    (text,) = re.findall(rf"^## How [^\n]*{words}\?\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


@cache
def find_definitions(path: str) -> frozenset[str]:
    """The functions, classes and methods of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse((SOURCE / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{each.name}" for each in methods}
    return frozenset(found)


def test_the_picture_shows_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["type"] == "layers"]
    rows = re.findall(r"^│ (.+?) *│ (.+?) *│$", PAGE, re.MULTILINE)
    assert [row for row, _ in rows] == layers
    packages = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    assert {name for row in layers for name in row.split(" | ")} == packages


@pytest.mark.parametrize("flow", FLOWS)
def test_each_step_of_a_flow_names_functions_that_there_are(flow: str) -> None:
    steps = _FUNCTION.findall(read_section(flow))
    assert len(steps) >= 5
    assert [step for step in steps if step[1] not in find_definitions(step[0])] == []


@contextmanager
def ask(server: Server) -> Iterator[Callable[[str, object], str]]:
    """Connect to a server by pipes; what this gives sends a request and returns the line that answers it."""
    (theirs, ours), (answers, written) = os.pipe(), os.pipe()
    with open(theirs, "rb") as reads, open(written, "wb") as writes, open(answers) as lines:
        thread = threading.Thread(target=Connection(server, reads, writes).run)
        thread.start()
        with open(ours, "w") as requests:

            def send(method: str, params: object) -> str:
                line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                print(line, file=requests, flush=True)
                return lines.readline()

            yield send
        join(thread)


def test_a_search_by_mcp_goes_through_the_files_that_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = re.findall(r"^- `([\w/]+\.py): ", read_section("search flow"), re.MULTILINE)
    assert f"goes through {len(listed)} files" in " ".join(read_section("search flow").split())
    assert SOURCE / listed[-1] == Path(SnapshotSearch._fetch.__code__.co_filename)
    stacks: list[list[str]] = []
    fetch = SnapshotSearch._fetch

    def watch(search: SnapshotSearch, where: str, *values: object, near: tuple[int, ...] = ()) -> None:
        stacks.append([frame.filename for frame in traceback.extract_stack()[:-1]])
        fetch(search, where, *values, near=near)

    monkeypatch.setattr(SnapshotSearch, "_fetch", watch)
    memory = Memory(
        StoreAddress(folder=tmp_path / "store"), Settings(embedder="hashed", background=False), say=lambda _: None
    )
    memory.engine.write(MCP, text="The boat is red.")
    with ask(Server(memory)) as send:
        send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test"}})
        answer = send("tools/call", {"name": "search_context", "arguments": {"query": "boat"}})
    memory.close()
    assert "The boat is red." in answer
    files = [Path(each) for each in stacks[-1]]
    way = dict.fromkeys(file.relative_to(SOURCE).as_posix() for file in files if file.is_relative_to(SOURCE))
    assert list(way) == listed


def sections_of_packages() -> dict[str, str]:
    """The section that is about each package, by the package: `## engine/: what can a door do?`"""
    found: dict[str, str] = {}
    for heading, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", PAGE, re.MULTILINE):
        names, colon, question = heading.replace("\\", "").partition(": ")
        if colon and "/" in names:
            assert question.endswith("?"), heading
            found |= {name.strip("/"): text for name in names.split(", ")}
    return found


def test_every_package_has_its_question_and_every_module_is_named_there() -> None:
    sections = sections_of_packages()
    packages = [file.parent for file in SOURCE.rglob("__init__.py") if file.parent != SOURCE]
    assert len(packages) > 20
    missing = []
    for package in sorted(packages):
        name = package.relative_to(SOURCE).as_posix()
        modules = [file.stem for file in package.glob("*.py") if not file.stem.startswith("__")]
        missing += [f"{name}/{each}.py" for each in modules if f"`{each}.py`" not in sections.get(name, "")]
        missing += [] if name in sections else [f"{name}/"]
    assert sorted(missing) == []
    assert sorted(name for name in sections if not (SOURCE / name).is_dir()) == []


def test_no_module_is_named_that_there_is_not() -> None:
    for package, text in sections_of_packages().items():
        named = re.findall(r"`([\w/]+\.py)`", text)
        homes = (SOURCE / package, SOURCE, ROOT)
        assert [each for each in named if not any((home / each).exists() for home in homes)] == [], package


def test_every_setting_is_listed() -> None:
    (count, listed) = re.search(r"There are (\d+) settings: ([^.]*)\.", PAGE).groups()  # type: ignore[union-attr]
    assert re.findall(r"`(\w+)`", listed) == [each.name for each in fields(Settings)]
    assert int(count) == len(fields(Settings))


def list_names() -> Iterator[str]:
    """The names of the source that the page shows as code: `Engine.change`, `seq`, `WordIndex`."""
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`\n]+)`", prose):
        if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", code) and not code.endswith((".py", ".md", ".toml", ".db")):
            yield from code.split(".")


def test_every_name_that_is_shown_as_code_is_in_the_source() -> None:
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql")]
    words = set(re.findall(r"\w+", " ".join(file.read_text() for file in files)))
    names = set(list_names())
    assert {"Engine", "change", "seq"} <= names
    systems = {"LockFileEx", "lockf"}
    assert sorted(names - words - systems) == []
