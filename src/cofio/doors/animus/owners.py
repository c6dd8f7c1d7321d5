"""Whose memory it is: a project's, an agent's in it, or a task's of the agent; as the host names them, and as one id.

The id is what the protocol makes of the names, and two different sets of names may make the same. The first to put
something has it from then on: for each id, the names are kept beside the memory, and every call is held against them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...values.errors import NotFound
from ...values.records import Draft, Json, Kind, Record, Scope
from ...values.scopes import ANIMUS, ANIMUS_OWNERS

if TYPE_CHECKING:
    from ...engine.engine import Engine

SOURCE = "animus"
LONGEST_SEGMENT = 64
PAGE = 10_000

_STRANGE = re.compile(r"[^a-z0-9_-]")
_DASHES = re.compile(r"-+")


def normalize(segment: str) -> str:
    """A name as it stands in an id: lower case, digits, `_` and `-`, at most 64; a hash when nothing of it is left."""
    plain = _DASHES.sub("-", _STRANGE.sub("-", segment.lower())).strip("-")[:LONGEST_SEGMENT]
    if plain:
        return plain
    import hashlib  # 2 ms that hardly a name needs

    return hashlib.sha256(segment.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Collision(Exception):
    """Another scope has this id already."""

    def __init__(self, scope_id: str) -> None:
        super().__init__(f"scope id '{scope_id}' belongs to another scope, whose names differ from these")
        self.scope_id = scope_id


@dataclass(frozen=True, slots=True)
class Owner:
    """A scope as the host names it."""

    project: str
    agent: str | None = None
    task: str | None = None

    @property
    def id(self) -> str:
        """What the protocol makes of the names."""
        parts = [f"proj_{normalize(self.project)}"]
        if self.agent is not None:
            parts.append(f"agent_{normalize(self.agent)}")
        if self.task is not None:
            parts.append(f"task_{normalize(self.task)}")
        return "__".join(parts)

    @property
    def scope(self) -> Scope:
        """Where its records are.

        Raises:
            Invalid: a name is too long, or holds what no name may.
        """
        return Scope(*ANIMUS.names, *(name for name in (self.project, self.agent, self.task) if name is not None))

    @property
    def data(self) -> dict[str, Json]:
        """The scope as the protocol writes it."""
        names: dict[str, Json] = {"project_id": self.project, "agent_id": self.agent, "task_id": self.task}
        return {name: value for name, value in names.items() if value is not None}


def find_entry(engine: Engine, owner: Owner) -> Record | None:
    """The entry of the scope; None when nothing was put there yet.

    Raises:
        Collision: the id is another scope's.
    """
    entry = engine.get(ANIMUS_OWNERS, owner.id, kind=Kind.STATE)
    if entry is not None and entry.data != owner.data:
        raise Collision(owner.id)
    return entry


def claim(engine: Engine, owner: Owner) -> None:
    """Make sure that the scope has its id.

    Raises:
        Collision: the id is another scope's.
    """
    from ...values.changes import Put

    def enter() -> list[Put]:
        """Make the entry, unless someone else was first: perhaps for the same scope."""
        if find_entry(engine, owner) is not None:
            return []
        draft = Draft(scope=ANIMUS_OWNERS, key=owner.id, kind=Kind.STATE, data=owner.data, source=SOURCE)
        return [Put(draft=draft, how="key", if_version=0)]

    engine.change(enter, busy=f"the entry of scope {owner.id} is made and removed all the time; try again")


def delete(engine: Engine, owner: Owner) -> None:
    """Forget what the scope itself holds, not what its agents and tasks do, and give up its id.

    Raises:
        Collision: the id is another scope's.
    """
    from ...values.changes import Delete

    entry = find_entry(engine, owner)

    def delete_page() -> list[Delete]:
        page = engine.headings(owner.scope, exact=True, kinds=(Kind.ITEM,), limit=PAGE)
        return [Delete(id=each.id) for each in page]

    while engine.change(delete_page):
        pass
    if entry is not None:
        with suppress(NotFound):
            engine.delete(entry.id)
        # What was put meanwhile stays, and with it the scope. (A put looks at the entry afterwards, too.)
        if engine.count(owner.scope, exact=True, kinds=(Kind.ITEM,)):
            claim(engine, owner)


def list_owners(engine: Engine, project: str | None) -> Iterator[dict[str, Json]]:
    """Every scope, or those of a project, in the order in which they came."""
    segment = normalize(project) if project else None
    for entry in engine.each(ANIMUS_OWNERS, exact=True, kinds=(Kind.STATE,)):
        names = entry.data
        if isinstance(names, dict) and (segment is None or normalize(str(names.get("project_id"))) == segment):
            yield names
