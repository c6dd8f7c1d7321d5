"""How the file that a document was made of is kept: in the store, beside its topics, in records that no search finds.

In the store, and not beside it as a file, so that it comes and goes with its document in one transaction, is part of
every backup and export, and is unreadable once it is deleted.
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from ..values.records import MAX_TEXT, Draft, Json, Kind, Record, Scope

PART = MAX_TEXT // 4 * 3
"""Bytes that are one record's text in base64."""
_KEY = "original-{:04}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A file as it was sent."""

    data: bytes
    name: str
    mime: str


def split_original(scope: Scope, data: bytes, source: str) -> Iterator[Draft]:
    """The records that keep a file."""
    packed = zlib.compress(data)
    for number, start in enumerate(range(0, len(packed), PART)):
        part = b64encode(packed[start : start + PART]).decode("ascii")
        yield Draft(scope=scope, kind=Kind.LEDGER, key=_KEY.format(number), text=part, source=source)


def describe_original(data: bytes, mime: str) -> dict[str, Json]:
    """What a document's record says of its file."""
    return {"bytes": len(data), "sha256": digest_file(data), "mime": mime}


def digest_file(data: bytes) -> str:
    """What tells a file from all others."""
    return hashlib.sha256(data).hexdigest()


def join_original(parts: Sequence[Record], described: dict[str, Json]) -> bytes | None:
    """The file that records keep; None when they are not all there."""
    packed = b"".join(b64decode(part.text) for part in sorted(parts, key=lambda part: part.key or ""))
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, cast(int, described["bytes"]) + 1)
    except zlib.error:
        return None
    return data if digest_file(data) == described["sha256"] else None
