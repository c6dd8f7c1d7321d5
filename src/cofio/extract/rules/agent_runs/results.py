"""What a tool's result says: one telling line, and whether the call failed.

Only what the tool itself reports counts. A page about errors, or a log that was read, is not a failure to read it.
"""

from __future__ import annotations

import json
import re
from itertools import islice

from ....values.records import Json
from ..lines import clean, flatten

NO_RESULT = "no result"
NO_OUTPUT = "no output"
NO_REASON = "no reason given"
SHOWS = "shows an error: "
"""Before the line of a log that was read which tells what went wrong: it is found, and reading it has not failed."""
LINE = 160  # characters of a result that are told

_HEAD, _TAIL = 6_000, 4_000  # characters of a long result that are looked at
_SHORT = 400  # a result up to here is a message; a longer one is what was asked for

_DECORATION = re.compile(r"[\W_]*|```\w*|(?i:std(?:out|err)|output|result):?|</?\w+>")
_STARTS_FAILED = re.compile(
    r"(?i)\W{0,3}(?:tool |command |request |query |api |http )?(?:error|exception|fatal|failure|failed|err)"
    r"(?:\s*(?:[:!(\[]|$|- |\d)| (?:calling|executing|running|while|reading|writing|from|invoking|performing)\b)"
    r"|(?:could not|couldn't|cannot|can't|can not|unable to|failed to|no such|permission denied|access denied"
    r"|unauthori[sz]ed"
    r"|forbidden|no (?:replacements?|changes?) (?:was|were) (?:performed|made)"
    r"|time(?:d )?out|request timed out|connection (?:refused|reset|timed)|invalid"
    r"|unknown (?:command|tool|option))\b"
    r"|http(?:/\d(?:\.\d)?)?\s+[45]\d\d\b|status(?: code)?\s?[:= ]\s?[45]\d\d\b"
    r"|[45]\d\d:? (?:bad|unauthorized|forbidden|not|method|request|conflict|gone|too|internal|service|gateway"
    r"|client|server)\b"
    r"|npm err!|bash: |sh: |zsh: "
)
_NAMED_ERROR = re.compile(r"(?:[a-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|NotFound|Timeout)(?::|\s*$|\()")
_SHORT_FAILED = re.compile(
    r"(?i)\b(?:not found|could(?: not|n't)|no such (?:file|table|column|key|user|host)|(?:permission"
    r"|access) (?:was )?denied|timed out"
    r"|does(?: not|n't) exist|connection refused"
    r"|no space left on device|(?:is |are |was )?not (?:available|allowed|permitted"
    r"|recogni[sz]ed|authori[sz]ed)"
    r"|rate limit(?:ed| exceeded)|quota exceeded|is unavailable|was rejected|has failed|failed (?:to|with"
    r"|because|after|on|at))\b"
)
_ANYWHERE_FAILED = re.compile(
    r"[^\s:(]{1,200}[:(]\d[\d,:)]{0,20} ?:? ?(?:fatal )?error\b"
    r"|Traceback \(most recent call last\)"
    r"|(?:[\w./-]{1,60}: )?(?:line \d{1,6}: )?[\w./-]{1,60}: (?:command )?not found$"
    r"|[^:]{1,60}: .{1,200}: (?:No such file or directory|Permission denied|No space left on device)$"
    r"|fatal: |npm (?:ERR!|error )|Segmentation fault|panic: |FAILED\b|BUILD FAIL|error(?:\[\w+\])?: |ERROR: "
    r"|HTTP/\d(?:\.\d)? [45]\d\d"
    r"|.{0,120}\breturned non-zero exit status"
)
_COUNTED = re.compile(r"(?i)\b([1-9]\d{0,6}) (?:tests? )?(?:failed|failures?|errors?)\b(?=\s*(?:[,.;)=(]|in \d|$))")
_PASSED = re.compile(
    r"(?i)\b\d{1,7} (?:tests? |specs? )?pass(?:ed|ing)\b|^\W{0,4}all \w{0,20} ?(?:tests|checks) pass"
    r"|^successfully\b|^\W{0,4}success\b"
)
_FIXED = re.compile(r"(?i)\bfixed\b|\b0 remaining|\bresolved\b")
_EXIT = re.compile(
    r"(?i)\bexit(?:ed)?(?: with)?[ _-]?(?:code|status)?(?: of)?\s?[:= ]\s?(-?\d{1,10})\b"
    r"|\breturn ?code[:= ]+(-?\d{1,10})\b"
)
_PREFIX = re.compile(r"(?i)\W{0,3}(?:error|failed|failure)\s*[:!]\s*(?=\S)")


