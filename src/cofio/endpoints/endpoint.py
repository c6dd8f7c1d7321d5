"""One OpenAI-compatible endpoint: JSON is posted to it, again where that may help, within a bounded time."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import responses
from http.cookiejar import CookieJar, DefaultCookiePolicy
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from ..values.errors import Invalid
from .model_errors import Failed, Nonsense, Reason

if TYPE_CHECKING:
    import httpx2

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
LONGEST_REST = 600.0
_MISFIT = (400, 415, 422, 501)
_TEMPORARY = (408, 409, 425, 429)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why one try gave nothing."""

    reason: Reason
    problem: str
    is_temporary: bool = False
    """Whether another try may help."""
    retry_after: float = 0.0
    """How many seconds the endpoint asks to be left alone."""
    complaint: str | None = None
    """What it says is wrong, with the request or, where that is temporary, with itself; to be searched, never shown:
    it may quote all that it was sent."""
    was_received: bool = False
    """Whether the endpoint may have worked on the request all the same."""


Post: TypeAlias = Callable[[Mapping[str, Any]], bytes | Trouble]
"""Sends one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingNames:
    """The names of the settings that an endpoint comes from, for messages."""

    url: str
    model: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often an endpoint is asked, and how long it may take."""

    tries: int
    timeout: float
    """Seconds that the endpoint may be silent."""
    hurry: float
    """Seconds for the only try, when someone waits for the answer."""
    rest: float
    """Seconds that the endpoint is left alone after every try failed."""
    longest_answer: float
    """Seconds that one try may take in all."""
    max_bytes: int
    """Where an answer is cut off."""
    shortens_waits: bool = False
    """Whether a wait beyond `LONGEST_WAIT` is shortened to that, and a rest to `rest`; otherwise it ends the tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an endpoint is."""

    url: str
    """What is posted to."""
    root: str
    """The API's root, without what may be secret."""
    host: str

    @classmethod
    def parse(cls, url: str, path: str, names: SettingNames) -> Address:
        """Parse the API's root, or the whole address of its endpoint at `path`.

        Raises:
            Invalid: it is no URL, or holds a password.
        """
        url = url.strip(" ")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:  # its text quotes the URL, which may hold a password
            raise Invalid(names.url, "is not an http or https URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
            raise Invalid(names.url, "is not an http or https URL")
        if "@" in parts.netloc:
            raise Invalid(names.url, f"holds a name or password; give the key as {names.key}")
        root = parts.path.rstrip("/").removesuffix(path)
        return cls(
            url=urlunsplit((parts.scheme, parts.netloc, root + path, parts.query, "")),
            root=urlunsplit((parts.scheme, parts.netloc, root, "", "")),
            host=parts.hostname if port is None else f"{parts.hostname}:{port}",
        )


class Endpoint:
    """Asks a bounded number of times within a bounded time, and then leaves the endpoint alone for a while."""

    def __init__(
        self,
        url: str,
        name: str,
        key: str,
        policy: RetryPolicy,
        names: SettingNames,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """Nothing is sent yet. `name` is what messages call the endpoint; waits are multiplied by 0.5 + `jitter()`.

        Raises:
            Invalid: the key cannot be used.
        """
        if not key.isascii() or not key.isprintable():  # a client would quote the whole header in its error
            raise Invalid(names.key, "holds characters that no key has")
        self.name = name
        self._url = url
        self._headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "cofio"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._policy = policy
        self._names = names
        self._clock, self._sleep, self._jitter = clock, sleep or self._pause, jitter
        self._lock = Lock()
        self._client: httpx2.Client | None = None
        self._close_signal: Future[None] = Future()
        self._rest_until = float("-inf")

    def close(self) -> None:
        """Close the connections, and end at once what waits for an answer; nothing is asked any more."""
        with self._lock:
            client, self._client = self._client, None
            if not self._close_signal.done():
                self._close_signal.set_result(None)
        if client is not None:
            client.close()

    def ask(
        self, attempt: Callable[[Post], Answer | Trouble], *, hurried: bool = False, may_rest: bool = True
    ) -> Answer:
        """Run `attempt`, which posts once or more, until it gives an answer; a moment of trouble is waited for.

        After a failure the endpoint is left alone for a while, unless `may_rest` is false: for work that is optional.

        Raises:
            Failed: the endpoint could not be asked, or did not answer.
            Nonsense: what it answered cannot be used.
        """
        policy = self._policy
        timeout = min(policy.timeout, policy.hurry) if hurried else policy.timeout
        longest = timeout if hurried else policy.longest_answer
        tries = 1 if hurried else policy.tries
        deadline = self._clock() + longest * tries + LONGEST_WAIT

        def post(body: Mapping[str, Any]) -> bytes | Trouble:
            self._check()
            left = deadline - self._clock()
            return self._post(body, min(timeout, left), min(longest, left))

        failures = 0
        while True:
            outcome = attempt(post)
            if not isinstance(outcome, Trouble):
                return outcome
            failures += 1
            pause = self._find_wait(outcome, failures)
            if not outcome.is_temporary or failures >= tries or self._clock() + pause >= deadline:
                raise self._describe(outcome, failures, may_rest=may_rest)
            self._sleep(pause)

    def _pause(self, seconds: float) -> None:
        wait([self._close_signal], seconds)

    def _check(self) -> None:
        if self._close_signal.done():
            raise Failed("down", f"{self.name} is asked no more: the program is ending")
        if self._clock() < self._rest_until:
            raise Failed("down", f"{self.name} did not answer a moment ago; it is asked again soon")

    def _find_wait(self, trouble: Trouble, failures: int) -> float:
        least = FIRST_WAIT * 2.0 ** (failures - 1) * (0.5 + self._jitter())
        if trouble.retry_after > LONGEST_WAIT:
            return LONGEST_WAIT if self._policy.shortens_waits else float("inf")
        return max(least, trouble.retry_after)

    def _describe(self, trouble: Trouble, failures: int, *, may_rest: bool) -> Failed:
        if trouble.reason == "nonsense":
            return Nonsense(f"{self.name} {trouble.problem}")
        if trouble.is_temporary and self._policy.rest and may_rest:
            rest = self._policy.rest
            if not self._policy.shortens_waits:
                rest = min(max(rest, trouble.retry_after), LONGEST_REST)
            self._rest_until = self._clock() + rest
        times = f", {failures} times" if failures > 1 else ""
        return Failed(trouble.reason, f"{self.name} {trouble.problem}{times}")

    def _post(self, body: Mapping[str, Any], timeout: float, longest: float) -> bytes | Trouble:
        """Post once, in a thread that is left to itself if this is closed: closing a connection ends no read."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        ends = self._clock() + longest
        outcome: Future[bytes | Trouble] = Future()

        def work() -> None:
            try:
                outcome.set_result(self._receive(content, max(timeout, 0.001), ends))
            except BaseException as error:  # it is raised where the answer is waited for
                outcome.set_exception(error)

        Thread(target=work, name="cofio-endpoint", daemon=True).start()
        either: list[Future[Any]] = [outcome, self._close_signal]
        wait(either, return_when=FIRST_COMPLETED)
        if outcome.done():
            return outcome.result()
        return Trouble(reason="down", problem="was left unanswered: the program is ending", was_received=True)

    def _receive(self, content: bytes, timeout: float, ends: float) -> bytes | Trouble:
        import httpx2

        try:
            with closing(self._send(content, timeout)) as response:
                answer = bytearray()
                for chunk in response.iter_bytes():
                    answer += chunk
                    if self._clock() > ends:
                        raise httpx2.ReadTimeout("the answer never ended")
                    if len(answer) > self._policy.max_bytes:
                        break
                if response.is_success:
                    return bytes(answer)
                retry_after = _parse_retry_after(response.headers.get("Retry-After", ""))
                return _refuse(
                    response.status_code, answer.decode("utf-8", "replace").lower(), retry_after, self._names
                )
        except httpx2.TimeoutException:
            return Trouble(reason="slow", problem="did not answer in time", is_temporary=True, was_received=True)
        except httpx2.HTTPError as error:
            return Trouble(reason="down", problem=f"cannot be reached ({_explain(error)})", is_temporary=True)
        except ImportError:
            problem = "would be asked through a SOCKS proxy, which needs the package socksio"
        except (httpx2.InvalidURL, ValueError, OSError):  # whose words may quote an address with a password
            problem = "cannot be asked: its address, the proxy's, or what SSL_CERT_FILE names is no use"
        return Trouble(reason="refused", problem=problem)

    def _send(self, content: bytes, timeout: float) -> httpx2.Response:
        """Send a request; once more at once if an open connection was used that the endpoint was just closing."""
        import httpx2

        client = self._connect()
        events: list[str] = []
        traced = {"trace": lambda event, _: events.append(event)}
        request = client.build_request("POST", self._url, content=content, timeout=timeout, extensions=traced)
        try:
            return client.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError):
            if any(event.endswith("connect_tcp.complete") for event in events):
                raise
            return client.send(request, stream=True)

    def _connect(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(
                    headers=self._headers,
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # none is kept: it would tell who asks
                    follow_redirects=False,  # sent elsewhere, the key would go along
                    transport=httpx2.HTTPTransport(proxy=_find_proxy(self._url)),
                )
                weakref.finalize(self, self._client.close).atexit = False
            return self._client


def _find_proxy(url: str) -> str | None:
    """The proxy for this URL alone: httpx2 would set up every one that the environment names, used or not."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    exempt = [name.strip() for name in proxies.get("no", "").split(",")]
    if not proxy or "*" in exempt or proxy_bypass(parts.netloc) or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _explain(error: httpx2.HTTPError) -> str:
    import httpx2

    # Of these alone the words are the system's, as in "Connection refused"; others may quote a header.
    words = str(error) if isinstance(error, httpx2.NetworkError) else ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _refuse(status: int, complaint: str, retry_after: float, names: SettingNames) -> Trouble:
    problem = f"answered {status} {responses.get(status, '')}".rstrip()
    if status in _MISFIT:
        return Trouble(reason="refused", problem=problem, complaint=complaint)
    if status == 429 and "insufficient_quota" in complaint:
        return Trouble(reason="refused", problem=f"{problem}: the account has nothing left to spend")
    if status in (429, 503, 529):
        return Trouble(reason="busy", problem=problem, is_temporary=True, retry_after=retry_after)
    if status in _TEMPORARY or status >= 500:
        return Trouble(reason="down", problem=problem, is_temporary=True, retry_after=retry_after, complaint=complaint)
    hints = {401: f"is {names.key} right?", 403: f"is {names.key} right?", 404: f"are {names.url} and {names.model}?"}
    return Trouble(reason="refused", problem=f"{problem}: {hints[status]}" if status in hints else problem)


def _parse_retry_after(header: str) -> float:
    """How many seconds a Retry-After asks for."""
    try:
        return min(max(float(header), 0.0), 1e9)
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, TypeError):
        return 0.0
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
