"""The steps of an agent's run: every tool call with its arguments, its result, and whether it failed."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from ...model import Json
from .. import Call, Message, Step
from .lines import MASK, cut, flat, name_words, names_secret, reads
from .results import NO_RESULT, shown, told

VALUE = 120  # characters of an argument that are kept
RAW = 160
SHOWN = 60
ARGUMENTS = 160  # characters of all arguments in a line
MOST = 12  # arguments of a call that are kept
MENDED = "worked after"
_LONG = 12  # characters of an argument that is not shared by chance
_NEAR = 3  # steps after a refusal among which another way is looked for
_LATER = 50  # steps after a failure among which one that worked is looked for

_WRITING = frozenset(
    re.findall(r"\S+", "edit write replace patch apply create install insert bash shell update fix upload")
)
_COMMANDS = ("command", "cmd", "args", "arguments", "script", "")
_STATEMENTS = ("query", "sql", "statement", "q", "code", "")
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
_REFUSED = re.compile(
    r"(?i)(?:permission|access) (?:was |is )?denied|not (?:permitted|allowed|authori[sz]ed)|forbidden|unauthori[sz]ed"
    r"|\b40[13]\b|must be (?:root|admin)|requires? (?:root|admin|elevated)"
    r"|insufficient (?:rights|privileges|permissions?)"
)
_RIGHTS = re.compile(
    r"sudo|admin|(?:^|[^a-z])(?:root|su|role|grant|chmod|chown|setfacl|login|log_in|auth\w{0,20}|permissions?|rights?"
    r"|privileges?|elevate|escalate|assume|become|impersonate|unlock|approve|approval)(?:[^a-z]|$)"
)
_RUNNING = _SUITES | frozenset(re.findall(r"\S+", "bash shell sh ssh terminal exec run cmd"))
_BEFORE_PROGRAM = re.compile(
    r"(?:cd [^\s;&]{1,200} ?(?:&&|;) ?|sudo |env |time |timeout \d+s? |[A-Z_]{1,40}=\S{0,80} ){0,6}"
)
_PROGRAM = re.compile(r"(?:python3? -m |uv run |poetry run |npx |npm run |\./)?([\w./-]{1,60})")


def steps(messages: Sequence[Message]) -> tuple[Step, ...]:
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
    results = _matched(calls, answers)
    return tuple(_step(call, results.get(at)) for at, call in enumerate(calls))


def _matched(calls: list[Call], answers: list[tuple[range, Message]]) -> dict[int, str]:
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


def _step(call: Call, result: str | None) -> Step:
    arguments = _kept(call.arguments)
    tool = flat(call.name, 80) or "tool"
    step = Step(tool=tool, arguments=arguments, result=NO_RESULT, failed=False)
    if result is None:
        return step
    line, failed = told(result, reads=_reads(step), of=_text_of(step))
    return replace(step, result=line, failed=failed)


def _kept(text: str) -> str:
    """Arguments as JSON text of plain values, cut and masked; what is no JSON object is kept as a text."""
    try:
        value: Json = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return flat(text, RAW)
    if not isinstance(value, dict):
        return shown(value, RAW)
    kept = {flat(key, 40): _plain(key, item) for key, item in list(value.items())[:MOST]}
    if len(value) > MOST:
        kept["…"] = f"{len(value) - MOST} more"
    return json.dumps(kept, ensure_ascii=False)


def _plain(key: str, value: Json) -> Json:
    if names_secret(key) and value is not None and not isinstance(value, bool):
        return MASK
    if isinstance(value, bool) or value is None:
        return value
    return value if isinstance(value, int) and abs(value) < 2**53 else _hidden(value)


def _hidden(value: Json) -> str:
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
    return shown(value, VALUE)


def fields(step: Step) -> Mapping[str, str]:
    """A step's arguments by name, as they are shown; one that has no name stands under the empty one."""
    return _fields(step.arguments)


@lru_cache(maxsize=1024)
def _fields(arguments: str) -> Mapping[str, str]:
    try:
        value: Json = json.loads(arguments) if arguments.startswith("{") else arguments
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict):
        return {flat(key, 40): shown(item, VALUE) for key, item in value.items()}
    return {"": flat(arguments, RAW)} if arguments.strip() else {}


