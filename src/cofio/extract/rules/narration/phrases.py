"""What a conversation was about: a few telling phrases, taken from the words that were said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ....text.tokenizer import STOP_WORDS, split_words
from ..lexicon import ADVERBS, FOREIGN, MODALS, PASTS, VAGUE, VERBS, WEEKDAYS, get_words
from ..messages.manner import Manner
from ..messages.turns import Turn

MOST = 4
FEW = 2
LONGEST = 4  # words of a phrase
WIDEST = 60  # characters of it
READ = 12  # sentences of a turn

_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)+%?|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.|[^\W_](?:[\w'’&+#.-]*[^\W_])?%?"
    r"|[,.;:!?()\"“”—–]"
)
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CLAUSE = re.compile("[，、,；]")
_ENGLISH = (STOP_WORDS | VERBS | PASTS | ADVERBS | VAGUE) - get_words("english and more")
_BREAKS = STOP_WORDS | VAGUE | ADVERBS | MODALS | PASTS | get_words("phrase breaks") | frozenset(WEEKDAYS)
_NOUNS, _LINKS, _COUNTS = get_words("nouns"), get_words("phrase links"), get_words("numbers")
_NOT_NOUNS = VERBS - _NOUNS
_BEFORE_NOUN = get_words("before a noun")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phrase:
    text: str
    stems: tuple[str, ...]
    weight: float


def find_phrases(turns: Sequence[Turn]) -> list[str]:
    """Up to four phrases that tell what was talked about, in the order in which they first came up."""
    found = [phrase for turn in turns if turn.message.role == "user" for phrase in _find_in_turn(turn)]
    if len(found) < FEW:
        found = [phrase for turn in turns for phrase in _find_in_turn(turn)]
    counts = Counter(stem for phrase in found for stem in set(phrase.stems))
    best = sorted(
        range(len(found)),
        key=lambda at: (-found[at].weight - 0.5 * max(min(counts[stem], 4) for stem in found[at].stems), at),
    )
    chosen: list[int] = []
    used: set[str] = set()
    for at in best:
        if len(chosen) >= (MOST if found[at].weight > 1.5 else FEW):  # a lone word only where there is little else
            continue
        if used.isdisjoint(found[at].stems):
            chosen.append(at)
            used.update(found[at].stems)
    return [found[at].text for at in sorted(chosen)]


def _find_in_turn(turn: Turn) -> Iterator[_Phrase]:
    base = 1.5 if turn.message.role == "user" else 0.0
    spoken = [one for one in turn.sentences if one.manner in (Manner.STATEMENT, Manner.QUESTION, Manner.REQUEST)]
    for sentence in spoken[:READ]:
        for text, capital, count in _find_runs(sentence.text[:400]):
            stems = tuple(dict.fromkeys(stem for stem in split_words(text) if stem not in _LINKS))
            if stems and (base or count):
                yield _Phrase(text=text, stems=stems, weight=base + 1.5 * capital + 0.6 * min(max(count, 1) - 1, 2))


@lru_cache(maxsize=1024)
def _find_runs(sentence: str) -> tuple[tuple[str, bool, int], ...]:
    """The phrases of a sentence: runs of telling words, whether they hold a name, and how many words they are."""
    tokens = _TOKEN.findall(sentence)
    plain = [token.lower().replace("’", "'") for token in tokens]
    if _UNSPACED.search(sentence):
        return ((_CLAUSE.split(sentence.strip(" 。！？!?."))[0][:20], False, 0),)
    if len(tokens) > 2 and _is_foreign(tokens):  # its words cannot be told apart: the first of them must do
        shown = [token for token in tokens if token[0].isalnum()]
        return ((" ".join(shown[:5]) + ("…" if len(shown) > 5 else ""), False, 0),)
    found: list[tuple[str, bool, int]] = []
    run: list[int] = []
    for at in [*range(len(tokens)), -1]:
        if (at >= 0 and _is_telling(plain, at, run)) or (at > 0 and run and _links(tokens, plain, at)):
            run.append(at)
            continue
        if run and (phrase := _build_phrase(tokens, plain, run)):
            found.append(phrase)
        run = []
    return tuple(found)


def _is_foreign(tokens: list[str]) -> bool:
    """Whether a sentence is in no language whose small words are known."""
    plain = [token.lower() for token in tokens]
    if not FOREIGN.isdisjoint(tokens):
        return True
    spoken = plain[0] in ("i'm", "i've", "i'll", "i'd") or (tokens[0] == "I" and plain[1].endswith("ed"))
    return not spoken and _ENGLISH.isdisjoint(plain)


def _is_telling(plain: list[str], at: int, run: list[int]) -> bool:
    word = plain[at]
    if not word[0].isalnum() or word in _BREAKS:
        return False
    if word in VERBS:  # "a run" is a noun, "I run" is not
        return word in _NOUNS and at > 0 and (bool(run) or plain[at - 1] in _BEFORE_NOUN)
    return not (word.endswith("s") and (word[:-1] in _NOT_NOUNS or word[:-2] in _NOT_NOUNS))


def _links(tokens: list[str], plain: list[str], at: int) -> bool:
    """Whether a small word holds a phrase together: "climbing in Yosemite"."""
    return plain[at] in _LINKS and at + 1 < len(tokens) and tokens[at + 1][0].isupper() and tokens[at + 1] != "I"


def _build_phrase(tokens: list[str], plain: list[str], run: list[int]) -> tuple[str, bool, int] | None:
    run = run[: LONGEST + any(plain[at] in _LINKS for at in run)]
    while run and (plain[run[-1]] in _LINKS or plain[run[-1]] in _COUNTS or plain[run[-1]].endswith("ed")):
        run = run[:-1]
    text = " ".join(tokens[at] for at in run)
    if run == [0] and len(tokens) > 3:  # what begins a sentence alone tells little, and its capital nothing
        return None
    if len(text) < 3 or not any(character.isalpha() for character in text) or text.lower() in _COUNTS:
        return None
    capital = any(tokens[at][0].isupper() and at > 0 for at in run)
    return text[:WIDEST], capital, len(run)
