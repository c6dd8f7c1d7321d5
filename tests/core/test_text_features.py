"""What ranking reads in a text: its words, its questions, names that count as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.engine.text_features import QueryWords, find_exact, measure_exact, read_text
from cofio.text.tokenizer import split_query, split_words


def read_query(text: str) -> QueryWords:
    """A query of which each word weighs one."""
    asked = split_query(text)
    return QueryWords.read(text, asked, dict.fromkeys(asked, 1.0))


def test_a_text_is_known_by_the_words_that_tell_something() -> None:
    features = read_text("We were at the lake. Did you swim? It was cold!")
    assert {"lake", "swim", "cold"} <= features.words
    assert "the" not in features.words
    assert features.word_count == len(split_words("We were at the lake. Did you swim? It was cold!"))
    assert features.question == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("text", "share"), [("", 0.0), ("Yes.", 0.0), ("Really?", 1.0), ("???", 0.0), ("So? Well. Hm?", 2 / 3)]
)
def test_the_share_of_sentences_that_ask(text: str, share: float) -> None:
    assert read_text(text).question == pytest.approx(share)


@given(text=st.text(max_size=200))
def test_features_of_any_text_lie_between_0_and_1(text: str) -> None:
    features = read_text(text)
    assert 0 <= features.length <= 1
    assert 0 <= features.question <= 1
    assert features.words <= set(split_words(text))


def test_a_longer_text_has_more_length_up_to_a_limit() -> None:
    lengths = [read_text(" ".join(f"word{n}" for n in range(count))).length for count in (0, 1, 5, 30, 300)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    assert lengths[3] == lengths[4] == 1


def test_which_words_of_a_query_a_text_holds() -> None:
    query = read_query("red kayak river")
    held = query.find_held(read_text("The kayaks were red.").joined)
    assert query.sum_weights(held) == 2
    assert query.sum_weights(query.find_held(read_text("nothing of it").joined)) == 0
    assert query.sum_weights(query.find_held(read_text("a red kayak on the river").joined)) == 3


def test_words_that_follow_each_other_count_as_pairs() -> None:
    query = read_query("rate limit of the gateway")
    together = query.count_adjacent(read_text("The gateway has a rate limit."))
    apart = query.count_adjacent(read_text("At any rate the gateway knows no limit."))
    assert together > apart
    assert query.count_adjacent(read_text("rate limit gateway")) == 1


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("what is OPS-1500 about", ("ops-1500",)), ("who changed src/x.ts", ("src/x.ts",)), ("error E0308", ("e0308",)),
        ('the note "hello world" of Ann', ("hello world",)), ("`git push --force`", ("git push --force",)),
        ("v1.2.3 or foo_bar", ("v1.2.3", "foo_bar")), ("plain words only", ()), ("it's Ann's", ()),
        ("two-dimensional flow", ()), ("", ()),
        ("„Hallo“ und «salut toi»", ("salut toi",)),
    ],
)  # fmt: skip
def test_names_and_quotations_count_as_a_whole(query: str, names: tuple[str, ...]) -> None:
    assert find_exact(query) == names


def test_a_name_is_not_found_within_a_longer_one() -> None:
    assert measure_exact(("ops-150",), "see OPS-1500") == 0
    assert measure_exact(("ops-150",), "see OPS-1500 and ops-150.") == 1
    assert measure_exact(("src/x.ts", "e0308"), "in src/x.ts:12") == 0.5
    assert measure_exact((), "anything") == 0


@given(query=st.text(max_size=60), text=st.text(max_size=60))
def test_any_query_can_be_held_against_any_text(query: str, text: str) -> None:
    words = read_query(query)
    assert 0 <= words.count_adjacent(read_text(text)) <= 1
    assert 0 <= measure_exact(find_exact(query), text) <= 1
    assert 0 <= words.sum_weights(words.find_held(read_text(text).joined)) <= len(words.weights)
