"""Which sessions have fallen silent: they were not flushed, and nothing has come to them for a while."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..engine.engine import Engine
from ..values.records import Kind
from ..values.scopes import CONVERSATIONS
from .projects import Project


def find_quiet_sessions(engine: Engine, since: datetime) -> Iterator[tuple[Project, str]]:
    """The sessions with messages that wait, and to which nothing has come since then, whichever server took it in."""
    for scope in engine.scopes(CONVERSATIONS, kinds=(Kind.TURN,)):
        if len(scope.names) != 5 or scope.names[3] != "session":
            continue
        newest = engine.list(scope, exact=True, kinds=(Kind.TURN,), limit=1)
        # By when it was taken in: a message may be sent long after it was said.
        if newest and newest[0].updated_at <= since:
            _, app, project, _, session = scope.names
            yield Project(app=app, name=project), session
