"""Entries in the speaker's own words: what lasts where no rule of grammar reads it, and what an assistant is to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Entry
from ...profiles import ANY_TOPIC, INSTRUCTION_CATEGORY
from ..lexicon import VAGUE
from ..messages.sentences import Sentence
from ..messages.turns import Turn
from ..narration.dates import add_dates
from ..narration.reported_speech import extract_core, shorten, to_third_person
from ..senses.cues import find_cues
from ..senses.verdicts import find_told, is_ended, is_instruction, is_lasting, judge, split_ended
from .vetoes import may_stand

LONGEST = 300
SHORTEST = 4  # characters
CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "name": "Identity", "home": "Home", "work": "Work", "family": "Family", "pet": "Pets", "diet": "Diet",
        "health": "Health", "like": "Preferences", "routine": "Habits", "language": "Languages", "tool": "Tools",
        "schedule": "Schedule", "possession": "Possessions", "plan": "Goals",
    }
)  # fmt: skip
"""What a profile files each class of knowledge under."""
_OTHERS = frozenset({"family", "other", "pet", "ended", "future"})
_COMMON = frozenset(split_words(" ".join((*STOP_WORDS, *VAGUE))))
_ASPECTS = tuple(
    (aspect, re.compile(words, re.IGNORECASE))
    for aspect, words in (
        ("emoji", r"emoji|emoticon|smile(?:y|ies)|表情|絵文字"),
        ("name", r"\bcall(?:ing)? me\b|\baddress me\b|my name|llám[ae]|llames|appelle|chiam|chamar|叫我|呼んで"),
        ("politeness", r"\b(?:in)?formal|duz|siez|tutoy|vouvoy|tut[eé]a|de usted|del tu|敬語|礼貌"),
        ("units", r"metric|imperial|celsius|fahrenheit|\bkm\b|miles|kilo(?:met|gram|s\b)|pounds|grams|units|24.?h"),
        ("spelling", r"spelling|oxford comma|british|american english|capital|caps\b|lower ?case"),
        ("sources", r"sources?\b|cit(?:e|ation)|references?\b|quellen|fuentes|links?\b"),
        ("format", r"bullet|lists?\b|tables?\b|tabell?|heading|markdown|numbered|list[ae]s?\b|elenco|列表|表格"),
        (
            "length",
            r"\bshort|\bbrief|concise|\blong|detail|sentences?\b|paragraph|\bkurz|knapp|\bbreve|corto|cort[ao]s?\b|\bcourt"
            r"|curt[ao]s|简短|详细|短く|essay|tl;?dr|summary|fluff",
        ),
        ("examples", r"examples?\b|ejemplo|exemple|esempi|beispiel|例子|例を"),
        ("language", r"(?:answer|reply|respond|write|speak|talk|antworte?n?|schreib|contest|respond|rispond|r[ée]pond"
         r"|回答|回复|答え).{0,40}(?:english|german|french|spanish|italian|dutch|portugu|norwegian|arabic|deutsch"
         r"|englisch|espa[ñn]ol|ingl[eé]s|fran[çc]ais|anglais|italiano|中文|英文|日本語|英語)"),
        ("code", r"\bcode\b|python|typescript|javascript|type hints|comments|tabs|diff\b|commit|sql\b"),
        ("tone", r"sugarcoat|blunt|honest|direct|flatter|lectur|apolog|\bsorry|jokes?\b|humou?r|chirpy|slang"),
        ("disclaimers", r"disclaimer|remind(?:ing)? me"),
    )
)  # fmt: skip


def find_instruction(one: Sentence, turn: Turn) -> Entry | None:
    """What an assistant is asked to do from now on, word for word."""
    if not is_instruction(one) or not _identify_words(one.text) or len(one.text) < SHORTEST:
        return None
    text = shorten(" ".join(one.text.split()), LONGEST)
    aspect = next((name for name, pattern in _ASPECTS if pattern.search(text)), None) or _identify_words(text)
    return Entry(
        topic=f"instruction:{aspect}"[:120], category=INSTRUCTION_CATEGORY, description=text, evidence=text,
        at=turn.message.at, message=turn.message.id,
    )  # fmt: skip


def find_spoken(one: Sentence, turn: Turn) -> Iterator[Entry]:
    """What a sentence says of its speaker that lasts, in its own words where its grammar is not certain."""
    sense = judge(one)
    if sense is None or not is_lasting(one):
        return
    text, ended = find_told(one), is_ended(one)
    if not may_stand(text, sense.kind, ended=ended):
        return
    if not ended:
        yield from _build_spoken(text, sense.kind, one, turn)
        return
    past, present = split_ended(text)
    yield from _build_spoken(past, sense.kind, one, turn, ended=True)
    if present is not None:  # "sold the vespa, cycling now"
        yield from _build_spoken(present.text, present.kind or sense.kind, one, turn)


def _build_spoken(text: str, kind: str, one: Sentence, turn: Turn, *, ended: bool = False) -> Iterator[Entry]:
    """One entry in the speaker's own words, unless there is nothing telling in them."""
    words = _identify_words(text)
    if not words:
        return
    topic = f"{ANY_TOPIC}{words}" if ended else _choose_topic(kind, words, find_cues(text))
    yield Entry(
        topic=topic[:120], category=CATEGORIES[kind],
        description=shorten(add_dates(_polish(text), turn.said_at), LONGEST),
        evidence=shorten(one.text, LONGEST), at=turn.message.at, message=turn.message.id, ended=ended,
    )  # fmt: skip


def _choose_topic(kind: str, words: str, cues: frozenset[str]) -> str:
    """What an entry is about: a person has one home and one name, and many of the rest."""
    if kind == "home" and "dwells" in cues and not cues & _OTHERS:
        return "home"
    if kind == "name" and "intro" in cues and not cues & _OTHERS:
        return "name"
    return f"{kind}:said {words}"


def _polish(text: str) -> str:
    """A sentence in the third person without its subject, or as it was said, less what only opens it."""
    turned = to_third_person(text, "\x1a")
    if turned is not None and turned.startswith("\x1a ") and "\x1a" not in turned[1:]:
        says = turned[2:].removeprefix("also ")
    else:
        says = extract_core(text) or text
    says = " ".join(says.split())
    stop = "" if says.endswith((".", "!", "?", "…", "。", "！")) else "." if says[-1:].isascii() else "。"
    return f"{says[:1].upper()}{says[1:]}{stop}"


def _identify_words(text: str) -> str:
    """What identifies a statement however it is worded: its first telling stems."""
    stems = [stem for stem in split_words(text) if stem not in _COMMON and (len(stem) > 1 or not stem.isascii())]
    return " ".join(dict.fromkeys(stems[:6]))
