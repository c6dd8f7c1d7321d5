"""A store whose large tables are partitioned by tenant is like any other: the core of the contract, run on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cofio import Engine, Invalid, Query, Scope, Settings
from cofio.backends.postgres.database import ServerAddress
from cofio.backends.postgres.schema_steps import PARTITION_KEYS
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .. import postgres
from ..conftest import BackendUnderTest

# The fixtures of the contract, and those of its tests that run here once more.
from ..contract.conftest import backend, memory, open_backend, remember, reopen, settle  # noqa: F401
from ..contract.test_backend import test_threads_that_count_together_lose_no_step  # noqa: F401
from ..contract.test_checkpoints import (  # noqa: F401
    checkpoints,
    others,
    test_a_search_finds_where_something_was_first_said,
    test_a_state_comes_back_as_it_was_saved,
)
from ..contract.test_expiry import test_a_purge_removes_what_has_expired_and_leaves_a_sound_store  # noqa: F401
from ..contract.test_filters import test_each_test_of_a_field_lets_through_exactly_what_it_says  # noqa: F401
from ..contract.test_given import test_vectors_go_with_their_record  # noqa: F401
from ..contract.test_ids import test_ids_are_found_by_how_they_begin_in_their_order  # noqa: F401
from ..contract.test_keys import test_a_move_gives_a_record_another_key_or_scope_and_keeps_the_rest  # noqa: F401
from ..contract.test_records import test_pages_of_a_list_hold_each_record_once  # noqa: F401
from ..contract.test_scopes import test_drop_forgets_a_scope_and_all_under_it_and_nothing_beside_it  # noqa: F401

COUNT = 3
QUIET = Settings(background=False, embedder="none", sync="normal")


def partition(address: StoreAddress, count: int = COUNT) -> StoreAddress:
    """The address of a store that is made with partitions."""
    return StoreAddress(url=f"{address.spell()}&partitions={count}")


def remove(address: StoreAddress) -> None:
    """Take a store away."""
    postgres.remove(StoreAddress(url=address.spell().partition("&partitions=")[0]))


@pytest.fixture(scope="session")
def backend_under_test() -> BackendUnderTest:
    """PostgreSQL with partitions."""
    return BackendUnderTest(
        name="partitions",
        address=lambda folder: partition(postgres.make_address(folder)),
        remove=remove,
        states=("settled",),
    )


@pytest.fixture
def state() -> str:
    """Where the words of a record are: in the index."""
    return "settled"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreAddress]:
    """The address of a store with partitions that does not exist yet."""
    address = partition(postgres.make_address(tmp_path))
    yield address
    remove(address)


def test_large_tables_are_spread_by_tenant_and_a_search_looks_at_its_own_part(
    store: StoreAddress, admin: psycopg.Connection
) -> None:
    schema = ServerAddress.parse(store.spell()).schema
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as engine:
        for number in range(12):
            engine.write(Scope("rest", f"app {number}"), text=f"walrus {number}")
        assert engine.settle() == 12
        found = engine.search(Query("walrus", scope=Scope("rest", "app 3"), floor=0.0))
        assert [hit.record.text for hit in found] == ["walrus 3"]
        assert engine.stats().bytes_vectors > 0
        assert engine.stats().bytes_index > 0
        engine.reindex()
        assert engine.check() == []
    rows = admin.execute(
        "SELECT c.relname, pg_get_partkeydef(c.oid), (SELECT count(*) FROM pg_inherits i WHERE"
        " i.inhparent = c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind = 'p'",
        (schema,),
    ).fetchall()
    assert {*rows} == {(name, f"HASH ({key})", COUNT) for name, key in PARTITION_KEYS.items()}
    counts = [
        row[0]
        for table in ("record", "posting", "vector", "record_id")
        for number in range(COUNT)
        for row in admin.execute(f'SELECT count(*) FROM "{schema}".{table}_{number}'.encode()).fetchall()
    ]
    assert all(count < 24 for count in counts)
    plan = "\n".join(
        row[0] for row in admin.execute(f'EXPLAIN SELECT FROM "{schema}".posting WHERE scope = 3 AND term = 1'.encode())
    )
    assert sum(f"posting_{number}" in plan for number in range(COUNT)) == 1


def test_the_number_of_partitions_is_that_of_the_store(store: StoreAddress, tmp_path: Path) -> None:
    Engine.open(store, settings=QUIET).close()
    plain = StoreAddress(url=store.spell().partition("&partitions=")[0])
    Engine.open(plain, settings=QUIET).close()
    with pytest.raises(Invalid, match=f"has {COUNT} partitions, not 8, which cannot be changed"):
        Engine.open(partition(plain, 8), settings=QUIET)
    without = postgres.make_address(tmp_path / "plain")
    try:
        Engine.open(without, settings=QUIET).close()
        with pytest.raises(Invalid, match="has no partitions, not 3"):
            Engine.open(partition(without), settings=QUIET)
    finally:
        postgres.remove(without)


def test_a_number_of_partitions_that_is_none_is_invalid() -> None:
    for count in ("1", "-4", "1025", "four", "4.0", "", "0x4", "٤"):
        with pytest.raises(Invalid, match="partitions takes a number from 2 to 1,024"):
            ServerAddress.parse(f"postgresql://h/d?partitions={count}&schema=mine")
