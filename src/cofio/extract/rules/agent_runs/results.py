"""What a tool's result says: one telling line, and whether the call failed.

Only what the tool itself reports counts. A page about errors, or a log that was read, is not a failure to read it.
"""

from __future__ import annotations

import json
import re

from ....values.records import Json
from ..lines import clean, flatten
from .json_results import EMPTY, find_failure, render_json, unwrap
from .vocabulary import get_phrases

NO_RESULT = "no result"
NO_OUTPUT = "no output"
NO_REASON = "no reason given"
SHOWS = "shows an error: "
"""Before the line of a log that was read which tells what went wrong: it is found, and reading it has not failed."""
LINE = 160  # characters of a result that are told

_HEAD, _TAIL = 6_000, 4_000  # characters of a long result that are looked at
_SHORT = 400  # a result up to here is a message; a longer one is what was asked for
_TRACEBACK = "Traceback (most recent call last)"

_DECORATION = re.compile(r"[\W_]*|```\w*|(?i:std(?:out|err)|output|result):?|</?\w+>")
_NAMED_ERROR = re.compile(r"(?:[a-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|NotFound|Timeout)(?::|\s*$|\()")
_COUNTED = re.compile(r"(?i)\b[1-9]\d{0,6} (?:tests? )?(?:failed|failures?|errors?)\b(?=\s*(?:[,.;)=(]|in \d|$))")
_FIXED = re.compile(r"(?i)\bfixed\b|\b0 remaining|\bresolved\b")
_PASSED = re.compile(r"(?i)\b\d{1,7} (?:tests? |specs? )?pass(?:ed|ing)\b|^\W{0,4}success(?:fully)?\b")
_EXIT = re.compile(r"(?i)\b(?:exit(?:ed)?(?: with)?|return)[ _-]?(?:code|status)?\s?[:= ]\s?(-?\d{1,10})\b")
_PREFIX = re.compile(r"(?i)\W{0,3}(?:error|failed|failure)\s*[:!]\s*(?=\S)")
_OF_READING = (  # what comes before the words of a tool about its own reading
    r"\W{0,3}(?:(?:tool |command |request |api |http )?(?:error|failed|failure)\W{1,3})?"
    r"(?:(?:the )?(?:file|path|directory|folder|page|url|document|resource|log)\b.{0,200}?"
    r"|(?:executing|calling|running|reading|opening|fetching|loading|accessing)\b.{0,200}?|(?:[\w./-]{1,60}: ){1,3})?"
)
_OF_FILES = re.compile(r"(?:FileNotFound|Permission|IsADirectory|NotADirectory|UnicodeDecode)Error\b")
_PATH = re.compile(r"(?<![\w:/])/[\w.-]{2,60}/?[\w.-]{1,60}")
_STAMP = re.compile(r"^\W{0,2}\d{4}-\d\d-\d\d[T ]?[\d:.,]{0,16}Z?\]?\s*(?:UTC )?|^\d\d:\d\d(?::\d\d)?\s+")
_STAMPED = re.compile(
    r"\W{0,2}(?:\d{4}-\d\d-\d\d|\d\d:\d\d|(?:[A-Z][a-z]{2} ){1,2}\d"
    r"|(?:TRACE|DEBUG|INFO|WARN|Warning|ERROR|FATAL)\b(?!:))"
)
_LOG = re.compile(r"(?i)\b(?:logs?|trace)\b|journalctl|dmesg|\.err\b")
_CODE = re.compile(r"\b(?:[A-Z]\w{0,60}|[A-Z])(?:Error|Exception)\b|\bE[A-Z]{5,14}\b")
_NO_ERROR = re.compile(r"(?i)\b(?:no|0|without) (?:error|failure|exception)")


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
            value: Json = json.loads(text)
        except (ValueError, RecursionError):
            pass  # cut off, or not JSON at all: what it looks like is a text
        else:
            return _summarize_json(value, reads=reads, of=of)
    return _summarize_text(text, reads=reads, of=of)


def _summarize_json(value: Json, *, reads: bool, of: str | None) -> tuple[str, bool]:
    value, flagged = unwrap(value)
    if isinstance(value, str):
        line, failed = summarize_result(value, reads=reads, of=of)
        return line, failed or flagged
    reason = find_failure(value)
    if reason is not None and of is not None and ".json" in of and not _find_read_error(reason, [reason or "?"], of):
        reason = None  # the file that was read says so
    if reason is None and not flagged:
        return flatten(render_json(value), LINE), False
    lines = _select_lines(reason or render_json(value))
    if reason and reason.startswith("exit code "):
        return flatten(_render_exit(lines[1:], lines[0]), LINE), True
    message = _find_diagnosis(reason or "") or next(iter(lines), "")
    return NO_REASON if message in ("", EMPTY) else flatten(_strip_error_word(message), LINE), True


