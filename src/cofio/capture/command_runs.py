"""What an agent's tool calls teach: which change made a failing command pass, and which work of its list is left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..extract.extractor import Call, Message
from ..extract.rules.agent_runs.results import summarize_result
from ..values.records import Json
from .lessons import FIX, TODO, Lesson

OPEN = "To do: "
"""With which the text of open work begins."""
_MOST_CHANGES = 4  # that a fix names
_COMMAND = 160  # characters of a command that are told
_ERROR = 200
_ITEM = 300  # characters of an entry of a list
_MOST_ITEMS = 20

_EDITS = re.compile(
    r"(?i)^(?:multi_?edit|edit(?:_file)?|write(?:_file)?|notebook_?edit|apply_?patch|replace|create|patch|str_replace\w*)$"
)
_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: (\S[^\n\\]{0,200})")
_BEFORE = re.compile(
    r"^(?:\s*(?:cd \S+ ?(?:&&|;)|[A-Z_][A-Z0-9_]*=\S*|sudo|env|time|timeout \S+|(?:uv|poetry) run|npx"
    r"|(?:pnpm|bundle) exec|(?:\S*/)?python3? -m)\s+)+"
)
_SEVERAL = frozenset({
    "npm", "pnpm", "yarn", "bun", "cargo", "go", "make", "just", "docker", "dotnet", "mvn", "gradle", "tox", "uv",
    "pip",
})  # fmt: skip
"""Programs that do several things, each by its name."""
_LOOKS = frozenset({
    "ls", "cat", "grep", "rg", "find", "cd", "which", "head", "tail", "sed", "awk", "echo", "pwd", "wc", "test", "stat",
    "tree", "file", "diff", "ps", "kill", "sleep", "true", "git", "curl", "gh", "type", "jq", "fd",
})  # fmt: skip
"""Programs that look something up, or whose failure says little of the code."""
_LISTS = re.compile(r"(?i)todo|plan|^Task(?:Create|Update)$")
_CREATED = re.compile(r"#(\d{1,6})\b")
_ENDED = frozenset({"completed", "complete", "done", "cancelled", "canceled", "deleted"})


@dataclass(slots=True)
class _Failure:
    """A command that failed and has not passed since."""

    message: str
    command: str
    error: str
    changes: list[str] = field(default_factory=list)


def find_fixes(messages: Sequence[Message]) -> Iterator[Lesson]:
    """Each command that failed, and passed after something was changed: what was wrong, and what was done."""
    failures: dict[str, _Failure] = {}
    for asked, call, answer in _pair_calls(messages):
        command = _get_command(call)
        line, has_failed = summarize_result(answer.text)
        key = _name_command(command) if command else ""
        if key and has_failed:
            known = failures.get(key)
            if known is None:
                failures[key] = _Failure(message=asked.id, command=_flatten(command, _COMMAND), error=line)
            else:
                known.error = line
        elif not has_failed and key in failures:
            if (failure := failures.pop(key)).changes:
                text = _render_fix(failure, _flatten(command, _COMMAND))
                yield Lesson(
                    label=FIX, text=text, speaker=asked.sender, at=answer.at, messages=(failure.message, asked.id)
                )
        elif not has_failed and (change := _find_change(call, command)):
            for failure in failures.values():
                if change not in failure.changes:
                    failure.changes.append(change)


def _render_fix(failure: _Failure, command: str) -> str:
    changes = failure.changes[-_MOST_CHANGES:]
    listed = " and ".join((", ".join(changes[:-1]), changes[-1])) if len(changes) > 1 else changes[0]
    again = "" if command == failure.command else f" as `{command}`"
    return f"`{failure.command}` failed: {_flatten(failure.error, _ERROR)}. After {listed} it passed{again}."


@dataclass(slots=True)
class WorkList:
    """An agent's list of work as its calls have left it."""

    tasks: dict[str, str] = field(default_factory=dict)
    """Open entries by their number, of clients that change one at a time."""
    open: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """What was on a list and is finished."""
    message: Message | None = None
    """The call that changed it last; None if none has."""

    def follow(self, messages: Sequence[Message]) -> None:
        """Take over what the calls in these messages change."""
        for asked, call, answer in _pair_calls(messages):
            if not _LISTS.search(call.name) or summarize_result(answer.text)[1]:
                continue
            fields = _parse_arguments(call)
            if (listed := _get_list(fields)) is not None:
                self.open = [text for text, status in listed if status not in _ENDED][:_MOST_ITEMS]
                self.done += [text for text, status in listed if status in _ENDED]
                self.message = asked
            elif call.name in ("TaskCreate", "TaskUpdate"):
                self._change_task(call.name, fields, answer.text)
                self.open = [*self.tasks.values()][:_MOST_ITEMS]
                self.message = asked

    def _change_task(self, name: str, fields: Mapping[str, Json], result: str) -> None:
        if name == "TaskCreate":
            number = _CREATED.search(result)
            self.tasks[number[1] if number else str(len(self.tasks) + 1)] = _flatten(
                str(fields.get("subject", "")), _ITEM
            )
            return
        key = str(fields.get("taskId", fields.get("id", ""))).lstrip("#")
        if str(fields.get("status", "")) in _ENDED and key in self.tasks:
            self.done.append(self.tasks.pop(key))

    def list_lessons(self) -> list[Lesson]:
        """The open entries, as of the last change."""
        if self.message is None:
            return []
        told = self.message
        return [
            Lesson(label=TODO, text=f"{OPEN}{each}", speaker=told.sender, at=told.at, messages=(told.id,))
            for each in dict.fromkeys(self.open)
            if each
        ]


