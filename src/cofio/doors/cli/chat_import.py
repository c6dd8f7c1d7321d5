"""The command that takes in conversations from a file."""

from __future__ import annotations

import stat
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ...values.errors import Invalid, LimitExceeded, NotFound
from .argument_values import resolve_date
from .context import load_settings, open_memory, settle
from .terminal import Bar, choose_output, note

if TYPE_CHECKING:
    from ...conversations.conversations import Conversations, Project
    from ...engine.engine import Engine
    from ...extract.extractor import Message
    from ...importers.chats.chats import Chats, Conversation

BATCH = 500  # messages that are kept in one transaction, and then carved
HEAVY = 8_000_000  # characters after which a batch ends, however few its messages are
_CHUNK = 1 << 20


def import_chats(args: Namespace) -> int:
    """Take in the conversations of a file, once all of it is known to be sound."""
    from ...conversations.conversations import Conversations, Project
    from ...importers.chats.chats import Chats, Options
    from ...vault.lifecycle import use_vault

    address, settings = load_settings(args)
    with _open_source(args.file) as (file, changed):
        options = Options(
            date=resolve_date("--date", args.date, settings.zone) or changed, zone=settings.zone, user=args.user,
            agent=args.agent, session=args.session, format=args.format, allow_secrets=settings.allow_secrets,
        )  # fmt: skip
        with Bar("checking") as bar:
            chats = Chats(args.file, file, options)
            total = chats.check(lambda: bar("checking", chats.position, chats.size))
        if not total:
            raise Invalid(chats.name, f"holds no messages that can be taken in{_render_left_out(chats)}")
        with open_memory(args, make=True) as engine, use_vault(engine, address.home, settings) as vault:
            project = Project(app=args.app, name=args.project)
            conversations = Conversations(engine, mirror=vault, uses_model=False)
            intake = _Intake(engine, conversations, project, whole=not args.no_flush)
            try:
                with Bar("importing", expect=total) as bar:
                    for conversation in chats.conversations():
                        for done in intake.take(conversation):
                            bar("importing", done, total)
            except KeyboardInterrupt:
                note("stopped; what is in stays, and the same import again does the rest")
                raise
            _report(args, chats, intake)
            _embed(engine)
    return 0


@dataclass(slots=True)
class _Intake:
    """Takes conversations into a memory, batch by batch, and counts."""

    engine: Engine
    conversations: Conversations
    project: Project
    whole: bool
    sessions: int = 0
    new: int = 0
    present: int = 0
    differing: int = 0
    """How many of those that were here say something else here."""
    episodes: int = 0

    def take(self, conversation: Conversation) -> Iterator[int]:
        """Keep the messages that are not here yet, and carve them; how many messages are done, now and then."""
        self.sessions += 1
        for batch in _split_batches(conversation.messages):
            fresh = [message for message in batch if self._is_missing(conversation.session, message)]
            new = self.conversations.append(self.project, conversation.session, fresh)
            self.new += new
            self.present += len(batch) - new
            if new:
                self.episodes += self.conversations.carve(self.project, conversation.session)
            yield self.new + self.present
        # Also when nothing is new: what waits may have been left by an import that was stopped.
        self.episodes += self.conversations.carve(self.project, conversation.session, whole=self.whole)

    def _is_missing(self, session: str, message: Message) -> bool:
        """Whether the message is not here. One without a time of its own has another with each file that it is in."""
        from ...conversations.message_records import decode_message, make_turn_id

        try:
            here = decode_message(self.engine.read(make_turn_id(self.project, session, message.id)))
        except NotFound:
            return True
        self.differing += replace(message, at=here.at) != here
        return False


def _split_batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    batch: list[Message] = []
    weight = 0
    for message in messages:
        batch.append(message)
        weight += len(message.text)
        if len(batch) == BATCH or weight > HEAVY:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _report(args: Namespace, chats: Chats, intake: _Intake) -> None:
    message = f"imported {_render_count(intake.new, 'message')} of {_render_count(intake.sessions, 'conversation')}"
    message += f" as {_render_count(intake.episodes, 'episode')}" if intake.episodes else ""
    message += f"; {intake.present:,} {'was' if intake.present == 1 else 'were'} here already" if intake.present else ""
    choose_output(as_json=args.json).print_done(
        message + _render_left_out(chats), format=chats.format, conversations=intake.sessions, imported=intake.new,
        kept=intake.present, differing=intake.differing, episodes=intake.episodes, left_out=dict(chats.tally.left_out),
        mended=chats.tally.mended, masked=chats.tally.masked,
    )  # fmt: skip
    sys.stdout.flush()
    if chats.tally.mended:
        note(f"{_render_count(chats.tally.mended, 'text')} held characters that cannot be kept")
    if chats.tally.masked:
        note(f"{_render_count(chats.tally.masked, 'message')} held what looks like a secret, which is masked")
    if intake.differing:
        note(f"{intake.differing:,} of those that were here have changed in the file; here they stay as they were")


def _render_left_out(chats: Chats) -> str:
    """What was not taken, after a result."""
    left = chats.tally.left_out
    return f"; left out: {', '.join(f'{what} ({count:,})' for what, count in left.items())}" if left else ""


def _render_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _embed(engine: Engine) -> None:
    try:
        settle(engine)
    except KeyboardInterrupt:
        note("stopped; every message is in and found by its words, and `cofio reindex` embeds the rest")
        raise


@contextmanager
def _open_source(name: str) -> Iterator[tuple[IO[bytes], datetime]]:
    """A file that can be read more than once, and when it was last changed; `-` is stdin."""
    if name == "-":
        with _spool("stdin", sys.stdin.buffer) as file:
            yield file, datetime.now(UTC).replace(microsecond=0)
        return
    with Path(name).expanduser().open("rb") as raw:
        about = Path(name).expanduser().stat()
        changed = datetime.fromtimestamp(int(about.st_mtime), UTC)
        if stat.S_ISREG(about.st_mode):
            yield raw, changed
            return
        with _spool(name, raw) as file:
            yield file, changed


@contextmanager
def _spool(name: str, stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """What comes in, as a file that is gone afterwards."""
    from ...importers.chats.chats import MAX_FILE

    with tempfile.TemporaryFile() as file:
        size = 0
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > MAX_FILE:
                raise LimitExceeded(name, MAX_FILE, "bytes")
            file.write(chunk)
        yield file
