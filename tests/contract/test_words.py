"""Any text can be found by its words, in any script, the moment it is written and ever after."""

from __future__ import annotations

import itertools
import random
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Draft, Engine, Kind, Page, Query, Record, Scope
from cofio.values.query import Mode

from ..tiers import scale_examples

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
DEMO = Scope("demo")
FOUND_BY = {
    "The login uses JSON Web Tokens.": ["login", "LOGIN", "token", "json web", "how does the login work?"],
    "We don't retry on failure": ["don't retry", "don’t retry", "dont retry", "retrying", "failures"],
    "O’Brien signed it off": ["O'Brien", "O’Brien", "obrien", "o'brien's"],
    "The rate-limit stays at 100/s": ["rate-limit", "rate limit", "limits", "100/s"],
    "Deployed 🚀 on Friday": ["🚀", "🚀🚀", "deployed 🚀"],
    "I ❤️ this ☕": ["❤️", "❤", "☕"],
    "我喜欢喝咖啡": ["咖啡", "喝", "喜欢", "我喜欢喝咖啡"],
    "東京タワーへ行きました": ["東京", "京", "タワー", "東京タワー", "ワ"],
    "ひらがなで書く": ["ひらがな", "書く", "書"],
    "서울에서 친구를 만났다": ["서울", "친구", "만났다", "친"],
    "ฉันชอบดื่มกาแฟ": ["กาแฟ", "ชอบ", "ดื่ม"],
    "Café in Zürich, très naïve": ["cafe", "CAFÉ", "zurich", unicodedata.normalize("NFD", "zürich"), "naive"],
    "parseHttpRequest raised": ["parseHttpRequest", "parsehttprequest", "http request", "parse"],
    "the user_session_id column": ["user_session_id", "session", "user session id"],
    "Written in C++ only": ["C++", "c++", "C++?"],
    "Ported to C# later": ["C#", "c#", "(C#)"],
    "Größe der Straße": ["grösse", "GRÖSSE", "Strasse", "straße"],
    "Ελλάδα και Κύπρος": ["ελλαδα", "ΕΛΛΆΔΑ", "κυπρος"],
    "Ёлка в Москве": ["елка", "МОСКВЕ"],
    "İstanbul Boğazı": ["istanbul", "İSTANBUL", "bogazı"],
    "مرحبا بالعالم": ["مرحبا"],
    "שלום עולם": ["שלום"],
    "हिन्दी में लिखा": ["हिन्दी"],
    "Python 3.11.7 was pinned": ["3.11.7", "3.11", "pinned"],
    "Ask sales@example.com, see https://example.org/a?b=c#d": ["sales@example.com", "https://example.org/a?b=c#d"],
    "ＦＵＬＬ ｗｉｄｔｈ": ["full", "ｗｉｄｔｈ", "width"],
    "x" * 200: ["x" * 200, "X" * 100],
    'He said "never again" (twice) [sic] {ok} <b>bold</b>': ['"never again"', "(twice)", "[sic]", "<b>"],
    "who are you": ["who are you", "WHO ARE YOU?"],
    "title:colon AND OR NOT NEAR/2 caret^2 star*": ["title:colon", "caret^2", "star*", "colon AND star"],
    "back\\slash per%cent under_score 'single'": ["back\\slash", "per%cent", "under_score", "'single'"],
}
HOSTILE = [
    "AND", "OR", "NOT", "AND AND", "x AND", "NOT x", "NEAR(", "(", ")", "((((", '"', '""', '"x', "'", "''", "*", "x*",
    "^x", "-x", "+x", "~", "~1", "x:", ":x", "a:b:c", "[", "]", "[a TO b]", "{", "}", "\\", "\\\\", "/", "/re/", "?",
    "!", "&&", "||", ";", "--", "; DROP TABLE record;--", "%", "_", "$", "#", "@", "`", "=", "<", ">", "\u200b",
    "\u2028", "\ufeff", "\ufffd", "\U0010ffff", "\r\n", "\t", "\x01", "\x7f", "c++", "++", "##", "'s", "x'",
    "1e999", "-0", "NaN", "null", "a" * 10_000, "a " * 5000, "漢" * 10_000, "🙂" * 10_000, "(" * 10_000,
]  # fmt: skip


def ids(hits: Page) -> list[str]:
    """The ids of hits, in order."""
    return [hit.record.id for hit in hits]


