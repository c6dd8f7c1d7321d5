"""The table in which earlier versions kept the checkpoints of `postgresql:`, and how they move into the memory.

All rows are moved while the table is locked, in batches that are each committed; then the table is renamed, and is not
read again. Other processes wait meanwhile, and then find nothing to move. When it is cut off the table is as it was,
and the next process that opens the memory goes on: what was moved already is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

import psycopg
from psycopg import errors, sql

from ...checkpoints.checkpoints import Checkpoint, Checkpoints
from ...values.errors import Unavailable

__all__ = ["CheckpointTable"]

Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]

COLUMNS = (
    "thread_key", "checkpoint_key", "thread_id", "checkpoint_id", "turn", "created_at", "expires_at", "state",
    "metadata",
)  # fmt: skip
SUFFIX = "_moved"
_AT_ONCE = 50  # checkpoints, which may be large, in one transaction
_LONGEST_NAME = 63
_FIND = (
    "SELECT pg_has_role(c.relowner, 'USAGE'), has_schema_privilege(n.oid, 'CREATE'), current_user,"
    " (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a"
    " WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND c.relname = %s AND c.relkind = 'r'"
)
_READ = sql.SQL(
    "SELECT thread_id, checkpoint_id, created_at, expires_at, state, metadata::text FROM {}"
    " WHERE expires_at IS NULL OR expires_at > clock_timestamp() ORDER BY turn"
)


class CheckpointTable:
    """A table of checkpoints that may be there."""

    def __init__(self, parameters: dict[str, str], schema: str, table: str) -> None:
        self._parameters = parameters
        self._schema = schema
        self._table = table
        self._name = sql.Identifier(schema, table)

    def move_into(self, checkpoints: Checkpoints, space: str) -> None:
        """Move what the table holds into a space of a memory, if there is such a table.

        Raises:
            Unavailable: the database fails, or the table is another user's; the message says what to run.
        """
        try:
            with psycopg.connect(**self._build_options()) as connection, connection.cursor() as cursor:
                if not self._lock(cursor):
                    return
                with connection.cursor("cofio_checkpoints") as rows:
                    rows.itersize = _AT_ONCE
                    rows.execute(_READ.format(self._name))
                    saved = map(_read_row, rows)
                    while batch := [*islice(saved, _AT_ONCE)]:
                        checkpoints.restore(space, batch)
                self._rename(cursor)
        except psycopg.Error as error:
            said = error.diag.message_primary or type(error).__name__
            raise Unavailable(
                f"the checkpoints in the table {self._schema}.{self._table} could not be moved into the memory: {said};"
                " they are where they were, and the next call tries again"
            ) from None  # its text may have a part of the connection string

    def _build_options(self) -> dict[str, Any]:
        return {"connect_timeout": "10", "application_name": "cofio", **self._parameters}

    def _lock(self, cursor: Cursor) -> bool:
        """Keep everyone else from the table until the end of the transaction; whether there is one."""
        found = cursor.execute(_FIND, [self._schema, self._table]).fetchone()
        if found is None or sorted(found[3] or ()) != sorted(COLUMNS):
            return False
        self._check_rights(cursor, *found[:3])
        try:
            cursor.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(self._name))
        except errors.UndefinedTable:  # somebody else has moved it while this one waited
            return False
        return True

    def _check_rights(self, cursor: Cursor, owns_table: bool, may_create: bool, user: str) -> None:
        """See to it that this user may rename the table at the end."""
        missing: list[sql.Composed] = []
        if not owns_table:
            missing.append(sql.SQL("ALTER TABLE {} OWNER TO {}").format(self._name, sql.Identifier(user)))
        if not may_create:
            schema = sql.Identifier(self._schema)
            missing.append(sql.SQL("GRANT CREATE ON SCHEMA {} TO {}").format(schema, sql.Identifier(user)))
        if missing:
            statements = "; ".join(each.as_string(cursor) for each in missing)
            raise Unavailable(
                f"the table {self._schema}.{self._table} holds checkpoints that are to be moved into the memory, and"
                f" this user may not rename it; as a superuser run: {statements}"
            )

    def _rename(self, cursor: Cursor) -> None:
        for name in self._list_names():
            taken = cursor.execute(
                "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %s AND c.relname = %s",
                [self._schema, name],
            )
            if not taken.fetchall():
                cursor.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(self._name, sql.Identifier(name)))
                return

    def _list_names(self) -> Iterator[str]:
        """Names for the table when it is empty for its readers: one of an earlier time may have the first."""
        number = 1
        while True:
            suffix = SUFFIX if number == 1 else f"{SUFFIX}_{number}"
            yield self._table[: _LONGEST_NAME - len(suffix)] + suffix
            number += 1


def _read_row(row: tuple[Any, ...]) -> Checkpoint:
    thread, which, created_at, expires_at, state, metadata = row
    return Checkpoint(
        thread=thread, ns="", id=which, parent=None, metadata=json.loads(metadata), created_at=created_at,
        expires_at=expires_at, state=json.loads(state),
    )  # fmt: skip
