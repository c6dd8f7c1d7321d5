"""How an email becomes text: who wrote to whom and when, what they wrote, and what was attached."""

from __future__ import annotations

import re
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from typing import TypeAlias

from . import markup
from .decoder import decode
from .message_items import Unreadable

MAX_PARTS = 500
MAX_DEPTH = 20
MAX_HEADER = 4000  # characters of a line above the text
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_MARKS = (*_SHOWN, "Received", "Message-ID", "Return-Path", "MIME-Version")
_SPACES = re.compile(r"\s+")
Part: TypeAlias = "Message[str, str]"


def read_mail(data: bytes) -> str:
    """The lines that say from whom, to whom, when and about what, and what is written below them.

    The plain text is taken where there is one, else the page; what is attached is named, and not read.

    Raises:
        Unreadable: it is not an email, or one of too many parts.
    """
    message = message_from_bytes(data)
    if not any(message[name] for name in _MARKS):
        raise Unreadable("The document is not an email: it does not begin with lines such as From, Date and Subject.")
    return _MailReader().read_message(message, 0)


class _MailReader:
    """Goes through the parts of one email, and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def read_message(self, message: Part, depth: int) -> str:
        """An email as text, be it the one that was sent or one that is part of it."""
        attached: list[str] = []
        lines = [f"{name}: {value}" for name in _SHOWN if (value := _decode_header(message, name))]
        body = self._read_part(message, depth, attached)
        if attached:
            body = f"{body}\n\nAttachments: {', '.join(attached)}"
        return "\n".join(lines) + "\n\n" + body

    def _read_part(self, part: Part, depth: int, attached: list[str]) -> str:
        self._count += 1
        if self._count > MAX_PARTS or depth > MAX_DEPTH:
            raise Unreadable(f"The email has more than {MAX_PARTS} parts, or more than {MAX_DEPTH} within each other.")
        inner = part.get_payload()
        if isinstance(inner, list):
            if part.get_content_type() == "message/rfc822":
                return "\n\n".join(self.read_message(each, depth + 1) for each in inner if isinstance(each, Message))
            parts = [each for each in inner if isinstance(each, Message)]
            if part.get_content_type() == "multipart/alternative":
                texts = (self._read_part(each, depth + 1, attached) for each in sorted(parts, key=_rank_plainness))
                return next((text for text in texts if text.strip()), "")
            return "\n\n".join(filter(None, [self._read_part(each, depth + 1, attached) for each in parts]))
        if part.get_content_disposition() == "attachment" or part.get_content_maintype() not in ("text", "multipart"):
            attached.append(_join_spaces(part.get_filename() or f"a file of the type {part.get_content_type()}"))
            return ""
        return _decode_part(part)


def _rank_plainness(part: Part) -> int:
    order = ("text/plain", "text/html")
    kind = part.get_content_type()
    return order.index(kind) if kind in order else 1 if part.is_multipart() else 2


def _decode_part(part: Part) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset()
    return (
        markup.read_page(data, charset) if part.get_content_subtype() == "html" else decode(data, charset).strip("\r\n")
    )


def _decode_header(message: Part, name: str) -> str:
    written = str(message.get(name, ""))[:MAX_HEADER]
    try:
        pieces = decode_header(written)
    except HeaderParseError:
        return _join_spaces(written)
    return _join_spaces("".join(each if isinstance(each, str) else decode(each, charset) for each, charset in pieces))


def _join_spaces(text: str) -> str:
    return _SPACES.sub(" ", text).strip()
