"""Takes out of a memory what its user takes back by its name, in the repository and in what they want everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from ..conversations.conversations import Conversations
from ..conversations.message_records import fields
from ..conversations.projects import Project, public_id
from ..conversations.stretches import PROFILE, make_profile_put
from ..extract.extractor import Entry, Message
from ..extract.profiles import merge_entries
from ..values.changes import Change, Delete
from ..values.errors import Conflict, NotFound
from ..values.query import Where
from ..values.records import Json, Kind, Record, Scope
from .lessons import PREFERENCE, REMEMBER, clean_prose
from .repositories import find_personal_project
from .withdrawals import Withdrawal, find_withdrawals

_LABELS = (PREFERENCE, REMEMBER)
_MOST = 200  # lessons of one sort that are looked at, the newest first


class LessonRemover:
    """Removes lessons of one user, with the facts and the part of the profile that say the same."""

    def __init__(self, conversations: Conversations, user: str) -> None:
        self._conversations = conversations
        self._engine = conversations.engine
        self._user = user

    def remove(self, project: Project, session: str, messages: Iterable[Message]) -> None:
        """Remove what the messages take back of what was said before them, there and in the user's own scope."""
        for message in messages:
            for withdrawal in find_withdrawals(clean_prose(message.text)) if message.role == "user" else ():
                self.remove_one(project, session, message, withdrawal)

    def remove_one(self, project: Project, session: str, message: Message, withdrawal: Withdrawal) -> None:
        """Remove what a message takes back, there and in the user's own scope."""
        # Another process may be at the same transcript, and have done it.
        with suppress(NotFound, Conflict):
            self._remove_from(project, session, message, withdrawal)
        with suppress(NotFound, Conflict):
            self._remove_personal(message.at, withdrawal)

    def _remove_from(self, project: Project, session: str, message: Message, withdrawal: Withdrawal) -> None:
        home = project.owner("user", self._user)
        lessons = self._list_lessons(home, message.at, withdrawal)
        echoes = [fact for lesson in lessons for fact in self._list_siblings(lesson) if withdrawal.covers(fact.text)]
        doomed = dict.fromkeys(each.id for each in (*lessons, *echoes))
        changes: list[Change] = [Delete(id=each) for each in doomed]
        changes += self._end_in_profile(home, session, message, withdrawal)
        if changes:
            self._conversations.apply(changes)

    def _remove_personal(self, before: datetime, withdrawal: Withdrawal) -> None:
        """Remove what was kept in those words alone: with its message, for nothing else is in it."""
        project = find_personal_project()
        for lesson in self._list_lessons(project.owner("user", self._user), before, withdrawal):
            siblings = self._list_siblings(lesson)
            episode = None if lesson.parent is None else self._engine.read_many([lesson.parent])[0]
            if episode is not None and not any(each.tags for each in siblings if each.id != lesson.id):
                self._conversations.deleter.delete_memory(project, public_id(episode))
            else:
                self._conversations.apply([Delete(id=lesson.id)])

    def _list_lessons(self, home: Scope, before: datetime, withdrawal: Withdrawal) -> list[Record]:
        found = [record for label in _LABELS for record in self._list(home, Where("tags", "has", label))]
        return [each for each in found if each.created_at < before and withdrawal.covers(each.text)]

    def _list_siblings(self, lesson: Record) -> list[Record]:
        """The facts of the same stretch, that lesson among them."""
        return [] if lesson.parent is None else self._list(lesson.scope, Where("parent", "=", lesson.parent))

    def _list(self, home: Scope, condition: Where) -> list[Record]:
        return self._engine.list(home, exact=True, kinds=(Kind.FACT,), filter=condition, limit=_MOST, order="created")

    def _end_in_profile(self, home: Scope, session: str, message: Message, withdrawal: Withdrawal) -> Sequence[Change]:
        """The change by which the profile no longer says so; what it said stays known as something that has ended."""
        profile = self._engine.get(home, PROFILE, kind=Kind.PROFILE)
        items = [] if profile is None else fields(profile).get("explicit_info")
        entries = [
            Entry(
                topic=str(item["topic"]), category=str(item.get("category", "")),
                description=str(item.get("description", "")), evidence=message.text[:400], at=message.at,
                message=message.id, ended=True,
            )
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict) and item.get("topic") and _is_covered(item, message.at, withdrawal)
        ]  # fmt: skip
        if profile is None or not entries:
            return ()
        return (make_profile_put(home, merge_entries(fields(profile), entries, session=session), profile.version),)


def _is_covered(item: dict[str, Json], before: datetime, withdrawal: Withdrawal) -> bool:
    at = item.get("timestamp_ms")
    is_earlier = isinstance(at, int) and at < before.timestamp() * 1000
    return is_earlier and withdrawal.covers(str(item.get("description", "")))
