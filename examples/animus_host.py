"""What an Animus host says to its memory plugin, line by line: JSON-RPC over the plugin's stdin and stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import IO, Any

SCOPE = {"project_id": "shop", "agent_id": "reviewer"}
_ids = count(1)


def call(plugin: subprocess.Popen[str], method: str, **params: object) -> Any:
    """Send a request and wait for its answer."""
    stdin, stdout = _streams(plugin)
    request = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}
    stdin.write(json.dumps(request) + "\n")
    stdin.flush()
    answer = json.loads(stdout.readline())
    if "error" in answer:
        raise RuntimeError(f"{method}: {answer['error']['message']}")
    return answer["result"]


def _streams(plugin: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert plugin.stdin
    assert plugin.stdout
    return plugin.stdin, plugin.stdout


def main(folder: Path) -> None:
    """Put two values, get one by its key, and find one by what it says."""
    command = [sys.executable, "-m", "cofio", "animus"]  # the same as animus-memory-cofio
    pipe, environ = subprocess.PIPE, os.environ | {"COFIO_STORE": str(folder)}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8", env=environ) as plugin:
        print("plugin:", call(plugin, "initialize", protocol_version="1.1.0")["plugin_info"]["name"])
        call(plugin, "memory/put", scope=SCOPE, key="deploy", value="We deploy on Fridays.")
        call(plugin, "memory/put", scope=SCOPE, key="review", value={"min_approvals": 2}, ttl_secs=86400)
        print("review:", call(plugin, "memory/get", scope=SCOPE, key="review")["value"])
        for hit in call(plugin, "memory/query", scope=SCOPE, query="when do we deploy?", top_k=1)["results"]:
            print("found:", hit["value"])
        call(plugin, "shutdown")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-memory"))
