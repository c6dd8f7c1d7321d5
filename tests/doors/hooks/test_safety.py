"""That a hook cannot hurt its host: whatever is wrong, it ends with exit code 0, says nothing and leaves nothing."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from cofio import Engine, Kind
from cofio.doors.hooks.hook_log import LONGEST as LONGEST_LOG
from cofio.doors.hooks.hook_process import MOST_INPUT

from ...waiting import wait_until
from .conftest import LONGEST, PROMPT, RETRIES, SETTINGS, Host

pytestmark = pytest.mark.usefixtures("process")


@pytest.mark.requirement("safe.store")
def test_without_a_memory_it_is_silent_and_makes_none(bare_host: Host) -> None:
    bare_host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    assert not bare_host.store.exists()
    assert "there is no memory in" in bare_host.log()[-1]["note"]


@pytest.mark.requirement("safe.store")
@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be taken for one " * 200])
def test_a_broken_memory_means_silence(host: Host, content: bytes) -> None:
    for file in host.store.glob("memory.db*"):
        file.write_bytes(content)
    host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    assert host.log()[-1]["outcome"] in ("failed", "nothing")


@pytest.mark.requirement("safe.store", "safe.budget")
def test_a_memory_that_another_process_has_locked_is_not_waited_for(host: Host) -> None:
    host.variables["COFIO_HOOKS_PATIENCE"] = "2"
    with closing(sqlite3.connect(host.store / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    assert host.log()[-1]["outcome"] in ("late", "failed")


@pytest.mark.requirement("safe.store")
def test_a_full_disk_means_silence(host: Host) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    host.run("claude-code", content=host.tell("UserPromptSubmit", prompt=PROMPT), preexec_fn=fill).check_silent()
    assert RETRIES.encode() in host.fire("UserPromptSubmit", prompt=PROMPT).out


@pytest.mark.requirement("safe.input", "safe.exit")
@pytest.mark.parametrize(
    "content",
    [
        b"", b"[" * 100_000, b'{"hook_event_name": 7, "session_id": [], "cwd": {}}',
        b'{"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": "relative\\u0000", "prompt": "x y z"}',
        b'{"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/"}',
    ],
    ids=range(5),
)  # fmt: skip
def test_input_that_is_none_of_ours_means_silence(host: Host, content: bytes) -> None:
    host.run("claude-code", content=content).check_silent()


@pytest.mark.requirement("safe.input")
def test_input_that_is_too_long_is_not_read_to_its_end_and_none_is_not_waited_for(host: Host) -> None:
    process = host.start("claude-code")
    with suppress(BrokenPipeError):
        process.communicate(host.tell("UserPromptSubmit", prompt=PROMPT + "x" * MOST_INPUT), timeout=LONGEST)
    assert process.wait(LONGEST) == 0
    with host.start("claude-code") as process:  # whose client never writes
        assert process.wait(LONGEST) == 0


@pytest.mark.requirement("safe.input")
def test_a_client_that_never_closes_its_end_gets_its_answer(host: Host) -> None:
    with host.start("claude-code") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(host.tell("UserPromptSubmit", prompt=PROMPT))
        process.stdin.flush()
        assert RETRIES.encode() in process.stdout.read()
        assert process.wait(LONGEST) == 0


@pytest.mark.requirement("safe.exit")
@pytest.mark.parametrize("words", [(), ("claude-code", "--nothing", "--store")])
def test_wrong_usage_is_no_exit_code_2(host: Host, words: tuple[str, ...]) -> None:
    host.run(*words).check_silent()


@pytest.mark.requirement("safe.exit")
def test_a_client_that_has_closed_its_streams_loses_nothing(host: Host) -> None:
    process = host.start("claude-code")
    assert process.stdout
    assert process.stderr
    assert process.stdin
    process.stdout.close()
    process.stderr.close()
    process.stdin.write(host.tell("UserPromptSubmit", prompt=PROMPT))
    process.stdin.close()
    assert process.wait(LONGEST) == 0


@pytest.mark.requirement("safe.budget")
def test_past_its_budget_it_ends_with_nothing(host: Host) -> None:
    host.variables["COFIO_HOOKS_PATIENCE"] = "0"
    host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    assert host.log()[-1]["outcome"] == "late"


@pytest.mark.requirement("safe.off")
def test_it_can_be_turned_off(host: Host) -> None:
    host.variables["COFIO_HOOKS"] = "off"
    host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    assert host.log() == []


@pytest.mark.requirement("safe.children")
def test_no_process_is_left_behind(host: Host) -> None:
    transcript = host.write_transcript([("user", "We decided on kestrel."), ("assistant", "Done.")])
    process = host.start("claude-code")
    process.communicate(host.tell("Stop", transcript_path=str(transcript)), timeout=LONGEST)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.requirement("safe.killed")
def test_a_hook_that_is_killed_at_any_moment_loses_nothing(host: Host) -> None:
    turns = [
        (role, f"Turn {number} is about topic {number % 7}.") for number in range(60) for role in ("user", "assistant")
    ]
    content = host.tell("Stop", transcript_path=str(host.write_transcript(turns)))

    def list_sizes() -> dict[Path, int]:
        return {file: file.stat().st_size for file in sorted(host.store.rglob("*")) if file.is_file()}

    for changes in range(6):  # killed when it has changed the store so many times, as far as that is seen
        with host.start("claude-code") as process:
            assert process.stdin
            process.stdin.write(content)
            process.stdin.close()
            before = list_sizes()
            for _ in range(changes):
                wait_until(lambda: process.poll() is not None or list_sizes() != before, every=0.001)  # noqa: B023
                before = list_sizes()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    host.run("claude-code", content=content).check_silent()
    with Engine.open(host.store, settings=SETTINGS) as engine:
        texts = [
            record.text
            for record in engine.each()
            if record.kind is Kind.TURN and isinstance(record.data, dict) and record.data["session_id"] == "now"
        ]
        assert engine.check() == []
    assert sorted(texts) == sorted(text for _, text in turns)


@pytest.mark.requirement("safe.log")
def test_the_log_is_bounded_and_holds_no_word_of_what_was_said(host: Host) -> None:
    folder = host.home / ".local" / "share" / "cofio"
    host.fire("UserPromptSubmit", prompt=PROMPT)
    assert "gateway" not in (folder / "hooks.jsonl").read_text()
    assert (folder / "hooks.jsonl").stat().st_mode & 0o777 == 0o600
    with (folder / "hooks.jsonl").open("a") as log:
        log.write("x" * LONGEST_LOG + "\n")
    host.fire("UserPromptSubmit", prompt=PROMPT)
    assert len(host.log()) == 1
    assert {file.name for file in folder.iterdir() if file.name.startswith("hooks")} == {
        "hooks.jsonl",
        "hooks.old.jsonl",
    }


@pytest.mark.requirement("safe.log")
def test_a_log_that_cannot_be_written_is_done_without(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    host.variables["XDG_DATA_HOME"] = str(tmp_path / "file")
    assert RETRIES.encode() in host.fire("UserPromptSubmit", prompt=PROMPT).out
