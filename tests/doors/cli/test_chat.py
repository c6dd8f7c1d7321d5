"""`cofio chat import`: conversations from files become memory, once, or nothing does."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio import Engine, Kind, Scope

from .conftest import Cofio, Ran

ANNA = "Anna: I moved to Oslo in May.\nassistant: How is it there?\nAnna: I love skiing in the hills.\n"
HELLO = [{"role": "user", "content": "I work as a nurse."}, {"role": "assistant", "content": "Noted."}]


def texts(cofio: Cofio, scope: str, kind: str) -> list[str]:
    """The texts of a scope's records, in the order in which they were said."""
    lines = cofio("list", "--scope", scope, "--exact", "--kind", kind, "--json", "--limit", "10000").out.splitlines()
    records = sorted(map(json.loads, lines), key=lambda record: record["created_at"])
    return [record["text"] for record in records]


def test_a_chat_becomes_messages_an_episode_and_facts(cofio: Cofio, folder: Path) -> None:
    (folder / "anna.txt").write_text(ANNA)
    ran = cofio("chat", "import", "anna.txt")
    assert (ran.code, ran.out) == (0, "imported 3 messages of 1 conversation as 1 episode\n")
    home = "rest/default/default/user/Anna"
    assert texts(cofio, home, "turn") == [
        "I moved to Oslo in May.", "How is it there?", "I love skiing in the hills.",
    ]  # fmt: skip
    assert "Oslo" in texts(cofio, home, "episode")[0]
    assert any("skiing" in fact for fact in texts(cofio, home, "fact"))
    assert cofio("search", "skiing", "--scope", home).rows
    assert cofio("stats", "--json").json["waiting_for_vectors"] == 0


def test_a_second_time_changes_nothing_and_a_longer_version_adds_only_what_is_new(cofio: Cofio, folder: Path) -> None:
    (folder / "anna.txt").write_text(ANNA)
    cofio("chat", "import", "anna.txt")
    before = cofio("export").out
    os.utime(folder / "anna.txt", (1_700_000_000, 1_700_000_000))
    again = cofio("chat", "import", "anna.txt")
    assert again.out == "imported 0 messages of 1 conversation; 3 were here already\n"
    assert (again.code, again.err) == (0, "")
    assert cofio("export").out == before
    (folder / "anna.txt").write_text(f"{ANNA}assistant: Nice!\nAnna: I sold my car.\n")
    ran = cofio("chat", "import", "anna.txt")
    assert ran.out == "imported 2 messages of 1 conversation as 1 episode; 3 were here already\n"
    assert texts(cofio, "rest/default/default/user/Anna", "turn")[3:] == ["Nice!", "I sold my car."]


def test_every_option_is_heeded(cofio: Cofio, memory: Engine) -> None:
    ran = cofio(
        "chat", "import", "-", "--app", "shop", "--project", "web", "--user", "anna", "--agent", "helper",
        "--session", "s1", "--format", "openai", "--date", "2026-05-28T11:30", "--no-flush", "--json",
        stdin=json.dumps([{"messages": HELLO}, {"messages": HELLO}]),
    )  # fmt: skip
    assert ran.json == {
        "format": "openai", "conversations": 2, "imported": 4, "kept": 0, "differing": 0, "episodes": 0,
        "left_out": {}, "mended": 0, "masked": 0,
    }  # fmt: skip
    waiting = memory.list(Scope("rest", "shop", "web", "session", "s1"), order="created", newest=False)
    assert [(record.author, record.created_at.isoformat()) for record in waiting] == [
        ("anna", "2026-05-28T11:30:00+00:00"), ("helper", "2026-05-28T11:30:01+00:00"),
    ]  # fmt: skip
    assert memory.count(Scope("rest", "shop", "web", "session", "s1-2")) == 2
    assert memory.count(kinds=(Kind.EPISODE,)) == 0
    flushed = cofio(
        "chat", "import", "-", "--app", "shop", "--project", "web", "--user", "anna", "--agent", "helper",
        "--session", "s1", stdin=json.dumps(HELLO),
    )  # fmt: skip
    assert flushed.out == "imported 0 messages of 1 conversation as 1 episode; 2 were here already\n"
    assert memory.count(Scope("rest", "shop", "web", "session", "s1")) == 0


