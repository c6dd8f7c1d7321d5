"""Texts are cut so that they fit, and no more than that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.text.token_counts import count_tokens, fit, trim

TEXTS = st.text(st.characters(codec="utf-8"), max_size=400)


def test_only_the_longest_texts_are_cut_and_other_scripts_cost_more() -> None:
    short, longer, longest = "a" * 40, "b" * 4_000, "c" * 40_000
    cut = fit([longest, short, longer], 500)
    assert cut[1] == short
    assert len(cut[0]) == len(cut[2])
    assert sum(map(count_tokens, cut)) <= 500
    assert count_tokens("memory") == count_tokens("記憶") == 2


@given(TEXTS, st.integers(10, 200))
def test_a_trimmed_text_fits(text: str, most: int) -> None:
    assert count_tokens(trim(text, most)) <= most
    assert trim(text, most) == text or count_tokens(text) > most


@given(st.lists(TEXTS, max_size=8), st.integers(0, 500))
def test_texts_that_fit_are_left_alone_and_others_fit_afterwards(texts: list[str], most: int) -> None:
    cut = fit(texts, most)
    assert len(cut) == len(texts)
    if sum(map(count_tokens, texts)) <= most:
        assert cut == texts
    elif most >= 20 * len(texts):
        assert sum(map(count_tokens, cut)) <= most
