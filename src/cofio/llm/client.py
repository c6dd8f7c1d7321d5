"""A model behind any OpenAI-compatible endpoint, asked for answers in a shape."""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, cast

from ..endpoints.model_errors import Failed, Nonsense
from ..text.token_counts import trim
from .chat import ChatEndpoint, ChatMessage, Dialect, DialectStore, Refusal, Reply, Spend
from .json_answers import find_objects, strip_thoughts
from .prompts.loader import Prompts, fence_text
from .shapes import Schema, ShapeError, conform, strip_checks

MAX_TOKENS = 8_000
"""Tokens of an answer, with what the model thinks before it."""
MAX_MEDIA = 20 * 1024 * 1024
"""Bytes of an image or a recording."""
MAX_DESCRIPTION = 20_000
"""Characters of a description."""
_MAX_QUOTE = 1_000  # tokens of an answer that the model is shown again

_SOUNDS = {
    "mpeg": "mp3",
    "x-wav": "wav",
    "wave": "wav",
    "vnd.wave": "wav",
    "mp4": "m4a",
    "x-m4a": "m4a",
    "x-flac": "flac",
}


class Chances:
    """How often, over several questions, the model may be asked once more after an answer that is no use."""

    def __init__(self, left: int = 1) -> None:
        self._left = left

    def take(self) -> bool:
        """Take one, if there is one left."""
        self._left -= 1
        return self._left >= 0


class Model:
    """Asks one model. Safe to use from several threads; what the endpoint takes is found out once and remembered."""

    def __init__(
        self,
        base_url: str,
        name: str,
        key: str = "",
        *,
        spend: Spend | None = None,
        allowed: Refusal | None = None,
        prompts: Prompts | None = None,
        dialects: DialectStore | None = None,
        timeout: float = 60.0,
        rest: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Name the endpoint; nothing is sent yet.

        `allowed` is asked before every call, `spend` told after it. `dialects` keeps what the endpoint takes beyond
        this process. `timeout` is in seconds, for one call; a question takes at most three times that, and the half
        minute that the endpoint may ask for. An endpoint that did not answer is left alone for `rest` seconds. `sleep`
        waits between two tries; by default, no longer than until `close`.

        Raises:
            Invalid: the URL, the name or the key cannot be used.
        """
        self._endpoint = ChatEndpoint(
            base_url, name, key, spend=spend, refusal=allowed, timeout=timeout, rest=rest, clock=clock, sleep=sleep,
            jitter=jitter, dialects=dialects,
        )  # fmt: skip
        self._prompts = prompts or Prompts()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._endpoint.model

    def close(self) -> None:
        """Close the connections, and end at once what waits for an answer; nothing is asked any more."""
        self._endpoint.close()

    def ask(
        self, system: str, user: str, *, schema: Schema, name: str, hurried: bool = False,
        chances: Chances | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What the model answers, in the shape of the schema; where that is no use, it is asked once more.

        `hurried` is for someone who waits: one try, at most 20 seconds, and not once more. `chances` are shared by
        several questions.

        Raises:
            Failed: the model could not be asked, or did not answer; see its reason.
            Nonsense: what it answered cannot be used.
        """
        user = _make_sendable(user)
        reply = self._send(system, [{"role": "user", "content": user}], schema, name, MAX_TOKENS, hurried)
        answer, problem = _find_answer(reply, schema)
        if answer is None:
            self._endpoint.describe_shapes()
        if answer is None and not hurried and (chances or Chances()).take():
            again: list[ChatMessage] = [
                {"role": "user", "content": user},
                {
                    "role": "assistant",
                    "content": _make_sendable(trim(strip_thoughts(reply.text), _MAX_QUOTE)) or "(nothing)",
                },
                {"role": "user", "content": f"This cannot be used: {problem}. {_describe_shape(schema)}"},
            ]
            try:
                reply = self._send(system, again, schema, name, MAX_TOKENS * 2 if reply.is_cut else MAX_TOKENS, hurried)
            except Failed as failed:
                # Who took the question and refuses it with the answer quoted has no room for both.
                if failed.reason != "refused":
                    raise
            else:
                answer, problem = _find_answer(reply, schema)
        if answer is None:
            raise Nonsense(f"{self._endpoint.name} answered what cannot be used: {problem}")
        return answer

    def describe(self, media: bytes, mime: str, *, name: str | None, hint: str) -> str:
        """What an image shows or what is said in a recording; `hint` is what the sender tells about it, as JSON.

        Raises:
            Failed: the model could not be asked, cannot look or listen, or did not answer.
            Nonsense: it answered nothing.
        """
        kind, _, subtype = mime.lower().partition(";")[0].strip().partition("/")
        if kind not in ("image", "audio") or not subtype:
            raise Failed("refused", f"a model can be shown images and recordings, not {mime[:80]!r}")
        if not media or len(media) > MAX_MEDIA:
            raise Failed("refused", f"a model can be shown 1 to {MAX_MEDIA:,} bytes, not {len(media):,}")
        about = fence_text(trim(f"{name or 'a file without a name'}\n{hint}".strip(), 1_000))
        system, user = self._prompts.fill("image" if kind == "image" else "recording", about=_make_sendable(about))
        data = b64encode(media).decode()
        part: dict[str, Any] = {"type": "image_url", "image_url": {"url": f"data:image/{subtype};base64,{data}"}}
        if kind == "audio":
            sound = {"data": data, "format": _SOUNDS.get(subtype, subtype)}
            part = {"type": "input_audio", "input_audio": sound}
        messages: list[ChatMessage] = [
            {"role": "system", "content": system},
            {"role": "user", "content": [{"type": "text", "text": user}, part]},
        ]
        answer = strip_thoughts(self._endpoint.send(lambda _: messages, max_tokens=MAX_TOKENS).text)
        clean = _make_sendable(answer).replace("\x00", "")[:MAX_DESCRIPTION]
        if not clean:
            raise Nonsense(f"{self._endpoint.name} described nothing")
        return clean

    def _send(
        self, system: str, messages: Sequence[ChatMessage], schema: Schema, name: str, max_tokens: int, hurried: bool
    ) -> Reply:  # fmt: skip
        def build(dialect: Dialect) -> list[ChatMessage]:
            is_held = dialect.form == "schema" and not dialect.needs_words
            words = "" if is_held else f"\n\n{_describe_shape(schema)}"
            return [{"role": "system", "content": _make_sendable(system + words)}, *messages]

        return self._endpoint.send(build, max_tokens=max_tokens, shape=(name, schema), hurried=hurried)


def _make_sendable(text: str) -> str:
    """The text without halves of characters, which cannot be sent, nor stored."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _describe_shape(schema: Schema) -> str:
    """The shape in words, for a model that cannot be held to it."""
    text = json.dumps(strip_checks(schema))
    return f"Answer with one JSON object of this JSON Schema, and with nothing around it:\n{text}"


def _find_answer(reply: Reply, schema: Schema) -> tuple[dict[str, Any] | None, str]:
    """The first object of an answer that has the shape; if there is none, what is wrong."""
    problem = "" if strip_thoughts(reply.text) else "it is empty"
    for candidate in find_objects(reply.text):
        try:
            return cast("dict[str, Any]", conform(candidate, schema)), ""
        except ShapeError as error:
            problem = problem or str(error)
    return None, (problem or "it is not JSON") + (", and it was cut off" if reply.is_cut else "")
