"""How the parts of an office document are unpacked and parsed, with bounds on both.

Such a document is a zip file of XML. What it says of its own size is checked before anything is unpacked, and no part
gives more than it said. XML that declares entities is refused: no office program writes it, and only bombs need it.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.parsers import expat

from .message_items import Unreadable

MAX_PARTS = 10_000
MAX_PART = 100 * 1024 * 1024
MAX_UNPACKED = 400 * 1024 * 1024
MAX_RATIO = 200
MAX_DEPTH = 256
_SMALL = 8 * 1024 * 1024  # of whatever ratio, this much does no harm
_DAMAGED = "The office document is damaged: open it where it was made, and save it again."


@dataclass(frozen=True, slots=True)
class Element:
    """A tag as it is opened: its name and attributes, without their namespaces."""

    name: str
    attributes: dict[str, str]


class Package:
    """The parts of an office document, by name."""

    def __init__(self, data: bytes) -> None:
        """Look through the list of parts.

        Raises:
            Unreadable: it is no zip file, or one that would unpack to more than a document needs.
        """
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
            raise Unreadable(_DAMAGED) from None
        parts = self._zip.infolist()
        unpacked = sum(each.file_size for each in parts)
        too_dense = unpacked > _SMALL and unpacked > MAX_RATIO * len(data)
        if len(parts) > MAX_PARTS or unpacked > MAX_UNPACKED or too_dense:
            raise Unreadable("The office document would unpack to far more than a document needs; it was not opened.")
        if any(each.flag_bits & 1 for each in parts):
            raise Unreadable("The office document is protected by a password: send it without one.")
        self._parts = {each.filename: each for each in parts}

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def find_names(self, pattern: str) -> list[str]:
        """The names of the parts that match, as people count."""
        found = [name for name in self._parts if re.fullmatch(pattern, name)]
        return sorted(found, key=lambda name: (len(name), name))

    def read(self, name: str) -> bytes:
        """A part, unpacked.

        Raises:
            Unreadable: it is missing, damaged or too large.
        """
        part = self._parts.get(name)
        if part is None or part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreadable(_DAMAGED)
        if part.file_size > MAX_PART:
            raise Unreadable(f"A part of the office document unpacks to more than {MAX_PART:,} bytes.")
        try:
            with self._zip.open(part) as opened:
                return opened.read(part.file_size)
        except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, OSError, EOFError):
            raise Unreadable(_DAMAGED) from None

    def walk(
        self, name: str, start: Callable[[Element], None], end: Callable[[str], None], words: Callable[[str], None]
    ) -> None:
        """Parse a part, and tell of each tag that opens or closes and of the words between them.

        Raises:
            Unreadable: the part is missing, damaged, or made to do harm.
        """
        depth = 0

        def open_tag(tag: str, attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > MAX_DEPTH:
                raise Unreadable(f"The office document is nested more than {MAX_DEPTH} deep.")
            start(Element(_strip_namespace(tag), {_strip_namespace(key): value for key, value in attributes.items()}))

        def close_tag(tag: str) -> None:
            nonlocal depth
            depth -= 1
            end(_strip_namespace(tag))

        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = open_tag, close_tag, words
        parser.StartDoctypeDeclHandler = _refuse
        parser.buffer_text = True
        try:
            # All at once: older releases of expat take quadratic time for long tags that come in pieces.
            parser.Parse(self.read(name), True)
        except (expat.ExpatError, ValueError, LookupError):
            raise Unreadable(_DAMAGED) from None

    def list_elements(self, name: str) -> Iterator[Element]:
        """The tags of a part in the order that they open."""
        found: list[Element] = []
        self.walk(name, found.append, lambda _: None, lambda _: None)
        return iter(found)

    def find_related(self, name: str) -> dict[str, tuple[str, str]]:
        """The parts that a part refers to, by the id it uses: the last word of their type, and their name."""
        folder, _, file = name.rpartition("/")
        relations = f"{folder}/_rels/{file}.rels" if folder else f"_rels/{file}.rels"
        if relations not in self:
            return {}
        found = {}
        for each in self.list_elements(relations):
            attributes = each.attributes
            if each.name == "Relationship" and attributes.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", "")))[1:]
                found[attributes.get("Id", "")] = (attributes.get("Type", "").rpartition("/")[2], target)
        return found


def _strip_namespace(name: str) -> str:
    return name.rpartition(" ")[2]


def _refuse(*_: object) -> None:
    raise Unreadable("The office document declares entities, which none needs; it was not read.")
