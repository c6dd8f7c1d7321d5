"""What a process can know of itself and others, in the way of each system."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tests.waiting import wait_until

from cofio.system import processes
from cofio.vault.journal import Journal
from cofio.vault.writer import Stamp


@pytest.mark.usefixtures("process")
def test_a_process_is_known_to_run_or_to_have_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert processes.is_running(child.pid)
    child.communicate(b"\n")
    assert not processes.is_running(child.pid)
    assert processes.is_running(1)


@pytest.mark.usefixtures("process")
def test_a_detached_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    done = tmp_path / "done"
    child = f"import os; open({str(done)!r}, 'w').write(f'{{os.read(0, 1)}} {{os.getcwd()}}')"
    starter = (
        "import sys; from pathlib import Path; from cofio.system.processes import start_detached\n"
        f"start_detached([sys.executable, '-c', {child!r}], Path({str(tmp_path)!r}))"
    )
    ended = subprocess.run([sys.executable, "-W", "error", "-c", starter], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
    wait_until(lambda: done.exists() and done.read_text())
    assert done.read_text() == f"b'' {tmp_path.resolve()}"


def test_a_process_knows_its_peak_of_memory_and_the_start_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 10_000_000 < processes.measure_peak_memory() < 100_000_000_000
    assert len(processes.read_boot_id()) == 36
    monkeypatch.setattr(processes, "_BOOT", Path("/nowhere"))
    assert processes.read_boot_id() == ""


def test_a_start_of_the_machine_that_cannot_be_told_from_another_counts_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reopened() -> list[str]:
        state = Journal(tmp_path)
        try:
            with state.lock():
                state.store_file(state.read_file("a.md"), {}, Stamp(1, 2, 3))
            with_boot = Journal(tmp_path)
            known = list(with_boot.list_files())
            with_boot.close()
            return known
        finally:
            state.close()

    assert reopened() == ["a.md"]
    monkeypatch.setattr("cofio.vault.journal.read_boot_id", lambda: "")
    assert reopened() == []


def test_the_clock_goes_on_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for platform in ("linux", "darwin", "win32"):
        monkeypatch.setattr(sys, "platform", platform)
        first = processes.read_steady_clock()
        assert first <= processes.read_steady_clock()


def test_limits_are_set_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    set_: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: set_.update({what: limits}))
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(sys, "platform", "win32")
    processes.limit_resources(seconds=3, memory=1000)
    assert processes.raise_file_limit(5000) == 5000
    processes.lower_priority(10)
    processes.run_after_fork(lambda: None)
    assert set_ == {}
    monkeypatch.setattr(sys, "platform", "darwin")
    processes.limit_resources(seconds=3, memory=1000)
    assert resource.RLIMIT_AS not in set_
    assert set_[resource.RLIMIT_CPU] == (3, 3)
    monkeypatch.setattr(sys, "platform", "linux")
    processes.limit_resources(seconds=3, memory=1000)
    assert set_[resource.RLIMIT_AS] == (1000, 1000)


def test_a_server_takes_no_address_that_another_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as ours:
        processes.claim_address(ours)
        with pytest.raises(OSError, match="in use"):
            ours.bind(taken.getsockname())
    options: list[tuple[int, int, int]] = []
    fake = types.SimpleNamespace(setsockopt=lambda *given: options.append(given))
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    processes.claim_address(fake)  # type: ignore[arg-type]  # it is asked for nothing else
    assert options == [(socket.SOL_SOCKET, -5, 1)]


THREADS_WITH_MEMORY = """
import ctypes, threading
from cofio.system.processes import share_heaps
share_heaps()
barrier = threading.Barrier(9)
def take():
    taken = [bytearray(50_000) for _ in range(100)]
    barrier.wait()
    barrier.wait()
for _ in range(8):
    threading.Thread(target=take).start()
barrier.wait()
ctypes.CDLL(None).malloc_stats()
barrier.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one heap")
@pytest.mark.parametrize(("variables", "heaps"), [({}, 2), ({"MALLOC_ARENA_MAX": "3"}, 3)])
@pytest.mark.usefixtures("process")
def test_threads_share_two_heaps_unless_the_environment_says_how_many(variables: dict[str, str], heaps: int) -> None:
    command = [sys.executable, "-c", THREADS_WITH_MEMORY]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, check=True)
    shown = done.stderr.count(b"Arena ")
    if not shown:
        pytest.skip("this C library does not tell of its heaps")
    assert shown == heaps
