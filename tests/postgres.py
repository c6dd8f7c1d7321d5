"""The PostgreSQL server that tests of a store share: one for each process of pytest, started when it is needed."""

from __future__ import annotations

import atexit
import hashlib
import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import psycopg

from cofio.config.address import StoreAddress

from . import servers


@cache
def find_url() -> str:
    """Return the URL of the server's database, which has nothing in it but pgvector."""
    if url := os.environ.get("COFIO_TEST_POSTGRESQL"):  # the tests of another test, which has started it
        return url
    running = ExitStack()
    atexit.register(running.close)
    url = running.enter_context(servers.postgresql())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return url


def name_schema(folder: Path) -> str:
    """Return the schema of the store that stands for a folder."""
    return f"test_{hashlib.sha256(str(folder).encode()).hexdigest()[:24]}"


def make_address(folder: Path) -> StoreAddress:
    """Return the address of the store that stands for a folder."""
    return StoreAddress(url=f"{find_url()}?schema={name_schema(folder)}")


def remove(address: StoreAddress) -> None:
    """Take a store away."""
    schema = address.spell().partition("?schema=")[2]
    with psycopg.connect(find_url(), autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())
