"""A caller who is limited to a scope sees nothing else: by the door, and, with row security, by the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import errors

from cofio import Engine, Invalid, NotFound, Query, Record, Scope, Settings, Unavailable
from cofio.backends.checkpoint_interface import PendingWrite
from cofio.backends.postgres import conditions
from cofio.backends.postgres.database import ServerAddress
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.values.query import AnyOf, Where

from .. import postgres
from ..doors.rest.conftest import DAY, SETTINGS, Api, T, agent_run, said, serving
from ..waiting import wait_until

QUIET = Settings(background=False, embedder="none", sync="normal")
SECURE = replace(QUIET, row_security=True)
MINE, THEIRS = Scope("rest", "shop"), Scope("rest", "bank")
SCOPE_TABLES = ("scope", "record", "record_id", "posting", "scope_size", "given", "vector", "unembedded")
THREAD_TABLES = ("thread", "checkpoint", "pending", "checkpoint_word")
SHARED_TABLES = {
    "state": "which store it is, its schema, and why background work last failed",
    "moment": "the time of the newest change and how many there were, of all scopes together",
    "embedder": "the names of the embedders",
    "shared": "what all servers have in common: digests of tokens, settings",
    "commit_mark": "random numbers of the last transactions",
}
"""The tables that are under no row security, with what is in them."""


class Role(NamedTuple):
    """A user of the database, and the store as that user's address of it."""

    name: str
    store: StoreAddress

    def connect(self, scopes: str | None) -> psycopg.Connection:
        """A connection in whose transaction `scopes` may be seen; None when it does not say."""
        connection = psycopg.connect(ServerAddress.parse(self.store.spell()).conninfo)
        schema = ServerAddress.parse(self.store.spell()).schema
        connection.execute(f'SET LOCAL search_path = "{schema}", public'.encode())
        if scopes is not None:
            connection.execute("SELECT set_config('cofio.scopes', %s, true)", (scopes,))
        return connection


def count_rows(role: Role, scopes: str | None) -> dict[str, int]:
    """How many rows of each table a transaction sees."""
    with role.connect(scopes) as connection:
        found = {}
        for table in (*SCOPE_TABLES, *THREAD_TABLES):
            row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
            assert row is not None
            found[table] = int(row[0])
        return found


@pytest.fixture
def make_role(admin: psycopg.Connection, store: StoreAddress) -> Iterator[Callable[..., Role]]:
    """Makes a user of the database who is no superuser."""
    made: list[str] = []

    def make(name: str, rights: str = "") -> Role:
        admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER {rights}".encode())
        made.append(name)
        return Role(name, postgres.log_in(store, name))

    yield make
    postgres.remove(store)
    for name in made:
        admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
        admin.execute(f"DROP ROLE {name}".encode())


@pytest.fixture
def owner(admin: psycopg.Connection, make_role: Callable[..., Role]) -> Role:
    """The owner of the store's tables."""
    role = make_role("cofio_owner")
    schema = ServerAddress.parse(role.store.spell()).schema
    admin.execute(f'CREATE SCHEMA "{schema}" AUTHORIZATION cofio_owner'.encode())
    return role


def grant(admin: psycopg.Connection, role: Role) -> None:
    """Let a user read and write the store, and own nothing."""
    schema = ServerAddress.parse(role.store.spell()).schema
    for statement in (
        f'GRANT USAGE ON SCHEMA "{schema}" TO {role.name}',
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO {role.name}',
        f'GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA "{schema}" TO {role.name}',
    ):
        admin.execute(statement.encode())


@pytest.fixture(params=["owner", "granted"])
def server(
    request: pytest.FixtureRequest, admin: psycopg.Connection, owner: Role, make_role: Callable[..., Role]
) -> Role:
    """The user that a server has, on a store under row security: the tables' owner, or one who has been let in."""
    Engine.open(owner.store, settings=SECURE).close()
    if request.param == "owner":
        return owner
    role = make_role("cofio_server")
    grant(admin, role)
    return role


@pytest.fixture
def engine(server: Role) -> Iterator[Engine]:
    """A memory under row security, as a server's user opens it."""
    with Engine.open(server.store, settings=SECURE, embedder=HashedEmbedder()) as opened:
        yield opened


def fill(engine: Engine) -> tuple[Record, Record]:
    """Write the same in two scopes, in every table; a record of each."""
    found = []
    for scope in (MINE, THEIRS):
        engine.write(scope / "web" / "user" / "ann", text="the walrus swims")
        found.append(engine.put(scope / "web", "k", text="a walrus of ice", given={"whole": [1.0, 0.0]}))
    engine.settle()
    for scope in (MINE, THEIRS):
        engine.write(scope / "web", text="has no vector yet")
    engine.checkpoints.save("library", "t", "c", {"topic": "walrus"})
    write = PendingWrite(task="task", at=0, path="", channel="channel", type="json", value=b"walrus")
    engine.checkpoints.write("library", "t", "c", [(write, False)])
    assert engine.checkpoints.search("library", "walrus")
    return found[0], found[1]


