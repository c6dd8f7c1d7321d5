"""What an agent is told: each client's events in its own words, and only where it takes a text."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.doors.hooks.client_protocols import HOOK_CLIENTS, Moment

from .conftest import HAIKU, PROMPT, RETRIES, Host, make_repository

pytestmark = pytest.mark.usefixtures("process")

STARTS, PROMPTS = (
    [(client, event) for client, each in HOOK_CLIENTS.items() for event, at in each.events.items() if at is moment]
    for moment in (Moment.START, Moment.PROMPT)
)


def get_text(client: str, event: str, answer: Any) -> str:
    """The text of an answer, which is in the client's shape and holds nothing else."""
    if client == "cursor":
        assert answer.pop("continue", None) is (True if event == "beforeSubmitPrompt" else None)
        assert set(answer) == {"additional_context"}
        return str(answer["additional_context"])
    if client in ("copilot", "opencode"):
        assert set(answer) == {"additionalContext"}
        return str(answer["additionalContext"])
    assert set(answer) == {"hookSpecificOutput"}
    specific = answer["hookSpecificOutput"]
    assert set(specific) == {"hookEventName", "additionalContext"}
    assert specific["hookEventName"] == event
    return str(specific["additionalContext"])


@pytest.mark.requirement("start.digest")
@pytest.mark.parametrize(("client", "event"), STARTS)
def test_a_session_begins_with_a_digest(host: Host, client: str, event: str) -> None:
    answer = host.fire(event, client, source="startup")
    assert (answer.code, answer.err) == (0, b"")
    text = get_text(client, event, answer.json)
    assert text.startswith("<recalled-memory>\nuploader: ")
    assert "asked: Good. Tomorrow we look at the invoice templates." in text
    (run,) = host.log()
    assert (run["client"], run["event"], run["outcome"], run["repository"]) == (client, event, "added", "uploader")
    assert 0 < run["tokens"] <= 1500


@pytest.mark.requirement("start.resume")
def test_a_session_that_is_resumed_or_told_of_again_gets_no_second_digest(host: Host) -> None:
    host.fire("SessionStart", source="resume").check_silent()
    assert host.fire("sessionStart", "copilot", source="new").json
    host.fire("sessionStart", "copilot", source="new").check_silent()


@pytest.mark.requirement("prompt.recall", "prompt.once")
@pytest.mark.parametrize(("client", "event"), PROMPTS)
def test_a_prompt_gets_what_bears_on_it_once(host: Host, client: str, event: str) -> None:
    answer = host.fire(event, client, prompt=PROMPT)
    assert (answer.code, answer.err) == (0, b"")
    assert RETRIES in get_text(client, event, answer.json)
    host.fire(event, client, prompt=PROMPT).check_silent()


@pytest.mark.requirement("prompt.recall")
def test_a_client_that_takes_no_text_at_a_prompt_gets_it_with_the_first_one(host: Host) -> None:
    answer = host.fire("sessionStart", "copilot", source="new", initialPrompt=PROMPT)
    assert RETRIES in answer.json["additionalContext"]


@pytest.mark.requirement("prompt.silent")
@pytest.mark.parametrize("prompt", [HAIKU, "/compact"])
def test_a_prompt_that_nothing_bears_on_gets_nothing(host: Host, prompt: str) -> None:
    host.fire("UserPromptSubmit", prompt=prompt).check_silent()
    assert host.log()[-1]["outcome"] == "nothing"


@pytest.mark.requirement("prompt.recall")
def test_a_prompt_may_be_long_and_hold_anything(host: Host) -> None:
    prompt = PROMPT + "\0\ud800\n```\n" + "x = 1\n" * 400_000
    assert RETRIES.encode() in host.fire("UserPromptSubmit", prompt=prompt).out


