"""Changes that something outside of the store, as Markdown files, shows too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ..engine.engine import Answers, Engine
from ..engine.retries import BUSY, retry_changes
from ..values.changes import Change, Delete, Drop, Edit, Put
from ..values.records import Draft, Kind, Record, Scope
from .message_records import is_turn

VISIBLE_KINDS = frozenset({Kind.EPISODE, Kind.FACT, Kind.PROFILE, Kind.CASE, Kind.SKILL})


class VisibleRecord(NamedTuple):
    """A record that people see; or, without a kind, all of a scope and under it."""

    scope: Scope
    kind: Kind | None
    key: str

    @classmethod
    def from_record(cls, record: Record | Draft) -> VisibleRecord:
        """What people see of a record."""
        return cls(record.scope, record.kind, record.key or "")


class Mirror(Protocol):
    """Shows what is remembered somewhere else, as files."""

    def apply(self, changes: Sequence[Change], visible: Sequence[VisibleRecord], *, forgets: bool) -> Answers:
        """Make changes of visible records, as `Engine.apply` does, and show them.

        They may be shown after this returns, unless something is forgotten.
        """

    def discard(self, is_meant: Callable[[Draft], bool]) -> None:
        """Keep nothing more of what was seen once and holds such a record: it is to be forgotten for good."""


def apply_mirrored(engine: Engine, mirror: Mirror | None, changes: Sequence[Change]) -> Answers:
    """Make changes, as `Engine.apply` does, and have the mirror show them."""
    visible = [] if mirror is None else [*_find_visible(engine, changes)]
    if mirror is None or not visible:
        return engine.apply(changes)
    return mirror.apply(changes, visible, forgets=any(isinstance(change, Delete | Drop) for change in changes))


def change_mirrored(
    engine: Engine, mirror: Mirror | None, work: Callable[[], Sequence[Change]], *, busy: str = BUSY
) -> Answers:
    """Make the changes that `work` returns, as `Engine.change` does, and have the mirror follow."""
    return retry_changes(work, lambda changes: apply_mirrored(engine, mirror, changes), busy=busy)


def _find_visible(engine: Engine, changes: Iterable[Change]) -> Iterator[VisibleRecord]:
    ids: list[str] = []
    for change in changes:
        if isinstance(change, Put) and change.draft.kind in VISIBLE_KINDS:
            yield VisibleRecord.from_record(change.draft)
        elif isinstance(change, Drop):
            yield VisibleRecord(change.scope, None, "")
        elif isinstance(change, Edit | Delete) and not is_turn(change.id):  # a carve moves many of those
            ids.append(change.id)
    for record in engine.read_many(ids) if ids else ():  # one that is not there the change itself reports
        if record is not None and record.kind in VISIBLE_KINDS:
            yield VisibleRecord.from_record(record)