def read_scope_numbers(role: Role) -> dict[str, int]:
    """The number of each record's scope, by the record's id."""
    with role.connect("*") as connection:
        return {name: int(scope) for name, scope in connection.execute("SELECT id, scope FROM record_id")}


# The database alone.


def test_a_transaction_sees_what_it_says_it_may_see(engine: Engine, server: Role) -> None:
    fill(engine)
    everything = count_rows(server, "*")
    assert all(everything.values())
    for scopes in (None, "", "00", Scope("rest", "sho").path.hex(), Scope("rest", "shop", "we").path.hex()):
        assert not any(count_rows(server, scopes).values()), scopes
    for scopes in (MINE.path.hex(), f"{MINE.path.hex()},{Scope('cofio', 'llm').path.hex()}"):
        found = count_rows(server, scopes)
        assert found == {
            table: 0 if table in THREAD_TABLES else everything[table] // 2 for table in everything
        }  # fmt: skip
    both = f"{MINE.path.hex()},{THEIRS.path.hex()}"
    assert {table: count for table, count in count_rows(server, both).items() if table in SCOPE_TABLES} == {
        table: everything[table] for table in SCOPE_TABLES
    }


def test_rows_out_of_sight_are_neither_changed_nor_written(engine: Engine, server: Role) -> None:
    mine, theirs = fill(engine)
    numbers = read_scope_numbers(server)
    here, there = numbers[mine.id], numbers[theirs.id]
    before = [*engine.export()]
    for statement in (
        f"UPDATE record SET text = 'mine now' WHERE scope = {there}",
        f"DELETE FROM record WHERE scope = {there}",
        f"DELETE FROM posting WHERE scope = {there}",
        f"UPDATE record_id SET scope = {here} WHERE id = '{theirs.id}'",
        f"UPDATE scope SET digest = digest WHERE no = {there}",
        "DELETE FROM checkpoint",
    ):
        with server.connect(MINE.path.hex()) as connection:
            assert connection.execute(statement.encode()).rowcount == 0
    for statement in (
        f"UPDATE record SET scope = {there}",
        f"UPDATE posting SET scope = {there}",
        f"INSERT INTO posting VALUES ({there}, 1, 1, 1, 1)",
        f"INSERT INTO record_id VALUES ('new', {there}, 1)",
        f"INSERT INTO unembedded VALUES ({there}, 1, 1, 1)",
        "INSERT INTO scope (digest, path) VALUES ('x', 'bank')",
        "INSERT INTO thread (digest, space, name, ns) VALUES ('x', 'library', 't', '')",
    ):
        with server.connect(MINE.path.hex()) as connection, pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement.encode())
    with server.connect("*") as connection:
        schema = ServerAddress.parse(server.store.spell()).schema
        assert connection.execute("SELECT FROM record").fetchall()
        connection.commit()  # as a pooler gives the connection to another client: what it may see ends here
        assert connection.execute(f'SELECT FROM "{schema}".record'.encode()).fetchall() == []
    assert [*engine.export()] == before
    assert engine.check() == []


def test_every_table_is_under_row_security_or_is_known_to_hold_nobodys_own(
    engine: Engine, admin: Any, server: Role
) -> None:
    schema = ServerAddress.parse(server.store.spell()).schema
    rows = admin.execute(
        "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,"
        " (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm')",
        (schema,),
    ).fetchall()
    assert {name for name, is_secured, _ in rows if not is_secured} == SHARED_TABLES.keys()
    assert {name: count for name, _, count in rows if count} == dict.fromkeys((*SCOPE_TABLES, *THREAD_TABLES), 1)


def test_partitions_show_their_rows_through_their_table_alone(owner: Role) -> None:
    store = StoreAddress(url=f"{owner.store.spell()}&partitions=2")
    with Engine.open(store, settings=SECURE, embedder=HashedEmbedder()) as engine:
        fill(engine)
        with engine.restrict(MINE):
            assert engine.count() == 3
            assert len(engine.search(Query("walrus", mode="keyword", floor=0.0))) == 2
        assert engine.check() == []
    for scopes, expected in (("*", [6, 0, 0]), (MINE.path.hex(), [3, 0, 0]), (None, [0, 0, 0])):
        with owner.connect(scopes) as connection:
            tables = ("record", "record_0", "record_1")
            found = [connection.execute(f"SELECT FROM {table}".encode()).rowcount for table in tables]
        assert found == expected


# The engine.


