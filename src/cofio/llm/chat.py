"""The `/chat/completions` of an OpenAI-compatible endpoint: what it takes is found out, what it costs is counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, TypeAlias

from ..endpoints.endpoint import Address, Endpoint, Post, RetryPolicy, SettingNames, Trouble
from ..endpoints.model_errors import Failed
from ..text.token_counts import count_tokens
from ..values.errors import Invalid
from .shapes import Schema, strip_checks

Spend: TypeAlias = Callable[[int, int], None]
"""Counts what was just spent: calls and tokens."""
Refusal: TypeAlias = Callable[[], str | None]
"""Gives the reason why the model may not be asked now; None when it may."""
AnswerForm: TypeAlias = Literal["schema", "object", "text"]
"""Whether an endpoint can be held to a shape, to JSON at least, or to nothing."""
ChatMessage: TypeAlias = Mapping[str, Any]
"""A message as the endpoint takes it."""

TRIES = 3
HURRY = 20.0  # seconds that someone who waits for the answer is kept waiting
MAX_BYTES = 8_000_000
SETTINGS = SettingNames(url="llm_base_url", model="llm_model", key="llm_api_key")
_PATH = "/chat/completions"
_FORMS: tuple[AnswerForm, ...] = ("schema", "object", "text")
_SIMPLER: Mapping[AnswerForm, AnswerForm] = {"schema": "object", "object": "text"}
_LIMITS = ("max_tokens", "max_completion_tokens", "")
_NAMES_FORM = re.compile(r"response.?format|json.?(?:schema|object)|grammar|guided|structured.?output|\bschema\b")
_TOO_LONG = re.compile(r"context.?length|maximum context|context window|too many (?:input )?tokens|prompt is too long")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What an endpoint takes, as far as it is known."""

    form: AnswerForm = "schema"
    limit: str = "max_tokens"
    """What it calls the most tokens that an answer may have; empty if it takes no such limit."""
    takes_temperature: bool = True
    """Whether it takes a temperature of 0."""
    needs_words: bool = False
    """Whether the shape has to be described in words, whatever the endpoint claims to support."""

    @classmethod
    def decode(cls, data: Mapping[str, object]) -> Dialect | None:
        """Return what was kept as these fields; None when it is from a version that knew other ones."""
        form = next((each for each in _FORMS if each == data.get("form")), None)
        if form is None or data.get("limit") not in _LIMITS or data.keys() != {each.name for each in fields(cls)}:
            return None
        return cls(
            form=form, limit=str(data["limit"]), takes_temperature=data["takes_temperature"] is True,
            needs_words=data["needs_words"] is True,
        )  # fmt: skip

    def simplify(self, complaint: str, *, has_shape: bool) -> Dialect | None:
        """Return what to try after it refused this with that complaint; None when nothing is left to try."""
        if _TOO_LONG.search(complaint):  # the room for the answer counts as well
            return replace(self, limit="") if self.limit else None
        if self.limit and ("max_tokens" in complaint or "max_completion_tokens" in complaint):
            return replace(self, limit=_LIMITS[_LIMITS.index(self.limit) + 1])
        if self.takes_temperature and "temperature" in complaint:
            return replace(self, takes_temperature=False)
        if has_shape and self.form in _SIMPLER:
            return replace(self, form=_SIMPLER[self.form])
        return replace(self, takes_temperature=False) if self.takes_temperature else None

    def simplify_form(self, complaint: str) -> Dialect | None:
        """Return what to try after a failure of the server's own whose text names the form; None when it does not.

        Some servers answer a form that they do not know with 500. Nothing else is given up for such a failure.
        """
        if self.form not in _SIMPLER or not _NAMES_FORM.search(complaint):
            return None
        return replace(self, form=_SIMPLER[self.form])


class DialectStore(Protocol):
    """Keeps what endpoints take, so that it is not found out again by each process."""

    def load(self, url: str, model: str) -> Dialect | None:
        """Return what a model's endpoint is known to take; None when nothing is known."""

    def save(self, url: str, model: str, dialect: Dialect) -> None:
        """Keep what a model's endpoint takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered."""

    text: str
    is_cut: bool
    """Whether the answer was longer than it had room for."""


