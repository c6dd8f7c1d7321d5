"""A search as it is noted for the pages that show what agents look for: short, and as JSON."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..values.errors import Invalid
from ..values.records import Scope

if TYPE_CHECKING:
    from ..values.query import Page, Query

SEARCH_SIZE = 2048  # bytes of one search
QUERY, TITLE, HITS = 300, 80, 5  # characters of each, and hits, that are noted
_SHORT = 40  # characters of each where the whole would be too long
_TYPES = {"at": str, "door": str, "query": str, "scope": str, "count": int, "hits": list}
_HIT_TYPES = {"id": str, "title": str, "kind": str, "score": int | float}


def encode_search(query: Query, page: Page, door: str, at: datetime) -> bytes:
    """A search as JSON of at most `SEARCH_SIZE` bytes: names are cut for that, and hits left out.

    Without its scope, as the last resort: it is then shown to those alone who see everything.
    """
    encoded = b""
    for most, length, scope in ((HITS, QUERY, True), (HITS, _SHORT, True), (0, _SHORT, True), (0, _SHORT, False)):
        hits = [
            {"id": hit.record.id, "title": _name(hit.record.title or hit.record.text, min(TITLE, length)),
             "kind": str(hit.record.kind), "score": round(hit.score, 3)}
            for hit in page.hits[:most]
        ]  # fmt: skip
        search = {
            "at": at.isoformat(timespec="milliseconds"), "door": door, "query": query.text[:length],
            "scope": str(query.scope) if scope else "", "mode": query.mode, "count": len(page.hits), "cut": page.cut,
            "hits": hits,
        }  # fmt: skip
        encoded = json.dumps(search, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
        if len(encoded) <= SEARCH_SIZE:
            break
    return encoded


def decode_search(encoded: bytes) -> dict[str, Any] | None:
    """A search that was noted; None for what is none, as a part of one that was being written."""
    try:
        search = json.loads(encoded)
    except (ValueError, RecursionError):
        return None
    if not _has_types(search, _TYPES) or not all(_has_types(hit, _HIT_TYPES) for hit in search["hits"]):
        return None
    try:
        is_aware = datetime.fromisoformat(search["at"]).tzinfo is not None
        Scope.parse(search["scope"])
    except (ValueError, Invalid):
        return None
    return search if is_aware else None


def _has_types(value: Any, types: dict[str, Any]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), type_) for name, type_ in types.items())


def _name(text: str, length: int) -> str:
    """The first line of a text, cut."""
    return text.strip()[: length + 1].partition("\n")[0][:length]
