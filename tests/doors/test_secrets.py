"""The same secrets through every door: each does with them what the table says, and no byte of a store has the others.

No secret is written out here: each is made when the tests run, so that no scanner of this repository finds one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any, get_args

import pytest
from starlette.testclient import TestClient

from cofio import Engine, Json, Kind, Scope, Settings
from cofio.capture import capture_transcript
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations
from cofio.doors import threads
from cofio.doors.animus.plugin import Server
from cofio.doors.animus.protocol import PROTOCOL
from cofio.doors.cli import main
from cofio.doors.jsonrpc import RpcError
from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp.tools import call_tool
from cofio.doors.memory_tool import http as memory_tool
from cofio.doors.page.record_view import run_edit
from cofio.doors.page.view_types import Rejection, ViewRequest
from cofio.doors.rest import http as rest
from cofio.secrets.policy import POLICY, Door, SecretAction
from cofio.vault.lifecycle import AttachedVault

from ..importing.everos import make
from ..importing.peer import Peer
from .application import make_app

KEY = "AK" + "IA" + "Z7QRTJ4H" + "MNP2WXYB"
SECRETS = {
    "key": KEY,
    "token": "gh" + "p_" + "a8Kd02mXq91LsPz7Rt" + "VbYw34NcEfGh56Jk78",
    "password": "hunter2" + "-Xk9!q",
    "words": "correct horse" + " battery staple",
    "login": "tiger" + "42x",
    "disguised": KEY[:9] + "\u200b" + KEY[9:],
}
SENTENCE = {
    "key": "The deploy key: {}.",
    "token": "Push with {} as before.",
    "password": "My password is {} since May.",
    "words": "The wifi password is {}.",
    "login": "The data is at postgres://app:{}@db1/app today.",
    "disguised": "The deploy key: {}.",
}
PLACE = "default_app/default_project/users/alice/episodes/episode-2026-11-15.md"
Sending = Callable[[Path, str], str]
"""Sends a text by a door to the store in a folder: why it is refused, or nothing."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with nothing set but what makes tests quick."""
    for name, value in {"EMBEDDER": "none", "SYNC": "normal", "BACKGROUND": "off", "ALLOW_SECRETS": "off"}.items():
        monkeypatch.setenv(f"COFIO_{name}", value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def served(store: Path) -> Iterator[TestClient]:
    """The application, as `cofio serve` puts it together."""
    settings = Settings.load(store)
    memory = Memory(StoreAddress(folder=store), settings, say=lambda _: None)
    vault = AttachedVault(memory.engine, store, settings)
    door = rest.Door(Conversations(memory.engine, mirror=vault.make_mirror(lambda: None)), UTC)
    whole = make_app(StoreAddress(folder=store), memory.engine, door=door)
    with closing(memory), closing(vault), closing(door), TestClient(whole, base_url="http://localhost") as client:
        yield client
        if (files := vault.open()) is not None:
            files.follow_changes()


def run(store: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command; what it says when it fails."""
    code = main([*words, "--store", str(store)])
    told = capsys.readouterr().err
    return told if code else ""


def send_mcp(store: Path, text: str) -> str:
    with Engine.open(store) as engine:
        allow = engine.settings.allow_secrets
        given: dict[str, Any] = {"topic": "t", "content": text}
        answer = call_tool(lambda: engine, "write_context", given, allow_secrets=allow)
    return answer.text if answer.is_error else ""


def send_memory_tool(store: Path, text: str) -> str:
    with served(store) as client:
        body = {"command": "create", "path": "/memories/a.md", "file_text": text}
        answer = client.post(memory_tool.PATH, json=body).json()
    return str(answer["content"]) if answer["is_error"] else ""


def send_animus(store: Path, text: str) -> str:
    plugin = Server(store=str(store))
    plugin.run_request("initialize", {"protocol_version": PROTOCOL, "project_root": str(store.parent)})
    put: dict[str, Json] = {"scope": {"project_id": "p"}, "key": "k", "value": {"note": [text]}}
    try:
        plugin.run_request("memory/put", put)
    except RpcError as refused:
        return str(refused)
    finally:
        assert plugin.project is not None
        plugin.project.close()
    return ""


def send_rest(store: Path, text: str) -> str:
    calls = [{"id": "c", "type": "function", "function": {"name": "run", "arguments": json.dumps({"note": text})}}]
    name = text.partition(". ")[0]
    messages = [
        {"sender_id": "alice", "role": "user", "timestamp": 1_779_967_816_000, "content": text, "sender_name": name},
        {"sender_id": "bot", "role": "assistant", "timestamp": 1_779_967_817_000, "content": "", "tool_calls": calls},
        {"sender_id": "bot", "role": "tool", "timestamp": 1_779_967_818_000, "tool_call_id": "c",
         "content": [{"type": "text", "text": text}]},
    ]  # fmt: skip
    with served(store) as client:
        for name, body in (("add", {"session_id": "s", "messages": messages}), ("flush", {"session_id": "s"})):
            answer = client.post(f"{rest.PREFIX}/{name}", json=body)
            if answer.status_code != 200:
                return answer.text
    return ""


def send_page(store: Path, text: str) -> str:
    with Engine.open(store) as engine:
        note = engine.write(Scope("mine"), title="a note", text="harmless")
        fields = {"id": (note.id,), "version": ("1",), "text": (text,)}
        outcome = run_edit(ViewRequest(engine=engine, parameters=fields))
    return outcome.message if isinstance(outcome, Rejection) else ""


def send_checkpoints(store: Path, text: str) -> str:
    with served(store) as client:
        answer = client.post("/threads/t/checkpoints", json={"state": {"said": text}})
    return "" if answer.status_code == 201 else answer.text


def send_library(store: Path, text: str) -> str:
    with Engine.open(store) as engine:
        engine.write(Scope("mine"), text=text)
    return ""


@pytest.fixture
def doors(capsys: pytest.CaptureFixture[str], folder: Path) -> Mapping[Door, Sending]:
    """Every door that there is."""

    def send_cli(store: Path, text: str) -> str:
        return run(store, capsys, "add", text)

    def send_chat(store: Path, text: str) -> str:
        (folder / "chat.json").write_text(json.dumps([{"role": "user", "content": text}]))
        return run(store, capsys, "chat", "import", str(folder / "chat.json"))

    def send_transcript(store: Path, text: str) -> str:
        record = {"type": "user", "uuid": "u", "sessionId": "s", "cwd": str(folder), "message": {"content": text}}
        (folder / "transcript.jsonl").write_text(json.dumps(record) + "\n")
        with Engine.open(store) as engine:
            capture_transcript(engine, "claude-code", folder / "transcript.jsonl")
        return ""

    def send_product(store: Path, text: str) -> str:
        peer = Peer(folder / "peer")
        peer.write("deploys", text)
        peer.stop()
        return run(store, capsys, "import", "agent-memory-store", str(folder / "peer"))

    def send_vault(store: Path, text: str) -> str:
        make(folder / "everos")
        assert run(store, capsys, "import", "everos", str(folder / "everos")) == ""
        file = store / "vault" / PLACE
        file.write_text(file.read_text().replace("she loves climbing", text))
        return run(store, capsys, "vault", "sync")

    def send_export(store: Path, text: str) -> str:
        send_library(folder / "other", text)
        assert run(folder / "other", capsys, "export", str(folder / "export.jsonl")) == ""
        return run(store, capsys, "import", str(folder / "export.jsonl"))

    return {
        "mcp": send_mcp, "memory_tool": send_memory_tool, "animus": send_animus, "cli": send_cli, "rest": send_rest,
        "page": send_page, "chat_import": send_chat, "capture": send_transcript, "take_over": send_product,
        "vault": send_vault, "import": send_export, "checkpoints": send_checkpoints, "library": send_library,
    }  # fmt: skip


def stored(store: Path) -> str:
    """Every byte of a store, and everything in it that is packed."""
    files = [path.read_bytes().decode("utf-8", "replace") for path in store.rglob("*") if path.is_file()]
    with Engine.open(store) as engine:
        files += [json.dumps([each.text, each.title, each.data], ensure_ascii=False) for each in engine.export()]
        latest = engine.checkpoints.load(threads.SPACE, "t")
        files.append("" if latest is None else json.dumps(latest.state, ensure_ascii=False))
    return "\n".join(files)


@pytest.mark.parametrize("door", POLICY)
def test_every_door_does_with_secrets_what_the_table_says(
    doors: Mapping[Door, Sending], folder: Path, door: Door
) -> None:
    assert {*POLICY} == {*doors} == {*get_args(Door)}
    store, action = folder / "store", POLICY[door]
    told = doors[door](store, " ".join(SENTENCE[kind].format(secret) for kind, secret in SECRETS.items()))
    assert not [secret for secret in SECRETS.values() if secret in told]
    assert ("is no place for secrets" in told) == bool(told) == (action is SecretAction.REFUSE), told
    kept = stored(store) if store.exists() else ""
    assert {secret in kept for secret in SECRETS.values()} == {action is SecretAction.KEEP}
    assert (kept.count("[secret removed: ") >= len(SECRETS)) == (action is SecretAction.MASK)


@pytest.mark.parametrize("door", POLICY)
def test_what_is_no_secret_passes_every_door_as_it_is(doors: Mapping[Door, Sending], folder: Path, door: Door) -> None:
    text = "The password is too short; the API key is in .env as OPENAI_API_KEY, since commit 9fceb02d0ae598e95dc9."
    assert doors[door](folder / "store", text) == ""
    assert text in stored(folder / "store").replace("\\n", "\n")


@pytest.mark.parametrize("door", POLICY)
def test_with_secrets_allowed_every_door_keeps_them(
    doors: Mapping[Door, Sending], folder: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_ALLOW_SECRETS", "on")
    assert doors[door](folder / "store", SENTENCE["token"].format(SECRETS["token"])) == ""
    assert SECRETS["token"] in stored(folder / "store")


def test_a_person_may_insist_at_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SENTENCE["key"].format(KEY)
    store = folder / "store"
    assert "`--allow-secrets` takes it in all the same" in run(store, capsys, "add", text)
    assert not store.exists()
    assert run(store, capsys, "add", text, "--allow-secrets") == ""
    assert "--allow-secrets" in run(store, capsys, "files", "write", "a.md", text)
    assert run(store, capsys, "files", "write", "a.md", "The deploy key: here.") == ""
    assert "--allow-secrets" in run(store, capsys, "files", "edit", "a.md", "here", KEY)
    assert run(store, capsys, "files", "edit", "a.md", "here", KEY, "--allow-secrets") == ""
    (folder / "notes").mkdir()
    (folder / "notes" / "b.md").write_text(text)
    assert "b.md is not copied" in run(store, capsys, "files", "push", "notes")
    assert run(store, capsys, "files", "push", "notes", "--allow-secrets") == ""


def test_a_key_that_names_a_secret_is_told_from_its_value_at_the_doors_for_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.dumps(SECRETS["password"])
    assert "a password" in run(folder / "store", capsys, "add", "--key", "DB_PASSWORD", "--data", data)
    assert "a password" in run(folder / "store", capsys, "add", "--key", "DB_PASSWORD", SECRETS["password"])
    assert run(folder / "store", capsys, "add", "--key", "DB_PLACE", "--data", '"in the safe"') == ""


def test_an_edit_of_a_file_cannot_put_a_secret_together_but_can_take_one_out(folder: Path) -> None:
    def tell(client: TestClient, **command: str | int) -> tuple[bool, str]:
        answer = client.post(memory_tool.PATH, json={"path": "/memories/a.md", **command}).json()
        return bool(answer["is_error"]), str(answer["content"])

    password = SECRETS["password"]
    with served(folder / "store") as client:
        assert not tell(client, command="create", file_text="password = 'HERE'\n")[0]
        halves = {"command": "str_replace", "old_str": "HERE", "new_str": password}
        refused, why = tell(client, **halves)
        assert refused
        assert why.startswith("Error: file: line 1 looks like a password")
        assert tell(client, command="insert", insert_line=0, insert_text=KEY)[0]
        assert "1\tpassword = 'HERE'" in tell(client, command="view")[1]
    with Engine.open(folder / "store") as engine:  # as an earlier version would have kept it
        (file,) = engine.list(kinds=(Kind.FILE,))
        engine.edit(file.id, text=f"password = '{password}'\nThe deploy runs on Friday.\n", if_version=None)
    with served(folder / "store") as client:
        assert not tell(client, command="str_replace", old_str="Friday", new_str="Monday")[0]
        assert not tell(client, command="str_replace", old_str=password, new_str="in the safe")[0]


def test_a_message_that_was_masked_or_is_from_before_secrets_were_masked_is_kept_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SENTENCE["token"].format(SECRETS["token"])
    messages = [{"sender_id": "alice", "role": "user", "timestamp": 1_779_967_816_000, "content": text}]
    for allowed in ("on", "off", "off"):
        monkeypatch.setenv("COFIO_ALLOW_SECRETS", allowed)
        with served(folder / "store") as client:
            for named in (messages, [{**messages[0], "message_id": "x1"}]):
                answer = client.post(f"{rest.PREFIX}/add", json={"session_id": "s", "messages": named})
                assert answer.status_code == 200, answer.text
    with Engine.open(folder / "store") as engine:
        assert engine.count(Scope("rest"), kinds=(Kind.TURN,)) == 2


def test_an_update_by_hand_is_masked(folder: Path) -> None:
    with served(folder / "store") as client:

        def ask(name: str, **body: Any) -> Any:
            answer = client.post(f"{rest.PREFIX}/{name}", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()["data"]

        said = {"sender_id": "alice", "role": "user", "timestamp": 1_779_967_816_000, "content": "I live in Oslo now."}
        ask("add", session_id="s", messages=[said])
        ask("flush", session_id="s")
        (episode,) = ask("get", user_id="alice", memory_type="episode")["episodes"]
        ask("update", id=episode["id"], episode=SENTENCE["key"].format(KEY))
        ask("update", user_id="alice", profile_data={"summary": SENTENCE["words"].format(SECRETS["words"])})
    kept = stored(folder / "store")
    assert KEY not in kept
    assert SECRETS["words"] not in kept
    assert "The deploy key: [secret removed: AWS access key]." in kept


def test_an_import_tells_how_much_was_masked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "chat.json").write_text(json.dumps([{"role": "user", "content": text} for text in (KEY, "Hi.")]))
    peer = Peer(folder / "peer")
    peer.write("deploys", KEY)
    peer.write("deploys", "On Fridays.")
    peer.stop()
    make(folder / "everos")
    file = folder / "everos" / PLACE
    file.write_text(file.read_text().replace("she loves climbing", f"the key is {KEY}"))
    for words in (
        ["chat", "import", "chat.json"],
        ["import", "agent-memory-store", "peer"],
        ["import", "everos", "everos"],
    ):
        assert main([*words, "--json"]) == 0
        told = capsys.readouterr()
        assert json.loads(told.out)["masked"] == 1
        assert words[0] != "chat" or "1 message held what looks like a secret, which is masked" in told.err
    assert KEY not in stored(folder / ".cofio")
