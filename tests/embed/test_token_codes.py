"""Codes of tokens, against plain arithmetic and with the real model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cofio.embed import Embedder, TokenEmbedder
from cofio.embed.hashed import HashedEmbedder
from cofio.embed.minilm import ID, MiniLM
from cofio.embed.remote import Remote
from cofio.embed.token_codes import (
    BYTES,
    DIMENSIONS,
    MOST_TOKENS,
    WIDTH,
    decode,
    encode,
    load_projection,
    prepare_query,
    score,
    select_tokens,
)
from cofio.text.tokenizer import STOP_WORDS

Floats = NDArray[np.float32]


@st.composite
def hidden_layers(draw: st.DrawFn, least: int = 0) -> Floats:
    """The token vectors of a text, as far as codes care: numbers of a usual size."""
    tokens, seed = draw(st.integers(least, 8)), draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).normal(size=(tokens, WIDTH)).astype(np.float32)


@pytest.fixture(scope="session")
def minilm(models: Path) -> MiniLM:
    return MiniLM(models / ID)


def project(hidden: Floats) -> Floats:
    """The 64 numbers of length one, before they are cut down to four bits."""
    projected = hidden @ load_projection().matrix
    unit: Floats = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    return unit


def encode_all(hidden: Floats) -> bytes:
    """The codes of all tokens."""
    return encode(hidden, range(len(hidden)))


@given(st.lists(hidden_layers(), max_size=6))
def test_what_is_decoded_is_what_was_encoded_but_for_half_a_step(texts: list[Floats]) -> None:
    numbers, lengths = decode([encode_all(hidden) for hidden in texts])
    assert lengths.tolist() == [len(hidden) for hidden in texts]
    assert numbers.shape == (sum(map(len, texts)), DIMENSIONS)
    assert numbers.dtype == np.int8
    steps, at = load_projection().steps, 0
    for hidden in texts:
        exact, found = project(hidden), numbers[at : at + len(hidden)]
        at += len(hidden)
        assert found.min(initial=0) >= -8
        assert found.max(initial=0) <= 7
        inside = (found > -8) & (found < 7)  # what is beyond the last step is cut off
        assert (np.abs(found * steps - exact) <= 0.501 * steps)[inside].all()


@given(hidden_layers(), st.lists(hidden_layers(), max_size=6), st.data())
def test_a_score_is_the_weighted_mean_of_the_best_cosines(
    query: Floats, texts: list[Floats], data: st.DataObject
) -> None:
    size = len(query)
    weights = np.array(data.draw(st.lists(st.floats(0, 9, width=32), min_size=size, max_size=size)), np.float32)
    found = score(prepare_query(query), weights, [encode_all(hidden) for hidden in texts])
    assert found.shape == (len(texts),)
    steps = load_projection().steps
    for hidden, one in zip(texts, found.tolist(), strict=True):
        expected = 0.0
        if len(hidden) and weights.sum() > 0:
            (numbers, _), total = decode([encode_all(hidden)]), 0.0
            for row, weight in zip(project(query), weights.tolist(), strict=True):
                total += weight * max(float(row @ (token * steps)) for token in numbers)
            expected = total / float(weights.sum())
        assert one == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("where is the walrus ?", [3]),
        ("it ' s a walrus ’ s tusk , isn ' t it", [4, 7, 9]),
        ("plan d", [0, 1]),
        ("who is he ?", [0, 1, 2]),
        ("? ! …", []),
        ("", []),
        ("海 象 。", [0, 1]),
        ("wal wal wal", [0, 1, 2]),
    ],
)
def test_punctuation_and_stop_words_have_no_codes(words: str, expected: list[int]) -> None:
    assert select_tokens(words.split()) == expected


def test_vectors_come_with_codes_as_they_come_alone(minilm: MiniLM) -> None:
    texts = ["A man is eating food.", "", "?!", "the walrus " * 300, "Zoë’s naïve 海象"]
    vectors, codes = minilm.embed_with_codes(texts)
    assert np.array_equal(vectors, minilm.embed(texts))
    assert [len(each) // BYTES for each in codes[:3]] == [3, 0, 0]
    assert len(codes[3]) == MOST_TOKENS * BYTES
    vector, tokens = minilm.embed_query_with_tokens("What did the naïve walruses eat?")
    assert np.array_equal(vector, minilm.embed_query("What did the naïve walruses eat?"))
    assert tokens.words == ("what", "did", "the", "naive", "walruses", "walruses", "walruses", "eat", "?")
    assert tokens.matrix.shape == (len(tokens.words), DIMENSIONS)
    _, none = minilm.embed_query_with_tokens("")
    assert none.words == ()
    assert score(none.matrix, np.zeros(0, np.float32), [b"", b"\0" * BYTES]).tolist() == [0.0, 0.0]


def test_words_that_mean_the_same_score_higher_than_others(minilm: MiniLM) -> None:
    _, codes = minilm.embed_with_codes(
        ["We moved the party to Friday evening.", "The kitchen sink leaks again.", "My sister plays the violin."]
    )
    for question, expected in (("When is the celebration?", 0), ("plumbing trouble", 1), ("Who makes music?", 2)):
        _, tokens = minilm.embed_query_with_tokens(question)
        weights = np.array([word in STOP_WORDS for word in tokens.words]) < 1
        scores = score(tokens.matrix, weights.astype(np.float32), codes)
        assert int(scores.argmax()) == expected


def test_it_is_known_who_can_compare_tokens_without_asking_anyone(minilm: MiniLM) -> None:
    nowhere: Embedder = Remote("http://127.0.0.1:9/v1", model="m")
    assert isinstance(minilm, TokenEmbedder)
    assert not isinstance(nowhere, TokenEmbedder)
    assert not isinstance(HashedEmbedder(), TokenEmbedder)
