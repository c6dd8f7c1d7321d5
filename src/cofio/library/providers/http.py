"""Checkpoints behind a server that speaks HTTP, such as `cofio serve`."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from uuid import uuid4

import httpx2

from ...values.errors import Invalid, Unavailable
from ...values.records import MAX_KEY, check_text
from ..checkpointer import BaseCheckpointer, CheckpointerCapabilities
from ..concurrency import in_thread
from ..events import CHECKPOINT_LOADED, CHECKPOINT_SAVED, emit
from .document_checkpointer import check_ids, check_limit, check_metadata, checkpoint_of, decode, encode, refuse_target

if TYPE_CHECKING:
    from ..state import AgentState

__all__ = ["HTTPCheckpointer"]

_ATTEMPTS = 5
_PAUSE = 2  # seconds that are waited for a server that is busy; one that asks for more is taken to be out of reach
_LISTED = 10_000  # what a server lists at once, at most


class HTTPCheckpointer(BaseCheckpointer):
    """Keeps checkpoints on a server.

    `POST`, `GET` and `DELETE` on `/threads/{thread}/checkpoints`, `GET` and `DELETE` on
    `/threads/{thread}/checkpoints/{checkpoint}`, and `GET /health`, below the base URL.

    Only an answer of 404 means that there is no such checkpoint. A server that cannot be reached, refuses or fails
    raises Unavailable: to take it for an empty one would start the agent from nothing, and save that over its past.

    Args:
        base_url: Where the server is, as in `http://127.0.0.1:8377`. A user and a password in it are sent as `auth`,
            and shown nowhere.
        headers: Sent with each request, as in `{"Authorization": "Bearer …"}`.
        auth: A user and a password, sent as basic authentication.
        timeout: The seconds after which a server that does not answer is given up.
    """

    def __init__(
        self,
        base_url: str,
        headers: dict[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.base_url, found = _address(base_url)
        self.headers = dict(headers or {})
        self.auth = found if auth is None else auth
        self.timeout = timeout
        self._open_client: httpx2.Client | None = None
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities(branching=True, persistent_checkpoint_ids=True)

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        document = checkpoint_of(state)
        check_ids(thread_id, None if checkpoint_id == "" else checkpoint_id)
        given = {} if metadata is None else metadata
        check_metadata(given)
        given = decode(encode(given))
        name = checkpoint_id or uuid4().hex
        saved = await in_thread(self._post, thread_id, name, document, given)
        emit(CHECKPOINT_SAVED, thread_id=thread_id, checkpoint_id=saved)
        return saved

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        from ..state import AgentState

        check_ids(thread_id, checkpoint_id)
        found = await in_thread(self._get, thread_id, checkpoint_id)
        if found is None:
            return None
        state = AgentState.from_checkpoint(_state(found))
        emit(CHECKPOINT_LOADED, thread_id=thread_id, checkpoint_id=found.get("checkpoint_id", checkpoint_id))
        return state

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """List the ids of a thread's checkpoints, newest first.

        Raises:
            Invalid: More than 10,000 were asked for, and there may be more than that, which no server lists at once.
        """
        check_ids(thread_id, None)
        check_limit(limit)
        return await in_thread(self._ids, thread_id, limit) if limit else []

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        check_ids(thread_id, checkpoint_id)
        answer = await in_thread(self._ask, "DELETE", _path(thread_id, checkpoint_id))
        return answer is not None

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        check_ids(thread_id, checkpoint_id)
        if checkpoint_id is None:
            return bool(await in_thread(self._ids, thread_id, 1))
        return await in_thread(self._get, thread_id, checkpoint_id) is not None

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread of less than 10,000 checkpoints, one by one: stopped half way, the copy ends there."""
        check_text("source_thread_id", source_thread_id, MAX_KEY, empty=False)
        check_text("dest_thread_id", dest_thread_id, MAX_KEY, empty=False)
        return await in_thread(self._copy, source_thread_id, dest_thread_id)

    async def health_check(self) -> bool:
        """Tell whether the server can be reached and is well; the one question that has no error for an answer."""
        try:
            return await in_thread(self._send, "GET", "/health") is not None
        except (Invalid, Unavailable):
            return False

    async def close(self) -> None:
        """Close the connections to the server; the next call opens new ones."""
        with self._lock:
            client, self._open_client = self._open_client, None
        if client is not None:
            client.close()

    async def __aenter__(self) -> Self:
        return self

    def _client(self) -> httpx2.Client:
        with self._lock:
            if self._open_client is None:
                # Following a redirect would carry the headers elsewhere.
                self._open_client = httpx2.Client(
                    headers=self.headers, auth=self.auth, timeout=self.timeout, follow_redirects=False
                )
            return self._open_client

    def _send(self, method: str, path: str, body: str | None = None) -> httpx2.Response | None:
        """Ask the server; None for what is not there."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        content = None if body is None else body.encode()
        try:
            answer = self._client().request(method, self.base_url + path, content=content, headers=headers)
            for _ in range(_ATTEMPTS - 1):
                if (pause := _parse_pause(answer)) is None:
                    break
                time.sleep(pause)  # it has too much to do, and has done nothing of this
                answer = self._client().request(method, self.base_url + path, content=content, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            problem = str(error) or type(error).__name__
            raise Unavailable(f"the checkpoints at {self.base_url} cannot be reached: {problem}") from error
        if answer.status_code == 404:
            return None
        if answer.status_code in (400, 413, 422):
            raise Invalid("checkpoint", f"refused by {self.base_url}: {_parse_error(answer)}")
        if not answer.is_success:
            raise Unavailable(
                f"{self.base_url} answered {answer.status_code} to {method} {path}: {_parse_error(answer)}"
            )
        return answer

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        """Get what the server answers, as JSON; None for what is not there."""
        answer = self._send(method, path, body)
        if answer is None:
            return None
        if not answer.content:
            return {}
        try:
            return answer.json()
        except ValueError:
            raise Unavailable(f"{self.base_url} answered something else than JSON to {method} {path}") from None

    def _post(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any]) -> str:
        payload = {
            "checkpoint_id": id,
            "thread_id": thread,
            "created_at": datetime.now(UTC).isoformat(),
            "state": state,
            "metadata": metadata,
        }
        answer = self._ask("POST", _path(thread), encode(payload))
        if answer is None:
            raise Unavailable(f"{self.base_url} keeps no checkpoints: it answered 404 to POST {_path(thread)}")
        given = answer.get("checkpoint_id", id) if isinstance(answer, dict) else id
        return given if isinstance(given, str) else id

    def _get(self, thread: str, id: str | None) -> Any:
        if id is not None:
            return self._ask("GET", _path(thread, id))
        for _ in range(_ATTEMPTS):
            newest = self._ids(thread, 1)
            if not newest:
                return None
            found = self._ask("GET", _path(thread, newest[0]))
            if found is not None:
                return found
            # It was removed between the two requests: ask again.
        raise Unavailable(f"{self.base_url} lists a checkpoint that it does not have: {newest[0]!r}")

    def _ids(self, thread: str, limit: int) -> list[str]:
        answer = self._ask("GET", f"{_path(thread)}?limit={min(limit, _LISTED)}")
        if isinstance(answer, dict):
            answer = answer.get("checkpoints", answer.get("data"))
        if answer is None:
            return []
        each = answer if isinstance(answer, list) else [None]
        named = [item.get("checkpoint_id") if isinstance(item, dict) else item for item in each]
        ids = [name for name in named if isinstance(name, str)]
        if len(ids) < len(named):
            raise Unavailable(f"{self.base_url} answered something else than a list of checkpoints")
        if len(ids) >= _LISTED < limit:
            raise Invalid("limit", f"the thread has {_LISTED:,} checkpoints or more; a server lists no more at once")
        return ids[:limit]

    def _copy(self, source: str, target: str) -> bool:
        if self._ids(target, 1):
            raise refuse_target(target)
        ids = self._ids(source, _LISTED)
        if len(ids) == _LISTED:  # perhaps not all of them
            raise Invalid("source_thread_id", f"has {_LISTED:,} checkpoints or more; a server lists no more at once")
        for name in reversed(ids):
            found = self._ask("GET", _path(source, name))
            if found is not None:
                self._post(target, name, _state(found), found.get("metadata") or {})
        return bool(ids)

    def __repr__(self) -> str:
        return f"HTTPCheckpointer(base_url={self.base_url!r})"


def _address(url: object) -> tuple[str, tuple[str, str] | None]:
    """Take the user and the password out of an address; raises ValueError, without showing it, for what is none."""
    problem = "base_url: expected http://HOST:PORT or https://…; in a password, write / ? # and @ percent-encoded"
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ValueError(problem)
    try:
        parts = urlsplit(url)
        reached = parts.hostname and (parts.port is None or parts.port)
    except ValueError:  # whose text has what it took for the port
        reached = None
    if not reached:
        raise ValueError(problem)
    userinfo, at, place = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    bare = urlunsplit(parts._replace(netloc=place)).rstrip("/")
    return bare, (unquote(user), unquote(password)) if at else None


def _path(thread: str, id: str | None = None) -> str:
    path = f"/threads/{_segment(thread)}/checkpoints"
    return path if id is None else f"{path}/{_segment(id)}"


def _segment(id: str) -> str:
    """Write an id as one part of a path; dots too, or `..` would mean the part above."""
    return quote(id, safe="").replace(".", "%2E")


def _state(found: object) -> dict[str, Any]:
    """Get the state of an answer: under its name, or the answer itself.

    What has no messages is no state; read as one, it would be that of an agent that has just begun.
    """
    state = found.get("state", found) if isinstance(found, dict) else None
    if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
        raise Unavailable("the server answered something else than a checkpoint")
    return state


def _parse_pause(answer: httpx2.Response) -> float | None:
    """Return the seconds after which a server that has too much to do wants to be asked again, if they are few."""
    seconds = answer.headers.get("Retry-After", "") if answer.status_code == 503 else ""
    return float(seconds) if seconds.isascii() and seconds.isdigit() and int(seconds) <= _PAUSE else None


def _parse_error(answer: httpx2.Response) -> str:
    return answer.text.strip()[:300] or answer.reason_phrase