_NO_LOG = re.compile(  # what a tool says of its own reading, and not a line of what it read
    r"(?i)(?:(?:tool |command |request |api |http )?(?:error|failed|failure)\b ?[:!(-]? ?)?"
    r"(?:(?:executing|calling|running|reading|opening|fetching|loading|accessing|while (?:reading|opening|fetching))\b"
    r"|(?:could not|couldn't|cannot|can't|can not|unable to|failed to) "
    r"(?:read|open|find|access|load|fetch|retrieve|list|stat|decode|locate|resolve host|download|search)\b"
    r"|(?:the )?(?:file|path|directory|folder|page|url|document|resource|log)\b.{0,200}"
    r"(?:not found|does(?: not|n't) exist|denied|not (?:allowed|readable|accessible|permitted)|too (?:large|big|long)"
    r"|is (?:empty|binary|a directory|outside))"
    r"|no such (?:file|directory|page|document)|(?:file |page )?not found\b(?=\s*(?:$|[.:(]))"
    r"|(?:permission|access) denied(?=\s*(?:$|[.:(]|to (?:read|open|access)|when |while |reading |opening ))"
    r"|is a directory|enoent|eacces|eisdir|binary file"
    r"|http(?:/\d(?:\.\d)?)?\s+[45]\d\d\b|status(?: code)?\s?[:= ]\s?[45]\d\d\b"
    r"|[45]\d\d:? (?:bad|unauthorized|forbidden|not|method|request|gone|too|internal|service|gateway|client|server)\b"
    r"|(?:request |connection )?timed out(?: after \d+ ?m?s\w{0,6})?\W{0,3}$)"
    r"|(?:[\w./-]{1,60}: ){1,3}.{0,200}(?:no such file or directory|permission denied|is a directory)$"
    r"|(?:curl|wget): "
)
_OF_FILES = re.compile(r"(?:FileNotFound|Permission|IsADirectory|NotADirectory|UnicodeDecode)Error\b")
_UNREADABLE = re.compile(
    r"(?i)not found|no such|denied|does(?: not|n't) exist|cannot|could not|too large|is a directory"
)
_PATH = re.compile(r"(?<![\w:/])/[\w.-]{2,60}/?[\w.-]{1,60}")
_STAMP = re.compile(r"^\W{0,2}\d{4}-\d\d-\d\d[T ]?[\d:.,]{0,16}Z?\]?\s*(?:UTC )?|^\d\d:\d\d(?::\d\d)?\s+")
_STAMPED = re.compile(
    r"\W{0,2}(?:\d{4}-\d\d-\d\d|\d\d:\d\d|(?:[A-Z][a-z]{2} ){1,2}\d|(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b(?!:))"
)


_LOG = re.compile(r"(?i)\blogs?\b|journalctl|dmesg|\.(?:log|err)\b|/var/log/")
_TELLS_ERROR = re.compile(
    r"(?i)(?<![\w=/.-])(?:error|fatal|panic|exception|critical|severe|failed|failure|refused|denied|cannot|could not"
    r"|unable"
    r"|no such|timed out|out of memory|oom-kill\w{0,3}|no space left|not found)(?![\w=/]|s\b)"
    r"|\b(?:[A-Z]\w{0,60}|[A-Z])(?:Error|Exception)\b|\bE[A-Z]{5,14}\b"
)
_NO_ERROR = re.compile(r"(?i)\b(?:no|0|without) (?:error|failure|exception)")
_TRACEBACK = "Traceback (most recent call last)"


