"""How a PDF becomes text, with pypdf (the extra `documents`)."""

from __future__ import annotations

import io

from ..model import MAX_TEXT
from .decoding import too_long
from .items import Unreadable

MAX_PAGES = 2000


def text(data: bytes) -> str:
    """The text of each page; what is only a picture of text is not in it.

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
    length = 0
    for page in reader.pages:
        if len(pages) == MAX_PAGES:
            raise Unreadable(f"The PDF has more than {MAX_PAGES:,} pages: send it in parts.")
        pages.append(page.extract_text().strip())
        length += len(pages[-1])
        if length > MAX_TEXT:
            raise too_long()
    if not length:
        raise Unreadable(
            "The PDF holds no text, as a scan does not: send its pages as images, or what it says as text."
        )
    return "\n\n".join(filter(None, pages))
