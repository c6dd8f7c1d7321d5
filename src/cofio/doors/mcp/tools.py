"""The seven tools: one table for every transport, so that none can differ from another."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from ...secrets.policy import admit
from ...values.errors import CofioError, Conflict, Invalid, NotFound, Unavailable
from ...values.query import MAX_QUERY, AllOf, Filter, Hit, Mode, Page, Query, Where
from ...values.records import Importance, Json, Kind, Record, Scope
from ...values.scopes import MCP
from . import renderer, structured
from .structured import OUTPUTS, Schema
from .validation import BadArguments, describe_refusal, validate_arguments

if TYPE_CHECKING:
    from ...engine.engine import Engine

Arguments = dict[str, Json]

TOP_K, LIMIT = 6, 100
SHORTEST = 100  # characters that an answer may be held to
MAX_WEIGHED = 200  # hits that are weighed when a least score is asked for
TRIES = 20  # ids that are drawn for a chunk before it is given up
DAY = 86_400.0
_SEARCHED_EVERYWHERE = tuple(kind for kind in Kind if kind is not Kind.STATE)  # state is read by its key alone
_MODES: dict[str, Mode] = {"hybrid": "hybrid", "bm25": "keyword", "semantic": "semantic"}
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_STORED = renderer.render_note(f"stored {renderer.DATA}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says: a text for the agent, the same as data for programs, and what is to be said beside it."""

    text: str
    describe: Callable[[], dict[str, Json]] | None = None
    """Makes the data, which most clients do not want."""
    notes: tuple[str, ...] = ()
    is_error: bool = False
    stored: bool = False
    """Whether the text quotes what was stored."""

    def render(self, incomplete: str | None = None, *, structured: bool = False) -> dict[str, Json]:
        """The answer as the result of a `tools/call`; `incomplete` says why the memory did not know all of it."""
        first: dict[str, Json] = {"type": "text", "text": self.text}
        if self.stored:
            first["_meta"] = {"cofio/stored": True}
        content: list[Json] = [first]
        for note in (*self.notes, renderer.render_note(incomplete or "")):
            if note:
                content.append({"type": "text", "text": note})
        result: dict[str, Json] = {"content": content, "isError": self.is_error}
        if structured and self.describe is not None:
            result["structuredContent"] = self.describe()
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as clients see it, and what it does."""

    name: str
    title: str
    description: str
    input: Schema
    run: Callable[[Engine, Arguments], Answer]
    reads: bool = False
    """Whether it only looks."""
    destroys: bool = False
    again: bool = False
    """Whether doing it twice is as doing it once."""
    stores: Callable[[Arguments], dict[str, Json]] = lambda _: {}
    """What it would store, by the argument's name: it is looked through for secrets first."""

    def describe(self, *, structured: bool = False) -> dict[str, Json]:
        """The tool's entry in a `tools/list`; with the schema of its data where answers carry it."""
        hints: dict[str, Json] = {"readOnlyHint": self.reads, "openWorldHint": False}
        if not self.reads:
            hints |= {"destructiveHint": self.destroys, "idempotentHint": self.again}
        entry: dict[str, Json] = {
            "name": self.name, "title": self.title, "description": self.description, "inputSchema": self.input,
            "annotations": hints,
        }  # fmt: skip
        return entry | ({"outputSchema": OUTPUTS[self.name]} if structured else {})


def call_tool(
    engine: Callable[[], Engine], name: str, arguments: Mapping[str, Json], *, allow_secrets: bool = False
) -> Answer:
    """Run a tool. Whatever is wrong is an answer for the agent, who can do better: never a fault of the call."""
    tool = TOOLS.get(name)
    if tool is None:
        return Answer(f"MCP error -32602: Tool {name} not found", is_error=True)
    try:
        validated = validate_arguments(name, tool.input, arguments)
        admit("mcp", tool.stores(validated), allow=allow_secrets)
        memory = engine()
        run = partial(tool.run, memory, validated)
        return memory.run_on_replica(run) if tool.reads else run()
    except BadArguments as error:
        return Answer(str(error), is_error=True)
    except CofioError as error:
        return Answer(str(describe_refusal(name, tool.input, error) or error), is_error=True)


