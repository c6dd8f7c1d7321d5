"""What the tool says, in the words of the documentation or of Anthropic's Python SDK.

Claude knows these sentences from training; each is kept to the byte. `{path}` is the path as the caller wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..values.errors import Invalid
from ..values.records import MAX_TEXT
from .paths import MAX_PATH

Strings: TypeAlias = Literal["docs", "sdk"]

MAX_LINES = 999_999
WIDTH = len(str(MAX_LINES))
AROUND = 2  # lines that a snippet shows before and after the changed one
SHOWN = 16_000  # characters of a file that are shown when no range is asked for
MAX_OCCURRENCES = 1000  # line numbers that are named when a text occurs often

CREATED = "File created successfully at: {path}"
EDITED = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
INSERTED = "The file {path} has been edited."
DELETED = "Successfully deleted {path}"
RENAMED = "Successfully renamed {path} to {target}"
FILE_HEADER = "Here's the content of {path} with line numbers:\n"
NOT_THERE = "The path {path} does not exist. Please provide a valid path."
TOO_MANY_LINES = "File {path} exceeds maximum line limit of 999,999 lines."
NOT_FOUND = "No replacement was performed, old_str `{old_text}` did not appear verbatim in {path}."
SEVERAL = (
    "No replacement was performed. Multiple occurrences of old_str `{old_text}` in lines: {lines}. "
    "Please ensure it is unique"
)
EMPTY_OLD_TEXT = "No replacement was performed, old_str must not be empty."
RATE_LIMITED = "rate limit exceeded"
NOT_KEPT = "{problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """The sentences in which the documentation and the SDK differ."""

    strings: Strings
    prefix: str
    directory: str
    edit_missing: str
    edit_directory: str
    insert_missing: str
    insert_directory: str
    bad_line: str
    hidden_names: frozenset[str]
    """Names that a directory's listing leaves out, besides those that begin with a dot."""

    def render_error(self, template: str, **values: object) -> str:
        """A sentence that has a prefix in the documentation's form alone."""
        return self.prefix + template.format(**values)


_DIRECTORY = "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items"
_BAD_LINE = "Invalid `insert_line` parameter: {line}. It should be within the range"

DOCS = Phrases(
    strings="docs",
    prefix="Error: ",
    directory=f"{_DIRECTORY} and node_modules:",
    edit_missing=f"Error: {NOT_THERE}",
    edit_directory=f"Error: {NOT_THERE}",
    insert_missing="Error: The path {path} does not exist",
    insert_directory="Error: The path {path} does not exist",
    bad_line=f"Error: {_BAD_LINE} of lines of the file: [0, {{last}}]",
    hidden_names=frozenset({"node_modules"}),
)
SDK = Phrases(
    strings="sdk",
    prefix="",
    directory=f"{_DIRECTORY}:",
    edit_missing=NOT_THERE,
    edit_directory="The path {path} is not a file.",
    insert_missing=NOT_THERE,
    insert_directory="The path {path} is not a file.",
    bad_line=f"{_BAD_LINE} [0, {{last}}].",
    hidden_names=frozenset(),
)

# These have the prefix in the documentation's form: `Phrases.render_error`.
EXISTS = "File {path} already exists"
MISSING = "The path {path} does not exist"
TAKEN = "The destination {path} already exists"
KEEP_ROOT = "Cannot {verb} the /memories directory itself"
UNDER_FILE = "Cannot put {path} under {parent}, which is a file"
INTO_ITSELF = "Cannot move {path} into itself"
TOO_LARGE = f"File {{path}} would exceed the maximum size of {MAX_TEXT:,} characters"
NOT_TEXT = "File {path} cannot hold a NUL or half of a surrogate pair"
CHANGED = "The file {path} was changed by someone else at the same time; view it again, then repeat the edit"
BUSY = "The path {path} is being changed by others all the time; nothing was done, try again"
TOO_MANY = "The path {path} holds too many files to be changed at once; nothing was done"
PATH_TOO_LONG = f"The move to {{path}} would make paths longer than {MAX_PATH:,} characters"
UNAVAILABLE = "The memory cannot be used right now; nothing was changed"
UNKNOWN = "Unknown command: {command}"
NO_FIELD = "Missing required parameter `{field}` for command `{command}`"
WRONG_TYPE = "Invalid `{field}` parameter: expected {expected}, got {got}"
NO_COMMAND = "Missing required parameter `command`"
NO_OBJECT = "Expected an object with a `command`, got {got}"


def get_phrases(strings: str) -> Phrases:
    """The words of that name; raises Invalid when there are none."""
    if strings not in ("docs", "sdk"):
        raise Invalid("strings", f"{strings!r} is not docs or sdk")
    return DOCS if strings == "docs" else SDK


def number_lines(lines: Iterable[str], first: int = 1) -> str:
    """Lines with their numbers before them."""
    return "\n".join(f"{number:>{WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def render_snippet(text: str, changed: int) -> str:
    """The lines around the changed one, which is counted from 0."""
    lines = text.split("\n")
    start = max(0, changed - AROUND)
    return number_lines(lines[start : changed + AROUND + 1], start + 1)


def render_file(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """A file's lines: those asked for, or as many as an agent can well read, and how to see the rest."""
    lines = text.split("\n")
    header = FILE_HEADER.format(path=path)
    if view_range is not None and len(view_range) == 2:
        start = max(1, view_range[0]) - 1
        end = len(lines) if view_range[1] == -1 else view_range[1]
        return header + number_lines(lines[start:end], start + 1)
    end = len(lines) if len(text) <= SHOWN else _find_end(lines, 0)
    if end == len(lines):
        return header + number_lines(lines)
    more = f"[{len(lines) - end:,} more lines: view them with view_range [{end + 1}, {_find_end(lines, end)}]]"
    return f"{header}{number_lines(lines[:end])}\n{more}"


def _find_end(lines: Sequence[str], start: int) -> int:
    """How far one goes from `start` before more is shown than an agent can well read; one line at least."""
    left = SHOWN
    for end in range(start, len(lines)):
        left -= len(lines[end]) + 1
        if left < 0 and end > start:
            return end
    return len(lines)


def format_size(count: int, strings: Strings) -> str:
    """A number of bytes as a listing shows it: `6B`, `1.5K`; what is even has no decimals in the SDK's form."""
    if count < 1024:
        return f"{count}B"
    power = min((count.bit_length() - 1) // 10, 3)
    scaled = count / 1024**power
    exact = strings == "sdk" and scaled == int(scaled)
    return f"{scaled:.{0 if exact else 1}f}{'BKMG'[power]}"
