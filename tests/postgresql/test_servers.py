"""Several servers on one database, each as on a machine of its own: what they agree on, and that work is done once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from cofio import Engine, Invalid, Scope, Settings, Unavailable
from cofio.backends.postgres.database import ServerAddress
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.doors.web.tokens import FRESH, Tokens, open_tokens
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.agreement import agree
from cofio.engine.opening import load_settings, open_shared_values
from cofio.values.records import Kind, Record
from cofio.values.scopes import CONVERSATIONS
from cofio.vault.lifecycle import open_vault

from .. import postgres
from ..llm.scripted import Asked, Say, Scripted, right, slow
from ..waiting import join, wait_until
from .processes import Gateway, Start, T, starting

QUIET = Settings(background=False, embedder="none", sync="normal")
DAY = 86_400_000
HERE = Scope("here")
Cofio = Callable[..., tuple[int, str, str]]


@pytest.fixture
def start(store: StoreAddress, tmp_path: Path) -> Iterator[Start]:
    """Starts servers on one database."""
    with starting(store, tmp_path) as start:
        yield start


@pytest.fixture
def cofio(
    store: StoreAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cofio:
    """Runs a command on the store, on another machine; its exit code and what it printed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "desk"))
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words, "--store", store.spell()])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def run_sql(store: StoreAddress, statement: str) -> list[tuple[object, ...]]:
    """What a statement gives, in the schema of a store."""
    schema = ServerAddress.parse(store.spell()).schema
    with psycopg.connect(postgres.find_url(), autocommit=True) as connection:
        cursor = connection.execute(statement.replace("@", f'"{schema}".').encode())
        return cursor.fetchall() if cursor.description else []


def read_all(store: StoreAddress, *kinds: Kind) -> list[Record]:
    """The records of conversations."""
    with Engine.open(store, settings=QUIET) as engine:
        return [*engine.each(CONVERSATIONS, kinds=kinds)]


# What they agree on.


def test_a_token_that_is_made_or_ended_on_one_machine_counts_on_all(start: Start, cofio: Cofio) -> None:
    one, other = start(), start()
    path = "/api/v2/memory/jobs"
    assert [server.request("POST", path, {})[0] for server in (one, other)] == [200, 200]
    code, token, _ = cofio("token", "add", "laptop")
    assert code == 0
    for server in (one, other):
        wait_until(lambda server=server: server.request("POST", path, {})[0] == 401)
        assert server.request("POST", path, {}, token.strip())[0] == 200
    assert cofio("token", "list")[1].split("\t")[0] == "laptop"
    assert cofio("token", "rm", "laptop")[0] == 0
    for server in (one, other):
        wait_until(lambda server=server: server.request("POST", path, {}, token.strip())[0] == 401)


def test_only_hashes_of_tokens_are_in_the_database(store: StoreAddress, cofio: Cofio) -> None:
    assert cofio("token", "list")[0] == 1  # which makes no store
    shown = cofio("token", "add", "laptop", "--app", "shop")[1].strip()
    ((value,),) = run_sql(store, "SELECT value FROM @shared WHERE name = 'tokens'")
    assert "laptop" in str(value)
    assert shown.removeprefix("cofio_") not in str(value)
    with open_tokens(store) as tokens:
        found = tokens.find(shown)
        assert found is not None
        assert found.app == "shop"
        assert tokens.find("cofio_other") is None
        tokens.remove("laptop")
        assert tokens.are_required
        assert tokens.find(shown) is None


def test_tokens_that_are_made_at_once_are_all_there(store: StoreAddress) -> None:
    Engine.open(store, settings=QUIET).close()
    with open_tokens(store) as tokens:
        threads = [threading.Thread(target=tokens.add, args=[f"t{number}"]) for number in range(8)]
        for thread in threads:
            thread.start()
        join(*threads)
        assert {token.name for token in tokens.all()} == {f"t{number}" for number in range(8)}


