"""What kind of task a case is: the words of its request that say so, and its tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Case
from ..lines import only_reads
from .commands import DESTROYS, changes_something, find_action, find_program, is_generic
from .steps import has_worked
from .vocabulary import get_meanings, get_phrases, get_words

_REPAIR = "fix"
_READ = 1_000  # characters of a request that are read
_ORDER = re.compile(
    r"(?:^|[;,.:?!] |\band |\bthen |\bto |\byou )(?:[Pp]lease )?"
    r"([A-Za-z]+)\b(?=( (?:out|into|what|why|how|whether|if|for)\b)?)"
)
_MEANT = (  # what is wanted where the verb alone does not say it
    (re.compile(r"(?i)\b(?:get|bring|make|have|put)\b.{1,60}?\b(?:back|going|run|work|green)(?:ning|ing)?\b"), _REPAIR),
    (re.compile(r"(?i)\b(?:faster|quicker|speed \w{0,8} ?up|slow(?:ly)?)\b"), "optimise"),
)  # fmt: skip
_TO = re.compile(r"\bto [a-z]+")
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_ASIDE = re.compile(  # what was changed later, what is quoted, and paths, addresses, names in code
    r"\(then: [^)]{0,300}\)?|(?<!\w)[\"“'‘][^\"”'’]{12,300}[\"”'’](?!\w)"
    r"|[^\s,;!?]{0,200}[_/\\@=\d][^\s,;!?]{0,200}|[^\W_]+\.[^\W_]\S{0,200}"
)
_COMMON_CORE = re.compile(
    r"(?:edit|write|create|str|replace|multi)\w*|sed|git .*|python3?|node|make|npm .*|mkdir|cp|mv|touch|tee"
    r"|curl|wget|http .*"
)
"""What is used for changes of every kind, so that it proves no kinship."""

WORDS_ALONE = 0.5  # the share of words in common from which two requests are alike, by what their tools say
WORDS_WITH_TOOLS = 0.25
SAME_TOOLS = 0.5


def is_alike(case: Case, other: Case) -> bool:
    """Whether two requests want the same done to the same kind of thing, and the runs agree in what they did.

    Names, numbers and times do not count, nor do tools that serve for everything. Where what one run changed things
    with contains what the other did, the same verb and one thing in common are enough, or none where that core is
    telling; with the same telling tools a little in common is; without, the requests must share half of their words.
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
    if tools and their_tools:
        acting = {tool for tool in tools | their_tools if not only_reads(tool)}
        if acting:  # many kinds of tasks begin by looking up the same thing
            tools, their_tools = tools & acting, their_tools & acting
        if 2 * len(tools & their_tools) >= SAME_TOOLS * (len(tools) + len(their_tools)):
            return likeness >= WORDS_WITH_TOOLS and (bool(things) or tools == their_tools)
    (acts, actions), (they_act, their_actions) = _collect_actions(case), _collect_actions(other)
    are_others = bool(actions and their_actions) and not actions & their_actions
    if are_others and (acts != they_act or _destroys(actions) != _destroys(their_actions)):
        return False
    return bool(things) and likeness >= WORDS_ALONE


def _has_same_core(case: Case, other: Case, likeness: float) -> bool:
    """Whether both want the same, and all that one run changed things with is among what the other did.

    `likeness` is 0 where they have no thing in common: then more has to agree.
    """
    if not (_find_wanted_verbs(case.intent) & _find_wanted_verbs(other.intent)) - _find_looking_verbs():
        return False
    core, their_core = _find_core(case), _find_core(other)
    shared = core & their_core
    telling = {name for name in shared if not _COMMON_CORE.fullmatch(name)}
    same_trouble = bool(_find_mended(case) & _find_mended(other))
    if not shared or shared not in (core, their_core):
        return bool(telling) and same_trouble
    if same_trouble or likeness >= WORDS_WITH_TOOLS:
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
        if has_worked(step) and changes_something(step)
    )


