"""What is on this machine that could be taken in: which transcripts, of which repositories, and how much is new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..engine.engine import Engine
from ..values.errors import Invalid
from .positions import TranscriptMark, load_mark, make_key
from .repositories import Repository, find_repository
from .transcripts.transcript_sources import CLIENTS, Transcript, find_transcripts, open_reading

_UNKNOWN = "a folder that is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyLine:
    """A transcript, and what taking it in would add."""

    transcript: Transcript
    repository: str
    """The name of its repository."""
    project: str = ""
    """The name of the project that its memory is in; empty if nothing would be taken in."""
    messages: int = 0
    """How many messages it has after where it was last read."""
    stored: int = 0
    """How many messages of it are in the memory."""
    reason: str = ""
    """Why nothing would be taken in."""


def list_transcripts(clients: Sequence[str], since: datetime | None = None) -> list[Transcript]:
    """The transcripts of these clients, or of all, that have changed since then; the oldest first.

    Raises:
        Invalid: there is no such client.
    """
    found = [each for client in clients or CLIENTS for each in find_transcripts(client)]
    return sorted(
        (each for each in found if since is None or each.changed_at >= since), key=lambda each: each.changed_at
    )


def survey_transcripts(engine: Engine | None, transcripts: Sequence[Transcript]) -> Iterator[SurveyLine]:
    """Read transcripts without storing anything; without a memory, all of them are new."""
    for transcript in transcripts:
        mark = TranscriptMark(key=make_key(transcript)) if engine is None else load_mark(engine, transcript)
        yield _survey(transcript, mark)


def _survey(transcript: Transcript, mark: TranscriptMark) -> SurveyLine:
    reading = open_reading(transcript, mark.position)
    cwd, remote, count = mark.cwd, mark.remote, 0
    try:
        for chunk in reading.read_chunks():
            cwd, remote = cwd or chunk[0].origin.cwd or "", remote or chunk[0].origin.remote or ""
            count += sum(not each.origin.is_sidechain for each in chunk)
    except OSError:
        return SurveyLine(transcript=transcript, repository=_UNKNOWN, reason="unreadable")
    repository = _find_repository(cwd, remote)
    if repository is None:
        reason = "no folder" if count else "no messages"
        return SurveyLine(transcript=transcript, repository=_UNKNOWN, messages=count, reason=reason)
    reason = "opted out" if repository.is_opted_out else ""
    return SurveyLine(
        transcript=transcript, repository=repository.name, project="" if reason else repository.project.name,
        messages=count, stored=mark.messages, reason=reason,
    )  # fmt: skip


def _find_repository(cwd: str, remote: str) -> Repository | None:
    try:
        return find_repository(Path(cwd), remote=remote or None) if cwd else None
    except Invalid:
        return None
