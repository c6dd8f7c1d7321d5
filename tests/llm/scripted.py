"""A model behind a real OpenAI-compatible server on this machine, which says what its script tells it to say.

    with Scripted(right) as server:
        model = Model(server.url, "scripted")
        ...
        assert [call.task for call in server.calls] == ["episode", "profile"]

A script is one manner, or several: each is good for one call, and the last for all that follow. A manner is a function
of what was asked that gives a `Say`.
"""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any

from tests.waiting import join

import cofio.llm.prompts.loader as prompts

_LINE = re.compile(r"^\[(\d+)\] \d\d:\d\d ([^:\n]+): (.*)$", re.MULTILINE)
_ITEM = re.compile(r"^\[(\d+)\] ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One call, as the server got it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        """What the model is to do."""
        return str(self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        """What it is to do it with."""
        content = self.body["messages"][1]["content"]
        return content if isinstance(content, str) else str(content[0]["text"])

    @property
    def task(self) -> str:
        """The prompt's name; empty for one of someone else."""
        return next((name for name, start in _starts().items() if self.system.startswith(start)), "")

    @property
    def form(self) -> str:
        """The form that the answer is to have: json_schema, json_object, or empty."""
        return str(self.body.get("response_format", {}).get("type", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """What the server answers."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    """Bytes that are promised and never sent."""
    drip: bool = False
    """Whether the body is followed by a space at a time, for as long as anyone listens."""
    held: bool = False
    """Whether nothing is said before the server closes."""
    reset: bool = False
    """Whether the line is cut instead."""


Manner = Callable[[Asked], Say]


class Scripted:
    """The server; it is closed at the end of its `with`."""

    def __init__(self, *script: Manner) -> None:
        self.script: Sequence[Manner] = script or (right,)
        self.calls: list[Asked] = []
        self._over = Event()
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body leave together, or the second waits 40 ms for the first

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = Asked(path=self.path, headers={k.lower(): v for k, v in self.headers.items()}, body=body)
                manner = scripted._next()
                scripted.calls.append(asked)
                try:
                    self._say(manner(asked))
                except OSError:  # the other side has hung up
                    self.close_connection = True

            def _say(self, say: Say) -> None:
                if say.held:
                    scripted._over.wait(120)
                if say.held or say.reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    return
                self.send_response(say.status)
                for name, value in {"Content-Type": "application/json", **say.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(say.body) + say.missing + (10**9 if say.drip else 0)))
                self.end_headers()
                self.wfile.write(say.body)
                self.close_connection = bool(say.missing or say.drip)
                while say.drip and not scripted._over.wait(0.001):
                    self.wfile.write(b" ")
                    self.wfile.flush()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True  # a line that is kept open holds no one up
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """The API's root."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def tasks(self) -> list[str]:
        """The prompts that came, in their order."""
        return [call.task for call in self.calls]

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        join(self._thread)

    def _next(self) -> Manner:
        manner, *rest = self.script
        if rest:
            self.script = rest
        return manner


def completion(text: str | None, *, usage: bool = True, finish: str = "stop", **message: Any) -> Say:
    """A model's answer with this text."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    answer: dict[str, Any] = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "scripted",
        "choices": [choice],
    }  # fmt: skip
    if usage:
        answer["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return Say(body=json.dumps(answer).encode())


def says(value: object) -> Manner:
    """Always the same answer: a text, or anything else as JSON."""
    return lambda asked: completion(value if isinstance(value, str) else json.dumps(value))


def fails(status: int, message: str = "no", **headers: str) -> Manner:
    """Always this status."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
    return lambda asked: Say(
        status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def answer(asked: Asked) -> dict[str, Any] | str:
    """A right answer to any of our prompts, made of what stands in it."""
    talk = _LINE.findall(asked.user)
    lines = [(int(number), name, words) for number, name, words in talk if "(a tool's result)" not in name]
    if asked.task == "episode":
        return {
            "title": f"What {' and '.join(dict.fromkeys(name for _, name, _ in lines))} talked about",
            "summary": f"They said {len(lines)} things.",
            "content": " ".join(f"{name} said: {words}" for _, name, words in lines),
            "facts": [{"text": f'{name} said: "{words}"', "sources": [number]} for number, name, words in lines],
        }
    if asked.task == "profile":
        person = json.loads(asked.user.splitlines()[0].removeprefix("The person: "))
        said = max((words for _, name, words in lines if name == person), key=len)
        new = {"topic": "likes:quoting", "category": "Words", "description": "Said something."}
        return {"operations": [{"action": "add", "item": None, "evidence": said, **new}]}
    count = len(_ITEM.findall(asked.user))
    ranked = [{"item": item, "score": round(1 - item / (count + 1), 3)} for item in range(1, count + 1)]
    topics = [
        {"topic": n, "name": f"Name {n}", "summary": f"Gist {n}.", "labels": ["a", "b"]} for n in range(1, count + 1)
    ]
    steps = "## When to use\nAlways.\n\n## Steps\n1. Try.\n\n## Pitfalls\n- Not trying."
    others: dict[str, dict[str, Any] | str] = {
        "rerank": {"ranked": ranked},
        "document": {"summary": "What it is about.", "category": "Travel", "topics": topics},
        "case": {"intent": "Do what was asked.", "approach": "1. It was tried.\nOutcome: it worked.",
                 "insight": "Trying helps.", "quality": 0.9},
        "skill": {"name": "do-what-is-asked", "description": "For whatever is asked.", "content": steps},
        "sufficiency": {"sufficient": False, "missing": "The year."},
        "queries": {"queries": ["in which year", "what year was it"]},
        "image": "A red boat on a blue lake.",
        "recording": "Speaker 1: Good morning.",
    }  # fmt: skip
    return others[asked.task]


def say_right(asked: Asked) -> str:
    """The text of a right answer."""
    found = answer(asked) if asked.task else "{}"
    return found if isinstance(found, str) else json.dumps(found)


def right(asked: Asked) -> Say:
    """As it should be."""
    return completion(say_right(asked))


def wrong_types(asked: Asked) -> Say:
    """The right names with values of other types."""
    found = answer(asked) if asked.task else {}
    return completion(json.dumps({name: {"no": 1} for name in found} if isinstance(found, dict) else [1]))


def wrong_numbers(asked: Asked) -> Say:
    """The right shape, with numbers that are not there and words that no one said."""
    text = re.sub(r'("sources": )\[[^\]]*\]', r"\1[0, -3, 10000]", say_right(asked))
    text = re.sub(r'("(?:item|score|quality)": )[\w.]+', r"\g<1>977", text)
    return completion(re.sub(r'("evidence": )"(?:[^"\\]|\\.)*"', r'\1"words that no one said"', text))


def slow(asked: Asked) -> Say:
    """Nothing, for longer than anyone waits."""
    return Say(held=True)


def truncated(asked: Asked) -> Say:
    """The first half of the answer, because there was no room for more."""
    text = say_right(asked)
    return completion(text[: len(text) // 2], finish="length")


def broken(asked: Asked) -> Say:
    """An error of the server's own."""
    return fails(500)(asked)


def refusing(asked: Asked) -> Say:
    """The key is wrong; such an error quotes it."""
    return fails(401, f"Incorrect API key provided: {asked.headers['authorization']}")(asked)


def echoing(asked: Asked) -> Say:
    """The schema instead of an answer to it."""
    form = asked.body.get("response_format", {}).get("json_schema", {}).get("schema")
    return completion(json.dumps(form or {"type": "object", "properties": {"title": {"type": "string"}}}))


def empty(asked: Asked) -> Say:
    """An answer without words."""
    return completion("")


def resetting(asked: Asked) -> Say:
    """The line is cut."""
    return Say(reset=True)


def fenced(asked: Asked) -> Say:
    """The answer in a fence."""
    return completion(f"```json\n{say_right(asked)}\n```")


def chatty(asked: Asked) -> Say:
    """The answer with words around it."""
    return completion(f"Sure! Here is {{what}} you want:\n\n{say_right(asked)}\n\nIs there anything else :}}")


def commas(asked: Asked) -> Say:
    """An answer with a comma too many."""
    return completion(re.sub(r"\}$", ",}", say_right(asked)))


def without_schema(asked: Asked) -> Say:
    """A server that knows no schemas."""
    if asked.form == "json_schema":
        return fails(400, "response_format type json_schema is not supported")(asked)
    return right(asked)


def as_llama_cpp(asked: Asked) -> Say:
    """A server that answers a form that it does not know with an error of its own, as llama-cpp-python's does."""
    if asked.form != "json_schema":
        return right(asked)
    expected = "'text' or 'json_object'"
    problem = (
        "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), "
        f"'msg': \"Input should be {expected}\", 'input': 'json_schema', 'ctx': {{'expected': \"{expected}\"}}}}\n\n"
        '  File "/srv/llama_cpp/server/app.py", line 376, in create_chat_completion\n    POST /v1/chat/completions'
    )
    error = {"message": problem, "type": "internal_server_error", "param": None, "code": None}
    return Say(status=500, body=json.dumps({"error": error}).encode())


def without_json(asked: Asked) -> Say:
    """A server that knows no forms at all."""
    return fails(422, "extra fields not permitted")(asked) if asked.form else fenced(asked)


def particular(asked: Asked) -> Say:
    """A server of reasoning models: its own name for the limit, and no temperature."""
    if "max_tokens" in asked.body:
        return fails(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")(asked)
    if "temperature" in asked.body:
        return fails(400, "Unsupported value: 'temperature' does not support 0 with this model.")(asked)
    return right(asked)


@cache
def _starts() -> dict[str, str]:
    own = prompts.Prompts()
    blank = dict.fromkeys({each for needed in prompts.PLACEHOLDERS.values() for each in needed}, "")
    return {name: own.fill(name, **blank)[0] for name in prompts.PLACEHOLDERS}


HTML = {"Content-Type": "text/html"}
BAD: dict[str, Manner] = {
    "wrong types": wrong_types, "slow": slow, "broken": broken, "refusing": refusing, "echoing": echoing,
    "empty": empty, "resetting": resetting, "speechless": lambda asked: completion(None, usage=False),
    "dripping": lambda asked: replace(right(asked), drip=True), "truncated": truncated,
    "half sent": lambda asked: replace(right(asked), missing=100),
    "rate limiting": fails(429, "slow down", Retry_After="7"),
    "quoting": lambda asked: fails(400, json.dumps(asked.body))(asked),
    "page": lambda asked: Say(body=b"<!doctype html><html><h1>Welcome</h1></html>", headers=HTML),
    "error page": lambda asked: Say(status=502, body=b"<html><h1>Bad gateway</h1></html>", headers=HTML),
    "declining": lambda asked: completion(None, refusal="I cannot help with that."),
}  # fmt: skip
"""Manners that give no answer to a question in JSON."""
