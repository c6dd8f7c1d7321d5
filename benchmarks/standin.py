"""A model that takes no time: an OpenAI-compatible server that answers at once, and each time the same.

usage: python -m benchmarks.standin [--port N] [--log FILE]

It stands in for the language model and the embedding model that a memory product would ask over the network, so that
what is measured is the product. It says its address on stdout and ends when its stdin does. Its answers are what a
model's would be in form; in substance they repeat what was said. --log keeps what was asked for, a line of JSON each.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TextIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

Reply: TypeAlias = dict[str, Any]

DIMENSIONS = 1024
BASIS = 100  # how many of a vector's numbers a word has a say in
_LINE = re.compile(r"^\[(\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d\] (.+?)(?:\(user_id:[^)]*\))?: (.+)$", re.MULTILINE)
_OBJECT = re.compile(r'"timestamp": "?(\d{4}-\d\d-\d\d).*?\n\s*"speaker": (.+?),\n\s*"content": (.+)')


@dataclass(frozen=True)
class Said:
    """One message, as a prompt shows it."""

    day: str
    speaker: str
    text: str

    @property
    def told(self) -> str:
        """The message as a sentence about its speaker, with no brace that would end somebody's JSON early."""
        return f"{self.speaker} said: {self.text}".translate({ord("{"): "(", ord("}"): ")"})


def said(prompt: str) -> list[Said]:
    """The messages in a prompt."""
    return [Said(*found) for found in (_LINE.findall(prompt) or _OBJECT.findall(prompt))] or [
        Said("2026-01-01", "someone", "something")
    ]


def _boundary(_: str) -> Reply:
    return {"reasoning": "One topic.", "boundaries": [], "should_wait": False}


def _episode(prompt: str) -> Reply:
    told = said(prompt)
    return {
        "title": " ".join(told[0].told.split()[:14]),
        "content": f"On {told[0].day}, " + " ".join(each.told for each in told),
    }


def _facts(prompt: str) -> Reply:
    told = said(prompt)
    return {"atomic_facts": {"time": told[0].day, "atomic_fact": [each.told for each in told]}}


def _foresight(prompt: str) -> Reply:
    told = said(prompt)
    return {
        "foresights": [
            {
                "content": f"Later on, {each.told}", "evidence": each.told, "start_time": each.day,
                "duration_days": 7 + number,
            }
            for number, each in enumerate((told * 4)[:4])
        ]
    }  # fmt: skip


def _profile(prompt: str) -> Reply:
    told = said(prompt)
    return {
        "explicit_info": [{"category": "Said", "description": told[0].told, "evidence": told[0].day}],
        "implicit_traits": [
            {"trait": "Talkative", "description": "Tells much.", "basis": told[-1].told, "evidence": told[-1].day}
        ],
    }


def _profile_update(prompt: str) -> Reply:
    last = said(prompt)[-1]
    item = {"category": "Said", "description": last.told, "evidence": last.day}
    return {"operations": [{"action": "add", "type": "explicit_info", "data": item}], "update_note": "One more."}


def _profile_compact(prompt: str) -> Reply:
    profile = _json_after(prompt, '{\n  "explicit_info"')
    return {"explicit_info": profile["explicit_info"][-25:], "implicit_traits": profile["implicit_traits"][-5:]}


def _case_filter(_: str) -> Reply:
    return {"worth_extracting": True, "reason": "A problem was solved."}


def _case(prompt: str) -> Reply:
    known = hashlib.blake2b(prompt.encode(), digest_size=4).hexdigest()
    return {
        "task_intent": f"Mend what was reported as {known}",
        "approach": "1. Tried: the tool\n   Result: it answered\nOutcome: done",
        "key_insight": "Ask the tool first.",
        "quality_score": 0.8,
    }


def _skill(_: str) -> Reply:
    lines = ["## Steps", "1. Read the report.", "2. Ask the tool.", "3. Mend it.", "## Pitfalls", "- Guessing."]
    data = {
        "name": "mending", "description": "How to mend what is reported.", "content": "\n".join(lines),
        "confidence": 0.5,
    }  # fmt: skip
    return {"operations": [{"action": "add", "data": data}], "update_note": "The first."}


def _cluster(_: str) -> Reply:
    return {"idx": -1, "reason": "None is like it."}


def _shorter(prompt: str) -> Reply:
    return {"compressed_messages": _json_after(prompt, "[", "Messages to compress:")}


def _sufficient(_: str) -> Reply:
    return {
        "is_sufficient": True, "reasoning": "It is there.", "key_information_found": [], "missing_information": [],
    }  # fmt: skip


def _queries(prompt: str) -> Reply:
    return {"queries": [prompt[-60:], prompt[-40:]], "reasoning": "Other words."}


