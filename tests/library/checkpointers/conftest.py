"""Every provider, each with a place of its own for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cofio.library.checkpointer import BaseCheckpointer
from cofio.library.providers.redis_backend import RedisBackend
from cofio.library.registry import get_checkpointer

from ... import postgres, servers
from ..conftest import QUIET

Make = Callable[..., BaseCheckpointer]
"""Makes a checkpointer; called again, it makes another one on the same place."""

PROVIDERS = ("memory", "file", "sqlite", "redis", "redis-backend", "postgresql", "s3", "http")
ABSENT: dict[str, set[str]] = {
    "memory": {"ttl"}, "file": {"ttl"}, "sqlite": set(), "redis": set(), "redis-backend": set(), "postgresql": set(),
    "s3": {"search", "ttl"},
    "http": {"search", "metadata_query", "vacuum", "ttl", "list_threads", "list_with_metadata"},
}  # fmt: skip
"""What each of them has not."""
BUCKET = "checkpoints"
KEYS: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}


@pytest.fixture(scope="session")
def address() -> Iterator[Callable[[str], str]]:
    """Where the server of a provider is; it is started when it is first asked for."""
    os.environ["no_proxy"] = "*"
    starting: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "redis": servers.redis, "postgresql": lambda: nullcontext(postgres.find_url()),
        "s3": servers.s3, "http": servers.cofio,
    }  # fmt: skip
    with ExitStack() as started:
        known: dict[str, str] = {}

        def find(provider: str) -> str:
            if provider not in known:
                known[provider] = started.enter_context(starting[provider]())
                if provider == "s3":
                    _make_bucket(known[provider])
            return known[provider]

        yield find


def _make_bucket(url: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=url, **KEYS)
    client.create_bucket(Bucket=BUCKET)
    client.close()


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    """The name of each provider in turn."""
    return str(request.param)


@pytest.fixture
def make(provider: str, tmp_path: Path, address: Callable[[str], str]) -> Make:
    """Makes checkpointers of the provider."""
    return maker(provider, tmp_path, address)


@pytest.fixture
async def checkpointer(make: Make) -> AsyncIterator[BaseCheckpointer]:
    """A checkpointer of the provider."""
    async with make() as opened:
        yield opened


@pytest.fixture
def make_of(tmp_path: Path, address: Callable[[str], str]) -> Callable[[str], Make]:
    """Makes checkpointers of one provider."""
    return lambda provider: maker(provider, tmp_path, address)


def maker(provider: str, folder: Path, address: Callable[[str], str]) -> Make:
    """What makes checkpointers on one place that nobody else uses."""
    own = "own" + uuid4().hex
    keywords: dict[str, Any] = {}
    match provider:
        case "memory":
            only = get_checkpointer("memory")
            return lambda **more: get_checkpointer("memory", **more) if more else only
        case "file" | "sqlite":
            string = f"{provider}:{folder / provider}"
        case "redis":
            string, keywords = f"redis:{address('redis').removeprefix('redis://')}", {"prefix": f"{own}:"}
        case "redis-backend":
            return lambda **more: RedisBackend(address("redis"), prefix=own, **more)
        case "postgresql":
            string, keywords = address("postgresql"), {"table_name": own, "schema": "library", "settings": QUIET}
        case "s3":
            string, keywords = f"s3:{BUCKET}/{own}", {"endpoint_url": address("s3"), **KEYS}
        case _:
            string = address("http")
    return lambda **more: get_checkpointer(string, **keywords, **more)