def _summarize_text(text: str, *, reads: bool, of: str | None) -> tuple[str, bool]:
    lines = _select_lines(text)
    if not lines:
        return flatten(text, LINE), False
    failure = _find_failure(text, lines, reads=reads) if of is None else _find_read_error(text, lines, of)
    if failure:
        return flatten(_strip_error_word(failure), LINE), True
    count = text.count("\n") + 1
    size = f" ({count} lines)" if count > 1 else ""
    if (reads or of is not None) and (shown := _find_shown_error(text, lines, of or "")):
        return SHOWS + flatten(shown, LINE - 40) + size, False
    passed = [] if reads else [line for line in lines[-8:] if _PASSED.search(line)]
    lines = [line for line in lines if not _EXIT.search(line)] or lines
    if passed or len(lines) == 1:
        return flatten(passed[-1].strip("= ") if passed else lines[0], LINE), False
    return flatten(lines[0], LINE - 20) + size, False


def _find_shown_error(text: str, lines: list[str], of: str) -> str:
    """The line of a log that says what went wrong: the last of a traceback, else the first that tells of an error."""
    if diagnosis := _find_diagnosis(text):
        return diagnosis
    is_log = _LOG.search(of) is not None
    found = [at for at, line in enumerate(lines) if _tells_error(line) and (is_log or _STAMPED.match(line))]
    if not found:
        return ""
    telling = next((at for at in found if not _EXIT.search(lines[at])), max(0, found[0] - 1))
    return _STAMP.sub("", lines[telling])


def _tells_error(line: str) -> bool:
    told = get_phrases("tells an error", r"(?<![\w=/.-])", r"(?![\w=/]|s\b)").search(line) or _CODE.search(line)
    return told is not None and not _NO_ERROR.search(line)


def _find_diagnosis(text: str) -> str:
    """The line that ends the last traceback of a text: what was raised, after all that says where."""
    before, found, after = clean(text[-_HEAD - _TAIL :]).rpartition(_TRACEBACK)
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
    counted = [] if reads else [line for line in lines if _COUNTED.search(line) and not _FIXED.search(line)]
    if counted:
        return counted[-1].strip("= ")
    if codes := _find_exit_codes(lines, alone=reads):
        return next((_render_exit(lines, f"exit code {code}") for code in codes if int(code)), "")
    if _starts_failed(lines[0]):
        return "" if reads and len(text) > _SHORT * 2 else lines[0]
    if len(text) <= _SHORT and len(lines) <= 3:
        short = next((line for line in lines if get_phrases("failed in short").search(line)), "")
        if short:
            return short
    if reads and not lines[0].startswith(_TRACEBACK):
        return ""
    if _NAMED_ERROR.match(lines[-1]):
        return lines[-1]
    return _find_diagnosis(text) or next((line for line in lines if get_phrases("failed in a line").match(line)), "")


def _starts_failed(line: str) -> bool:
    told = get_phrases("failed at first", r"\W{0,3}", r"(?:(?<!\w)|\b)").match(line)
    return told is not None or _NAMED_ERROR.match(line) is not None


def _find_exit_codes(lines: list[str], *, alone: bool) -> list[str]:
    """The exit codes at the beginning and the end; where they must stand `alone`, not those of a log that was read."""
    found = ((line, match) for line in lines[:2] + lines[-2:] for match in _EXIT.finditer(line))
    return [match[1] for line, match in found if not alone or len(line) - len(match[0]) <= 4]


def _find_read_error(text: str, lines: list[str], of: str) -> str:
    """What a tool says of why it could not read a text; empty when this is the text, whatever it speaks of."""
    first, names_it = lines[0], _mentions(lines[0], of)
    if first.startswith(_TRACEBACK) and _OF_FILES.match(lines[-1]) and _mentions(lines[-1], of):
        return lines[-1]
    codes = _find_exit_codes(lines, alone=True) if " " in of else []  # of a command
    if code := next((code for code in codes if int(code)), ""):
        return _render_exit(lines, f"exit code {code}")
    if len(text) > _SHORT or len(lines) > 3 or _STAMPED.match(first) or (_PATH.search(first) and not names_it):
        return ""
    unreadable = (
        get_phrases("unreadable").search(first) if names_it else get_phrases("unreadable", _OF_READING).match(first)
    )
    return first if unreadable else ""


def _mentions(line: str, of: str) -> bool:
    """Whether a line names what was to be read."""
    whole = (of.split() or [""])[-1].rstrip("/")
    return any(len(name) > 2 and name in line for name in (whole, re.split(r"[/\\]", whole)[-1]))


def _render_exit(lines: list[str], code: str) -> str:
    """An exit code and what was said with it."""
    others = [line for line in lines if not _EXIT.search(line)]
    failed = (line for line in others if _starts_failed(line) or get_phrases("failed in a line").match(line))
    message = next(failed, "") or next(reversed(others), "")
    message = re.sub(r"(?i)^std(?:err|out):\s*", "", message)
    return f"{code}: {message}" if message else code
