"""The states of threads: whatever is saved, deleted and copied, each state comes back as it was saved."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from cofio import Engine, Invalid, LimitExceeded, Scope, Settings, Unavailable
from cofio.backends.checkpoint_interface import PendingWrite, ThreadKey
from cofio.backends.interface import Backend
from cofio.backends.upkeep_interface import Tidy
from cofio.checkpoints.cache import SizedCache
from cofio.checkpoints.checkpoints import DEPTH, MAX_NAME, Checkpoint, Checkpoints
from cofio.config.address import StoreAddress
from cofio.engine.opening import open_backend

from ..conftest import Stores

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "library"


class Ticking:
    """A clock that moves with each look, unless it is held."""

    def __init__(self) -> None:
        self.now = NOW
        self.step = timedelta(microseconds=1)

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


@pytest.fixture
def ticking() -> Ticking:
    """The time."""
    return Ticking()


@pytest.fixture
def clock(ticking: Ticking) -> Ticking:
    """The clock of the stores."""
    return ticking


@pytest.fixture
def checkpoints(backend: Backend) -> Checkpoints:
    """No checkpoints yet."""
    return Checkpoints(backend)


@pytest.fixture
def others(open_backend: Callable[[], Backend]) -> Checkpoints:
    """The same checkpoints, as another process sees them."""
    return Checkpoints(open_backend())


def chat(turns: int, *, about: str = "the weather in Wales") -> dict[str, Any]:
    """A state with so many turns."""
    return {
        "messages": [{"role": "user", "content": f"turn {turn}: {about}", "metadata": {}} for turn in range(turns)],
        "iteration": turns,
    }


def fill(checkpoints: Checkpoints, turns: int, thread: str = "t") -> None:
    """Save a chat after each of its turns."""
    for turn in range(turns):
        checkpoints.save(SPACE, thread, f"c{turn}", chat(turn + 1))


def state(checkpoints: Checkpoints, id: str | None = None, thread: str = "t") -> Any:
    """The state of a checkpoint."""
    found = checkpoints.load(SPACE, thread, id)
    return found and found.state


def longest_chain(backend: Backend, thread: str = "t") -> int:
    """How many changes the state that is furthest from a whole one is made of."""
    with backend.snapshot() as snapshot:
        rows = snapshot.checkpoints
        return max(len(rows.chain(each.row)) - 1 for each in rows.list_rows(SPACE, thread, ""))


# Saving and loading.


def test_what_was_saved_elsewhere_keeps_its_times_and_does_not_replace_what_is_as_new(checkpoints: Checkpoints) -> None:
    def make(id: str, state: Any, days: int, expires_at: datetime | None = None) -> Checkpoint:
        return Checkpoint(
            thread="t", ns="", id=id, parent=None, metadata={"n": id}, created_at=NOW - timedelta(days=days),
            expires_at=expires_at, state=state,
        )  # fmt: skip

    elsewhere = [make("old", {"n": 1}, 9), make("mortal", {"n": 2}, 8, NOW + timedelta(days=1)), make("both", [1], 7)]
    checkpoints.save(SPACE, "t", "both", {"n": "ours"})
    checkpoints.save(SPACE, "t", "next", {"n": "ours", "more": ["x"] * 50})
    for _ in range(2):  # the second time there is nothing left to do
        checkpoints.restore(SPACE, elsewhere)
        assert [each.id for each in checkpoints.list(SPACE, "t")] == ["mortal", "old", "next", "both"]
    loaded = checkpoints.load(SPACE, "t", "mortal")
    assert loaded == elsewhere[1]
    assert [each.created_at for each in checkpoints.list(SPACE, "t")][1] == NOW - timedelta(days=9)
    checkpoints.restore(SPACE, [make("both", {"n": "newer"}, -1)])
    states = [found.state for name in ("both", "next") if (found := checkpoints.load(SPACE, "t", name))]
    assert states == [{"n": "newer"}, {"n": "ours", "more": ["x"] * 50}]
    with pytest.raises(LimitExceeded):
        checkpoints.restore(SPACE, [make("fine", {}, 0), make("x" * (MAX_NAME + 1), {}, 0)])
    assert checkpoints.load(SPACE, "t", "fine") is None


def test_a_state_comes_back_as_it_was_saved(checkpoints: Checkpoints, others: Checkpoints) -> None:
    saved = checkpoints.save(SPACE, "t", "c", chat(3), metadata={"step": 1, "who": "ann"}, parent="b")
    for each in (checkpoints, others):
        found = each.load(SPACE, "t", "c")
        assert found is not None
        assert (found.state, found.metadata, found.parent) == (chat(3), {"step": 1, "who": "ann"}, "b")
        assert (found.created_at, found.expires_at, found.thread, found.ns) == (saved.created_at, None, "t", "")


def test_what_is_not_there_is_none(checkpoints: Checkpoints) -> None:
    assert checkpoints.load(SPACE, "t") is None
    fill(checkpoints, 1)
    assert checkpoints.load(SPACE, "t", "x") is None
    assert checkpoints.load(SPACE, "T") is None
    assert checkpoints.load("langgraph", "t") is None
    assert checkpoints.load(SPACE, "t", ns="x") is None
    assert checkpoints.heading(SPACE, "x") is None


def test_the_newest_is_the_one_saved_last_or_that_of_the_highest_id(checkpoints: Checkpoints) -> None:
    for each in ("b", "c", "a"):
        checkpoints.save(SPACE, "t", each, {"id": each})
    assert state(checkpoints) == {"id": "a"}
    highest = checkpoints.load(SPACE, "t", by_id=True)
    assert highest is not None
    assert highest.id == "c"
    assert [each.id for each in checkpoints.list(SPACE, "t")] == ["a", "c", "b"]
    assert [each.id for each in checkpoints.list(SPACE, "t", by_id=True)] == ["c", "b", "a"]
    assert [each.id for each in checkpoints.list(SPACE, "t", by_id=True, before="c", limit=1)] == ["b"]


def test_the_newest_is_the_last_saved_though_the_clock_stands_or_goes_back(
    checkpoints: Checkpoints, ticking: Ticking
) -> None:
    ticking.step = timedelta(0)
    fill(checkpoints, 20)
    assert [each.id for each in checkpoints.list(SPACE, "t", limit=20)] == [f"c{n}" for n in reversed(range(20))]
    ticking.now -= timedelta(days=300)
    checkpoints.save(SPACE, "t", "late", chat(4))
    assert state(checkpoints) == chat(4)


def test_a_long_thread_is_kept_in_short_chains(checkpoints: Checkpoints, others: Checkpoints, backend: Backend) -> None:
    fill(checkpoints, 100)
    assert longest_chain(backend) <= DEPTH
    for turn in range(100):
        assert state(others, f"c{turn}") == chat(turn + 1)


def test_an_id_is_saved_to_again(checkpoints: Checkpoints, others: Checkpoints) -> None:
    fill(checkpoints, 20)
    for turn in range(5):
        checkpoints.save(SPACE, "t", "c3", {"new": turn})
    for each in (checkpoints, others):
        assert state(each) == {"new": 4}
        assert [listed.id for listed in each.list(SPACE, "t", limit=2)] == ["c3", "c19"]
        assert all(state(each, f"c{n}") == chat(n + 1) for n in range(20) if n != 3)


def test_a_state_that_is_given_up_or_handed_out_cannot_be_reached_into(checkpoints: Checkpoints) -> None:
    given = chat(2)
    checkpoints.save(SPACE, "t", "c0", given)
    given["messages"][0]["content"] = "changed"
    loaded = state(checkpoints)
    loaded["messages"].clear()
    checkpoints.save(SPACE, "t", "c1", chat(3))
    assert state(checkpoints, "c0") == chat(2)
    assert state(checkpoints, "c1") == chat(3)


def test_parts_and_spaces_are_threads_of_their_own(checkpoints: Checkpoints) -> None:
    checkpoints.save(SPACE, "t", "c", {"n": 1})
    checkpoints.save(SPACE, "t", "c", {"n": 2}, ns="sub|x:1")
    checkpoints.save("langgraph", "t", "c", {"n": 3})
    found = [checkpoints.load(space, "t", ns=ns) for space, ns in ((SPACE, ""), (SPACE, "sub|x:1"), ("langgraph", ""))]
    assert [each and each.state for each in found] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert len(checkpoints.list(SPACE, "t")) == 2
    assert checkpoints.delete(SPACE, "t") == 2
    assert checkpoints.load("langgraph", "t") is not None


def test_any_json_is_a_state(checkpoints: Checkpoints, others: Checkpoints) -> None:
    values: list[Any] = [
        "", "\ud800 half", "日本語 🙂", 10**400, 1e308, float("inf"), -0.0, None, True, [], {}, [[[[]]]],
        {"": {"": 0}}, "\0",
    ]  # fmt: skip
    for n, value in enumerate(values):
        checkpoints.save(SPACE, "t", f"a{n}", {"x": value})
        checkpoints.save(SPACE, "t", f"b{n}", {"x": value, "y": [value, value]})
        assert state(others, f"a{n}") == {"x": value}
        assert state(others, f"b{n}") == {"x": value, "y": [value, value]}
    checkpoints.save(SPACE, "t", "c", {"k": {1: "x"}, "t": (1, 2)})  # what is not quite JSON
    assert state(checkpoints) == state(others) == {"k": {"1": "x"}, "t": [1, 2]}


def test_a_large_state(checkpoints: Checkpoints, others: Checkpoints) -> None:
    large = {"text": "".join(chr(32 + (n * n) % 90) for n in range(3_000_000)), "n": 0}
    checkpoints.save(SPACE, "t", "a", large)
    checkpoints.save(SPACE, "t", "b", {**large, "n": 1})
    assert state(others, "b") == {**large, "n": 1}
    assert checkpoints.measure(SPACE, "t").whole == 1


def test_bad_input_is_refused_and_changes_nothing(checkpoints: Checkpoints) -> None:
    loop: list[Any] = []
    loop.append(loop)
    good: dict[str, Any] = {"thread": "t", "id": "c", "state": {}}
    refused: list[dict[str, Any]] = [
        {"thread": ""}, {"id": ""}, {"thread": "t\0"}, {"thread": "t" * (MAX_NAME + 1)}, {"state": {"x": object()}},
        {"state": loop}, {"state": {"x": {1, 2}}}, {"metadata": ["x"]}, {"metadata": {1: 2}},
        {"metadata": {"x": object()}}, {"ttl": 0}, {"ttl": float("nan")}, {"ttl": True}, {"parent": ""},
        {"ns": "x" * 5000},
    ]  # fmt: skip
    for bad in refused:
        with pytest.raises(Invalid):
            checkpoints.save(SPACE, **good | bad)
    assert checkpoints.threads(SPACE) == []
    with pytest.raises(Invalid):
        checkpoints.list(SPACE, limit=-1)
    with pytest.raises(LimitExceeded):
        checkpoints.load(SPACE, "t" * (MAX_NAME + 1))


# Listing and searching.


def test_checkpoints_are_listed_by_what_their_metadata_holds(checkpoints: Checkpoints) -> None:
    some: list[dict[str, Any]] = [{"a": 1}, {"a": True}, {"a": 1.0, "b": None}, {"a": [1]}, {"b": None}, {}]
    for n, metadata in enumerate(some):
        checkpoints.save(SPACE, f"t{n}", "c", {}, metadata=metadata)

    def threads(**where: Any) -> list[str]:
        return [each.thread for each in checkpoints.list(SPACE, where=where)]

    assert threads(a=1) == ["t2", "t0"]
    assert threads(a=True) == ["t1"]
    assert threads(a=[1]) == ["t3"]
    assert threads(b=None) == ["t4", "t2"]
    assert threads(a=1, b=None) == ["t2"]
    assert len(checkpoints.list(SPACE, limit=3)) == 3


def test_threads_are_listed_by_pattern_the_one_saved_to_last_first(checkpoints: Checkpoints) -> None:
    for thread in ("chat-1", "chat-2", "job-1", "chat-1"):
        checkpoints.save(SPACE, thread, "c", {})
    assert checkpoints.threads(SPACE) == ["chat-1", "job-1", "chat-2"]
    assert checkpoints.threads(SPACE, pattern="chat-*") == ["chat-1", "chat-2"]
    assert checkpoints.threads(SPACE, limit=1) == ["chat-1"]
    checkpoints.delete(SPACE, "job-1", "c")
    assert "job-1" not in checkpoints.threads(SPACE)


def test_a_search_finds_where_something_was_first_said(checkpoints: Checkpoints, others: Checkpoints) -> None:
    fill(checkpoints, 10)
    checkpoints.save(SPACE, "t", "told", {**chat(10), "note": "Ann's locker is number forty-two"})
    checkpoints.save(SPACE, "t", "later", {**chat(12), "note": "Ann's locker is number forty-two"})
    checkpoints.save("langgraph", "t", "other", {"note": "locker"})
    found = others.search(SPACE, "which locker?")
    assert [each.id for each, _ in found] == ["told"]
    assert found[0][1] > 0
    checkpoints.delete(SPACE, "t", "told")
    assert [each.id for each, _ in others.search(SPACE, "locker")] == ["later"]
    checkpoints.delete(SPACE, "t")
    assert others.search(SPACE, "locker") == []


def test_any_text_can_be_searched_for(checkpoints: Checkpoints) -> None:
    checkpoints.save(SPACE, "t", "c", {"text": "日本語 and others"})
    for query in ("", '"', "AND OR NOT", "AND others*", "a* (b", "\0", "日本"):
        found = [each.id for each, _ in checkpoints.search(SPACE, query)]
        assert found == (["c"] if query in ("日本", "AND others*") else []), query


def test_a_thread_is_found_that_holds_all_of_the_words_once_at_the_checkpoint_that_brought_the_last(
    checkpoints: Checkpoints,
) -> None:
    checkpoints.save(SPACE, "apart", "a1", {"said": ["apple trees"]})
    checkpoints.save(SPACE, "apart", "a2", {"said": ["apple trees", "a pie"]})
    checkpoints.save(SPACE, "apart", "a3", {"said": ["apple trees", "a pie", "apple pie again"]})
    checkpoints.save(SPACE, "at-once", "b1", {"said": ["apple pie"]})
    checkpoints.save(SPACE, "half", "c1", {"said": ["apple"]}, metadata={"topic": "orchards"})
    assert [(each.thread, each.id) for each, _ in checkpoints.search(SPACE, "apple pie")] == [
        ("at-once", "b1"), ("apart", "a2"),
    ]  # fmt: skip
    assert [each.thread for each, _ in checkpoints.search(SPACE, "apple orchards")] == ["half"]
    assert [each.thread for each, _ in checkpoints.search(SPACE, "apple", limit=2)] == ["half", "at-once"]


def test_a_thread_that_says_something_often_does_not_hide_another(checkpoints: Checkpoints) -> None:
    checkpoints.save(SPACE, "b", "c", {"said": "an order"})
    for n in range(260):
        checkpoints.save(SPACE, "a", f"c{n}", {"said": [f"order {n}"]})
    assert {each.thread for each, _ in checkpoints.search(SPACE, "order")} == {"a", "b"}


def test_a_search_stays_in_its_space(checkpoints: Checkpoints) -> None:
    for space in ("langgraph", SPACE):
        checkpoints.save(space, f"of-{space}", "c0", {"said": "rhubarb"})
    assert [each.thread for each, _ in checkpoints.search(SPACE, "rhubarb")] == [f"of-{SPACE}"]
    for n in range(5):
        checkpoints.save("langgraph", "of-langgraph", f"d{n}", {"said": ["rhubarb"] * n})
    checkpoints.delete("langgraph", "of-langgraph", "c0")
    assert [each.thread for each, _ in checkpoints.search(SPACE, "rhubarb")] == [f"of-{SPACE}"]
    assert [each.thread for each, _ in checkpoints.search("langgraph", "rhubarb")] == ["of-langgraph"]


# Deleting.


def test_what_was_a_change_of_a_deleted_one_stays(
    checkpoints: Checkpoints, others: Checkpoints, backend: Backend
) -> None:
    fill(checkpoints, 60)
    gone = {0, 4, 16, 17, 20, 32, 48, 59}
    for n in gone:
        assert checkpoints.delete(SPACE, "t", f"c{n}") == 1
    for each in (checkpoints, others):
        for n in range(60):
            assert state(each, f"c{n}") == (None if n in gone else chat(n + 1))
    assert state(others) == chat(59)
    assert longest_chain(backend) <= DEPTH
    checkpoints.save(SPACE, "t", "next", chat(61))
    assert state(others) == chat(61)


def test_deleting_what_is_not_there_is_said_so(checkpoints: Checkpoints) -> None:
    assert checkpoints.delete(SPACE, "t") == 0
    fill(checkpoints, 1)
    assert checkpoints.delete(SPACE, "t", "x") == 0
    assert checkpoints.remove(SPACE, [("t", "", "c0"), ("t", "", "c0"), ("x", "", "c0")]) == 1


def test_another_process_deletes_what_this_one_goes_on_from(checkpoints: Checkpoints, others: Checkpoints) -> None:
    fill(checkpoints, 10)
    others.delete(SPACE, "t")
    assert state(checkpoints) is None
    checkpoints.save(SPACE, "t", "new", chat(11))
    assert state(others) == chat(11)
    others.delete(SPACE, "t", "new")
    fill(checkpoints, 5)
    assert state(others) == chat(5)


def test_what_was_deleted_is_never_taken_for_what_came_after_it(
    checkpoints: Checkpoints, others: Checkpoints, ticking: Ticking
) -> None:
    ticking.step = timedelta(0)
    checkpoints.save(SPACE, "t", "one", chat(10))
    checkpoints.save(SPACE, "t", "two", chat(11))
    assert state(others) == chat(11)
    checkpoints.delete(SPACE, "t", "two")
    checkpoints.save(SPACE, "t", "three", chat(12))
    assert state(others) == chat(12)
    others.save(SPACE, "t", "four", chat(13))
    assert state(checkpoints) == chat(13)
    assert checkpoints.check() == []


def test_old_ones_are_cleared_away(checkpoints: Checkpoints, ticking: Ticking) -> None:
    fill(checkpoints, 5)
    ticking.now += timedelta(days=10)
    checkpoints.save(SPACE, "t", "new", chat(6))
    assert checkpoints.vacuum(SPACE, timedelta(days=11)) == 0
    assert checkpoints.vacuum(SPACE, timedelta(days=9)) == 5
    assert [each.id for each in checkpoints.list(SPACE, "t")] == ["new"]
    assert state(checkpoints) == chat(6)


def test_a_checkpoint_expires_and_what_it_was_the_base_of_does_not(
    checkpoints: Checkpoints, others: Checkpoints, ticking: Ticking
) -> None:
    checkpoints.save(SPACE, "t", "short", chat(10), ttl=60)
    lasting = checkpoints.save(SPACE, "t", "long", chat(11), ttl=timedelta(hours=1))
    assert lasting.expires_at is not None
    ticking.now += timedelta(seconds=61)
    assert [each.id for each in others.list(SPACE, "t")] == ["long"]
    assert state(others, "short") is None
    assert others.heading(SPACE, "t", "short") is None
    assert checkpoints.purge(ticking.now) == 1
    assert state(others) == chat(11)
    ticking.now += timedelta(hours=1)
    assert others.threads(SPACE) == []
    checkpoints.save(SPACE, "t", "long", {"again": 1})
    assert state(others) == {"again": 1}
    assert checkpoints.purge(ticking.now) == 0


# Copies, and what is pending.


def test_a_copy_goes_its_own_way(checkpoints: Checkpoints, others: Checkpoints) -> None:
    fill(checkpoints, 20)
    assert checkpoints.copy(SPACE, "t", "branch") == 20
    checkpoints.save(SPACE, "branch", "b", {"branch": True})
    assert [each.id for each in others.list(SPACE, "branch", limit=2)] == ["b", "c19"]
    assert checkpoints.delete(SPACE, "t") == 20
    assert all(state(others, f"c{n}", "branch") == chat(n + 1) for n in range(20))
    assert checkpoints.copy(SPACE, "nothing", "x") == 0


def test_a_copy_replaces_no_thread_and_leaves_out_what_has_expired(checkpoints: Checkpoints, ticking: Ticking) -> None:
    checkpoints.save(SPACE, "t", "c", chat(1), ttl=60)
    fill(checkpoints, 1, thread="there")
    for target in ("there", "t"):
        with pytest.raises(Invalid, match="already"):
            checkpoints.copy(SPACE, "t", target)
    ticking.now += timedelta(seconds=61)
    assert checkpoints.copy(SPACE, "t", "u") == 0
    checkpoints.save(SPACE, "t", "d", chat(2))
    assert checkpoints.copy(SPACE, "t", "u") == 1
    assert state(checkpoints, thread="u") == chat(2)


def write(at: int, value: bytes, task: str = "task", path: str = "") -> PendingWrite:
    """Something that a task wrote."""
    return PendingWrite(task, at, path, "channel", "msgpack", value)


def test_what_is_pending_is_kept_in_order_and_once(checkpoints: Checkpoints, others: Checkpoints) -> None:
    checkpoints.save(SPACE, "t", "c", {})
    checkpoints.write(SPACE, "t", "c", [(write(1, b"b" * 500), False), (write(0, b"a", "z", "~1"), False)])
    checkpoints.write(SPACE, "t", "c", [(write(1, b"ignored"), False), (write(-1, b"error", "a"), True)])
    checkpoints.write(SPACE, "t", "c", [(write(-1, b"another", "a"), True)])
    found = others.load(SPACE, "t", "c", pending=True)
    assert found is not None
    assert [(each.task, each.at, each.value) for each in found.pending] == [
        ("a", -1, b"another"), ("task", 1, b"b" * 500), ("z", 0, b"a"),
    ]  # fmt: skip
    assert checkpoints.copy(SPACE, "t", "copy") == 1
    checkpoints.delete(SPACE, "t", "c")
    copied = others.load(SPACE, "copy", pending=True)
    assert copied is not None
    assert copied.pending == found.pending
    checkpoints.save(SPACE, "t", "c", {})
    again = others.load(SPACE, "t", "c", pending=True)
    assert again is not None
    assert again.pending == ()


def test_writes_may_come_before_their_checkpoint(checkpoints: Checkpoints) -> None:
    checkpoints.write(SPACE, "t", "c", [(write(0, b"early"), False)])
    assert checkpoints.threads(SPACE) == []
    checkpoints.save(SPACE, "t", "c", {})
    found = checkpoints.load(SPACE, "t", pending=True)
    assert found is not None
    assert [each.value for each in found.pending] == [b"early"]


# Damage, several writers, and the whole of it against a dictionary.


def damage(backend: Backend, *ids: str, thread: str = "t", body: bytes = b"\1 no such thing") -> None:
    """Put something else in place of stored states."""

    def work(rows: Any) -> None:
        for each in ids:
            rows.rebase(rows.find_for_save(ThreadKey(SPACE, thread, ""), each, None)[0], None, 0, body)

    backend.transact(lambda transaction: work(transaction.checkpoints))


def test_a_damaged_state_is_named_and_its_thread_goes_on(
    checkpoints: Checkpoints, others: Checkpoints, backend: Backend
) -> None:
    checkpoints.save(SPACE, "t", "base", chat(60))
    checkpoints.save(SPACE, "t", "change", chat(61))
    checkpoints.save(SPACE, "u", "c", chat(3))
    for body in (b'\0{"a": 1}}', b"\1 no such thing"):
        damage(backend, "base", body=body)
        for name in ("base", "change"):  # which is made of the other
            with pytest.raises(Unavailable, match=f"'{name}' is damaged"):
                Checkpoints(backend).load(SPACE, "t", name)
    with pytest.raises(Unavailable, match="damaged"):
        others.load(SPACE, "t")
    others.save(SPACE, "t", "next", chat(6))
    assert state(others) == chat(6)
    assert state(others, "c", "u") == chat(3)
    assert len(others.check()) == 2


def test_a_damaged_state_is_in_nobodys_way(
    checkpoints: Checkpoints, others: Checkpoints, backend: Backend, ticking: Ticking
) -> None:
    fill(checkpoints, 10)
    for n in range(4):
        checkpoints.save(SPACE, "short", f"c{n}", chat(n + 1), ttl=60)
    for thread in ("t", "short"):
        damage(backend, "c2", thread=thread)
    said = others.check()
    assert all(any(f"'{thread}'" in each for each in said) for thread in ("t", "short"))
    assert len(others.search(SPACE, "weather")) == 2
    assert others.delete(SPACE, "t", "c0") == 1
    others.save(SPACE, "t", "after", chat(11), parent="c2")
    assert state(others, "after") == chat(11)
    ticking.now += timedelta(seconds=61)
    assert others.purge(ticking.now) == 4
    assert state(others) == chat(11)
    assert others.delete(SPACE, "t", "c2") == 1


def test_the_words_of_metadata_stay_when_a_state_becomes_a_change_of_another(checkpoints: Checkpoints) -> None:
    checkpoints.save(SPACE, "t", "a", chat(60))
    checkpoints.save(SPACE, "t", "b", chat(61), metadata={"topic": "orchards"})
    assert checkpoints.measure(SPACE, "t").whole == 1
    assert [each.id for each, _ in checkpoints.search(SPACE, "orchards")] == ["b"]
    checkpoints.delete(SPACE, "t", "a")
    assert [each.id for each, _ in checkpoints.search(SPACE, "orchards weather")] == ["b"]


def test_what_is_pending_goes_with_what_has_expired(checkpoints: Checkpoints, ticking: Ticking) -> None:
    checkpoints.save(SPACE, "t", "c", {}, ttl=60)
    checkpoints.save(SPACE, "t", "d", {})
    checkpoints.write(SPACE, "t", "c", [(write(0, b"gone"), False)])
    ticking.now += timedelta(seconds=61)
    assert checkpoints.purge(ticking.now) == 1
    checkpoints.save(SPACE, "t", "c", {})
    again = checkpoints.load(SPACE, "t", "c", pending=True)
    assert again is not None
    assert again.pending == ()


def test_a_clock_that_is_set_back_brings_nothing_to_life(
    checkpoints: Checkpoints, backend: Backend, ticking: Ticking
) -> None:
    checkpoints.save(SPACE, "t", "c", {}, ttl=10)
    ticking.now += timedelta(seconds=20)
    assert state(checkpoints) is None
    backend.upkeep(Tidy())
    ticking.now -= timedelta(seconds=15)
    assert state(checkpoints) is None


def test_a_deep_state_is_kept_again_and_again_or_refused(checkpoints: Checkpoints, others: Checkpoints) -> None:
    kept = 0
    for depth in (10, 300, 600, 900, 5_000):
        for leaf in range(3):
            deep: Any = leaf
            for _ in range(depth):
                deep = [deep]
            try:
                checkpoints.save(SPACE, f"t{depth}", str(leaf), {"deep": deep})
            except Invalid:
                assert leaf == 0
                break
            assert json.dumps(state(others, str(leaf), f"t{depth}")) == json.dumps({"deep": deep})
            kept += 1
    assert kept >= 6


def test_the_cache_is_bounded_and_lets_go_of_what_was_replaced_or_deleted(
    backend: Backend, ticking: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofio.checkpoints.checkpoints.MOST_CACHED", 5)
    checkpoints = Checkpoints(backend)
    for n in range(20):
        checkpoints.save(SPACE, f"t{n % 10}", "c", {"n": n}, owned=True)
    assert len(checkpoints._states) == 5
    assert checkpoints._states.size >= 5 * 2048
    checkpoints.delete(SPACE, "t9")
    checkpoints.delete(SPACE, "t8", "c")
    checkpoints.save(SPACE, "t7", "c", {"n": -1}, ttl=10)
    ticking.now += timedelta(seconds=60)
    assert checkpoints.purge(ticking.now) == 1
    assert len(checkpoints._states) == 2
    assert checkpoints._states.size == sum(known.memory for known in checkpoints._states.values())


def test_a_store_without_background_work_says_how_many_there_are(store: StoreAddress, tmp_path: Path) -> None:
    with Engine.open(store, settings=Settings(background=False, embedder="none")) as engine:
        engine.checkpoints.save(SPACE, "t", "c", chat(2))
        assert engine.stats()["checkpoints"] == 1
        assert engine.check() == []
        engine.backup(str(tmp_path / "copy"))
    with Engine.open(tmp_path / "copy", settings=Settings(background=False, embedder="none")) as copied:
        found = copied.checkpoints.load(SPACE, "t")
        assert found is not None
        assert found.state == chat(2)


class Threads(RuleBasedStateMachine):
    """Two processes save, load, copy and delete; a dictionary of whole states says what is right."""

    ids = Bundle("ids")
    stores: Stores
    """Where its store comes from; the test sets it."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, dict[str, Any]] = {}
        self.store = self.stores.new()
        ticking = Ticking()
        self.backends = [open_backend(self.store, Settings(sync="normal"), ticking) for _ in range(2)]
        self.two = [Checkpoints(backend) for backend in self.backends]

    def teardown(self) -> None:
        for backend in self.backends:
            backend.close()
        self.stores.remove(self.store)

    @rule(
        target=ids, who=st.integers(0, 1), thread=st.sampled_from("ab"), id=st.integers(0, 30), grow=st.integers(0, 3)
    )
    def save(self, who: int, thread: str, id: int, grow: int) -> Any:
        held = self.model.setdefault(thread, {})
        last: Any = copy.deepcopy(next(reversed(held.values()), {"messages": []}))
        last["messages"] += [{"text": f"{len(last['messages']) + n} " * 20} for n in range(grow)]
        last["by"] = who
        self.two[who].save(SPACE, thread, str(id), last)
        held.pop(str(id), None)
        held[str(id)] = last
        return (thread, str(id))

    @rule(who=st.integers(0, 1), which=consumes(ids))
    def delete(self, who: int, which: tuple[str, str]) -> None:
        thread, which_one = which
        there = self.model.get(thread, {}).pop(which_one, None) is not None
        assert self.two[who].delete(SPACE, thread, which_one) == int(there)

    @rule(target=ids, who=st.integers(0, 1))
    def branch(self, who: int) -> Any:
        self.two[1 - who].delete(SPACE, "b")
        count = self.two[who].copy(SPACE, "a", "b")
        self.model["b"] = copy.deepcopy(self.model.get("a", {}))
        assert count == len(self.model["b"])
        return multiple(*(("b", each) for each in self.model["b"]))

    @invariant()
    def both_see_the_same(self) -> None:
        for thread, held in self.model.items():
            for each in self.two:
                assert [one.id for one in each.list(SPACE, thread, limit=None)] == list(reversed(held))
                found: Checkpoint | None = each.load(SPACE, thread)
                assert (found.state if found else None) == next(reversed(held.values()), None)

    @rule()
    def every_state_is_there(self) -> None:
        for thread, held in self.model.items():
            for each, whole in held.items():
                assert state(self.two[0], each, thread) == whole


