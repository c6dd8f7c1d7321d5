"""How a store on PostgreSQL is opened: by several at once, and on a server that cannot hold one, which says why."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from cofio import Engine, Invalid, Scope, Settings, Unavailable
from cofio.backends.postgres import migrations
from cofio.backends.postgres.database import ServerAddress
from cofio.config.address import StoreAddress

from .. import postgres

QUIET = Settings(background=False, embedder="none", sync="normal")
HERE = Scope("here")


@pytest.fixture
def stranger(admin: psycopg.Connection) -> Iterator[str]:
    """The URL of a user who may do nothing but connect."""
    admin.execute("CREATE ROLE stranger LOGIN")
    admin.execute("REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    yield postgres.find_url().replace("postgres@", "stranger@")
    admin.execute("DROP OWNED BY stranger CASCADE")
    admin.execute("DROP ROLE stranger")


def test_several_that_open_it_at_once_make_it_once(store: StoreAddress) -> None:
    def open_and_write(number: int) -> str:
        with Engine.open(store, settings=QUIET) as engine:
            engine.write(HERE, text=f"by {number}")
            return engine.identity().store

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(open_and_write, range(6)))) == 1
    with Engine.open(store, settings=QUIET) as engine:
        assert engine.count() == 6
        assert engine.check() == []


def test_who_may_not_make_a_schema_or_read_the_tables_is_told_what_to_run(
    stranger: str, store: StoreAddress, admin: psycopg.Connection
) -> None:
    with pytest.raises(Unavailable, match='CREATE SCHEMA "nowhere" AUTHORIZATION "stranger"'):
        Engine.open(f"{stranger}?schema=nowhere", settings=QUIET)
    Engine.open(store, settings=QUIET).close()
    schema = ServerAddress.parse(store.spell()).schema
    with pytest.raises(Unavailable, match="GRANT ALL ON SCHEMA"):
        Engine.open(f"{stranger}?schema={schema}", settings=QUIET)
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO stranger".encode())
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO stranger".encode())
    with Engine.open(f"{stranger}?schema={schema}", settings=QUIET) as limited:
        facts, warnings = limited.examine()
        assert facts["server"].startswith("PostgreSQL ")
        (warning,) = [each for each in warnings if "may not" in each]
        assert warning.endswith(f'GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO "stranger"')
        with pytest.raises(Unavailable, match="does not let this user do that"):
            limited.write(HERE, text="no")


def test_a_database_without_pgvector_is_told_what_to_run(stranger: str, admin: psycopg.Connection) -> None:
    admin.execute("DROP DATABASE IF EXISTS bare")
    admin.execute("CREATE DATABASE bare")
    try:
        with pytest.raises(Unavailable, match="as a superuser: CREATE EXTENSION vector"):
            Engine.open(stranger.removesuffix("postgres") + "bare", settings=QUIET)
    finally:
        admin.execute("DROP DATABASE bare")


def test_a_database_of_another_encoding_is_refused(admin: psycopg.Connection) -> None:
    admin.execute("DROP DATABASE IF EXISTS latin")
    admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(Unavailable, match="encoded in LATIN1; make one with"):
            Engine.open(postgres.find_url().removesuffix("postgres") + "latin", settings=QUIET)
    finally:
        admin.execute("DROP DATABASE latin")


def test_a_server_that_is_too_old_is_refused(store: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "OLDEST_SERVER", 990000)
    with pytest.raises(Unavailable, match="PostgreSQL 99 or later is needed"):
        Engine.open(store, settings=QUIET)


def test_an_address_that_is_none_is_invalid_and_shows_no_password() -> None:
    for bad in ("h/d?schema=Bad-Name", "h/d?schema=", "h/d?nosuch=1", "me:s3cr%et@h/d"):
        with pytest.raises(Invalid) as caught:
            ServerAddress.parse(f"postgresql://{bad}")
        assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "conninfo", "schema"),
    [
        ("postgresql:///memory?host=/run/postgresql", "host=/run/postgresql", "cofio"),
        ("postgresql://h/d?schema=mine", "dbname=d", "mine"),
        ("postgresql://h/d?schema=mine&sslmode=require", "sslmode=require", "mine"),
        ("postgresql://h/d?options=-c%20x%3D1&schema=mine", "options='-c x=1'", "mine"),
    ],
)
def test_an_address_is_the_database_s_own_but_for_the_schema(url: str, conninfo: str, schema: str) -> None:
    address = ServerAddress.parse(url)
    assert conninfo in address.conninfo
    assert address.schema == schema


def test_a_password_is_shown_nowhere(store: StoreAddress) -> None:
    secret = StoreAddress(url=store.spell().replace(postgres.PASSWORD, "s3cret"))
    with Engine.open(secret, settings=QUIET) as engine:
        assert "s3cret" not in str(dict(engine.stats()))
