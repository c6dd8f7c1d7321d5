"""Checkpoints in PostgreSQL: how the memory is reached, what fails, and that it is a memory like any other."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from cofio import Engine
from cofio.library.durable import CofioCheckpointer
from cofio.library.providers.postgresql import PostgreSQLBackend
from cofio.library.registry import get_checkpointer
from cofio.values.errors import Invalid, Unavailable

from ... import servers
from ..conftest import QUIET
from .conftest import Make
from .test_contract import said

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]


@pytest.fixture
def server(address: Callable[[str], str]) -> str:
    """The URL of the server."""
    return address("postgresql")


@pytest.mark.requirement("postgresql.strings")
async def test_it_is_reached_by_url_by_connection_string_by_name_and_by_keywords(server: str) -> None:
    parts = urlsplit(server)
    same: dict[str, Any] = {"table_name": "own" + uuid4().hex, "settings": QUIET}
    keywords: dict[str, Any] = {"host": parts.hostname, "port": parts.port, "user": "postgres", "schema": "library"}
    plain = f"host={parts.hostname} port={parts.port} user=postgres dbname=postgres"
    ways = [
        get_checkpointer(server, schema="library", **same),
        get_checkpointer(f"postgresql:{server}?schema=library", **same),
        get_checkpointer(f"postgresql:{plain}", schema="library", **same),
        get_checkpointer("postgresql:postgres", **keywords, **same),
        get_checkpointer("postgresql", database="postgres", connect_timeout=5, **keywords, **same),
        get_checkpointer("postgresql", dsn=f"{server}?schema=library&connect_timeout=5", **same),
        get_checkpointer("postgresql", dsn=f"{server}?schema=library", schema="library", sslmode="disable", **same),
    ]
    for number, checkpointer in enumerate(ways):
        async with checkpointer:
            await checkpointer.save(said("x"), "t", f"{number}")
            assert len(await checkpointer.list_checkpoints("t")) == number + 1


@pytest.mark.requirement("postgresql.engine")
async def test_it_is_the_memory_that_every_other_door_opens(server: str) -> None:
    url, thread = f"{server}?schema=library", uuid4().hex
    async with PostgreSQLBackend(dsn=url, settings=QUIET) as backend:
        await backend.save(said("hello"), thread, "c", {"a": 1})
        await backend.put(("people",), thread, {"name": "Ada"})
        with Engine.open(url, settings=QUIET) as engine:
            assert await CofioCheckpointer(engine).get_metadata(thread) == {"a": 1}
            await CofioCheckpointer(engine).save(said("hello", "again"), thread, "d")
            assert [hit.record.key for hit in engine.search(thread)] == [thread]
        assert await backend.list_checkpoints(thread) == ["d", "c"]
        await backend.delete(("people",), thread)


@pytest.mark.requirement("postgresql.identifiers", "checkpointers.bad-input")
def test_names_that_are_no_identifiers_and_options_that_no_connection_has_are_refused() -> None:
    name: Any
    for name in ("", "1a", "a-b", 'a"b', "a.b", "a b", "x" * 64, "a;DROP TABLE t", "ä", None, 7, "a\n"):
        for field in ("table_name", "schema_name", "schema"):
            if (field, name) != ("schema", None):
                with pytest.raises(ValueError, match=f"^Invalid {field}: "):
                    PostgreSQLBackend(**{field: name})
    with pytest.raises(Invalid, match=r"^options: .*\(dbname, host, max_pool_size, port, user\)"):
        PostgreSQLBackend(max_pool_size=10)
    with pytest.raises(Invalid, match=r"^options: "):
        PostgreSQLBackend(port="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the dsn names another"):
        PostgreSQLBackend(dsn="postgresql://h/db?schema=one", schema="other")


@pytest.mark.requirement("postgresql.ttl")
async def test_what_has_a_time_to_live_is_gone_after_it(
    server: str, clock: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    keywords: dict[str, Any] = {"schema": "library_ttl", "settings": QUIET, "clock": clock}
    async with PostgreSQLBackend(dsn=server, ttl_seconds=1000, **keywords) as mortal:
        await mortal.save(said("word a"), "t", "a")
        await mortal.put(("ttl",), "k", 1)
        await mortal.put(("ttl",), "longer", 1, ttl=2000)
        advance(1001)
        assert await mortal.list_checkpoints("t") == []
        assert await mortal.load("t", "a") is None
        assert await mortal.list_keys(("ttl",)) == ["longer"]
    with pytest.raises(Invalid, match="ttl_seconds"):
        PostgreSQLBackend(ttl_seconds=0)


@pytest.mark.requirement("postgresql.exact", "postgresql.connection")
async def test_text_and_numbers_come_back_exactly_and_a_lost_connection_is_made_again(
    make_of: Callable[[str], Make], server: str
) -> None:
    state = said("NUL \0 and \u2028", metadata={"big": 10**40, "float": 1e300, "minus": -0.0, "z": 1, "a": [1.0]})
    given = {"z": 1.0, "a": 1e300, "minus": -0.0}
    async with make_of("postgresql")() as checkpointer:
        await checkpointer.save(state, "t", "a", given)
        with psycopg.connect(server) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        loaded = await checkpointer.load("t")
        assert loaded == state
        assert loaded is not None
        assert repr(loaded.metadata) == repr(state.metadata)
        assert repr(await checkpointer.get_metadata("t")) == repr(given)
        await checkpointer.save(said("x"), "t", "b")
        assert await checkpointer.list_checkpoints("t") == ["b", "a"]


@pytest.mark.requirement("postgresql.down")
async def test_a_server_that_is_away_or_refuses_is_an_error_that_shows_no_password(server: str) -> None:
    place = urlsplit(server).netloc.rpartition("@")[2]
    for backend, match in (
        (PostgreSQLBackend("127.0.0.1", servers.free_port(), password="sesame"), "refused"),
        (PostgreSQLBackend(dsn=f"postgresql://nobody:sesame@{place}/postgres"), "does not exist"),
        (PostgreSQLBackend(dsn=f"postgresql://postgres:sesame@{place}/absent"), "does not exist"),
    ):
        async with backend:
            for call in (backend.load("t"), backend.put(("a",), "k", 1), backend.list_checkpoints("t")):
                with pytest.raises(Unavailable, match=match) as told:
                    await call
                assert "sesame" not in "".join(traceback.format_exception(told.value)) + repr(backend)


@pytest.mark.requirement("postgresql.secrets")
@pytest.mark.parametrize(
    "dsn", ["sesame", "host=h password=open sesame", "postgresql://u:sesame%zz@h/db", "postgresql://u:sesame/1@h/db", 7]
)
def test_a_connection_string_that_is_none_is_refused_and_not_shown(dsn: Any) -> None:
    with pytest.raises(ValueError, match=r"^dsn: expected postgresql://") as told:
        PostgreSQLBackend(dsn=dsn)
    assert "sesame" not in str(told.value)
    assert told.value.__suppress_context__ or told.value.__context__ is None


@pytest.mark.requirement("postgresql.strings")
def test_what_is_in_a_password_or_a_host_does_not_change_the_address() -> None:
    odd = PostgreSQLBackend("/var/run/a b", 5433, "my db", "me@home", "p:/?#&=%@ü", sslmode="prefer")
    assert odd._url == (
        "postgresql://me%40home:p%3A%2F%3F%23%26%3D%25%40%C3%BC@/my%20db"
        "?host=%2Fvar%2Frun%2Fa%20b&port=5433&sslmode=prefer"
    )
    assert PostgreSQLBackend(schema="x")._url == "postgresql://postgres@localhost:5432/cofio?schema=x"
    assert PostgreSQLBackend(dsn="postgres://me@h/db?schema=x")._url == "postgres://me@h/db?schema=x"
