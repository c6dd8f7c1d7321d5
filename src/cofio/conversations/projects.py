"""Where the memory of conversations is kept, and by which names its records are known outside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..values.records import Draft, Kind, Record, Scope
from ..values.scopes import CONVERSATIONS

Track: TypeAlias = Literal["user", "agent"]
PREFIXES = {Kind.EPISODE: "ep", Kind.FACT: "af", Kind.CASE: "ac", Kind.SKILL: "sk"}
_KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}
_PUBLIC = re.compile(r"(?P<owner>.+)_(?P<key>(?P<prefix>ep|af|ac|sk)_\d{8}_\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project of an app: nothing that is said in one is ever seen from another."""

    app: str = "default"
    name: str = "default"

    @property
    def scope(self) -> Scope:
        """All that the project holds."""
        return CONVERSATIONS / self.app / self.name

    def session(self, name: str) -> Scope:
        """The messages of a session that have not been carved yet."""
        return self.scope / "session" / name

    def owner(self, track: Track, name: str) -> Scope:
        """What is remembered of a user or by an agent."""
        return self.scope / track / name


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicId:
    """A record as a public id names it."""

    track: Track
    owner: str
    kind: Kind
    key: str


def public_id(record: Record | Draft) -> str:
    """The id by which clients know an episode, a fact, a case or a skill: its owner's, and its own."""
    return f"{record.scope.names[-1]}_{record.key}"


def parse_public_id(public: str) -> PublicId | None:
    """What a public id names; None when it is not one."""
    found = _PUBLIC.fullmatch(public)
    if found is None:
        return None
    kind = _KINDS[found["prefix"]]
    track: Track = "user" if kind in (Kind.EPISODE, Kind.FACT) else "agent"
    return PublicId(track=track, owner=found["owner"], kind=kind, key=found["key"])
