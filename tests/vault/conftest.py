"""What the tests of the vault share: a memory with a vault, and someone to talk to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cofio import Engine, Settings
from cofio.conversations.conversations import Conversations, Project
from cofio.extract.extractor import Call, Message
from cofio.values.records import Kind, Record
from cofio.vault.sync import SyncResult, VaultSync
from cofio.vault.vault import Vault

T = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)
SETTINGS = Settings(background=False, embedder="none", sync="normal")
OSLO = "I live in Oslo and I work as a nurse."
DOG = "My dog is called Rex."


@dataclass(slots=True)
class Kept:
    """A memory with its vault."""

    engine: Engine
    vault: Vault
    conversations: Conversations
    place: Project

    @property
    def syncing(self) -> VaultSync:
        """What takes people's doings in."""
        return VaultSync(self.vault, self.conversations)

    def sync(self, *, force: bool = False) -> SyncResult:
        """Look at everything."""
        return self.syncing.sync(force=force)

    def say(self, *texts: str, user: str = "alice", session: str = "s", at: datetime = T) -> None:
        """Have a user say something, and an assistant answer; then carve it."""
        messages = [
            Message(
                id="", sender=user, name=user.title(), role="user", at=at + timedelta(seconds=10 * number), text=text
            )
            for number, text in enumerate(texts)
        ]
        answer = Message(
            id="", sender="bot", name=None, role="assistant", at=at + timedelta(seconds=10 * len(texts)), text="I see."
        )
        self.conversations.append(self.place, session, [*messages, answer])
        self.conversations.carve(self.place, session, whole=True)

    def work(self, number: int) -> None:
        """Have an agent do a task, as it did the one before."""
        at = T + timedelta(hours=number)
        asked = f"Fix the failing deploy of the payments service, build {number}, please."
        call = Call(id="c1", name="shell", arguments='{"command": "make deploy"}')
        messages = [
            Message(id="", sender="alice", name=None, role="user", at=at, text=asked),
            Message(
                id="", sender="fixer", name=None, role="assistant", at=at + timedelta(seconds=5), text="", calls=(call,)
            ),
            Message(
                id="", sender="shell", name=None, role="tool", at=at + timedelta(seconds=6), text="deploy: ok, 3 pods",
                answers="c1",
            ),
            Message(
                id="", sender="fixer", name=None, role="assistant", at=at + timedelta(seconds=9),
                text="I redeployed the payments service; all pods are healthy now.",
            ),
        ]  # fmt: skip
        self.conversations.append(self.place, f"task-{number}", messages)
        self.conversations.carve(self.place, f"task-{number}", whole=True)

    def records(self, kind: Kind, owner: str = "alice") -> list[Record]:
        """An owner's records of a kind, oldest first."""
        track = "agent" if kind in (Kind.CASE, Kind.SKILL) else "user"
        listed = self.engine.list(self.place.owner(track, owner), kinds=(kind,), limit=1000, newest=False)  # type: ignore[arg-type]
        return sorted(listed, key=lambda record: record.key or "")

    def file(self, *names: str) -> Path:
        """A file of the vault, from the project's folder on."""
        return self.vault.folder.joinpath("default_app", "default_project", *names)

    @property
    def episodes(self) -> Path:
        """The file of alice's episodes of the day."""
        return self.file("users", "alice", "episodes", "episode-2026-05-28.md")

    @property
    def facts(self) -> Path:
        """The file of alice's facts of the day."""
        return self.file("users", "alice", ".atomic_facts", "atomic_fact-2026-05-28.md")

    @property
    def profile(self) -> Path:
        """The file of alice's profile."""
        return self.file("users", "alice", "user.md")

    def tree(self) -> dict[str, bytes]:
        """Every file of the vault but its state."""
        return tree(self.vault.folder)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under a vault, but for its state."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".state" not in file.relative_to(folder).parts
    }


Opened = Callable[..., "Kept"]


@contextmanager
def opened(store: Path, place: Project | None = None) -> Iterator[Kept]:
    """The memory in a folder, with its vault."""
    with Engine.open(store, settings=SETTINGS) as engine:
        vault = Vault(engine, store / "vault")
        yield Kept(engine, vault, Conversations(engine, mirror=vault), place or Project())
        vault.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """An empty memory with a vault."""
    with opened(tmp_path / "store") as made:
        yield made