def called(step: Step, limit: int = ARGUMENTS) -> str:
    """A step as a call: `book_flight(flight=DY1310, seats=2)`."""
    return f"{flat(step.tool, 80)}({noted(fields(step), limit)})"


def noted(arguments: Mapping[str, str], limit: int = ARGUMENTS) -> str:
    """Arguments on one line of at most `limit` characters: as many as fit, and the first in any case."""
    each = limit if len(arguments) == 1 else SHOWN if len(arguments) == 2 else SHOWN * 2 // 3
    line = ""
    for key, item in arguments.items():
        part = f"{key}={cut(item, each)}" if key else cut(item, each)
        if line and len(line) + len(part) > limit:
            return f"{line}, …"
        line = f"{line}, {part}" if line else part
    return line


def program(step: Step) -> str:
    """The program that a step's command starts, for tools that run commands; else empty."""
    arguments = fields(step)
    command = next((arguments[key] for key in _COMMANDS if key in arguments), "")
    if not command or (" " not in command and len(arguments) > 1 and not _RUNNING.intersection(name_words(step.tool))):
        return ""
    return _program(command)


def _program(command: str) -> str:
    start = _BEFORE_PROGRAM.match(command)
    found = _PROGRAM.match(command, start.end() if start else 0)
    if found is None:
        return ""
    name = found[1].rsplit("/", 1)[-1]
    verb = re.match(r" ([a-z][a-z-]{1,20})\b", command[found.end() : found.end() + 30])
    return f"{name} {verb[1]}" if verb and name in _SUITES else name


def deed(step: Step) -> tuple[str, bool]:
    """What a tool for everything was made to do, as the program, the statement or the method; and whether it acts."""
    arguments = fields(step)
    if method := next((arguments[key] for key in ("method", "verb") if key in arguments), ""):
        return f"http {method.lower()[:10]}", method.lower() not in _LOOKS
    statement = next((arguments[key] for key in _STATEMENTS if key in arguments), "")
    if found := _STATEMENT.match(statement):
        return f"sql {found[1].lower()}", found[1].lower() not in _LOOKS
    name = program(step)
    named = name_words(step.tool)[:1]
    if name and named and named[0] in _SUITES and not name.startswith(named[0]):
        name = f"{named[0]} {name.split()[0]}"  # kubectl(args="delete pod a")
    if not name:
        return "", False
    command = next((arguments[key] for key in _COMMANDS if key in arguments), "")
    looks = name.split()[0] in _READING_PROGRAMS or (" " in name and name.split()[1] in _LOOKS)
    return name, not looks or _CHANGING.search(command) is not None


def _reads(step: Step) -> bool:
    """Whether a call fetches something that may speak of errors without there being one."""
    return reads(step.tool) or _only_shows(step)


def _only_shows(step: Step) -> bool:
    """Whether a command does nothing but print what is there."""
    if program(step) not in _READING_PROGRAMS:
        return False
    arguments = fields(step)
    command = next((arguments[key] for key in _COMMANDS if key in arguments), "")
    last = re.split(r" ?(?:&&|;) ?", command)[-1]
    return not last.strip() or _program(last.strip()) in _READING_PROGRAMS


def _text_of(step: Step) -> str | None:
    """The path or address of a text that a call fetches as it is; None when it asks a service."""
    arguments = fields(step)
    if _only_shows(step):
        return next(iter(arguments.values()), "")
    named = name_words(step.tool)
    path = next((arguments[key] for key in _PATHS if key in arguments), None)
    if not named or not (reads(step.tool) or arguments.get("command") == "view"):
        return None
    if path is None and not _TEXTS.intersection(named):
        return None
    return path or next(iter(arguments.values()), "")


def worked(step: Step) -> bool:
    """Whether a step has a result, and that is not a failure."""
    return not step.failed and step.result != NO_RESULT


