"""A store whose server cannot be reached: each door says so in its own form, and none shows the password of its URL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Engine, Unavailable
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.doors.lazy_memory import Memory
from cofio.library import CofioStore

from ..postgres import PASSWORD
from ..servers import free_port
from .animus.conftest import Inside, scope
from .mcp.conftest import SETTINGS, Pipes, Tools


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreAddress:
    """The address of a server that is not there, which is set for all doors."""
    address = StoreAddress(url=f"postgresql://me:{PASSWORD}@127.0.0.1:{free_port()}/nowhere")
    monkeypatch.setenv("COFIO_STORE", address.spell())
    monkeypatch.chdir(tmp_path)
    return address


@pytest.mark.parametrize("words", [["add", "x"], ["doctor"], ["vault", "status"]])
def test_a_command_says_so_in_one_line(
    store: StoreAddress, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cofio: the database failed: ")
    assert "Connection refused" in printed.err
    assert printed.err.count("\n") == 1
    assert PASSWORD not in printed.err


def test_what_opens_no_store_goes_on_and_masks_the_password(
    store: StoreAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config"]) == 0
    printed = capsys.readouterr()
    assert str(store) in printed.out
    assert PASSWORD not in printed.out + printed.err


def test_a_tool_over_mcp_says_so(store: StoreAddress) -> None:
    told: list[str] = []
    memory = Memory(store, SETTINGS, say=told.append)
    client = Pipes(memory)
    answer = Tools(client).write_context(topic="t", content="c")
    client.close()
    memory.close()
    assert answer.error
    assert "Connection refused" in answer.text
    assert PASSWORD not in answer.text + "".join(told)


def test_a_plugin_of_animus_says_so(store: StoreAddress, tmp_path: Path) -> None:
    host = Inside()
    host.initialize(tmp_path)
    code, message, data = host.error("memory/put", {"scope": scope(), "key": "k", "value": 1})
    health = host.result("health/check")
    host.close()
    assert (code, data) == (-32304, {"category": "backend_unavailable"})
    assert (health["status"], health["last_error"]) == ("degraded", message)
    assert PASSWORD not in message


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.usefixtures("process")
def test_a_server_does_not_start_and_says_so_in_one_line(store: StoreAddress, workers: str) -> None:
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--workers", workers]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "Connection refused" in done.stderr
    assert PASSWORD not in done.stderr


def test_a_program_gets_the_error_of_the_library(store: StoreAddress) -> None:
    with pytest.raises(Unavailable, match="Connection refused") as refused:
        CofioStore(Engine.open(store))
    assert PASSWORD not in f"{refused.value}{refused.value.public}"
