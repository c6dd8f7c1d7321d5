"""How a cofio.toml is read, and what its author is told when it cannot be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..system.safe_files import read_file
from ..values.errors import Invalid, Unavailable
from .notices import sanitize

FILE = "cofio.toml"
LONGEST = 1_000_000  # bytes of a file

_TRUTHS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_BARE = re.compile(r"\s*([A-Za-z0-9_]+)\s*=\s*([A-Za-z][A-Za-z0-9_./-]{0,39})\s*(?:#.*)?")
_QUOTES = 'texts stand in quotes, as in `embedder = "none"`, and switches are `true` or `false`'


class InvalidFile(Invalid):
    """A file that cannot be read or is not TOML; the problem names it with its folder, so the field is not said."""

    def __init__(self, problem: str) -> None:
        super().__init__(FILE, problem)
        self.args = (problem,)


def read_settings(path: Path, kinds: Mapping[str, str], *, follow: bool = False) -> dict[str, object]:
    """What the file sets, by name; nothing when there is no file. `kinds` are the types of the settings that there are.

    Raises:
        Invalid: the file cannot be read, or sets what is not known.
    """
    try:
        content = read_file(path, limit=LONGEST, follow=follow)
        if content is None:
            return {}
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path} is not text in UTF-8: write it anew") from error
    except Unavailable as error:
        raise InvalidFile(str(error)) from error
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from error
    import tomllib  # 10 ms that a store without a file need not pay

    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(_explain(path, text, kinds, str(error))) from error
    for name in values:
        if name not in kinds:
            from .suggestions import suggest  # not before it is needed

            meant = suggest(name, kinds)
            there = f"did you mean {meant}?" if meant else f"{FILE} takes {', '.join(kinds)}"
            raise Invalid(sanitize(name), f"is not a setting; {there} ({path})")
    return values


def convert(name: str, value: object, kind: str) -> object:
    """The value as its setting has it; variables and files may write it in several ways.

    Raises:
        Invalid: it is no such value.
    """
    kind = kind.removesuffix(" | None")
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "int" and isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return int(value)
        except ValueError:
            raise Invalid(name, f"{value!r} is not a whole number") from None
    if kind == "float" and isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            raise Invalid(name, f"{value!r} is not a number") from None
    if kind == "bool" and str(value).lower() in _TRUTHS:
        return _TRUTHS[str(value).lower()]
    meant = {"str": "a text, which stands in quotes", "bool": "true or false", "int": "a whole number"}
    quoted = "what is set" if name.endswith("_key") else repr(value)
    raise Invalid(name, f"{quoted} is not {meant.get(kind, 'a number')}")


def _explain(path: Path, text: str, kinds: Mapping[str, str], problem: str) -> str:
    """Which line of the file is wrong, and what to write there."""
    lines = text.rstrip("\n").split("\n")
    match = _POSITION.search(problem)
    number = min(int(match[1]), len(lines)) if match and match[1] else len(lines)
    where = f"{path}, line {number}" if match else str(path)
    bare = _BARE.fullmatch(lines[number - 1]) if match else None
    name, word = (bare[1], bare[2]) if bare else ("", "")
    kind = kinds.get(name, "").removesuffix(" | None")
    if name.endswith("_key"):  # which is not shown
        return f"{where} is not TOML: write the value of `{name}` in quotes"
    if kind == "str":
        write = f'`{name} = "{word}"`'
    elif kind == "bool" and word.lower() in _TRUTHS:
        write = f"`{name} = {str(_TRUTHS[word.lower()]).lower()}`"
    elif kind == "bool":
        write = f"`{name} = true` or `{name} = false`"
    else:
        return f"{where} is not TOML ({_POSITION.sub('', problem)}): {_QUOTES}"
    return f"{where}: `{name} = {word}` is not TOML; write {write}"
