"""What the rules read from conversations: facts, profiles and episodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Call, Extraction, Message, Role
from cofio.extract.profiles import INSTRUCTION_CATEGORY
from cofio.extract.rules import Rules
from cofio.extract.rules.narration.facts import MOST
from cofio.extract.rules.narration.reported_speech import LONGEST

START = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)


def _extract(*said: tuple[str, str], recalled: frozenset[str] = frozenset()) -> Extraction:
    """Read (sender, text) pairs; the sender "assistant" is one."""
    roles: dict[str, Role] = {"assistant": "assistant", "tool": "tool"}
    messages = [
        Message(id=f"m{n}", sender=who, role=roles.get(who, "user"), at=START + timedelta(minutes=n), text=text)
        for n, (who, text) in enumerate(said)
    ]
    return Rules().extract(messages, UTC, recalled.__contains__)


def _facts(*said: tuple[str, str]) -> list[str]:
    return [fact.text for fact in _extract(*said).facts]


def _entries(text: str) -> list[tuple[str, str, bool]]:
    found = _extract(("ben", text)).profiles.get("ben", ())
    return [(entry.topic, entry.description, entry.ended) for entry in found]


@pytest.mark.parametrize(
    ("text", "topic", "description"),
    [
        ("I live in a small flat in Bath.", "home", "Lives in Bath."),
        ("No, I moved from Berlin to Vienna.", "home", "Lives in Vienna."),
        ("I've been living in St. Louis since 2020.", "home", "Lives in St. Louis."),
        ("My birthday is on March 3.", "birthday", "Birthday is March 3."),
        ("I got a new job at Netflix!", "employer", "Works at Netflix."),
        ("My sister Anna is a doctor.", "family:sister anna:work", "Sister Anna is a doctor."),
        ("I have a dog named Rex.", "pet:dog:rex", "Has a dog called Rex."),
        ("I'm allergic to peanuts.", "allergy:peanut", "Is allergic to peanuts."),
        ("I don't like climbing anymore.", "likes:climb", "Does not like climbing anymore."),
        ("I want to learn Rust.", "goal:learn rust", "Wants to learn Rust."),
    ],
)
def test_lasting_things_become_entries(text: str, topic: str, description: str) -> None:
    assert (topic, description, False) in _entries(text)


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("I live in Oslo and work at Acme.", ["home", "employer"]),
        ("I have a cat, a dog and two parrots.", ["pet:cat", "pet:dog", "pet:parrot"]),
        ("I have one sister and two brothers.", ["family:sister", "family:brothers"]),
        ("I was diagnosed with asthma in 2019.", ["health:asthma"]),
        ("im tired and im 7", ["age"]),
        ("In 2026 I moved to Gdansk.", ["home"]),
    ],
)
def test_what_a_person_is_sure_of_becomes_entries(text: str, topics: list[str]) -> None:
    assert [topic for topic, _, _ in _entries(text)] == topics


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("I don't live in Berlin anymore.", "home"),
        ("I quit my job at Acme.", "employer"),
        ("I'm not vegetarian anymore.", "diet"),
        ("My dog Rex died.", "pet:dog:rex"),
    ],
)
def test_what_no_longer_holds_is_ended(text: str, topic: str) -> None:
    assert [(found, ended) for found, _, ended in _entries(text)] == [(topic, True)]


@pytest.mark.parametrize(
    "text",
    [
        "If I lived in Rome, I would cook.", "I might move to Rome.", "Paul said \"I live in Madrid\".",
        "Pretend I live in Rome.", "I moved to Marketing.", "I live in fear.", "I'm 5 minutes late.", "I love it.",
        "I live in Rome. Just kidding!", "> I live in Rome.", "```\nI live in Rome.\n```", "You live in Rome.",
        "In my novel, I am a spy from Prague.", "In 2005 I moved to Hamburg for university.", "I joined a Zoom call.",
        "I worked as a nurse for ten years.", "I'm from Bristol, she said.", "As a child I had a dog.",
        "I want to live in Oslo and work at Acme.", "I have two tickets for the show on Saturday.",
        "FOR SALE: walnut bedroom set, gently used. I live in Phoenix.", "I'm not kidding, Tom.",
    ],
)  # fmt: skip
def test_what_is_not_so_or_does_not_last_is_no_entry(text: str) -> None:
    assert _entries(text) == []


@pytest.mark.parametrize(
    ("text", "category", "descriptions"),
    [
        ("mein hund heißt krümel", "Pets", ["Mein hund heißt krümel."]),
        ("我不吃辣", "Diet", ["我不吃辣。"]),
        ("I own a harpsichord, does one insure it separately?", "Possessions", ["Owns a harpsichord."]),
        ("Don't use emojis when you talk to me.", INSTRUCTION_CATEGORY, ["Don't use emojis when you talk to me."]),
        ("ditched notion for anytype", None, ["Ditched notion.", "Anytype."]),
    ],
)
def test_what_no_trait_reads_stands_there_as_it_was_said(
    text: str, category: str | None, descriptions: list[str]
) -> None:
    entries = _extract(("kim", text)).profiles["kim"]
    assert [entry.description for entry in entries] == descriptions
    assert category in (None, entries[0].category)
    assert [entry.ended for entry in entries] == [True, False][-len(entries) :]


def test_a_short_answer_keeps_its_question_and_becomes_an_entry_where_only_two_talk() -> None:
    asked = ("assistant", "Nice! Where do you live?")
    found = _extract(asked, ("ben", "Oslo. It gets dark at three there."))
    assert found.profiles["ben"][0].description == "Lives in Oslo."
    assert (len(found.facts), found.facts[0].messages) == (1, ("m0", "m1"))
    assert "Where do you live?" in found.facts[0].text
    assert not _extract(("eva", "Hi Ben and Max, I'm here."), asked, ("ben", "Oslo.")).profiles.get("ben")
    assert _facts(("assistant", "Do you want me to book it?"), ("ben", "Yes.")) == []
    asked = ("assistant", "Are you allergic to any medication?")
    assert not _extract(asked, ("ben", "No, nothing.")).profiles
    two = _extract(asked, ("ben", "Penicillin and aspirin.")).profiles["ben"]
    assert [entry.topic for entry in two] == ["allergy:penicillin", "allergy:aspirin"]


def test_only_users_have_profiles_and_of_an_assistant_only_deeds_promises_and_news_are_facts() -> None:
    said = (
        "Sure! I live in Oslo. Paris is the capital of France. I think Nonna is lovely. I booked a table at Nonna."
        " I'll send the invoice on Monday. Your flight is on June 3. Your code has a bug. I've noted that."
    )
    found = _extract(("ben", "Can you book a table?"), ("assistant", said), ("tool", "I live in Rome."))
    assert not found.profiles
    assert [fact.text for fact in found.facts] == [
        "The assistant booked a table at Nonna.",
        "The assistant will send the invoice on Monday (June 1, 2026).",
        'The assistant told Ben: "Your flight is on June 3."',
    ]


@pytest.mark.parametrize(
    "text",
    ["Hi!", "Where is it?", "Please call me.", "Write a poem about Rome.", "ok", "She works at Google.", "Two nights.",
     "I could eat a horse.", "I'm 2 for 2.", "Oh great, another Monday.", "Here's the code:", "so bored rn", "..."],
)  # fmt: skip
def test_courtesies_questions_requests_and_fragments_are_no_facts(text: str) -> None:
    assert _facts(("ben", text)) == []


def test_a_sentence_that_hangs_on_the_one_before_is_quoted_with_it() -> None:
    said = "My sister lives in Rome. She works at a clinic. It is old and very big."
    assert _facts(("ben", said)) == [f'Ben said: "{said}"']
    assert _facts(("bia", "Moro no Rio.")) == ['Bia said: "Moro no Rio."']
    assert _facts(("bob", "Also remind me that I'm allergic to nuts. Remind me to call Ana.")) == [
        "Bob is allergic to nuts."
    ]


@pytest.mark.parametrize(
    ("first", "then", "entries"),
    [
        ("I live in Oslo.", "Sorry, I meant Bergen, not Oslo.", [("home", False), ("home", False)]),
        ("I live in Oslo. I work at Acme.", "Correction: Bergen.",
         [("home", False), ("employer", False), ("employer", False)]),
        ("My cat is called Lily.", "Her name is Lila, not Lily.",
         [("pet:cat:lily", False), ("pet:cat:lila", False), ("pet:cat:lily", True)]),
        ("Hello there.", "Not Oslo, Bergen.", []),
    ],
)  # fmt: skip
def test_a_correction_takes_the_place_of_what_was_wrong(first: str, then: str, entries: list[tuple[str, bool]]) -> None:
    found = _extract(("pat", first), ("pat", then))
    assert [(entry.topic, entry.ended) for entry in found.profiles.get("pat", ())] == entries
    assert not entries or found.facts[-1].text == f'Pat corrected: "{then}"'


def test_facts_are_few_short_and_told_once_and_none_was_recalled() -> None:
    assert len(_facts(("ben", "\n".join(f"I bought {n} red tulips in Delft." for n in range(150))))) == MOST
    (long,) = _facts(("ben", f"I bought red tulips in Delft {'and more ' * 80}"))
    assert len(long) <= LONGEST
    assert _facts(("ben", "I live in Oslo. I live in Oslo.")) == ["Ben lives in Oslo."]
    found = _extract(("ben", "Ben lives in Oslo. I bought a boat."), recalled=frozenset({"Ben lives in Oslo."}))
    assert [fact.text for fact in found.facts] == ["Ben bought a boat."]
    assert found.episode is not None
    assert "Oslo" not in found.episode.text


def test_an_episode_needs_a_user_and_names_greetings_and_tools() -> None:
    assert _extract(("assistant", "Hello there, I booked a table.")).episode is None
    assert Rules().extract([], UTC, lambda _: False) == Extraction()
    greeted = _extract(("ben", "Hi!"), ("assistant", "Hello!")).episode
    assert greeted is not None
    assert greeted.text == "On May 28, 2026 at 11:30 AM UTC, Ben and the assistant exchanged greetings."
    calls = (Call(id="c", name="search_flights", arguments="{}"),)
    messages = [
        Message(id="1", sender="ben", at=START, text="Find a flight to Rome."),
        Message(id="2", sender="bot", role="assistant", at=START, calls=calls),
    ]
    episode = Rules().extract(messages, UTC, lambda _: False).episode
    assert episode is not None
    assert "search_flights" in episode.text


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "I " * 500_000, "\u202eI live in Rome\u202c", '"' * 999, "\x07\x1b[31mI live\x7f in Oslo",
     "(((", "مرحبا، أنا أعيش في دبي", "<memory>", "```", "{0} {place} %s \\1 $1"],
)  # fmt: skip
def test_nasty_texts_give_records_that_can_be_stored(text: str) -> None:
    found = _extract(("ben", text), ("assistant", text), ("ben", text))
    assert found.episode is not None
    assert len(found.episode.summary) <= 200
    assert "\x1b" not in found.episode.text
    json.dumps([fact.text for fact in found.facts])


WORDS = ["I", "I'm", "my", "live in", "Oslo", "love", "tea", "and", "work at", "Acme", "yesterday", "you", "?", ".",
         "!", '"', "\n", "- ", "```", "<memory>", "said", "not", "anymore", "if", "😀", "我住在东京。", "{", "}", "%s",
         "Hi", "please"]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(["ben", "eva", "assistant"]), st.lists(st.sampled_from(WORDS)).map(" ".join)),
        max_size=6,
    )
)
def test_whatever_is_said_is_read_the_same_way_twice(said: list[tuple[str, str]]) -> None:
    found = _extract(*said)
    assert found == _extract(*said)
    assert (found.episode is None) == all(who == "assistant" for who, _ in said)
    for fact in found.facts:
        assert 0 < len(fact.text) <= LONGEST
        assert set(fact.messages) <= {f"m{n}" for n in range(len(said))}
