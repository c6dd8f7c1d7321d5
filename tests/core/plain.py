"""A memory that is a plain dict, and filters as plain Python: what the engine must agree with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cofio import AllOf, AnyOf, Conflict, Draft, Filter, Json, Kind, NotFound, Record, Scope, Where

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MISSING = object()


def holds(filter_: Filter | None, record: Record) -> bool:
    """Whether the filter lets the record through."""
    if filter_ is None:
        return True
    if isinstance(filter_, AllOf):
        return all(holds(part, record) for part in filter_.parts)
    if isinstance(filter_, AnyOf):
        return any(holds(part, record) for part in filter_.parts)
    if isinstance(filter_.value, tuple):
        single = "has" if filter_.name == "tags" else "="
        return any(holds(Where(filter_.field, single, value), record) for value in filter_.value)  # type: ignore[arg-type]
    if filter_.name == "tags":
        return str(filter_.value).casefold() in {tag.casefold() for tag in record.tags}
    if filter_.operator == "has":
        assert isinstance(filter_.value, Scope)
        return record.scope in filter_.value
    if filter_.name == "data":
        return _data_holds(filter_, record.data)
    found = getattr(record, filter_.name)
    if found is None:
        return filter_.operator == "!="
    return COMPARE[filter_.operator](found, filter_.value)


def _data_holds(test: Where, data: Json) -> bool:
    found: object = data
    for name in test.path:
        found = found.get(name, MISSING) if isinstance(found, dict) else MISSING
    comparable = found is not MISSING and _type(found) == _type(test.value)
    if test.operator == "!=":
        return not (comparable and found == test.value)
    return comparable and COMPARE[test.operator](found, test.value)


def _type(value: object) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    return "number" if isinstance(value, int | float) else type(value).__name__


class Plain:
    """What a store should hold: its records by id, in the order in which they last changed."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.born: dict[str, int] = {}
        self.now = self.updated = datetime.min.replace(tzinfo=UTC)
        self._births = 0

    def at(self, now: datetime) -> None:
        """Set the time. A clock that has gone back by some minutes does not take the store with it."""
        self.now = self.updated if now < self.updated <= now + timedelta(minutes=5) else now

    def alive(self) -> list[Record]:
        """The records that have not expired, the first changed first."""
        return [each for each in self.records.values() if each.expires_at is None or each.expires_at > self.now]

    def within(self, scope: Scope, exact: bool, kinds: Iterable[Kind], filter_: Filter | None) -> list[Record]:
        """The records that a read with these bounds may see."""
        return [
            record
            for record in self.alive()
            if (record.scope == scope or (not exact and record.scope in scope))
            and (not kinds or record.kind in kinds)
            and holds(filter_, record)
        ]

    def get(self, scope: Scope, kind: Kind, key: str | None) -> Record | None:
        """What the key holds."""
        found = [each for each in self.alive() if (each.scope, each.kind, each.key) == (scope, kind, key)]
        return found[0] if found and key is not None else None

    def read(self, id: str) -> Record:
        """The record with this id."""
        found = [each for each in self.alive() if each.id == id]
        if not found:
            raise NotFound(id)
        return found[0]

    def same(self, draft: Draft) -> Record | None:
        """The oldest record of the draft's scope and kind that says the same."""
        alike = [
            each for each in self.alive() if (each.scope, each.kind, each.text) == (draft.scope, draft.kind, draft.text)
        ]
        return min(alike, key=lambda each: self.born[each.id], default=None)

    def new(self, draft: Draft, id: str) -> Record:
        """Remember a draft under the id that the engine chose."""
        if any(each.id == id for each in self.alive()) or self.get(draft.scope, draft.kind, draft.key):
            raise Conflict(id)
        self._make_room(draft.scope, draft.kind, draft.key)
        self.records.pop(id, None)
        record = Record(
            id=id, scope=draft.scope, kind=draft.kind, key=draft.key, title=draft.title, text=draft.text,
            data=draft.data, tags=draft.tags, importance=draft.importance, author=draft.author, source=draft.source,
            parent=draft.parent, position=draft.position, created_at=self.now, updated_at=self.now,
            expires_at=draft.expires_at, version=1,
        )  # fmt: skip
        self._births += 1
        self.born[id] = self._births
        self.records[id] = record
        return record

    def put(self, draft: Draft, id: str, if_version: int | None) -> Record:
        """Replace what the key holds, or make it."""
        assert draft.key is not None
        held = self.get(draft.scope, draft.kind, draft.key)
        self.expect(draft.key, held, if_version)
        if held is None:
            return self.new(draft, id)
        names = ("title", "text", "data", "tags", "importance", "author", "source", "parent", "position", "expires_at")
        return self.change(held, {name: getattr(draft, name) for name in names})

    def edit(self, id: str, fields: dict[str, object], if_version: int | None) -> Record:
        """Change some fields, among them the scope and the key."""
        old = self.read(id)
        self.expect(id, old, if_version)
        target = replace(old, **fields)  # type: ignore[arg-type]
        holder = self.get(target.scope, target.kind, target.key)
        if holder is not None and holder.id != id:
            raise Conflict(id)
        if (target.scope, target.key) != (old.scope, old.key):
            self._make_room(target.scope, target.kind, target.key)
        return self.change(old, fields)

    def change(self, old: Record, fields: dict[str, object]) -> Record:
        """Give a record new content, one version up."""
        record = replace(old, **fields, updated_at=self.now, version=old.version + 1)  # type: ignore[arg-type]
        del self.records[old.id]
        self.records[old.id] = record
        return record

    def delete(self, id: str, if_version: int | None) -> None:
        """Forget one record."""
        self.expect(id, self.read(id), if_version)
        del self.records[id]

    def drop(self, scope: Scope) -> int:
        """Forget a scope; the number of records, the expired ones too."""
        doomed = [record for record in self.records.values() if record.scope in scope]
        for record in doomed:
            del self.records[record.id]
        return len(doomed)

    def purge(self, before: datetime) -> None:
        """Forget for good what had expired by then."""
        doomed = [each for each in self.records.values() if each.expires_at is not None and each.expires_at <= before]
        for record in doomed:
            del self.records[record.id]
        if doomed:
            self.updated = max(self.updated, self.now)

    @staticmethod
    def expect(what: str, held: Record | None, if_version: int | None) -> None:
        """Raise Conflict unless the record is at the version."""
        if if_version is not None and if_version != (held.version if held else 0):
            raise Conflict(what)

    def _make_room(self, scope: Scope, kind: Kind, key: str | None) -> None:
        """Take the key from a record that has expired."""
        alive = {record.id for record in self.alive()}
        for record in list(self.records.values()):
            taken = key is not None and (record.scope, record.kind, record.key) == (scope, kind, key)
            if taken and record.id not in alive:
                del self.records[record.id]