def test_two_processes_agree_with_whole_states(stores: Stores) -> None:
    machine = type("Threads", (Threads,), {"stores": stores})
    run_state_machine_as_test(machine, settings=settings(max_examples=stores.scale(40)))


def test_a_cache_that_many_threads_fill_knows_its_size() -> None:
    cache: SizedCache[int, bytes] = SizedCache(items=50, size=1000, measure=len)

    def fill(seed: int) -> None:
        for number in range(3000):
            cache.put((number * seed) % 70, b"x" * (1 + number % 40))
            cache.drop([(number + seed) % 5])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(1, 5), timeout=60))
    assert cache.size == sum(map(len, cache.values())) <= 1000
    assert len(cache) <= 50


def test_what_was_just_saved_is_not_old_after_the_clock_was_set_back(
    memory: Engine, ticking: Ticking, checkpoints: Checkpoints
) -> None:
    memory.write(Scope("a"), text="What the store's time goes by.")
    ticking.now -= timedelta(minutes=4)
    checkpoints.save(SPACE, "t", "c1", chat(1))
    assert checkpoints.vacuum(SPACE, timedelta(minutes=3)) == 0
    ticking.now += timedelta(minutes=10)
    assert checkpoints.vacuum(SPACE, timedelta(minutes=3)) == 1
