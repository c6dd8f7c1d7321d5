"""A message falls into sentences, and each is known for what it is."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Step
from cofio.extract.rules.agent_runs.arguments import get_fields
from cofio.extract.rules.boundaries import find_topic_words
from cofio.extract.rules.messages.manner import Manner, classify_manner
from cofio.extract.rules.messages.sentences import READ, read_sentences, split_sentences


def _nothing(_: str) -> bool:
    return False


def _texts(text: str) -> list[str]:
    return [one.text for one in read_sentences(text, _nothing)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("I live in Oslo. I work at Acme.", ["I live in Oslo.", "I work at Acme."]),
        ("It costs 4.50 at shop.example.com. Cheap!", ["It costs 4.50 at shop.example.com.", "Cheap!"]),
        ("Dr. Wu, e.g. my boss, came at 5 p.m. on Monday.", ["Dr. Wu, e.g. my boss, came at 5 p.m. on Monday."]),
        ('He said "Go. Now." and left. I stayed.', ['He said "Go. Now." and left.', "I stayed."]),
        ('An open " quote. Goes on.', ['An open " quote.', "Goes on."]),
        (
            "It starts on Mon. Oct. 5 at 3 p.m. sharp. Be there!",
            ["It starts on Mon. Oct. 5 at 3 p.m. sharp.", "Be there!"],
        ),
        ("Es beginnt am 3. Juni in der Hauptstr. 5. Komm!", ["Es beginnt am 3. Juni in der Hauptstr. 5.", "Komm!"]),
        ("See No. 5 and Nr. 12. Approx. 40 came vs. 20.", ["See No. 5 and Nr. 12.", "Approx. 40 came vs. 20."]),
        ("He said no. I left in 2019. She stayed.", ["He said no.", "I left in 2019.", "She stayed."]),
        ("im tim. im 7. i like cats.", ["im tim.", "im 7.", "i like cats."]),
        ("In Sept. I start at UNN.", ["In Sept. I start at UNN."]),
        ("Well... maybe. Yes", ["Well... maybe.", "Yes"]),
        ("我住在东京。你呢？好！", ["我住在东京。", "你呢？", "好！"]),
        ("(It rained. A lot.) We left.", ["(It rained. A lot.)", "We left."]),
        ("", []),
        ("...", ["..."]),
    ],
)
def test_a_line_is_split_where_its_sentences_end(line: str, expected: list[str]) -> None:
    assert split_sentences(line) == expected


def test_bullets_and_lines_are_sentences_of_their_own() -> None:
    assert _texts("- buy milk\n2. call Ana\n# Plans\n* **bold** move") == ["buy milk", "call Ana", "Plans", "bold move"]


def test_a_line_that_was_broken_by_an_editor_is_put_together() -> None:
    text = "I have been thinking about the offer that came in from the\nharbor office last week. It is good."
    assert _texts(text)[0].endswith("from the harbor office last week.")


def test_code_is_set_apart_and_told_in_a_few_words() -> None:
    found = list(read_sentences("Look:\n```python\nI = 1\nmy = 2\n```\nDone with it.", _nothing))
    assert [(one.text, one.manner) for one in found][1] == ("a block of python code, 2 lines", Manner.CODE)
    assert found[2].text == "Done with it."


def test_a_fence_that_is_never_closed_is_code_to_the_end() -> None:
    assert _texts("Here you are:\n```\nI love climbing.\n")[-1] == "a block of code, 1 line"


@pytest.mark.parametrize(
    "line",
    [
        '{"name": "I live in Oslo"}',
        "2026-02-03 14:58:11 ERROR I failed",
        "[INFO] I am here",
        'File "a.py", line 3',
        "import os",
        "def f(x):",
        "| a | b |",
        "SELECT me FROM people",
        "const me = 1;",
        "ValueError: I am wrong",
    ],
)
def test_code_and_logs_without_a_fence_are_no_prose(line: str) -> None:
    assert [one.manner for one in read_sentences(line, _nothing)] == [Manner.CODE]


def test_quoted_lines_are_the_words_of_someone_else() -> None:
    assert next(read_sentences("> I live in Rome.\nI don't.", _nothing)).manner is Manner.QUOTE


@pytest.mark.parametrize(
    "text",
    [
        "<memory>I live in Oslo.</memory>",
        "<MEMORIES>\nI live in Oslo.\n</Memories>",
        '<recalled_facts source="x">I live in Oslo.</recalled_facts>',
        "<long_term_memory>I live in Oslo. <memory>nested</memory></long_term_memory>",
        "<context>I live in Oslo.",
        "<relevant-memories>a<relevant-memories>b</relevant-memories>I live in Oslo.</relevant-memories>",
    ],
)
def test_what_stands_in_the_tags_of_recalled_memory_is_left_out(text: str) -> None:
    assert _texts(f"Before it.\n{text}") == ["Before it."]


def test_what_follows_a_recalled_block_is_read() -> None:
    assert _texts("<memory>a</memory> I moved to Rome.") == ["I moved to Rome."]


def test_sentences_that_the_memory_holds_are_left_out_whatever_mark_they_bear() -> None:
    held = {"Ana lives in Oslo.", 'Ana said: "We moved. It was cold."'}
    text = '- Ana lives in Oslo.\n* "Ana lives in Oslo."\nAna said: "We moved. It was cold."\nI moved to Rome.'
    assert [one.text for one in read_sentences(text, held.__contains__)] == ["I moved to Rome."]


QUESTIONS = ["Where do you live?", "what time is it", "Do you know", "你好吗？", "どこですか。", "كيف؟"]
COURTESIES = [
    "Hi!", "Thanks, Ana!", "Good morning everyone", "ok", "That's great!", "😂😂", "Takk!", "谢谢", "How are you?",
    "It was great.", "I see.", "haha that's hilarious 😂", "", "¡Hola!", "No problem.",
]  # fmt: skip
REQUESTS = [
    "Please call me.", "Can you help me.", "Write a poem about rain.", "Let's meet at noon.", "Remind me at 5.",
    "I want you to stop.", "Pretend I live in Rome.", "The first one, please.",
]  # fmt: skip
STATEMENTS = [
    "I live in Oslo.", "Book club is on Tuesday.", "Please remember that I'm vegan.", "Thanks, I moved.",
    "Wait, I'm 35.", 'She asked "why?"', "What I love is rain.", "你好，我住在东京。",
    "I'm happy at my new job.", "Jeg bor i Oslo.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (Manner.QUESTION, QUESTIONS),
        (Manner.COURTESY, COURTESIES),
        (Manner.REQUEST, REQUESTS),
        (Manner.STATEMENT, STATEMENTS),
    ],
)
def test_a_sentence_is_known_for_what_it_is(expected: Manner, said: list[str]) -> None:
    assert {one: classify_manner(one) for one in said} == dict.fromkeys(said, expected)


@pytest.mark.parametrize(
    "text",
    ["I " * 500_000, "." * 1_000_000, '" ' * 500_000, "```" * 300_000, "<memory>" * 100_000, "我。" * 400_000,
        "a\n" * 500_000],
    ids=["words", "stops", "quotes", "fences", "tags", "unspaced", "lines"],
)  # fmt: skip
def test_only_so_much_of_a_huge_message_is_read(text: str) -> None:
    assert sum(len(one) for one in _texts(text)) <= READ


@given(st.text(max_size=300) | st.text("aI'.!?\"“”()<>/`{}\n -:|。أ😀\u202e\x07", max_size=200))
def test_any_text_gives_sentences_without_edges_or_control_characters(text: str) -> None:
    for one in read_sentences(text, _nothing):
        assert one.text == one.text.strip()
        assert one.text.isprintable() or not any(mark in one.text for mark in "\n\r\x07\u202e")


def test_no_cache_holds_on_to_a_long_document() -> None:
    document = "The harbour is open. " * 20_000
    arguments = '{"query": "' + document + '"}'
    held = sys.getrefcount(document), sys.getrefcount(arguments)
    assert list(read_sentences(document, _nothing))
    assert find_topic_words(document)
    assert get_fields(Step(tool="search", arguments=arguments, result="", failed=False))
    assert (sys.getrefcount(document), sys.getrefcount(arguments)) == held
