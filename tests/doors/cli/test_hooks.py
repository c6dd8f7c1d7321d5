"""Hooks in the files of coding agents: what is put there, that it can be taken out to the byte, and what they did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, Kind, Settings
from cofio.doors.cli.client_config import read_json
from cofio.doors.cli.hook_files import HOOK_FILES
from cofio.doors.cli.hook_options import CLIENTS
from cofio.doors.hooks.client_protocols import HOOK_CLIENTS
from cofio.doors.hooks.hook_log import HookRun, append_run

from .conftest import Cofio, Ran

PLACES = {
    "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "cursor": ".cursor/hooks.json",
    "gemini": ".gemini/settings.json", "copilot": ".copilot/hooks/cofio.json",
    "opencode": ".config/opencode/plugins/cofio.js",
}  # fmt: skip
OTHERS = {"hooks": [{"type": "command", "command": "say done"}]}
TEXTS = [
    '{}', '{"model": "opus"}',
    '{\n    "hooks": {\n        "Stop": [\n            {"hooks": []},\n            {"hooks": []}\n        ]\n    },\n'
    '    "model": "opus"\n}\n',
    '\ufeff{\r\n\t// mine\r\n\t"model": "opus", /* fast */\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n'
    '\t\t\t{"hooks": []}, // keep me\r\n\t\t],\r\n\t},\r\n}\r\n',
    '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}], "Stop": []}, "x": [1, 2]}',
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    names = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "OPENCODE_CONFIG_DIR", "COFIO_STORE")
    for name in (*names, "XDG_CONFIG_HOME", "XDG_DATA_HOME", "COFIO_HOOKS"):
        monkeypatch.delenv(name, raising=False)
    return home


def find_commands(value: Any) -> Iterator[str]:
    """Every command that a document holds."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("command", "bash", "powershell") and isinstance(each, str):
                yield each
            yield from find_commands(each)
    elif isinstance(value, list):
        for each in value:
            yield from find_commands(each)


@pytest.mark.parametrize("client", PLACES)
def test_each_client_is_told_of_its_own_events_and_what_is_installed_is_taken_out_again(
    cofio: Cofio, home: Path, client: str
) -> None:
    assert CLIENTS == tuple(HOOK_CLIENTS) == tuple(HOOK_FILES) == tuple(PLACES)
    ran = cofio("hooks", "install", client)
    assert ran.code == 0
    assert str(home / PLACES[client]) in ran.out
    assert "transcript" not in ran.err, "no agent has written any"
    if client != "opencode":
        document = json.loads((home / PLACES[client]).read_text())
        assert set(document["hooks"]) == set(HOOK_CLIENTS[client].events)
        assert all(f" hook {client}" in command for command in find_commands(document))
        if client == "copilot":  # whose JSON does not name the event
            assert all(f"--event {event}" in str(entries) for event, entries in document["hooks"].items())
    assert "nothing was changed" in cofio("hooks", "install", client).out
    assert cofio("hooks", "uninstall", client).code == 0
    assert not (home / PLACES[client]).exists()
    assert "nothing was changed" in cofio("hooks", "uninstall", client).out


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_every_other_byte_of_a_file_stays_and_comes_back(cofio: Cofio, home: Path, text: str) -> None:
    file = home / PLACES["claude-code"]
    file.parent.mkdir()
    file.write_bytes(text.encode())
    before = read_json(text, "")
    assert cofio("hooks", "install", "claude-code").code == 0
    installed = file.read_bytes().decode()
    assert (file.parent / "settings.json.before-cofio").read_bytes() == text.encode()
    found = HOOK_FILES["claude-code"].find_entries(installed, "")
    assert set(found) == set(HOOK_CLIENTS["claude-code"].events)
    assert "nothing was changed" in cofio("hooks", "install", "claude-code").out
    assert cofio("hooks", "uninstall", "claude-code").code == 0
    after = file.read_bytes().decode()
    if before in ({"hooks": {}}, {}) or '"Stop": []' in text:  # what is empty goes with what was in it
        assert isinstance(read_json(after, ""), dict)
    else:
        assert after == text


