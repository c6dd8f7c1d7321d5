"""OpenAI's Agents SDK on a cofio store: a session that lasts, and a tool that looks into the memory.

    session = CofioSession("ada", engine)
    Runner.run_sync(agent, "What did I say about boats?", session=session)

The SDK takes more than a second to import, and comes with the extra `openai-agents`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..config.installation import install_command
from ..engine.engine import Engine
from ..values.errors import Invalid
from ..values.query import MAX_LIMIT, Page, Query
from ..values.records import Scope, check_int
from ..values.scopes import OPENAI_AGENTS
from .concurrency import in_thread
from .transcripts import Entry, Transcript, clean, make_query, render_recalled, search_fresh, shorten

try:
    from agents import FunctionTool, RunContextWrapper, function_tool
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise ImportError(
        "cofio.library.openai_agents needs OpenAI's Agents SDK, version 0.24 or newer:"
        f" {install_command('openai-agents')}"
    ) from error

if TYPE_CHECKING:
    from agents import TResponseInputItem

__all__ = ["SOURCE", "CofioSession", "recall_tool"]

T = TypeVar("T")
SOURCE = "openai-agents"


class CofioSession:
    """A conversation of agents that is there for the next run, in this process or another.

    It does what the SDK's `Session` asks for. Each item is a record of the kind `turn` in the scope
    `scope / session_id`, so that `engine.search` and every other door find it.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        engine: Engine,
        *,
        scope: Scope = OPENAI_AGENTS,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        """`session_settings` may limit how many of the latest items a run is given.

        Raises:
            Invalid: the id is no name of 1 to 256 characters, or the scope is no Scope.
        """
        self._transcript = Transcript(_check_engine(engine), scope, session_id, source=SOURCE)
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )

    @property
    def scope(self) -> Scope:
        """Where the items are."""
        return self._transcript.scope

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in their order, all or the latest `limit`; without a `limit`, that of the settings holds."""
        last = resolve_session_limit(limit, self.session_settings)
        return cast("list[TResponseInputItem]", await in_thread(self._transcript.items, last))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end: all of them, or none.

        Raises:
            Invalid: an item is not a dict that JSON can hold, or is larger than 64 million characters.
        """
        entries = [_build_entry(index, item) for index, item in enumerate(_check_items(items))]
        await _finish_change(in_thread(self._transcript.append, entries))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item away, and return it; None when there is none. No two callers get the same."""
        removed = await _finish_change(in_thread(self._transcript.take, lambda records: records, last=1))
        return cast("TResponseInputItem", removed[0]) if removed else None

    async def clear_session(self) -> None:
        """Forget the items of this session."""
        await _finish_change(in_thread(self._transcript.clear))

    async def search(self, query: str, *, limit: int = 10) -> Page:
        """What was said in this session that answers the query, best first."""
        return await in_thread(self._transcript.search, query, limit=limit)


def recall_tool(engine: Engine, scope: Scope, *, name: str = "recall", limit: int = 5) -> FunctionTool:
    """A tool for `Agent(tools=[…])` that searches all that is remembered in a scope, whichever door it came by.

    An agent sees everything in the scope that you give it: take that of the user whom it talks to. What the model
    is sent anyway is left out.
    """
    _check_engine(engine)
    if not isinstance(scope, Scope):
        raise Invalid("scope", f"expected a Scope, got {type(scope).__name__}")
    check_int("limit", limit, 1, MAX_LIMIT)

    async def recall(context: RunContextWrapper[Any], query: str) -> str:
        """Search the memory for what was said or noted earlier, also in other conversations.

        Args:
            query: What to look for, as a question or in a few words.
        """
        # The conversation itself is found by its own words, and is no news to the model.
        seen = {clean(_build_entry(index, item).text) for index, item in enumerate(context.turn_input)}
        engine_query = Query(make_query(query), scope=scope, limit=min(MAX_LIMIT, limit + len(seen)))
        page = await in_thread(search_fresh, engine, engine_query)
        return render_recalled(page, without=seen, most=limit) or "Nothing else about that is in the memory."

    return function_tool(recall, name_override=name)


async def _finish_change(change: Coroutine[Any, Any, T]) -> T:
    """Return the result of a change; a cancelled caller is told only after the change was made or has failed.

    The thread cannot be stopped, and the SDK takes back what a cancelled run has added.
    """
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()


def _check_engine(engine: object) -> Engine:
    if not isinstance(engine, Engine):
        raise Invalid("engine", f"expected an Engine, got {type(engine).__name__}")
    return engine


def _check_items(items: object) -> list[object]:
    if not isinstance(items, list | tuple):
        raise Invalid("items", f"expected a list of items, got {type(items).__name__}")
    return list(items)


def _build_entry(index: int, item: object) -> Entry:
    if not isinstance(item, Mapping):
        raise Invalid(f"items[{index}]", f"expected a dict, got {type(item).__name__}")
    kind = str(item.get("type") or "message")
    author = str(item.get("role") or ("tool" if kind.endswith("_output") else "assistant"))
    try:
        text = _render_text(kind, item)
    except RecursionError:  # it is refused when it is to be kept, with the reason
        text = ""
    return Entry(item=item, text=text if text.strip() else f"[{kind}]", author=author)


def _render_text(kind: str, item: Mapping[str, object]) -> str:
    """What a person reads of an item: what was said, or which tool was called with what, or what came of it."""
    if "content" in item and kind == "message":
        return _join_text(item["content"])
    if "output" in item and kind.endswith("_output"):
        return shorten(_join_text(item["output"]))
    if "name" in item:
        given = item.get("arguments", item.get("input", ""))
        came = f" → {shorten(_join_text(item['output']))}" if item.get("output") else ""
        return f"{item['name']}({shorten(_join_text(given))}){came}"
    for field in ("summary", "content", "queries", "action", "code", "operation", "arguments", "result"):
        if field in item and kind != "image_generation_call" and (rendered := _join_text(item[field])):
            return shorten(rendered)
    return ""


def _join_text(value: object) -> str:
    """The text in a value: a string, the parts of a message, or anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, map(_join_text, value)))
    if isinstance(value, Mapping):
        for field in ("text", "refusal", "transcript"):
            if isinstance(value.get(field), str):
                return str(value[field])
        if str(value.get("type", "")).endswith(("_image", "_file", "_audio", "_screenshot")):
            return f"[{value.get('filename') or value['type']}]"
    try:
        return json.dumps(value, ensure_ascii=False) if value is not None else ""
    except (TypeError, ValueError, RecursionError):  # such an item is refused when it is kept
        return ""