def test_tokens_are_asked_for_again_when_they_are_no_longer_fresh(
    store: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_shared_values(store) as shared:
        assert shared is not None
        one, other = Tokens(shared), Tokens(shared)
        assert not one.are_required
        other.add("laptop")
        assert one.is_current
        assert not one.are_required
        monkeypatch.setattr("cofio.doors.web.tokens.FRESH", FRESH * 1e-9)
        assert not one.is_current
        one.refresh()
        assert one.are_required
        run_sql(store, "UPDATE @shared SET value = '[1]' WHERE name = 'tokens'")
        with pytest.raises(Unavailable, match="the tokens in the database are damaged"):
            one.refresh()
        assert "no client is let in" in one.check()[0]


def test_the_first_server_says_what_all_have_in_common(start: Start, cofio: Cofio) -> None:
    assert start(COFIO_FLOOR="0.3", COFIO_TIMEZONE="Europe/Oslo").get_health()[0] == 200
    refused = start(COFIO_FLOOR="0.5").fail()
    assert "floor: the servers of this memory have 0.3, and this one has 0.5" in refused
    assert "cofio config set floor VALUE" in refused
    agreed = start()
    assert agreed.get_health()[0] == 200
    assert agreed.say("I love climbing.")["status"]
    rows = dict(line.split("\t", 1) for line in cofio("config")[1].splitlines())
    assert rows["floor"] == "0.3\tthe database"
    assert rows["timezone"] == '"Europe/Oslo"\tthe database'
    assert rows["embedder"] == '"hashed"\tCOFIO_EMBEDDER'
    assert cofio("config", "set", "floor", "0.5")[:2] == (0, "floor = 0.5\n")
    assert start(COFIO_FLOOR="0.5").get_health()[0] == 200
    assert cofio("config", "unset", "floor")[0] == 0
    assert start(COFIO_FLOOR="0.7").get_health()[0] == 200


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["set", "floor", "2"], "floor: 2.0 is not a number from 0 to 1"),
        (["set", "timezone", "Nowhere"], "timezone: 'Nowhere' is not known"),
        (["set", "port", "80"], "port: is each machine's own"),
        (["set", "llm_base_url", "http://evil.example"], "llm_base_url: is each machine's own"),
        (["set", "flor", "1"], "flor: is not a setting"),
    ],
)
def test_what_servers_cannot_have_in_common_is_refused(cofio: Cofio, words: list[str], problem: str) -> None:
    code, _, said = cofio("config", *words)
    assert code != 0
    assert problem in said


def test_a_database_can_neither_send_anything_elsewhere_nor_widen_what_is_kept(
    store: StoreAddress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "desk"))
    forged = {
        "embedder": "remote", "embed_url": "http://evil.example", "embed_model": "m", "allow_secrets": True,
        "llm_base_url": "http://evil.example", "read_store": "postgresql://evil.example/x", "floor": 0.2,
    }  # fmt: skip
    with open_shared_values(store) as shared:
        assert shared is not None
        assert shared.replace("settings", None, json.dumps(forged))
        settings = load_settings(store)
        assert settings == Settings(floor=0.2, vault=False, fetch_model=settings.fetch_model)
        with pytest.raises(Invalid, match="embedder: the servers of this memory have"):
            agree(shared, settings)
    monkeypatch.setenv("COFIO_ALLOW_SECRETS", "true")
    assert load_settings(store).allow_secrets


def test_one_machine_keeps_the_vault_and_another_that_wants_to_is_told(
    store: StoreAddress, tmp_path: Path, cofio: Cofio
) -> None:
    with Engine.open(store, settings=QUIET) as engine:
        assert open_vault(engine, tmp_path / "one", load_settings(store)) is None  # unless it is told to
        for _ in range(2):
            first = open_vault(engine, tmp_path / "one", QUIET)
            assert first is not None
            first.close()
        with pytest.raises(Unavailable, match="the vault of this memory is kept by the server on") as told:
            open_vault(engine, tmp_path / "other", QUIET)
        assert "COFIO_VAULT=false" in str(told.value)
        assert cofio("config", "unset", "vault")[0] == 0
        second = open_vault(engine, tmp_path / "other", QUIET)
        assert second is not None
        second.close()
        with pytest.raises(Unavailable):
            open_vault(engine, tmp_path / "one", QUIET)


# Work is done once.


def test_what_is_written_on_one_is_found_on_the_other_by_the_next_request(start: Start) -> None:
    servers = start(), start()
    for number in range(6):
        writer, reader = servers[number % 2], servers[1 - number % 2]
        writer.say(f"I saw heron number {number}.", session=f"s{number}", at=T + number * DAY)
        writer.ask("flush", session_id=f"s{number}")
        found = reader.ask("search", user_id="alice", query=f"heron number {number}", top_k=20)
        assert any(f"heron number {number}" in json.dumps(each) for each in found["episodes"])


def test_a_model_is_asked_once_for_each_stretch_however_many_servers_there_are(start: Start) -> None:
    with Scripted(right) as model:
        chosen = {"COFIO_LLM_BASE_URL": model.url, "COFIO_LLM_MODEL": "m"}
        servers = start(**chosen), start(**chosen), start()  # the last one has no model, and leaves it to the others
        for number in range(8):
            servers[number % 3].say(f"I like bird number {number}.", session=f"s{number}", at=T + number * DAY)
            servers[number % 3].ask("flush", session_id=f"s{number}")
        wait_until(lambda: _count_jobs(servers[0].ask("jobs", page_size=100)) == {"done": 6})
        # (The server without a model writes no jobs.)
        assert model.tasks.count("episode") == 6
        assert all(count == 1 for count in Counter(call.user for call in model.calls).values())


def _count_jobs(listed: dict[str, list[dict[str, str]]]) -> Counter[str]:
    return Counter(job["status"] for job in listed["jobs"])


