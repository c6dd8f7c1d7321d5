"""What a document is: by what it is called, by what its server says, and by how it begins."""

from __future__ import annotations

import re
from enum import StrEnum

from .message_items import UnknownKind, Unreadable


class Kind(StrEnum):
    """How a document is read."""

    TEXT = "text"
    HTML = "html"
    EMAIL = "email"
    PDF = "pdf"
    OFFICE = "office"
    IMAGE = "image"
    AUDIO = "audio"


_NAMES = {
    Kind.TEXT: "text", Kind.HTML: "HTML", Kind.EMAIL: "an email", Kind.PDF: "a PDF", Kind.OFFICE: "an office document",
    Kind.IMAGE: "an image", Kind.AUDIO: "audio",
}  # fmt: skip
_EXTENSIONS = {
    Kind.TEXT: "txt text md markdown rst csv tsv json jsonl ndjson log xml yaml yml toml ini tex",
    Kind.HTML: "html htm xhtml",
    Kind.EMAIL: "eml",
    Kind.PDF: "pdf",
    Kind.OFFICE: "docx docm xlsx xlsm pptx pptm odt ods odp",
    Kind.IMAGE: "png jpg jpeg gif webp bmp tif tiff heic avif",
    Kind.AUDIO: "mp3 wav ogg oga opus flac m4a aac amr webm",
}
_BY_EXTENSION = {extension: kind for kind, names in _EXTENSIONS.items() for extension in names.split()}
_BY_MIME = {
    "text/html": Kind.HTML, "application/xhtml+xml": Kind.HTML, "message/rfc822": Kind.EMAIL,
    "application/pdf": Kind.PDF, "application/x-pdf": Kind.PDF, "application/json": Kind.TEXT,
    "application/xml": Kind.TEXT, "application/yaml": Kind.TEXT, "application/x-ndjson": Kind.TEXT,
}  # fmt: skip
_MIME_BEGINNINGS = (
    ("application/vnd.openxmlformats-officedocument.", Kind.OFFICE),
    ("application/vnd.oasis.opendocument.", Kind.OFFICE),
    ("text/", Kind.TEXT),
    ("image/", Kind.IMAGE),
    ("audio/", Kind.AUDIO),
)
_OLD = {"doc", "xls", "ppt", "msg", "rtf"}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MEDIA = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"BM.{4}\0\0\0\0", "image/bmp"),
    (rb"II\*\0|MM\0\*", "image/tiff"),
    (rb"....ftyp(?:heic|heix|mif1)", "image/heic"),
    (rb"....ftypavif", "image/avif"),
    (rb"ID3[\x02-\x04]\0|\xff[\xfb\xfa\xf3\xf2]", "audio/mpeg"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"OggS\0", "audio/ogg"),
    (rb"fLaC\0", "audio/flac"),
    (rb"....ftyp(?:M4A|mp42|isom|dash)", "audio/mp4"),
    (rb"\xff[\xf1\xf9]", "audio/aac"),
    (rb"#!AMR", "audio/amr"),
    (rb"\x1a\x45\xdf\xa3", "audio/webm"),
)
_PATTERNS = [(re.compile(pattern, re.DOTALL), mime) for pattern, mime in _MEDIA]
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,400}?-->\s*)?<(?:!doctype\s+html|html)[\s>]", re.DOTALL | re.I)


def find_kind(type: str, data: bytes, *, mime: str | None = None, ext: str | None = None) -> Kind:
    """How an item of this type is to be read; what it begins with must not say otherwise.

    Raises:
        Unreadable: it is not what it is said to be, or nothing that can be read.
    """
    found = _find_by_beginning(data)
    declared = (
        Kind(type) if type != "doc" else _find_by_mime(mime) or _find_by_extension(ext) or found or _find_text(data)
    )
    if declared is None:
        raise UnknownKind("What the document is cannot be told: say it with `ext`, such as pdf, docx, html or txt.")
    if data.startswith(_OLE):
        raise Unreadable(
            "The document is in an old Office format, or protected by a password: "
            "save it as docx, xlsx, pptx, eml or pdf, without a password."
        )
    if declared is Kind.PDF and b"%PDF-" in data[:1024]:  # something may stand before it; in a text it means nothing
        found = Kind.PDF
    media = {Kind.PDF, Kind.OFFICE, Kind.IMAGE, Kind.AUDIO}
    if declared is not found and (declared in media or found in media):
        raise Unreadable(f"The document is not {_NAMES[declared]}, though it is said to be.")
    return declared


def get_extension(path: str) -> str | None:
    """What the name at the end of a path ends in."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2] if "." in name else None


def find_media_type(data: bytes) -> str | None:
    """The MIME type of an image or a recording, by how it begins; None for anything else."""
    return next((mime for pattern, mime in _PATTERNS if pattern.match(data)), None)


def _find_by_mime(mime: str | None) -> Kind | None:
    if mime is None:
        return None
    return _BY_MIME.get(mime) or next((kind for start, kind in _MIME_BEGINNINGS if mime.startswith(start)), None)


def _find_by_extension(ext: str | None) -> Kind | None:
    name = (ext or "").lower().lstrip(".")
    if name in _OLD:
        raise Unreadable(f"Documents of the kind {name} cannot be read: save it as docx, xlsx, pptx, eml or pdf.")
    return _BY_EXTENSION.get(name)


def _find_by_beginning(data: bytes) -> Kind | None:
    if data[:1024].lstrip().startswith(b"%PDF-"):
        return Kind.PDF
    if data.startswith(b"PK\x03\x04"):
        return Kind.OFFICE
    media = find_media_type(data)
    if media is not None:
        return Kind(media.partition("/")[0])
    return Kind.HTML if _PAGE.match(data) else None


def _find_text(data: bytes) -> Kind | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else Kind.TEXT
