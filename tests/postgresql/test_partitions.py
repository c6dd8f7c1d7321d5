"""A store whose large tables are partitioned by tenant is like any other: the core of the contract, run on it.

Also: the keys of every table and index begin with what it can be spread by.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cofio import Engine, Invalid, Query, Scope, Settings
from cofio.backends.postgres.database import ServerAddress
from cofio.backends.postgres.schema_steps import PARTITION_KEYS, list_steps
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.opening import copy_store

from .. import postgres
from ..conftest import BackendUnderTest

# The fixtures of the contract, and those of its tests that run here once more.
from ..contract.conftest import backend, memory, open_backend, remember, reopen, settle  # noqa: F401
from ..contract.test_backend import (  # noqa: F401
    test_an_export_is_of_one_moment,
    test_threads_that_count_together_lose_no_step,
    test_what_one_has_claimed_nobody_else_gets_until_it_is_given_up,
)
from ..contract.test_bounds import test_searches_with_other_bounds_never_mix  # noqa: F401
from ..contract.test_checkpoints import (  # noqa: F401
    checkpoints,
    others,
    test_a_copy_goes_its_own_way,
    test_a_search_finds_where_something_was_first_said,
    test_a_state_comes_back_as_it_was_saved,
    test_what_was_a_change_of_a_deleted_one_stays,
)
from ..contract.test_duplicates import test_a_batch_is_deduplicated_against_the_store_and_itself  # noqa: F401
from ..contract.test_expiry import test_a_purge_removes_what_has_expired_and_leaves_a_sound_store  # noqa: F401
from ..contract.test_filters import (  # noqa: F401
    test_a_filter_works_within_the_scope_and_kinds_that_are_asked,
    test_each_test_of_a_field_lets_through_exactly_what_it_says,
)
from ..contract.test_given import test_bounds_hold, test_vectors_go_with_their_record  # noqa: F401
from ..contract.test_ids import test_ids_are_found_by_how_they_begin_in_their_order  # noqa: F401
from ..contract.test_keys import (  # noqa: F401
    test_a_move_gives_a_record_another_key_or_scope_and_keeps_the_rest,
    test_put_replaces_what_the_key_held_and_keeps_its_id_and_birth,
)
from ..contract.test_records import (  # noqa: F401
    test_a_deleted_record_is_gone_from_every_read,
    test_every_field_of_a_record_is_kept_as_it_was_given,
    test_pages_of_a_list_hold_each_record_once,
)
from ..contract.test_scopes import (  # noqa: F401
    test_a_moved_record_is_found_in_its_new_scope_only,
    test_drop_forgets_a_scope_and_all_under_it_and_nothing_beside_it,
)
from ..contract.test_vectors import test_a_record_is_found_by_a_text_of_like_meaning  # noqa: F401

COUNT = 3
QUIET = Settings(background=False, embedder="none", sync="normal")
UNSPREAD = {
    "state",
    "shared",
    "moment",
    "commit_mark",
    "embedder",
    "scope",
    "thread",
    "checkpoint",
    "pending",
    "checkpoint_word",
}
"""The tables that are not partitioned: small, or by thread, which Citus could spread by."""
FIRST = {**PARTITION_KEYS, "checkpoint": "thread", "pending": "thread", "checkpoint_word": "thread"}
"""The column that the keys of each table begin with."""
EXCEPTIONS = {
    "record_expiry": "what has expired is purged in all scopes together",
    "record_seq": "an export or a copy of the whole store goes through all scopes in the order of change",
    "unembedded_order": "vectors are made in the order of change, for whichever scope",
    "vector_uncoded": "token codes that are missing are made for whichever scope; it is nearly empty",
    "checkpoint_no": "a chain of checkpoints is followed by their numbers, which are the store's",
    "checkpoint_base": "the same, the other way round",
    "checkpoint_unindexed": "words are indexed in the order of the saves, of whichever thread; it is nearly empty",
    "checkpoint_expiry": "what has expired is purged in all threads together",
    "checkpoint_word_term": "a search in checkpoints is of all threads of a space",
}
"""The indexes that begin with something else, each with the reason."""


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


def get_schema(address: StoreAddress) -> str:
    """The schema of a store."""
    return ServerAddress.parse(address.spell()).schema


def test_the_large_tables_are_partitioned_by_hash(store: StoreAddress, admin: psycopg.Connection) -> None:
    Engine.open(store, settings=QUIET).close()
    rows = admin.execute(
        "SELECT c.relname, c.relkind::text, pg_get_partkeydef(c.oid), (SELECT count(*) FROM pg_inherits i WHERE"
        " i.inhparent = c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
        (get_schema(store),),
    ).fetchall()
    assert {name for name, kind, _, _ in rows if kind == "r"} == UNSPREAD
    assert {(name, key, count) for name, kind, key, count in rows if kind == "p"} == {
        (name, f"HASH ({key})", COUNT) for name, key in PARTITION_KEYS.items()
    }


def test_tenants_are_spread_and_a_search_looks_at_its_own_part(store: StoreAddress, admin: psycopg.Connection) -> None:
    schema = get_schema(store)
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


def test_a_memory_is_copied_to_partitions_and_back(store: StoreAddress, tmp_path: Path) -> None:
    first, back = StoreAddress(folder=tmp_path / "first"), StoreAddress(folder=tmp_path / "back")
    with Engine.open(first, settings=QUIET, embedder=HashedEmbedder()) as engine:
        for number in range(20):
            engine.put(Scope("app", str(number % 5)), f"k{number}", text=f"walrus {number}", given={"a": [1.0, number]})
        engine.settle()
        engine.checkpoints.save("library", "t", "c1", {"n": 1})
        engine.checkpoints.save("library", "t", "c2", {"n": 2})
    copied = copy_store(first, store)
    assert (copied.records, copied.vectors, copied.checkpoints) == (20, 20, 2)
    assert copy_store(store, back).find_difference(copied) == ""


def test_the_number_of_partitions_is_that_of_the_store(store: StoreAddress) -> None:
    Engine.open(store, settings=QUIET).close()
    plain = StoreAddress(url=store.spell().partition("&partitions=")[0])
    Engine.open(plain, settings=QUIET).close()
    with pytest.raises(Invalid, match=f"has {COUNT} partitions, not 8, which cannot be changed"):
        Engine.open(partition(plain, 8), settings=QUIET)


def test_a_store_without_partitions_does_not_get_any(tmp_path: Path) -> None:
    plain = postgres.make_address(tmp_path / "plain")
    try:
        Engine.open(plain, settings=QUIET).close()
        with pytest.raises(Invalid, match="has no partitions, not 3"):
            Engine.open(partition(plain), settings=QUIET)
    finally:
        postgres.remove(plain)


@pytest.mark.parametrize("count", ["1", "-4", "1025", "four", "4.0", "", "0x4", "٤"])
def test_a_number_of_partitions_that_is_none_is_invalid(count: str) -> None:
    with pytest.raises(Invalid, match="partitions takes a number from 2 to 1,024"):
        ServerAddress.parse(f"postgresql://h/d?partitions={count}&schema=mine")


def test_each_key_and_index_begins_with_what_its_table_is_spread_by(tmp_path: Path, admin: psycopg.Connection) -> None:
    plain = postgres.make_address(tmp_path / "plain")
    try:
        Engine.open(plain, settings=QUIET).close()
        rows = admin.execute(
            "SELECT t.relname, c.relname, pg_get_indexdef(i.indexrelid, 1, true) FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid"
            " JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = %s",
            (get_schema(plain),),
        ).fetchall()
    finally:
        postgres.remove(plain)
    assert {table for table, _, _ in rows} == UNSPREAD | PARTITION_KEYS.keys()
    wrong = {index for table, index, column in rows if table in FIRST and column != FIRST[table]}
    assert wrong == EXCEPTIONS.keys()


def test_no_step_writes_out_a_partition() -> None:
    """There is one description of the tables, and partitions are made of it."""
    assert not [text for step in list_steps() for text in step.statements if "PARTITION" in text.upper()]
