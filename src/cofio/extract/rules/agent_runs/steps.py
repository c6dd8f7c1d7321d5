"""The steps of an agent's run: every tool call with its arguments, its result, and whether it failed."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from ....values.records import Json
from ...extractor import Call, Message, Step
from ..lines import MASK, cut, flatten, names_secret, only_reads, split_name
from .results import NO_RESULT, render_value, summarize_result

VALUE = 120  # characters of an argument that are kept
RAW = 160
SHOWN = 60
ARGUMENTS = 160  # characters of all arguments in a line
MOST = 12  # arguments of a call that are kept
SHORT = 16_000  # characters of arguments that are worth a place in a cache

_COMMANDS = ("command", "cmd", "args", "arguments", "script", "")
_STATEMENTS = ("query", "sql", "statement", "q", "command", "")
_DATABASES = frozenset(re.findall(r"\S+", "sql query db database postgres postgresql psql mysql sqlite statement"))
_CHAIN = re.compile(r"\s*(?:&&|\|\||[;|\n])\s*")
_ELSEWHERE = re.compile(  # what only says where, or as whom, the rest is to be run
    r"(?:sudo )?(?:ssh (?:-[46AaCfGgKkMNnqsTtVvXxYy]+ |-[bcDEeFIiJLlmOopQRSWw] ?\S+ ){0,6}\S+ "
    r"|(?:docker|kubectl) exec (?:-\S+ ){0,4}\S+ (?:-- )?|(?:ba|z)?sh -l?c )[\"']?"
)
DESTROYS = re.compile(
    r"(?<!\S)(?:rm|rmdir|dd|shred|mkfs[\w.]{0,8}|-?delete|DELETE"
    r"|drop|truncate|destroy|prune|purge|p?kill|killall|terminate)(?!\S)"
)
_IDLE = frozenset(re.findall(r"\S+", "cd echo pwd true sleep df du ps top free uptime whoami date env which stat file"))
_STATEMENT = re.compile(
    r"(?i)\s{0,20}(select|show|explain|describe|with|insert|update|delete|drop|truncate|alter|create|grant|revoke|merge)\b"
)
_LOOKS = frozenset(re.findall(r"\S+", "select show explain describe with get head options status log ps logs ls list"))
_CHANGING = re.compile(  # what makes a program that looks one that acts
    r"(?:^|\s)(?:-X ?(?!GET|HEAD)[A-Z]+|--request[ =](?!GET|HEAD)[A-Z]+|-d|--data\S{0,20}|-delete|-exec|-i)(?:\s|$)"
    r"|>(?!&|\s?/dev/null)"
)
_READING_PROGRAMS = frozenset(
    re.findall(r"\S+", "cat grep rg head tail less more sed awk find ls tree jq wc curl wget diff journalctl")
)
_PATHS = ("path", "file", "file_path", "filepath", "filename", "file_name", "uri", "url")
_TEXTS = frozenset(
    re.findall(r"\S+", "file files log logs text document page content contents lines cat view head tail grep read")
)
_SUITES = frozenset(
    re.findall(
        r"\S+",
        "git pip pip3 npm yarn docker kubectl systemctl apt apt-get cargo go uv poetry terraform helm aws gcloud "
        "brew make dotnet conda gh",
    )
)
_RUNNING = _SUITES | frozenset(re.findall(r"\S+", "bash shell sh ssh terminal exec run cmd"))
_BEFORE_PROGRAM = re.compile(
    r"(?:cd [^\s;&]{1,200} ?(?:&&|;) ?|sudo |env |time |timeout \d+s? |[A-Z_]{1,40}=\S{0,80} ){0,6}"
)
_PROGRAM = re.compile(r"(?:python3? -m |uv run |poetry run |npx |npm run |\./)?([\w./-]{1,60})")


def find_steps(messages: Sequence[Message]) -> tuple[Step, ...]:
    """Every tool call of the assistants in order, each with the result that answers it."""
    calls: list[Call] = []
    answers: list[tuple[range, Message]] = []
    latest = range(0)
    for message in messages:
        if message.role == "assistant" and message.calls:
            latest = range(len(calls), len(calls) + len(message.calls))
            calls += message.calls
        elif message.role == "tool":
            answers.append((latest, message))
    results = _match_results(calls, answers)
    return tuple(_build_step(call, results.get(at)) for at, call in enumerate(calls))


def _match_results(calls: list[Call], answers: list[tuple[range, Message]]) -> dict[int, str]:
    """The text of the result of each call that has one; an answer comes with the latest calls before it.

    An id that is used again belongs to the oldest call that still waits for it; but where there are too few results,
    those of an earlier message never came. A result without an id answers the next of the latest calls.
    """
    waiting: dict[str, deque[int]] = {}
    for number, call in enumerate(calls):
        waiting.setdefault(call.id, deque()).append(number)
    left = Counter(message.answers for _, message in answers)
    unnamed: dict[range, Iterator[int]] = {}
    results: dict[int, str] = {}
    for latest, message in answers:
        at: int | None = None
        if message.answers is None:
            at = next((i for i in unnamed.setdefault(latest, iter(latest)) if i not in results), None)
        elif queue := waiting.get(message.answers):
            while left[message.answers] < len(queue) and queue[0] < latest.start and queue[1] < latest.stop:
                queue.popleft()
            at = queue.popleft() if queue[0] < latest.stop else None
        left[message.answers] -= 1
        if at is not None:
            results[at] = message.text
    return results


def _build_step(call: Call, result: str | None) -> Step:
    arguments = _encode_arguments(call.arguments)
    tool = flatten(call.name, 80) or "tool"
    step = Step(tool=tool, arguments=arguments, result=NO_RESULT, failed=False)
    if result is None:
        return step
    line, failed = summarize_result(result, reads=looks_up(step), of=_find_source(step))
    return replace(step, result=line, failed=failed)


def _encode_arguments(text: str) -> str:
    """Arguments as JSON text of plain values, cut and masked; what is no JSON object is kept as a text."""
    try:
        value: Json = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return flatten(text, RAW)
    if not isinstance(value, dict):
        return render_value(value, RAW)
    arguments = {flatten(key, 40): _simplify_value(key, item) for key, item in list(value.items())[:MOST]}
    if len(value) > MOST:
        arguments["…"] = f"{len(value) - MOST} more"
    return json.dumps(arguments, ensure_ascii=False)


def _simplify_value(key: str, value: Json) -> Json:
    if names_secret(key) and value is not None and not isinstance(value, bool):
        return MASK
    if isinstance(value, bool) or value is None:
        return value
    return value if isinstance(value, int) and abs(value) < 2**53 else _mask_value(value)


def _mask_value(value: Json) -> str:
    """A value as it is shown; what stands under the name of a secret, however deep, is masked."""
    waiting: list[tuple[Json, int]] = [(value, 0)]
    while waiting:
        item, deep = waiting.pop()
        inside: list[Json] = []
        if isinstance(item, dict):
            for key in list(item)[:MOST]:
                if names_secret(key):
                    item[key] = MASK
            inside = list(item.values())[:MOST]
        elif isinstance(item, list):
            inside = item[:MOST]
        if deep < 5:
            waiting += [(each, deep + 1) for each in inside]
    return render_value(value, VALUE)


def get_fields(step: Step) -> Mapping[str, str]:
    """A step's arguments by name, as they are shown; one that has no name stands under the empty one."""
    read = _cached_fields if len(step.arguments) <= SHORT else _parse_fields
    return read(step.arguments)


