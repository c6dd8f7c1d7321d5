"""Locks between processes are the ones of earlier versions, and end with the process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Conflict
from cofio.http.tokens import Tokens
from cofio.system.locks import lock_folder, try_lock

HOLD = """
import os, sys
from cofio.system.locks import try_lock
handle = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
print(try_lock(handle), flush=True)
sys.stdin.read()
"""


def holder(file: Path) -> subprocess.Popen[str]:
    """Another process, which has the lock by now."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


@pytest.mark.usefixtures("process")
def test_a_lock_is_held_against_other_processes_and_ends_when_they_are_killed(tmp_path: Path) -> None:
    process = holder(tmp_path / "lease")
    handle = os.open(tmp_path / "lease", os.O_RDWR)
    try:
        assert not try_lock(handle)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert try_lock(handle)
    finally:
        os.close(handle)


def test_the_lock_is_the_one_that_earlier_versions_take(tmp_path: Path) -> None:
    earlier, ours = (os.open(tmp_path / "lease", os.O_CREAT | os.O_RDWR) for _ in range(2))
    try:
        fcntl.flock(earlier, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not try_lock(ours)
        fcntl.flock(earlier, fcntl.LOCK_UN)
        assert try_lock(ours)
        with pytest.raises(BlockingIOError):
            fcntl.flock(earlier, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(earlier)
        os.close(ours)


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_one_at_a_time_holds_a_folder_in_which_nothing_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    with lock_folder(folder, wait=True) as mine:
        assert mine
        with lock_folder(tmp_path / "link", wait=False) as theirs:
            assert not theirs
        with lock_folder(tmp_path, wait=False) as other:
            assert other
    with lock_folder(folder, wait=False) as mine:
        assert mine
    assert os.listdir(folder) == []
    assert len(list(tmp_path.glob("cofio-*.lock"))) == (2 if platform == "win32" else 0)


@pytest.mark.usefixtures("process")
def test_tokens_are_changed_by_one_process_at_a_time(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from cofio.http.tokens import Tokens\n"
    code += "for n in range(10): Tokens(Path(sys.argv[1])).add(f'{sys.argv[2]}-{n}')"
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), each]) for each in ("a", "b", "c")]
    assert [each.wait(60) for each in started] == [0, 0, 0]
    assert len(Tokens(tmp_path).all()) == 30
    with pytest.raises(Conflict):
        Tokens(tmp_path).add("a-3")