class ChatEndpoint:
    """Sends messages to a model, in the dialect that its endpoint understands."""

    def __init__(
        self, url: str, model: str, key: str, *, spend: Spend | None, refusal: Refusal | None, timeout: float,
        rest: float, clock: Callable[[], float], sleep: Callable[[float], None] | None, jitter: Callable[[], float],
        dialects: DialectStore | None = None,
    ) -> None:  # fmt: skip
        address = Address.parse(url, _PATH, SETTINGS)
        if not model.strip() or not model.isprintable():
            raise Invalid("llm_model", "is not the name of a model")
        policy = RetryPolicy(
            tries=TRIES, timeout=timeout, hurry=HURRY, rest=rest, longest_answer=timeout, max_bytes=MAX_BYTES
        )
        self._endpoint = Endpoint(
            address.url, address.root, key, policy, SETTINGS, clock=clock, sleep=sleep, jitter=jitter
        )
        self.name, self.model = address.root, model
        self._spend, self._refusal = spend, refusal
        self._dialects = dialects
        self._dialect: Dialect | None = None

    @property
    def dialect(self) -> Dialect:
        """What the endpoint takes, as far as it is known: from before, if it is kept, else the most that it may."""
        if self._dialect is None:
            kept = self._dialects.load(self.name, self.model) if self._dialects is not None else None
            self._dialect = kept or Dialect()
        return self._dialect

    def describe_shapes(self) -> None:
        """Describe shapes in words from now on: the endpoint takes a schema and does not hold the model to it."""
        self._dialect = replace(self.dialect, needs_words=True)

    def close(self) -> None:
        """Close the connections, and end at once what waits for an answer; nothing is asked any more."""
        self._endpoint.close()

    def send(
        self, messages: Callable[[Dialect], Sequence[ChatMessage]], *, max_tokens: int,
        shape: tuple[str, Schema] | None = None, hurried: bool = False,
    ) -> Reply:  # fmt: skip
        """Return what the model answers, in at most `max_tokens`; `shape` is a name and a schema.

        Raises:
            Failed: it could not be asked, or did not answer.
            Nonsense: what came was no model's answer, or the model declined.
        """
        first = dialect = self.dialect

        def attempt(post: Post) -> Reply | Trouble:
            nonlocal dialect
            while True:
                outcome = self._send_once(post, messages(dialect), dialect, max_tokens, shape)
                if isinstance(outcome, Reply):
                    return outcome
                other = _find_simpler(dialect, outcome, has_shape=shape is not None)
                if other is None:
                    return outcome
                dialect = other

        reply = self._endpoint.ask(attempt, hurried=hurried)
        if dialect != first:
            self._dialect = dialect
            # That there was no room for a limit may be due to this one conversation: it is not kept for others.
            lasting = dialect if dialect.limit else replace(dialect, limit=first.limit)
            if self._dialects is not None and lasting != first:
                self._dialects.save(self.name, self.model, lasting)
        return reply

    def _send_once(
        self, post: Post, messages: Sequence[ChatMessage], dialect: Dialect, max_tokens: int,
        shape: tuple[str, Schema] | None,
    ) -> Reply | Trouble:  # fmt: skip
        refusal = self._refusal() if self._refusal is not None else None
        if refusal is not None:
            raise Failed("budget", refusal)
        answer = post(self._build_body(messages, dialect, max_tokens, shape))
        estimate = sum(count_tokens(_get_words(message)) for message in messages)
        if isinstance(answer, Trouble):
            self._count(estimate if answer.was_received else 0)
            return answer
        reply, cost = _parse_reply(answer)
        estimate += count_tokens(reply.text) if isinstance(reply, Reply) else 0
        self._count(estimate if cost is None else cost)
        return reply

    def _count(self, cost: int) -> None:
        if self._spend is not None:
            self._spend(1, cost)

    def _build_body(
        self, messages: Sequence[ChatMessage], dialect: Dialect, max_tokens: int, shape: tuple[str, Schema] | None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if dialect.limit:
            body[dialect.limit] = max_tokens
        if dialect.takes_temperature:
            body["temperature"] = 0
        if shape is not None and dialect.form == "schema":
            form = {"name": shape[0], "strict": True, "schema": strip_checks(shape[1])}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif shape is not None and dialect.form == "object":
            body["response_format"] = {"type": "json_object"}
        return body


def _find_simpler(dialect: Dialect, trouble: Trouble, *, has_shape: bool) -> Dialect | None:
    """Return what to ask with instead, if the endpoint complained of how it was asked."""
    if trouble.complaint is None:
        return None
    if trouble.is_temporary:
        return dialect.simplify_form(trouble.complaint) if has_shape else None
    return dialect.simplify(trouble.complaint, has_shape=has_shape)


def _parse_reply(answer: bytes) -> tuple[Reply | Trouble, int | None]:
    """Return what an endpoint answered, and the tokens that it says it cost."""
    stranger = Trouble(reason="nonsense", problem="answered something else than a model does")
    try:
        parsed = json.loads(answer)
        choice = parsed["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return stranger, None
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    cost = _parse_cost(parsed.get("usage"))
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        return Trouble(reason="nonsense", problem="declined to answer"), cost
    text = content if isinstance(content, str) else ""
    return Reply(text=text, is_cut=choice.get("finish_reason") == "length"), cost


def _parse_cost(usage: object) -> int | None:
    """Return the tokens of one call, where the endpoint says how many they were."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("total_tokens", "prompt_tokens", "completion_tokens")]
    valid = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**53]
    return max(valid[0], sum(valid[1:])) if valid else None


def _get_words(message: ChatMessage) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "x" * 4_000)) for part in content)  # an image is about a thousand tokens
