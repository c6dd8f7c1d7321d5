"""A store and a checkpointer on PostgreSQL, over a memory like any other (the extra `postgresql`)."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

from ...config.installation import install_command
from ...config.settings import Settings
from ...engine.engine import Engine
from ...values.errors import Invalid
from ...values.records import check_int
from ..checkpointer import CheckpointerCapabilities
from ..cofio_store import CofioStore, StoreTransaction
from ..concurrency import in_thread
from ..durable import SPACE, CofioCheckpointer
from ..storage_backend import BackendCapabilities, StorageBackend
from ..store import SemanticSearchResult, StoreCapabilities
from .document_checkpointer import Clock

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from .checkpoint_table import CheckpointTable
except ImportError as error:
    raise ImportError(f"the backend postgresql needs its driver: {install_command('postgresql')}") from error

__all__ = ["PostgreSQLBackend", "PostgreSQLCheckpointer"]

_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,62}")
_PLAIN_HOST = re.compile(r"[\w.-]+", re.ASCII)
_FIRST_TABLE = ("public", "cofio_checkpoints")


class _OpenMemory(NamedTuple):
    """The memory, and the two views of it."""

    engine: Engine
    store: CofioStore
    checkpointer: CofioCheckpointer


class PostgreSQLBackend(StorageBackend):
    """Keeps items and checkpoints in a memory on PostgreSQL, the same that `cofio --store postgresql://…` opens.

    It is a BaseStore and a BaseCheckpointer, with all that CofioStore and CofioCheckpointer can do. The first call
    opens the memory. Checkpoints that an earlier version kept in a table of its own are then moved into it.

    Args:
        host: The server, when there is no `dsn`; likewise the next four.
        dsn: A URL or a connection string, in place of the others. `?schema=name` in a URL names the memory's schema.
        table_name: Threads of different tables, or schemas, are different threads. The names are those that the table
            of an earlier version had.
        schema_name: See `table_name`.
        ttl_seconds: How long what is saved or put lives; without it, for good.
        schema: The schema of the memory's tables, `cofio` unless it is named; others share nothing with it.
        settings: The memory's settings, in place of those that are configured.
        options: Any other parameter of a connection, such as `sslmode`.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 5432,
        database: str = "cofio",
        user: str = "postgres",
        password: str = "",
        dsn: str | None = None,
        *,
        table_name: str = _FIRST_TABLE[1],
        schema_name: str = _FIRST_TABLE[0],
        ttl_seconds: int | None = None,
        schema: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self.table_name = _check_identifier("table_name", table_name)
        self.schema_name = _check_identifier("schema_name", schema_name)
        if ttl_seconds is not None:
            check_int("ttl_seconds", ttl_seconds, 1, 2**31)
        self.ttl_seconds = ttl_seconds
        if dsn is None:
            options = {"host": host, "port": port, "dbname": database, "user": user, **options}
            options |= {"password": password} if password else {}
        plain, named = _split_schema(dsn)
        parameters = _parse_parameters(plain, options)
        if schema is not None and _check_identifier("schema", schema) != named and named:
            raise ValueError("schema: the dsn names another one")
        self._url = _build_url(parameters, schema or named) if options or schema or "://" not in plain else str(dsn)
        self._table = CheckpointTable(parameters, schema_name, table_name)
        self._settings = settings
        self._clock = clock
        self._memory: _OpenMemory | None = None
        self._lock = threading.Lock()  # held in threads alone

    @property
    def capabilities(self) -> BackendCapabilities:
        """Everything; vectors may be of any size."""
        store = StoreCapabilities(
            search=True, semantic_search=True, ttl=True, list_namespaces=True, batch_operations=True, transactions=True
        )
        return BackendCapabilities.combine(store, CheckpointerCapabilities.all_but())

    async def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value, in place of what the key held; the options are those of CofioStore.put."""
        await (await self._open_store()).put(namespace, key, value, metadata, ttl=ttl, if_version=if_version)

    async def put_with_embedding(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Any,
        embedding: list[float],
        metadata: dict[str, Any] | None = None,
        *,
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Store a value with a vector of any size, which stays until the next put."""
        store = await self._open_store()
        await store.put_with_embedding(namespace, key, value, embedding, metadata, ttl=ttl, if_version=if_version)

    async def search_by_embedding(
        self,
        namespace: tuple[str, ...],
        query_embedding: list[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[SemanticSearchResult]:
        """Items of the namespace whose vectors have the size of this one and are most like it, the most alike first."""
        store = await self._open_store()
        return await store.search_by_embedding(namespace, query_embedding, limit, threshold, metadata_filter)

    async def search_by_meaning(
        self, namespace: tuple[str, ...], query: str, limit: int = 10, threshold: float | None = None
    ) -> list[SemanticSearchResult]:
        """Items of the namespace that mean what the query does, by vectors that the memory makes itself."""
        return await (await self._open_store()).search_by_meaning(namespace, query, limit, threshold)

    async def get_embedding(self, namespace: tuple[str, ...], key: str) -> list[float] | None:
        """The vector that came with the item, as float32; None when there is none."""
        return await (await self._open_store()).get_embedding(namespace, key)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[StoreTransaction]:
        """Changes that are made together at the end of an `async with` block, or not at all if it raises."""
        async with (await self._open_store()).transaction() as changes:
            yield changes

    async def close(self) -> None:
        """Close the memory; the next call opens it again."""
        await in_thread(self._close)

    async def _open_store(self) -> CofioStore:
        return (await self._open_memory()).store

    async def _open_checkpointer(self) -> CofioCheckpointer:
        return (await self._open_memory()).checkpointer

    async def _open_memory(self) -> _OpenMemory:
        memory = self._memory
        if memory is not None:
            return memory
        return await in_thread(self._open)

    # In a thread.

    def _open(self) -> _OpenMemory:
        """Open the memory, unless another call has meanwhile."""
        with self._lock:
            if self._memory is None:
                space = SPACE
                if (self.schema_name, self.table_name) != _FIRST_TABLE:
                    space = f"{SPACE} {self.schema_name}.{self.table_name}"
                engine = Engine.open(self._url, settings=self._settings, clock=self._clock)
                try:
                    self._table.move_into(engine.checkpoints, space)
                except BaseException:
                    engine.close()
                    raise
                ttl = self.ttl_seconds
                self._memory = _OpenMemory(
                    engine, CofioStore(engine, ttl=ttl), CofioCheckpointer(engine, ttl=ttl, space=space)
                )
            return self._memory

    def _close(self) -> None:
        with self._lock:
            memory, self._memory = self._memory, None
        if memory is not None:
            memory.engine.close()

    def __repr__(self) -> str:
        return f"PostgreSQLBackend(table={self.schema_name}.{self.table_name})"


PostgreSQLCheckpointer = PostgreSQLBackend
"""The name that it had when it was a checkpointer only."""


def _check_identifier(field: str, name: str) -> str:
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"Invalid {field}: {name!r}. Must start with a letter or underscore and contain only "
            "alphanumeric characters and underscores (max 63 chars)."
        )
    return name


def _split_schema(dsn: str | None) -> tuple[str, str | None]:
    """A URL without the schema that it names, which is for us and not for the driver, and that schema."""
    if not isinstance(dsn, str) or "://" not in dsn:
        return dsn or "", None
    address, _, query = dsn.partition("?")
    parameters = [each for each in query.split("&") if each]
    schemas = [each.removeprefix("schema=") for each in parameters if each.startswith("schema=")]
    rest = "&".join(each for each in parameters if not each.startswith("schema="))
    return f"{address}?{rest}" if rest else address, schemas[-1] if schemas else None


def _parse_parameters(dsn: object, options: dict[str, Any]) -> dict[str, str]:
    """The parameters of the connection.

    Raises:
        ValueError: the dsn is none; it is not shown.
        Invalid: one of the options is none that a connection has.
    """
    if not isinstance(dsn, str) or _parse(dsn) is None:
        raise ValueError(
            "dsn: expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with / ? # and @ in a password "
            "percent-encoded, or host=… port=… dbname=… user=… password=…"
        )
    parsed = _parse(dsn, **options)
    if parsed is None:
        given = ", ".join(sorted(options))
        raise Invalid("options", f"PostgreSQL does not take one of them ({given}), or not its value")
    return parsed


def _parse(dsn: str, **options: Any) -> dict[str, str] | None:
    """The parameters of a connection; None if some are none, which the driver would tell with a part of a password."""
    try:
        found = conninfo_to_dict(make_conninfo(dsn, **options))
    except psycopg.ProgrammingError:
        return None
    ports = str(found.get("port", "")).split(",")
    if any(port and not (port.isascii() and port.isdigit()) for port in ports):
        return None
    return {name: str(value) for name, value in found.items() if value is not None}


def _build_url(parameters: dict[str, str], schema: str | None) -> str:
    """The address of the memory, as `--store` would have it."""
    rest = {**parameters, **({"schema": schema} if schema else {})}
    user, password, database = (quote(rest.pop(name, ""), safe="") for name in ("user", "password", "dbname"))
    place = ""
    if _PLAIN_HOST.fullmatch(rest.get("host", "")):
        place = rest.pop("host")
        port = rest.pop("port", "")
        place += f":{port}" if port else ""
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in rest.items())
    return f"postgresql://{login}{place}/{database}" + (f"?{query}" if query else "")