def remedy(run: Sequence[Step], at: int) -> str:
    """What made the call that failed at `at` work later in the run; empty when nothing can be shown to have."""
    failed, later = run[at], run[at + 1 : at + 1 + _LATER]
    again = [place for place, step in enumerate(later) if step.tool == failed.tool and worked(step)]
    likely = [(place, kept) for place in again if (kept := _kept_of(failed, later[place])) is not None]
    if likely:
        place = max(likely, key=lambda pair: pair[1])[0]
        if changes := _changes(fields(failed), fields(later[place])):
            return f"worked with {changes}"
        between = [step for step in later[:place] if worked(step) and _may_help(step, failed)]
        return f"{MENDED} {called(between[-1], 60)}" if between else "worked at a later try"
    near = later[:_NEAR] if _REFUSED.search(failed.result) else later[:1]
    other = next((step for step in near if worked(step) and _stands_in(step, failed)), None)
    return f"{called(other, 60)} worked instead" if other is not None else ""


def _kept_of(before: Step, after: Step) -> int | None:
    """How many arguments a later call has in common with an earlier one; None when it is another call altogether."""
    old, new = fields(before), fields(after)
    if program(before) != program(after):
        return None
    kept = sum(old.get(key) == item for key, item in new.items())
    if kept or not (old or new):
        return kept
    other_name = len(old) == len(new) == 1 and old.keys() != new.keys()
    return 0 if other_name or (len(new) == 1 and _resembles(old, new)) else None


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Which arguments are new, from what to what; empty when none is."""
    changed = {key: item for key, item in new.items() if old.get(key) != item and item != MASK}
    gone = [key for key in old if key not in new]
    parts = [_change(key, old.get(key), item) for key, item in list(changed.items())[:2]]
    parts += [f"no {key}" for key in gone[: 2 - len(parts)]]
    return " and ".join(parts)


def _change(key: str, old: str | None, new: str) -> str:
    if old is not None and len(old) > SHOWN and len(new) > SHOWN:
        old, new = _apart(old, new)
    named = f"{key}={cut(new, SHOWN)}" if key else cut(new, SHOWN)
    return f"{named} instead of {cut(old, SHOWN)}" if old is not None else named


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two long values from the word on where they part."""
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = old.rfind(" ", 0, same) + 1
    return (f"…{old[start:]}", f"…{new[start:]}") if start else (old, new)


def _resembles(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether the one argument of a call is a variant of what it was, and not another thing."""
    before, after = (" ".join(each.values()).lower() for each in (old, new))
    if min(len(before), len(after)) < 3:
        return False
    pairs = [{a + b for a, b in pairwise(text)} for text in (before, after)]
    least = 0.5 if min(len(before), len(after)) < SHOWN else 0.65  # long texts have many pairs in common by chance
    return 2 * len(pairs[0] & pairs[1]) >= least * (len(pairs[0]) + len(pairs[1]))


def _with_rights(step: Step, failed: Step) -> bool:
    """Whether a call does what was refused to another with more rights: it holds what that one was to do, or with."""
    items = [item for item in fields(failed).values() if len(item) > 2 and item != MASK]
    held = [item for item in items if any(item in each for each in fields(step).values())]
    return any(len(item) >= _LONG and " " in item for item in held) or (bool(held) and _lifts(step, failed))


def _lifts(step: Step, failed: Step) -> bool:
    """Whether a call was refused for want of a right, and a later one is about rights."""
    return _REFUSED.search(failed.result) is not None and _RIGHTS.search(called(step).lower()) is not None


def _may_help(step: Step, failed: Step) -> bool:
    """Whether a step may be why a call worked at last: it changed something, or was about the same thing."""
    if step.tool == failed.tool and step.arguments == failed.arguments:
        return False
    return (
        _lifts(step, failed)
        or _shares(failed, step)
        or (not _reads(step) and bool(_WRITING.intersection(name_words(step.tool))))
    )


def _stands_in(step: Step, failed: Step) -> bool:
    """Whether a call of another tool does what one that failed was to do: it is named alike, or asks for the same."""
    if _REFUSED.search(failed.result) and _with_rights(step, failed):
        return True
    if step.tool == failed.tool:
        return False
    if not _shares(failed, step):
        return False
    if set(name_words(step.tool)) & set(name_words(failed.tool)):
        return True
    asked = next(iter(fields(failed).values()), "")
    return len(asked) >= _LONG and asked in fields(step).values()


def _shares(step: Step, other: Step) -> bool:
    """Whether two calls name the same thing."""
    values = {item for item in fields(step).values() if len(item) > 2 and item not in (MASK, "true", "false", "null")}
    return any(item in values for item in fields(other).values())