def _parse_fields(arguments: str) -> Mapping[str, str]:
    try:
        value: Json = json.loads(arguments) if arguments.startswith("{") else arguments
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict):
        return {flatten(key, 40): render_value(item, VALUE) for key, item in value.items()}
    return {"": flatten(arguments, RAW)} if arguments.strip() else {}


_cached_fields = lru_cache(maxsize=1024)(_parse_fields)


def render_call(step: Step, limit: int = ARGUMENTS) -> str:
    """A step as a call: `book_flight(flight=DY1310, seats=2)`."""
    return f"{flatten(step.tool, 80)}({render_arguments(get_fields(step), limit)})"


def render_arguments(arguments: Mapping[str, str], limit: int = ARGUMENTS) -> str:
    """Arguments on one line of at most `limit` characters: as many as fit, and the first in any case."""
    each = limit if len(arguments) == 1 else SHOWN if len(arguments) == 2 else SHOWN * 2 // 3
    line = ""
    for key, item in arguments.items():
        part = f"{key}={cut(item, each)}" if key else cut(item, each)
        if line and len(line) + len(part) > limit:
            return f"{line}, …"
        line = f"{line}, {part}" if line else part
    return line


def find_program(step: Step) -> str:
    """The program that a step's command starts, for tools that run commands; else empty."""
    arguments = get_fields(step)
    command = next((arguments[key] for key in _COMMANDS if key in arguments), "")
    if not command or (" " not in command and len(arguments) > 1 and not _RUNNING.intersection(split_name(step.tool))):
        return ""
    return _parse_program(command)


