"""What a call does, by its tool's name or the command, statement or method that it was given: look, check or act."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from ...extractor import Step
from ..lines import only_reads, split_name
from .arguments import COMMANDS, SHORT, get_fields
from .vocabulary import get_words

Doing: TypeAlias = Literal["acts", "checks", "looks"]
"""To look changes nothing and finds no fault; to check changes nothing, and may fail; all else acts."""


class Action(NamedTuple):
    """What a tool for everything was made to do, such as `kubectl rollout restart`, `sql select` or `http get`."""

    name: str
    doing: Doing


class _Nature(NamedTuple):
    """What a call is by its tool and its arguments."""

    action: Action
    looks_up: bool
    changes_something: bool


_STATEMENTS = ("query", "sql", "statement", "q", "command", "")
_OPERATIONS = ("method", "verb", "command", "action", "operation")
_PATHS = ("path", "file", "file_path", "filepath", "filename", "file_name", "uri", "url")
_STATEMENT = re.compile(
    r"(?i)\s{0,20}(select|show|explain|describe|with|insert|update|delete|drop|truncate|alter|create|grant|revoke|merge"
    r"|copy|set)\b"
)
DESTROYS = re.compile(
    r"(?<!\S)(?:rm|rmdir|dd|shred|mkfs[\w.]{0,8}|-?delete|DELETE"
    r"|drop|truncate|destroy|prune|purge|p?kill|killall|terminate)(?!\S)"
)
_CHANGING = re.compile(  # what makes a program that looks or checks one that acts
    r"(?:^|\s)(?:-X ?(?!GET|HEAD)[A-Z]+|--request[ =](?!GET|HEAD)[A-Z]+|-d|--data\S{0,20}|-delete|-exec|-i\S{0,8}"
    r"|--in-place|--fix)(?:\s|$)|>(?!&|\s?/dev/null)"
)
_CHAIN = re.compile(r"\s*(?:&&|\|\||[;|\n])\s*")
_QUOTED = re.compile(r"'[^']{0,400}'|\"[^\"]{0,400}\"")
_ELSEWHERE = re.compile(  # what only says where, or as whom, the rest is to be run
    r"(?:sudo )?(?:ssh (?:-[a-zA-Z]+ (?:\S+[ =@]\S+ )?|-[a-zA-Z] ?\S+ ){0,6}\S+ "
    r"|(?:docker|kubectl) exec (?:-\S+ ){0,4}\S+ (?:-- )?|(?:ba|z)?sh -l?c )[\"']?"
)
_PROGRAM = re.compile(
    r"(?:cd [^\s;&]{1,200} ?(?:&&|;) ?|sudo |env |time |timeout \d+s? |[A-Z_]{1,40}=\S{0,80} ){0,6}"
    r"(?:python3? -m |uv run |poetry run |npx |npm run |\./)?([\w./-]{1,60})"
)
_SHOWS_LOG = re.compile(r"\blogs?\b|--log|journalctl|dmesg|\btrace\b")


def is_generic(tool: str) -> bool:
    """Whether a tool serves for tasks of every kind."""
    return get_words("generic", "shells").issuperset(split_name(tool))


def find_program(step: Step) -> str:
    """What a tool for everything was made to do; empty for other tools."""
    return find_action(step).name


def find_action(step: Step) -> Action:
    """What a tool for everything was made to do; of several programs in a row the first that acts, else that checks."""
    return _get_nature(step).action


def looks_up(step: Step) -> bool:
    """Whether a call fetches something that may speak of errors without there being one."""
    return _get_nature(step).looks_up


def changes_something(step: Step) -> bool:
    """Whether a call may have changed something, and did not only look or check."""
    return _get_nature(step).changes_something


def _get_nature(step: Step) -> _Nature:
    """What a call is by its tool and arguments alone; a case is compared with hundreds, each time with the same."""
    examine = _cached_examine if len(step.arguments) <= SHORT else _examine
    return examine(step.tool, step.arguments)


def _examine(tool: str, arguments: str) -> _Nature:
    step = Step(tool=tool, arguments=arguments, result="", failed=False)
    action, given, named = _find_action(step), get_fields(step), split_name(tool)
    looks = (
        only_reads(tool)
        or any(given.get(key) in get_words("looking operations") for key in _OPERATIONS)
        or (bool(action.name) and action.doing == "looks")
    )
    acts = (
        action.doing == "acts"
        if action.name
        else bool(named) and not get_words("looking tools") & {named[0], named[-1]}
    )
    return _Nature(action, looks, acts and not looks)


_cached_examine = lru_cache(maxsize=4096)(_examine)


def _find_action(step: Step) -> Action:
    given, named = get_fields(step), split_name(step.tool)
    statement = next((given[key] for key in _STATEMENTS if key in given), "")
    if verb := next((given[key] for key in ("method", "verb") if key in given), ""):
        name = f"http {verb.lower()[:10]}"
    elif get_words("databases").intersection(named) and (found := _STATEMENT.match(statement)):
        name = f"sql {found[1].lower()}"
    else:
        command = _get_command(step)
        elsewhere = _ELSEWHERE.match(command)
        plain = command[elsewhere.end() :] if elsewhere else _QUOTED.sub("''", command)
        is_program = named[:1] and named[0] in get_words("suites", "readers") and not command.startswith(named[0])
        parts = (f"{named[0]} {part}" if is_program else part for part in _CHAIN.split(plain) if part.strip())
        return min(map(_parse_action, parts), key=lambda action: action.doing, default=Action("", "looks"))
    return Action(name, "looks" if name.partition(" ")[2] in get_words("looking operations") else "acts")


def _get_command(step: Step) -> str:
    """The command that a call runs; empty when it is no call of that kind."""
    given = get_fields(step)
    runs = bool(get_words("suites", "shells").intersection(split_name(step.tool)))
    command = next((given[key] for key in (*COMMANDS, *(("input",) if runs else ())) if key in given), "")
    return "" if " " not in command and len(given) > 1 and not runs else command


def _parse_action(command: str) -> Action:
    """The program that one command runs, and what it does."""
    command = _ELSEWHERE.sub("", command.strip(), count=1)
    name = _parse_program(command)
    if not name:
        return Action("", "looks")
    if (destroys := DESTROYS.search(command)) and destroys[0] not in name:
        return Action(f"{name} {destroys[0].lower()}", "acts")
    program, *verbs = name.split()
    if _CHANGING.search(command):
        return Action(name, "acts")
    looks = program in get_words("looking programs", "readers") or get_words("looking operations").intersection(
        verbs[-1:]
    )
    if looks:
        return Action(name, "looks")
    checks = program in get_words("checking programs") or bool(
        get_words("checking operations").intersection(verbs[-1:])
    )
    return Action(name, "checks" if checks else "acts")


def _parse_program(command: str) -> str:
    found = _PROGRAM.match(command)
    name = found[1].rsplit("/", 1)[-1] if found else ""
    if found is None or name not in get_words("suites"):
        return name
    words = iter(command[found.end() :].split()[:10])
    verbs: list[str] = []
    for word in words:
        if word.startswith("-"):
            if word in get_words("flags with values"):
                next(words, "")
        elif re.fullmatch(r"[a-z][a-z-]{1,20}", word):
            verbs.append(word)
            if word not in get_words("subjects"):
                break
        else:
            break
    return " ".join([name, *verbs[:2]])


def find_source(step: Step) -> str | None:
    """The path or address of a text that a call fetches as it is; None when it asks a service."""
    given, command, named = get_fields(step), _get_command(step), split_name(step.tool)
    if command and (program := find_program(step)):
        reads = looks_up(step) and (program.split()[0] in get_words("readers") or _SHOWS_LOG.search(command))
        return command if reads else None
    path = next((given[key] for key in _PATHS if key in given), None)
    if not named or not (only_reads(step.tool) or given.get("command") == "view"):
        return None
    if path is None and not get_words("texts").intersection(named):
        return None
    return path or " ".join([*named, next(iter(given.values()), "")]).strip()
