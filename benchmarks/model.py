"""What a model and the vault cost whoever waits: cofio without either, with the vault, and with both, in turns.

usage: python -m benchmarks.model [--sessions 40] [--write]

The model is a server of our own that answers at once, so what is measured is cofio's own time. p50 in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .__main__ import RESULTS, machine
from .rest import talk
from .rest.servers import _SERVE, Product, Server, running
from .speed import Times

TURNS = 20
PLAIN = Product("cofio, no vault", _SERVE, (("COFIO_VAULT", "off"),))
VAULT = Product("cofio", _SERVE)
MODEL = Product("cofio, with a model", _SERVE, (("COFIO_LLM_BASE_URL", "{model}"), ("COFIO_LLM_MODEL", "standin"),
                                                ("COFIO_LLM_BUDGET", "off")))  # fmt: skip
ANSWERS: dict[str, Any] = {
    "episode": {
        "title": "Two people talk about where they have been and what they like", "summary": "They talk.",
        "content": "They talk about journeys, what they cost and who comes along.",
        "facts": [{"text": f"Someone told number {n} of what there was to tell.", "sources": [n]} for n in range(1, 9)],
    },
    "profile": {"operations": []},
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = 0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).calls += 1
        name = asked["response_format"]["json_schema"]["name"]
        message = {"role": "assistant", "content": json.dumps(ANSWERS[name])}
        body = json.dumps({
            "id": "1", "object": "chat.completion", "created": 1, "model": "standin",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000},
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def standin() -> Iterator[str]:
    """The address of a model that answers at once."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def session(server: Server, number: int, adds: Times, flushes: Times) -> None:
    """One conversation, a message at a time."""
    for turn in range(TURNS):
        message = talk.messages(number * 10 + turn // 3)[turn % 3] | {
            "timestamp": talk.BEGUN + number * 10**7 + turn * 1000
        }
        body = {"session_id": f"s{number}", "messages": [message]}
        adds.run(partial(server.client.post, "add", body))
    flushes.run(partial(server.client.post, "flush", {"session_id": f"s{number}"}))


def measured(sessions: int) -> dict[str, Any]:
    """Each product's times, in turns, and the calls that a session took."""
    products = (PLAIN, VAULT, MODEL)
    adds = {product.name: Times(product.name) for product in products}
    flushes = {product.name: Times(product.name) for product in products}
    with tempfile.TemporaryDirectory() as folder, standin() as model, ExitStack() as stack:
        servers: list[Server] = []
        for product in products:
            home = Path(folder) / str(len(servers))
            home.mkdir()
            servers.append(stack.enter_context(running(product, home, model)))
        for number in range(sessions):
            for server in servers:
                session(server, number, adds[server.name], flushes[server.name])
    return {
        "add": {name: round(times.at(0.5), 2) for name, times in adds.items()},
        "flush": {name: round(times.at(0.5), 2) for name, times in flushes.items()},
        "calls": round(_Handler.calls / sessions, 2),
    }


def page(found: dict[str, Any]) -> str:
    """The figures as a table."""
    names = list(found["add"])
    rows = [f"| {what} | {' | '.join(str(found[what][name]) for name in names)} |" for what in ("add", "flush")]
    add, flush = found["add"], found["flush"]
    vault = round(flush[VAULT.name] - flush[PLAIN.name], 2)
    slower = round(add[MODEL.name] / add[VAULT.name], 2)
    met = {True: "yes", False: "NO"}
    return "\n".join([
        "# A model and the vault", "",
        f"Sessions of {TURNS} messages, one a request, the servers in turns; p50 in ms. A flush waits for the model.",
        "",
        f"| | {' | '.join(names)} |", f"|---{'|---' * len(names)}|", *rows, "",
        "| target | measured | asked | met |", "|---|---|---|---|",
        f"| add with a model, times the one without | {slower} | at most 1.1 | {met[slower <= 1.1]} |",
        f"| calls for a session of {TURNS} messages | {found['calls']} | at most 6 | {met[found['calls'] <= 6]} |",
        f"| what the vault adds to a flush, ms | {vault} | at most 0.5 | {met[vault <= 0.5]} |", "",
        f"Measured: {machine()}.", "",
    ])  # fmt: skip


def main() -> None:
    """Measure, and show or keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    shown = page(measured(given.sessions))
    print(shown)
    if given.write:
        (RESULTS / "model.md").write_text(shown)


if __name__ == "__main__":
    main()
