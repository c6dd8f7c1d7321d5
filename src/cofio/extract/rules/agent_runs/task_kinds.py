"""What kind of task a case is: the words of its request that say so, and its tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Case
from ..lines import only_reads, split_name
from .commands import DESTROYS, changes_something, find_action, find_program
from .steps import has_worked
from .vocabulary import (
    COMMON_LOOKS,
    DEEDS,
    FILLERS,
    GENERIC,
    LIGHT_VERBS,
    LOOKING,
    MEANS,
    SAME_NOUNS,
    SAME_VERBS,
    SHELLS,
    TIMES,
    VAGUE_VERBS,
    VERBS,
    WEAK_VERBS,
)


def _index_by_first(groups: tuple[str, ...]) -> dict[str, str]:
    """The stem of the first word of each group, by the stems of all of its words."""
    return {stem: split_words(group)[0] for group in groups for stem in split_words(group)}


_VERB = _index_by_first(SAME_VERBS)
_NOUN = _index_by_first(SAME_NOUNS)
_REPAIR = "fix"
_ORDER = re.compile(
    r"(?:^|[;,.:?!] |\band |\bthen |\bto |\byou )(?:[Pp]lease )?"
    r"([A-Za-z]+)\b(?=( (?:out|into|what|why|how|whether|if|for)\b)?)"
)
_LOOKING = frozenset(_VERB.get(stem, stem) for stem in split_words(LOOKING))
_MEANT = (  # what is wanted where the verb alone does not say it
    (
        re.compile(r"(?i)\b(?:get|bring|make|have|put)\b.{1,60}?\b(?:back|going|run|running|work|working|green)\b"),
        _REPAIR,
    ),
    (re.compile(r"(?i)\b(?:faster|quicker|speed \w{0,8} ?up|slow(?:ly)?)\b"), "optimise"),
)
_TROUBLE = re.compile(  # a request that names one wants it repaired
    r"(?i)\b(?:crash\w{0,4}|broken|breaks?|fail(?:s|ed|ing)?|dies|died|throws?|hangs?|stuck|red|down|unreachable|exception"
    r"|bad gateway|50[0234]|(?:wo|ca|do|does|is|are)n['’]?t|cannot|can not|not (?:start|run|work|come|going)\w{0,4})\b"
)
_COMMON_CORE = re.compile(
    r"(?:edit|write|create|str|replace|multi)\w*|sed|git .*|python3?|node|make|npm .*|mkdir|cp|mv|touch|tee"
    r"|curl|wget|http .*"
)
"""What is used for changes of every kind, so that it proves no kinship."""
_TO = re.compile(r"\bto [a-z]+")
_QUESTION = re.compile(r"(?i)(?:what|which|who|whose|where|when|why|how|is|are|was|were|does|did|has|have)\b")
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_ASIDE = re.compile(  # what was changed later, and what is quoted
    r"\(then: [^)]{0,300}\)?|(?<!\w)[\"“'‘][^\"”'’]{12,300}[\"”'’](?!\w)"
)
_IDENTIFIER = re.compile(  # paths, addresses, names of hosts and of things in code: prod-1, src/a.py, readAll
    r"\S{0,200}[^\W_][_/\\@=][^\W_]\S{0,200}|[^\W_]+\.[^\W_]\S{0,200}|\S{0,200}/(?=\s|$|[,.;])|(?<!\S)[/~]\S{1,200}"
    r"|\b(?:[^\W_]{1,40}-){1,6}[^\W_]{0,40}\d[\w-]{0,40}|\b[^\W_]{0,40}\d[^\W_]{0,40}(?:-[^\W_]{1,40}){1,6}"
    r"|\b[a-z]{1,40}[A-Z]\w{0,60}"
)

WORDS_ALONE = 0.5  # the share of words in common from which two requests are alike, by what their tools say
WORDS_WITH_TOOLS = 0.25
WORDS_WITH_EDITS = 0.33
WORDS_DESPITE_TOOLS = 0.7
SAME_TOOLS = 0.5


def is_alike(case: Case, other: Case) -> bool:
    """Whether two requests want the same done to the same kind of thing, and the runs agree in what they did.

    Names, numbers and times do not count, nor do tools that serve for everything. Where what one run changed things
    with contains what the other did, the same verb and one thing in common are enough, or none where that core is
    telling; with the same telling tools a little in common is; without, the requests must share half of their words;
    and most of them where the tools, or the programs that a tool for everything was made to run, are others.
    """
    if not _wants_the_same(case.intent, other.intent):
        return False
    mine, theirs = find_kinds(case.intent), find_kinds(other.intent)
    common = set(mine.values()) & set(theirs.values())
    things = common - (_find_kind_verbs(case, mine) & _find_kind_verbs(other, theirs))
    likeness = 2 * len(common) / max(1, len(set(mine.values())) + len(set(theirs.values())))
    if _has_same_core(case, other, likeness if things else 0.0):
        return True
    if not common:
        return False
    tools, their_tools = _find_telling_tools(case), _find_telling_tools(other)
    least = WORDS_ALONE
    if tools and their_tools:
        least = WORDS_DESPITE_TOOLS
        acting = {tool for tool in tools | their_tools if not only_reads(tool)}
        if acting:  # many kinds of tasks begin by looking up the same thing
            tools, their_tools = tools & acting, their_tools & acting
        if 2 * len(tools & their_tools) >= SAME_TOOLS * (len(tools) + len(their_tools)):
            return likeness >= WORDS_WITH_TOOLS and (bool(things) or tools == their_tools)
    (acts, actions), (they_act, their_actions) = _collect_actions(case), _collect_actions(other)
    if actions and their_actions and not actions & their_actions:
        if acts != they_act or _destroys(actions) != _destroys(their_actions):
            return False
        least = WORDS_DESPITE_TOOLS
    return bool(things) and likeness >= least


def _has_same_core(case: Case, other: Case, likeness: float) -> bool:
    """Whether both want the same, and all that one run changed things with is among what the other did.

    `likeness` is 0 where they have no thing in common: then more has to agree.
    """
    if not (_find_wanted_verbs(case.intent) & _find_wanted_verbs(other.intent)) - _LOOKING:
        return False
    core, their_core = _find_core(case), _find_core(other)
    shared = core & their_core
    telling = {name for name in shared if not _COMMON_CORE.fullmatch(name)}
    same_trouble = bool(_find_mended(case) & _find_mended(other))
    if not shared or shared not in (core, their_core):
        return bool(telling) and same_trouble
    if same_trouble or likeness >= WORDS_WITH_EDITS:
        return True
    if likeness:
        return bool(telling)
    same_look = not telling.isdisjoint(_find_telling_tools(case)) or bool(_find_looks(case) & _find_looks(other))
    return bool(telling) and len(shared) > 1 and same_look


def _find_core(case: Case) -> frozenset[str]:
    """What a run changed things with, where that worked: its tools, or the programs of tools for everything."""
    return frozenset(
        (find_program(step) if is_generic(step.tool) else "") or step.tool
        for step in case.steps
        if has_worked(step) and changes_something(step) and (find_program(step) or not _is_shell(step.tool))
    )


def _is_shell(tool: str) -> bool:
    return SHELLS.issuperset(split_name(tool))


def _find_mended(case: Case) -> set[str]:
    """The programs that failed and worked in the end."""
    worked = {find_program(step) for step in case.steps if has_worked(step)}
    return {find_program(step) for step in case.steps if step.failed} & worked - {""}


def _find_looks(case: Case) -> set[str]:
    """The programs that a run looked or checked with, but for those that are used everywhere."""
    actions = (find_action(step) for step in case.steps)
    return {action.name for action in actions if action.name and action.doing != "acts"} - COMMON_LOOKS


def _wants_the_same(request: str, other: str) -> bool:
    """Whether two requests have a verb in common; one without a verb that is known may mean any.

    What changes something is compared before what only looks: to find backups and delete them is to delete.
    """
    mine, theirs = _find_wanted_verbs(request), _find_wanted_verbs(other)
    if not (mine and theirs):
        return True
    acts, their_acts = mine - _LOOKING, theirs - _LOOKING
    return bool(acts & their_acts) if acts or their_acts else True


@lru_cache(maxsize=1024)
def _find_wanted_verbs(request: str) -> frozenset[str]:
    """What a request tells to do, each verb by the first of its meaning; a question wants something looked up."""
    verbs = find_orders(_TO.sub(" ", request[:1_000]))  # "Remind me to call mum" is no call
    if not set(verbs) - MEANS:
        verbs = find_orders(request)
    found = {_VERB.get(stem, stem) for verb in verbs if verb not in MEANS for stem in split_words(verb)[:1]}
    if LIGHT_VERBS.intersection(verbs):
        nouns = [DEEDS[word] for word in _TOKEN.findall(request[:1_000].lower()) if word in DEEDS]
        found |= {_VERB.get(stem, stem) for noun in nouns for stem in split_words(noun)[:1]}
    if meant := find_meaning(request, *verbs):
        found |= {_VERB.get(stem, stem) for stem in split_words(meant)}
    if not found and _QUESTION.match(request):
        return frozenset(sorted(_LOOKING)[:1])
    return frozenset(found)


def find_meaning(request: str, *verbs: str) -> str:
    """The verb that a request means whose own `verbs` do not say it; empty where they do."""
    if not set(verbs) - {""} <= VAGUE_VERBS:
        return ""
    if meant := next((verb for way, verb in _MEANT if way.search(request[:1_000])), ""):
        return meant
    return _REPAIR if _TROUBLE.search(request[:1_000]) and not _QUESTION.match(request) else ""


def _find_kind_verbs(case: Case, kind: Mapping[str, str]) -> set[str]:
    return {kind[word] for word in find_orders(case.intent) if word in kind}


@lru_cache(maxsize=1024)
def find_kinds(intent: str) -> Mapping[str, str]:
    """The telling words of a request, in order, and for each the stem that stands for all words of its meaning.

    A new case is compared with some hundred, each time with the same.
    """
    verbs = find_orders(intent)
    found: dict[str, str] = {}
    for word in _find_telling_words(intent):
        stem = split_words(word)[:1]
        if stem:
            found[word] = (_VERB if word in verbs else _NOUN).get(stem[0], stem[0])
    return found


def _find_telling_words(intent: str) -> list[str]:
    """The words of a request without stop words, numbers, times and, as far as can be told, names."""
    request = _IDENTIFIER.sub(" ", _ASIDE.sub(" ", intent[:1_000]))
    found: list[tuple[str, bool]] = []
    start = True
    for match in _TOKEN.finditer(request):
        named = not start and match[0][0].isupper() and not (match[0].isupper() and len(match[0]) > 1)
        start = request[match.end() : match.end() + 1] in tuple(".!?:;")
        if not _is_idle(match[0].lower()):
            found.append((match[0].lower(), named))
    plain = [word for word, named in found if not named]
    return plain if len(plain) >= 2 else [word for word, _ in found]


def _is_idle(word: str) -> bool:
    """Whether a word says nothing of the kind of a task."""
    plain = word.replace("'", "").replace("’", "")
    return (
        plain in STOP_WORDS or (plain.endswith("nt") and plain != word) or word in TIMES or word in FILLERS
        or any(letter.isdigit() for letter in word)
    )  # fmt: skip


def find_orders(intent: str) -> list[str]:
    """The verbs of a request that stand where something is told to be done, those that only ask about it last."""
    found: list[str] = []
    idle: list[str] = []
    for match in _ORDER.finditer(_IDENTIFIER.sub(" ", _ASIDE.sub(" ", intent[:1_000]))):
        if (verb := match[1].lower()) in VERBS:
            (idle if match[2] or verb in WEAK_VERBS else found).append(verb)
    return found + idle


def is_generic(tool: str) -> bool:
    """Whether a tool serves for tasks of every kind."""
    return all(part in GENERIC for part in split_name(tool))


def _find_telling_tools(case: Case) -> frozenset[str]:
    return frozenset(step.tool for step in case.steps if not is_generic(step.tool))


def _destroys(actions: frozenset[str]) -> bool:
    return any(DESTROYS.search(name) for name in actions)


def _collect_actions(case: Case) -> tuple[bool, frozenset[str]]:
    """Whether the tools for everything were made to act, and what they did then; else what they looked with."""
    done = [find_action(step) for step in case.steps if is_generic(step.tool)]
    acting = frozenset(name for name, doing in done if name and doing == "acts")
    return bool(acting), acting or frozenset(name for name, _ in done if name)
