"""Several servers on one database, each as on a machine of its own: what they agree on, and that work is done once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cofio import Engine, Invalid, Scope, Settings, Unavailable
from cofio.backends.postgres.database import ServerAddress
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations
from cofio.conversations.tasks import ConversationJobs
from cofio.doors.cli import main
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.agreement import agree
from cofio.engine.jobs import RUNNERS, JobRunner, make_job
from cofio.engine.opening import load_settings, open_shared_values
from cofio.http.tokens import open_tokens
from cofio.values.records import Kind, Record
from cofio.values.scopes import CONVERSATIONS, JOBS
from cofio.vault.lifecycle import open_vault

from .. import postgres
from ..llm.scripted import Asked, Say, Scripted, right, slow
from ..waiting import wait_until
from .processes import CofioServer, Start, T, starting

QUIET = Settings(background=False, embedder="none", sync="normal")
DAY = 86_400_000
HERE = Scope("here")
END_VECTOR_CLAIMS = "UPDATE @unembedded SET until = now()"  # as if their time were over
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


def test_servers_find_what_others_wrote_and_know_of_tokens_that_others_made_or_ended(
    start: Start, cofio: Cofio
) -> None:
    servers = start(), start()
    for number in range(6):
        writer, reader = servers[number % 2], servers[1 - number % 2]
        writer.say(f"I saw heron number {number}.", session=f"s{number}", at=T + number * DAY)
        writer.ask("flush", session_id=f"s{number}")
        found = reader.ask("search", user_id="alice", query=f"heron number {number}", top_k=20)
        assert any(f"heron number {number}" in json.dumps(each) for each in found["episodes"])
    code, token, _ = cofio("token", "add", "laptop")
    assert code == 0
    for server in servers:
        wait_until(partial(is_refused, server))
        assert not is_refused(server, token.strip())
    assert cofio("token", "list")[1].split("\t")[0] == "laptop"
    assert cofio("token", "rm", "laptop")[0] == 0
    for server in servers:
        wait_until(partial(is_refused, server, token.strip()))


def is_refused(server: CofioServer, token: str = "") -> bool:
    """Whether a call with a token, or with none, is refused; otherwise it is answered."""
    status, _ = server.request("POST", "/api/v2/memory/jobs", {}, token)
    assert status in (200, 401)
    return status == 401


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
        run_sql(store, "UPDATE @shared SET value = '[1]' WHERE name = 'tokens'")
        with pytest.raises(Unavailable, match="the tokens in the database are damaged"):
            tokens.refresh()
        assert "no client is let in" in tokens.check()[0]


def test_tokens_that_are_made_at_once_are_all_there(store: StoreAddress) -> None:
    Engine.open(store, settings=QUIET).close()
    names = [f"t{number}" for number in range(8)]
    with open_tokens(store) as tokens, ThreadPoolExecutor(8) as pool:
        list(pool.map(tokens.add, names, timeout=60))
        assert sorted(token.name for token in tokens.all()) == names


def test_the_first_server_says_what_all_have_in_common(store: StoreAddress, start: Start, cofio: Cofio) -> None:
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
    for name, value, problem in (
        ("floor", "2", "floor: 2.0 is not a number from 0 to 1"),
        ("llm_base_url", "http://evil.example", "llm_base_url: is each machine's own"),
    ):
        code, _, told = cofio("config", "set", name, value)
        assert code != 0
        assert problem in told
    assert cofio("config", "set", "floor", "0.5")[:2] == (0, "floor = 0.5\n")
    with open_shared_values(store) as shared:
        assert shared is not None
        agree(shared, replace(load_settings(store), floor=0.5))
        assert cofio("config", "unset", "floor")[0] == 0
        agree(shared, replace(load_settings(store), floor=0.7))
        with pytest.raises(Invalid, match=r"floor: the servers of this memory have 0\.7"):
            agree(shared, replace(load_settings(store), floor=0.5))


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


def test_silent_sessions_are_carved_once_and_a_model_is_asked_once_for_each(start: Start, store: StoreAddress) -> None:
    with Scripted(right) as model:
        chosen = {"COFIO_LLM_BASE_URL": model.url, "COFIO_LLM_MODEL": "m", "COFIO_QUIET_AFTER": "0.005"}
        servers = start(**chosen), start(**chosen)
        for number in range(8):
            # Of one person each: what a model says of a profile that changes meanwhile, it has to say again.
            servers[number % 2].say(f"I saw finch {number}.", session=f"s{number}", by=f"person{number}")
        wait_until(lambda: [job["status"] for job in servers[0].ask("jobs", page_size=100)["jobs"]] == ["done"] * 8)
        assert len(read_all(store, Kind.EPISODE)) == 8
        assert all(turn.parent is not None for turn in read_all(store, Kind.TURN))
        assert model.tasks.count("episode") == 8
        assert all(count == 1 for count in Counter(call.user for call in model.calls).values())


def test_what_a_killed_server_was_at_is_done_by_another_once_and_in_order(start: Start, store: StoreAddress) -> None:
    texts = [f"On day {number} I saw bird {number}." for number in range(12)]
    with Scripted(slow) as silent, Scripted(right) as model, Engine.open(store, settings=QUIET) as engine:

        def count_calls(word: str) -> int:
            return sum(word in call.user for call in model.calls if call.task == "episode")

        # It does its own jobs and looks for no others', or it would have its model asked about owls.
        first = start(COFIO_LLM_BASE_URL=silent.url, COFIO_LLM_MODEL="m", POLL_SECONDS="3600")
        first.say("I like herons.", session="m", by="ann")  # of whom nothing else is told meanwhile
        first.ask("flush", session_id="m")
        wait_until(lambda: silent.calls)
        other = start(COFIO_LLM_BASE_URL=model.url, COFIO_LLM_MODEL="m")  # which looks for what was left undone
        other.say("I like owls.", session="o", by="bob")
        other.ask("flush", session_id="o")
        wait_until(lambda: count_calls("owls"))
        (job,) = [each for each in list_running(engine) if each["session_id"] == "m"]
        beat = engine.get(RUNNERS, job["owner"], kind=Kind.LEDGER)
        assert beat is not None
        wait_until(lambda: engine.read(beat.id).version > beat.version)  # it is alive
        assert count_calls("herons") == 0  # it leaves alone what another is at
        for number, text in enumerate(texts):
            (first if number in (0, 2, 4, 6) else other).say(text, at=T + number * DAY, async_mode=True)
            if number == 6:
                first.kill()
        run_sql(store, END_VECTOR_CLAIMS)
        other.ask("flush", session_id="s", async_mode=True)
        engine.delete(beat.id)  # as if it had expired
        wait_until(lambda: are_done(engine))
        assert count_calls("herons") in (1, 2)  # what is taken over may be asked for again, and is stored once
    turns = read_all(store, Kind.TURN)
    assert sorted(turn.text for turn in turns) == sorted(["I like herons.", "I like owls.", *texts])
    assert all(turn.parent is not None for turn in turns)  # each is carved
    assert len(read_all(store, Kind.EPISODE)) == len({turn.parent for turn in turns})


def list_jobs(engine: Engine) -> list[dict[str, Any]]:
    """The tasks and jobs of conversations."""
    found = [record.data for scope in (CONVERSATIONS, JOBS) for record in engine.each(scope, kinds=[Kind.LEDGER])]
    return [data for data in found if isinstance(data, dict) and "status" in data]


def list_running(engine: Engine) -> list[dict[str, Any]]:
    return [data for data in list_jobs(engine) if data["status"] == "running"]


def are_done(engine: Engine) -> bool:
    return {data["status"] for data in list_jobs(engine)} == {"done"}


def test_a_server_without_a_model_leaves_its_part_to_those_that_have_one(store: StoreAddress) -> None:
    with Engine.open(store, settings=QUIET) as engine:
        (job,) = engine.apply([make_job("refine", Scope("default", "default"), {"task": "refine", "session_id": "s"})])
        jobs = ConversationJobs(Conversations(engine))
        runner = JobRunner(engine, jobs.make_handlers())
        jobs.add_chores(runner)
        runner.start()
        runner.close(5.0)
        assert isinstance(job, Record)
        assert engine.read(job.id) == job


def embed(asked: Asked) -> Say:
    """Answer as an endpoint for embeddings does."""
    vectors = HashedEmbedder().embed(asked.body["input"])
    rows = [{"index": index, "embedding": vector.tolist()} for index, vector in enumerate(vectors)]
    return Say(body=json.dumps({"object": "list", "data": rows}).encode())


def test_each_record_is_embedded_once_and_a_killed_server_s_by_another(start: Start, store: StoreAddress) -> None:
    with Engine.open(store, settings=QUIET) as engine:
        for number in range(100):
            engine.write(HERE, text=f"note {number}")
    count, claimed = "SELECT count(*) FROM @unembedded", "SELECT count(*) FROM @unembedded WHERE claim IS NOT NULL"
    with Scripted(embed, slow, embed) as endpoint:
        chosen = {"COFIO_EMBEDDER": "remote", "COFIO_EMBED_MODEL": "m", "COFIO_EMBED_URL": endpoint.url}
        killed = start(**chosen)
        wait_until(lambda: len(endpoint.calls) > 1)
        assert start(**chosen).get_health()[0] == 200
        wait_until(lambda: run_sql(store, count) == run_sql(store, claimed) != [(0,)])  # it leaves those alone
        killed.kill()
        run_sql(store, END_VECTOR_CLAIMS)
        wait_until(lambda: run_sql(store, count) == [(0,)])
        stored = [endpoint.calls[0], *endpoint.calls[2:]]
        texts = Counter(text for call in stored for text in call.body["input"] if text.startswith("note"))
        assert texts == Counter(f"note {number}" for number in range(100))
    assert run_sql(store, "SELECT count(*) FROM @vector") == [(100,)]
