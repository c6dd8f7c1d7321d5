"""What an operator has set for the role that cofio uses: it works all the same, or says what is in its way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from cofio import Engine, Query, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .. import postgres

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")
ROLE = "operated"


@pytest.fixture
def role(tmp_path: Path) -> Iterator[StoreAddress]:
    """The address of a store, for a role that may do no more than cofio needs."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {ROLE}".encode())
        admin.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
        admin.execute(f"CREATE SCHEMA {postgres.name_schema(tmp_path)} AUTHORIZATION {ROLE}".encode())
    address = postgres.log_in(postgres.make_address(tmp_path), ROLE)
    yield address
    postgres.remove(address)
    set_for_role("RESET ALL")
    with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
        admin.execute(f"DROP ROLE {ROLE}".encode())


def set_for_role(what: str) -> None:
    """Change what holds for new sessions of the role."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {ROLE} {what}".encode())


@pytest.mark.parametrize(
    "chosen",
    [
        [
            "timezone = 'Asia/Kathmandu'", "datestyle = 'German'", "standard_conforming_strings = off",
            "bytea_output = 'escape'", "search_path = ''", "default_transaction_isolation = 'serializable'",
            "client_encoding = 'LATIN1'", "jit = on", "jit_above_cost = 0", "statement_timeout = '60s'",
        ],
        [
            "timezone = '<+03>-03'", "intervalstyle = 'sql_standard'", "search_path = 'nowhere'",
            "default_transaction_isolation = 'repeatable read'", "default_transaction_deferrable = on",
            "extra_float_digits = 0", "enable_seqscan = off", "plan_cache_mode = 'force_generic_plan'",
            "idle_session_timeout = '50ms'", "synchronous_commit = off", "row_security = off",
        ],
    ],
    ids=["strict", "odd"],
)  # fmt: skip
def test_what_is_set_for_the_role_changes_nothing(role: StoreAddress, chosen: list[str]) -> None:
    for setting in chosen:
        set_for_role(f"SET {setting}")
    with Engine.open(role, settings=QUIET, embedder=HashedEmbedder()) as engine:
        record = engine.write(HERE, text="walrus \\'наука\\' 海象 ☃", tags=["Straße"], data={"a\\b": "c'd", "n": 0.1})
        brief = engine.put(HERE, "brief", text="mayfly", ttl=60.0)
        engine.settle()
        assert engine.read(record.id) == record
        assert engine.get(HERE, "brief") == brief
        for mode in ("keyword", "semantic", "hybrid"):
            assert record.id in {hit.record.id for hit in engine.search(Query("walrus 海象", mode=mode, floor=0.0))}
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: engine.put(HERE, "shared", data=number), range(20)))
        shared = engine.get(HERE, "shared")
        assert shared is not None
        assert shared.version == 20
        engine.checkpoints.save("space", "thread", "one", {"text": "\\x00 \\海"})
        assert engine.checkpoints.load("space", "thread", "one") is not None
        assert abs(engine.expiry(1.0) - datetime.now(UTC)) < timedelta(hours=1)
        assert len(list(engine.export())) == 3
        assert engine.check() == []


def test_a_role_that_only_reads_by_default_is_told(role: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some services set this themselves, when a disk is nearly full."""
    with Engine.open(role, settings=QUIET) as engine:
        engine.write(HERE, text="walrus")
    monkeypatch.setattr("cofio.backends.postgres.database.PATIENCE", 0.2)
    set_for_role("SET default_transaction_read_only = on")
    with Engine.open(role, settings=QUIET) as engine:
        assert engine.count() == 1
        with pytest.raises(Unavailable, match="default_transaction_read_only is on for this user"):
            engine.write(HERE, text="lost")
        set_for_role("RESET default_transaction_read_only")
        monkeypatch.undo()
        assert engine.write(HERE, text="another").version == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [("statement_timeout = '300ms'", "the statement_timeout of this user"), ("lock_timeout = '50ms'", "lock_timeout")],
)
def test_a_change_that_waits_for_longer_than_the_role_may_is_not_made(
    role: StoreAddress, monkeypatch: pytest.MonkeyPatch, setting: str, words: str
) -> None:
    monkeypatch.setattr("cofio.backends.postgres.database.PATIENCE", 0.5)
    Engine.open(role, settings=QUIET).close()
    set_for_role(f"SET {setting}")
    schema = role.spell().partition("?schema=")[2]
    with (
        Engine.open(role, settings=QUIET) as engine,
        closing(psycopg.connect(postgres.find_url())) as other,
    ):
        record = engine.put(HERE, "key", data=1)
        other.execute(f'SELECT FROM "{schema}".record FOR UPDATE'.encode())
        with pytest.raises(Unavailable, match=words):
            engine.put(HERE, "key", data=2)
        assert engine.read(record.id) == record
        other.rollback()
        assert engine.put(HERE, "key", data=2).version == 2
