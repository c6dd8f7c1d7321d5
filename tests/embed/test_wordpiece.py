"""Our tokenizer against the library that the model was made with: the same tokens for every text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from cofio.embed.minilm import TOKENIZER
from cofio.embed.wordpiece import WordPiece

from ..tiers import scale_examples

MOST = 256
ALL = 10**9
SCRIPTS = [
    "Hello, World! It's 3.14 o'clock (approx.); see https://example.org/a_b?c=d&e=f#g",
    "Übergrößenträger, naïve café, Ångström, Łódź, İstanbul, ǅ, ﬁne, ß, ſ, Œuvre, ĳ",
    "Ελληνικά ΟΔΟΣ ὈΔΥΣΣΕΎΣ; Русский текст ЁЖ й; Հայերեն; ქართული ᲥᲐᲠᲗᲣᲚᲘ",
    "עִבְרִית שָׁלוֹם, العربية ٱلْعَرَبِيَّة ‏١٢٣, فارسی می‌خواهم, اردو",
    "हिन्दी में लिखना, বাংলা, தமிழ், తెలుగు, ಕನ್ನಡ, മലയാളം, ไทยไม่มีช่องว่าง, ລາວ, မြန်မာ, ខ្មែរ, བོད་སྐད",
    "記憶は大切です。メモリー・ｶﾀｶﾅ ﾊﾟ 漢字かな交じり文、中文分詞，简体繁體 豈 𠀀 㐀",
    "한국어 텍스트 각 힣 ㄱㄴㄷ",
    "👩‍👩‍👧‍👦 🇳🇴 👍🏽 ❤️ ☺ 1️⃣ 🙂🙂",
    "tabs\tand\nlines\r\nand\x0bforms\x0c\x1c\x1d\x85 \u2028\u2029\u3000\xa0\u200b\u200d\ufeff\xad end",
    "\x00\x01\x7f\x80\ufffd \ue000 \U000f0000 \U0010ffff \u0378 \U0001f9ff",
    "e\u0301 a\u0308\u0323 q\u0307\u0323 \u0301alone \u1d165\u302e x\u20dd",
    "[CLS] in [SEP] the[MASK]text [PAD][UNK] [cls] [ SEP ] [[MASK]] [unused1] ##ing [CLS",
    "x" * 100 + " " + "y" * 101 + " " + "é" * 100 + " " + "e\u0301" * 101,
    "`~!@#$%^&*()-_=+[]{}\\|;:'\",.<>/? «» „“ ‚‘ … – — ¿¡ § ¶ • ‰ ′ ″ € £ ¥ © ® ™ ° ± × ÷ ∑ ∞ ≠ ≤ √",
    "donaudampfschifffahrtsgesellschaft antidisestablishmentarianism qwrtzpsdfg xkcd zzzzzz",
]
# Whatever hypothesis makes of all characters is mostly of no known script; this has more of what texts have.
TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    st.sampled_from("aeiou nst,.'-[]#ÉéßñΣσςİıЖ漢字かな한\u0301\u0308\u200d🙂\n\t\x00")
    | st.sampled_from("[CLS]SEPMASK##")
)


@pytest.fixture(scope="module")
def file(models: Path) -> Path:
    return next(models.glob(f"*/{TOKENIZER}"))


@pytest.fixture(scope="module")
def ours(file: Path) -> WordPiece:
    return WordPiece(file, most=MOST)


@pytest.fixture(scope="module")
def theirs(file: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST)
    return tokenizer


def test_texts_of_every_script_have_the_same_tokens(ours: WordPiece, theirs: Tokenizer) -> None:
    for text in (*SCRIPTS, " ".join(SCRIPTS), "".join(reversed(SCRIPTS)), "", " "):
        assert ours.encode(text) == theirs.encode(text).ids, text


@settings(max_examples=scale_examples(500))
@given(text=TEXT)
@example(text="a" * 99 + "\u0301b")
@example(text="word " * 254)
@example(text="word " * 255)
@example(text="unbelievable" * 40)
def test_any_text_has_the_same_tokens(text: str, ours: WordPiece, theirs: Tokenizer) -> None:
    assert ours.encode(text) == theirs.encode(text).ids


def blocks() -> Iterator[str]:
    """Every character between letters, alone and after a letter with an accent, many to a text."""
    for first in range(0, 0x110000, 0x800):
        if 0xD800 <= first < 0xE000:
            continue
        # Thousands of ideographs and of characters that nobody has are all alike: of these, one block of many.
        if (0x3800 <= first < 0xD000 or 0x12800 <= first < 0x1A000 or first >= 0x20000) and first % 0x8000:
            continue
        yield " ".join(f"a{chr(each)}b {chr(each)} é{chr(each)}\u0301" for each in range(first, first + 0x800))


def test_every_character_is_dropped_cut_out_or_kept_alike(file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    everything = WordPiece(file, most=ALL)
    for text in blocks():
        if everything.encode(text) != tokenizer.encode(text).ids:
            wrong = [word for word in text.split(" ") if everything.encode(word) != tokenizer.encode(word).ids]
            pytest.fail(f"other tokens for {wrong!a}")


def test_what_is_remembered_of_words_and_characters_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.embed.wordpiece._MOST_WORDS", 10)
    monkeypatch.setattr("cofio.embed.wordpiece._MOST_CHARACTERS", 10)
    small, large = WordPiece(file, most=MOST), WordPiece(file, most=MOST)
    for text in SCRIPTS:
        assert small.encode(text) == large.encode(text)
        assert max(len(small._words), len(small._characters)) <= 10
        tokens, words = large.encode_with_words(text)
        assert tokens == large.encode(text)
        for token, word in zip(tokens[1:-1], words, strict=True):
            assert token in large.encode(word)[1:-1]