@pytest.mark.requirement("compact.again")
def test_after_a_compaction_what_was_lost_is_told_again(host: Host) -> None:
    transcript = host.write_transcript(
        [("user", "Let's use the queue named kestrel for thumbnails."), ("assistant", "Done.")]
    )
    first = host.fire("UserPromptSubmit", prompt=PROMPT)
    host.fire("PreCompact", trigger="auto", transcript_path=str(transcript)).check_silent()
    digest = host.fire("SessionStart", source="compact")
    assert "queue named kestrel" in digest.json["hookSpecificOutput"]["additionalContext"]
    again = host.fire("UserPromptSubmit", prompt=PROMPT)
    assert (RETRIES.encode() in first.out, RETRIES.encode() in again.out + digest.out) == (True, True)


@pytest.mark.requirement("edit.file")
def test_before_an_edit_what_is_known_of_that_file_is_told(host: Host) -> None:
    lesson = "Never edit schema.lock by hand; run make schema instead."
    transcript = host.write_transcript([("user", lesson), ("assistant", "Understood.")], session="earlier-2")
    host.fire("Stop", session="earlier-2", transcript_path=str(transcript)).check_silent()
    edit: dict[str, Any] = {"tool_name": "Edit", "tool_input": {"file_path": str(host.project / "db" / "schema.lock")}}
    told = host.fire("PreToolUse", **edit)
    assert "run make schema instead" in told.json["hookSpecificOutput"]["additionalContext"]
    host.fire("PreToolUse", **edit).check_silent()
    other: dict[str, Any] = {"tool_name": "Edit", "tool_input": {"file_path": str(host.project / "other.lock")}}
    host.fire("PreToolUse", **other).check_silent()


@pytest.mark.requirement("place.repository")
def test_nothing_of_one_repository_is_told_in_another(host: Host) -> None:
    other = make_repository(host.home / "elsewhere" / "uploader", "https://git.example/other/uploader.git")
    host.project = other
    host.fire("SessionStart", source="startup").check_silent()
    host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()


@pytest.mark.requirement("place.opt-out")
def test_a_repository_that_opted_out_is_left_alone(host: Host) -> None:
    (host.project / ".cofio-off").touch()
    host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    transcript = host.write_transcript([("user", "We decided on kestrel."), ("assistant", "Done.")])
    host.fire("Stop", transcript_path=str(transcript)).check_silent()
    assert [run["outcome"] for run in host.log()] == ["off", "off"]
    (host.project / ".cofio-off").unlink()
    host.fire("UserPromptSubmit", prompt="What did we decide about kestrel?").check_silent()


@pytest.mark.requirement("place.stranger")
def test_a_memory_that_came_with_a_repository_is_not_put_before_a_model(host: Host) -> None:
    host.store.rename(host.project / ".cofio")  # as a clone would bring it
    host.fire("UserPromptSubmit", prompt=PROMPT).check_silent()
    assert "there is no memory in" in host.log()[-1]["note"]


@pytest.mark.requirement("stop.capture")
def test_what_was_said_is_kept_when_the_agent_stops_and_told_in_the_next_session(host: Host) -> None:
    turns = [("user", "Please remember: the payroll export has to be Latin-1."), ("assistant", "I keep it Latin-1.")]
    transcript = host.write_transcript(turns)
    for _ in range(2):
        host.fire("Stop", transcript_path=str(transcript)).check_silent()
    assert [(run["outcome"], run["records"]) for run in host.log()] == [("captured", 2), ("nothing", 0)]
    host.write_transcript([*turns, ("user", "Now the import."), ("assistant", "Done.")])
    host.fire("SessionEnd", reason="exit", transcript_path=str(transcript)).check_silent()
    assert host.log()[-1]["records"] == 2
    assert [file for file in (host.store / "vault").rglob("*.md") if "Latin-1" in file.read_text()]
    told = host.fire("UserPromptSubmit", session="next", prompt="Which encoding has the payroll export?")
    assert "Latin-1" in told.json["hookSpecificOutput"]["additionalContext"]
