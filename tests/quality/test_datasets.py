"""The retrieval benchmark reads files of every shape that it knows, and says what is wrong with others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks.datasets import Dataset, load

from cofio import Invalid, Kind, Scope

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi!"},
                {"speaker": "Bo", "dia_id": "D1:02", "text": "Look.", "blip_caption": "a red kite"},
            ],
            "session_2_date_time": "9:00 am on 9 May, 2023",
        },
        "qa": [
            {"question": "What did Bo show?", "answer": "a kite", "evidence": ["D:1:2; D9:9"], "category": 1},
            {"question": "Who greeted?", "answer": 1, "evidence": ["D1:1"], "category": 5},
            {"question": "Why?", "evidence": ["D7:1"], "category": 2},
        ],
    }
]
BEAM = [
    {
        "id": 7,
        "messages": [
            {"id": 0, "role": "user", "batch": "b1", "position": 0, "time": "2024-03-15T00:00:00", "text": "I row."},
            {"id": 1, "role": "assistant", "batch": "b1", "position": 1, "text": "Rowing is fine."},
        ],
        "questions": [
            {"ability": "information_extraction", "question": "What do I do?", "gold": [0]},
            {"ability": "abstention", "question": "Where do I live?", "gold": []},
        ],
    }
]
DOCUMENTS = {
    "documents": [{"id": 1, "title": "Wings", "text": "Lift."}],
    "queries": [{"query": "what is lift", "gold": [1]}],
}
PLAIN = [
    {"id": "t1", "session": "s1", "author": "Ann", "time": "2025-01-12T18:00:00Z", "text": "I moved."},
    {"id": "t2", "session": "s1", "author": "Bo", "text": "Where to?", "scope": ""},
    {"id": "n1", "title": "Tea", "tags": ["kitchen"], "text": "At four."},
    {"question": "Who moved?", "gold": ["t1"], "below": ["t2"], "kind": "fact", "time": "2025-02-01", "asker": "Bo"},
    {"question": "Who won?", "gold": []},
]


def read(folder: Path, content: object) -> Dataset:
    """Load what is written as one text of JSON."""
    (folder / "data.json").write_text(json.dumps(content))
    return load(folder / "data.json")


def read_lines(folder: Path, *lines: object) -> Dataset:
    """Load what is written as lines of JSON."""
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return load(folder / "data.jsonl")


def test_a_conversation_of_locomo_becomes_turns_with_the_time_of_their_session(tmp_path: Path) -> None:
    data = read(tmp_path, LOCOMO)
    first, second = data.drafts
    assert (second.text, second.author, second.data) == ("Bo: Look. [shared a photo: a red kite]", "Bo", "D1:2")
    assert (second.parent, second.position, second.kind) == ("session_1", 1, Kind.TURN)
    assert first.created_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert [(each.kind, set(each.gold)) for each in data.questions] == [
        ("1 multi-hop", {"D1:2"}),
        ("5 adversarial", {"D1:1"}),
    ]
    assert data.groups == ("1 multi-hop", "5 adversarial", "1-4", "all")
    assert [each.counts_in("1-4") for each in data.questions] == [True, False]


def test_a_chat_of_beam_becomes_messages_by_role(tmp_path: Path) -> None:
    data = read(tmp_path, BEAM)
    first, second = data.drafts
    assert (first.author, first.parent, first.position, first.data) == ("user", "b1", 0, "0")
    assert first.created_at == datetime(2024, 3, 15, tzinfo=UTC)
    assert second.created_at is None
    assert [each.kind for each in data.answerable] == ["information_extraction"]
    assert [each.kind for each in data.unanswerable] == ["abstention"]
    assert data.questions[0].asker == "user"


def test_documents_become_notes_of_one_scope(tmp_path: Path) -> None:
    data = read(tmp_path, DOCUMENTS)
    (note,) = data.drafts
    assert (note.title, note.text, note.kind, note.parent) == ("Wings", "Lift.", Kind.NOTE, None)
    assert data.questions[0].gold == {"1"}
    assert len(data.scopes) == 1


def test_plain_lines_become_turns_if_they_have_a_session_and_notes_if_not(tmp_path: Path) -> None:
    data = read_lines(tmp_path, *PLAIN)
    first, second, note = data.drafts
    assert [(each.kind, each.parent, each.position) for each in data.drafts] == [
        (Kind.TURN, "s1", 0),
        (Kind.TURN, "s1", 1),
        (Kind.NOTE, None, None),
    ]
    assert (first.author, first.created_at) == ("Ann", datetime(2025, 1, 12, 18, tzinfo=UTC))
    assert (second.created_at, note.title, note.tags) == (None, "Tea", ("kitchen",))
    question, _ = data.questions
    assert [*question.gold, *question.below, question.kind, question.asker] == ["t1", "t2", "fact", "Bo"]
    assert question.asked_at == datetime(2025, 2, 1, tzinfo=UTC)


def test_a_changed_file_is_another_set_and_scopes_are_apart(tmp_path: Path) -> None:
    before, after = read_lines(tmp_path, *PLAIN), read_lines(tmp_path, *PLAIN[:3])
    assert before.root != after.root
    assert before.root == read_lines(tmp_path, *PLAIN).root
    assert all(scope in Scope(*before.root.names) for scope in before.scopes)
    lines = [{"id": "a", "text": "Tea.", "scope": name} for name in ("one", "two")]
    assert [scope.names[-1] for scope in read_lines(tmp_path, *lines).scopes] == ["one", "two"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([{"id": "a", "text": "Tea."}, {"question": "Who?", "gold": ["b"]}], "no record of its scope is b"),
        ([{"id": "a", "text": "Tea."}, {"id": "a", "text": "Milk."}], "several records have the id a"),
        ([{"id": "a", "text": "Tea.", "sesion": "s1"}], "sesion"),
        ([{"question": "Who?"}], "gold"),
        ([[1, 2]], "not of a known shape"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, lines: list[object], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        read_lines(tmp_path, *lines)