def _find_mended(case: Case) -> set[str]:
    """The programs that failed and worked in the end."""
    worked = {find_program(step) for step in case.steps if has_worked(step)}
    return {find_program(step) for step in case.steps if step.failed} & worked - {""}


def _find_looks(case: Case) -> set[str]:
    """The programs that a run looked or checked with."""
    actions = (find_action(step) for step in case.steps)
    return {action.name for action in actions if action.name and action.doing != "acts"}


@cache
def _find_looking_verbs() -> frozenset[str]:
    stems = split_words(" ".join(get_words("looking verbs")))
    return frozenset(get_meanings("same verbs").get(stem, stem) for stem in stems)


def _wants_the_same(request: str, other: str) -> bool:
    """Whether two requests have a verb in common; one without a verb that is known may mean any.

    What changes something is compared before what only looks: to find backups and delete them is to delete.
    """
    mine, theirs = _find_wanted_verbs(request), _find_wanted_verbs(other)
    if not (mine and theirs):
        return True
    acts, their_acts = mine - _find_looking_verbs(), theirs - _find_looking_verbs()
    return bool(acts & their_acts) if acts or their_acts else True


@lru_cache(maxsize=1024)
def _find_wanted_verbs(request: str) -> frozenset[str]:
    """What a request tells to do, each verb by the first of its meaning; a question wants something looked up."""
    verbs = find_orders(_TO.sub(" ", request[:_READ]))  # "Remind me to call mum" is no call
    if not set(verbs) - get_words("means"):
        verbs = find_orders(request)
    found = [stem for verb in verbs if verb not in get_words("means") for stem in split_words(verb)[:1]]
    if get_words("light verbs").intersection(verbs):
        found += [deed for stem in split_words(request[:_READ]) if (deed := get_meanings("deeds").get(stem))]
    found += split_words(find_meaning(request, *verbs))
    if not found and get_phrases("question").match(request):
        found = ["find"]
    return frozenset(get_meanings("same verbs").get(stem, stem) for stem in found)


def find_meaning(request: str, *verbs: str) -> str:
    """The verb that a request means whose own `verbs` do not say it; empty where they do."""
    if not set(verbs) - {""} <= get_words("means", "vague verbs"):
        return ""
    if meant := next((verb for way, verb in _MEANT if way.search(request[:_READ])), ""):
        return meant
    asks = get_phrases("question").match(request)
    return _REPAIR if not asks and get_phrases("trouble").search(request[:_READ]) else ""


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
        if stem := split_words(word)[:1]:
            found[word] = get_meanings("same verbs").get(stem[0], stem[0]) if word in verbs else stem[0]
    return found


def _find_telling_words(intent: str) -> list[str]:
    """The words of a request without stop words, numbers, times and, as far as can be told, names."""
    request = _ASIDE.sub(" ", intent[:_READ])
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
    plain = re.sub("['’]", "", word)
    return plain in STOP_WORDS or (plain.endswith("nt") and plain != word) or word in get_words("times", "fillers")


def find_orders(intent: str) -> list[str]:
    """The verbs of a request that stand where something is told to be done, those that only ask about it last."""
    found: list[str] = []
    idle: list[str] = []
    for match in _ORDER.finditer(_ASIDE.sub(" ", intent[:_READ])):
        if (verb := match[1].lower()) in get_words("verbs"):
            weak = match[2] or verb == "make" or verb in get_words("looking verbs", "means")
            (idle if weak else found).append(verb)
    return found + idle


def _find_telling_tools(case: Case) -> frozenset[str]:
    return frozenset(step.tool for step in case.steps if not is_generic(step.tool))


def _destroys(actions: frozenset[str]) -> bool:
    return any(DESTROYS.search(name) for name in actions)


def _collect_actions(case: Case) -> tuple[bool, frozenset[str]]:
    """Whether the tools for everything were made to act, and what they did then; else what they looked with."""
    done = [find_action(step) for step in case.steps if is_generic(step.tool)]
    acting = frozenset(name for name, doing in done if name and doing == "acts")
    return bool(acting), acting or frozenset(name for name, _ in done if name)
