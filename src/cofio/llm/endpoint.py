"""One question to an OpenAI-compatible endpoint: what it takes is found out, and a moment of trouble is waited for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import responses
from importlib.util import find_spec
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from ..config.installation import install_command
from ..values.errors import Invalid, Unavailable
from .failures import Failed, Nonsense, Reason
from .shapes import Schema, sent
from .token_counts import tokens

if TYPE_CHECKING:
    import httpx2
    from openai import OpenAI

Spend: TypeAlias = Callable[[int, int], None]
"""Takes note of what was just spent: calls and tokens."""
Allowed: TypeAlias = Callable[[], str | None]
"""Why the model may not be asked now; None when it may."""
Form: TypeAlias = Literal["schema", "object", "text"]
"""Whether an endpoint can be held to a shape, to JSON at least, or to nothing."""
Turn: TypeAlias = Mapping[str, Any]
"""A message as the endpoint takes it."""

TRIES = 3
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
HURRY = 20.0  # seconds that someone who asked something is kept waiting
LONGEST_REST = 600.0
MOST_BYTES = 8_000_000
_SIMPLER: Mapping[Form, Form] = {"schema": "object", "object": "text"}
_LIMITS = ("max_tokens", "max_completion_tokens", "")
_MISFIT = (400, 415, 422, 501)
_PASSING = (408, 409, 425, 429)
_TOO_LONG = re.compile(r"context.?length|maximum context|context window|too many (?:input )?tokens|prompt is too long")
_SENT = frozenset(
    [
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host",
        "user-agent", "x-stainless-raw-response",  # the last is how the package itself knows what it was asked for
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """What an endpoint takes, as far as it is known."""

    form: Form = "schema"
    limit: str = "max_tokens"
    """What it calls the most tokens that an answer may have; empty if it takes no such limit."""
    cold: bool = True
    """Whether it takes a temperature of 0."""
    told: bool = False
    """Whether it has to be told the shape in words, whatever it says it can do."""

    def without(self, complaint: str, *, shaped: bool) -> Ways | None:
        """Other ways to try after it refused these with that complaint; None when there are none."""
        if _TOO_LONG.search(complaint):  # the room for the answer counts as well
            return replace(self, limit="") if self.limit else None
        if self.limit and ("max_tokens" in complaint or "max_completion_tokens" in complaint):
            return replace(self, limit=_LIMITS[_LIMITS.index(self.limit) + 1])
        if self.cold and "temperature" in complaint:
            return replace(self, cold=False)
        if shaped and self.form in _SIMPLER:
            return replace(self, form=_SIMPLER[self.form])
        return replace(self, cold=False) if self.cold else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model said."""

    text: str
    cut: bool
    """Whether it had more to say than it had room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """Why one try gave nothing."""

    reason: Reason
    problem: str
    passing: bool = False
    wait: float = 0.0
    """How long it asks to be left alone."""
    complaint: str | None = None
    """What it says is wrong with the request; to be looked at, never shown: it may quote all that it was sent."""


class Endpoint:
    """Asks at most three times within a bounded time, and then leaves the endpoint alone for a while."""

    def __init__(
        self, url: str, model: str, key: str, *, spend: Spend | None, allowed: Allowed | None, timeout: float,
        rest: float, clock: Callable[[], float], sleep: Callable[[float], None] | None, jitter: Callable[[], float],
    ) -> None:  # fmt: skip
        self._url, self.name = _parse(url)
        if not model.strip() or not model.isprintable():
            raise Invalid("llm_model", "is not the name of a model")
        if not key.isascii() or not key.isprintable():
            raise Invalid("llm_api_key", "holds characters that no key has")
        if find_spec("openai") is None:
            raise Unavailable(f"a model needs the openai package: {install_command('llm')}")
        self.model = model
        self._key = key
        self._spend, self._allowed = spend, allowed
        self._timeout, self._rest = timeout, rest
        self._clock, self._sleep, self._jitter = clock, sleep or self._pause, jitter
        self._lock = Lock()
        self._made: OpenAI | None = None
        self._closed: Future[None] = Future()
        self._rest_until = float("-inf")
        self.ways = Ways()

    def tell(self) -> None:
        """Tell the shape in words from now on: the endpoint takes a schema and does not hold the model to it."""
        self.ways = replace(self.ways, told=True)

    def close(self) -> None:
        """Close the connections, and end at once what waits for an answer; nothing is asked any more."""
        with self._lock:
            made, self._made = self._made, None
            if not self._closed.done():
                self._closed.set_result(None)
        if made is not None:
            made.close()

    def send(
        self, turns: Callable[[Ways], Sequence[Turn]], *, most: int, shape: tuple[str, Schema] | None = None,
        hurried: bool = False,
    ) -> Reply:  # fmt: skip
        """What the model says to these turns, in at most so many tokens; `shape` is a name and a schema.

        Raises:
            Failed: it could not be asked, or did not answer.
            Nonsense: what came was no model's answer, or the model declined.
        """
        ways = self.ways
        timeout, tries = (min(self._timeout, HURRY), 1) if hurried else (self._timeout, TRIES)
        deadline = self._clock() + timeout * tries + LONGEST_WAIT
        failures = 0
        while True:
            self._check()
            said = turns(ways)
            got = self._once(self._body(said, ways, most, shape), said, min(timeout, deadline - self._clock()))
            if isinstance(got, Reply):
                self.ways = ways
                return got
            other = None if got.complaint is None else ways.without(got.complaint, shaped=shape is not None)
            if other is not None:
                ways = other
                continue
            failures += 1
            pause = self._wait(got, failures)
            if not got.passing or failures >= tries or self._clock() + pause >= deadline:
                raise self._failure(got, failures)
            self._sleep(pause)

    def _pause(self, seconds: float) -> None:
        wait([self._closed], seconds)

    def _check(self) -> None:
        if self._closed.done():
            raise Failed("down", f"{self.name} is asked no more: the program is ending")
        refusal = self._allowed() if self._allowed is not None else None
        if refusal is not None:
            raise Failed("budget", refusal)
        if self._clock() < self._rest_until:
            raise Failed("down", f"{self.name} did not answer a moment ago; it is asked again soon")

    def _wait(self, trouble: _Trouble, failures: int) -> float:
        wait = FIRST_WAIT * 2 ** (failures - 1) * (0.5 + self._jitter())
        # A longer wait than we have patience for is no wait but an end, for now.
        return float("inf") if trouble.wait > LONGEST_WAIT else max(wait, trouble.wait)

    def _failure(self, trouble: _Trouble, failures: int) -> Failed:
        if trouble.reason == "nonsense":
            return Nonsense(f"{self.name} {trouble.problem}")
        if trouble.passing and self._rest:
            self._rest_until = self._clock() + min(max(self._rest, trouble.wait), LONGEST_REST)
        times = f", {failures} times" if failures > 1 else ""
        return Failed(trouble.reason, f"{self.name} {trouble.problem}{times}")

    def _body(
        self, said: Sequence[Turn], ways: Ways, most: int, shape: tuple[str, Schema] | None
    ) -> dict[str, Any]:  # fmt: skip
        body: dict[str, Any] = {"model": self.model, "messages": list(said)}
        if ways.limit:
            body[ways.limit] = most
        if ways.cold:
            body["temperature"] = 0
        if shape is not None and ways.form == "schema":
            form = {"name": shape[0], "strict": True, "schema": sent(shape[1])}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif shape is not None and ways.form == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def _once(self, body: dict[str, Any], said: Sequence[Turn], timeout: float) -> Reply | _Trouble:
        import httpx2
        import openai

        client = self._client()
        ends = self._clock() + timeout
        asked = sum(tokens(_words(turn)) for turn in said)

        def receive() -> bytes:
            create = client.chat.completions.with_streaming_response.create
            with create(**body, timeout=max(timeout, 0.001)) as response:
                answer = bytearray()
                for chunk in response.iter_bytes():
                    answer += chunk
                    if self._clock() > ends:
                        raise httpx2.ReadTimeout("the answer never ended")
                    if len(answer) > MOST_BYTES:
                        break
                return bytes(answer)

        try:
            answer = self._await(receive)
        except (openai.APITimeoutError, httpx2.TimeoutException):
            # It may have worked on the answer all the same.
            return self._spent(asked, _Trouble(reason="slow", problem="did not answer in time", passing=True))
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            cause = type(error.__cause__ or error).__name__
            return self._spent(0, _Trouble(reason="down", problem=f"cannot be reached ({cause})", passing=True))
        except openai.APIStatusError as error:
            after = _seconds(error.response.headers.get("Retry-After", ""))
            return self._spent(0, _status(error.status_code, str(error.body or error.message).lower(), after))
        if answer is None:
            return self._spent(asked, _Trouble(reason="down", problem="was left unanswered: the program is ending"))
        reply, cost = _reply(answer)
        estimate = asked + (tokens(reply.text) if isinstance(reply, Reply) else 0)
        return self._spent(estimate if cost is None else cost, reply)

    def _await(self, receive: Callable[[], bytes]) -> bytes | None:
        """What is received; None when the endpoint is closed before.

        A thread of its own waits for it, which is then left to itself: closing a connection does not end a read.
        """
        received: Future[bytes] = Future()

        def work() -> None:
            try:
                received.set_result(receive())
            except Exception as error:  # it is raised where the answer is waited for
                received.set_exception(error)

        Thread(target=work, name="cofio-llm", daemon=True).start()
        either: list[Future[Any]] = [received, self._closed]
        wait(either, return_when=FIRST_COMPLETED)
        return received.result() if received.done() else None

    def _spent(self, cost: int, outcome: Reply | _Trouble) -> Reply | _Trouble:
        if self._spend is not None:
            self._spend(1, cost)
        return outcome

    def _client(self) -> OpenAI:
        with self._lock:
            if self._made is None:
                import openai

                key = self._key or "none"  # the package insists on one
                self._made = openai.OpenAI(
                    base_url=self._url,
                    api_key=key,
                    max_retries=0,
                    default_headers={"Authorization": f"Bearer {key}"},
                    # Sent elsewhere, the key would go along.
                    http_client=openai.DefaultHttpxClient(
                        follow_redirects=False, event_hooks={"request": [_only_what_is_needed]}
                    ),
                )
            return self._made


def _only_what_is_needed(request: httpx2.Request) -> None:
    """Take out what the package tells of this machine, and what it finds in variables that are not ours."""
    for name in [name for name in request.headers if name.lower() not in _SENT]:
        del request.headers[name]


def _status(status: int, complaint: str, after: float) -> _Trouble:
    problem = f"answered {status} {responses.get(status, '')}".rstrip()
    if status in _MISFIT:
        return _Trouble(reason="refused", problem=problem, complaint=complaint)
    if status == 429 and "insufficient_quota" in complaint:
        return _Trouble(reason="refused", problem=f"{problem}: the account has nothing left to spend")
    if status in (429, 503, 529):
        return _Trouble(reason="busy", problem=problem, passing=True, wait=after)
    if status in _PASSING or status >= 500:
        return _Trouble(reason="down", problem=problem, passing=True, wait=after)
    hints = {401: ": is llm_api_key right?", 403: ": is llm_api_key right?", 404: ": are llm_base_url and llm_model?"}
    return _Trouble(reason="refused", problem=problem + hints.get(status, ""))


def _reply(answer: bytes) -> tuple[Reply | _Trouble, int | None]:
    """What an endpoint answered, and the tokens that it says it cost."""
    stranger = _Trouble(reason="nonsense", problem="answered something else than a model does")
    try:
        found = json.loads(answer)
        choice = found["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return stranger, None
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    cost = _cost(found.get("usage"))
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        return _Trouble(reason="nonsense", problem="declined to answer"), cost
    text = content if isinstance(content, str) else ""
    return Reply(text=text, cut=choice.get("finish_reason") == "length"), cost


def _cost(usage: object) -> int | None:
    """The tokens of one call, where the endpoint says how many they were."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("total_tokens", "prompt_tokens", "completion_tokens")]
    known = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**53]
    return max(known[0], sum(known[1:])) if known else None


def _words(turn: Turn) -> str:
    content = turn["content"]
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "x" * 4_000)) for part in content)  # an image is about a thousand tokens


def _seconds(asked: str) -> float:
    """How long a Retry-After asks for."""
    try:
        return min(max(float(asked), 0.0), 1e9)
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(asked)
    except (ValueError, TypeError):
        return 0.0
    zoned = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (zoned - datetime.now(UTC)).total_seconds())


def _parse(url: str) -> tuple[str, str]:
    """The API's root, and what to call it in messages."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:  # its text quotes the URL, which may hold a password
        raise Invalid("llm_base_url", "is not an http or https URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url.strip():
        raise Invalid("llm_base_url", "is not an http or https URL")
    if "@" in parts.netloc:
        raise Invalid("llm_base_url", "holds a name or password; give the key as llm_api_key")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    shown = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    return shown if not parts.query else f"{shown}?{parts.query}", shown
