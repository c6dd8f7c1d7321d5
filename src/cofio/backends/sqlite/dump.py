"""All that a store holds, part by part, from one snapshot of the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import apsw
import numpy as np

from ...values.times import to_micros
from ..checkpoint_interface import PendingWrite, StoredCheckpoint, ThreadKey
from ..record_columns import decode_record
from ..store_copy import StoredPending, StoredRecord, StorePart
from ..store_time import compute_store_time
from .database import fetch
from .record_rows import COLUMNS, read_given

_LIVE = "(expires_at IS NULL OR expires_at > ?)"


def dump(connection: apsw.Connection, now: datetime) -> Iterator[StorePart]:
    """All that the snapshot on a connection holds and that has not expired."""
    at = compute_store_time(to_micros(now), connection.execute("SELECT updated FROM state").get)
    for row, text_seq, *columns in connection.execute(
        f"SELECT no, text_seq, {COLUMNS} FROM record WHERE {_LIVE} ORDER BY seq", (at,)
    ):
        record = decode_record(tuple(columns))
        found = fetch(
            connection,
            "SELECT name, data FROM vector JOIN embedder ON embedder.no = vector.embedder"
            " WHERE vector.no = ? AND text_seq = ?",
            (row, text_seq),
        )
        vectors = {name: np.frombuffer(data, "<f2").astype(np.float32) for name, data in found}
        yield StoredRecord(replace(record, given=read_given(connection, record.id) or None), vectors)
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
