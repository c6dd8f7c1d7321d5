"""The seed's profile: so many calls for each quest, however many workers there are."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cofio import Engine, Invalid
from cofio.files import Limiter, Quest, dispatch, home

from .conftest import Tool


@pytest.mark.requirement("seed.limit", "seed.limit-text", "seed.limit-counts", "seed.limit-off", "seed.reset")
def test_the_21st_call_of_a_quest_is_refused_until_the_next_quest_and_every_call_counts(engine: Engine) -> None:
    quest = Quest(engine, home("quest"))
    assert quest.dispatch({"command": "nope"}).content == "Error: Unknown command: nope"
    assert quest.dispatch({"command": "view", "path": "none"}).is_error
    for number in range(18):
        assert not quest.dispatch({"command": "create", "path": f"n/{number}.md", "file_text": "x"}).is_error
    for _ in range(3):
        said = quest.dispatch({"command": "create", "path": "late.md", "file_text": "x"})
        assert (said.content, said.is_error) == ("rate limit exceeded", True)
    free = Tool(engine, home("quest"))  # has no limit
    assert len(free.files) == 18
    assert not any(free.view(path="/memories").is_error for _ in range(30))
    quest.reset_for_new_quest()
    assert not quest.dispatch({"command": "create", "path": "late.md", "file_text": "x"}).is_error


@pytest.mark.requirement("seed.quick-start", "seed.relative-only", "seed.replace-first")
def test_a_quest_works_as_the_seed_shows_it(engine: Engine) -> None:
    quest = Quest(engine, home(), calls=20)
    written = "Always use kebab-case for file names."
    path = "project/decisions.md"
    result = quest.dispatch({"command": "create", "path": path, "file_text": written})
    assert not result.is_error
    assert quest.dispatch({"command": "view", "path": path, "view_range": None}).content == (
        f"Here's the content of {path} with line numbers:\n     1\t{written}"
    )
    assert quest.dispatch({"command": "view", "path": f"/memories/{path}"}).is_error
    assert quest.dispatch({"command": "create", "path": path, "file_text": "x"}).is_error
    assert not quest.dispatch({"command": "str_replace", "path": path, "old_str": "e", "new_str": "E"}).is_error
    assert Tool(engine, home()).text(f"/memories/{path}") == "Always usE kebab-case for file names."
    assert not quest.dispatch({"command": "insert", "path": path, "insert_line": 0, "insert_text": "# First"}).is_error
    assert not quest.dispatch({"command": "rename", "old_path": path, "new_path": "old.md"}).is_error
    assert not quest.dispatch({"command": "delete", "path": "old.md"}).is_error


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
