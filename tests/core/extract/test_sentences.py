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
        ("Es beginnt am 3. Juni in der Hauptstr. 5. Komm!", ["Es beginnt am 3. Juni in der Hauptstr. 5.", "Komm!"]),
        ("我住在东京。你呢？好！", ["我住在东京。", "你呢？", "好！"]),
        ("(It rained. A lot.) We left.", ["(It rained. A lot.)", "We left."]),
        ("", []),
        ("...", ["..."]),
    ],
)
def test_a_line_is_split_where_its_sentences_end(line: str, expected: list[str]) -> None:
    assert split_sentences(line) == expected


def test_lines_bullets_and_code_are_read_apart() -> None:
    assert _texts("- buy milk\n2. call Ana\n# Plans\n* **bold** move") == ["buy milk", "call Ana", "Plans", "bold move"]
    text = "I have been thinking about the offer that came in from the\nharbor office last week. It is good."
    assert _texts(text)[0].endswith("from the harbor office last week."), "a line that an editor broke"
    found = list(read_sentences("Look:\n```python\nI = 1\nmy = 2\n```\nDone with it.", _nothing))
    assert [one.manner for one in found][1] is Manner.CODE
    assert found[2].text == "Done with it."
    assert [one.manner for one in read_sentences("Here:\n```\nI love climbing.\n", _nothing)][-1] is Manner.CODE
    assert next(read_sentences("> I live in Rome.\nI don't.", _nothing)).manner is Manner.QUOTE


@pytest.mark.parametrize(
    "line",
    ['{"name": "I live in Oslo"}', "2026-02-03 14:58:11 ERROR I failed", "import os", "def f(x):", "| a | b |"],
)
def test_code_and_logs_without_a_fence_are_no_prose(line: str) -> None:
    assert [one.manner for one in read_sentences(line, _nothing)] == [Manner.CODE]


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
    assert _texts("<memory>a</memory> I moved to Rome.") == ["I moved to Rome."]


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (Manner.QUESTION, ["Where do you live?", "what time is it", "你好吗？", "どこですか。", "كيف؟"]),
        (Manner.COURTESY, ["Hi!", "Thanks, Ana!", "ok", "😂😂", "谢谢", "How are you?", "It was great.", "", "¡Hola!"]),
        (Manner.REQUEST, ["Can you help me.", "Let's meet at noon.", "I want you to stop.", "The first one, please."]),
        (Manner.STATEMENT, ["I live in Oslo.", "Please remember that I'm vegan.", "Thanks, I moved.",
                            'She asked "why?"', "What I love is rain.", "你好，我住在东京。", "Jeg bor i Oslo."]),
    ],
)  # fmt: skip
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