def summarize_result(text: str, *, reads: bool = False, of: str | None = None) -> tuple[str, bool]:
    """The telling line of a result, and whether it reports a failure.

    `reads` when the call looked something up, `of` the name of the text that it fetched, if it was one: whatever that
    text speaks of is no failure to read it.
    """
    text = text.strip()
    if not text:
        return NO_OUTPUT, False
    if text[0] in "{[":
        try:
            return _summarize_json(json.loads(text), reads=reads, of=of)
        except (ValueError, RecursionError):
            pass  # cut off, or not JSON at all: what it looks like is a text
    return _summarize_text(text, reads=reads, of=of)


def _summarize_text(text: str, *, reads: bool, of: str | None) -> tuple[str, bool]:
    lines = _select_lines(text)
    if not lines:
        return flatten(text, LINE), False
    failure = _find_failure(text, lines, reads=reads) if of is None else _find_read_error(text, lines, of)
    if failure:
        return flatten(_strip_error_word(failure), LINE), True
    more = text.count("\n")
    if of is not None and (shown := _find_shown_error(text, lines, of)):
        return SHOWS + flatten(shown, LINE - 40) + (f" ({more + 1} lines)" if more else ""), False
    passed = [] if reads else [line for line in lines[-8:] if _PASSED.search(line)]
    lines = [line for line in lines if not _EXIT.search(line)] or lines
    if passed or not more or len(lines) == 1:
        return flatten(passed[-1].strip("= ") if passed else lines[0], LINE), False
    return f"{flatten(lines[0], LINE - 20)} ({more + 1} lines)", False


def _find_shown_error(text: str, lines: list[str], of: str) -> str:
    """The line of a log that says what went wrong: the last of a traceback, else the first that tells of an error."""
    if diagnosis := _find_diagnosis(text):
        return diagnosis
    is_log = _LOG.search(of) is not None
    found = [
        at
        for at, line in enumerate(lines)
        if _TELLS_ERROR.search(line) and not _NO_ERROR.search(line) and (is_log or _STAMPED.match(line))
    ]
    if not found:
        return ""
    telling = next((at for at in found if not _EXIT.search(lines[at])), max(0, found[0] - 1))
    return _STAMP.sub("", lines[telling])


def _find_diagnosis(text: str) -> str:
    """The line that ends the last traceback of a text: what was raised, after all that says where."""
    seen = clean(text[-_HEAD - _TAIL :])
    before, found, after = seen.rpartition(_TRACEBACK)
    if not found:
        return ""
    depth = len(before) - len(before.rstrip(" \t"))
    lines = [line for line in after.splitlines()[1:] if line.strip()]
    raised = next((line for line in lines if len(line) - len(line.lstrip()) <= depth), "")
    return (raised or next(reversed(lines), "")).strip()[:400]


def _strip_error_word(line: str) -> str:
    """A line that tells of a failure without the word for it in front."""
    prefix = _PREFIX.match(line)
    return line[prefix.end() :] if prefix else line


def _select_lines(text: str) -> list[str]:
    """The lines that say something, of the beginning and the end of a long text."""
    seen = text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    return [line.strip()[:400] for line in clean(seen).splitlines() if not _DECORATION.fullmatch(line.strip()[:400])]


