"""Which sessions may have come to the end of a stretch, so that not every message has them all read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from typing import NamedTuple

from ..extract.extractor import Message
from .projects import Project

MAX_SESSIONS = 10_000  # that are known
LOOK_EVERY = 4  # messages of a session after which it is looked at in any case
MIN_GAP = timedelta(hours=1)  # between two messages, which may be the end of a stretch


class _Session(NamedTuple):
    last: datetime
    unseen: int
    """Messages since it was last looked at."""


class OpenSessions:
    """What this process knows of the sessions that it has kept messages of."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[Project, str], _Session] = OrderedDict()
        self._lock = threading.Lock()

    def may_have_ended(self, project: Project, session: str, messages: Sequence[Message], zone: tzinfo) -> bool:
        """Note new messages; return whether a stretch may end before or among them.

        It does at a change of the day and after a long silence, which the last message known here is enough to see. A
        stretch that is full or whose topic has changed is seen a few messages later, and cut where it should be.
        """
        key, times = (project, session), sorted(message.at for message in messages)
        with self._lock:
            known = self._sessions.pop(key, None)
            points = times if known is None else [known.last, *times]
            unseen = len(messages) + (0 if known is None else known.unseen)
            looks = known is None or unseen >= LOOK_EVERY or _have_gap(points, zone)
            if times:
                self._sessions[key] = _Session(max(points), 0 if looks else unseen)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
            return looks


def _have_gap(times: Sequence[datetime], zone: tzinfo) -> bool:
    days = {time.astimezone(zone).date() for time in times}
    return len(days) > 1 or any(later - time >= MIN_GAP for time, later in pairwise(times))
