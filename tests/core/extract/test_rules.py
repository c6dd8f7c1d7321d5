"""What the rules read from conversations: facts, profiles and episodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Call, Entry, Extraction, Message, Role
from cofio.extract.rules import Rules
from cofio.extract.rules.narration.facts import MOST
from cofio.extract.rules.narration.reported_speech import LONGEST

START = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)


def _extract(*said: tuple[str, str], recalled: frozenset[str] = frozenset()) -> Extraction:
    """What is read from (sender, text) pairs; the sender "assistant" is one."""
    roles: dict[str, Role] = {"assistant": "assistant", "tool": "tool"}
    messages = [
        Message(id=f"m{n}", sender=who, role=roles.get(who, "user"), at=START + timedelta(minutes=n), text=text)
        for n, (who, text) in enumerate(said)
    ]
    return Rules().extract(messages, UTC, recalled.__contains__)


def _facts(*said: tuple[str, str]) -> list[str]:
    return [fact.text for fact in _extract(*said).facts]


def _entries(text: str) -> list[tuple[str, str, bool]]:
    found: tuple[Entry, ...] = _extract(("ben", text)).profiles.get("ben", ())
    return [(entry.topic, entry.description, entry.ended) for entry in found]


@pytest.mark.parametrize(
    ("text", "topic", "description"),
    [
        ("My name is Ben Ito.", "name", "Name is Ben Ito."),
        ("I live in Oslo, Norway.", "home", "Lives in Oslo, Norway."),
        ("i live in oslo", "home", "Lives in oslo."),
        ("I live in a small flat in Bath.", "home", "Lives in Bath."),
        ("I'm based in New York City these days.", "home", "Lives in New York City."),
        ("Actually, I moved to Oslo last month.", "home", "Lives in Oslo."),
        ("No, I moved from Berlin to Vienna.", "home", "Lives in Vienna."),
        ("I've been living in St. Louis since 2020.", "home", "Lives in St. Louis."),
        ("I'm from Marseille.", "origin", "Is from Marseille."),
        ("I'm 34.", "age", "Is 34 years old."),
        ("My birthday is on March 3.", "birthday", "Birthday is March 3."),
        ("I'm a night nurse.", "job", "Is a night nurse."),
        ("I work at Acme with Bob.", "employer", "Works at Acme."),
        ("I got a new job at Netflix!", "employer", "Works at Netflix."),
        ("My sister Anna is a doctor.", "family:sister anna:work", "Sister Anna is a doctor."),
        ("I have two kids.", "family:kids", "Has two kids."),
        ("I have a dog named Rex.", "pet:dog:rex", "Has a dog called Rex."),
        ("I'm married.", "relationship", "Is married."),
        ("I'm vegan.", "diet", "Is vegan."),
        ("I'm allergic to peanuts.", "allergy:peanut", "Is allergic to peanuts."),
        ("My favourite coffee shop is Blue Bottle in SOMA.", "favorite:coffee shop",
         "Favorite coffee shop is Blue Bottle in SOMA."),
        ("I love climbing in Yosemite every spring.", "likes:climb", "Loves climbing in Yosemite every spring."),
        ("I don't like climbing anymore.", "likes:climb", "Does not like climbing anymore."),
        ("I can't stand cilantro.", "likes:cilantro", "Cannot stand cilantro."),
        ("I want to learn Rust.", "goal:learn rust", "Wants to learn Rust."),
    ],
)  # fmt: skip
def test_lasting_things_become_entries(text: str, topic: str, description: str) -> None:
    assert (topic, description, False) in _entries(text)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("I no longer live in Berlin.", "home"),
        ("I don't live in Berlin anymore.", "home"),
        ("I quit my job at Acme.", "employer"),
        ("I was laid off yesterday.", "employer"),
        ("I'm not vegetarian anymore.", "diet"),
        ("My dog died.", "pet:dog"),
        ("My dog Rex died.", "pet:dog:rex"),
        ("I don't have a dog any more.", "pet:dog"),
    ],
)
def test_what_no_longer_holds_is_ended(text: str, topic: str) -> None:
    assert [(found, ended) for found, _, ended in _entries(text)] == [(topic, True)]


@pytest.mark.parametrize(
    "text",
    [
        "If I lived in Rome, I would cook.", "I might move to Rome.", "I wish I had a dog.",
        "Paul said \"I live in Madrid\".", "My boss said that I'm lazy and I hate work.", "Do I live in Rome?",
        "Pretend I live in Rome.", "I moved to Linux.", "I moved to Marketing.", "I moved to a new team.",
        "I live in fear.", "I'm 5 minutes late.", "I like the second option.", "I love you.", "I love it.",
        "I'd like a tea.",
        "I want to know more.", "I'm a guest at Hotel Roma.", "I never said that.", "I live in Rome. Just kidding!",
        "> I live in Rome.", "```\nI live in Rome.\n```", "In my novel, I am a spy from Prague.", "You live in Rome.",
        "I live in Paris in my dreams.", "I moved to Room 12.", "I'm from Accounting.", "I work in progress bars.",
        "I like Bob's idea.", "I prefer option B.", "I want to learn how this works.", "I always do.",
        "In 2005 I moved to Hamburg for university.", "Back then I moved to Rome.", "I worked as a waiter in college.",
        "I worked as a nurse for ten years.", "I have a cat, or rather my sister does.", "I live in chaos.",
        "I'm allergic to Mondays.", "I love to hate him.", "I like tea less than coffee.", "I joined a Zoom call.",
        "I'm from Bristol, she said.", "As a child I had a dog.", "I joined Anna for lunch.", "If my wife Anna knew.",
        "I loved climbing.", "I'm single-handedly fixing this.", "I'm engaged in a lawsuit.", "She lives in Rome.",
    ],
)  # fmt: skip
def test_what_is_not_so_or_does_not_last_is_no_entry(text: str) -> None:
    assert _entries(text) == []


def test_two_clauses_give_two_entries_but_a_wish_gives_none() -> None:
    assert [topic for topic, _, _ in _entries("I live in Oslo and work at Acme.")] == ["home", "employer"]
    assert _entries("I want to live in Oslo and work at Acme.") == []


def test_a_short_answer_becomes_an_entry_where_only_two_talk() -> None:
    asked = ("assistant", "Where do you live?")
    assert _extract(asked, ("ben", "Oslo.")).profiles["ben"][0].description == "Lives in Oslo."
    assert not _extract(("eva", "Hi Ben and Max, I'm here."), asked, ("ben", "Oslo.")).profiles.get("ben")


def test_only_users_have_profiles() -> None:
    assert not _extract(("ben", "Hello, who are you?"), ("assistant", "My name is Max. I live in Oslo.")).profiles


@pytest.mark.parametrize(
    "text",
    ["Hi!", "Thanks a lot!", "Where is it?", "Please call me.", "Write a poem about Rome.", "It was great.", "ok",
     "She works at Google.", "I love it.", "Two nights.", "Thanks so much, you're a star!",
     "I could eat a horse.", "I'm 2 for 2.", "Oh great, another Monday.", "Just what I needed.", "Here's the code:",
     "😀", "", "...", "Let me know!"],
)  # fmt: skip
def test_courtesies_questions_requests_and_fragments_are_no_facts(text: str) -> None:
    assert _facts(("ben", text)) == []


def test_a_short_answer_keeps_its_question() -> None:
    found = _extract(("assistant", "Nice! Where do you live?"), ("ben", "Oslo."))
    assert [fact.text for fact in found.facts] == ['Asked "Where do you live?", Ben said: "Oslo."']
    assert found.facts[0].messages == ("m0", "m1")
    assert _facts(("eva", "Are you vegan?"), ("ben", "No.")) == ['Asked "Are you vegan?", Ben said: "No."']
    assert _facts(("assistant", "Do you want me to book it?"), ("ben", "Yes.")) == []


def test_a_sentence_that_hangs_on_the_one_before_is_quoted_with_it() -> None:
    assert _facts(("ben", "My sister lives in Rome. She works at a clinic. It is old and very big.")) == [
        'Ben said: "My sister lives in Rome. She works at a clinic. It is old and very big."',
    ]


def test_what_hangs_on_an_answer_is_told_with_it() -> None:
    asked = ("assistant", "Where do you live?")
    assert _facts(asked, ("ben", "Oslo. It gets dark at three there.")) == [
        'Asked "Where do you live?", Ben said: "Oslo. It gets dark at three there."'
    ]


@pytest.mark.parametrize("text", ["Moro no Rio.", "Tenho 2 gatos.", "Vivo en Lima.", "Ich wohne in Bonn."])
def test_a_short_statement_in_another_language_is_a_fact(text: str) -> None:
    assert _facts(("bia", text)) == [f'Bia said: "{text}"']


def test_a_reminder_that_tells_something_is_a_fact_and_an_entry() -> None:
    found = _extract(("bob", "Also remind me that I'm allergic to peanuts. Remind me to call Ana."))
    assert [fact.text for fact in found.facts] == ["Bob is allergic to peanuts."]
    assert [entry.description for entry in found.profiles["bob"]] == ["Is allergic to peanuts."]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Sorry, I meant Bergen, not Oslo.", "Lives in Bergen."),
        ("Not Oslo, Bergen.", "Lives in Bergen."),
        ("Correction: Bergen.", "Lives in Bergen."),
        ("No, Bergen, not Oslo!", "Lives in Bergen."),
    ],
)
def test_a_correction_takes_the_place_of_what_was_wrong(text: str, fact: str) -> None:
    found = _extract(("pat", "I live in Oslo. I work at Acme."), ("pat", text))
    homes = [entry.description for entry in found.profiles["pat"] if entry.topic == "home"]
    if text.startswith("Correction"):  # of two things that it may correct, the last
        assert [entry.description for entry in found.profiles["pat"]][-1] == "Works at Bergen."
    else:
        assert homes == ["Lives in Oslo.", fact]
    assert found.facts[-1].text == f'Pat corrected: "{text}"'


def test_a_correction_of_a_name_ends_what_was_known_under_the_wrong_one() -> None:
    found = _extract(("pat", "My cat is called Lily."), ("pat", "Her name is Lila, not Lily."))
    assert [(entry.topic, entry.ended) for entry in found.profiles["pat"]] == [
        ("pet:cat:lily", False), ("pet:cat:lila", False), ("pet:cat:lily", True)
    ]  # fmt: skip


def test_what_corrects_nothing_that_was_said_gives_no_entry() -> None:
    assert not _extract(("pat", "Not Oslo, Bergen.")).profiles
    assert not _extract(("pat", "I'm not kidding, Tom.")).profiles


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("I have a cat, a dog and two parrots.", ["pet:cat", "pet:dog", "pet:parrot"]),
        ("I have a dog, a labrador.", ["pet:dog"]),
        ("I have one sister and two brothers.", ["family:sister", "family:brothers"]),
        ("I have type 2 diabetes.", ["health:type 2 diabetes"]),
        ("I was diagnosed with asthma in 2019.", ["health:asthma"]),
        ("im tired and im 7", ["age"]),
        ("my name is tim", ["name"]),
        ("I joined Meta in March.", ["employer"]),
        ("In 2026 I moved to Gdansk.", ["home"]),
        ("I've worked as a nurse for ten years.", ["job"]),
    ],
)
def test_what_a_person_is_sure_of_becomes_entries(text: str, topics: list[str]) -> None:
    assert [topic for topic, _, _ in _entries(text)] == topics


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("I speak Danish.", "Speaks Danish."),
        ("I drive a Volvo.", "Drives a Volvo."),
    ],
)
def test_what_no_trait_reads_stands_there_as_it_was_said(text: str, description: str) -> None:
    assert [says for _, says, _ in _entries(text)] == [description]


def test_the_answer_to_a_question_about_allergies_is_one() -> None:
    asked = ("assistant", "Are you allergic to any medication?")
    assert _extract(asked, ("ben", "Yes, penicillin.")).profiles["ben"][0].topic == "allergy:penicillin"
    assert not _extract(asked, ("ben", "No, nothing.")).profiles
    two = _extract(asked, ("ben", "Penicillin and aspirin.")).profiles["ben"]
    assert [entry.topic for entry in two] == ["allergy:penicillin", "allergy:aspirin"]


def test_of_an_assistant_only_deeds_promises_and_news_are_facts() -> None:
    assert _facts(
        ("ben", "Can you book a table?"),
        (
            "assistant",
            "Sure! Paris is the capital of France. I think Nonna is lovely. I booked a table at Nonna for two.",
        ),
        (
            "assistant",
            "I'll send the invoice on Monday. Your flight is on June 3. Your code has a bug. I've noted that.",
        ),
    ) == [
        "The assistant booked a table at Nonna for two.",
        "The assistant will send the invoice on Monday (June 1, 2026).",
        'The assistant told Ben: "Your flight is on June 3."',
    ]


def test_tools_say_nothing_and_the_same_fact_comes_once() -> None:
    assert _facts(("ben", "I live in Oslo. I live in Oslo."), ("tool", "I live in Rome.")) == ["Ben lives in Oslo."]


def test_facts_are_few_and_short() -> None:
    assert len(_facts(("ben", "\n".join(f"I bought {n} red tulips in Delft." for n in range(150))))) == MOST
    (long,) = _facts(("ben", f"I bought red tulips in Delft {'and more ' * 80}"))
    assert long.endswith('…"')
    assert len(long) <= LONGEST


def test_recalled_sentences_are_in_no_record() -> None:
    found = _extract(("ben", "Ben lives in Oslo. I bought a boat."), recalled=frozenset({"Ben lives in Oslo."}))
    assert [fact.text for fact in found.facts] == ["Ben bought a boat."]
    assert found.episode is not None
    assert "Oslo" not in found.episode.text


def test_an_episode_needs_a_user() -> None:
    assert _extract(("assistant", "Hello there, I booked a table.")).episode is None
    assert Rules().extract([], UTC, lambda _: False) == Extraction()


def test_a_stretch_of_greetings_says_so() -> None:
    episode = _extract(("ben", "Hi!"), ("assistant", "Hello!")).episode
    assert episode is not None
    assert episode.text == "On May 28, 2026 at 11:30 AM UTC, Ben and the assistant exchanged greetings."


def test_tool_calls_are_told_in_a_few_words() -> None:
    calls = (Call(id="c", name="search_flights", arguments="{}"),)
    messages = [
        Message(id="1", sender="ben", at=START, text="Find a flight to Rome."),
        Message(id="2", sender="bot", role="assistant", at=START, calls=calls),
    ]
    episode = Rules().extract(messages, UTC, lambda _: False).episode
    assert episode is not None
    assert episode.text.endswith('Ben said: "Find a flight to Rome." The assistant used search_flights.')


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "I " * 500_000, "\u202eI live in Rome\u202c", "👩‍💻" * 50, '"' * 999, "I said \"",
        "\x07\x1b[31mI live\x7f in Oslo", "(((",
     "I'm", "my", "I live in", "مرحبا، أنا أعيش في دبي", "<memory>", "```", "{0} {place} %s \\1 $1"],
)  # fmt: skip
def test_nasty_texts_give_records_that_can_be_stored(text: str) -> None:
    found = _extract(("ben", text), ("assistant", text), ("ben", text))
    assert found.episode is not None
    assert len(found.episode.summary) <= 200
    assert "\x1b" not in found.episode.text
    json.dumps([fact.text for fact in found.facts])


WORDS = ["I", "I'm", "my", "live in", "Oslo", "love", "tea", "and", "work at", "Acme", "yesterday", "you", "?", ".",
    "!", '"',
         "\n", "- ", "```", "<memory>", "said", "not", "anymore", "if", "😀", "我住在东京。", "{", "}", "%s", "Hi",
         "please"]  # fmt: skip


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
