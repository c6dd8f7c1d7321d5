"""A folder of models that the system does not let this user read: memory is searched by words, at every door."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cofio.embed.minilm import GRAPH, ID, MiniLM
from cofio.embed.model_files import Unreadable
from cofio.embed.provision import read_state, start

SAID = "the folder of models cannot be read: `cofio model status` says which and what to do"


@pytest.fixture
def unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A link to itself: an error that the system has also for root, who may read any folder."""
    folder = tmp_path / "models"
    folder.symlink_to(folder)
    monkeypatch.setenv("COFIO_MODELS", str(folder))
    monkeypatch.setenv("COFIO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COFIO_FETCH_MODEL", "on")
    return folder


def cofio(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cofio", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)


def test_the_state_says_so_and_nothing_is_fetched(unreadable: Path) -> None:
    for state in (read_state(unreadable), start(unreadable)):
        assert (state.kind, str(state)) == ("unreadable", SAID)
        assert str(unreadable) in state.reason
        assert "set COFIO_MODELS to" in state.reason
    assert unreadable.is_symlink()


def test_a_file_that_is_refused_names_the_folder_and_the_variable(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open

    def refuse(path: Path, *how: object, **named: object) -> object:
        if path == models / ID / GRAPH:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *how, **named)  # type: ignore[call-overload]  # passed on as it came

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(Unreadable, match=f"the models in {models} cannot be read .*: set COFIO_MODELS") as raised:
        MiniLM(models / ID).embed(["anything"])
    assert raised.value.public == SAID  # what an agent is told names no folder


@pytest.mark.usefixtures("process")
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
