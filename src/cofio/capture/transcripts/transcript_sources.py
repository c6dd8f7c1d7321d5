"""Which clients' transcripts can be read, where they are on this machine, and how one is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from ...values.errors import Invalid, Unavailable
from ...values.records import Json
from ...values.times import from_millis
from . import claude_code, codex, copilot, cursor, gemini, opencode
from .line_reader import LineReader, Position
from .transcript_messages import ReadCounts, RecordParser, TranscriptMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A coding agent, and how its transcripts are found and read."""

    name: str
    title: str
    find_files: Callable[[], Iterator[Path]] | None = None
    """Where the transcripts are; None where they are rows of a database."""
    parser: Callable[[Path, dict[str, Json]], RecordParser] | None = None


CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        client.name: client
        for client in (
            Client(
                name="claude-code", title="Claude Code", find_files=claude_code.find_files,
                parser=claude_code.ClaudeCodeParser,
            ),
            Client(name="codex", title="Codex", find_files=codex.find_files, parser=codex.CodexParser),
            Client(name="cursor", title="Cursor", find_files=cursor.find_files, parser=cursor.CursorParser),
            Client(name="gemini", title="Gemini CLI", find_files=gemini.find_files, parser=gemini.GeminiParser),
            Client(name="copilot", title="Copilot CLI", find_files=copilot.find_files, parser=copilot.CopilotParser),
            Client(name="opencode", title="OpenCode"),
        )
    }
)  # fmt: skip
"""Each client by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A transcript on this machine."""

    client: str
    path: Path
    part: str = ""
    """The session, where several are in one file."""
    size: int = 0
    """Its bytes."""
    changed_at: datetime


class TranscriptReading(Protocol):
    """A transcript that is being read."""

    counts: ReadCounts

    @property
    def position(self) -> Position:
        """Where the next reading is to begin, once all chunks so far are stored."""

    def read_chunks(self) -> Iterator[list[TranscriptMessage]]:
        """The messages after the position that it began with; each chunk belongs together.

        Raises:
            OSError: the transcript cannot be read.
        """


class FileReading:
    """A transcript in a file of its own that is being read."""

    def __init__(self, path: Path, parser: Callable[[Path, dict[str, Json]], RecordParser], position: Position) -> None:
        self.counts = ReadCounts()
        self._path = path
        self._make_parser = parser
        self._start = position
        self._now: Callable[[], Position] = lambda: position

    @property
    def position(self) -> Position:
        """Where the next reading is to begin, once all chunks so far are stored."""
        return self._now()

    def read_chunks(self) -> Iterator[list[TranscriptMessage]]:
        """The messages of each record; at the end those that were held back.

        Raises:
            OSError: the file cannot be read.
        """
        with self._open() as reader:
            parser = self._make_parser(self._path, {} if reader.is_new else dict(self._start.state))
            # It is asked for once in many chunks, and costs a look at the file.
            self._now = lambda: Position(offset=reader.offset, mark=reader.mark(), state=parser.dump_state())
            for record in reader.read_records(self.counts):
                if messages := [*parser.parse(record, self.counts)]:
                    yield messages
            if last := [*parser.finish()]:
                yield last
            end = self._now()
        self._now = lambda: end

    def _open(self) -> LineReader:
        try:
            return LineReader(self._path, self._start, is_whole=self._path.suffix == ".json")
        except Unavailable as error:
            raise OSError(f"{self._path} is not a plain file") from error


def find_transcripts(client: str) -> Iterator[Transcript]:
    """The transcripts of a client on this machine, the oldest first; links and what cannot be read are passed over.

    Raises:
        Invalid: there is no such client.
    """
    known = get_client(client)
    if known.find_files is None:
        yield from _find_sessions(client)
        return
    found: list[Transcript] = []
    for path in known.find_files():
        try:
            about = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(about.st_mode) and about.st_size:
            changed = datetime.fromtimestamp(about.st_mtime, UTC)
            found.append(Transcript(client=client, path=path, size=about.st_size, changed_at=changed))
    yield from sorted(found, key=lambda each: (each.changed_at, each.path))


def _find_sessions(client: str) -> Iterator[Transcript]:
    database = opencode.find_database()
    if not database.is_file():
        return
    try:
        sessions = opencode.list_sessions(database)
    except OSError:
        return
    for session, changed, size in sessions:
        yield Transcript(client=client, path=database, part=session, size=size, changed_at=from_millis(changed))


def find_transcript(client: str, session: str) -> Path | None:
    """The file that holds a client's session, for a hook that is told no more than the session's name; None for none.

    Raises:
        Invalid: there is no such client.
    """
    known = get_client(client)
    if known.find_files is None:
        database = opencode.find_database()
        return database if database.is_file() else None
    # Gemini's files have the first part of the name; the others have all of it, or are in a folder of that name.
    wanted = session[:8] if client == "gemini" else session
    named = (
        path for path in known.find_files() if wanted in (path.stem, path.parent.name) or path.stem.endswith(wanted)
    )
    return next(named, None) if wanted else None


def open_reading(transcript: Transcript, position: Position) -> TranscriptReading:
    """Begin to read a transcript after a position."""
    known = get_client(transcript.client)
    if known.parser is None:
        return opencode.OpenCodeReading(database=transcript.path, session=transcript.part, position=position)
    return FileReading(transcript.path, known.parser, position)


def get_client(name: str) -> Client:
    """The client of this name.

    Raises:
        Invalid: there is none.
    """
    if name not in CLIENTS:
        raise Invalid("client", f"{name!r} is not one of {', '.join(CLIENTS)}")
    return CLIENTS[name]
