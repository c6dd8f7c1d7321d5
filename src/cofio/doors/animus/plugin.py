"""The plugin's process: one host, one project, on stdin and stdout."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...secrets.policy import admit
from ...text.display import neutralise_line
from ...values.errors import CofioError, Invalid, NotFound, Unavailable
from ...values.records import Draft, Json, Kind, encode_json
from ..jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, Connection, Id, Lane, Params, RpcError, claim_stdout, shut_down
from . import owners
from .owners import Collision, Owner
from .params import make_error, make_invalid, read_owner, read_page, read_root, read_text, read_ttl
from .project_store import ProjectStore
from .protocol import MAX_TOP_K, MEMORY_METHODS, NAME, NOT_INITIALIZED, PROTOCOL, describe_plugin, find_code

if TYPE_CHECKING:
    from datetime import datetime

    from ...engine.engine import Engine
    from ...values.query import Mode, Page

PAGE_SIZE, MAX_PAGE_SIZE = 100, 500
FEW = 128  # records that are embedded on the way to a search by meaning: half a second's work
LARGEST_ANSWER = 7 * 1024 * 1024  # bytes of keys and values; the host gives up on a frame of 8 MiB
DRAIN = 30.0  # seconds that calls which were read have to end after EOF; the host gives up by then

_WRITES = ("memory/put", "memory/delete_scope", "shutdown")  # a shutdown ends after what was asked for before it
_MODES = ("keyword", "hybrid", "semantic")
_WRONG = {"data": "put.value", "key": "key", "query": "query.query", "scope": "scope"}


class Server:
    """Answers one host."""

    allows_batches = False

    def __init__(
        self, *, codes: str = "seed", store: str | None = None, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._codes = codes
        self._store = store
        self._clock = clock
        self._root: str | None = None
        self._started_at = time.monotonic()
        self._last_error: str | None = None
        self._has_model = False
        """Whether a query has loaded the model already."""
        self.project: ProjectStore | None = None
        self.has_exited = False
        """Whether the host has sent `exit`."""
        self._methods: dict[str, Callable[[Params], dict[str, Json]]] = {
            "initialize": self._initialize,
            "$/ping": lambda _: {},
            "health/check": lambda _: self._describe_health(),
            "shutdown": lambda _: {},
            "exit": lambda _: self._exit(),
        }
        self._memory: dict[str, Callable[[ProjectStore, Params], dict[str, Json]]] = {
            "memory/put": self._put,
            "memory/get": self._get,
            "memory/query": self._query,
            "memory/list_scopes": self._list_scopes,
            "memory/delete_scope": self._delete_scope,
        }

    def choose_lane(self, method: str, params: Params) -> Lane:
        """How a request is run: what needs the memory, beside the reader."""
        if method in _WRITES:
            return Lane.WRITE
        return Lane.READ if method in MEMORY_METHODS else Lane.INLINE

    def receive_notification(self, method: str, params: Params) -> Id | None:
        """Take note of `exit`; all else may be ignored, and cancelling is not offered."""
        if method == "exit":
            self.has_exited = True
        return None

    def run_request(self, method: str, params: Params) -> Json:
        """The result of a request.

        Raises:
            RpcError: it is answered with an error.
        """
        if method in self._methods:
            return self._methods[method](params)
        if method not in self._memory:
            raise make_error(METHOD_NOT_FOUND, "method_not_found", f"method '{method}' not supported")
        if self.project is None:
            early = f"{method} was called before initialize"
            if self._codes == "crate":
                raise make_error(NOT_INITIALIZED, "plugin_not_initialized", early)
            raise self._make_fault("PROJECT_BINDING_MISMATCH", early)
        try:
            result = self._memory[method](self.project, params)
        except Collision as error:
            raise self._make_fault("MEMORY_SCOPE_COLLISION", str(error), scope_id=error.scope_id) from None
        except Invalid as error:
            raise make_invalid(f"{_WRONG.get(error.field, error.field)}: {error.problem}") from None
        except CofioError as error:
            self._last_error = str(error)
            raise self._make_fault("BACKEND_UNAVAILABLE", str(error)) from None
        self._last_error = None
        return result

    def _make_fault(self, error: str, message: str, **data: Json) -> RpcError:
        return make_error(find_code(error, self._codes), error.lower(), message, **data)

    def _initialize(self, params: Params) -> dict[str, Json]:
        version = params.get("protocol_version")
        if not isinstance(version, str) or not version:
            raise make_error(INVALID_REQUEST, "invalid_request", "host did not advertise a protocol_version")
        if version.split(".")[0] != PROTOCOL.split(".")[0]:
            message = f"incompatible protocol version: host={version}, plugin={PROTOCOL}"
            raise make_error(INVALID_REQUEST, "invalid_request", message)
        root = read_root(params)
        if self._root is None or self.project is None:
            self._root = root or str(Path.cwd())
            self.project = ProjectStore(os.path.realpath(self._root), self._store, clock=self._clock)
        elif root is not None and os.path.realpath(root) != os.path.realpath(self._root):
            message = f"plugin already bound to project_root='{self._root}', cannot rebind to '{root}'"
            raise self._make_fault("PROJECT_BINDING_MISMATCH", message)
        return describe_plugin()

    def _describe_health(self) -> dict[str, Json]:
        from ...system.processes import measure_peak_memory

        return {
            "status": "healthy" if self._last_error is None else "degraded",
            "uptime_ms": int((time.monotonic() - self._started_at) * 1000),
            "memory_usage_bytes": measure_peak_memory(),
            "last_error": self._last_error,
        }

    def _exit(self) -> dict[str, Json]:
        self.has_exited = True
        return {}

    def _put(self, store: ProjectStore, params: Params) -> dict[str, Json]:
        key = read_text(params, "put", "key")
        owner, ttl = read_owner(params), read_ttl(params)
        if "value" not in params:
            raise make_invalid("put.value is required; it may be null")
        engine = store.engine(make=True)
        assert engine is not None
        admit("animus", {"key": key, "data": {key: params["value"]}}, allow=engine.settings.allow_secrets)
        if owners.find_entry(engine, owner) is None:
            Draft(scope=owner.scope, kind=Kind.ITEM, key=key, data=params["value"])  # what is refused makes no scope
            owners.claim(engine, owner)
        record = engine.put(owner.scope, key, data=params["value"], kind=Kind.ITEM, source=owners.SOURCE, ttl=ttl)
        try:
            owners.claim(engine, owner)  # it may have been deleted in between
        except Collision:  # and the id taken by another scope
            with suppress(NotFound):
                engine.delete(record.id)
            raise
        return {"ack": True, "indexed_immediately": True, "record_id": record.id}

    def _get(self, store: ProjectStore, params: Params) -> dict[str, Json]:
        key = read_text(params, "get", "key")
        owner = read_owner(params)
        engine = store.engine()
        if engine is None:
            return {"found": False}
        owners.find_entry(engine, owner)
        record = engine.get(owner.scope, key, kind=Kind.ITEM)
        return {"found": False} if record is None else {"found": True, "value": record.data}

    def _query(self, store: ProjectStore, params: Params) -> dict[str, Json]:
        text, top_k, mode = read_text(params, "query", "query"), params.get("top_k"), params.get("mode")
        if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k <= 0:
            raise make_invalid("query.top_k must be a positive integer")
        if mode is not None and mode not in _MODES:
            raise make_invalid(f"query.mode must be one of {', '.join(_MODES)}")
        owner = read_owner(params)
        if top_k > MAX_TOP_K:
            message = f"query.top_k={top_k} exceeds backend max {MAX_TOP_K}"
            raise self._make_fault("QUERY_TOP_K_EXCEEDED", message, max_query_top_k=MAX_TOP_K)
        engine = store.engine()
        if engine is None:
            return {"results": []}
        entry = owners.find_entry(engine, owner)
        # A model takes longer to load than all else together: it is not for a process that answers one query.
        search_mode = cast("Mode", mode or ("hybrid" if self._has_model else "keyword"))
        page = _search(engine, owner, text, top_k, search_mode)
        self._has_model |= bool(page.searched.semantic)
        if entry is None and not page:
            return {"results": []}
        results, degraded = _render_hits(page), page.degraded
        if len(results) < len(page):
            note = f"{len(page) - len(results)} more were found, which do not fit into one answer"
            degraded = f"{degraded}; {note}" if degraded else note
        return {"results": results, "metadata": {"mode": search_mode, "degraded": degraded}}

    def _list_scopes(self, store: ProjectStore, params: Params) -> dict[str, Json]:
        project, size = params.get("project_id"), params.get("page_size")
        if not isinstance(project, str | None):
            raise make_invalid("list_scopes.project_id must be a string or null")
        if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
            size = PAGE_SIZE
        size, page = min(size, MAX_PAGE_SIZE), read_page(params.get("cursor"))
        engine = store.engine()
        if engine is None:
            return {"scopes": []}
        first = (page - 1) * size
        scopes: list[Json] = list(islice(owners.list_owners(engine, project), first, first + size + 1))
        result: dict[str, Json] = {"scopes": scopes[:size]}
        return result | ({"next_cursor": str(page + 1)} if len(scopes) > size else {})

    def _delete_scope(self, store: ProjectStore, params: Params) -> dict[str, Json]:
        owner = read_owner(params)
        engine = store.engine()
        if engine is not None:
            owners.delete(engine, owner)
        return {"ack": True}


def _search(engine: Engine, owner: Owner, text: str, top_k: int, mode: Mode) -> Page:
    from ...values.query import Query

    query = Query(text, scope=owner.scope, exact=True, kinds=(Kind.ITEM,), mode=mode, limit=top_k)
    if mode != "keyword":
        with suppress(Unavailable):  # the search finds out, too, and says so
            engine.settle(limit=FEW)
    return engine.search(query)


def _render_hits(page: Page) -> list[Json]:
    """The best hits, as many as the host can read in one answer; the first in any case."""
    results: list[Json] = []
    left = LARGEST_ANSWER
    for hit in page:
        left -= len(encode_json(hit.record.data).encode()) + len((hit.record.key or "").encode())
        if left < 0 and results:
            break
        results.append({"key": hit.record.key or "", "value": hit.record.data, "score": hit.score})
    return results


def run(*, codes: str, store: str | None = None) -> int:
    """Serve the host on stdin and stdout until it says `exit` or closes its end; the exit code."""
    reads, writes = sys.stdin.buffer, claim_stdout()
    server = Server(codes=codes, store=store)
    left = Connection(
        server, reads, writes, on_malformed=_say, is_finished=lambda: server.has_exited, grace=DRAIN
    ).run()
    if left:
        _say(f"the host has gone, and {left} of its calls with it")

    def close() -> None:
        if server.project is not None:
            server.project.close()

    return shut_down(writes, close, left)


def _say(line: str) -> None:
    with suppress(OSError):  # nothing reads stderr
        print(f"{NAME}: {neutralise_line(line)}", file=sys.stderr, flush=True)
