"""A folder of models that the system does not let this user read: memory is searched by words, at every door."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Engine, Settings
from cofio.embed.minilm import GRAPH, ID, MiniLM
from cofio.embed.model_files import MANIFEST, Unreadable
from cofio.embed.provision import read_state, start
from cofio.values.records import Scope

SAID = "the folder of models cannot be read: `cofio model status` says which and what to do"
ASKED: list[dict[str, object]] = [
    {"id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "search_context", "arguments": {"query": "spare key"}}},
]  # fmt: skip


@pytest.fixture
def unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A link to itself: an error that the system has also for root, who may read any folder."""
    folder = tmp_path / "models"
    folder.symlink_to(folder)
    monkeypatch.setenv("COFIO_MODELS", str(folder))
    monkeypatch.setenv("COFIO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COFIO_FETCH_MODEL", "on")
    return folder


def cofio(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cofio", *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, cwd=folder, timeout=120, check=False)


def test_the_state_says_so_and_nothing_is_fetched(unreadable: Path) -> None:
    for state in (read_state(unreadable), start(unreadable)):
        assert (state.kind, str(state)) == ("unreadable", SAID)
        assert str(unreadable) in state.reason
        assert "set COFIO_MODELS to" in state.reason
    assert unreadable.is_symlink()


@pytest.mark.parametrize("name", [MANIFEST, GRAPH])
def test_a_file_that_is_refused_names_the_folder_and_the_variable(
    models: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = Path.open

    def refuse(path: Path, *how: object, **named: object) -> object:
        if path == models / ID / name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *how, **named)  # type: ignore[call-overload]  # passed on as it came

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(Unreadable) as raised:
        MiniLM(models / ID).embed(["anything"])
    assert str(raised.value) == (
        f"the models in {models} cannot be read (Permission denied): set COFIO_MODELS to a folder that you can read "
        "and write, for this command and for all later ones"
    )
    assert raised.value.public == SAID


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read any folder")
def test_a_folder_of_another_user_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o000)
    assert read_state(folder).kind == "unreadable"


def test_an_open_memory_answers_by_words(unreadable: Path, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=Settings(models=str(unreadable))) as memory:
        memory.write(Scope(), text="The spare key lies under the flower pot.")
        page = memory.search("key")
        assert [hit.record.text for hit in page] == ["The spare key lies under the flower pot."]
        assert page.degraded == f"searched by words only: {SAID}"
        assert memory.stats()["meaning"] == f"off: {SAID}"


def test_commands_answer_by_words_and_say_what_to_do(unreadable: Path, tmp_path: Path) -> None:
    added = cofio(tmp_path, "add", "The spare key lies under the flower pot.")
    assert added.returncode == 0, added.stderr
    found = cofio(tmp_path, "search", "spare key")
    assert (found.returncode, found.stderr) == (0, f"cofio: searched by words only: {SAID}\n")
    assert "flower pot" in found.stdout
    assert json.loads(cofio(tmp_path, "stats", "--json").stdout)["meaning"] == f"off: {SAID}"
    health = json.loads(cofio(tmp_path, "doctor", "--json").stdout)
    assert health["problems"] == []
    assert health["facts"]["model"].startswith(f"the models in {unreadable} cannot be read (")
    told = cofio(tmp_path, "model", "status")
    assert told.returncode == 0
    assert told.stdout.startswith(f"the models in {unreadable} cannot be read (")
    assert "set COFIO_MODELS to" in told.stdout
    refused = cofio(tmp_path, "model", "install")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"cofio: the model cannot be kept in {unreadable} (")


def test_an_agent_is_answered_by_words_and_told_no_folder(unreadable: Path, tmp_path: Path) -> None:
    assert cofio(tmp_path, "add", "The spare key lies under the flower pot.").returncode == 0
    given = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in ASKED)
    done = cofio(tmp_path, "mcp", given=given)
    assert done.returncode == 0, done.stderr
    answer = next(each for each in map(json.loads, done.stdout.splitlines()) if each.get("id") == 2)
    said = json.dumps(answer["result"])
    assert "flower pot" in said
    assert SAID in said
    assert str(tmp_path) not in said
    assert "Traceback" not in done.stderr