def test_dates_without_a_zone_are_of_the_settings_zone(
    cofio: Cofio, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_TIMEZONE", "Europe/Oslo")
    cofio("chat", "import", "-", "--date", "2026-05-28T11:30", "--session", "a", stdin="Anna: hi")
    cofio("chat", "import", "-", "--session", "b", stdin="[2026-05-28 11:30] Anna: ho")
    turns = memory.list(kinds=(Kind.TURN,))
    assert {turn.created_at.isoformat() for turn in turns} == {"2026-05-28T09:30:00+00:00"}


def test_what_has_changed_in_a_file_since_stays_as_it_was_and_is_told(cofio: Cofio) -> None:
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["I live in Rome."]}}
    nodes = {"r": {"message": None, "parent": None, "children": ["a"]}, "a": {"message": message, "parent": "r"}}
    exported = json.dumps([{"conversation_id": "c1", "title": "Rome", "mapping": nodes, "current_node": "a"}])
    assert cofio("chat", "import", "-", "--user", "anna", stdin=exported).out.startswith("imported 1 message of 1 conv")
    again = cofio("chat", "import", "-", "--user", "anna", "--json", stdin=exported.replace("Rome.", "Paris."))
    assert (again.json["imported"], again.json["kept"], again.json["differing"]) == (0, 1, 1)
    assert again.err == "cofio: 1 of those that were here have changed in the file; here they stay as they were\n"


def test_more_than_one_batch_is_taken_in_and_someone_who_watches_sees_how_far_it_is(
    cofio: Cofio, terminal: Callable[..., Ran], folder: Path
) -> None:
    lines = [
        json.dumps({"role": "user" if number % 2 == 0 else "assistant", "content": f"line {number} of a long talk"})
        for number in range(1203)
    ]
    (folder / "long.jsonl").write_text("\n".join(lines))
    ran = terminal("chat", "import", "long.jsonl")
    assert (ran.code, "importing" in ran.err) == (0, True)
    assert "imported 1,203 messages of 1 conversation" in ran.err
    assert len(texts(cofio, "rest/default/default/user/user", "turn")) == 1203
    assert len(texts(cofio, "rest/default/default/user/user", "episode")) >= 24
    assert cofio("scopes", "--scope", "rest/default/default/session").out == ""
    assert cofio("chat", "import", "long.jsonl", "--json").json["kept"] == 1203
    odd = cofio("chat", "import", "-", stdin='[{"role": "user", "content": "a\\u0000b\\ud800"}]')
    assert (odd.code, "cofio: 1 text held characters that cannot be kept\n" in odd.err) == (0, True)


@pytest.mark.parametrize(
    ("argv", "stdin", "problem"),
    [
        (["-"], "", "stdin: is empty"),
        (["-"], "Once upon a time", 'stdin, line 1: is neither JSON nor a message such as "Anna: hello"'),
        (["-"], '{"role": "user", "content": "a"}\n' * 3000 + "{", "stdin, line 3001: is not JSON"),
        (["-"], '[{"role": "system", "content": "a"}]', "stdin: holds no messages that can be taken in; left out: sys"),
        (["-"], "Anna: " + "x" * 1_048_577, "stdin, line 1, text: longer than the limit of 1,048,576 characters; make"),
        (["-", "--date", "9999-12-31T23:59"], "Anna: hi", "--date: is outside the years 1 to 9999"),
        (["nowhere.json"], "", "there is no file nowhere.json; name "),
        (["."], "", ". is a folder; name "),
    ],
)  # fmt: skip
def test_what_is_not_sound_changes_nothing(
    cofio: Cofio, folder: Path, argv: list[str], stdin: str, problem: str
) -> None:
    ran = cofio("chat", "import", *argv, stdin=stdin)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"cofio: {problem}")
    assert ran.err.count("\n") == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ["--user", "Anna Berg"], ["--app", ""], ["--session", "x" * 129], ["--format", "xml"], ["--date", "yesterday"],
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_wrong_usage(cofio: Cofio, folder: Path, options: list[str]) -> None:
    ran = cofio("chat", "import", "-", *options, stdin="Anna: hi")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"cofio chat import: argument {options[0]}: ")
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("process")
def test_a_pipe_may_be_named_in_place_of_a_file(command: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    ran = command("cofio chat import <(echo 'Anna: hi') --json --session pipe && echo 'Anna: hi' | cofio chat import -")
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert json.loads(first)["imported"] == 1
    assert second == "imported 1 message of 1 conversation as 1 episode"
