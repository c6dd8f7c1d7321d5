"""The seed's profile: so many calls for each quest, however many workers there are."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from cofio import Engine, Invalid
from cofio.files import Limiter, dispatch, home
from cofio.library.heptagent import (
    CofioMemoryBackend,
    MemoryBackend,
    MemoryCommand,
    MemoryDispatcher,
    MemoryResult,
    QuestRateLimiter,
)

from .conftest import Tool


class Quest:
    """A dispatcher, asked from where there is no event loop."""

    def __init__(self, backend: MemoryBackend, calls: int = 20) -> None:
        self.dispatcher = MemoryDispatcher(backend, QuestRateLimiter(calls))

    def ask(self, command: MemoryCommand | dict[str, Any] | str) -> MemoryResult:
        return asyncio.run(self.dispatcher.dispatch(command))


@pytest.mark.requirement("seed.limit", "seed.limit-text", "seed.limit-counts", "seed.limit-off", "seed.reset")
def test_the_21st_call_of_a_quest_is_refused_until_the_next_quest_and_every_call_counts(engine: Engine) -> None:
    quest = Quest(CofioMemoryBackend(engine, "quest"))
    assert "'nope' is not one of view, create" in quest.ask({"command": "nope"}).content
    assert quest.ask(MemoryCommand.View("none")).is_error
    for number in range(18):
        assert not quest.ask(MemoryCommand.Create(f"n/{number}.md", "x")).is_error
    for _ in range(3):
        said = quest.ask(MemoryCommand.Create("late.md", "x"))
        assert (said.content, said.is_error) == ("rate limit exceeded", True)
    free = Tool(engine, home("quest"))  # has no limit
    assert len(free.files) == 18
    assert not any(free.view(path="/memories").is_error for _ in range(30))
    quest.dispatcher.reset_for_new_quest()
    assert not quest.ask(MemoryCommand.Create("late.md", "x")).is_error


@pytest.mark.requirement("seed.quick-start", "seed.relative-only", "seed.replace-first")
def test_a_quest_works_as_the_seed_shows_it(engine: Engine) -> None:
    quest, path = Quest(CofioMemoryBackend(engine)), "project/decisions.md"
    written = "Always use kebab-case for file names."
    assert not quest.ask(MemoryCommand.Create(path=path, file_text=written)).is_error
    assert quest.ask(MemoryCommand.View(path=path, view_range=None)).content == (
        f"Here's the content of {path} with line numbers:\n     1\t{written}"
    )
    for bad in (f"/memories/{path}", "../up.md", "\\up.md", "", "/etc/passwd"):
        assert quest.ask(MemoryCommand.View(bad)).is_error, bad
    assert quest.ask(MemoryCommand.Create(path, "x")).is_error
    assert not quest.ask(MemoryCommand.StrReplace(path, "e", "E")).is_error
    assert Tool(engine, home()).text(f"/memories/{path}") == "Always usE kebab-case for file names."
    assert not quest.ask(MemoryCommand.Insert(path, 0, "# First")).is_error
    assert not quest.ask(MemoryCommand.Rename(path, "old.md")).is_error
    assert not quest.ask('{"command": "delete", "path": "old.md"}').is_error


@pytest.mark.requirement("seed.strict")
def test_a_command_is_parsed_strictly() -> None:
    command = MemoryCommand.from_json(b'{"command": "view", "path": "a.md", "view_range": [1, 2]}')
    assert command == MemoryCommand.View("a.md", [1, 2])
    assert MemoryCommand.from_json(command.to_dict()) == command
    for wrong in (
        "{", "[]", '"view"', {}, {"command": None, "path": "a"}, {"command": "View", "path": "a"}, {"command": "view"},
        {"command": "view", "path": 1}, {"command": "view", "path": "a", "more": 1},
        {"command": "view", "path": "a", "view_range": [1]}, {"command": "view", "path": "a", "view_range": [1, True]},
        {"command": "insert", "path": "a", "insert_line": "1", "insert_text": "x"},
    ):  # fmt: skip
        with pytest.raises(Invalid):
            MemoryCommand.from_json(cast(Any, wrong))


@pytest.mark.requirement("seed.backend")
def test_a_backend_of_ones_own_is_six_coroutines() -> None:
    class Echo:
        """Answers with what it was asked."""

        def __getattr__(self, name: str) -> Any:
            async def answer(**arguments: object) -> MemoryResult:
                return MemoryResult(f"{name} {arguments}")

            return answer

    quest = Quest(cast(MemoryBackend, Echo()))
    assert quest.ask(MemoryCommand.Delete("a.md")).content == "delete {'path': 'a.md'}"


@pytest.mark.requirement("seed.limit-atomic")
def test_a_hundred_workers_at_once_get_no_more_than_the_limit(engine: Engine) -> None:
    limiter, workers = Limiter(20), 100
    ready = threading.Barrier(workers)

    def work(number: int) -> bool:
        ready.wait(60)
        return not dispatch(engine, home(), {"command": "view", "path": "/memories"}, limiter=limiter).is_error

    with ThreadPoolExecutor(workers) as pool:
        assert sum(pool.map(work, range(workers))) == 20
    limiter.reset_for_new_quest()
    with ThreadPoolExecutor(workers) as pool:
        assert sum(pool.map(lambda _: sum(limiter.take() for _ in range(100)), range(workers))) == 20


@pytest.mark.requirement("seed.limit")
@pytest.mark.parametrize("calls", [-1, 1.5, "20", True, None])
def test_a_limit_is_a_whole_number(calls: int) -> None:
    with pytest.raises(Invalid):
        Limiter(calls)
    assert not Limiter(0).take()
