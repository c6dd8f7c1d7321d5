"""Memory managers: extract and save at the end of a session, recall and inject at the beginning of the next."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Engine, Invalid
from cofio.config.address import StoreAddress
from cofio.library.cofio_store import CofioStore
from cofio.library.events import StreamEvent, observe, run_context
from cofio.library.manager import BaseMemoryManager, LLMMemoryManager, Memory, MemoryType, NoopMemoryManager
from cofio.library.messages import Message, Role
from cofio.library.recall_block import is_memory_block
from cofio.library.state import AgentState
from cofio.library.store import BaseStore, InMemoryStore

from ..stores.test_base import Smallest

SYSTEM = Message.system("be kind")


@pytest.fixture(params=["memory", "cofio", "smallest"])
def store(request: pytest.FixtureRequest, memory: Engine) -> BaseStore:
    """A store of each sort; the smallest has neither a search nor times."""
    if request.param == "cofio":
        return CofioStore(memory)
    return InMemoryStore() if request.param == "memory" else Smallest()


def user(key: str, content: str = "something") -> Memory:
    """A memory of the user."""
    return Memory(MemoryType.USER, key, content)


def run(*steps: Awaitable[Any]) -> Any:
    """Await one after another; what the last gives."""

    async def inside() -> Any:
        last = None
        for step in steps:
            last = await step
        return last

    return asyncio.run(inside())


def keys(memories: list[Memory]) -> list[str]:
    """The keys of memories."""
    return [memory.key for memory in memories]


def blocks(state: AgentState) -> list[str]:
    """The lines of memories that a state holds, of all blocks."""
    found = [message.content or "" for message in state.messages if is_memory_block(message)]
    return [line for block in found for line in block.split("\n")[3:-1]]


@pytest.mark.requirement("manager.signatures", "manager.repr", "manager.noop", "manager.base")
def test_managers_have_the_signatures_of_the_page_and_one_of_ones_own_needs_three_methods() -> None:
    parameters = [*inspect.signature(LLMMemoryManager).parameters.values()][1:]
    assert {each.name: each.default for each in parameters} == {
        "extract_fn": None, "namespace_prefix": ("locus_memory",), "max_memories": 50, "retrieve_limit": 20,
        "raise_errors": False,
    }  # fmt: skip
    assert {each.kind for each in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert repr(LLMMemoryManager(InMemoryStore())) == (
        "LLMMemoryManager(store=InMemoryStore, namespace_prefix=('locus_memory',), retrieve_limit=20)"
    )

    class Listed(BaseMemoryManager):
        kept: list[Memory] = []  # noqa: RUF012 - one object, in one test

        async def extract(self, messages: list[Message]) -> list[Memory]:
            return [user(message.content or "?") for message in messages if message.role == Role.USER]

        async def retrieve(self, limit: int = 20) -> list[Memory]:
            return self.kept[:limit]

        async def save(self, memories: list[Memory]) -> None:
            self.kept += memories

    with pytest.raises(TypeError, match="abstract"):
        BaseMemoryManager()  # type: ignore[abstract]  # that is the point
    state = AgentState(messages=(SYSTEM, Message.user("bread")))
    own, noop = Listed(), NoopMemoryManager()
    assert blocks(run(own.on_session_end(state), own.on_session_start(AgentState()))) == ["USER [bread]: something"]
    assert [repr(own), repr(noop)] == ["Listed()", "NoopMemoryManager()"]
    assert run(noop.extract(list(state.messages))) == []
    assert run(noop.save([user("a")]), noop.on_session_end(state), noop.retrieve()) == []
    assert run(noop.on_session_start(state)) is state


@pytest.mark.requirement("manager.invalid")
def test_a_manager_refuses_what_makes_no_sense() -> None:
    wrong: dict[str, Any]
    for wrong, error in (
        ({"max_memories": 0}, ValueError), ({"max_memories": 2.5}, TypeError), ({"retrieve_limit": -1}, ValueError),
        ({"retrieve_limit": "all"}, TypeError), ({"extract_fn": "well"}, TypeError),
        ({"namespace_prefix": "users"}, TypeError), ({"namespace_prefix": ("users", 3)}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error, match=next(iter(wrong))):
            LLMMemoryManager(InMemoryStore(), **wrong)
    manager = LLMMemoryManager(InMemoryStore())
    with pytest.raises(ValueError, match="limit"):
        run(manager.retrieve(-1))
    with pytest.raises(TypeError, match="Memory"):
        run(manager.save([user("a"), {"key": "b"}]))  # type: ignore[list-item]  # that is the point
    assert run(manager.retrieve()) == []


@pytest.mark.requirement("manager.namespaces")
def test_each_type_has_a_namespace_of_its_own(store: BaseStore) -> None:
    manager = LLMMemoryManager(store, namespace_prefix=("users", "ada"))
    memories = [Memory(kind, "k", f"of {kind.value}", {"why": "said"}) for kind in MemoryType]
    run(manager.save(memories))
    for kind in MemoryType:
        value = run(store.get(("users", "ada", kind.value), "k"))
        assert value.pop("metadata").keys() == {"why", "updated_at"}
        assert value == {"type": kind.value, "key": "k", "content": f"of {kind.value}"}
    assert run(LLMMemoryManager(store, namespace_prefix=("users", "bob")).retrieve()) == []
    assert len(run(manager.retrieve())) == 4


@pytest.mark.requirement("manager.save")
def test_saving_updates_by_key_in_one_batch_and_leaves_what_it_was_given_alone(store: BaseStore) -> None:
    manager = LLMMemoryManager(store)
    memory = Memory(MemoryType.USER, "language", "Go.", {"nested": {"a": [1]}})
    run(manager.save([memory]), manager.save([user("language", "Rust."), user("language", "Python.")]))
    (found,) = run(manager.retrieve())
    assert (found.key, found.content) == ("language", "Python.")
    assert memory.metadata == {"nested": {"a": [1]}}
    run(manager.save([]))


@pytest.mark.requirement("manager.max")
def test_of_each_type_only_so_many_are_kept_and_the_oldest_go(
    store: BaseStore, advance: Callable[[float], None]
) -> None:
    manager = LLMMemoryManager(store, max_memories=3)
    run(manager.save([Memory(MemoryType.PROJECT, "other", "x")]))
    for number in range(10):
        advance(1)
        run(manager.save([user(f"k{number}")]))
    assert sorted(run(store.list_keys(("locus_memory", "user")))) == ["k7", "k8", "k9"]
    advance(1)
    run(manager.save([user("k7", "said again")]))
    advance(1)
    run(manager.save([user("k10")]))
    assert sorted(run(store.list_keys(("locus_memory", "user")))) == ["k10", "k7", "k9"]
    run(manager.save([user(f"n{number}") for number in range(8)]))
    assert sorted(run(store.list_keys(("locus_memory", "user")))) == ["n5", "n6", "n7"]
    assert run(store.list_keys(("locus_memory", "project"))) == ["other"]


@pytest.mark.requirement("manager.retrieve", "manager.retrieve-limit")
def test_the_most_recently_updated_come_first_and_limits_hold(
    store: BaseStore, advance: Callable[[float], None]
) -> None:
    manager = LLMMemoryManager(store, retrieve_limit=3)
    for number, kind in enumerate([*MemoryType, *MemoryType]):
        advance(1)
        run(manager.save([Memory(kind, f"k{number}", "x")]))
    advance(1)
    run(manager.save([user("k0", "again")]))
    assert keys(run(manager.retrieve())) == ["k0", "k7", "k6"]
    assert keys(run(manager.retrieve(limit=2))) == ["k0", "k7"]
    assert keys(run(manager.retrieve(100))) == ["k0", "k7", "k6"]
    assert run(manager.retrieve(0)) == []
    assert len(blocks(run(manager.on_session_start(AgentState())))) == 3
    nothing = LLMMemoryManager(store, retrieve_limit=0)
    assert run(nothing.on_session_start(AgentState())).messages == ()
    assert run(nothing.retrieve()) == []
    many = LLMMemoryManager(store, retrieve_limit=40)
    assert keys(run(many.retrieve(100)))[:4] == ["k0", "k7", "k6", "k5"]
    run(many.save([user(f"n{number}") for number in range(45)]))
    assert len(blocks(run(many.on_session_start(AgentState())))) == 40
    assert len(run(many.retrieve())) == 20


@pytest.mark.requirement("manager.strangers", "manager.times")
def test_what_others_put_into_the_namespace_is_passed_over_and_left_alone(store: BaseStore) -> None:
    manager = LLMMemoryManager(store, max_memories=1)
    space = ("locus_memory", "user")
    for key, value in (("a", {"x": 1}), ("b", "text"), ("c", [1]), ("d", {"type": "poem", "key": "d", "content": ""})):
        run(store.put(space, key, value))
    run(manager.save([user("mine")]), manager.save([user("newer")]))
    assert keys(run(manager.retrieve())) == ["newer"]
    assert sorted(run(store.list_keys(space))) == ["a", "b", "c", "d", "newer"]
    times = LLMMemoryManager(InMemoryStore())  # what a memory says of its own time does not count
    old = user("old").to_store_value() | {"metadata": {"updated_at": "2999-01-01T00:00:00+00:00"}}
    run(times.store.put(space, "old", old), times.save([user("new")]))
    assert keys(run(times.retrieve())) == ["new", "old"]


@pytest.mark.requirement("manager.relevance")
def test_a_conversation_recalls_what_it_is_about(store: BaseStore, advance: Callable[[float], None]) -> None:
    manager = LLMMemoryManager(store, retrieve_limit=2)
    run(manager.save([user("pet", "The user has a parrot called Rio.")]))
    for number in range(8):
        advance(1)
        run(manager.save([Memory(MemoryType.PROJECT, f"k{number}", f"Ticket {number} concerns billing.")]))
    asked = AgentState(messages=(SYSTEM, Message.user("What does my parrot eat?")))
    first, second = blocks(run(manager.on_session_start(asked)))
    assert first == "USER [pet]: The user has a parrot called Rio."
    assert second.startswith("PROJECT [k")
    silent = AgentState(messages=(SYSTEM,))
    assert [line.split()[1] for line in blocks(run(manager.on_session_start(silent)))] == ["[k7]:", "[k6]:"]
    elsewhere = AgentState(messages=(Message.user("¿?"),))
    assert len(blocks(run(manager.on_session_start(elsewhere)))) == 2
    odd = AgentState(messages=(Message.user('parrot" OR * ( NEAR -x:' + "y" * 5_000),))
    assert len(blocks(run(manager.on_session_start(odd)))) == 2


@pytest.mark.requirement("manager.place")
def test_the_block_stands_after_the_first_system_message_or_in_front() -> None:
    manager = LLMMemoryManager(InMemoryStore())
    state = AgentState(messages=(SYSTEM, Message.user("hello")))
    assert run(manager.on_session_start(state)) is state  # there is nothing to remember yet
    run(manager.save([user("a")]))
    after = run(manager.on_session_start(state))
    assert [is_memory_block(message) for message in after.messages] == [False, True, False]
    assert (after.run_id, after.updated_at) == (state.run_id, state.updated_at)
    front = run(manager.on_session_start(AgentState(messages=(Message.user("hello"),))))
    assert [is_memory_block(message) for message in front.messages] == [True, False]
    assert [is_memory_block(each) for each in run(manager.on_session_start(AgentState())).messages] == [True]


@pytest.mark.requirement("manager.no-stacking")
def test_a_block_is_replaced_and_taken_away_with_its_last_memory() -> None:
    store = InMemoryStore()
    manager = LLMMemoryManager(store)
    run(manager.save([user("a", "first")]))
    state = run(manager.on_session_start(AgentState(messages=(SYSTEM, Message.user("hello")))))
    assert run(manager.on_session_start(state)) is state
    run(manager.save([user("a", "second")]))
    restored = AgentState.from_checkpoint(state.to_checkpoint()).with_message(Message.assistant("hi"))
    again = run(manager.on_session_start(restored))
    assert blocks(again) == ["USER [a]: second"]
    assert len(again.messages) == 4
    old = Message.system(state.messages[1].content or "")  # as a format that knows no metadata gives it back
    stacked = AgentState(messages=(SYSTEM, old, *again.messages[1:], old))
    assert run(manager.on_session_start(stacked)).messages == again.messages
    run(store.delete(("locus_memory", "user"), "a"))
    assert run(manager.on_session_start(again)).messages == (SYSTEM, Message.user("hello"), Message.assistant("hi"))


said = st.builds(Message, role=st.sampled_from([Role.SYSTEM, Role.USER, Role.ASSISTANT]), content=st.text(max_size=5))


@pytest.mark.requirement("manager.idempotent")
@given(st.lists(said, max_size=5), st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5), st.booleans())
def test_injecting_again_changes_nothing(messages: list[Message], contents: list[str], system: bool) -> None:
    manager = LLMMemoryManager(InMemoryStore(), retrieve_limit=3)
    run(manager.save([user(f"k{number}", content) for number, content in enumerate(contents)]))
    state = AgentState(messages=(*([SYSTEM] if system else []), *messages))
    once = run(manager.on_session_start(state))
    assert run(manager.on_session_start(once)) is once
    assert tuple(message for message in once.messages if not is_memory_block(message)) == state.messages
    assert sum(map(is_memory_block, once.messages)) == 1


@pytest.mark.requirement("manager.extract")
def test_without_a_function_the_words_of_the_user_are_remembered_once(store: BaseStore) -> None:
    manager = LLMMemoryManager(store)
    for text in ("I'm a baker.", "I am a baker!", "Hello, I'm a baker"):
        state = run(manager.on_session_start(AgentState(messages=(SYSTEM, Message.user(text)))))
        run(manager.on_session_end(state))
    (found,) = run(manager.retrieve())
    assert found.content == "Hello, I'm a baker"


@pytest.mark.requirement("manager.extract-fn")
def test_a_function_may_be_plain_or_asynchronous_and_never_sees_the_block() -> None:
    seen: list[list[Message]] = []

    def now(messages: list[Message]) -> list[Memory]:
        seen.append(messages)
        return [user("a")]

    async def later(messages: list[Message]) -> list[Memory]:
        return now(messages)

    for function in (now, later, lambda messages: later(messages)):
        manager = LLMMemoryManager(InMemoryStore(), extract_fn=function)
        run(manager.save([user("b", "I'm a secret")]))
        state = run(manager.on_session_start(AgentState(messages=(SYSTEM, Message.user("hello")))))
        assert len(state.messages) == 3
        run(manager.on_session_end(state))
        assert seen.pop() == [SYSTEM, Message.user("hello")]
        assert sorted(keys(run(manager.retrieve()))) == ["a", "b"]


@pytest.mark.requirement("manager.nonsense", "manager.raise-errors")
def test_what_goes_wrong_at_the_end_is_told_and_raised_only_where_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(messages: list[Message]) -> Any:
        raise LookupError("no model")

    class Full(InMemoryStore):
        async def put_batch(self, items: list[tuple[tuple[str, ...], str, Any, dict[str, Any] | None]]) -> None:
            raise OSError("no space")

    state = AgentState(run_id="r1", messages=(Message.user("I'm a baker"),))
    function: Any
    for store, function, error, stage in (
        (InMemoryStore(), lambda messages: None, TypeError, "extract"),
        (InMemoryStore(), lambda messages: {"a": 1}, TypeError, "extract"),
        (InMemoryStore(), lambda messages: "memories", TypeError, "extract"),
        (InMemoryStore(), lambda messages: [user("a"), {"type": "user"}], TypeError, "extract"),
        (InMemoryStore(), broken, LookupError, "extract"),
        (Full(), None, OSError, "save"),
    ):
        events: list[StreamEvent] = []
        manager = LLMMemoryManager(store, extract_fn=function)
        strict = LLMMemoryManager(store, extract_fn=function, raise_errors=True)
        caplog.clear()
        with observe(events.append), caplog.at_level(logging.WARNING):
            run(manager.on_session_end(state))
            with pytest.raises(error, match=r"extract_fn|no model|no space"):
                run(strict.on_session_end(state))
        assert [(event.event_type, event.run_id, event.data["stage"]) for event in events] == [
            ("memory.manager.failed", "r1", stage)
        ] * 2
        assert error.__name__ in events[0].data["error"]
        assert "r1" in caplog.text
        assert run(manager.retrieve()) == []
        with pytest.raises(error):
            run(manager.extract(list(state.messages)) if stage == "extract" else manager.save([user("a")]))

    class Own(NoopMemoryManager):
        raise_errors = True
        on_session_end = BaseMemoryManager.on_session_end

        async def extract(self, messages: list[Message]) -> list[Memory]:
            raise LookupError("no model")

    with pytest.raises(LookupError):
        run(Own().on_session_end(state))


@pytest.mark.requirement("manager.events")
def test_injections_and_extractions_are_told() -> None:
    manager = LLMMemoryManager(InMemoryStore())
    state = AgentState(run_id="r1", messages=(Message.user("I'm a baker"),))
    events: list[StreamEvent] = []
    with observe(events.append):
        run(manager.on_session_start(state))
        run(manager.on_session_end(AgentState(messages=(Message.user("hello"),))))
        run(manager.on_session_end(state))
        with run_context("r2"):
            run(manager.on_session_start(state))
    extracted, injected = events
    (found,) = run(manager.retrieve())
    assert (extracted.event_type, extracted.run_id) == ("memory.manager.extracted", "r1")
    assert extracted.data == {"memory_count": 1, "types": ["user"], "keys": [found.key]}
    assert (injected.event_type, injected.run_id) == ("memory.manager.injected", "r2")
    assert injected.data == {"memory_count": 1, "types": ["user"]}


@pytest.mark.requirement("manager.durable")
def test_memories_outlive_the_process_that_kept_them(store_address: StoreAddress) -> None:
    for text, found in (("I'm a baker", 0), ("Don't use plastic", 1), ("I'm a baker!", 2)):
        with Engine.open(store_address) as engine:
            manager = LLMMemoryManager(CofioStore(engine), namespace_prefix=("users", "ada"))
            state = run(manager.on_session_start(AgentState(messages=(Message.user(text),))))
            assert len(blocks(state)) == found
            run(manager.on_session_end(state))


@pytest.mark.requirement("manager.bad-text", "manager.batch")
def test_a_batch_is_kept_whole_or_not_at_all_and_a_bad_character_costs_nothing(memory: Engine) -> None:
    manager = LLMMemoryManager(CofioStore(memory))
    with pytest.raises(Invalid, match="value"):
        run(manager.save([user("a"), Memory(MemoryType.USER, "b", "x", {"odd": object()})]))
    assert run(manager.retrieve()) == []
    run(manager.save([user("n", "has NUL \0 in it"), user("ok", "fine \ud800")]))
    assert {each.key: each.content for each in run(manager.retrieve())} == {
        "n": "has NUL \ufffd in it", "ok": "fine \ufffd",
    }  # fmt: skip
