"""Many agents on one tree: no edit is lost, and who comes too late is told so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.waiting import join

from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.files import Result, dispatch, home, log
from cofio.files.paths import list_parents
from cofio.values.changes import Change

from .conftest import SETTINGS, Tool

A = "/memories/a.md"
B = "/memories/b.md"
CHANGED = "Error: The file {} was changed by someone else at the same time; view it again, then repeat the edit"


@pytest.fixture
def engines(store_address: StoreAddress) -> Iterator[list[Engine]]:
    """Two engines on one store, as two processes would have."""
    with (
        Engine.open(store_address, settings=SETTINGS) as first,
        Engine.open(store_address, settings=SETTINGS) as second,
    ):
        yield [first, second]


def at_once(count: int, work: Callable[[int], list[Result]]) -> list[Result]:
    """What so many threads got who began at the same time."""
    ready = threading.Barrier(count)

    def begin(number: int) -> list[Result]:
        ready.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return [result for results in pool.map(begin, range(count)) for result in results]


@pytest.mark.requirement("edits.replace", "edits.insert", "edits.one-transaction")
def test_edits_by_many_threads_of_two_engines_are_made_or_refused_and_never_lost(engines: list[Engine]) -> None:
    threads, each = 8, 10
    Tool(engines[0], home()).made(A, "".join(f"<{number}>\n" for number in range(threads)))
    Tool(engines[0], home()).made(B, "")

    def replace(number: int) -> list[Result]:
        command = {"command": "str_replace", "path": A, "old_str": f"<{number}>", "new_str": f"x<{number}>"}
        return [dispatch(engines[number % 2], home(), command) for _ in range(each)]

    def insert(number: int) -> list[Result]:
        command = {"command": "insert", "path": B, "insert_line": 0}
        return [dispatch(engines[number % 2], home(), command | {"insert_text": f"{number}-{n}"}) for n in range(each)]

    assert not [result for result in at_once(threads, replace) if result.is_error]
    assert Tool(engines[1], home()).text(A) == "".join(f"{'x' * each}<{number}>\n" for number in range(threads))
    assert len(log(engines[0], home(), A)) == 50
    results = at_once(threads, insert)
    lines = (Tool(engines[1], home()).text(B) or "").splitlines()
    assert len(lines) == len(set(lines)) == sum(not result.is_error for result in results) >= each
    assert {result.content for result in results} <= {f"The file {B} has been edited.", CHANGED.format(B)}
    assert engines[0].check() == []


class Meanwhile:
    """Someone who is faster: does something just before the next changes are made, so many times."""

    def __init__(self, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tool = tool
        self.monkeypatch = monkeypatch

    def __call__(self, act: Callable[[], object], times: int = 1) -> None:
        apply, left = type(self.tool.engine).apply, [times]

        def slow(engine: Engine, changes: list[Change]) -> object:
            if left[0]:
                left[0] -= 1
                self.monkeypatch.setattr(Engine, "apply", apply)
                act()
                self.monkeypatch.setattr(Engine, "apply", slow)
            return apply(engine, changes)

        self.monkeypatch.setattr(Engine, "apply", slow)


@pytest.fixture
def meanwhile(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Lets another agent be faster."""
    return Meanwhile(tool, monkeypatch)


@pytest.mark.requirement("edits.replace")
def test_a_replacement_is_made_in_the_new_text_only_where_that_is_safe(tool: Tool, meanwhile: Meanwhile) -> None:
    tool.made(A, "one\ntwo\n")
    meanwhile(lambda: tool.insert(path=A, insert_line=0, insert_text="zero"))
    said = tool.str_replace(path=A, old_str="two", new_str="2").content
    assert said.endswith("     1\tzero\n     2\tone\n     3\t2\n     4\t")
    meanwhile(lambda: tool.insert(path=A, insert_line=0, insert_text="one"))
    said = tool.str_replace(path=A, old_str="one", new_str="1").content
    assert said.startswith("No replacement was performed. Multiple")
    assert tool.text(A) == "one\nzero\none\n2\n"


@pytest.mark.requirement("edits.insert")
def test_an_insert_after_a_line_that_may_have_moved_is_refused(tool: Tool, meanwhile: Meanwhile) -> None:
    tool.made(A, "one\n")

    def to_and_fro() -> None:
        tool.str_replace(path=A, old_str="one", new_str="two")
        tool.str_replace(path=A, old_str="two", new_str="one")

    meanwhile(to_and_fro)
    assert not tool.insert(path=A, insert_line=1, insert_text="x").is_error
    assert tool.text(A) == "one\nx\n"
    meanwhile(lambda: tool.str_replace(path=A, old_str="one", new_str="zero\none"))
    assert tool.insert(path=A, insert_line=1, insert_text="y").content == CHANGED.format(A)
    assert tool.text(A) == "zero\none\nx\n"


