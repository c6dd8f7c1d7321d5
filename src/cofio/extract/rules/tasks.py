"""What kind of task a case is: the words of its request that say so, and its tools."""

from __future__ import annotations

import re

from ...text import STOP_WORDS, words
from .. import Case
from .lines import name_words, reads
from .requests import VERBS

_SAME_VERBS = (
    "book reserve", "find search look locate research", "fix debug repair resolve solve diagnose correct patch",
    "create make add generate build write draft compose", "delete remove drop clear", "buy order purchase",
    "show list display print get fetch give tell see", "send email mail message", "update change edit modify adjust",
    "check verify validate inspect review examine test", "deploy ship release publish roll redeploy", "turn switch",
    "run execute launch start", "explain describe", "summarise summarize", "plan arrange organise organize schedule",
    "analyse analyze evaluate investigate", "move reschedule shift postpone", "rename refactor rewrite",
)  # fmt: skip
_SAME_NOUNS = (
    "holiday vacation trip", "picture image photo", "meeting appointment", "bug issue error problem failure",
    "fail broken",
)  # fmt: skip


def _first_of_each(groups: tuple[str, ...]) -> dict[str, str]:
    """The stem of the first word of each group, by the stems of all of its words."""
    return {stem: words(group)[0] for group in groups for stem in words(group)}


_VERB = _first_of_each(_SAME_VERBS)
_NOUN = _first_of_each(_SAME_NOUNS)
_ORDER = re.compile(
    r"(?:^|[;,.:?!] |\band |\bthen |\bto |\byou )([A-Za-z]+)\b(?=( (?:out|into|what|why|how|whether|if|for)\b)?)"
)
_WEAK = frozenset(
    re.findall(
        r"\S+",
        "find search look get check see show list fetch tell give help make use try take go keep",
    )
)
_TIMES = frozenset(
    re.findall(
        r"\S+",
        "today tonight tomorrow yesterday morning noon afternoon evening night midnight now later soon monday "
        "tuesday wednesday thursday friday saturday sunday weekend week month year day hour minute january "
        "february march april may june july august september october november december am pm o'clock next last "
        "this one two three four five six seven eight nine ten eleven twelve dozen couple first second third",
    )
)
_FILL = frozenset(
    re.findall(
        r"\S+",
        "want need like help use way thing stuff mine kind sure good best via many much version wrong "
        "following everything anything something since der die das den dem des ein eine einen einem einer und "
        "oder für von mit im zu zum zur auf um am bei ist mir uns bitte morgen heute uhr le la les un une du "
        "et ou pour avec dans sur au aux ce cette est el los las una uno del y o para con en por es demain "
        "mañana",
    )
)
_GENERIC = frozenset(
    re.findall(
        r"\S+",
        "bash shell sh terminal run exec execute command cmd python code interpreter read write edit view cat "
        "open file files search web browser browse fetch http request get post url page grep glob find list ls "
        "think todo call api tool query sql replace str patch apply text editor based computer google click type "
        "scroll screenshot navigate notebook data load save do invoke mcp function",
    )
)
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_ASIDE = re.compile(  # what was changed later, and what is quoted
    r"\(then: [^)]{0,300}\)?|(?<!\w)[\"“'‘][^\"”'’]{12,300}[\"”'’](?!\w)"
)
_IDENTIFIER = re.compile(r"\S{0,200}[^\W_][_/\\@=][^\W_]\S{0,200}|[^\W_]+\.[^\W_]\S{0,200}|\S{0,200}/(?=\s|$|[,.;])")

WORDS_ALONE = 0.5  # the share of words in common from which two requests are alike, by what their tools say
WORDS_WITH_TOOLS = 0.25
WORDS_DESPITE_TOOLS = 0.7
SAME_TOOLS = 0.5


def is_alike(case: Case, other: Case) -> bool:
    """Whether two requests share what they are about, and the runs their tools where those are telling.

    Names, numbers and times do not count, nor do tools that serve for everything. With the same telling tools a little
    in common is enough; without, the requests must share half of their words, and what is to be done.
    """
    mine, theirs = kinds(case.intent), kinds(other.intent)
    common = set(mine.values()) & set(theirs.values())
    if not common:
        return False
    likeness = 2 * len(common) / (len(set(mine.values())) + len(set(theirs.values())))
    verbs, their_verbs = _verbs(case, mine), _verbs(other, theirs)
    things = common - (verbs & their_verbs)
    same_verb = bool(verbs & their_verbs) or not (verbs and their_verbs)
    tools, their_tools = _telling(case), _telling(other)
    least = WORDS_ALONE
    if tools and their_tools:
        least = WORDS_DESPITE_TOOLS
        acting = {tool for tool in tools | their_tools if not reads(tool)}
        if acting:  # many kinds of tasks begin by looking up the same thing
            tools, their_tools = tools & acting, their_tools & acting
        if 2 * len(tools & their_tools) >= SAME_TOOLS * (len(tools) + len(their_tools)):
            return likeness >= WORDS_WITH_TOOLS and (bool(things) or (same_verb and tools == their_tools))
    return same_verb and bool(things) and likeness >= least


def _verbs(case: Case, kind: dict[str, str]) -> set[str]:
    return {kind[word] for word in orders(case.intent) if word in kind}


def kinds(intent: str) -> dict[str, str]:
    """The telling words of a request, in order, and for each the stem that stands for all words of its meaning."""
    verbs = orders(intent)
    found: dict[str, str] = {}
    for word in _telling_words(intent):
        stem = words(word)[:1]
        if stem:
            found[word] = (_VERB if word in verbs else _NOUN).get(stem[0], stem[0])
    return found


def _telling_words(intent: str) -> list[str]:
    """The words of a request without stop words, numbers, times and, as far as can be told, names."""
    asked = _IDENTIFIER.sub(" ", _ASIDE.sub(" ", intent[:1_000]))
    found: list[tuple[str, bool]] = []
    start = True
    for match in _TOKEN.finditer(asked):
        named = not start and match[0][0].isupper() and not (match[0].isupper() and len(match[0]) > 1)
        start = asked[match.end() : match.end() + 1] in tuple(".!?:;")
        if not _is_idle(match[0].lower()):
            found.append((match[0].lower(), named))
    plain = [word for word, named in found if not named]
    return plain if len(plain) >= 2 else [word for word, _ in found]


def _is_idle(word: str) -> bool:
    """Whether a word says nothing of the kind of a task."""
    plain = word.replace("'", "").replace("’", "")
    return (
        plain in STOP_WORDS or (plain.endswith("nt") and plain != word) or word in _TIMES or word in _FILL
        or any(letter.isdigit() for letter in word)
    )  # fmt: skip


def orders(intent: str) -> list[str]:
    """The verbs of a request that stand where something is told to be done, those that only ask about it last."""
    found: list[str] = []
    idle: list[str] = []
    for match in _ORDER.finditer(_IDENTIFIER.sub(" ", intent[:1_000])):
        if (verb := match[1].lower()) in VERBS:
            (idle if match[2] or verb in _WEAK else found).append(verb)
    return found + idle


def is_generic(tool: str) -> bool:
    """Whether a tool serves for tasks of every kind."""
    return all(part in _GENERIC for part in name_words(tool))


def _telling(case: Case) -> frozenset[str]:
    return frozenset(step.tool for step in case.steps if not is_generic(step.tool))
