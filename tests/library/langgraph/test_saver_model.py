"""Whatever is done, in whatever order, the checkpointer and LangGraph's in-memory saver say the same."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from cofio.library.langgraph import CofioSaver
from cofio.values.errors import Unavailable

from ...conftest import Stores
from .saving import QUIET, checkpoint_with, config_of

THREADS = st.sampled_from(["ada", "bob", "çe'd\"a"])
SPACES = st.sampled_from(["", "child:1"])
EXTRAS = st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2)
ARRAYS = st.sampled_from([{"vector": np.array([1.0, 2.0])}, {"in": [np.zeros((2, 1), dtype=np.float32)]}])
MESSAGES = (
    st.builds(HumanMessage, st.text(max_size=20), id=st.text(max_size=3))
    | st.builds(AIMessage, st.text(max_size=20), additional_kwargs=EXTRAS | ARRAYS)
    | st.builds(
        ToolMessage, st.text(max_size=20), tool_call_id=st.just("1"),
        artifact=st.sampled_from([None, 1, True, 1.0, 0, False, "1"]) | ARRAYS,
    )
)  # fmt: skip
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=80)
    | st.binary(max_size=80) | st.just(datetime(2026, 1, 1, tzinfo=UTC)) | st.just(UUID(int=5))
    | st.frozensets(st.integers(0, 3), max_size=1) | MESSAGES
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.dictionaries(st.integers(0, 5), inner, max_size=2)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


class Model(RuleBasedStateMachine):
    """The two savers, and what is done to both."""

    stores: ClassVar[Stores]

    def __init__(self) -> None:
        super().__init__()
        self.address = self.stores.new()
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.mine = CofioSaver.open(self.address.spell(), settings=QUIET)
        self.theirs = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    def teardown(self) -> None:
        if hasattr(self, "mine"):
            self.mine.close()
        self.stores.remove(self.address)

    def known(self, thread: str, ns: str) -> list[str]:
        return sorted(self.theirs.storage.get(thread, {}).get(ns, {}))

    @rule(
        thread=THREADS, ns=SPACES, messages=st.lists(MESSAGES, max_size=3),
        values=st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
        back=st.integers(0, 3), grows=st.booleans(), run=st.sampled_from(["one", "two"]), id_back=st.integers(0, 2),
    )  # fmt: skip
    def put(
        self, thread: str, ns: str, messages: list[Any], values: dict[str, Any], back: int, grows: bool, run: str,
        id_back: int,
    ) -> None:  # fmt: skip
        self.count += 1
        name = f"{max(self.count - id_back, 0):04}"  # now and then one that is there already, or not the highest
        known = [each for each in self.known(thread, ns) if each < name]
        parent = known[-1 - back] if back < len(known) else None
        held = {**values, "messages": messages}
        if grows and parent is not None:
            before = self.theirs.get_tuple(config_of(thread, ns, parent))
            assert before is not None
            held = {**before.checkpoint["channel_values"], **values}
            held["messages"] = [*before.checkpoint["channel_values"]["messages"], *messages]
        versions: Any = dict.fromkeys(held, self.count)
        put = checkpoint_with(name, held, channel_versions=versions)
        for saver in (self.mine, self.theirs):
            saver.put(config_of(thread, ns, parent), copy.deepcopy(put), {"step": self.count, "run_id": run}, versions)

    @precondition(lambda self: self.theirs.storage)
    @rule(
        thread=THREADS, ns=SPACES, back=st.integers(0, 2), task=st.sampled_from(["t1", "t2"]),
        path=st.sampled_from(["", "~a"]),
        writes=st.lists(st.tuples(st.sampled_from(["messages", "b", ERROR, INTERRUPT]), VALUES), max_size=3),
    )  # fmt: skip
    def write(self, thread: str, ns: str, back: int, task: str, path: str, writes: list[tuple[str, Any]]) -> None:
        known = self.known(thread, ns)
        if back < len(known):
            for saver in (self.mine, self.theirs):
                saver.put_writes(config_of(thread, ns, known[-1 - back]), writes, task, path)

    @rule(thread=THREADS)
    def delete(self, thread: str) -> None:
        for saver in (self.mine, self.theirs):
            saver.delete_thread(thread)

    @rule(run=st.sampled_from(["one", "two", "three"]))
    def delete_run(self, run: str) -> None:
        self.mine.delete_for_runs([run])
        for each in [*self.theirs.list(None)]:
            if each.metadata["run_id"] == run:
                self.forget(each)

    @rule(thread=THREADS)
    def prune(self, thread: str) -> None:
        self.mine.prune([thread])
        for ns in [*self.theirs.storage.get(thread, {})]:
            for each in [*self.theirs.list(config_of(thread, ns))][1:]:
                self.forget(each)

    @rule(thread=THREADS, copied=THREADS)
    def copy_thread(self, thread: str, copied: str) -> None:
        if thread == copied:
            return
        for saver in (self.mine, self.theirs):
            saver.delete_thread(copied)
        self.mine.copy_thread(thread, copied)
        theirs = self.theirs
        theirs.storage[copied] = copy.deepcopy(theirs.storage.get(thread, {}))
        theirs.blobs.update({(copied, *key[1:]): value for key, value in [*theirs.blobs.items()] if key[0] == thread})
        for key, writes in [*theirs.writes.items()]:
            if key[0] == thread:
                theirs.writes[(copied, *key[1:])] = dict(writes)

    @rule()
    def restart(self) -> None:
        self.mine.close()
        self.mine = CofioSaver.open(self.address.spell(), settings=QUIET)

    def forget(self, each: CheckpointTuple) -> None:
        options = each.config["configurable"]
        thread, ns, name = options["thread_id"], options["checkpoint_ns"], options["checkpoint_id"]
        del self.theirs.storage[thread][ns][name]
        self.theirs.writes.pop((thread, ns, name), None)

    def lost(self, found: CheckpointTuple | None) -> bool:
        """Whether one of a checkpoint's ancestors is no more."""
        while found is not None and found.parent_config is not None:
            found = self.theirs.get_tuple(found.parent_config)
        return found is None

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "mine"):
            return
        mine, theirs = [*self.mine.list(None)], [*self.theirs.list(None)]
        assert sorted(map(told, mine)) == sorted(map(told, theirs))
        for thread in ("ada", "bob", "çe'd\"a"):
            for ns in ("", "child:1"):
                one, two = self.mine.get_tuple(config_of(thread, ns)), self.theirs.get_tuple(config_of(thread, ns))
                assert (one is None) == (two is None)
                if one is not None and two is not None:
                    assert told(one) == told(two)
                history = {"config": config_of(thread, ns), "channels": ["messages"]}
                try:
                    found = self.mine.get_delta_channel_history(**history)  # type: ignore[arg-type]
                except Unavailable:  # what it leans on was deleted: the other then begins with nothing
                    assert self.lost(two)
                else:
                    assert repr(found) == repr(self.theirs.get_delta_channel_history(**history))  # type: ignore[arg-type]


def told(found: CheckpointTuple) -> str:
    """All that a tuple says, the types included."""
    checkpoint: Any = found.checkpoint
    values = [(key, checkpoint["channel_values"][key]) for key in sorted(checkpoint["channel_values"])]
    rest = [(key, checkpoint[key]) for key in sorted(checkpoint) if key != "channel_values"]
    return repr((
        sorted(found.config["configurable"].items()), values, rest, sorted(found.metadata.items()),
        found.parent_config and sorted(found.parent_config["configurable"].items()), found.pending_writes,
    ))  # fmt: skip


@pytest.mark.requirement(
    "langgraph.saver.model", "langgraph.saver.delete", "langgraph.saver.prune", "langgraph.saver.copy"
)
def test_the_two_savers_say_the_same(stores: Stores) -> None:
    machine = type("Model", (Model,), {"stores": stores})
    chosen = settings(max_examples=stores.scale(30), stateful_step_count=20, deadline=None)
    run_state_machine_as_test(machine, settings=chosen)