def test_who_is_restricted_finds_nothing_else_by_any_verb(engine: Engine) -> None:
    mine, theirs = fill(engine)
    everywhere = AnyOf(Where("scope", "has", THEIRS), Where("id", "=", theirs.id), Where("key", "=", "k"))
    with engine.restrict(MINE):
        assert engine.read(mine.id) == mine
        with pytest.raises(NotFound):
            engine.read(theirs.id)
        assert engine.read_many([mine.id, theirs.id]) == [mine, None]
        assert engine.get(THEIRS / "web", "k") is None
        assert engine.list(THEIRS) == []
        assert {record.id for record in engine.list(filter=everywhere)} == {mine.id}
        assert engine.count() == engine.count(MINE) == 3
        assert {scope.names[1] for scope in engine.scopes()} == {"shop"}
        assert theirs.id not in engine.ids(theirs.id[:1], limit=100)
        assert all(record.scope in MINE for record in engine.export())
        for mode in ("keyword", "semantic", "hybrid"):
            hits = engine.search(Query("walrus", mode=mode, floor=0.0, limit=100))
            assert hits
            assert all(hit.record.scope in MINE for hit in hits)
            assert not engine.search(Query("walrus", mode=mode, scope=THEIRS, floor=0.0))
        assert [hit.record.id for hit in engine.nearest([1.0, 0.0])] == [mine.id]
        assert engine.checkpoints.load("library", "t", "c") is None
        assert engine.same(THEIRS / "web", "has no vector yet") is None
    assert engine.read(theirs.id) == theirs


def test_who_is_restricted_changes_nothing_else(engine: Engine) -> None:
    mine, theirs = fill(engine)
    before = [*engine.export(THEIRS)]
    with pytest.raises(Invalid, match="at least one scope"), engine.restrict():
        pass
    with engine.restrict(MINE):
        changes: list[Callable[[str], object]] = [
            engine.delete,
            lambda known: engine.edit(known, text="mine now"),
            lambda known: engine.move(known, scope=MINE),
        ]
        for change in changes:
            with pytest.raises(NotFound):
                change(theirs.id)
        assert engine.drop(THEIRS) == 0
        writes: list[Callable[[], object]] = [
            lambda: engine.write(THEIRS / "web", text="here I am"),
            lambda: engine.write(THEIRS / "new", text="here I am"),
            lambda: engine.put(THEIRS / "web", "k", text="mine now"),
            lambda: engine.move(mine.id, scope=THEIRS / "web"),
        ]
        for write in writes:
            with pytest.raises(Unavailable, match="outside of the scopes of its caller"):
                write()
        engine.edit(mine.id, text="changed by its owner")
    with pytest.raises(RuntimeError), engine.restrict(MINE):
        raise RuntimeError  # it ends with its block, however that ends
    assert [*engine.export(THEIRS)] == before
    assert engine.read(mine.id).text == "changed by its owner"
    assert engine.check() == []


# Turning it on.


def test_a_user_whom_row_security_does_not_bind_or_who_may_not_turn_it_on_is_refused(
    store: StoreAddress, admin: psycopg.Connection, make_role: Callable[..., Role]
) -> None:
    with pytest.raises(Unavailable, match=r"superuser or has BYPASSRLS.*CREATE ROLE"):
        Engine.open(store, settings=SECURE)
    free, granted = make_role("cofio_free", "BYPASSRLS"), make_role("cofio_server")
    Engine.open(store, settings=QUIET).close()
    with pytest.raises(Unavailable, match="GRANT ALL"):
        Engine.open(free.store, settings=SECURE)
    grant(admin, granted)
    with pytest.raises(Unavailable, match=r"may not make or change the store's tables .* as their owner"):
        Engine.open(granted.store, settings=SECURE)
    Engine.open(granted.store, settings=QUIET).close()


def test_a_server_that_runs_when_another_turns_it_on_goes_on(owner: Role) -> None:
    with Engine.open(owner.store, settings=QUIET) as old:
        first = old.write(MINE, text="walrus")
        with Engine.open(owner.store, settings=SECURE) as new, new.restrict(MINE):
            second = new.write(MINE, text="walrus, too")
        third = old.write(MINE, text="walrus once more")
        assert old.read_many([first.id, second.id, third.id]) == [first, second, third]
        assert len(old.search(Query("walrus", mode="keyword", floor=0.0))) == 3
    with Engine.open(owner.store, settings=QUIET) as later:  # it stays on for all
        with later.restrict(THEIRS):
            assert later.count() == 0
        assert later.count() == 3
        assert later.check() == []


# The REST door.


