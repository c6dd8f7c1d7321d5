"""The same answers as data, for programs that asked for it: what each tool's `structuredContent` holds, and its schema.

It is left out unless `structured` is set: Claude Code and Codex show their model the data instead of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from ...values.query import Hit, Signal
from ...values.records import Heading, Importance, Json, Record
from .renderer import find_topic, format_moment, render_body

Schema: TypeAlias = "dict[str, Json]"


def describe_heading(record: Record | Heading) -> dict[str, Json]:
    """A chunk without its body."""
    return {
        "id": record.id, "topic": find_topic(record), "agent": record.author, "tags": [*record.tags],
        "importance": record.importance.value, "updated": format_moment(record.updated_at),
    }  # fmt: skip


def describe_record(record: Record) -> dict[str, Json]:
    """A chunk with all that a program may want to know of it."""
    return describe_heading(record) | {
        "content": render_body(record), "kind": record.kind.value, "scope": str(record.scope),
        "created": format_moment(record.created_at),
        "expires": format_moment(record.expires_at) if record.expires_at else None,
    }  # fmt: skip


def describe_written(record: Record) -> dict[str, Json]:
    """A chunk that was just written, with what it comes near to."""
    similar: list[Json] = [
        {"id": one.id, "topic": one.title, "likeness": one.likeness, "contradicts": one.contradicts}
        for one in record.similar
    ]
    expires = format_moment(record.expires_at) if record.expires_at else None
    return describe_heading(record) | {"expires": expires, "similar": similar}


def describe_hits(hits: Sequence[Hit]) -> list[Json]:
    """The hits of a search, with why each was found."""
    return [
        describe_record(hit.record)
        | {
            "score": hit.score,
            "keyword": _describe_signal(hit.why.keyword),
            "semantic": _describe_signal(hit.why.semantic),
            "superseded_by": hit.superseded_by,
        }
        for hit in hits
    ]


def _describe_signal(signal: Signal | None) -> Json:
    return None if signal is None else {"score": signal.score, "rank": signal.rank}


def _make_object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": cast(Json, properties), "required": [*properties]}


def _make_list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


_STRING: Schema = {"type": "string"}
_MAYBE: Schema = {"type": ["string", "null"]}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer"}
_BOOLEAN: Schema = {"type": "boolean"}
_NOTICE: Schema = {"type": "string", "description": "What is to be kept in mind of the rest."}
_CHUNK: dict[str, Schema] = {
    "id": _STRING, "topic": _STRING, "agent": _STRING, "tags": _make_list(_STRING),
    "importance": {"type": "string", "enum": [*Importance]}, "updated": _STRING,
}  # fmt: skip
_WHOLE = _CHUNK | {"content": _STRING, "kind": _STRING, "scope": _STRING, "created": _STRING, "expires": _MAYBE}
_SIGNAL: Schema = {
    "type": ["object", "null"],
    "properties": {"score": _NUMBER, "rank": {"type": ["integer", "null"]}},
    "required": ["score", "rank"],
}

OUTPUTS: dict[str, Schema] = {
    "search_context": _make_object(
        notice=_NOTICE,
        hits=_make_list(_make_object(**_WHOLE, score=_NUMBER, keyword=_SIGNAL, semantic=_SIGNAL, superseded_by=_MAYBE)),
        left_off=_COUNT | {"description": "How many more hits did not fit into max_chars."},
        degraded=_MAYBE | {"description": "Why not everything could be searched; null when it could."},
    ),
    "write_context": _make_object(
        **_CHUNK,
        expires=_MAYBE,
        similar=_make_list(_make_object(id=_STRING, topic=_STRING, likeness=_NUMBER, contradicts=_BOOLEAN)),
    ),
    "read_context": _make_object(
        notice=_NOTICE, found=_BOOLEAN, chunk=_make_object(**_WHOLE) | {"type": ["object", "null"]}
    ),
    "list_context": _make_object(
        notice=_NOTICE, chunks=_make_list(_make_object(**_CHUNK)), total=_COUNT, more=_BOOLEAN
    ),
    "delete_context": _make_object(id=_STRING, deleted=_BOOLEAN),
    "get_state": _make_object(notice=_NOTICE, key=_STRING, found=_BOOLEAN, value={}),
    "set_state": _make_object(key=_STRING, written=_STRING),
}
"""The schema of each tool's data, by the tool's name."""
