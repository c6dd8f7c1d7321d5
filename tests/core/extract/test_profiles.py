"""A profile takes in what was learned in any order, keeps what was superseded, and gives it back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Entry
from cofio.extract.profiles import (
    DEEPEST,
    INSTRUCTION_CATEGORY,
    LONGEST_SUMMARY,
    MOST_ITEMS,
    merge_entries,
    remove_messages,
    restore_messages,
)
from cofio.values.records import Json

START = datetime(2026, 5, 28, 9, tzinfo=UTC)


def _entry(topic: str, description: str, at: int, *, ended: bool = False) -> Entry:
    return Entry(
        topic=topic, category="Any", description=description, evidence=f"said {description}",
        at=START + timedelta(minutes=at), message=f"m{at}", ended=ended,
    )  # fmt: skip


def _items(profile: dict[str, Json] | None) -> list[dict[str, Json]]:
    assert profile is not None
    items = profile["explicit_info"]
    assert isinstance(items, list)
    return [item for item in items if isinstance(item, dict)]


def _told(profile: dict[str, Json] | None) -> list[object]:
    return [item["description"] for item in _items(profile)]


BERGEN, OSLO = _entry("home", "Lives in Bergen.", 1), _entry("home", "Lives in Oslo.", 5)


def test_an_entry_says_where_it_comes_from() -> None:
    assert merge_entries(None, [BERGEN], session="s1") == {
        "summary": "Lives in Bergen.",
        "explicit_info": [
            {
                "category": "Any", "topic": "home", "description": "Lives in Bergen.",
                "evidence": "said Lives in Bergen.", "timestamp_ms": round(BERGEN.at.timestamp() * 1000),
                "message_id": "m1", "session_id": "s1",
            }
        ],
        "implicit_traits": [],
        "profile_timestamp_ms": round(BERGEN.at.timestamp() * 1000),
    }  # fmt: skip


def test_a_later_entry_takes_the_place_of_an_earlier_one_and_points_at_it() -> None:
    profile = merge_entries(merge_entries(None, [BERGEN], session="s1"), [OSLO], session="s2")
    (home,) = _items(profile)
    assert home["description"] == "Lives in Oslo."
    below = home["supersedes"]
    assert isinstance(below, dict)
    assert (below["description"], below["session_id"]) == ("Lives in Bergen.", "s1")


def test_an_entry_counts_by_when_it_was_said_and_the_last_of_one_message_wins() -> None:
    late = merge_entries(merge_entries(None, [OSLO], session="s"), [BERGEN], session="s")
    assert late == merge_entries(None, [BERGEN, OSLO], session="s")
    entries = [_entry("home", "Lives in Bergen.", 1), _entry("home", "Lives in Oslo.", 1)]
    assert _told(merge_entries(None, entries, session="s")) == ["Lives in Oslo."]


def test_the_same_again_keeps_its_first_evidence() -> None:
    profile = merge_entries(None, [BERGEN, _entry("home", "Lives in Bergen.", 9)], session="s")
    assert _items(profile)[0]["message_id"] == "m1"
    assert "supersedes" not in _items(profile)[0]


def test_what_ended_is_kept_apart_with_what_it_ended_whenever_that_comes() -> None:
    ended = _entry("home", "No longer lives in Bergen.", 3, ended=True)
    profile = merge_entries(None, [BERGEN, ended], session="s")
    assert _told(profile) == []
    (kept,) = cast("list[dict[str, Json]]", profile["ended_info"])
    assert kept["description"] == "No longer lives in Bergen."
    assert cast("dict[str, Json]", kept["supersedes"])["description"] == "Lives in Bergen."
    assert merge_entries(merge_entries(None, [ended], session="s"), [BERGEN], session="s") == profile


def test_taking_back_the_ending_brings_the_entry_back() -> None:
    ended = _entry("home", "No longer lives in Bergen.", 3, ended=True)
    profile = merge_entries(merge_entries(None, [BERGEN], session="s1"), [ended], session="s2")
    assert remove_messages(profile, {("s2", "m3")}) == merge_entries(None, [BERGEN], session="s1")


def test_what_ends_a_topic_ends_what_is_named_under_it() -> None:
    rex, max_ = _entry("pet:dog:rex", "Has a dog called Rex.", 1), _entry("pet:dog:max", "Has a dog called Max.", 2)
    cat, ended = _entry("pet:cat", "Has a cat.", 3), _entry("pet:dog", "No longer has a dog.", 4, ended=True)
    profile = merge_entries(None, [rex, max_, cat, ended], session="s")
    assert _told(profile) == ["Has a cat."]
    assert _told(merge_entries(profile, [_entry("pet:dog:rex", "Has a dog called Rex.", 9)], session="s"))[-1] == (
        "Has a dog called Rex."
    )


def test_a_message_of_the_same_id_in_another_session_is_another_message() -> None:
    profile = merge_entries(
        merge_entries(None, [BERGEN], session="s1"), [_entry("job", "Is a nurse.", 1)], session="s2"
    )
    assert _told(remove_messages(profile, {("s2", "m1")})) == ["Lives in Bergen."]


def test_what_was_said_twice_is_known_until_both_are_taken_back() -> None:
    profile = merge_entries(None, [BERGEN, _entry("home", "Lives in Bergen.", 9)], session="s")
    assert _told(remove_messages(profile, {("s", "m1")})) == ["Lives in Bergen."]
    assert remove_messages(profile, {("s", "m1"), ("s", "m9")}) is None


def test_what_a_person_has_set_is_left_alone() -> None:
    written: dict[str, Json] = {"edited": ["summary"], "summary": "A friend.", "explicit_info": []}
    profile = merge_entries(written, [BERGEN], session="s")
    assert profile["summary"] == "A friend."
    left = remove_messages(profile, {("s", "m1")})
    assert left is not None
    assert left["summary"] == "A friend."


def test_items_that_a_person_or_a_model_wrote_are_left_alone() -> None:
    items: Json = [{"evidence": "x"}, {"evidence": "y"}, {"topic": "pet", "note": 1}, {"topic": "pet", "note": 2}]
    kept = _items(merge_entries({"explicit_info": items}, [OSLO], session="s"))
    assert [item for item in kept if item.get("topic") != "home"] == items
    written: dict[str, Json] = {"explicit_info": [{"category": "Work", "description": "Is a nurse.", "evidence": "x"}]}
    assert "Is a nurse." in _told(merge_entries(written, [OSLO], session="s"))


def test_an_ending_ends_neither_another_value_nor_what_began_after_it() -> None:
    ended = _entry("home", "No longer lives in Bergen.", 9, ended=True)
    assert _told(merge_entries(None, [BERGEN, OSLO, ended], session="s")) == ["Lives in Oslo."]
    early = _entry("home", "No longer lives in Oslo.", 3, ended=True)
    assert _told(merge_entries(merge_entries(None, [OSLO], session="s"), [early], session="s")) == ["Lives in Oslo."]


def test_taking_back_a_message_brings_back_what_it_had_superseded() -> None:
    profile = merge_entries(None, [BERGEN, OSLO], session="s")
    assert remove_messages(profile, {("s", "m5")}) == merge_entries(None, [BERGEN], session="s")
    assert remove_messages(profile, {("s", "m1"), ("s", "m5")}) is None


def test_traits_that_a_model_wrote_are_kept() -> None:
    traits: Json = [{"trait": "curious"}]
    profile = {**merge_entries(None, [BERGEN], session="s"), "implicit_traits": traits}
    left = remove_messages(profile, {("s", "m1")})
    assert left is not None
    assert (left["implicit_traits"], left["explicit_info"]) == (traits, [])
    assert merge_entries(profile, [OSLO], session="s")["implicit_traits"] == traits


def test_chains_items_and_the_summary_have_limits() -> None:
    homes = [_entry("home", f"Lives in house {number}.", number) for number in range(20)]
    likes = [_entry(f"likes:{number}", f"Likes the very long thing {number}.", number) for number in range(150)]
    profile = merge_entries(None, [*homes, *likes], session="s")
    items = _items(profile)
    assert len(items) == MOST_ITEMS
    assert "Lives in house 19." in _told(profile)
    assert "Likes the very long thing 1." not in _told(profile)
    assert len(str(profile["summary"])) <= LONGEST_SUMMARY
    depth, below = 0, next(item for item in items if item["topic"] == "home").get("supersedes")
    while isinstance(below, dict):
        depth, below = depth + 1, below.get("supersedes")
    assert depth == DEEPEST
    assert merge_entries(profile, [*homes, *likes], session="s") == profile


entries = st.lists(
    st.tuples(
        st.sampled_from(["home", "job", "likes:tea", "pet:dog", "pet:dog:rex"]),
        st.sampled_from(["oslo", "rome", "bonn"]),
        st.integers(0, 60),
        st.booleans(),
    ),
    max_size=8,
    unique_by=lambda said: said[2],
).map(lambda said: [_entry(topic, f"{what} {topic}", at, ended=ended) for topic, what, at, ended in said])


@given(entries, st.randoms(use_true_random=False))
def test_neither_the_order_of_arrival_nor_arriving_twice_matters(said: list[Entry], chance: Random) -> None:
    once = merge_entries(None, said, session="s")
    assert merge_entries(once, said, session="s") == once
    assert remove_messages(once, {("s", entry.message) for entry in said}) is None
    profile: dict[str, Json] | None = None
    said = said[: DEEPEST + 1]  # what fell off the end of a chain is forgotten
    for entry in chance.sample(said, len(said)):
        profile = merge_entries(profile, [entry], session="s")
    assert (profile or merge_entries(None, [], session="s")) == merge_entries(None, said, session="s")


@given(entries, st.integers(0, 60))
def test_taking_back_is_as_if_it_had_never_been_said(said: list[Entry], at: int) -> None:
    rest = [entry for entry in said if entry.message != f"m{at}"]
    expected = merge_entries(None, rest, session="s") if rest else None
    if len(said) <= DEEPEST + 1:  # what fell off the end of a chain is forgotten
        assert remove_messages(merge_entries(None, said, session="s"), {("s", f"m{at}")}) == expected


def _instruct(topic: str, text: str, day: int, message: str) -> Entry:
    return Entry(
        topic=f"instruction:{topic}", category=INSTRUCTION_CATEGORY, description=text, evidence=text,
        at=datetime(2026, 5, day, tzinfo=UTC), message=message,
    )  # fmt: skip


def test_instructions_are_a_list_of_their_own_newest_first_and_the_newest_of_a_topic_wins() -> None:
    told = [
        _instruct("length", "keep it short", 1, "m1"),
        _instruct("emoji", "no emojis ever", 2, "m2"),
        _instruct("length", "long answers from now on", 3, "m3"),
    ]
    profile = merge_entries(None, told, session="s")
    assert profile["explicit_info"] == []
    assert profile["instructions"] == [
        {
            "text": "long answers from now on", "topic": "length", "timestamp_ms": 1777766400000, "message_id": "m3",
            "session_id": "s",
            "supersedes": {
                "text": "keep it short", "topic": "length", "timestamp_ms": 1777593600000, "message_id": "m1",
                "session_id": "s",
            },
        },
        {
            "text": "no emojis ever", "topic": "emoji", "timestamp_ms": 1777680000000, "message_id": "m2",
            "session_id": "s",
        },
    ]  # fmt: skip
    assert merge_entries(profile, told, session="s") == profile


def test_an_instruction_goes_with_its_message_and_what_it_superseded_comes_back() -> None:
    told = [_instruct("length", "keep it short", 1, "m1"), _instruct("length", "long answers", 3, "m3")]
    profile = merge_entries(None, told, session="s")
    after = remove_messages(profile, [("s", "m3")])
    assert after is not None
    assert [item["text"] for item in cast("list[dict[str, Json]]", after["instructions"])] == ["keep it short"]
    assert restore_messages(after, profile) == profile
    assert remove_messages(after, [("s", "m1")]) is None
