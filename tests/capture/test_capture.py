"""What a transcript leaves in memory: each message once, in the right place, and nothing that was to be left out."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from cofio import Engine, Scope
from cofio.capture import CaptureReport, capture_transcript, find_repository, user_scope
from cofio.capture.transcripts.transcript_sources import CLIENTS
from cofio.conversations.retrieval import MemoryQuery, search_episodes
from cofio.text.fence import tag_lines
from cofio.values.errors import Invalid
from cofio.values.query import Where
from cofio.values.records import Kind

from ..waiting import join
from .conftest import make_repository
from .made import SESSION, Step, find_file, make_claude_code, run, say, use, user, write_lines, write_transcript

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
SCRIPT = [
    user("The hull is green. Paint it red."),
    run("npm install", "added 3 packages"),
    say("It is red now."),
    user("no, use pnpm"),
    run("pnpm install", "done"),
    say("Installed with pnpm."),
]


def capture(
    memory: Engine, home: Path, steps: list[Step], cwd: Path, client: str = "claude-code", first: int = 0
) -> CaptureReport:
    """Write a transcript, or go on with it, and capture it as a hook would."""
    path = write_transcript(client, home, steps, cwd, first=first)
    return capture_transcript(memory, client, path, SESSION, cwd)


def list_turns(memory: Engine, scope: Scope) -> list[str]:
    """What was said, in order."""
    turns = memory.list(scope, kinds=(Kind.TURN,), limit=1000, order="created", newest=False)
    return [each.text for each in turns if each.text]


def list_labelled(memory: Engine, scope: Scope, label: str) -> list[str]:
    """The facts with a label."""
    found = memory.list(scope, kinds=(Kind.FACT,), filter=Where("tags", "has", label), limit=100, newest=False)
    return [each.text for each in found]


def dump(memory: Engine) -> str:
    """Everything that is stored, as text."""
    return json.dumps([[each.text, each.title, each.data] for each in memory.export()], ensure_ascii=False)


@pytest.mark.requirement("capture.path")
@pytest.mark.parametrize("client", CLIENTS)
def test_each_clients_transcript_becomes_a_conversation(client: str, memory: Engine, home: Path, boats: Path) -> None:
    report = capture(memory, home, SCRIPT, boats, client)
    assert report.repository == find_repository(boats)
    assert (report.messages, report.present, report.lessons) == (8, 0, 1)
    scope = find_repository(boats).scope
    assert [text for text in list_turns(memory, scope) if "pnpm" in text] == [
        "no, use pnpm", "Installed with pnpm.",
    ]  # fmt: skip
    assert list_labelled(memory, scope, "correction") == ["no, use pnpm (after `npm install`)"]
    again = capture_transcript(memory, client, write_transcript(client, home, [], boats, first=6), SESSION, boats)
    assert again.messages == 0
    repository = find_repository(boats)
    found = search_episodes(memory, repository.user_scope, MemoryQuery(text="which colour has the hull", limit=3))
    assert "red" in found.hits[0].record.text
    kinds = {each.kind for each in memory.list(repository.scope, limit=1000)}
    assert {Kind.TURN, Kind.EPISODE, Kind.FACT, Kind.CASE} <= kinds
    assert repository.user_scope.names[-2:] == ("user", "sam")
    assert not memory.list(repository.scope / "session", limit=10)  # nothing waits


@pytest.mark.requirement("capture.once")
def test_a_grown_transcript_adds_its_new_turns_and_a_rewritten_one_repeats_none(
    memory: Engine, home: Path, boats: Path
) -> None:
    scope = find_repository(boats).scope
    assert capture(memory, home, SCRIPT[:3], boats).messages == 4
    assert capture(memory, home, SCRIPT[3:], boats, first=3).messages == 4
    everything = list_turns(memory, scope)
    path = find_file("claude-code", home)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(['{"type": "summary"}\n', *lines]))  # as when a client writes it anew
    report = capture_transcript(memory, "claude-code", path)
    assert (report.messages, report.present) == (0, 8)
    assert list_turns(memory, scope) == everything
    path.unlink()
    write_lines(path, make_claude_code([*SCRIPT, user("And the sail?")], str(boats)))
    assert capture_transcript(memory, "claude-code", path).messages == 1


@pytest.mark.requirement("capture.once")
def test_several_processes_at_one_transcript_store_each_message_once(memory: Engine, home: Path, boats: Path) -> None:
    path = write_transcript("claude-code", home, SCRIPT * 5, boats)
    threads = [threading.Thread(target=capture_transcript, args=(memory, "claude-code", path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    turns = memory.list(find_repository(boats).scope, kinds=(Kind.TURN,), limit=1000)
    assert len(turns) == len({each.id for each in turns}) == 40


@pytest.mark.requirement("private.marks")
def test_what_is_marked_is_left_out(memory: Engine, home: Path, boats: Path) -> None:
    steps = [
        user("Keep this. <private>The harbour master is Eve.</private>"), say("Kept."),
        user("#skip The mooring costs nine."), run("cat mooring", "nine"), say("The mooring costs nine."),
    ]  # fmt: skip
    report = capture(memory, home, steps, boats)
    assert report.skipped == 4
    more = [say("Nine, as I told you."), user("Go on."), say("Well.")]  # the turn goes on after the reading
    assert capture(memory, home, more, boats, first=5).skipped == 1
    stored = dump(memory)
    assert "Eve" not in stored
    assert "nine" not in stored.lower()
    assert list_turns(memory, find_repository(boats).scope) == ["Keep this.", "Kept.", "Go on.", "Well."]


@pytest.mark.requirement("private.secrets")
def test_secrets_never_reach_the_memory(memory: Engine, home: Path, boats: Path) -> None:
    steps = [
        user(f"The token is {SECRET}, use it."), run(f"curl -H 'Authorization: token {SECRET}'", f"{SECRET}\n" * 900),
        use("Write", file_path=".env", content="x" * 290 + f"\nGITHUB_TOKEN={SECRET}\n"), say(f"Used {SECRET}."),
        user(f"#remember always use {SECRET}"),
    ]  # fmt: skip
    assert capture(memory, home, steps, boats).masked >= 4
    stored = dump(memory)
    assert SECRET not in stored
    assert SECRET[:16] not in stored
    assert SECRET[-12:] not in stored


@pytest.mark.requirement("private.injected")
@pytest.mark.parametrize("at_once", [True, False], ids=["read at once", "read line by line"])
def test_what_was_recalled_is_not_captured_again(memory: Engine, home: Path, boats: Path, at_once: bool) -> None:
    told = "The anchor weighs forty stone."
    steps = [
        user("Lift it.\n" + tag_lines([json.dumps({"text": told})])),
        use("mcp__cofio__search_context", told, query="anchor"), run("cofio search anchor", told), say("Lifted."),
    ]  # fmt: skip
    path = find_file("claude-code", home)
    records = make_claude_code(steps, str(boats))
    for number, part in enumerate([records] if at_once else [[each] for each in records]):
        write_lines(path, part, append=number > 0)
        capture_transcript(memory, "claude-code", path)
    assert list_turns(memory, find_repository(boats).scope)[-1] == "Lifted."
    assert "forty stone" not in dump(memory)


@pytest.mark.requirement("capture.place")
def test_repositories_share_nothing_clones_share_all_and_a_session_stays_where_it_began(
    memory: Engine, home: Path, boats: Path
) -> None:
    other = make_repository(boats.parent / "elsewhere" / "boats", "git@github.com:other/boats.git")
    capture(memory, home, SCRIPT, boats)
    path = write_lines(find_file("claude-code", home, "other"), make_claude_code([user("Hi.")], str(other), "other"))
    capture_transcript(memory, "claude-code", path)
    assert list_turns(memory, find_repository(other).scope) == ["Hi."]
    assert "Hi." not in list_turns(memory, find_repository(boats).scope)
    clone = make_repository(boats.parent / "clone", "https://github.com/example/boats")
    path = write_lines(find_file("claude-code", home, "third"), make_claude_code([user("Ho.")], str(clone), "third"))
    capture_transcript(memory, "claude-code", path)
    assert "Ho." in list_turns(memory, find_repository(boats).scope)
    rafts = make_repository(boats.parent / "rafts", "git@github.com:example/rafts.git")
    path = write_lines(find_file("claude-code", home, "4"), make_claude_code([user("Off.")], str(boats), "4"))
    capture_transcript(memory, "claude-code", path)
    write_lines(path, make_claude_code([user("Going.")], str(rafts), "4", first=3), append=True)
    capture_transcript(memory, "claude-code", path)
    assert list_turns(memory, find_repository(rafts).scope) == []
    assert {"Off.", "Going."} <= {*list_turns(memory, find_repository(boats).scope)}


@pytest.mark.requirement("capture.place")
def test_without_a_folder_or_where_it_is_unwelcome_nothing_is_kept(memory: Engine, home: Path, boats: Path) -> None:
    path = write_lines(find_file("claude-code", home), make_claude_code(SCRIPT, ""))
    report = capture_transcript(memory, "claude-code", path)
    assert (report.reason, report.repository) == ("no folder", None)
    (boats / ".cofio-off").touch()
    report = capture(memory, home, SCRIPT, boats)
    assert report.reason == "opted out"
    assert [*memory.export()] == []
    (boats / ".cofio-off").unlink()
    assert capture_transcript(memory, "claude-code", path, SESSION, boats).messages == 8


@pytest.mark.requirement("lessons.withdrawn")
def test_a_later_session_takes_back_what_an_earlier_capture_kept(memory: Engine, home: Path, boats: Path) -> None:
    scope = find_repository(boats).scope
    capture(memory, home, [user("Let's use npm for this."), say("Good.")], boats)
    assert list_labelled(memory, scope, "decision") == ["Let's use npm for this."]
    capture(memory, home, [user("Use pnpm instead of npm."), say("Good.")], boats, first=2)
    assert list_labelled(memory, scope, "decision") == []
    assert list_labelled(memory, scope, "correction") == ["Use pnpm instead of npm."]
    capture(memory, home, [user("We decided to drop Windows."), say("Good.")], boats, first=4)
    assert list_labelled(memory, scope, "decision") == ["We decided to drop Windows."]
    capture(memory, home, [user("Never mind, scratch that."), say("Good.")], boats, first=6)
    assert list_labelled(memory, scope, "decision") == []
    told = ["I never use emojis.", "I prefer long answers."]
    capture(memory, home, [user(" ".join(told)), say("Noted.")], boats, first=8)
    capture(memory, home, [user("I no longer want emojis."), say("All right.")], boats, first=10)
    assert sorted(list_labelled(memory, user_scope(), "preference")) == told  # no other thing is taken back


def list_preferences(memory: Engine, scope: Scope) -> str:
    """All that says what the user prefers: facts, and the profile; not what was said itself."""
    return "\n".join(each.text for each in memory.list(scope, kinds=(Kind.FACT, Kind.PROFILE), limit=100))


@pytest.mark.requirement("lessons.withdrawn", "capture.personal")
@pytest.mark.parametrize("prompt", ["Forget that I prefer tabs.", "I changed my mind about tabs.", "Forget that."])
def test_what_a_user_prefers_is_kept_beside_the_repositories_and_once_taken_back_nowhere(
    memory: Engine, home: Path, boats: Path, prompt: str
) -> None:
    told = ["I always test first.", "I prefer tabs."]
    capture(memory, home, [user(f"{told[0]} Mend the Titanic."), say("Noted."), user(told[1])], boats)
    scopes = (find_repository(boats).scope, user_scope())
    for scope in scopes:
        assert sorted(list_labelled(memory, scope, "preference")) == told
    assert "Titanic" not in json.dumps([each.text for each in memory.list(user_scope(), limit=100)])
    capture(memory, home, [say("Noted."), user(prompt), say("All right.")], boats, first=3)
    for scope in scopes:
        assert "tabs" not in list_preferences(memory, scope).replace(prompt, "").replace("their mind about tabs", "")
        assert list_labelled(memory, scope, "preference") == ["I always test first."]


@pytest.mark.requirement("lessons.todo")
def test_open_work_is_what_the_last_list_leaves(memory: Engine, home: Path, boats: Path) -> None:
    def write(*statuses: str) -> Step:
        parts = ("hull", "sail", "keel")
        return use("TodoWrite", todos=[{"content": parts[n], "status": each} for n, each in enumerate(statuses)])

    scope = find_repository(boats).scope
    capture(memory, home, [user("Mend it."), write("pending", "pending"), say("Begun.")], boats)
    assert list_labelled(memory, scope, "todo") == ["To do: hull", "To do: sail"]
    capture(memory, home, [write("completed", "in_progress", "pending"), say("On it.")], boats, first=3)
    assert sorted(list_labelled(memory, scope, "todo")) == ["To do: keel", "To do: sail"]
    session = "99999999-2222-4333-8444-555555555555"  # which finishes what the first has left
    path = write_transcript(
        "claude-code", home, [user("Go on."), write("completed", "completed")], boats, session=session
    )
    capture_transcript(memory, "claude-code", path)
    assert list_labelled(memory, scope, "todo") == ["To do: keel"]


@pytest.mark.requirement("capture.hostile")
def test_what_cannot_be_read_changes_nothing_and_nothing_in_a_transcript_can_keep_it_out_of_the_memory(
    memory: Engine, home: Path, boats: Path
) -> None:
    with pytest.raises(Invalid, match="client"):
        capture_transcript(memory, "emacs", home / "x")
    with pytest.raises(FileNotFoundError):
        capture_transcript(memory, "claude-code", home / "x.jsonl")
    with pytest.raises(OSError, match="plain file"):
        capture_transcript(memory, "claude-code", home)
    assert [*memory.export()] == []
    records = make_claude_code(SCRIPT, str(boats))
    records[0]["message"]["content"] = "a\0b \ud800 " + "long " * 100_000
    deep = {"n": 10**400, "d": [[[[[[1]]]]]]}
    records[1]["message"]["content"][0] |= {"name": "x" * 5_000, "id": "\0" * 3_000, "input": deep}
    records[2]["message"]["content"][0]["tool_use_id"] = "\udfff" * 2_000
    records[3]["uuid"] = "i" * 10_000
    records[4] |= {"uuid": records[3]["uuid"], "timestamp": "9999-12-31T23:59:59.999Z"}
    records[5] |= {"sessionId": 7, "timestamp": -1}
    records += [records[0], records[1] | {"message": {"content": "the same id, and something else"}}]
    path = write_lines(find_file("claude-code", home), records)
    report = capture_transcript(memory, "claude-code", path)
    assert report.messages >= 5
    assert capture_transcript(memory, "claude-code", path).messages == 0


@pytest.mark.requirement("capture.path")
def test_an_episode_begins_with_a_prompt_and_tells_what_was_said(memory: Engine, home: Path, boats: Path) -> None:
    turn = [user("Mend the mast."), *[run(f"make mast{n}") for n in range(40)], say("The mast is mended.")]
    capture(memory, home, [*turn, *turn, *turn], boats)
    episodes = memory.list(find_repository(boats).user_scope, kinds=(Kind.EPISODE,), limit=10)
    assert len(episodes) == 3
    for each in episodes:
        assert "Mend the mast." in each.text
        assert "used Bash" not in each.text
    long = [user("Paint."), *[run(f"paint{n}") for n in range(300)], say("Painted.")]
    capture(memory, home, long, boats, first=len(turn) * 3)
    turns = memory.list(find_repository(boats).scope, kinds=(Kind.TURN,), limit=1000)
    assert len(turns) == 3 * 82 + 602
    assert not memory.list(find_repository(boats).scope / "session", limit=10)