def _find_failure(text: str, lines: list[str], *, reads: bool) -> str:
    """The line that tells of a failure; empty when there is none."""
    codes = _find_exit_codes(lines, alone=reads)
    counted = [] if reads else [line for line in lines if _COUNTED.search(line) and not _FIXED.search(line)]
    if counted:
        return counted[-1].strip("= ")
    if any(int(code) for code in codes):
        return _render_exit(lines, next(code for code in codes if int(code)))
    if codes:
        return ""
    if _STARTS_FAILED.match(lines[0]) or _NAMED_ERROR.match(lines[0]):
        return "" if reads and len(text) > _SHORT * 2 else lines[0]
    if len(text) <= _SHORT and len(lines) <= 3:
        for line in lines:
            if _SHORT_FAILED.search(line):
                return line
    if reads and not lines[0].startswith("Traceback ("):
        return ""
    if _NAMED_ERROR.match(lines[-1]):
        return lines[-1]
    found = next((line for line in lines if _ANYWHERE_FAILED.match(line)), "")
    return _find_diagnosis(text) or found if found.startswith("Traceback") else found


def _find_exit_codes(lines: list[str], *, alone: bool) -> list[str]:
    """The exit codes at the beginning and the end; where they must stand `alone`, not those of a log that was read."""
    return [
        match[1] or match[2]
        for line in lines[:2] + lines[-2:]
        for match in _EXIT.finditer(line)
        if not alone or len(line) - len(match[0]) <= 4
    ]


def _find_read_error(text: str, lines: list[str], of: str) -> str:
    """What a tool says of why it could not read a text; empty when this is the text, whatever it speaks of."""
    if lines[0].startswith("Traceback (") and _OF_FILES.match(lines[-1]) and _mentions(lines[-1], of):
        return lines[-1]
    code = (
        next((code for code in _find_exit_codes(lines, alone=True) if int(code)), "") if " " in of else ""
    )  # of a command
    if code:
        return _render_exit(lines, code)
    if len(text) > _SHORT or len(lines) > 3 or _STAMPED.match(lines[0]):
        return ""
    if _mentions(lines[0], of):
        return lines[0] if _NO_LOG.match(lines[0]) or _UNREADABLE.search(lines[0]) else ""
    return lines[0] if _NO_LOG.match(lines[0]) and not _PATH.search(lines[0]) else ""


def _mentions(line: str, of: str) -> bool:
    """Whether a line names what was to be read."""
    whole = (of.split() or [""])[-1].rstrip("/")
    return any(len(name) > 2 and name in line for name in (whole, re.split(r"[/\\]", whole)[-1]))


def _render_exit(lines: list[str], code: str) -> str:
    """An exit code and what was said with it."""
    others = [line for line in lines if not _EXIT.search(line)]
    message = (
        _find_last_error(others)
        or next((line for line in others if _is_error(line)), "")
        or (others[-1] if others else "")
    )
    message = re.sub(r"(?i)^std(?:err|out):\s*", "", message)
    return f"exit code {code}: {message}" if message else f"exit code {code}"


def _is_error(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_STARTS_FAILED, _NAMED_ERROR, _ANYWHERE_FAILED))


def _find_last_error(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if _NAMED_ERROR.match(line)), "")


_ERROR_KEYS = ("error", "errors", "exception", "err", "errormessage")
_MESSAGE_KEYS = (
    "message", "msg", "detail", "details", "reason", "description", "errordescription", "stderr", "summary", "body",
)  # fmt: skip
_STATUS_KEYS = ("status", "statuscode", "code", "httpstatus", "state")
_EXIT_KEYS = ("exitcode", "returncode", "rc", "exitstatus")
_OK_KEYS = ("ok", "success", "succeeded", "successful")
_BAD_STATUS = re.compile(
    r"(?i)(?:error|err|failed|failure|fail|denied|rejected|timeout|timed[ _]out|unavailable|forbidden|unauthori[sz]ed"
    r"|not[ _]found|bad[ _]request|declined|aborted|crashed|[45]\d\d(?: .{0,60})?)"
)
_NOTHING = re.compile(r"(?i)(?:none|null|no|false|0|ok|success|no errors?(?: found)?\.?|)")
_NAME_KEYS = ("name", "title", "summary", "subject", "number", "path", "file", "id", "url", "key")
_OUTPUT_KEYS = ("stdout", "output", "text", "content", "result")
_MOST = 4  # fields of a result that are told
_DEEP = 3
_MANY = 500  # fields of an object that are looked at