def test_hooks_of_another_copy_of_cofio_are_replaced(cofio: Cofio, home: Path) -> None:
    file = home / PLACES["claude-code"]
    file.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/bin/cofio hook claude-code", "timeout": 5}]}
    file.write_text(json.dumps({"hooks": {"Stop": [OTHERS, old], "Notification": [old]}}))
    ran = cofio("hooks", "install", "claude-code")
    assert "are updated" in ran.out
    document = json.loads(file.read_text())
    assert "/old/bin" not in file.read_text()
    assert document["hooks"]["Stop"][0] == OTHERS
    assert "Notification" not in document["hooks"]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b"\xff\xfe"])
def test_a_file_that_cannot_be_understood_is_left_as_it_is(cofio: Cofio, home: Path, content: bytes) -> None:
    file = home / PLACES["claude-code"]
    file.parent.mkdir()
    file.write_bytes(content)
    ran = cofio("hooks", "install", "claude-code")
    assert ran.code == 1
    assert str(file) in ran.err
    assert file.read_bytes() == content
    assert [each.name for each in file.parent.iterdir()] == ["settings.json"]


def test_all_means_the_clients_that_are_on_this_machine(cofio: Cofio, home: Path) -> None:
    assert cofio("hooks", "install", "all").code == 1
    (home / ".codex").mkdir()
    (home / ".copilot").mkdir()
    ran = cofio("hooks", "install", "all", "--json")
    assert [json.loads(line)["client"] for line in ran.out.splitlines()] == ["codex", "copilot"]


def test_the_memory_and_the_file_can_be_named(cofio: Cofio, home: Path, tmp_path: Path) -> None:
    ran = cofio("hooks", "install", "codex")
    assert (home / ".cofio" / "memory.db").exists()
    assert "made a new memory" in ran.err
    assert "--store" not in (home / PLACES["codex"]).read_text()
    file, store = tmp_path / "project" / "hooks.json", tmp_path / "other memory"
    assert cofio("hooks", "install", "codex", "--file", str(file), "--store", str(store)).code == 0
    assert (store / "memory.db").exists()
    (command, *_) = find_commands(json.loads(file.read_text()))
    assert command.endswith(f" hook codex --store '{store}'")
    assert cofio("hooks", "install", "claude-code", "codex", "--file", str(file)).code == 2
    assert cofio("hooks", "uninstall", "codex", "--file", str(file)).code == 0
    assert not file.exists()


def test_what_is_in_the_way_is_not_overwritten(cofio: Cofio, home: Path) -> None:
    file = home / PLACES["opencode"]
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = 1\n")
    assert cofio("hooks", "install", "opencode").code == 1
    assert cofio("hooks", "uninstall", "opencode").code == 0
    assert file.read_text() == "export const Mine = 1\n"
    (home / ".codex").write_text("a file in the way")
    ran = cofio("hooks", "install", "codex")
    assert ran.code == 1
    assert str(home / ".codex") in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("hooks", "install"), "CLIENT"),
        (("hooks", "install", "codex", "--file", ""), "--file is empty"),
    ],
)
def test_wrong_usage_is_told(cofio: Cofio, home: Path, words: tuple[str, ...], message: str) -> None:
    ran = cofio(*words)
    assert ran.code == 2
    assert message in ran.err
    assert not [*home.iterdir()]