def test_what_a_killed_server_was_at_is_done_by_another_and_once(start: Start, store: StoreAddress) -> None:
    with Scripted(slow) as silent, Scripted(right) as model:
        first = start(COFIO_LLM_BASE_URL=silent.url, COFIO_LLM_MODEL="m")
        first.say("I like herons.")
        first.ask("flush", session_id="s")
        wait_until(lambda: silent.calls)
        other = start(COFIO_LLM_BASE_URL=model.url, COFIO_LLM_MODEL="m")
        assert other.get_health()[0] == 200
        claims = set()

        def has_been_renewed() -> bool:
            (job,) = [each for each in read_all(store, Kind.LEDGER) if isinstance(each.data, dict)]
            assert isinstance(job.data, dict)
            claims.add(job.data["claimed_until"])
            return len(claims) > 2

        wait_until(has_been_renewed)
        assert model.calls == []  # the other one has looked, and left it alone
        first.kill()
        wait_until(lambda: _count_jobs(other.ask("jobs")) == {"done": 1})
        assert model.tasks.count("episode") == 1


def test_tasks_of_one_session_are_done_once_and_in_order_though_a_server_is_killed(
    start: Start, store: StoreAddress
) -> None:
    one, other = start(), start()
    texts = [f"On day {number} I saw bird {number}." for number in range(12)]
    for number, text in enumerate(texts):
        server = (one, other)[number % 2]
        server.say(text, at=T + number * DAY, async_mode=True)
        if number == 6:
            one.kill()
            one = other
    other.ask("flush", session_id="s", async_mode=True)
    wait_until(
        lambda: not [each for each in read_all(store, Kind.LEDGER) if _get_status(each) in ("queued", "running")]
    )
    turns = read_all(store, Kind.TURN)
    assert sorted(turn.text for turn in turns) == sorted(texts)
    assert all(turn.parent is not None for turn in turns)  # each is carved
    assert len(read_all(store, Kind.EPISODE)) == len({turn.parent for turn in turns})


def _get_status(record: Record) -> object:
    return record.data.get("status") if isinstance(record.data, dict) else None


def test_a_session_that_has_fallen_silent_is_carved_once(start: Start, store: StoreAddress) -> None:
    servers = [start(COFIO_QUIET_AFTER="0.005") for _ in range(2)]
    for number in range(6):
        servers[number % 2].say(f"I saw finch {number}.", session=f"s{number}", at=T + number * DAY)
    wait_until(lambda: len(read_all(store, Kind.EPISODE)) >= 6)
    wait_until(lambda: all(turn.parent is not None for turn in read_all(store, Kind.TURN)))
    assert len(read_all(store, Kind.EPISODE)) == 6


def embed(asked: Asked) -> Say:
    """Answer as an endpoint for embeddings does."""
    vectors = HashedEmbedder().embed(asked.body["input"])
    rows = [{"index": index, "embedding": vector.tolist()} for index, vector in enumerate(vectors)]
    return Say(body=json.dumps({"object": "list", "data": rows}).encode())


def test_each_record_is_embedded_by_one_server_and_what_a_killed_one_had_by_another(
    start: Start, store: StoreAddress
) -> None:
    with Engine.open(store, settings=QUIET) as engine:
        for number in range(100):
            engine.write(HERE, text=f"note {number}")
    with Scripted(slow) as silent, Scripted(embed) as endpoint:
        chosen = {"COFIO_EMBEDDER": "remote", "COFIO_EMBED_MODEL": "m"}
        killed = start(COFIO_EMBED_URL=silent.url, **chosen)
        wait_until(lambda: silent.calls)
        servers = [start(COFIO_EMBED_URL=endpoint.url, **chosen) for _ in range(2)]
        assert [server.get_health()[0] for server in servers] == [200, 200]
        claimed = "SELECT count(*) FROM @unembedded WHERE claim IS NOT NULL"
        wait_until(lambda: run_sql(store, "SELECT count(*) FROM @unembedded") == run_sql(store, claimed) != [(0,)])
        killed.kill()
        run_sql(store, "UPDATE @unembedded SET until = now()")  # as if its time were over
        wait_until(lambda: run_sql(store, "SELECT count(*) FROM @unembedded") == [(0,)])
        texts = Counter(text for call in endpoint.calls for text in call.body["input"] if text.startswith("note"))
        assert texts == Counter(f"note {number}" for number in range(100))
    assert run_sql(store, "SELECT count(*) FROM @vector") == [(100,)]


# When the database is away.


def test_health_and_metrics_answer_while_the_database_is_away(store: StoreAddress, tmp_path: Path) -> None:
    with closing(Gateway(store.spell())) as gateway, starting(StoreAddress(url=gateway.url), tmp_path) as start:
        server = start()
        assert server.get_health()[1]["status"] == "ok"
        assert "cofio_store_records" in server.request("GET", "/metrics")[1]
        gateway.cut()
        status, told = server.get_health()
        assert (status, told["status"]) == (503, "unavailable")
        status, numbers = server.request("GET", "/metrics")
        # (To know whether a token is needed, the database has to be asked.)
        assert status == 503 or "cofio_store_records" not in numbers
        gateway.is_open = True
        wait_until(lambda: server.get_health()[0] == 200)
        wait_until(lambda: "cofio_store_records" in server.request("GET", "/metrics")[1])
