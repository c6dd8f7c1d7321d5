"""Children that are killed while they write the vault. Run as a script: a fork for each line of code to die at.

It prints, for each, whether the child died there, and what whoever started next found and left. The last word says
whether the children write at once or later.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from cofio import Engine, Settings
from cofio.conversations.conversations import Conversations, Project
from cofio.extract.extractor import Message
from cofio.values.changes import Edit
from cofio.values.records import Kind, Scope
from cofio.vault.layout import SHOWN
from cofio.vault.queued_mirror import QueuedMirror
from cofio.vault.sync import VaultSync
from cofio.vault.vault import Vault

SETTINGS = Settings(background=False, embedder="none", sync="normal")
WATCHED = ("/cofio/vault/", "/cofio/conversations/mirror.py")


def say(conversations: Conversations, text: str, session: str) -> None:
    at = datetime(2026, 5, 28, 11, tzinfo=UTC)
    messages = [
        Message(id="", sender="alice", name="Alice", role="user", at=at, text=text),
        Message(id="", sender="bot", name=None, role="assistant", at=at + timedelta(seconds=3), text="I see."),
    ]
    conversations.append(Project(), session, messages)
    conversations.carve(Project(), session, whole=True)


def death(line: int) -> Callable[[FrameType, str, Any], Any]:
    """What kills this process at so manieth line of the vault's code, as a tracer."""
    left = line

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not any(name in frame.f_code.co_filename for name in WATCHED):
            return None
        if event == "line":
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return traced

    return traced


def work(store: Path, line: int, *, queued: bool) -> None:
    """Write, change and forget, as a server does whose files follow later, or at once; die at so manieth line."""
    with Engine.open(store, settings=SETTINGS) as engine:
        vault = Vault(engine, store / "vault")
        mirror = QueuedMirror(engine, lambda: vault, lambda: None) if queued else vault
        conversations = Conversations(engine, mirror=mirror)
        say(conversations, "I live in Oslo and my dog is called Rex.", "first")
        vault.follow_changes()
        sys.settrace(death(line))
        say(conversations, "I work as a nurse. I love jazz.", "second")
        (fact, *_) = engine.list(Project().owner("user", "alice"), kinds=(Kind.FACT,), newest=False)
        conversations.apply([Edit(id=fact.id, fields={"text": "Alice lives in Oslo, in Norway."})])
        vault.follow_changes()
        say(conversations, "I have a cat, Tom.", "third")
        conversations.deleter.delete_session(Project(), "first")
        vault.follow_changes()
        sys.settrace(None)
        vault.close()


def recover(store: Path) -> dict[str, Any]:
    """Start again as a server does, then look at everything."""
    with Engine.open(store, settings=SETTINGS) as engine:
        records = engine.count(Scope("rest"), kinds=SHOWN)
        vault = Vault(engine, store / "vault")
        syncing = VaultSync(vault, Conversations(engine, mirror=vault))
        vault.complete()
        first = syncing.sync() if vault.stale else syncing.sync_files()
        made = contents(store / "vault")
        then = syncing.sync()
        found = {
            "records": records,
            "entries": vault.journal.count_entries(),
            "left": engine.count(Scope("rest"), kinds=SHOWN),
            "taken": len(first.edited) + len(first.deleted) + len(then.edited) + len(then.deleted),
            "problems": first.problems + then.problems,
            "written": len(then.rewritten),
            "same": contents(store / "vault") == made,
            "conflicts": vault.list_conflicts(),
            "leftovers": [name for name in made if name.endswith(".tmp") and "/." not in name],
        }
        vault.close()
        return found


def contents(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file() and ".state" not in file.parts)
    return {str(file): file.read_text() for file in files if file.suffix == ".md"}


def forked(does: Any) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            does()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def main(folder: Path, first: int, step: int, what: str) -> None:
    line = first
    while True:
        store = folder / str(line)
        status = forked(lambda: work(store, line, queued=what == "queue"))  # noqa: B023  # called at once
        died = os.WIFSIGNALED(status)
        assert died or os.WEXITSTATUS(status) == 0
        told = folder / f"{line}.json"
        assert forked(lambda: told.write_text(json.dumps(recover(store)))) == 0  # noqa: B023
        print(json.dumps({"line": line, "died": died, **json.loads(told.read_text())}), flush=True)
        if not died:
            return
        line += step


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