def _summarize_json(value: Json, *, reads: bool, of: str | None) -> tuple[str, bool]:
    value, flagged = _unwrap(value)
    if isinstance(value, str):
        line, failed = summarize_result(value, reads=reads, of=of)
        return line, failed or flagged
    if not isinstance(value, dict):
        return flatten(_render_count("items", value) if isinstance(value, list) else render_value(value), LINE), flagged
    fields = _normalize_keys(value)
    reason = _find_json_failure(fields)
    if (
        reason is not None
        and of is not None
        and ".json" in of.lower()
        and not _find_read_error(reason, [reason or "?"], of)
    ):
        reason = None  # the file that was read says so
    if reason is not None or flagged:
        message = reason or _find_message(fields) or _render_fields(value)
        return flatten(_strip_error_word(message) or NO_REASON, LINE), True
    output = next((fields[key] for key in _OUTPUT_KEYS if isinstance(fields.get(key), str) and fields[key]), None)
    if isinstance(output, str) and (any(key in fields for key in _EXIT_KEYS) or len(value) == 1):
        return summarize_result(output, reads=reads, of=of)
    return flatten(_render_fields(value) or "empty", LINE), False


def _normalize_keys(value: dict[str, Json]) -> dict[str, Json]:
    """The first fields of an object by their names in small letters, so that `statusCode` and `status_code` are one."""
    return {re.sub(r"[^a-z]", "", key[:60].lower()): item for key, item in islice(value.items(), _MANY)}


def _unwrap(value: Json) -> tuple[Json, bool]:
    """What a protocol's envelope (`content` blocks of type text, `isError`) holds, and whether it marks an error."""
    flagged = False
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        flagged = value.get("isError") is True or value.get("is_error") is True
        value = value["content"] if _is_blocks(value["content"]) else value
    if isinstance(value, list) and _is_blocks(value):
        texts = [block["text"] for block in value if isinstance(block, dict)]
        return "\n".join(text for text in texts if isinstance(text, str)), flagged
    return value, flagged


def _is_blocks(value: Json) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
            for block in value
        )
    )


def _find_json_failure(fields: dict[str, Json]) -> str | None:
    """What an object says went wrong; None when it reports no failure."""
    status = next((found for key in _STATUS_KEYS if (found := _find_bad_status(fields.get(key)))), "")
    if status and status == str(fields.get("code")) and not _find_message(fields):  # a number that may mean anything
        status = ""
    for key in _ERROR_KEYS:
        item = fields.get(key)
        if (
            item
            and not (isinstance(item, str) and _NOTHING.fullmatch(item.strip()))
            and not isinstance(item, int | float)
        ):
            return _join_status(status if status.isdigit() else "", _unwrap_message(item))
        if isinstance(item, int | float) and item is not False and item:
            return _find_message(fields) or f"{key}={render_value(item)}"
    exits = next((item for key in _EXIT_KEYS if isinstance(item := fields.get(key), int) and item), 0)
    if exits:
        errors = fields.get("stderr") or fields.get("stdout") or fields.get("output")
        message = _render_exit(_select_lines(errors), str(exits)) if isinstance(errors, str) else ""
        return message or f"exit code {exits}"
    refused = any(fields.get(key) is False for key in _OK_KEYS) or fields.get("iserror") is True
    return _join_status(status, _find_message(fields)) if status or refused else None


def _find_bad_status(item: Json) -> str:
    """A status that stands for a failure, as text."""
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item) if 400 <= item < 600 else ""
    return item.strip() if isinstance(item, str) and len(item) < 80 and _BAD_STATUS.fullmatch(item.strip()) else ""


