"""What commands or statements of several runs have in common, with gaps for what differs."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby, takewhile

GAP = "<…>"
_TELLING = 4  # characters of a part of a word that say something
_HEAD, _TAIL = re.compile(r".*\W", re.DOTALL), re.compile(r"\W.*", re.DOTALL)


def keep_common(old: str, new: str) -> str:
    """A command or statement of which only the words are left, or their ends, that two have in common."""
    before, after = old.split(), new.split()
    kept: list[str] = []
    for kind, low, high, start, stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            kept += before[low:high]
        elif kind == "replace" and high - low == stop - start:
            kept += map(_keep_ends, before[low:high], after[start:stop])
        else:
            kept.append(GAP)
    return " ".join(word for word, _ in groupby(kept))


def _keep_ends(old: str, new: str) -> str:
    """What two words have in common at the beginning and the end, if that says something."""
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    start, end = _HEAD.match(old[:head]), _TAIL.search(old[len(old) - tail :] if tail else "")
    before, after = start[0] if start else "", end[0] if end else ""
    return f"{before}{GAP}{after}" if len(re.findall(r"\w", before + after)) >= _TELLING else GAP


def _count_common(old: str, new: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
