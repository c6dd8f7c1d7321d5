"""What a message is made of: its sentences, and what is set apart as code or as the words of someone else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice

from ...extractor import Recalled
from ..lexicon import get_pattern
from .manner import Manner, classify_manner
from .recalled_text import LONGEST_FACT, strip_blocks, strip_recalled
from .secret_masks import MASK, hide_secrets
from .secret_masks import SHOWN as MASK_SHOWN

READ = 16_000  # characters of a message that are read: the rest of such a message is a document, not talk
LONGEST_LINE = 4_000
MOST_LINES = 200
MOST_SENTENCES = 100  # of a line


class Part(Enum):
    """What a piece of a message is, before it is asked how it is meant."""

    PROSE = "prose"
    CODE = "code"
    QUOTE = "quote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence, or a block of code told in a few words."""

    text: str
    manner: Manner


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
_APOSTROPHE = re.compile(r"(?<=\w)’(?=\w)")
_BULLET = re.compile(r"(?:[-*+•·–▪◦]|\d{1,3}[.)]|[a-z]\)|#{1,6})\s+(?:\[[ xX]\]\s+)?")
_LABEL_ONLY = re.compile(r"^\s*(?:\d{1,3}[.)]|\[(?:memory|recalled|fact|profile)[^\]]{0,30}\])\s*", re.IGNORECASE)
_TABLE = re.compile(r"\|.*\|$")
_JSON = re.compile(r'\{\s*"|\[\s*\{')
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|[。！？؟۔।]+[”’」』）]*")
_NUMBERED = re.compile(r"(?:^|\s)\d{1,2}\.$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A message that was read: its sentences, and what was left of it, where some of it had been recalled."""

    sentences: tuple[Sentence, ...]
    own_text: str | None = None


def read_sentences(text: str, recalled: Recalled) -> Iterator[Sentence]:
    """The sentences of a message, less those that the memory gave it."""
    yield from read_message(text, recalled).sentences


def read_message(text: str, recalled: Recalled, names: Sequence[str] = ()) -> Text:
    """A message less what the memory gave it; `names` are those that its facts may begin with."""
    whole, shown, lines = _read_lines(text[:READ])  # the cache must not hold on to the rest of a document
    kept: list[Sentence] = []
    left = shown
    for line in lines:
        joined = " ".join(one.text for one in line)
        if len(line) > 1 and len(joined) <= LONGEST_FACT and recalled(joined):
            left = _remove_sentence(left, joined)
            continue
        for one in line:
            if one.manner in (Manner.CODE, Manner.COURTESY):
                kept.append(one)
                continue
            rest = strip_recalled(one.text, recalled, names)
            if rest:
                kept.append(one if rest == one.text else Sentence(text=rest, manner=classify_manner(rest)))
            if rest != one.text:
                left = _remove_sentence(left, one.text, rest)
    same = left == shown and shown == whole
    return Text(sentences=tuple(kept), own_text=None if same else _tidy(left + text[READ:]))


def _remove_sentence(text: str, sentence: str, rest: str = "") -> str:
    """`text` without a sentence, whatever the space between its words was."""
    words = [re.escape(word) for word in sentence.replace(MASK_SHOWN, MASK).split()]
    return re.sub(r"[\s*_]+".join(words), lambda _: rest, text, count=1)


def _tidy(text: str) -> str:
    """What is left of a text, without lines that hold nothing but marks."""
    lines = [line for line in text.split("\n") if "```" in line or any(map(str.isalnum, _LABEL_ONLY.sub("", line)))]
    return "\n".join(lines).replace(MASK, MASK_SHOWN).strip()


@lru_cache(maxsize=1024)
def _read_lines(text: str) -> tuple[str, str, tuple[tuple[Sentence, ...], ...]]:
    """A message, what is left of it without recalled blocks, and the sentences of each line of that."""
    whole = hide_secrets(_APOSTROPHE.sub("'", _CONTROLS.sub(" ", text)))
    shown = strip_blocks(whole)
    found: list[tuple[Sentence, ...]] = []
    for part, content in islice(_split_parts(shown), MOST_LINES):
        if part is Part.PROSE:
            parts = (one.replace(MASK, MASK_SHOWN) for one in split_sentences(content)[:MOST_SENTENCES])
            found.append(tuple(Sentence(text=one, manner=classify_manner(one)) for one in parts))
        else:
            kind = Manner.CODE if part is Part.CODE else Manner.QUOTE
            found.append((Sentence(text=content.replace(MASK, MASK_SHOWN), manner=kind),))
    return whole, shown, tuple(line for line in found if line and line[0].text)


def _split_parts(text: str) -> Iterator[tuple[Part, str]]:
    """Lines of prose, and blocks of code told in a few words."""
    for number, piece in enumerate(text.split("```")):
        if number % 2:
            language, _, body = piece.partition("\n")
            yield Part.CODE, _describe_code(language.strip() if body else "", body or language)
        elif piece.strip():
            yield from _split_prose(piece)


def _describe_code(language: str, body: str) -> str:
    name = f"{language.lower()} " if language.isalpha() and len(language) <= 20 else ""
    count = _render_line_count(len(body.strip("\n").splitlines()))
    return f"a table, {count}" if _TABLE.match(body.strip()) else f"a block of {name}code, {count}"


def _render_line_count(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _split_prose(text: str) -> Iterator[tuple[Part, str]]:
    """Lines of prose outside of fences; lines that are code or a log all the same become blocks."""
    block: list[str] = []
    waiting = ""
    for raw in text.splitlines():
        line = " ".join(raw.split())[:LONGEST_LINE]
        is_code = bool(line) and (_TABLE.match(line) or get_pattern("code line", exact=True).match(line)) is not None
        if block and not is_code:
            yield Part.CODE, _describe_code("", "\n".join(block))
            block = []
        if waiting and not (line[:1].islower() and not is_code and waiting[-1] not in ".!?:;…"):
            yield Part.PROSE, waiting
            waiting = ""
        if is_code:
            block.append(line)
        elif line.startswith(">"):
            yield Part.QUOTE, line.lstrip("> ")
        elif line:
            waiting, data = _split_json(f"{waiting} {line}" if waiting else _strip_marks(line))
            if data:
                yield from ((Part.PROSE, waiting), (Part.CODE, _describe_code("", data)))
                waiting = ""
            elif len(waiting) < 50:  # only a full line goes on in the next
                yield Part.PROSE, waiting
                waiting = ""
    if block:
        yield Part.CODE, _describe_code("", "\n".join(block))
    if waiting:
        yield Part.PROSE, waiting


def _split_json(line: str) -> tuple[str, str]:
    """The prose of a line, and the JSON that it ends with."""
    data = _JSON.search(line)
    if data is None:
        return line, ""
    prose = line[: data.start()].rstrip()
    # A colon shows that "The server answered" is not all that was said.
    return (f"{prose}:" if prose[-1:].isalnum() else prose), line[data.start() :]


def _strip_marks(line: str) -> str:
    """A line without the marks of lists, headings and stress."""
    bullet = _BULLET.match(line)
    return (line[bullet.end() :] if bullet else line).replace("**", "").replace("__", "")


def split_sentences(line: str) -> list[str]:
    """The sentences of one line of prose."""
    quotes = line.count('"') % 2 == 0
    brackets = line.count("(") == line.count(")")
    found: list[str] = []
    start = seen = inside = depth = 0
    for end in _END.finditer(line):
        inside += line.count('"', seen, end.end())
        depth += line.count("(", seen, end.end()) - line.count(")", seen, end.end())
        seen = end.end()
        if (quotes and inside % 2) or (brackets and depth > 0) or _goes_on(line, start, end.end()):
            continue
        if sentence := line[start : end.end()].strip():
            found.append(sentence)
        start = end.end()
    if rest := line[start:].strip():
        found.append(rest)
    return found


def _goes_on(line: str, start: int, end: int) -> bool:
    """Whether what looks like the end of a sentence is none."""
    if line[end - 1] not in ".…\"'”’)]":
        return False
    head = line[max(start, end - 12) : end]
    after = line[end : end + 2].lstrip()
    if get_pattern("abbreviation").search(head):
        return True
    if _NUMBERED.search(head) and (
        get_pattern("after a number", exact=True).match(line, end) or get_pattern("before a number").search(head)
    ):
        return True
    if after[:1].isdigit():
        return head.endswith(".") and not head.endswith("..") and not head[-4:-1].isdigit()
    if not after[:1].islower():
        return False
    # A writer who uses no capitals begins sentences without them, too.
    return (
        head.endswith(("...", "…", '"', "”"))
        or get_pattern("maybe the end").search(head) is not None
        or not line[start : start + 2].strip()[:1].islower()
    )