def test_status_tells_what_is_installed_and_what_ran(cofio: Cofio, home: Path) -> None:
    cofio("hooks", "install", "claude-code")
    for number in range(3):
        append_run(
            HookRun(
                at=1794921430.0 + number, client="claude-code", event="UserPromptSubmit", repository="uploader",
                outcome="added" if number else "nothing", milliseconds=80 + 10 * number, tokens=40 * number,
            )
        )  # fmt: skip
    append_run(
        HookRun(at=1794921440.0, client="claude-code", event="Stop", outcome="failed", milliseconds=9, note="no disk")
    )
    status: dict[str, Any] = cofio("hooks", "status", "--json").json
    assert status["memory"] == str(home / ".cofio")
    first = status["clients"][0]
    assert sorted(first["installed"]) == sorted(HOOK_CLIENTS["claude-code"].events)
    assert [each["event"] for each in first["events"]] == ["UserPromptSubmit", "Stop"]
    assert first["events"][0] == {
        "event": "UserPromptSubmit", "runs": 3, "last": "2026-11-17 13:17:12 UTC", "median_ms": 90, "p99_ms": 100,
        "tokens": 120, "outcomes": {"nothing": 1, "added": 2},
    }  # fmt: skip
    assert first["last_failure"] == "2026-11-17 13:17:20 UTC Stop: no disk"
    told = cofio("hooks", "status").out
    assert "claude-code: 6 hooks in" in told
    assert "codex: not installed" in told
    assert "last trouble: 2026-11-17 13:17:20 UTC Stop: no disk" in told


def test_status_tells_of_a_file_that_cannot_be_read_and_of_the_switch(
    cofio: Cofio, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".claude").mkdir()
    (home / PLACES["claude-code"]).write_text("{")
    monkeypatch.setenv("COFIO_HOOKS", "off")
    told = cofio("hooks", "status").out
    assert "is not valid JSON" in told
    assert "COFIO_HOOKS is off" in told
    assert "there is no memory in" in told


@pytest.mark.parametrize(("late", "is_told"), [(1, False), (5, True)])
def test_status_says_what_to_do_where_many_are_late(cofio: Cofio, home: Path, late: int, is_told: bool) -> None:
    for number in range(20):
        outcome = "late" if number < late else "nothing"
        append_run(HookRun(at=1.0, client="codex", event="Stop", outcome=outcome, milliseconds=9))
    ran = cofio("hooks", "status")
    assert (f"{late} of 20 ended with nothing" in ran.err, "COFIO_HOOKS_PATIENCE=0.5" in ran.err) == (is_told, is_told)


@pytest.fixture
def transcript(home: Path) -> Path:
    """What Claude Code has written of a session in a repository."""
    folder = home / "boats"
    folder.mkdir()
    file = home / ".claude" / "projects" / "boats" / "one.jsonl"
    file.parent.mkdir(parents=True)
    line = {
        "type": "user", "uuid": "1", "parentUuid": None, "isSidechain": False, "sessionId": "one", "cwd": str(folder),
        "timestamp": "2026-11-01T10:00:00.000Z", "message": {"role": "user", "content": "The hull is green."},
    }  # fmt: skip
    file.write_text(json.dumps(line) + "\n")
    return file


def list_turns(home: Path) -> list[str]:
    """What was said, as far as it is remembered."""
    with Engine.open(home / ".cofio", settings=Settings(embedder="none", background=False)) as engine:
        return [record.text for record in engine.each() if record.kind is Kind.TURN]


@pytest.mark.parametrize(("words", "turns"), [((), []), (("--import",), ["The hull is green."])])
def test_what_agents_have_written_is_taken_in_if_that_is_wanted(
    cofio: Cofio, home: Path, transcript: Path, words: tuple[str, ...], turns: list[str]
) -> None:
    ran = cofio("hooks", "install", "claude-code", *words)
    assert ran.code == 0
    assert ("1 transcript of" in ran.err, "cofio transcripts import --store" in ran.err) == ((not words,) * 2)
    assert list_turns(home) == turns


@pytest.mark.parametrize(("typed", "turns"), [("y\n", ["The hull is green."]), ("\n", [])])
def test_at_a_terminal_it_is_shown_and_offered(
    terminal: Callable[..., Ran], home: Path, transcript: Path, typed: str, turns: list[str]
) -> None:
    ran = terminal("hooks", "install", "claude-code", typed=typed)
    assert ran.code == 0
    assert ran.err.index("1 message of 1 repository would be taken in") < ran.err.index("Take it in now")
    assert list_turns(home) == turns
