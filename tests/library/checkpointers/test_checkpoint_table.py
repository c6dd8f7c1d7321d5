"""What an earlier version kept in its own table is in the memory after the upgrade: whole, once, and in order."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from cofio.library.providers.postgresql import PostgreSQLBackend
from cofio.values.errors import Unavailable

from ...waiting import wait_until
from ..conftest import QUIET
from .test_contract import said

pytestmark = pytest.mark.anyio

# As earlier versions made it.
OLD_TABLE: LiteralString = """
CREATE TABLE {table} (
    thread_key bytea NOT NULL,
    checkpoint_key bytea NOT NULL,
    thread_id text NOT NULL,
    checkpoint_id text NOT NULL,
    turn bigint GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    state text NOT NULL,
    metadata json NOT NULL,
    PRIMARY KEY (thread_key, checkpoint_key)
);
CREATE UNIQUE INDEX ON {table} (turn);
CREATE INDEX ON {table} (thread_key, turn DESC);
CREATE INDEX ON {table} USING gin ((metadata::jsonb) jsonb_path_ops);
"""
THEN = datetime(2025, 6, 1, 12, 30, 0, 123456, tzinfo=UTC)


class OldTable:
    """A table as an earlier version left it."""

    def __init__(self, server: str, schema: str = "public", table: str | None = None) -> None:
        self.server = server
        self.schema = schema
        self.table = table or "own" + uuid4().hex
        self.name = sql.Identifier(schema, self.table)
        self.run(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        self.make()

    def make(self) -> None:
        """Make the table."""
        self.run(sql.SQL(OLD_TABLE).format(table=self.name))

    def run(self, statement: sql.Composed, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement; its rows."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def add(self, thread: str, id: str, text: str, at: datetime = THEN, ttl: timedelta | None = None) -> None:
        """Add a checkpoint in which this was said."""
        keys = [hashlib.sha256(each.encode()).digest() for each in (thread, id)]
        state = json.dumps(said(text).to_checkpoint(), ensure_ascii=False)
        expires_at = None if ttl is None else datetime.now(UTC) + ttl
        self.run(
            sql.SQL(
                "INSERT INTO {} (thread_key, checkpoint_key, thread_id, checkpoint_id, created_at, expires_at, state,"
                " metadata) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
            ).format(self.name),
            [*keys, thread, id, at, expires_at, state, json.dumps({"said": text})],
        )

    def fill(self, thread: str, many: int) -> None:
        """Add many checkpoints."""
        self.run(
            sql.SQL(
                "INSERT INTO {} (thread_key, checkpoint_key, thread_id, checkpoint_id, created_at, state, metadata)"
                " SELECT sha256(convert_to(%s, 'UTF8')), sha256(convert_to(n::text, 'UTF8')), %s, n::text,"
                " now() - interval '1 day' + n * interval '1 second', %s, '{{}}' FROM generate_series(1, %s) n"
            ).format(self.name),
            [thread, thread, json.dumps(said("x" * 500).to_checkpoint()), many],
        )

    def list_tables(self) -> list[str]:
        """The tables of that name, and what they are called now."""
        found = self.run(
            sql.SQL("SELECT tablename FROM pg_tables WHERE schemaname = {} AND starts_with(tablename, {})").format(
                self.schema, self.table[:50]
            )
        )
        return sorted(name for (name,) in found)

    def open(self, **more: Any) -> PostgreSQLBackend:
        """A backend with the settings that the table had."""
        names: dict[str, Any] = {"table_name": self.table, "schema_name": self.schema}
        return PostgreSQLBackend(dsn=self.server, schema="library", settings=QUIET, **names, **more)


@pytest.fixture
def server(address: Callable[[str], str], process: None) -> str:
    """The URL of the server."""
    return address("postgresql")


@pytest.mark.requirement("postgresql.migration")
async def test_what_an_earlier_version_saved_is_found_and_moved_once(server: str) -> None:
    old = OldTable(server)
    old.add("t", "b", "first")
    old.add("u", "x", "other", THEN + timedelta(days=1))
    old.add("t", "a", "second ü 東京", THEN + timedelta(days=2), ttl=timedelta(days=30))
    old.add("t", "gone", "expired", ttl=timedelta(seconds=-1))
    async with old.open() as backend:
        assert await backend.list_checkpoints("t") == ["a", "b"]
        assert await backend.list_threads() == ["t", "u"]
        loaded = await backend.load("t")
        assert loaded is not None
        assert loaded.messages[0].content == "second ü 東京"
        assert await backend.get_metadata("t", "b") == {"said": "first"}
        newest, middle, oldest = await backend.list_with_metadata()
        assert [datetime.fromisoformat(each["created_at"]) for each in (newest, middle, oldest)] == [
            THEN + timedelta(days=2), THEN + timedelta(days=1), THEN,
        ]  # fmt: skip
        left = datetime.fromisoformat(newest["expires_at"]) - datetime.now(UTC)
        assert timedelta(days=29) < left <= timedelta(days=30)
        assert len(await backend.search("second")) == 1
        await backend.save(said("third"), "t", "c")
        assert await backend.list_checkpoints("t") == ["c", "a", "b"]
        assert await backend.delete("u") is True
    assert old.list_tables() == [f"{old.table}_moved"]
    async with old.open() as backend:
        assert await backend.list_checkpoints("t") == ["c", "a", "b"]
        assert await backend.exists("u") is False
        assert await backend.vacuum(100) == 2


@pytest.mark.requirement("postgresql.migration")
async def test_threads_of_different_tables_stay_apart(server: str) -> None:
    tables = [OldTable(server), OldTable(server, "App" + uuid4().hex), OldTable(server, table="T" * 30 + uuid4().hex)]
    tables.append(OldTable(server, tables[1].schema, tables[0].table))
    for number, old in enumerate(tables):
        old.add("t", "c", f"{number}")
    for number, old in enumerate(tables):
        async with old.open() as backend:
            assert await backend.list_with_metadata() == [
                {
                    "thread_id": "t", "checkpoint_id": "c", "created_at": THEN.isoformat(),
                    "metadata": {"said": f"{number}"},
                }
            ]  # fmt: skip
    assert len(tables[2].list_tables()[0]) <= 63


@pytest.mark.requirement("postgresql.migration")
async def test_a_move_that_is_killed_loses_nothing_and_is_gone_on_with_by_several_at_once(server: str) -> None:
    old, many = OldTable(server), 400
    old.fill("t", many)
    program = (
        "import asyncio, sys\n"
        "from cofio import Settings\n"
        "from cofio.library.backends import PostgreSQLBackend\n"
        "backend = PostgreSQLBackend(dsn=sys.argv[1], schema='library', table_name=sys.argv[2],"
        " settings=Settings(background=False, embedder='none'))\n"
        "asyncio.run(backend.load('t'))\n"
    )
    counted = sql.SQL(
        "SELECT c.id FROM library.checkpoint c JOIN library.thread t ON t.no = c.thread WHERE t.space = {}"
    ).format(f"library public.{old.table}")
    async with PostgreSQLBackend(dsn=server, schema="library", settings=QUIET) as backend:
        await backend.exists("t")  # which makes the tables
    with subprocess.Popen([sys.executable, "-c", program, server, old.table]) as moving:
        wait_until(lambda: old.run(counted) or moving.poll() is not None)
        moving.send_signal(signal.SIGKILL)
    assert old.run(counted)
    backends = [old.open() for _ in range(3)]
    found = await asyncio.gather(*(each.list_checkpoints("t", limit=many * 2) for each in backends))
    for each in backends:
        await each.close()
    assert found == [[str(number) for number in range(many, 0, -1)]] * 3
    assert old.list_tables() == [f"{old.table}_moved"]


@pytest.mark.requirement("postgresql.migration")
async def test_what_an_earlier_version_saves_after_the_move_is_moved_too_and_the_newer_counts(server: str) -> None:
    old = OldTable(server)
    old.add("t", "a", "old")
    async with old.open() as backend:
        await backend.save(said("new"), "t", "b")
    old.make()  # as a program of the earlier version does that is started again
    later = datetime.now(UTC) + timedelta(hours=1)
    for name, text, at in (("a", "newer", later), ("b", "older", THEN), ("c", "only there", THEN)):
        old.add("t", name, text, at)
    async with old.open() as backend:
        assert {each: await backend.get_metadata("t", each) for each in "abc"} == {
            "a": {"said": "newer"}, "b": {}, "c": {"said": "only there"},
        }  # fmt: skip
    assert old.list_tables() == [f"{old.table}_moved", f"{old.table}_moved_2"]


@pytest.mark.requirement("postgresql.migration")
async def test_a_table_that_is_not_ours_is_left_alone(server: str) -> None:
    old = OldTable(server)
    old.run(sql.SQL("ALTER TABLE {} ADD COLUMN another text").format(old.name))
    old.add("t", "c", "x")
    async with old.open() as backend:
        assert await backend.load("t") is None
    assert old.list_tables() == [old.table]


@pytest.mark.requirement("postgresql.migration")
async def test_a_table_of_another_user_is_told_with_the_statement_to_run(server: str) -> None:
    old, user, schema = OldTable(server), "u" + uuid4().hex, "s" + uuid4().hex
    old.add("t", "c", "x")
    for statement in ("CREATE ROLE {0} LOGIN", "CREATE SCHEMA {1} AUTHORIZATION {0}", "GRANT ALL ON {2} TO {0}"):
        old.run(sql.SQL(statement).format(sql.Identifier(user), sql.Identifier(schema), old.name))
    dsn = old.server.replace("postgres@", f"{user}@")
    async with PostgreSQLBackend(dsn=dsn, schema=schema, settings=QUIET, table_name=old.table) as backend:
        with pytest.raises(Unavailable, match="as a superuser run: ") as told:
            await backend.load("t")
        statements = str(told.value).partition("as a superuser run: ")[2].split("; ")
        assert statements == [
            f'ALTER TABLE "public"."{old.table}" OWNER TO "{user}"', f'GRANT CREATE ON SCHEMA "public" TO "{user}"',
        ]  # fmt: skip
        for statement in statements:
            old.run(sql.Composed([sql.SQL(statement)]))
        assert await backend.list_checkpoints("t") == ["c"]
