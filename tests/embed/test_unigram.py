"""Our tokenizer of the multilingual model against SentencePiece itself: the same tokens for every text."""

import json
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given, settings

from cofio.embed.multilingual import ID, PIECES, VOCABULARY
from cofio.embed.unigram import Unigram

from ..tiers import scale_examples
from .test_wordpiece import SCRIPTS, TEXT

ALL = 10**9
START, END = 1, 2


@pytest.fixture(scope="module")
def file(multilingual_models: Path) -> Path:
    return multilingual_models / ID / VOCABULARY


@pytest.fixture(scope="module")
def ours(file: Path) -> Unigram:
    return Unigram(file, most=ALL)


@pytest.fixture(scope="module")
def theirs(multilingual_weights: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(multilingual_weights / PIECES))


@pytest.fixture(scope="module")
def scores(file: Path) -> list[float]:
    read: list[float] = json.loads(file.read_bytes())["scores"]
    return read


def check(
    text: str, ours: Unigram, theirs: sentencepiece.SentencePieceProcessor, scores: list[float]
) -> None:  # fmt: skip
    start, *tokens, end = ours.encode(text)
    expected = theirs.encode(text)
    assert (start, end) == (START, END)
    if tokens != expected:  # two ways to cut it that are equally likely: rounding decides
        assert len(tokens) == len(expected), text
        assert sum(scores[each] for each in tokens) == pytest.approx(sum(scores[each] for each in expected)), text


def test_texts_of_every_script_have_the_same_tokens(
    ours: Unigram, theirs: sentencepiece.SentencePieceProcessor, scores: list[float]
) -> None:
    special = "extra_token_id_1 in xextra_token_id_2x <s> </s> <unk> ▁ a▁b ▁▁"
    for text in (*SCRIPTS, " ".join(SCRIPTS), "".join(reversed(SCRIPTS)), special, "", " "):
        check(text, ours, theirs, scores)


@settings(max_examples=scale_examples(500))
@given(text=TEXT)
@example(text="e\u0301e \u0301")
@example(text="\u1112\u1161\u11ab\u1100\u1173\u11af")
@example(text="ﬃ ㍿ ½ Ｆｕｌｌ　ｗｉｄｔｈ")
def test_any_text_has_the_same_tokens(
    text: str, ours: Unigram, theirs: sentencepiece.SentencePieceProcessor, scores: list[float]
) -> None:
    check(text, ours, theirs, scores)


def test_what_comes_after_the_most_tokens_does_not_count(file: Path) -> None:
    few = Unigram(file, most=8)
    assert len(few.encode("one two three")) == 5
    assert len(few.encode("word " * 100)) == 8
    assert few.encode("word " * 100) == few.encode("word " * 200)
