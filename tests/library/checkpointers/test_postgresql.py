"""Checkpoints in PostgreSQL: its table, its transactions, and how it is reached."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from cofio.library.providers.postgresql import PostgreSQLCheckpointer
from cofio.library.registry import get_checkpointer
from cofio.values.errors import Invalid, Unavailable

from ... import servers
from .conftest import Make
from .test_contract import said


@pytest.fixture
def server(address: Callable[[str], str]) -> str:
    """The URL of the server."""
    return address("postgresql")


def own() -> str:
    """A name for a table that nobody uses."""
    return "own" + uuid4().hex


@pytest.mark.requirement("postgresql.strings")
def test_it_is_reached_by_url_by_connection_string_by_name_and_by_keywords(server: str) -> None:
    parts, table = urlsplit(server), own()
    keywords: dict[str, Any] = {"host": parts.hostname, "port": parts.port, "user": "postgres", "table_name": table}
    ways = [
        get_checkpointer(server, table_name=table),
        get_checkpointer(f"postgresql:{server}", table_name=table),
        get_checkpointer(
            f"postgresql:host={parts.hostname} port={parts.port} user=postgres dbname=postgres", table_name=table
        ),
        get_checkpointer("postgresql:postgres", **keywords),
        get_checkpointer("postgresql", database="postgres", **keywords),
        get_checkpointer("postgresql", dsn=server, table_name=table),
    ]

    async def test() -> None:
        for number, checkpointer in enumerate(ways):
            async with checkpointer:
                await checkpointer.save(said("x"), "t", f"{number}")
                assert len(await checkpointer.list_checkpoints("t")) == number + 1

    asyncio.run(test())


@pytest.mark.requirement("postgresql.identifiers")
@pytest.mark.parametrize(
    "name", ["", "1a", "a-b", 'a"b', "a.b", "a b", "x" * 64, "a;DROP TABLE t", "ä", None, 7, "a\n"]
)
def test_names_that_are_no_identifiers_are_refused(name: Any) -> None:
    for field in ("table_name", "schema_name"):
        with pytest.raises(ValueError, match=f"^Invalid {field}: "):
            PostgreSQLCheckpointer(**{field: name})


@pytest.mark.requirement("postgresql.table")
def test_the_table_and_its_schema_are_made_once_however_many_ask(server: str) -> None:
    table, schema = "T" * 63, own()

    async def test() -> None:
        many = [PostgreSQLCheckpointer(dsn=server, table_name=table, schema_name=schema) for _ in range(6)]
        await asyncio.gather(*(each.save(said("x"), "t", f"{number}") for number, each in enumerate(many)))
        assert len(await many[0].list_checkpoints("t")) == 6
        for each in many:
            await each.close()

    asyncio.run(test())
    with psycopg.connect(server) as connection:
        row = connection.execute("SELECT count(*) FROM pg_indexes WHERE schemaname = %s", [schema]).fetchone()
    assert row == (4,)


@pytest.mark.requirement("postgresql.ttl")
def test_a_checkpoint_whose_time_is_over_is_gone(server: str) -> None:
    table = own()

    async def test() -> None:
        async with PostgreSQLCheckpointer(dsn=server, table_name=table, ttl_seconds=1000) as checkpointer:
            for name in ("a", "b"):
                await checkpointer.save(said(f"word {name}"), "t", name, {"at": name})
            with psycopg.connect(server) as connection:
                connection.execute(
                    f"UPDATE {table} SET expires_at = expires_at - interval '1000 seconds' WHERE checkpoint_id = 'b'"
                )
            assert await checkpointer.list_checkpoints("t") == ["a"]
            assert await checkpointer.load("t", "b") is None
            assert await checkpointer.delete("t", "b") is False
            assert await checkpointer.query_by_metadata("at", "b") == []
            assert len(await checkpointer.search("word")) == 1
            assert await checkpointer.vacuum() == 0
            with psycopg.connect(server) as connection:
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
            await checkpointer.save(said("again"), "t", "b")
            assert await checkpointer.list_checkpoints("t") == ["b", "a"]

    asyncio.run(test())
    with pytest.raises(Invalid, match="ttl_seconds"):
        PostgreSQLCheckpointer(ttl_seconds=0)


@pytest.mark.requirement("postgresql.exact")
def test_text_and_numbers_come_back_exactly(server: str) -> None:
    state = said("NUL \0 and \u2028", metadata={"big": 10**40, "float": 1e300, "minus": -0.0, "z": 1, "a": [1.0]})

    async def test() -> None:
        async with PostgreSQLCheckpointer(dsn=server, table_name=own()) as checkpointer:
            given = {"z": 1.0, "a": 1e300, "minus": -0.0}
            await checkpointer.save(state, "t", "c", given)
            loaded = await checkpointer.load("t")
            assert loaded == state
            assert loaded is not None
            assert repr(loaded.metadata) == repr(state.metadata)
            assert repr(await checkpointer.get_metadata("t")) == repr(given)
            assert len(await checkpointer.query_by_metadata("a", 1e300)) == 1

    asyncio.run(test())


@pytest.mark.requirement("checkpointers.search")
def test_search_finds_words_whose_case_the_server_does_not_know(make_of: Callable[[str], Make]) -> None:
    async def test() -> None:
        async with make_of("postgresql")() as checkpointer:
            await checkpointer.save(said("Die Straße nach ÖSTERREICH, 100% sicher"), "t", "c")
            for query in ("strasse", "STRASSE", "straße österreich", "100%", "sicher_", "Sicher"):
                found = len(await checkpointer.search(query))
                assert found == (0 if query == "sicher_" else 1), query
            assert await checkpointer.search("%") == await checkpointer.search("sic%xer") == []

    asyncio.run(test())


@pytest.mark.requirement("postgresql.connection")
def test_a_connection_that_was_lost_is_an_error_once_and_made_again(
    make_of: Callable[[str], Make], server: str
) -> None:
    async def test() -> None:
        async with make_of("postgresql")() as checkpointer:
            await checkpointer.save(said("x"), "t", "a")
            with psycopg.connect(server) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
            with pytest.raises(Unavailable, match=r"cannot be reached: .*; check host"):
                await checkpointer.save(said("x"), "t", "b")
            await checkpointer.save(said("x"), "t", "c")
            assert await checkpointer.list_checkpoints("t") == ["c", "a"]

    asyncio.run(test())


@pytest.mark.requirement("postgresql.down")
def test_a_server_that_is_not_there_is_an_error_and_not_an_empty_one() -> None:
    async def test() -> None:
        async with PostgreSQLCheckpointer("127.0.0.1", servers.free_port(), password="sesame") as checkpointer:
            for call in (checkpointer.load("t"), checkpointer.save(said("x"), "t"), checkpointer.list_checkpoints("t")):
                with pytest.raises(Unavailable, match="cannot be reached: Connection refused; check host") as told:
                    await call
                assert "sesame" not in "".join(traceback.format_exception(told.value)) + repr(checkpointer)

    asyncio.run(test())


@pytest.mark.requirement("postgresql.down")
def test_a_server_that_refuses_is_told_with_what_to_check(server: str) -> None:
    parts = urlsplit(server)

    async def test() -> None:
        nobody = f"postgresql://nobody:sesame@{parts.hostname}:{parts.port}/postgres"
        absent = f"postgresql://postgres:sesame@{parts.hostname}:{parts.port}/absent"
        for dsn in (nobody, absent):
            async with PostgreSQLCheckpointer(dsn=dsn) as checkpointer:
                with pytest.raises(Unavailable, match=r"cannot be reached: .*does not exist.*; check host") as told:
                    await checkpointer.load("t")
                assert "sesame" not in "".join(traceback.format_exception(told.value))
        async with PostgreSQLCheckpointer(dsn=server, table_name="pg_class", schema_name="pg_catalog") as checkpointer:
            with pytest.raises(Unavailable, match=r"column .* does not exist"):
                await checkpointer.load("t")
        async with PostgreSQLCheckpointer(dsn=server, sesame="open") as checkpointer:
            with pytest.raises(Invalid, match=r"^options: "):
                await checkpointer.load("t")

    asyncio.run(test())


@pytest.mark.requirement("postgresql.secrets")
@pytest.mark.parametrize(
    "dsn", ["sesame", "host=h password=open sesame", "postgresql://u:sesame%zz@h/db", "postgresql://u:sesame/1@h/db", 7]
)
def test_a_connection_string_that_is_none_is_refused_and_not_shown(dsn: Any) -> None:
    with pytest.raises(ValueError, match=r"^dsn: expected postgresql://") as told:
        PostgreSQLCheckpointer(dsn=dsn)
    assert "sesame" not in str(told.value)
    assert told.value.__suppress_context__ or told.value.__context__ is None


@pytest.mark.requirement("checkpointers.bad-input")
def test_metadata_that_the_table_cannot_hold_is_refused(server: str) -> None:
    async def test() -> None:
        async with PostgreSQLCheckpointer(dsn=server, table_name=own()) as checkpointer:
            with pytest.raises(Invalid, match=r"PostgreSQL cannot hold it|metadata"):
                await checkpointer.save(said("x"), "t", "c", {"text": "NUL \0"})
            assert await checkpointer.list_checkpoints("t") == []

    asyncio.run(test())
