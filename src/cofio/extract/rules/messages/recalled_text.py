"""What an agent put back into a conversation from its memory: blocks that say so, and sentences that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....text.fence import RECALL_TAG
from ...extractor import Recalled

LONGEST_FACT = 600  # no fact that the memory holds is longer
MOST_CLAUSES = 8
LONGEST_HEADING = 120

_TAG = re.compile(
    r"<(/?)((?:relevant|user|long[_-]term|episodic|semantic|core|agent|past)[_-]memor(?:y|ies)|memor(?:y|ies)"
    r"|memory[_-](?:context|block|bank)|recall(?:ed)?(?:[_-]\w{1,30})?|retrieved(?:[_-]\w{1,30})?|remembered"
    rf"|{re.escape(RECALL_TAG)}"
    r"|user[_-]profile|context|system-reminder)(?:\s[^<>]{0,200})?>",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"[ \t]*(?P<mark>#{1,6}[ \t]+|\*\*|\[)?(?:here(?:'s| is| are) )?(?:(?:the |your |some |my )?(?:relevant |past "
    r"|long-term "
    r"|recalled |retrieved |stored |saved |user |previous |related )+(?:memor(?:y|ies)|facts?|context)"
    r"|recalled (?:memory|memories|facts?)|memor(?:y|ies)(?: context)?|known facts|(?:known )?facts about (?:the user"
    r"|you|(?-i:[A-Z])\w{1,30})"
    r"|(?:things |what )(?:i|we) (?:know|remember) about (?:the user|you|(?-i:[A-Z])\w{1,30})(?: so far)?"
    r"|what (?:you|the assistant) (?:know|knows|remember|remembers) about me|user (?:profile|facts|memories|context))"
    r"(?:\*\*|\])?[ \t]*(?P<colon>:)?(?:\*\*)?[ \t]*$",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"[ \t]*#{1,6}[ \t]")
_BULLET = re.compile(r"\s*(?:[-*+•·–▪◦]|\d{1,3}[.)])\s|\s{2,}\S")
_MARKS = " \t\"'“”‘’«»*_-•·"
_LABEL = re.compile(
    r"(?:[-*+•·–▪◦>]+ |\d{1,3}[.)] |[\[(](?:recalled |user |relevant )?(?:memory|memories|fact|profile|recalled"
    r"|context)[^\])]{0,30}[\])][:,]? ?"
    r"|(?:recalled|memory|fact|profile|known)(?: \d{1,3})?: ?|\[[\d:T. Z-]{4,30}\] ?)",
    re.IGNORECASE,
)
_DESCRIBES = re.compile(
    r"(?:Lives|Is|Has|Works|Grew|Was|Studies|Studied|Speaks|Does|Did|Loves|Likes|Enjoys|Adores|Prefers|Hates|Dislikes"
    r"|Despises|Detests|Cannot|Drives|Wants|Graduated|[A-Z][a-z]{2,12}s) "
)


def strip_blocks(text: str) -> str:
    """`text` less the blocks that agents put recalled memory in: between tags, and under headings that name it."""
    return _strip_headed(_strip_tagged(text))


def _strip_tagged(text: str) -> str:
    """`text` less what stands between the tags of recalled memory; one left open has no end."""
    if "<" not in text:
        return text
    kept: list[str] = []
    start, depth, name = 0, 0, ""
    for tag in _TAG.finditer(text):
        if depth == 0:
            if not tag[1]:
                kept.append(text[start : tag.start()])
                depth, name = 1, tag[2].lower()
        elif tag[2].lower() == name:
            depth += -1 if tag[1] else 1
            if depth == 0:
                start = tag.end()
    if depth == 0:
        kept.append(text[start:])
    return "\n".join(kept)


def _strip_headed(text: str) -> str:
    """`text` less what follows a heading such as "Relevant memories:" down to an empty line or the next heading."""
    low = text.lower()
    if "\n" not in text or not ("memor" in low or "fact" in low or "know" in low or "user" in low or "context" in low):
        return text
    kept: list[str] = []
    state = "outside"
    for line in text.split("\n"):
        heading = _HEADING.match(line) if len(line) <= LONGEST_HEADING else None
        if heading and (heading["mark"] or heading["colon"]):
            state = "headed"
        elif state == "outside" or not line.strip() or _MARKDOWN.match(line):
            state = "headed" if state == "headed" and not line.strip() else "outside"
        elif state == "headed":
            state = "listed" if _BULLET.match(line) else "within"
        elif state == "listed" and not _BULLET.match(line):  # what follows a list is the speaker's own
            state = "outside"
        if state == "outside":
            kept.append(line)
    return "\n".join(kept)


def strip_recalled(sentence: str, recalled: Recalled, names: Sequence[str]) -> str:
    """What is left of a sentence without the clauses that the memory holds."""
    if len(sentence) > LONGEST_FACT:
        return sentence
    if _is_stored(sentence, recalled, names):
        return ""
    clauses = sentence.split("; ")
    if not 1 < len(clauses) <= MOST_CLAUSES:
        return sentence
    left = [clause for clause in clauses if not _is_stored(clause, recalled, names)]
    return "; ".join(left) if len(left) < len(clauses) else sentence


def _is_stored(sentence: str, recalled: Recalled, names: Sequence[str]) -> bool:
    return any(recalled(form) for form in dict.fromkeys(_list_forms(sentence, names)))


def _list_forms(sentence: str, names: Sequence[str]) -> Iterator[str]:
    """The forms in which the memory may hold a sentence."""
    yield sentence
    bare = sentence
    while label := _LABEL.match(bare):
        bare = bare[label.end() :]
    bare = bare.strip(_MARKS)
    if not bare:
        return
    yield bare
    ended = f"{bare[:1].upper()}{bare[1:]}".rstrip(".!;, ") + "."
    yield ended
    if _DESCRIBES.match(ended):
        for name in names:
            yield f"{name} {ended[:1].lower()}{ended[1:]}"
