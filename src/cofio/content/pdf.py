"""How a PDF becomes text, with pypdf (the extra `documents`)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..values.records import MAX_TEXT
from .decoder import make_too_long
from .message_items import Unreadable
from .outlines import DEEPEST, MARK

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES = 2000
MAX_BOOKMARKS = 5000


def read_pdf(data: bytes, *, marked: bool = False) -> str:
    """The text of each page; what is only a picture of text is not in it.

    If it is to be `marked`, the entries of its table of contents (the bookmarks) are marked as headings.

    Raises:
        Unreadable: it is protected, has too many pages, or holds no text.
    """
    try:
        from pypdf import PdfReader
    except ImportError:
        raise Unreadable(
            "To read a PDF the server needs pypdf, which it does not have: "
            "its owner can install cofio's extra `documents`; or send what the PDF says as text."
        ) from None
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("The PDF is protected by a password: send it without one.")
    pages: list[str] = []
    bookmarks = _find_bookmarks(reader) if marked else {}
    length = 0
    for page in reader.pages:
        if len(pages) == MAX_PAGES:
            raise Unreadable(f"The PDF has more than {MAX_PAGES:,} pages: send it in parts.")
        pages.append(_mark(page.extract_text().strip(), bookmarks.get(len(pages), ())))
        length += len(pages[-1])
        if length > MAX_TEXT:
            raise make_too_long()
    if not length:
        raise Unreadable(
            "The PDF holds no text, as a scan does not: send its pages as images, or what it says as text."
        )
    return "\n\n".join(filter(None, pages))


def _find_bookmarks(reader: PdfReader) -> dict[int, list[tuple[int, str]]]:
    """The entries of the table of contents by the number of their page: how deep each is, and what it says."""
    from pypdf.errors import PyPdfError

    found: dict[int, list[tuple[int, str]]] = {}
    try:
        for count, (level, entry) in enumerate(_walk_entries(reader.outline, 1)):
            if count == MAX_BOOKMARKS:
                break
            page = reader.get_destination_page_number(entry)
            title = " ".join(str(entry.title or "").split())
            if page is not None and page >= 0 and title:
                found.setdefault(page, []).append((level, title))
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # a table of contents that is broken is worth no more than none: the pages can be read all the same
    return found


def _walk_entries(outline: Sequence[Any], level: int) -> Iterator[tuple[int, Any]]:
    for each in outline:
        if isinstance(each, list):  # what is under the entry before it
            yield from _walk_entries(each, level + 1)
        else:
            yield min(level, DEEPEST), each


def _mark(page: str, bookmarks: Sequence[tuple[int, str]]) -> str:
    """A page with its bookmarks as marked lines: in the place of the line that says the same, or at its beginning."""
    if not bookmarks:
        return page
    lines, first = page.split("\n"), 0
    for level, title in bookmarks:
        same = (at for at in range(first, len(lines)) if " ".join(lines[at].split()).casefold() == title.casefold())
        at = next(same, None)
        if at is None:
            at = first
            lines.insert(at, "")
        lines[at] = f"{MARK}{level}{title}"
        first = at + 1
    return "\n".join(lines)