def test_any_text_is_found_by_its_words(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    records = remember(*(Draft(scope=DEMO, text=text) for text in FOUND_BY))
    for record, queries in zip(records, FOUND_BY.values(), strict=True):
        for asked in queries:
            hits = memory.search(Query(asked, mode="keyword"))
            assert ids(hits)[:1] == [record.id], (asked, record.text)
            assert hits[0].why.words, asked


def test_words_of_every_field_find_the_record(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    fields: dict[str, Any] = {
        "title": "zebra one",
        "tags": ("zebra two", "x"),
        "author": "zebra three",
        "key": "zebra four",
    }
    drafts = [Draft(scope=DEMO, text="nothing of the kind", **{name: value}) for name, value in fields.items()]
    records = remember(*drafts, Draft(scope=DEMO, text="something else"))
    for record, word in zip(records, ("one", "two", "three", "four"), strict=False):
        assert ids(memory.search(Query(word, mode="keyword"))) == [record.id]
    found = memory.search(Query("many zebras", mode="keyword", floor=0.0))
    assert set(ids(found)) == {record.id for record in records[:4]}


def test_a_word_in_the_title_counts_for_more_than_one_in_the_text(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    in_text, in_title, _ = remember(
        Draft(scope=DEMO, title="budget plans", text="the harbour is closed today"),
        Draft(scope=DEMO, title="harbour plans", text="the budget is closed today"),
        Draft(scope=DEMO, text="unrelated"),
    )
    assert ids(memory.search(Query("harbour", mode="keyword"))) == [in_title.id, in_text.id]


def test_no_query_breaks_a_search(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(*(Draft(scope=DEMO, text=text) for text in FOUND_BY))
    for asked in HOSTILE:
        for mode in MODES:
            hits = memory.search(Query(asked[:10_000], mode=mode))
            assert hits.degraded is None, asked


def test_a_query_without_words_finds_nothing_by_words(memory: Engine) -> None:
    memory.write(DEMO, text="something … !?")
    for asked in ("", " ", "\n\t", "…", "!?", "\u200b"):
        hits = memory.search(Query(asked, mode="keyword"))
        assert len(hits) == hits.cut == 0
        assert hits.searched.words == ()
        assert hits.degraded is None


def test_a_query_of_ten_thousand_characters_finds_the_record_with_its_rarest_words(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    filler = " ".join(f"filler{number}" for number in range(700))
    wanted, *_ = remember(
        Draft(scope=DEMO, text="the quokka sleeps"),
        *(Draft(scope=DEMO, text=f"filler{number} is common to several, filler{number}") for number in range(30)),
    )
    asked = f"quokka {filler}"[:10_000]
    assert wanted.id in ids(memory.search(Query(asked, mode="keyword", floor=0.0, limit=50)))


def test_an_edited_or_replaced_record_is_found_by_its_new_words_and_not_by_its_old(
    memory: Engine, remember: Callable[..., list[Record]], settle: Callable[[], None]
) -> None:
    record, other, phase, _ = remember(
        Draft(scope=DEMO, text="walrus", title="tusk", tags=("arctic",), author="inuk"),
        Draft(scope=DEMO, text="unrelated"),
        Draft(scope=DEMO, kind=Kind.STATE, key="phase", data={"now": "planning"}),
        Draft(scope=DEMO, text="x"),
    )
    memory.edit(record.id, text="giraffe", title="neck", tags=["savanna"], author="masai")
    memory.put(DEMO, "phase", data={"now": "building"}, kind=Kind.STATE)
    settle()
    for asked in ("walrus", "tusk", "arctic", "inuk", "planning"):
        assert ids(memory.search(Query(asked, mode="keyword", floor=0.0))) == [], asked
    for asked in ("giraffe", "neck", "savanna", "masai"):
        assert ids(memory.search(Query(asked, mode="keyword"))) == [record.id], asked
    for asked in ("building", "phase"):
        assert ids(memory.search(Query(asked, mode="keyword"))) == [phase.id], asked
    memory.edit(record.id, text="walrus again")
    assert ids(memory.search(Query("walrus", mode="keyword"))) == [record.id]
    assert ids(memory.search(Query("giraffe", mode="keyword"))) == []
    assert ids(memory.search(Query("unrelated", mode="keyword"))) == [other.id]
    assert memory.check() == []


def test_a_deleted_record_is_never_found_again(
    memory: Engine, remember: Callable[..., list[Record]], settle: Callable[[], None]
) -> None:
    doomed, kept = remember(Draft(scope=DEMO, text="walrus colony"), Draft(scope=DEMO, text="walrus herd"))
    memory.delete(doomed.id)
    for _ in range(2):
        for mode in MODES:
            asked = Query("walrus colony", mode=mode, floor=0.0)
            assert ids(memory.search(asked)) == [kept.id]
        settle()
    memory.settle()
    assert ids(memory.search(Query("walrus colony", floor=0.0))) == [kept.id]
    assert memory.check() == []


def test_an_id_that_is_written_again_after_a_delete_is_a_new_record(
    memory: Engine, remember: Callable[..., list[Record]], settle: Callable[[], None]
) -> None:
    remember(Draft(scope=DEMO, text="walrus", id="one"), Draft(scope=DEMO, text="other"))
    memory.delete("one")
    again = memory.write(DEMO, text="giraffe", id="one")
    settle()
    assert again.version == 1
    assert ids(memory.search(Query("walrus", mode="keyword", floor=0.0))) == []
    assert ids(memory.search(Query("giraffe", mode="keyword"))) == ["one"]


def test_a_long_record_is_found_by_a_word_that_it_alone_has(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    words = [f"word{number}" for number in range(9000)]
    record, *_ = remember(
        Draft(scope=DEMO, text=f"{' '.join(words)} quokka"),
        *(Draft(scope=DEMO, text=f"short note {number}") for number in range(200)),
    )
    assert ids(memory.search(Query("quokka", mode="keyword"))) == [record.id]


def test_more_than_the_limit_is_never_returned_and_the_best_come_first(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    records = remember(*(Draft(scope=DEMO, text="apple " * (number + 1) + "pear") for number in range(20)))
    for limit in (1, 3, 20, 1000):
        hits = memory.search(Query("apple", mode="keyword", limit=limit, floor=0.0))
        assert len(hits) == min(limit, 20)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert set(ids(hits)) <= {record.id for record in records}


def test_equal_records_come_newest_first(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    records = remember(*(Draft(scope=DEMO, text="just the same") for _ in range(10)))
    for mode in MODES:
        hits = memory.search(Query("same", mode=mode, floor=0.0))
        assert ids(hits) == [record.id for record in records[::-1]]


def keyword_scores(hits: Page) -> dict[str, float]:
    """The keyword score of each hit by its id, in the order of the hits."""
    return {hit.record.id: hit.why.keyword.score for hit in hits if hit.why.keyword}


def corpus() -> list[Draft]:
    """Texts of words from a small vocabulary, some common and some rare, short and long."""
    chance = random.Random(7)
    vocabulary = [f"w{number}" for number in range(60)]
    weights = [60 / (number + 1) for number in range(60)]
    drafts = []
    for number in range(150):
        text = " ".join(chance.choices(vocabulary, weights, k=chance.randint(3, 35)))
        drafts.append(Draft(scope=DEMO / str(number % 3), text=text, id=f"{number:03}"))
    return drafts


def test_the_tail_ranks_as_the_index_does(memory: Engine) -> None:
    queries = [
        Query(asked, scope=scope, mode="keyword", limit=200, floor=0.0)
        for asked in ("w30", "w0 w45", "w3 w20 w50", "w59 w58 w57 w1", "w0")
        for scope in (Scope(), DEMO / "1")
    ]

    def rank() -> list[dict[str, float]]:
        return [keyword_scores(memory.search(query)) for query in queries]

    drafts = corpus()
    memory.write_many(drafts)
    by_tail = rank()
    memory.settle()
    by_index = rank()
    memory.drop(Scope())
    memory.write_many(drafts[:75])
    memory.settle()
    memory.write_many(drafts[75:])
    for tail, *others in zip(by_tail, by_index, rank(), strict=True):
        assert len(tail) > 3
        for other in others:
            assert other == pytest.approx(tail, rel=0.02)
            # Near ties may change places: the index rounds the lengths of its records.
            assert all(
                tail[better] >= 0.99 * tail[worse]
                for better, worse in itertools.pairwise(sorted(other, key=other.__getitem__, reverse=True))
            )


@settings(max_examples=scale_examples(40))
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60))
def test_whatever_is_written_is_found_by_itself(memory: Engine, text: str) -> None:
    if not text.strip():
        return
    memory.drop(DEMO)
    record = memory.write(DEMO, text=text)
    hits = memory.search(Query(text, mode="keyword", scope=DEMO))
    assert ids(hits) == ([record.id] if hits.searched.words else [])
    memory.settle()
    assert ids(memory.search(Query(text, mode="keyword", scope=DEMO))) == ids(hits)