def _search_context(engine: Engine, arguments: Arguments) -> Answer:
    everywhere, least = bool(arguments.get("everywhere")), cast(float | None, arguments.get("min_score"))
    top, most = cast(int, arguments.get("top_k", TOP_K)), cast(int | None, arguments.get("max_chars"))
    # Any question gets an answer: what cannot be searched for is passed over, not refused.
    text = _NOT_TEXT.sub(" ", cast(str, arguments["query"]))[:MAX_QUERY]
    if not text.strip():
        return _answer_nothing("the query is empty: say what to look for, or use list_context", None)
    page = engine.search(
        Query(
            text,
            scope=Scope() if everywhere else MCP,
            kinds=_SEARCHED_EVERYWHERE if everywhere else (Kind.NOTE,),
            filter=_build_filter(arguments),
            mode=_MODES[cast(str, arguments.get("search_mode", "hybrid"))],
            limit=MAX_WEIGHED if least is not None else top,
            folds=everywhere,
            floor=None if least is None else 0.0,
            current=everywhere,
        )
    )
    hits = [hit for hit in page if least is None or any(_reaches(each, least) for each in (hit, *hit.others))][:top]
    if not hits:
        return _answer_nothing(_explain(engine, page), page.degraded, *([] if least is not None else page.near))
    blocks = [renderer.render_hit(hit, everywhere=everywhere) for hit in hits]
    count = renderer.fit(blocks, most)
    quotation, rest = renderer.cut(renderer.SEPARATOR.join(blocks[:count]), most)
    left_off = f"{len(hits) - count} more left off by max_chars" if count < len(hits) else ""
    # Said while meaning is off; that some of many records have no vector yet is not worth its tokens.
    degraded = "" if page.searched.semantic is not None else _explain(engine, page)
    notice = renderer.render_fence(count, left_off, rest, degraded)

    def describe() -> dict[str, Json]:
        return {
            "notice": notice, "hits": structured.describe_hits(hits[:count]), "left_off": len(hits) - count,
            "degraded": page.degraded,
        }  # fmt: skip

    return Answer(quotation, describe, (notice,), stored=True)


def _answer_nothing(why: str, degraded: str | None, *near: Hit) -> Answer:
    notice = renderer.render_note(why, renderer.render_near([hit.record for hit in near]))
    data: dict[str, Json] = {"notice": notice, "hits": [], "left_off": 0, "degraded": degraded}
    return Answer(renderer.NOTHING, lambda: data, (notice,))


def _explain(engine: Engine, page: Page) -> str:
    """Why more may be there than was found, without a path: an agent cannot mend it, but it can tell its user."""
    if page.degraded is None or page.searched.semantic is not None or page.searched.mode == "keyword":
        return page.degraded or ""
    summary = "searched by words only" if page.searched.mode == "hybrid" else "nothing was searched"
    return f"{summary}: {_explain_model(engine)}"


def _explain_model(engine: Engine) -> str:
    from ...embed.models import MODELS  # not before it is needed
    from ...embed.provision import read_state

    model = MODELS.get(engine.settings.embedder)
    state = read_state(engine.settings.models_folder, model) if model else None
    if state is None or state.kind == "ready":
        return "there is no model for meaning; `cofio doctor` tells why"
    return str(state)


def _reaches(hit: Hit, least: float) -> bool:
    """Whether the hit's words or its meaning score so much: each on its own scale, for a sum of both has none.

    By words that is BM25, or its relevance where that is more: in a small store BM25 is near 0 for every word.
    """
    words, meaning = hit.why.keyword, hit.why.semantic
    by_words = max(words.score, words.relevance) if words else 0.0
    return by_words >= least or (meaning is not None and meaning.score >= least)


def _build_filter(arguments: Arguments) -> Filter | None:
    tests: list[Filter] = []
    if arguments.get("agent"):  # agents fill in "" for what they leave out
        tests.append(Where("author", "=", cast(str, arguments["agent"])))
    if arguments.get("tags"):
        tests.append(Where("tags", "in", tuple(cast(list[str], arguments["tags"]))))
    return AllOf(*tests) if tests else None


def _write_context(engine: Engine, arguments: Arguments) -> Answer:
    days = cast(float | None, arguments.get("ttl_days"))
    ttl = None if days is None else days * DAY
    old = cast(str, arguments.get("replaces", ""))
    if not old:
        record = _write_new(engine, arguments, ttl)
    elif _find_own(engine, old) is None:
        return Answer(renderer.render_unknown(old), is_error=True)
    else:
        expiry = {"expires_at": None} if ttl is None else {"ttl": ttl}
        record = engine.edit(old, if_version=None, **_collect_fields(arguments), **expiry)
    hints = tuple(renderer.render_similar(one) for one in record.similar)
    return Answer(renderer.render_saved(record), lambda: structured.describe_written(record), hints)


def _collect_fields(arguments: Arguments) -> dict[str, object]:
    """What is written, by the names of a record's fields."""
    return {
        "title": arguments["topic"], "text": arguments["content"], "author": arguments.get("agent", renderer.AGENT),
        "tags": arguments.get("tags", []), "importance": arguments.get("importance", "medium"),
    }  # fmt: skip


