"""How bytes become characters: base64, the many ways to write text down, and what no text should hold."""

from __future__ import annotations

import binascii
import codecs
import re

from ..values.records import MAX_TEXT
from .message_items import NoText, UnknownKind, Unreadable

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the mark of UTF-16, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Python knows more, and some of them take quadratic time or run escapes: only what documents are written in counts.
_CHARSETS = frozenset({
    "ascii", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "big5", "big5hkscs",
    "cp437", "cp850", "cp852", "cp866", "cp874", "cp932", "cp949", "cp950", "cp1250", "cp1251", "cp1252", "cp1253",
    "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "euc_jp", "euc_kr", "gb2312", "gbk", "gb18030", "hz",
    "iso2022_jp", "iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7",
    "iso8859-8", "iso8859-9", "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16",
    "koi8-r", "koi8-u", "mac-roman", "shift_jis", "tis-620",
})  # fmt: skip
_AS_BROWSERS_DO = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932"}
_CHARSET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.-]{0,39}")
_SPACES = {ord(each): None for each in " \t\r\n"}
_NO_TEXT = dict.fromkeys((*range(9), 11, *range(14, 32), 127)) | {12: "\n"}
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LONE = re.compile(r"[\ud800-\udfff]")


def decode_base64(encoded: str, limit: int) -> bytes:
    """The bytes that plain base64 stands for; `limit` is how many there may be, and is checked before.

    Raises:
        Unreadable: it is too long, or something else than plain base64.
    """
    # Lines of 76 characters, or shorter ones, may be in it: they add less than a tenth.
    if len(encoded) > (limit + 2) // 3 * 4 * 1.1:
        raise make_too_large(limit)
    if encoded[:5].lower() == "data:":
        raise Unreadable("The base64 begins with `data:`: send what comes after the comma, and its kind as `ext`.")
    try:
        data = binascii.a2b_base64(encoded.translate(_SPACES), strict_mode=True)
    except ValueError:  # what is not ASCII is a ValueError, and so is binascii.Error
        raise Unreadable("The base64 is not plain base64 (A-Z, a-z, 0-9, +, / and = at its end).") from None
    if len(data) > limit:
        raise make_too_large(limit)
    return data


def make_too_large(limit: int) -> Unreadable:
    """What is said of a document of more bytes than there may be."""
    return Unreadable(f"The document is larger than {limit:,} bytes: send less of it, or what it says as text.")


def make_too_long() -> Unreadable:
    """What is said of a document that holds more text than a record may."""
    return Unreadable(f"The document holds more than {MAX_TEXT:,} characters of text: send it in parts.")


def decode(data: bytes, declared: str | None = None) -> str:
    """The text that the bytes are: by their mark, else as declared, else as UTF-8, else as Windows-1252."""
    for bom, charset in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(charset, "replace")
    charset = find_charset(declared) or ""
    if charset:
        return data.decode(charset, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def find_charset(declared: str | None) -> str | None:
    """The name that Python has for a charset that documents are written in."""
    if declared is None or not _CHARSET_NAME.fullmatch(declared):
        return None
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        return None
    return _AS_BROWSERS_DO.get(name, name) if name in _CHARSETS else None


def decode_plain(data: bytes, declared: str | None = None) -> str:
    """The text of a file that holds nothing but text.

    Raises:
        Unreadable: it is no text.
    """
    if len(data) > MAX_TEXT * 4 + 4:
        raise make_too_long()
    text = decode(data, declared)
    if _CONTROLS.search(text):
        raise UnknownKind("The document is not text: say what it is with `ext`.")
    return text


def strip_unprintable(text: str) -> str:
    """The text without what cannot be stored or shown."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_NO_TEXT)
    return _LONE.sub("\ufffd", text)


def clean(text: str) -> str:
    """The text without what cannot be stored or shown, and without blank ends.

    Raises:
        Unreadable: it is too long, or there is nothing in it.
    """
    text = strip_unprintable(text).strip()
    if len(text) > MAX_TEXT:
        raise make_too_long()
    if not text:
        raise NoText("The document holds no text.")
    return text
