"""Any text becomes words, the same ones for writing and for searching."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Json
from cofio.text.tokenizer import (
    MAX_WORD,
    build_embed_text,
    count_words,
    find_snippet,
    split_query,
    split_record,
    split_stored,
    split_words,
)
from cofio.values.records import json_words

SCRIPTS = "".join(
    [
        "abcXYZ019'’-_+#. \n\t", "éÅßİıŁøæ", "ЁжΩλ", "שלאבمرح", "हिन्दी", "กาแฟ", "ကမြန်မာ", "កខ្មែរ", "ひカ漢字𠮷",
        "가나각", "🙂🚀❤️👩‍💻☕→①½ﬁＡ", "\u0301\u200b\u2028\ufeff",
    ]
)  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text(SCRIPTS, max_size=40)


@given(text=texts)
def test_words_are_never_empty_never_hold_space_and_are_not_too_long(text: str) -> None:
    for word in split_words(text):
        assert word
        assert not any(character.isspace() for character in word)
        assert len(word) <= MAX_WORD


@given(text=texts)
def test_what_is_asked_for_is_among_what_is_indexed_and_is_never_nothing(text: str) -> None:
    asked = split_query(text)
    assert set(asked) <= set(split_words(text))
    assert bool(asked) == bool(split_words(text))
    assert len(set(asked)) == len(asked)
    assert split_query(f"  {text}\n") == asked


@given(text=st.text("abc'’é漢字🙂 -", max_size=20))
def test_upper_and_lower_case_ask_the_same(text: str) -> None:
    assert split_query(text.upper()) == split_query(text)


@given(title=texts, text=texts, tags=st.lists(texts, max_size=3), author=texts, key=st.none() | texts)
def test_a_record_is_found_by_the_words_of_each_of_its_fields(
    title: str, text: str, tags: list[str], author: str, key: str | None
) -> None:
    fields: dict[str, Any] = {"title": title, "text": text, "tags": tags, "author": author, "key": key}
    words = split_record(**fields, data={"n": "ignored"})
    assert count_words(**fields, data={"n": "ignored"}) == len(words)
    found_by = set(words)
    for part in (title, text, *tags, author, key or ""):
        assert set(split_query(part)) <= found_by


@given(title=texts, text=texts, tags=st.lists(texts, max_size=3), author=texts)
def test_a_record_has_the_words_of_all_its_fields_written_below_each_other(
    title: str, text: str, tags: list[str], author: str
) -> None:
    """Stores hold words, and counts of them, that were made so."""
    whole = "\n".join(part for part in (title, title, *tags, author, text) if part)
    found_by = split_record(title=title, text=text, tags=tags, author=author, key=None, data=None)
    assert sorted(found_by) == sorted(split_words(whole))


def test_what_was_split_a_moment_ago_is_not_changed_by_who_asked_for_it() -> None:
    first = split_stored("The parseDate function")
    first.append("spoilt")
    assert split_stored("The parseDate function") == split_words("The parseDate function")


def test_data_is_searched_only_where_there_is_no_text() -> None:
    fields = {"title": "t", "tags": (), "author": "", "key": "k"}
    data: Json = {"colour": ["blue", 7, {"deep": True}], "none": None}
    assert "blue" not in split_record(text="text", data=data, **fields)  # type: ignore[arg-type]
    found_by = split_record(text="", data=data, **fields)  # type: ignore[arg-type]
    assert {"colour", "blue", "7", "deep", "none"} <= set(found_by)
    assert "true" not in found_by
    assert json_words(data) == ["colour", "blue", "7", "deep", "none"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Running runs", ["run", "run"]),
        ("don't", ["dont"]),
        ("O’Brien", ["obrien"]),
        ("rate-limit", ["rate", "limit"]),
        ("snake_case", ["snake", "case"]),
        ("C++ and C#", ["cplusplus", "and", "csharp"]),
        ("Café", ["cafe"]),
        ("東京都", ["東京", "京都", "東", "京", "都"]),
        ("漢", ["漢"]),
        ("🙂🚀", ["🙂", "🚀"]),
        ("", []),
        ("… !?", []),
    ],
)
def test_words_are_these(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


def test_the_parts_of_a_name_in_camel_case_are_words_too() -> None:
    assert {"parsehttprequest", "pars", "http", "request"} <= set(split_words("parseHttpRequest"))
    assert {"xmlhttprequest", "xml", "http", "request"} <= set(split_words("xmlHTTPRequest"))


def test_stop_words_are_asked_for_only_when_there_is_nothing_else() -> None:
    assert split_query("what is the budget") == ("budget",)
    assert split_query("who are you") == ("who", "are", "you")


@given(text=texts, asked=texts, width=st.integers(20, 100))
def test_a_snippet_is_one_line_of_the_text(text: str, asked: str, width: int) -> None:
    shown = find_snippet(text * 5, split_query(asked), width)
    assert len(shown) <= width + 2
    assert "\n" not in shown
    assert shown.strip("…").strip() in " ".join((text * 5).split())


def test_a_snippet_shows_the_words_that_were_asked_for() -> None:
    text = "filler " * 100 + "the quokka sleeps " + "filler " * 100
    shown = find_snippet(text, split_query("quokka"), 60)
    assert "quokka" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_what_is_embedded_is_the_title_the_tags_and_the_text_or_the_data() -> None:
    assert build_embed_text(title="T", text="x", tags=("a", "b"), data={"n": 1}) == "T\na b\nx"
    assert build_embed_text(title="", text="", tags=(), data={"n": 1}) == "n 1"
    assert build_embed_text(title="", text="", tags=(), data=None) == ""


def test_threads_get_the_same_words() -> None:
    sample = [f"running{number} flies{number} don't {number}" for number in range(2000)]
    expected = [split_words(text) for text in sample]
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: [split_words(text) for text in sample], range(8)):
            assert result == expected


def test_a_blob_beside_a_name_in_camel_case_is_taken_apart_in_no_time() -> None:
    found = split_words("a" * 1_000_000 + " fooBar")
    assert found[-2:] == ["foo", "bar"]


def test_scripts_with_marks_stay_whole_words() -> None:
    assert split_words("हिन्दी தமிழ்") == ["हिन्दी", "தமிழ்"]
    assert split_words("שָׁלוֹם") == split_words("שלום")
    assert split_words("مَرْحَبًا") == split_words("مرحبا")
    assert split_query("€ ∀") == ("€", "∀")


def test_a_snippet_of_a_huge_text_is_found_in_no_time() -> None:
    assert "zebra" in find_snippet("zebra runs " * 90_000, ("zebra", "run"))
