"""How far each transcript was read: a record of cofio's own, changed in the transaction that stores what was read."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from ..engine.engine import Engine
from ..values.changes import Put
from ..values.records import Draft, Json, Kind
from ..values.scopes import IMPORTS
from .transcripts.line_reader import Position
from .transcripts.transcript_messages import get_fields, get_text, parse_time
from .transcripts.transcript_sources import Transcript

SCOPE = IMPORTS / "transcripts"
SOURCE = "capture"
_LONG_AGO = datetime.fromtimestamp(0, UTC)
_CALLS = 20  # of cofio's own tools that are known
_SESSIONS = 4  # sessions of a transcript that are known to it


@dataclass(slots=True, kw_only=True)
class TranscriptMark:
    """What is known of a transcript from the last reading."""

    key: str
    position: Position = field(default_factory=Position)
    cwd: str = ""
    """The folder that its session began in."""
    remote: str = ""
    project: str = ""
    """The name of the project that its messages are in."""
    last_at: datetime = _LONG_AGO
    """When the last message was sent."""
    is_skipping: bool = False
    """Whether it was read in the middle of a turn that is not to be kept."""
    tasks: dict[str, str] = field(default_factory=dict)
    """The open entries of the agent's list of work, by their number."""
    own_calls: list[str] = field(default_factory=list)
    """The last calls of cofio's own tools: their results may still come."""
    sessions: list[str] = field(default_factory=list)
    messages: int = 0
    """How many messages were stored."""

    def make_put(self, transcript: Transcript, position: Position) -> Put:
        """The change that notes how far it was read."""
        data: dict[str, Json] = {
            "client": transcript.client, "offset": position.offset, "mark": position.mark, "state": position.state,
            "cwd": self.cwd, "remote": self.remote, "project": self.project, "last_at": self.last_at.isoformat(),
            "is_skipping": self.is_skipping, "tasks": dict(self.tasks), "sessions": [*self.sessions[-_SESSIONS:]],
            "messages": self.messages, "own_calls": [*self.own_calls[-_CALLS:]],
        }  # fmt: skip
        return Put(draft=Draft(scope=SCOPE, kind=Kind.LEDGER, key=self.key, data=data, source=SOURCE), how="key")


def load_mark(engine: Engine, transcript: Transcript) -> TranscriptMark:
    """The mark of a transcript; one of its beginning if it was never read."""
    mark = TranscriptMark(key=make_key(transcript))
    record = engine.get(SCOPE, mark.key, kind=Kind.LEDGER)
    if record is None or not isinstance(record.data, dict):
        return mark
    data = record.data
    offset, count = data.get("offset"), data.get("messages")
    state = cast("dict[str, Json]", dict(get_fields(data, "state")))
    mark.position = Position(offset=offset if isinstance(offset, int) else 0, mark=get_text(data, "mark"), state=state)
    mark.cwd, mark.remote, mark.project = (get_text(data, name) for name in ("cwd", "remote", "project"))
    mark.last_at = parse_time(data.get("last_at")) or mark.last_at
    mark.is_skipping = data.get("is_skipping") is True
    mark.tasks = {key: value for key, value in get_fields(data, "tasks").items() if isinstance(value, str)}
    mark.sessions, mark.own_calls = _get_texts(data, "sessions"), _get_texts(data, "own_calls")
    mark.messages = count if isinstance(count, int) else 0
    return mark


def _get_texts(data: dict[str, Json], name: str) -> list[str]:
    found = data.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def make_key(transcript: Transcript) -> str:
    """The key of a transcript's mark. A file of another machine is another, though it has the same path."""
    named = "\0".join((platform.node(), transcript.client, str(transcript.path), transcript.part))
    return hashlib.blake2b(named.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
