"""One consistent look at a store: what a read sees."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

import apsw

from ...values.query import Bounds, Order
from ...values.records import Heading, Kind, Record, Scope
from .conditions import micros, within
from .record_rows import COLUMNS, HEADING, given_with, heading_of, moment, record_of, steady, text_digest


class SqliteView:
    """One consistent look at a store."""

    def __init__(self, connection: apsw.Connection, now: datetime) -> None:
        self._connection = connection
        self._at = steady(micros(now), connection.execute("SELECT updated FROM state").get)
        self.now = moment(self._at)

    def read(self, record_id: str) -> Record | None:
        """The record with this id."""
        return self._one("id = ?", record_id)

    def get(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key."""
        return self._one(
            "scope = (SELECT no FROM scope WHERE path = ?) AND kind = ? AND key = ?", scope.path, kind, key
        )

    def same(self, scope: Scope, kind: Kind, text: str) -> Record | None:
        """The oldest record of the scope and kind with just this text, white space apart."""
        return self._one(
            "digest = ? AND scope = (SELECT no FROM scope WHERE path = ?) AND kind = ?",
            text_digest(text), scope.path, kind, order="no",
        )  # fmt: skip

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The ids that begin so, in their order."""
        rows = self._connection.execute(
            "SELECT id FROM record WHERE id >= ? AND id < ? AND (expires_at IS NULL OR expires_at > ?)"
            " ORDER BY id LIMIT ?",
            (prefix, prefix + chr(sys.maxunicode), self._at, limit),
        )
        return [row[0] for row in rows]

    def adjacent_ids(self, record_id: str) -> tuple[str, str]:
        """The ids next before and next after this one in their order, also of what has expired; "" for none."""
        before, after = self._connection.execute(
            "SELECT (SELECT max(id) FROM record WHERE id < ?1), (SELECT min(id) FROM record WHERE id > ?1)",
            (record_id,),
        ).get
        return before or "", after or ""

    def listed(
        self, bounds: Bounds, *, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> list[Record]:
        """Records within bounds in the order in which they last changed, or were made."""
        return [record_of(row) for row in self._page(COLUMNS, bounds, limit, offset, newest, order)]

    def headings(
        self, bounds: Bounds, *, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> list[Heading]:
        """The same without their texts, which are not read."""
        return [heading_of(row) for row in self._page(HEADING, bounds, limit, offset, newest, order)]

    def _page(
        self, columns: str, bounds: Bounds, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> apsw.Cursor:
        condition = within(bounds, self._at, by_row=False)
        way = "DESC" if newest else "ASC"
        by = {"changed": "seq {0}", "created": "created_at {0}, seq {0}", "written": "created_at {0}, no {0}"}[order]
        return self._connection.execute(
            f"SELECT {columns} FROM record WHERE {condition.sql} ORDER BY {by.format(way)} LIMIT ? OFFSET ?",
            (*condition.values, limit, offset),
        )

    def count(self, bounds: Bounds) -> int:
        """How many records are within bounds."""
        condition = within(bounds, self._at, by_row=False)
        return int(self._connection.execute(f"SELECT count(*) FROM record WHERE {condition.sql}", condition.values).get)

    def scopes(self, under: Scope, kinds: Sequence[Kind] = ()) -> list[tuple[Scope, int]]:
        """Each scope that holds records, of these kinds if any are named, with their number."""
        among = f" AND kind IN ({','.join('?' * len(kinds))})" if kinds else ""
        rows = self._connection.execute(
            "SELECT path, count(*) FROM record JOIN scope ON scope.no = record.scope WHERE path >= ? AND path < ?"
            f" AND (expires_at IS NULL OR expires_at > ?){among} GROUP BY path ORDER BY path",
            (under.path, under.path + b"\xff", self._at, *kinds),
        )
        return [(Scope.from_path(path), count) for path, count in rows]

    def given(self, record_id: str) -> dict[str, tuple[float, ...]]:
        """The vectors that were given with a record."""
        return given_with(self._connection, record_id) if self.read(record_id) else {}

    def _one(self, where: str, *values: str | bytes, order: str = "") -> Record | None:
        first = f" ORDER BY {order} LIMIT 1" if order else ""
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM record WHERE {where} AND (expires_at IS NULL OR expires_at > ?){first}",
            (*values, self._at),
        ).get
        return None if row is None else record_of(row)