def _get_list(fields: Mapping[str, Json]) -> list[tuple[str, str]] | None:
    """The entries of a call that writes a whole list, each with its status."""
    listed = fields.get("todos", fields.get("plan"))
    if not isinstance(listed, list):
        return None
    found: list[tuple[str, str]] = []
    for each in listed:
        if isinstance(each, dict):
            text = each.get("content") or each.get("step") or each.get("description")
            if isinstance(text, str) and text.strip():
                found.append((_flatten(text, _ITEM), str(each.get("status", "pending"))))
    return found


def _pair_calls(messages: Sequence[Message]) -> Iterator[tuple[Message, Call, Message]]:
    """Each call with its message and the message of its result, in the order of the results."""
    waiting: dict[str, tuple[Message, Call]] = {}
    for message in messages:
        if message.role == "tool" and message.answers in waiting:
            yield *waiting.pop(message.answers), message
        for call in message.calls:
            waiting[call.id] = (message, call)


def _parse_arguments(call: Call) -> Mapping[str, Json]:
    try:
        read = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _get_command(call: Call) -> str:
    fields = _parse_arguments(call)
    command = fields.get("command", fields.get("cmd"))
    if isinstance(command, list):
        words = [each for each in command if isinstance(each, str)]
        command = words[-1] if words[:1] and re.search(r"sh$", words[0]) else " ".join(words)
    return command if isinstance(command, str) else ""


def _name_command(command: str) -> str:
    """What a command is known by when it runs again with other arguments; empty for one that only looks."""
    words = _BEFORE.sub("", command.strip()).split()
    if not words:
        return ""
    program = words[0].rpartition("/")[2]
    if program in _LOOKS:
        return ""
    following = [each for each in words[1:3] if re.fullmatch(r"[a-z][\w:-]{0,40}", each)]
    return " ".join((program, *following)) if program in _SEVERAL else program


def _find_change(call: Call, command: str) -> str:
    """What a call has changed, in words; empty if nothing."""
    fields = _parse_arguments(call)
    patched = _PATCHED.findall(call.arguments) if "*** " in call.arguments else []
    if patched:
        return f"changing {', '.join(dict.fromkeys(patched[:3]))}"
    path = fields.get("file_path") or fields.get("filePath") or fields.get("path")
    if _EDITS.match(call.name) and isinstance(path, str) and path:
        return f"changing {_flatten(path, _COMMAND)}"
    return f"`{_flatten(command, _COMMAND)}`" if command and _name_command(command) else ""


def _flatten(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