def _join_status(status: str, message: str) -> str:
    return f"{status}: {message}" if status and message and status not in message else message or status


def _unwrap_message(item: Json) -> str:
    """The words of an error, however it is wrapped."""
    for _ in range(_DEEP):
        if isinstance(item, list) and item:
            item = item[0]
        if isinstance(item, dict):
            fields = _normalize_keys(item)
            item = next(
                (fields[key] for key in (*_MESSAGE_KEYS, *_ERROR_KEYS, "code", "type") if fields.get(key)),
                render_value(item),
            )
    if isinstance(item, str):
        lines = _select_lines(item)
        return _find_last_error(lines) or (lines[0] if lines else flatten(item, LINE))
    return render_value(item)


def _find_message(fields: dict[str, Json]) -> str:
    item = next((fields[key] for key in _MESSAGE_KEYS if isinstance(fields.get(key), str) and fields[key]), None)
    return _unwrap_message(item) if item is not None else ""


def _render_fields(value: dict[str, Json]) -> str:
    """The fields of an object that say most: its message, how many of what it holds, and its plain values."""
    parts: list[tuple[int, str]] = []
    for key, item in list(value.items())[:40]:
        plain = re.sub(r"[^a-z]", "", key[:60].lower())
        if plain in ("message", "summary", "answer", "result", "msg") and isinstance(item, str) and item.strip():
            parts.append((0, flatten(item, LINE // 2)))
        elif isinstance(item, list):
            parts.append((1, _render_count(key, item)))
        elif item is not None and not (plain in (*_OK_KEYS, *_ERROR_KEYS, *_EXIT_KEYS) or item == "" or item == {}):
            parts.append((1, f"{flatten(key, 40)}={render_value(item)}"))
    if not parts and any(value.get(key) for key in value):
        return "ok"
    parts.sort(key=lambda part: part[0])
    return ", ".join(part for _, part in parts[:_MOST])


def _render_count(key: str, items: list[Json]) -> str:
    """How many there are, and the names of the first few."""
    noun = flatten(key, 40)
    if not items:
        return f"0 {noun}"
    if len(items) == 1 and noun.endswith("s") and not noun.endswith(("ss", "us", "is")):
        noun = noun.removesuffix("ies") + "y" if noun.endswith("ies") else noun[:-1]
    names = [name for item in items[:3] if (name := _find_item_name(item))]
    more = ", …" if names and len(items) > len(names) else ""
    return f"{len(items)} {noun}" + (f" ({', '.join(names)}{more})" if names else "")


def _find_item_name(item: Json) -> str:
    if isinstance(item, dict):
        found = next((item[key] for key in _NAME_KEYS if isinstance(item.get(key), str | int)), None)
        if found is None:
            found = next((each for each in list(item.values())[:8] if isinstance(each, str | int) and each != ""), None)
        return render_value(found, 30) if found is not None else ""
    return render_value(item, 30) if item else ""


def render_value(value: Json, limit: int = 80, deep: int = 0) -> str:
    """A value as a person would note it down, in at most `limit` characters."""
    if isinstance(value, str):
        return flatten(value, limit)
    if isinstance(value, dict | list) and deep >= _DEEP:
        return "…"
    if isinstance(value, dict):
        parts = [f"{flatten(key, 30)}={render_value(item, 30, deep + 1)}" for key, item in list(value.items())[:4]]
        return flatten("{" + ", ".join(parts) + (", …" if len(value) > 4 else "") + "}", limit)
    if isinstance(value, list):
        parts = [render_value(item, 30, deep + 1) for item in value[:4]]
        return flatten("[" + ", ".join(parts) + (f", … {len(value)} in all" if len(value) > 4 else "") + "]", limit)
    return flatten(json.dumps(value), limit)
