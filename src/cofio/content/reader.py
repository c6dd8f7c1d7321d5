"""How the items of a message become its text, one after the other, or none of them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..values.records import MAX_TEXT
from . import file_uris, markup
from .decoder import clean, decode, decode_base64, decode_plain, make_too_large, make_too_long
from .fetch_policy import FetchPolicy
from .http_fetch import Web
from .media_types import Kind, find_kind, find_media_type, get_extension
from .message_items import MAX_BYTES, Item, UnknownKind, Unreadable, Viewer
from .outlines import Outline, outline_marked, outline_text
from .worker_pool import WorkerPool

SECONDS = 120.0
"""How long all items of one call may take."""
MAX_HINT = 4000
SMALL_PAGE = 64 * 1024
"""Up to here a page of HTML takes a blink to read, whatever is in it, and needs no process of its own."""
TYPES = frozenset(("text", "html", "email", "pdf", "doc", "image", "audio"))


class _Document(NamedTuple):
    """The bytes of an item, and what is known of what they are."""

    data: bytes
    mime: str | None = None
    charset: str | None = None
    ext: str | None = None


class ContentReader:
    """Reads items: with what it has on board, within what the owner lets it fetch, and with a model if there is one."""

    def __init__(
        self,
        fetching: FetchPolicy = FetchPolicy(),  # noqa: B008  # frozen, and it allows nothing
        viewer: Viewer | None = None,
        *,
        web: Web | None = None,
        workers: WorkerPool | None = None,
    ) -> None:
        self._fetching = fetching
        self._viewer = viewer
        self._web = web or Web(fetching)
        self._workers = workers or WorkerPool()

    def close(self) -> None:
        """End what is being read; nothing that needs a process of its own is read any more."""
        self._workers.close()

    def read_items(self, items: Sequence[Item]) -> list[str]:
        """What each item says. When one cannot be read, none is: hand over all that belong together in one call.

        Raises:
            Unreadable: an item can never be read here; `item` says which.
            Unavailable: it could be, at another time.
        """
        deadline = time.monotonic() + SECONDS
        texts = []
        for number, item in enumerate(items):
            try:
                texts.append(self._read_item(item, deadline))
            except Unreadable as error:
                raise Unreadable(error.reason, item=number) from None
        return texts

    def _read_item(self, item: Item, deadline: float) -> str:
        if item.type == "text" and item.text is not None:
            return item.text
        self._check(item)
        if time.monotonic() > deadline:
            raise Unreadable(f"All items together take more than {SECONDS:g} seconds to read: send fewer at a time.")
        document = self._load_document(item, deadline)
        kind = find_kind(item.type, document.data, mime=document.mime, ext=document.ext)
        if kind in (Kind.IMAGE, Kind.AUDIO):
            return self._describe(item, document.data)
        if kind is Kind.TEXT:
            return clean(decode_plain(document.data, document.charset))
        if kind is Kind.HTML and len(document.data) <= SMALL_PAGE:
            return clean(markup.read_page(document.data, document.charset))
        return clean(self._workers.read(kind, document.data, deadline, document.charset))

    def read_outline(self, data: bytes, *, name: str, mime: str | None = None) -> Outline:
        """What a document says, and its headings; `name` is the file's, `mime` what it was sent as.

        Raises:
            Unreadable: it can never be read here.
            Unavailable: it could be, at another time.
        """
        try:
            return self._read_outline(data, name, mime)
        except UnknownKind:  # whose words are for items, which have a field for it
            raise Unreadable(
                "What the file is cannot be told, or is not what it is called: give it a name that ends in what it is,"
                " such as .pdf, .docx, .html, .md or .txt."
            ) from None

    def _read_outline(self, data: bytes, name: str, mime: str | None) -> Outline:
        if len(data) > MAX_BYTES:
            raise make_too_large(MAX_BYTES)
        deadline, ext = time.monotonic() + SECONDS, (get_extension(name) or "").lower()
        kind = find_kind("doc", data, mime=mime, ext=ext)
        if kind is Kind.TEXT:
            return outline_text(decode_plain(data), "md" if mime in ("text/markdown", "text/x-markdown") else ext)
        if kind in (Kind.IMAGE, Kind.AUDIO):
            return Outline(self._describe(Item(type="doc", name=name), data))
        if kind is Kind.HTML and len(data) <= SMALL_PAGE:
            return outline_marked(markup.read_page(data, marked=True))
        return outline_marked(self._workers.read(kind, data, deadline, marked=True))

    def decode(self, data: bytes, *, name: str, mime: str | None = None) -> str | None:
        """Every character of a document that is written in characters, markup included; None for any other.

        Raises:
            Unreadable: it is nothing that can be read here.
        """
        kind = find_kind("doc", data, mime=mime, ext=(get_extension(name) or "").lower())
        return decode(data) if kind in (Kind.TEXT, Kind.HTML, Kind.EMAIL) else None

    def _check(self, item: Item) -> None:
        """Refuse what cannot be read before anything is fetched or decoded for it."""
        if item.type not in TYPES:
            raise Unreadable(f"Items are of the types {', '.join(sorted(TYPES))}.")
        if item.type in ("image", "audio") and self._viewer is None:
            raise _make_no_viewer(item.type)
        if item.type == "text":
            raise Unreadable("An item of type text needs its text; a document that holds text is of type doc.")
        if (item.uri is None) == (item.base64 is None):
            raise Unreadable(f"An item of type {item.type} needs either uri or base64; its text alone is of type text.")

    def _load_document(self, item: Item, deadline: float) -> _Document:
        if item.base64 is not None:
            return _Document(decode_base64(item.base64, MAX_BYTES), ext=item.ext)
        uri = item.uri or ""
        scheme = uri.partition(":")[0].lower()
        if scheme == "file":
            data, path = file_uris.read_file_uri(uri, self._fetching)
            return _Document(data, ext=item.ext or get_extension(path))
        if scheme not in ("http", "https"):
            raise Unreadable("The URI is none of http://, https:// and file://: send the document as base64.")
        fetched = self._web.fetch(uri, deadline)
        return _Document(fetched.data, fetched.mime, fetched.charset, item.ext or get_extension(fetched.path))

    def _describe(self, item: Item, media: bytes) -> str:
        mime = find_media_type(media)
        if self._viewer is None or mime is None:  # a document of type `doc` shows only now what it is
            raise _make_no_viewer((mime or "image").partition("/")[0])
        hint = "" if item.extras is None else json.dumps(item.extras, ensure_ascii=False)[:MAX_HINT]
        text = self._viewer.describe(media, mime, name=item.name, hint=hint)
        if len(text) > MAX_TEXT:
            raise make_too_long()
        return clean(text)


def _make_no_viewer(type: str) -> Unreadable:
    what = {"image": "An image", "audio": "A recording"}[type]
    return Unreadable(f"{what} needs a model that can look and listen, and none is set up: send what it says as text.")
