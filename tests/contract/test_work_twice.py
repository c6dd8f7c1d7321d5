"""A transaction whose work runs twice, as it may where a backend has to try again, does what it does once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import CofioError, Draft, Engine, Kind, Query, Record, Scope, Settings
from cofio.backends.checkpoint_interface import PendingWrite
from cofio.backends.interface import Backend
from cofio.backends.record_interface import Transaction
from cofio.checkpoints.checkpoints import Checkpoints
from cofio.engine import opening
from cofio.values.changes import Change, Delete, Drop, Edit, OnDuplicate, Put, Vacant

from ..conftest import Stores
from ..tiers import scale_examples

T = TypeVar("T")
QUIET = Settings(background=False, embedder="none", sync="normal")
DEMO = Scope("demo")


class SerializationFailure(Exception):
    """What a database says at the commit when another transaction was in the way."""


class Retrying:
    """A backend whose every transaction fails once at its commit, and is then run again."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def transact(self, work: Callable[[Transaction], T], *, frees_space: bool = False) -> T:
        """Run the work, undo it, and run it again."""

        def fail(transaction: Transaction) -> None:
            work(transaction)
            self.failures += 1
            raise SerializationFailure

        with suppress(SerializationFailure):
            self._backend.transact(fail)
        return self._backend.transact(work)


@pytest.fixture
def backends(stores: Stores, clock: Callable[[], datetime]) -> Iterator[tuple[Backend, Retrying]]:
    """Two empty stores: one whose transactions are run once, and one whose are run twice."""
    opened = [opening.open_backend(stores.new(), QUIET, clock) for _ in range(2)]
    yield opened[0], Retrying(opened[1])
    for backend in opened:
        backend.close()


@pytest.fixture
def engines(backends: tuple[Backend, Retrying]) -> Iterator[list[Engine]]:
    """An engine on each of the two."""
    engines = [Engine(backend, settings=QUIET) for backend in backends]
    yield engines
    for engine in engines:
        engine.close()


def outcome(act: Callable[[], object]) -> object:
    """What an act comes to, but for ids that are made up."""
    try:
        answer = act()
    except CofioError as error:
        return type(error), str(error)
    answers = answer if isinstance(answer, list) else [answer]
    return [describe(each) if isinstance(each, Record) else each for each in answers]


def describe(record: Record) -> tuple[object, ...]:
    """All of a record that does not depend on when its id was made."""
    return (
        record.scope, record.kind, record.key, record.text, record.tags, record.data, record.version, record.existed,
        record.created_at, record.updated_at, record.expires_at,
    )  # fmt: skip


keys = st.sampled_from(["a", "a/b", "b"])
ids = st.sampled_from(["i", "j", "k"])
texts = st.sampled_from(["apple", "pear", "plum"])
versions = st.sampled_from([None, 0, 1, 2])
drafts = st.builds(Draft, scope=st.sampled_from([DEMO, DEMO / "x"]), id=ids, text=texts)
files = st.builds(Draft, scope=st.just(DEMO), kind=st.just(Kind.FILE), key=keys, text=texts)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(Put, draft=drafts, on_duplicate=st.sampled_from(get_args(OnDuplicate))),
    st.builds(Put, draft=files, how=st.just("key"), if_version=versions),
    st.builds(Edit, id=ids, fields=st.fixed_dictionaries({"text": texts}), if_version=versions),
    st.builds(Delete, id=ids, if_version=versions),
    st.builds(Drop, scope=st.just(DEMO / "x")),
    st.builds(Vacant, scope=st.just(DEMO), kind=st.just(Kind.FILE), first=st.just("a/"), past=st.just("a0")),
)


@settings(max_examples=scale_examples(60))
@given(batches=st.lists(st.lists(changes, min_size=1, max_size=4), min_size=1, max_size=6))
def test_changes_that_are_made_twice_are_made_once(engines: list[Engine], batches: Sequence[Sequence[Change]]) -> None:
    for engine in engines:
        engine.drop(DEMO)
    for batch in batches:
        once, twice = (outcome(partial(engine.apply, batch)) for engine in engines)
        assert once == twice
    once, twice = ([describe(record) for record in engine.export()] for engine in engines)
    assert once == twice
    assert [engine.count() for engine in engines] == [len(once)] * 2
    for text in ("apple", "pear", "plum"):
        counts = {len(engine.search(Query(text, mode="keyword", limit=50, floor=0.0))) for engine in engines}
        assert counts == {sum(text in str(record) for record in once)}
    assert [engine.check() for engine in engines] == [[], []]


def test_every_verb_of_an_engine_stands_to_be_run_twice(
    engines: list[Engine], backends: tuple[Backend, Retrying]
) -> None:
    def act(engine: Engine) -> list[object]:
        first = engine.write(DEMO, text="first", ttl=60)
        again = engine.write(DEMO, text="first", dedupe=True)
        put = engine.put(DEMO, "k", data={"n": 1}, if_version=0)
        edited = engine.edit(put.id, data={"n": 2}, if_version=1)
        moved = engine.move(first.id, scope=DEMO / "y")
        many = engine.write_many([Draft(scope=DEMO, text=f"text {number % 3}") for number in range(6)], dedupe=True)
        engine.delete(many[0].id)
        old = Draft(scope=DEMO, text="restored", id="r", version=4, updated_at=put.updated_at)
        restored = engine.restore([old])
        dropped = engine.drop(DEMO / "y")
        return [again.existed, edited.version, moved.version, [each.existed for each in many], restored, dropped,
                [describe(record) for record in engine.export()]]  # fmt: skip

    once, twice = map(act, engines)
    assert once == twice
    assert backends[1].failures >= 8
    assert [engine.check() for engine in engines] == [[], []]


def test_states_that_are_saved_twice_are_saved_once(backends: tuple[Backend, Retrying]) -> None:
    def act(checkpoints: Checkpoints) -> list[object]:
        for turn in range(40):
            checkpoints.save("library", "t", f"c{turn}", {"messages": [f"turn {n}" for n in range(turn)], "at": turn})
        checkpoints.save("library", "t", "c7", {"at": "again"})  # in place of what others are changes of
        checkpoints.write("library", "t", "c39", [(PendingWrite("task", 0, "path", "channel", "json", b"{}"), False)])
        done: list[object] = [checkpoints.delete("library", "t", "c16")]
        done.append(checkpoints.remove("library", [("t", "", "c0"), ("t", "", "c20"), ("t", "", "none")]))
        done += [checkpoints.copy("library", "t", "u"), checkpoints.delete("library", "t")]
        listed = checkpoints.list("library", "u", limit=None)
        states = [found and found.state for found in (checkpoints.load("library", "u", each.id) for each in listed)]
        last = checkpoints.load("library", "u", "c39", pending=True)
        assert last is not None
        found = [each.id for each, _ in checkpoints.search("library", "turn")]
        assert checkpoints.check() == []
        return [done, [each.id for each in listed], states, last.pending, found, checkpoints.measure("library")]

    once, twice = (act(Checkpoints(backend)) for backend in backends)
    assert once == twice
    assert once[0] == [1, 2, 37, 37]
    assert backends[1].failures >= 24