def _ranked(prompt: str) -> Reply:
    candidates = _json_after(prompt, "[", "Candidates (JSON array")
    return {"ranked": [{"id": each["id"], "score": 1 - n / 100} for n, each in enumerate(candidates)]}


ANSWERS: dict[str, Callable[[str], Reply]] = {
    "episodic memory boundary detection expert": _boundary,
    "episodic memory generation expert": _episode,
    "expert information extraction analyst": _facts,
    "personal foresight analysis agent": _foresight,
    '"User Profile Analyst"': _profile,
    "user profile updater": _profile_update,
    "compact the profile": _profile_compact,
    "worth extracting as a reusable": _case_filter,
    "distilling agent interaction trajectories": _case,
    "extracting reusable problem-solving strategies": _skill,
    "extracting failure insights": _skill,
    "clustering expert": _cluster,
    "tool call compression expert": _shorter,
    "expert in information retrieval evaluation": _sufficient,
    "expert at query reformulation": _queries,
    "Candidates (JSON array": _ranked,
}
"""The words that a prompt is known by, and what answers it."""


def answer(prompt: str) -> tuple[str, Reply]:
    """What the prompt was known by, and the answer to it; an empty answer to a prompt that is not known."""
    for words, make in ANSWERS.items():
        if words in prompt:
            return words, make(prompt)
    return "", {}


def _json_after(prompt: str, opening: str, mark: str = "") -> Any:
    """The JSON in a prompt that begins with `opening`, after the place of `mark`."""
    start = prompt.index(opening, prompt.index(mark) + len(mark))
    return json.JSONDecoder().raw_decode(prompt, start)[0]


@lru_cache(maxsize=100_000)
def _word(word: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    draw = np.random.default_rng(int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()))
    return draw.integers(0, DIMENSIONS, BASIS), draw.normal(size=BASIS).astype(np.float32)


def embed(text: str) -> NDArray[np.float32]:
    """A vector that texts with the same words have nearly in common."""
    made = np.zeros(DIMENSIONS, np.float32)
    for word in sorted({*re.findall(r"\w+", text.lower())}) or [""]:
        places, values = _word(word)
        made[places] += values
    return made / np.float32(np.linalg.norm(made))


def completion(body: Reply) -> tuple[str, Reply]:
    """The answer to POST /chat/completions, and what it was known by."""
    prompt = "\n".join(_text(message["content"]) for message in body["messages"])
    known, reply = answer(prompt)
    message = {"role": "assistant", "content": json.dumps(reply)}
    used = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 100, "total_tokens": len(prompt) // 4 + 100}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    made = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": body.get("model", "standin")}
    return known, {**made, "choices": [choice], "usage": used}


def _text(content: str | Sequence[Reply] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or ())


def embeddings(body: Reply) -> Reply:
    """The answer to POST /embeddings."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [embed(text) for text in texts]
    coded = [
        base64.b64encode(each.tobytes()).decode() if body.get("encoding_format") == "base64" else each.tolist()
        for each in vectors
    ]
    data = [{"object": "embedding", "index": number, "embedding": each} for number, each in enumerate(coded)]
    used = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "data": data, "model": body.get("model", "standin"), "usage": used}


class Server:
    """HTTP/1.1 with connections that stay open, and no more of it than a client of OpenAI's API needs."""

    def __init__(self, log: TextIO | None = None) -> None:
        self._log = log

    async def serve(self, port: int) -> None:
        """Say the address, and answer until stdin ends."""
        ended = asyncio.Event()

        def told() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                ended.set()

        asyncio.get_running_loop().add_reader(sys.stdin, told)
        server = await asyncio.start_server(self._connection, "127.0.0.1", port, limit=2**24)
        async with server:
            print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
            await ended.wait()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"^content-length: *(\d+)", head, re.IGNORECASE | re.MULTILINE)
                body = await reader.readexactly(int(length[1])) if length else b""
                status, made = self._answer(head.split(" ", 2)[1], body)
                fields = f"Content-Type: application/json\r\nContent-Length: {len(made)}"
                writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + made)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    def _answer(self, path: str, body: bytes) -> tuple[str, bytes]:
        if path.endswith("/chat/completions"):
            given = json.loads(body)
            known, made = completion(given)
            self._note({"asked": known, "messages": given["messages"], "options": [*given]})
        elif path.endswith("/embeddings"):
            given = json.loads(body)
            made = embeddings(given)
            self._note({"asked": "embeddings", "input": given["input"], "options": [*given]})
        else:
            self._note({"asked": path, "body": body.decode()})
            return "404 Not Found", b'{"error": {"message": "not here"}}'
        return "200 OK", json.dumps(made).encode()

    def _note(self, what: Reply) -> None:
        if self._log:
            self._log.write(json.dumps(what) + "\n")
            self._log.flush()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=argparse.FileType("a"))
    given = parser.parse_args()
    asyncio.run(Server(given.log).serve(given.port))


if __name__ == "__main__":
    main()
