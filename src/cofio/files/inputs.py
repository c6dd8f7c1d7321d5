"""The arguments of a command, parsed and validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ..values.errors import Invalid
from ..values.records import MAX_TEXT, check_bool, check_text
from . import texts
from .paths import BadPath, Spelling, canonicalize

_FIELDS: dict[str, dict[str, type]] = {
    "view": {"path": str},
    "create": {"path": str, "file_text": str},
    "str_replace": {"path": str, "old_str": str},
    "insert": {"path": str, "insert_line": int, "insert_text": str},
    "delete": {"path": str},
    "rename": {"old_path": str, "new_path": str},
}
_TYPES = {
    str: "a string", int: "an integer", bool: "a boolean", float: "a number", list: "an array", dict: "an object",
    type(None): "null",
}  # fmt: skip


_LARGEST = 10**1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the tool behaves where users want different things. The defaults are those of Anthropic's documentation."""

    strings: texts.Strings = "docs"
    """Whose sentences it says: those of the documentation, or of Anthropic's Python SDK."""
    overwrite: bool = False
    """Whether `create` replaces a file that is there."""
    paths: Spelling = "any"
    """Which paths it takes: `/memories/a.md`, `a.md`, or any of the two."""
    replace_first: bool = False
    """Whether `str_replace` takes the first of several occurrences, rather than none."""

    def __post_init__(self) -> None:
        texts.get_phrases(self.strings)
        check_bool("overwrite", self.overwrite)
        check_bool("replace_first", self.replace_first)
        if self.paths not in ("any", "absolute", "relative"):
            raise Invalid("paths", f"{self.paths!r} is not any, absolute or relative")


class Refusal(Exception):
    """The command is not carried out; the sentence says why, in full."""


class Arguments:
    """The fields of one command; what is wrong with them is said in the words of the options."""

    def __init__(self, command: object, options: Options) -> None:
        """Raises Refused unless the command is known, and the fields that it must have are there and of their type."""
        self._options = options
        self._phrases = texts.get_phrases(options.strings)
        if not isinstance(command, Mapping):
            raise self.make_refusal(texts.NO_OBJECT, got=_name_type(command))
        name = command.get("command")
        if name is None:
            raise self.make_refusal(texts.NO_COMMAND)
        if not isinstance(name, str) or name not in _FIELDS:
            raise self.make_refusal(texts.UNKNOWN, command=_name_type(name) if _is_huge(name) else str(name)[:100])
        self.name = name
        self._fields = cast(Mapping[str, object], command)
        for field, expected in _FIELDS[name].items():
            value = command.get(field)
            if value is None:
                raise self.make_refusal(texts.NO_FIELD, field=field, command=name)
            self._expect(field, value, expected)

    def get_text(self, field: str) -> str:
        """A text; empty when it may be left out, and is."""
        value = self._fields.get(field)
        if value is None:
            return ""
        self._expect(field, value, str)
        return cast(str, value)

    def get_number(self, field: str) -> int:
        """A whole number that has to be there."""
        return cast(int, self._fields[field])

    def get_view_range(self) -> Sequence[int] | None:
        """The lines to view, if some are asked for."""
        view_range = self._fields.get("view_range")
        if view_range is None:
            return None
        if not isinstance(view_range, list | tuple):
            self._expect("view_range", view_range, list)
        for each in cast(Sequence[object], view_range):
            self._expect("view_range", each, int)
        return cast(Sequence[int], view_range)

    def parse_path(self, field: str = "path") -> tuple[str, str]:
        """A path as it was written, and in its canonical form."""
        written = self.get_text(field)
        try:
            return written, canonicalize(written, self._options.paths)
        except BadPath as bad:
            raise self.make_refusal(bad.template, path=written) from None

    def check_content(self, text: str, written: str) -> str:
        """A text that the file at a path can hold."""
        if len(text) > MAX_TEXT:
            raise self.make_refusal(texts.TOO_LARGE, path=written)
        try:
            check_text("text", text, MAX_TEXT)
        except Invalid:
            raise self.make_refusal(texts.NOT_TEXT, path=written) from None
        return text

    def make_refusal(self, sentence: str, **values: object) -> Refusal:
        """An error in the words of the options."""
        return Refusal(self._phrases.render_error(sentence, **values))

    def _expect(self, field: str, value: object, expected: type) -> None:
        if not isinstance(value, expected) or isinstance(value, bool):
            raise self.make_refusal(texts.WRONG_TYPE, field=field, expected=_TYPES[expected], got=_name_type(value))
        if _is_huge(value):
            raise self.make_refusal(texts.WRONG_TYPE, field=field, expected=_TYPES[expected], got="a larger number")


def _is_huge(value: object) -> bool:
    """Whether it is a number that Python would not even write out."""
    return isinstance(value, int) and abs(value) > _LARGEST


def _name_type(value: object) -> str:
    return _TYPES.get(type(value), type(value).__name__)