@pytest.fixture(params=["door alone", "row security"])
def rest(
    request: pytest.FixtureRequest, owner: Role, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Iterator[tuple[Api, dict[str, str]]]:
    """The API with two apps that have the same in them, and the headers of a token that is limited to one's project."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(
        "tests.doors.rest.conftest.SETTINGS", replace(SETTINGS, row_security=request.param == "row security")
    )
    with serving(owner.store, embedder=HashedEmbedder()) as (api, tokens):
        for app, name in (("shop", "Ann"), ("bank", "Bob")):
            place = {"app_id": app, "project_id": "web"}
            api.told(f"I love climbing in Yosemite. My name is {name}.", app_id=app, project_id="web")
            api.add(*agent_run(), session="run", **place)
            assert api.flush("run", **place) == "extracted"
            api.add(said(f"{name} waits.", T + DAY), session="open", **place)
            api.done(api.queue(said("Later.", T + DAY), session="later", **place), **place)
        token = tokens.add("limited", app="shop", project="web")
        wait_until(lambda: api.client.get("/api/v2/tasks/none").status_code == 401)  # the server knows of it
        yield api, {"Authorization": f"Bearer {token}"}


HOSTILE_FILTERS: list[dict[str, Any]] = [
    {"app_id": "bank"},
    {"OR": [{"app_id": "bank"}, {"session_id": {"ne": "x"}}]},
    {"AND": [{"OR": [{"timestamp": {"gte": 0}}, {"timestamp": {"lt": 0}}]}]},
    {"session_id": {"in": ["open", "' OR true) --", "$1", "@scope", "\u0000"]}},
    {"parent_id": {"ne": "\udcff"}},
    {"scope": "rest/bank"},
    {"data.session_id": "open"},
]
CALLS: dict[str, dict[str, Any]] = {
    "search": {"query": "climbing", "user_id": "alice"},
    "get": {"memory_type": "episode", "user_id": "alice"},
    "delete": {"all": True},
    "jobs": {},
    "flush": {"session_id": "open"},
}
PLACE = {"app_id": "shop", "project_id": "web"}


def post(api: Api, call: str, headers: dict[str, str], **body: Any) -> tuple[int, str]:
    """The status and the text of an answer."""
    sent = {"Content-Type": "application/json", **headers}
    content = json.dumps({**PLACE, **body}).encode()
    answer = api.client.post(f"/api/v2/memory/{call}", content=content, headers=sent)
    return answer.status_code, answer.text


def test_no_filter_owner_name_or_id_leads_to_what_is_another_s(rest: tuple[Api, dict[str, str]]) -> None:
    api, headers = rest
    before = [*api.engine.export(THEIRS)]
    assert len(before) > 10
    status, text = post(api, "search", headers, query="climbing name", user_id="alice", top_k=100)
    assert (status, "Ann" in text, "Bob" in text) == (200, True, False)
    owner = {"user_id": "alice", "memory_type": "episode"}
    answers = [
        *(post(api, "get", headers, **owner, filters=filters) for filters in HOSTILE_FILTERS),
        *(post(api, "get", headers, **owner | {"user_id": user}) for user in ("../bank", "rest\0bank\0web", "%")),
    ]
    for filters in HOSTILE_FILTERS:
        for method in ("keyword", "vector", "hybrid"):
            more = {"include_unprocessed": True, "include_profile": True, "method": method, "filters": filters}
            answers.append(post(api, "search", headers, query="climbing", user_id="alice", top_k=100, **more))
    for status, text in answers:
        assert status in (200, 422), text
        assert "Bob" not in text
    for app, project in (("bank", "web"), ("shop/../bank", "web"), ("shop\0", "web"), ("*", "*"), ("", "ｗeb")):
        for call, asked in CALLS.items():
            status, text = post(api, call, headers, **asked, app_id=app, project_id=project)
            assert status in (403, 422), text
            assert "Bob" not in text
    own = {f"{record.scope.names[-1]}_{record.key}" for record in api.engine.export(MINE)}
    for record in before:
        for each in {record.id, str(record.key), f"{record.scope.names[-1]}_{record.key}"} - own:
            for call, asked in {"delete": {"id": each}, "update": {"id": each, "content": "mine now"},
                                "jobs": {"job_id": each}}.items():  # fmt: skip
                assert post(api, call, headers, **asked)[0] in (404, 422)
            assert api.client.get(f"/api/v2/tasks/{each}", headers=headers).status_code in (404, 422)
    assert [*api.engine.export(THEIRS)] == before


def test_a_query_that_forgets_its_scope_shows_nothing_of_another_s_under_row_security(
    rest: tuple[Api, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the policies are for: a mistake in a condition."""
    api, headers = rest
    monkeypatch.setattr(conditions, "_match_path", lambda scope, values, *, exact: "true")
    status, text = post(api, "search", headers, query="climbing Bob", user_id="alice", top_k=100)
    assert status == 200
    assert "Ann" in text
    assert ("Bob" in text) is not api.engine.settings.row_security
