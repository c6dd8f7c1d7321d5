"""A store on PostgreSQL for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cofio.config.address import StoreAddress

from .. import postgres
from ..conftest import BACKENDS, BackendUnderTest


@pytest.fixture(scope="session")
def backend_under_test() -> BackendUnderTest:
    """The backend that all stores here are on."""
    return next(backend for backend in BACKENDS if backend.name == "postgres")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreAddress]:
    """The address of a store that does not exist yet."""
    address = postgres.make_address(tmp_path)
    yield address
    postgres.remove(address)


@pytest.fixture
def admin() -> Iterator[psycopg.Connection]:
    """The superuser's connection."""
    with psycopg.connect(postgres.find_url(), autocommit=True) as connection:
        yield connection