def _write_new(engine: Engine, arguments: Arguments, ttl: float | None) -> Record:
    """Write a chunk under an id of ten hexadecimal digits, as agents know them."""
    write = partial(engine.write, MCP, source="mcp", ttl=ttl, related=True)
    for _ in range(TRIES):
        with suppress(Conflict):  # so few digits can come twice
            return write(id=os.urandom(5).hex(), **_collect_fields(arguments))  # type: ignore[arg-type]  # checked by the schema
    raise Unavailable("no free id was found for the chunk; nothing was saved: try again")


def _read_context(engine: Engine, arguments: Arguments) -> Answer:
    record = _find_any(engine, cast(str, arguments["id"]))
    if record is None:
        missing: dict[str, Json] = {"notice": "", "found": False, "chunk": None}
        return Answer(renderer.render_unknown(cast(str, arguments["id"])), lambda: missing)
    elsewhere = record.kind is not Kind.NOTE or record.scope not in MCP
    text, rest = renderer.cut(
        renderer.render_record(record, origin=elsewhere), cast("int | None", arguments.get("max_chars"))
    )
    notice = renderer.render_fence(1, rest)
    return Answer(
        text,
        lambda: {"notice": notice, "found": True, "chunk": structured.describe_record(record)},
        (notice,),
        stored=True,
    )


def _list_context(engine: Engine, arguments: Arguments) -> Answer:
    limit, offset = cast(int, arguments.get("limit", LIMIT)), cast(int, arguments.get("offset", 0))
    most, only = cast("int | None", arguments.get("max_chars")), _build_filter(arguments)
    headings = engine.headings(MCP, kinds=(Kind.NOTE,), filter=only, limit=limit + 1, offset=offset)
    lines = [renderer.render_heading(each) for each in headings[:limit]]
    head = f"{len(lines)} chunk(s) found:\n\n"
    fitting = renderer.fit(lines, None if most is None else most - len(head), "\n")
    more = fitting < len(headings)
    is_last = bool(headings) and not more  # then all that there are have been passed over or are here
    total = offset + len(headings) if is_last else engine.count(MCP, kinds=(Kind.NOTE,), filter=only)
    text, notice = renderer.EMPTY, ""
    if not lines:
        count = total or engine.count(MCP, kinds=(Kind.NOTE,))
        notice = renderer.render_note(f"{count} chunks are kept, but none of them is here" if count else "")
    else:
        text, rest = renderer.cut(f"{fitting} chunk(s) found:\n\n" + "\n".join(lines[:fitting]), most)
        where = f"{fitting} of {total}, next: offset={offset + fitting}" if more else ""
        notice = renderer.render_note(f"stored {renderer.DATA}", where, rest)

    def describe() -> dict[str, Json]:
        chunks: list[Json] = [structured.describe_heading(each) for each in headings[:fitting]]
        return {"notice": notice, "chunks": chunks, "total": total, "more": more}

    return Answer(text, describe, (notice,), stored=bool(lines))


def _delete_context(engine: Engine, arguments: Arguments) -> Answer:
    record_id = cast(str, arguments["id"])
    try:
        if _find_own(engine, record_id) is None:
            raise NotFound(record_id)
        engine.delete(record_id)
    except NotFound:
        return Answer(renderer.render_unknown(record_id), lambda: {"id": record_id, "deleted": False})
    return Answer(f"Chunk `{record_id}` deleted.", lambda: {"id": record_id, "deleted": True})


def _get_state(engine: Engine, arguments: Arguments) -> Answer:
    key = cast(str, arguments["key"])
    record = engine.get(MCP, key, kind=Kind.STATE)
    if record is None:
        missing: dict[str, Json] = {"notice": "", "key": key, "found": False, "value": None}
        return Answer(f'State key "{key}" not found.', lambda: missing)
    # A number or a flag has nothing to say to anyone; a text may.
    notice = _STORED if isinstance(record.data, str | list | dict) else ""
    data: dict[str, Json] = {"notice": notice, "key": key, "found": True, "value": record.data}
    return Answer(renderer.render_value(record.data), lambda: data, (notice,), stored=True)


def _set_state(engine: Engine, arguments: Arguments) -> Answer:
    key = cast(str, arguments["key"])
    record = engine.put(MCP, key, data=arguments["value"], kind=Kind.STATE, source="mcp")
    at = renderer.format_moment(record.updated_at)
    return Answer(f'State "{key}" written at {at}.', lambda: {"key": key, "written": at})


def _find_any(engine: Engine, record_id: str) -> Record | None:
    """What has the id, through whichever door it came; but state is read by its key alone."""
    try:
        record = engine.read(record_id)
    except (NotFound, Invalid):
        return None
    return record if record.kind is not Kind.STATE else None


