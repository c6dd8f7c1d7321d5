"""The PostgreSQL server that tests of a store share: one for each process of pytest, started when it is needed."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from cofio.config.address import StoreAddress

from . import servers

PASSWORD = "seen-by-nobody"
"""What stands in the address of every store: the server does not ask for it, and no output may show it."""


@cache
def find_url() -> str:
    """Return the URL of the server's database, which has nothing in it but pgvector.

    COFIO_TEST_POSTGRESQL names one that is there, of another version: its user is a superuser, and no test runs beside.
    """
    url = os.environ.get("COFIO_TEST_POSTGRESQL", "")
    if not url:
        running = ExitStack()
        atexit.register(running.close)
        url = running.enter_context(servers.postgresql())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    return url


def name_schema(folder: Path) -> str:
    """Return the schema of the store that stands for a folder."""
    return f"test_{hashlib.sha256(str(folder).encode()).hexdigest()[:24]}"


def make_address(folder: Path) -> StoreAddress:
    """Return the address of the store that stands for a folder."""
    url = find_url().replace("postgres@", f"postgres:{PASSWORD}@", 1)
    return StoreAddress(url=f"{url}?schema={name_schema(folder)}")


def log_in(address: StoreAddress, user: str, password: str = "") -> StoreAddress:
    """Return the address of the same store for another user."""
    scheme, _, rest = address.spell().partition("://")
    who = f"{user}:{password}" if password else user
    return StoreAddress(url=f"{scheme}://{who}@{rest.partition('@')[2]}")


def get_schema(address: StoreAddress) -> str:
    """Return the schema of a store."""
    return address.spell().partition("?schema=")[2]


def remove(address: StoreAddress) -> None:
    """Take a store away, and what is on disk of it."""
    drop(address)
    shutil.rmtree(address.home, ignore_errors=True)


def drop(address: StoreAddress) -> None:
    """Take what the database holds of a store away."""
    statement = f'DROP SCHEMA IF EXISTS "{get_schema(address)}" CASCADE'.encode()
    try:
        _connect().execute(statement)
    except psycopg.OperationalError:  # a test has ended the server's sessions
        _connect.cache_clear()
        _connect().execute(statement)


@cache
def _connect() -> psycopg.Connection[tuple[Any, ...]]:
    """The connection that stores are taken away by."""
    connection = psycopg.connect(find_url(), autocommit=True)
    atexit.register(connection.close)  # which comes before the server's end
    return connection
