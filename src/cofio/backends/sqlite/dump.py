"""All that a store holds, part by part, from one snapshot of the database."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

import apsw
import numpy as np

from ..checkpoint_interface import PendingWrite, StoredCheckpoint, ThreadKey
from ..record_columns import decode_record
from ..record_interface import ChangeNumbers
from ..store_copy import StoredPending, StoredRecord, StorePart
from .database import fetch
from .record_rows import COLUMNS, read_given
from .vector_rows import has_token_codes

if TYPE_CHECKING:
    from ...values.changes import Vector

# By the embedder, too: vectors are in the order of both, and all of them would be walked through.
_VECTOR = "SELECT data, {codes} FROM vector WHERE embedder = ? AND no = ? AND text_seq = ?"


def dump(connection: apsw.Connection) -> Generator[StorePart]:
    """All that the snapshot on a connection holds."""
    embedders: list[tuple[int, str]] = fetch(connection, "SELECT no, name FROM embedder")
    vector_sql = _VECTOR.format(codes="token_codes" if has_token_codes(connection) else "NULL")
    for first, last, restated, *columns in connection.execute(
        f"SELECT no, seq, text_seq, {COLUMNS} FROM record ORDER BY seq"
    ):
        record = decode_record(tuple(columns))
        vectors: dict[str, Vector] = {}
        codes: dict[str, bytes] = {}
        for embedder, name in embedders:
            data, code = connection.execute(vector_sql, (embedder, first, restated)).get or (None, None)
            if data is not None:
                vectors[name] = np.frombuffer(data, "<f2").astype(np.float32)
            if code is not None:
                codes[name] = code
        whole = replace(record, given=read_given(connection, record.id) or None)
        yield StoredRecord(whole, vectors, codes, ChangeNumbers(first, last, restated))
    for space, name, ns, *rest in connection.execute(
        "SELECT space, name, ns, checkpoint.no, id, parent, base, depth, place, created_at, expires_at, metadata, body"
        " FROM checkpoint JOIN thread ON thread.no = checkpoint.thread ORDER BY checkpoint.no"
    ):
        yield StoredCheckpoint(ThreadKey(space, name, ns), *rest)
    for space, name, ns, which, *write in connection.execute(
        "SELECT space, name, ns, id, task, at, path, channel, type, value FROM pending"
        " JOIN thread ON thread.no = pending.thread"
    ):
        yield StoredPending(ThreadKey(space, name, ns), which, PendingWrite._make(write))