def _find_own(engine: Engine, record_id: str) -> Record | None:
    """The chunk with the id. What came through other doors can be read here, not changed."""
    record = _find_any(engine, record_id)
    return record if record is not None and record.kind is Kind.NOTE and record.scope in MCP else None


def _make_input(*required: str, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": cast(Json, properties)}
    return schema | ({"required": list(required)} if required else {})


def _make_property(type_: Json, description: str, **more: Json) -> Schema:
    return {"type": type_, "description": description} | more


_STRING: Schema = {"type": "string"}
_ID = _make_property("string", "The chunk's id.")
_AGENT_FILTER = _make_property("string", "Only chunks of this agent.")
_TAG_FILTER = _make_property("array", "Only chunks with one of these tags.", items=_STRING)
_MAX_CHARS = _make_property("integer", "The most characters to return.", minimum=SHORTEST)

TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            name="search_context",
            title="Search memory",
            description=(
                "Find what is remembered, by words and by meaning, best first. Use it before a task, at an unfamiliar"
                " name, and when unsure of a fact."
            ),
            input=_make_input(
                "query",
                query=_make_property("string", "Specific terms, or a plain question."),
                tags=_TAG_FILTER,
                agent=_AGENT_FILTER,
                top_k=_make_property("integer", "The most results (default: 6).", minimum=1, maximum=20),
                min_score=_make_property(
                    "number",
                    "Least score of a result, by words (BM25) or meaning (cosine); 0 lets all through (default: what"
                    " is relevant).",
                    minimum=0,
                ),
                search_mode=_make_property("string", "Words and meaning (default), words, or meaning.", enum=[*_MODES]),
                everywhere=_make_property(
                    "boolean", "Also search files, conversations and facts from elsewhere (default: false)."
                ),
                max_chars=_MAX_CHARS,
            ),
            run=_search_context,
            reads=True,
        ),
        Tool(
            name="write_context",
            title="Remember",
            description=(
                "Store a chunk of memory, which the next search finds: a decision, the result of a subtask, what others"
                " will need. Search first; do not store a thing twice."
            ),
            input=_make_input(
                "topic",
                "content",
                topic=_make_property("string", 'Short and specific: "Auth: JWT over sessions", not "decision".'),
                content=_make_property("string", "Markdown: what was decided or found, and why."),
                agent=_make_property("string", "Who writes this, as in pm-agent (default: global)."),
                tags=_make_property("array", "Tags to find it by, as others use them.", items=_STRING),
                importance=_make_property("string", "Default: medium.", enum=[*Importance]),
                ttl_days=_make_property("number", "Forget it after so many days; left out, never.", exclusiveMinimum=0),
                replaces=_make_property(
                    "string", "The id of a chunk that this is the new version of; it keeps the id."
                ),
            ),
            run=_write_context,
            stores=lambda arguments: {
                name: arguments[name] for name in ("topic", "content", "tags", "agent") if name in arguments
            },
        ),
        Tool(
            name="read_context",
            title="Read a memory",
            description="Read one chunk whole, by its id.",
            input=_make_input("id", id=_ID, max_chars=_MAX_CHARS),
            run=_read_context,
            reads=True,
        ),
        Tool(
            name="list_context",
            title="List memories",
            description="List chunks without their bodies, last changed first: to take stock and to tidy up.",
            input=_make_input(
                agent=_AGENT_FILTER,
                tags=_TAG_FILTER,
                limit=_make_property("integer", "The most chunks (default: 100).", minimum=1, maximum=500),
                offset=_make_property("integer", "How many to skip (default: 0).", minimum=0, maximum=2**53 - 1),
                max_chars=_MAX_CHARS,
            ),
            run=_list_context,
            reads=True,
        ),
        Tool(
            name="delete_context",
            title="Forget a memory",
            description="Forget a chunk for good, by its id.",
            input=_make_input("id", id=_ID),
            run=_delete_context,
            destroys=True,
            again=True,
        ),
        Tool(
            name="get_state",
            title="Read a state",
            description="Read a state by its exact key: the current phase, a run's progress, a flag, project_tags.",
            input=_make_input("key", key=_make_property("string", "As in current_phase.")),
            run=_get_state,
            reads=True,
        ),
        Tool(
            name="set_state",
            title="Set a state",
            description=(
                "Set a state to any JSON value, in place of what it was: phases, counters, flags. It is not searched;"
                " what should be found goes into write_context."
            ),
            input=_make_input(
                "key",
                "value",
                key=_make_property("string", "As in current_phase or pipeline_run_042."),
                value={"description": "Any JSON value."},
            ),
            run=_set_state,
            destroys=True,
            again=True,
            # A key may tell of a value what the value itself does not.
            stores=lambda arguments: {"value": {cast(str, arguments["key"]): arguments["value"]}},
        ),
    )
}
