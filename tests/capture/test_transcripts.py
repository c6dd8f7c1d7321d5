"""Each client's transcripts are read as it writes them, whatever else is in them."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.capture import find_transcript
from cofio.capture.transcripts.line_reader import LONGEST, Position
from cofio.capture.transcripts.transcript_messages import ReadCounts, TranscriptMessage
from cofio.capture.transcripts.transcript_sources import (
    CLIENTS,
    Transcript,
    TranscriptReading,
    find_transcripts,
    open_reading,
)
from cofio.doors.cli import intake_options
from cofio.values.errors import Invalid

from ..tiers import scale_examples
from .made import (
    MAKERS,
    SESSION,
    START,
    find_file,
    make_claude_code,
    run,
    say,
    user,
    write_lines,
    write_opencode,
    write_transcript,
)

SCRIPT = [
    user("Why is the boat red?"),
    run("ls /nowhere", "ls: cannot access '/nowhere'", failed=True),
    run("ls", "hull.py"),
    say("Because of hull.py."),
]


def read(transcript: Transcript, position: Position | None = None) -> tuple[list[TranscriptMessage], TranscriptReading]:
    """All messages after a position, and the reading."""
    reading = open_reading(transcript, position or Position())
    return [message for chunk in reading.read_chunks() for message in chunk], reading


def read_file(
    client: str, path: Path, position: Position | None = None
) -> tuple[list[TranscriptMessage], TranscriptReading]:
    """The same of a file."""
    part = SESSION if client == "opencode" else ""
    return read(Transcript(client=client, path=path, part=part, changed_at=START), position)


@pytest.mark.requirement("formats.read", "formats.resume")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_session_is_found_and_read_with_its_folder_times_and_tools_and_then_gives_what_is_new(
    client: str, home: Path, boats: Path
) -> None:
    assert find_transcript(client, SESSION) is None
    path = write_transcript(client, home, SCRIPT, boats)
    assert find_transcript(client, SESSION) == path
    if client != "opencode":  # all of whose sessions are in one file
        assert find_transcript(client, "99999999-2222-4333-8444-555555555555") is None
        assert find_transcript(client, "") is None
    (transcript,) = find_transcripts(client)
    messages, reading = read(transcript)
    assert [each.role for each in messages] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [each.text for each in messages if each.role != "tool"] == [SCRIPT[0].text, "", "", SCRIPT[3].text]
    assert "cannot access" in messages[2].text
    assert [each.has_failed for each in messages if each.role == "tool"] == [True, False]
    assert [each.calls[0].arguments for each in messages if each.calls] == [
        {"command": "ls /nowhere"},
        {"command": "ls"},
    ]
    assert messages[2].answers == messages[1].calls[0].id
    assert {each.origin.session for each in messages} == {SESSION}
    assert {each.origin.cwd for each in messages} == {str(boats)}
    assert len({each.id for each in messages}) == 6
    assert not any(each.origin.is_sidechain for each in messages)
    if client != "cursor":  # which notes no times
        assert messages[0].at == START
    assert not reading.counts.unknown_types
    assert reading.counts.unreadable == reading.counts.torn == 0
    assert read(transcript, reading.position)[0] == []
    write_transcript(client, home, [user("And the sail?"), say("White.")], boats, first=len(SCRIPT))
    after, _ = read(transcript, reading.position)
    fresh = [each for each in after if each.id not in {one.id for one in messages}]
    assert [each.text for each in fresh] == ["And the sail?", "White."]
    assert {each.origin for each in fresh} == {messages[0].origin}
    assert [each.id for each in read(transcript)[0]] == [each.id for each in (*messages, *fresh)]


@pytest.mark.requirement("formats.torn", "formats.unknown")
@pytest.mark.parametrize("client", MAKERS)
def test_a_torn_last_line_is_read_when_it_is_whole_and_unknown_records_are_counted(
    client: str, home: Path, boats: Path
) -> None:
    path = write_transcript(client, home, SCRIPT, boats)
    whole = path.read_bytes()
    cut = whole.rstrip(b"\n").rindex(b"\n") + 20
    path.write_bytes(whole[:cut])
    before, reading = read_file(client, path)
    assert reading.counts.torn == 1
    path.write_bytes(whole.rstrip(b"\n"))  # a whole record, although its line has no end yet
    after, again = read_file(client, path, reading.position)
    assert again.counts.torn == 0
    path.write_bytes(whole)
    write_lines(path, [{"type": "brand-new", "role": "brand-new", "id": "brand-new", "data": [1]}], append=True)
    more, last = read_file(client, path, again.position)
    assert last.counts.unknown_types == {"brand-new": 1}
    ids = [each.id for each in (*before, *after, *more)]
    assert [*dict.fromkeys(ids)] == [each.id for each in read_file(client, path)[0]]


@pytest.mark.requirement("formats.sidechain")
def test_what_goes_between_agents_is_told_apart(home: Path, boats: Path) -> None:
    records = make_claude_code(SCRIPT, str(boats))
    write_lines(find_file("claude-code", home), [each | {"isSidechain": True} for each in records])
    nested = find_file("claude-code", home).with_suffix("") / "subagents" / "agent-1.jsonl"
    write_lines(nested, records)
    (transcript,) = find_transcripts("claude-code")
    assert all(each.origin.is_sidechain for each in read(transcript)[0])
    codex = MAKERS["codex"](SCRIPT, str(boats))
    codex[0]["payload"]["source"] = {"subagent": {"thread_spawn": {}}}
    assert all(each.origin.is_sidechain for each in read_file("codex", write_lines(find_file("codex", home), codex))[0])
    path = write_opencode(home, SCRIPT, boats, parent="another")
    assert all(each.origin.is_sidechain for each in read_file("opencode", path)[0])


@pytest.mark.requirement("formats.harness")
def test_what_the_client_says_in_the_users_name_is_no_prompt(home: Path, boats: Path) -> None:
    texts = [
        "<command-name>/clear</command-name>", "<local-command-stdout>x</local-command-stdout>",
        "Caveat: The messages below were generated", "[Request interrupted by user]", "<task-notification>x",
    ]  # fmt: skip
    records = make_claude_code([*map(user, texts)], str(boats))
    records += [each | {"isMeta": True} for each in make_claude_code([user("meta")], str(boats), first=20)]
    records += [each | {"isCompactSummary": True} for each in make_claude_code([user("sum")], str(boats), first=30)]
    records.append({"type": "attachment", "attachment": {"type": "hook_additional_context", "content": "memory"}})
    messages, reading = read_file("claude-code", write_lines(find_file("claude-code", home), records))
    assert messages == []
    assert not reading.counts.unknown_types


@pytest.mark.requirement("formats.fork")
def test_a_forked_session_repeats_nothing(home: Path, boats: Path) -> None:
    original = make_claude_code(SCRIPT, str(boats))
    fork = [
        {**each, "sessionId": "other", "uuid": f"new-{number}"}
        | {"forkedFrom": {"sessionId": SESSION, "messageUuid": each["uuid"]}}
        for number, each in enumerate(original)
    ]
    before, _ = read_file("claude-code", write_lines(find_file("claude-code", home), original))
    after, _ = read_file("claude-code", write_lines(find_file("claude-code", home, "other"), fork))
    assert after == before


@pytest.mark.requirement("formats.rewind")
def test_what_gemini_rewinds_was_never_said_and_its_older_form_is_one_value(home: Path, boats: Path) -> None:
    records = MAKERS["gemini"]([user("one"), say("1"), user("two"), say("2")], str(boats))
    target = next(each["id"] for each in records if each.get("content") == [{"text": "two"}])
    path = write_lines(find_file("gemini", home), [*records, {"$rewindTo": target}])
    assert [each.text for each in read_file("gemini", path)[0]] == ["one", "1"]
    path.unlink()
    whole = {**records[0], "messages": [each for each in records if "id" in each]}
    path.with_suffix(".json").write_text(json.dumps(whole, indent=2))
    (transcript,) = find_transcripts("gemini")
    messages, reading = read(transcript)
    assert [each.text for each in messages] == ["one", "1", "two", "2"]
    assert read(transcript, reading.position)[0] == []


@pytest.mark.requirement("formats.folder")
def test_cursors_folder_is_taken_from_the_disk_only_if_it_is_the_only_one(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my-boats"
    folder.mkdir()
    slug = "-".join("".join(each if each.isalnum() else " " for each in str(folder)).split())
    path = home / ".cursor" / "projects" / slug / "agent-transcripts" / "a" / "a.jsonl"
    write_lines(path, MAKERS["cursor"]([user("hi")], ""))
    assert read_file("cursor", path)[0][0].origin.cwd == str(folder)
    (tmp_path / "my" / "boats").mkdir(parents=True)
    assert read_file("cursor", path)[0][0].origin.cwd is None


HOSTILE = b"".join([
    b"{{{{\n", b"7\n", b"[1, 2]\n", bytes(range(256)).replace(b"\n", b"") + b"\n", b"\0" * 5_000 + b"\n", b"\n\n \n",
    b'{"type": "user", "message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    b'{"type": "user", "text": "' + b"x" * (LONGEST + 10) + b'"}\n',
    b'{"type": "user", "message": {"content": "\\ud800 \\u0000"}, "uuid": "\\udfff"}\n',
    b'{"type": "summary", "summary": "\xff\xfe"}\n',
])  # fmt: skip


@pytest.mark.requirement("formats.hostile")
@pytest.mark.parametrize("client", MAKERS)
def test_no_line_can_keep_others_from_being_read(client: str, home: Path, boats: Path) -> None:
    path = write_transcript(client, home, SCRIPT, boats)
    first, _ = read_file(client, path)
    path.write_bytes(HOSTILE + path.read_bytes() + HOSTILE)
    messages, reading = read_file(client, path)
    known = {each.text for each in first}
    assert [each.text for each in messages if each.text in known] == [each.text for each in first]
    assert reading.position.offset == path.stat().st_size


WRONG = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.requirement("formats.hostile")
@pytest.mark.parametrize("client", MAKERS)
@settings(max_examples=scale_examples(40))
@given(data=st.data())
def test_fields_of_wrong_types_are_fields_that_are_not_there(client: str, data: st.DataObject) -> None:
    records = json.loads(json.dumps(MAKERS[client](SCRIPT, "/work")))
    for _ in range(data.draw(st.integers(1, 4))):
        spoil(records, data)
    parser = CLIENTS[client].parser
    assert parser is not None
    reader = parser(Path("/nowhere/chats/x.jsonl"), {})
    for record in records:
        for message in reader.parse(record, ReadCounts()) if isinstance(record, dict) else ():
            check(message)
    for message in reader.finish():
        check(message)


def spoil(value: Any, data: st.DataObject) -> None:
    """Put something else in the place of some part of a value."""
    while True:
        if not isinstance(value, dict | list) or not value:
            return
        key = data.draw(st.sampled_from(sorted(value)) if isinstance(value, dict) else st.integers(0, len(value) - 1))
        if not isinstance(value[key], dict | list) or not value[key] or data.draw(st.booleans()):
            value[key] = data.draw(WRONG)
            return
        value = value[key]


def check(message: TranscriptMessage) -> None:
    """See that a message is what its types say."""
    assert isinstance(message.text, str)
    assert isinstance(message.id, str)
    assert isinstance(message.origin.session, str)
    assert message.origin.cwd is None or isinstance(message.origin.cwd, str)
    assert all(isinstance(call.name, str) and isinstance(call.id, str) for call in message.calls)


@pytest.mark.requirement("formats.hostile")
def test_what_is_no_plain_file_or_no_database_is_not_read(home: Path) -> None:
    database = home / ".local" / "share" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    for content in (None, b"", b"no database"):
        if content is not None:
            database.write_bytes(content)
        assert [*find_transcripts("opencode")] == []
        with pytest.raises(OSError, match="database"):
            read_file("opencode", database)
        assert database.exists() == (content is not None)
    path = find_file("claude-code", home)
    path.parent.mkdir(parents=True)
    makers: list[Callable[[Path], None]] = [lambda path: os.symlink(path, path), os.mkfifo, os.mkdir]
    for make in makers:
        path.unlink(missing_ok=True)
        make(path)
        assert [*find_transcripts("claude-code")] == []
        with pytest.raises(OSError, match=r"."):
            read_file("claude-code", path)


@pytest.mark.requirement("formats.hostile")
def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(home: Path, boats: Path) -> None:
    path = write_transcript("claude-code", home, SCRIPT, boats)
    reading = open_reading(Transcript(client="claude-code", path=path, changed_at=START), Position())
    chunks = reading.read_chunks()
    first = next(chunks)
    other = write_lines(path.with_name("new"), make_claude_code([user("Another session.")], str(boats), "other"))
    other.replace(path)
    assert len([*first, *(message for chunk in chunks for message in chunk)]) == 6
    assert [each.text for each in read_file("claude-code", path, reading.position)[0]] == ["Another session."]


@pytest.mark.requirement("formats.read")
def test_a_variable_moves_a_clients_folder(
    home: Path, boats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "copilot": "COPILOT_HOME"}
    for client, variable in {**moved, "gemini": "GEMINI_CLI_HOME"}.items():
        write_transcript(client, tmp_path, SCRIPT, boats)
        assert [*find_transcripts(client)] == []
        folder = find_file(client, tmp_path).relative_to(tmp_path).parts[0]
        monkeypatch.setenv(variable, str(tmp_path if client == "gemini" else tmp_path / folder))
        assert len([*find_transcripts(client)]) == 1
    assert tuple(CLIENTS) == intake_options.CLIENTS
    with pytest.raises(Invalid, match="claude-code, codex"):
        next(find_transcripts("emacs"))


@pytest.mark.requirement("formats.torn")
def test_an_answer_that_opencode_is_still_writing_is_read_when_it_is_whole(home: Path, boats: Path) -> None:
    path = write_opencode(home, SCRIPT, boats)
    with sqlite3.connect(path) as rows:
        (last, data) = rows.execute("SELECT id, data FROM message ORDER BY time_created DESC LIMIT 1").fetchone()
        open_message = {"role": "assistant", "time": {"created": json.loads(data)["time"]["created"]}}
        rows.execute("UPDATE message SET data = ? WHERE id = ?", (json.dumps(open_message), last))
    before, reading = read_file("opencode", path)
    assert len(before) == 5
    with rows:
        rows.execute("UPDATE message SET data = ?, time_updated = time_updated + 9 WHERE id = ?", (data, last))
    rows.close()
    after, _ = read_file("opencode", path, reading.position)
    assert [each.text for each in after if each.id == last] == [SCRIPT[3].text]
