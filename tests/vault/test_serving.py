"""`cofio serve` keeps the vault, and takes in what is done to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cofio.config.address import StoreAddress

from ..waiting import wait_until
from .conftest import tree

pytestmark = pytest.mark.usefixtures("process")

T = 1779967836000
PATIENCE = 30.0
EDIT = (
    "import os, sys; n = sys.argv[1]; t = open(n).read(); open(n + '~', 'w').write(t.replace('Oslo', 'Bergen'));"
    " os.replace(n + '~', n)"
)


def post(address: str, call: str, **body: Any) -> Any:
    sent = urllib.request.Request(
        f"{address}/api/v1/memory/{call}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
        return json.load(answer)["data"]


@contextmanager
def served(store: Path, end: str = "terminate") -> Iterator[str]:
    """A server's address."""
    environ = {**os.environ, "COFIO_EMBEDDER": "none", "COFIO_SYNC": "normal"}
    command = [sys.executable, "-m", "cofio", "--store", str(store), "serve", "--port", "0"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+\d", line)))
        finally:
            (server.kill if end == "kill" else server.terminate)()
            server.communicate(timeout=PATIENCE)


def read_metrics(address: str) -> str:
    with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE) as answer:
        return str(answer.read(), "utf-8")


def say(address: str, text: str, session: str) -> None:
    message = {"sender_id": "alice", "role": "user", "timestamp": T, "content": text}
    post(address, "add", session_id=session, messages=[message])
    post(address, "flush", session_id=session)


def test_a_server_writes_files_and_takes_in_what_another_program_saves(store: StoreAddress, tmp_path: Path) -> None:
    with served(tmp_path / "store") as address:
        say(address, "I live in Oslo.", "s")
        file = store.home / "vault/default_app/default_project/users/alice/episodes/episode-2026-05-28.md"
        wait_until(lambda: file.exists() and 'cofio_jobs{kind="markdown"} 0.0' in read_metrics(address))
        subprocess.run([sys.executable, "-c", EDIT, str(file)], check=True)

        def has_changed() -> bool:
            return "Bergen" in post(address, "get", user_id="alice", memory_type="episode")["episodes"][0]["episode"]

        wait_until(has_changed)
        post(address, "delete", user_id="alice")
        assert not file.exists()


def test_a_server_that_is_killed_after_a_flush_leaves_a_vault_that_the_next_completes(tmp_path: Path) -> None:
    store, cities = tmp_path / "store", [f"City{number}" for number in range(4)]
    file = store / "vault/default_app/default_project/users/alice/episodes/episode-2026-05-28.md"
    for number, city in enumerate(cities):
        with served(store, end="kill") as address:
            if number == 1:  # what a person writes meanwhile is not lost either
                wait_until(file.exists)
                file.write_text(file.read_text().replace("<!-- entry:", "A note of my own.\n<!-- entry:", 1))
            say(address, f"I live in {city}.", f"s{number}")
    with served(store):
        wait_until(lambda: all(city in file.read_text() for city in cities))
    text = file.read_text()
    assert text.count("<!-- entry:") == text.count("<!-- /entry:") == len(cities)
    assert len({text.count(city) for city in cities}) == 1
    assert text.count("A note of my own.") == 1
    assert "entry_count: 4" in text
    assert [name for name in tree(store / "vault") if ".conflict-" in name] == []