def _parse_program(command: str) -> str:
    start = _BEFORE_PROGRAM.match(command)
    found = _PROGRAM.match(command, start.end() if start else 0)
    if found is None:
        return ""
    name = found[1].rsplit("/", 1)[-1]
    verb = re.match(r" ([a-z][a-z-]{1,20})\b", command[found.end() : found.end() + 30])
    return f"{name} {verb[1]}" if verb and name in _SUITES else name


def find_deed(step: Step) -> tuple[str, bool]:
    """What a tool for everything was made to do, as the program, the statement or the method; and whether it acts.

    Of several programs in a row the first that acts counts, also where another machine is to run it.
    """
    arguments = get_fields(step)
    if method := next((arguments[key] for key in ("method", "verb") if key in arguments), ""):
        return f"http {method.lower()[:10]}", method.lower() not in _LOOKS
    named = split_name(step.tool)
    statement = next((arguments[key] for key in _STATEMENTS if key in arguments), "")
    if _DATABASES.intersection(named) and (found := _STATEMENT.match(statement)):
        return f"sql {found[1].lower()}", found[1].lower() not in _LOOKS
    if not find_program(step):
        return "", False
    command = next((arguments[key] for key in _COMMANDS if key in arguments), "")
    suite = (
        f"{named[0]} " if named and named[0] in _SUITES | _READING_PROGRAMS and not command.startswith(named[0]) else ""
    )
    done = [_parse_deed(suite + part) for part in _CHAIN.split(command) if part.strip()]
    return next((each for each in done if each[1]), done[0] if done else ("", False))


def _parse_deed(command: str) -> tuple[str, bool]:
    """The program that one command runs, and whether it does more than look."""
    name = _parse_program(_ELSEWHERE.sub("", command.strip(), count=1))
    if not name:
        return "", False
    if (destroys := DESTROYS.search(command)) and destroys[0] not in name:
        return f"{name} {destroys[0].lower()}", True
    looks = name.split()[0] in _READING_PROGRAMS | _IDLE or (" " in name and name.split()[1] in _LOOKS)
    return name, not looks or _CHANGING.search(command) is not None


def looks_up(step: Step) -> bool:
    """Whether a call fetches something that may speak of errors without there being one."""
    return only_reads(step.tool) or _only_shows(step)


def _only_shows(step: Step) -> bool:
    """Whether a command does nothing but print what is there."""
    if find_program(step) not in _READING_PROGRAMS:
        return False
    arguments = get_fields(step)
    command = next((arguments[key] for key in _COMMANDS if key in arguments), "")
    last = re.split(r" ?(?:&&|;) ?", command)[-1]
    return not last.strip() or _parse_program(last.strip()) in _READING_PROGRAMS


def _find_source(step: Step) -> str | None:
    """The path or address of a text that a call fetches as it is; None when it asks a service."""
    arguments = get_fields(step)
    if _only_shows(step):
        return next(iter(arguments.values()), "")
    named = split_name(step.tool)
    path = next((arguments[key] for key in _PATHS if key in arguments), None)
    if not named or not (only_reads(step.tool) or arguments.get("command") == "view"):
        return None
    if path is None and not _TEXTS.intersection(named):
        return None
    return path or next(iter(arguments.values()), "")


def has_worked(step: Step) -> bool:
    """Whether a step has a result, and that is not a failure."""
    return not step.failed and step.result != NO_RESULT