@pytest.mark.requirement("edits.create", "tree.file-or-directory")
def test_the_later_of_two_who_create_is_told_what_is_there(tool: Tool, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: tool.made("/memories/b", "first"))
    assert tool.create(path="/memories/b", file_text="second").content == "Error: File /memories/b already exists"
    meanwhile(lambda: tool.made(f"{A}/b", "below"))
    assert tool.create(path=A, file_text="x").content == f"Error: File {A} already exists"
    meanwhile(lambda: tool.made("/memories/c", "a file"))
    assert tool.create(path="/memories/c/d", file_text="x").content.endswith("under /memories/c, which is a file")
    assert tool.files == {f"{A}/b": "below", "/memories/b": "first", "/memories/c": "a file"}


@pytest.mark.requirement("edits.move")
def test_a_delete_and_a_rename_take_what_is_there_by_then(tool: Tool, meanwhile: Meanwhile) -> None:
    tool.made("/memories/d/x", "x")
    meanwhile(lambda: tool.str_replace(path="/memories/d/x", old_str="x", new_str="y"))
    assert not tool.rename(old_path="/memories/d", new_path="/memories/e").is_error
    assert tool.files == {"/memories/e/x": "y"}
    meanwhile(lambda: tool.made("/memories/f/z", "z"))
    assert (
        tool.rename(old_path="/memories/e", new_path="/memories/f").content
        == "Error: The destination /memories/f already exists"
    )
    meanwhile(lambda: tool.delete(path="/memories/e"))
    assert tool.delete(path="/memories/e").content == "Error: The path /memories/e does not exist"
    meanwhile(lambda: tool.str_replace(path="/memories/f/z", old_str="z", new_str="last words"))
    assert not tool.delete(path="/memories/f").is_error
    assert [each.text for each in tool.tree.log("/memories/f/z")] == ["last words", "z"]
    assert tool.files == {}


@pytest.mark.requirement("edits.bounded")
def test_who_is_never_fast_enough_gives_up(tool: Tool, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.engine.retries.LONGEST_PAUSE", 0.0)
    tool.made(A, "one\n")
    meanwhile(lambda: tool.str_replace(path=A, old_str="one", new_str=" one"), times=1000)
    said = tool.str_replace(path=A, old_str="one", new_str="1")
    assert said.content == f"Error: The path {A} is being changed by others all the time; nothing was done, try again"


@pytest.mark.requirement("edits.directory")
def test_a_directory_moves_or_goes_as_a_whole(engines: list[Engine]) -> None:
    tool = Tool(engines[0], home())
    for number in range(30):
        tool.made(f"/memories/d/{number}", str(number))
    stop = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while not stop.is_set():
            seen.append(len(Tool(engines[1], home()).tree.list_files("/memories/d")))

    watching = threading.Thread(target=watch)
    watching.start()
    for _ in range(5):
        tool.rename(old_path="/memories/d", new_path="/memories/e")
        tool.rename(old_path="/memories/e", new_path="/memories/d")
    tool.delete(path="/memories/d")
    stop.set()
    join(watching)
    assert set(seen) <= {0, 30}


@pytest.mark.requirement("edits.one-transaction", "tree.file-or-directory")
def test_a_tree_stays_a_tree_whatever_many_do_to_it(engines: list[Engine]) -> None:
    paths = ["/memories/a", "/memories/a/b", "/memories/a/b/c", "/memories/d", "/memories/d/a"]

    def work(number: int) -> list[Result]:
        results = []
        for turn in range(25):
            path, other = paths[(number + turn) % 5], paths[(number * 3 + turn * 2) % 5]
            for command in (
                {"command": "create", "path": path, "file_text": f"{number} {turn}"},
                {"command": "rename", "old_path": path, "new_path": other},
                {"command": "delete", "path": other},
            ):
                results.append(dispatch(engines[number % 2], home(), command))
        return results

    results = at_once(6, work)
    assert not [result.content for result in results if "all the time" in result.content]
    files = Tool(engines[0], home()).files
    assert not [path for path in files if set(list_parents(path)) & set(files)]
    assert engines[0].check() == []
