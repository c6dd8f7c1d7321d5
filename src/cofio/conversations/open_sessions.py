"""Which sessions may have come to the end of a stretch, so that not every message has them all read again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from ..extract.extractor import Message
from .projects import Project

MAX_SESSIONS = 10_000  # that are known
LOOK_EVERY = 4  # messages of a session after which it is looked at in any case
MIN_GAP = timedelta(hours=1)  # between two messages, which may be the end of a stretch


class OpenSessions:
    """What this process knows of the sessions that it has kept messages of."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[Project, str], tuple[datetime, int]] = {}
        """The time of the last message of each session, and how many have come since it was looked at."""
        self._lock = threading.Lock()

    def may_have_ended(self, project: Project, session: str, messages: Sequence[Message], zone: tzinfo) -> bool:
        """Note new messages; return whether a stretch may end before or among them.

        It does at a change of the day and after a long silence, which the last message known here is enough to see. A
        stretch that is full or whose topic has changed is seen a few messages later, and cut where it should be.
        """
        times = sorted(message.at for message in messages)
        with self._lock:
            last, unseen = self._sessions.pop((project, session), (None, LOOK_EVERY))
            points = times if last is None else [last, *times]
            days = {time.astimezone(zone).date() for time in points}
            has_gap = any(later - time >= MIN_GAP for time, later in pairwise(points))
            unseen += len(messages)
            looks = unseen >= LOOK_EVERY or len(days) > 1 or has_gap
            if times:
                self._sessions[project, session] = max(points), 0 if looks else unseen
            if len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            return looks
