"""What a checkpointer has that does nothing but the least."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import pytest

from cofio.library.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from cofio.library.state import AgentState

pytestmark = pytest.mark.anyio


class Least(BaseCheckpointer):
    """A checkpointer with a dict of states."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], AgentState] = {}

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        self.kept[thread_id, checkpoint_id or "one"] = state
        return checkpoint_id or "one"

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        return self.kept.get((thread_id, checkpoint_id or "one"))

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        return [name for thread, name in reversed(self.kept) if thread == thread_id][:limit]


class Boastful(Least):
    """One that says that it can do everything, and cannot."""

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities(*[True] * 8)


def calls(checkpointer: BaseCheckpointer) -> dict[str, tuple[str, Callable[[], Awaitable[object]]]]:
    """The methods that need a capability, with it."""
    return {
        "search": ("search", lambda: checkpointer.search("x")),
        "query_by_metadata": ("metadata_query", lambda: checkpointer.query_by_metadata("k", 1)),
        "get_metadata": ("metadata_query", lambda: checkpointer.get_metadata("t")),
        "vacuum": ("vacuum", lambda: checkpointer.vacuum()),
        "copy_thread": ("branching", lambda: checkpointer.copy_thread("a", "b")),
        "list_threads": ("list_threads", lambda: checkpointer.list_threads()),
        "list_with_metadata": ("list_with_metadata", lambda: checkpointer.list_with_metadata()),
    }


@pytest.mark.requirement("checkpointers.flags", "checkpointers.abstract")
def test_three_methods_must_be_written_and_every_capability_is_off_until_it_is_claimed() -> None:
    assert asdict(CheckpointerCapabilities()) == dict.fromkeys(
        ["search", "metadata_query", "vacuum", "branching", "ttl", "list_threads", "list_with_metadata",
         "persistent_checkpoint_ids"], False,
    )  # fmt: skip
    assert Least().capabilities == CheckpointerCapabilities()
    with pytest.raises(TypeError, match="abstract"):
        BaseCheckpointer()  # type: ignore[abstract]  # which is what the test is about
    assert BaseCheckpointer.__abstractmethods__ == {"save", "load", "list_checkpoints"}


@pytest.mark.requirement("checkpointers.gate")
@pytest.mark.parametrize("method", [*calls(Least())])
async def test_a_method_without_its_capability_says_which_one_it_is(method: str) -> None:
    capability, call = calls(Least())[method]
    with pytest.raises(NotImplementedError) as told:
        await call()
    assert str(told.value) == (
        f"Least does not support '{capability}'. "
        f"Check capabilities before calling: checkpointer.capabilities.{capability}"
    )
    with pytest.raises(NotImplementedError, match=f"^{method} not implemented$"):
        await calls(Boastful())[method][1]()


@pytest.mark.requirement("checkpointers.defaults")
async def test_what_need_not_be_written_has_a_default() -> None:
    async with Least() as checkpointer:
        assert await checkpointer.exists("t") is False
        assert await checkpointer.exists("t", "one") is False
        await checkpointer.save(AgentState(), "t")
        assert await checkpointer.exists("t") is True
        assert await checkpointer.exists("t", "one") is True
        assert await checkpointer.exists("t", "two") is False
        with pytest.raises(NotImplementedError, match=r"^delete not implemented for this backend$"):
            await checkpointer.delete("t")
        await checkpointer.close()
        assert repr(checkpointer) == "Least()"
