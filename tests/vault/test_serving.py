"""`cofio serve` keeps the vault, and takes in what is done to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

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


def test_a_server_writes_files_and_takes_in_what_another_program_saves(tmp_path: Path) -> None:
    environ = {**os.environ, "COFIO_EMBEDDER": "none", "COFIO_SYNC": "normal"}
    command = [sys.executable, "-m", "cofio", "--store", str(tmp_path / "store"), "serve", "--port", "0"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+\d", line)))
            message = {"sender_id": "alice", "role": "user", "timestamp": T, "content": "I live in Oslo."}
            post(address, "add", session_id="s", messages=[message])
            post(address, "flush", session_id="s")
            (file,) = (tmp_path / "store" / "vault").rglob("episode-2026-05-28.md")
            subprocess.run([sys.executable, "-c", EDIT, str(file)], check=True)
            until = time.monotonic() + PATIENCE
            text = ""
            while "Bergen" not in text and time.monotonic() < until:
                text = post(address, "get", user_id="alice", memory_type="episode")["episodes"][0]["episode"]
            assert "Bergen" in text
            post(address, "delete", user_id="alice")
            assert not file.exists()
        finally:
            server.terminate()
            server.wait(PATIENCE)
