"""Items become texts, all or none, and nothing that anyone sends makes reading fail in another way."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.waiting import wait_until

from cofio.content import ContentReader, FetchPolicy, Item, Unreadable, message_items
from cofio.content.media_types import Kind
from cofio.content.worker_pool import AT_ONCE, WorkerPool
from cofio.values.errors import Unavailable
from cofio.values.records import MAX_TEXT

from ..tiers import scale_examples
from .making import PNG, WAV, docx, item, odt, pdf, pptx, xlsx

pytestmark = pytest.mark.usefixtures("process")


class Eyes:
    """A model that says what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str | None, str]] = []

    def describe(self, media: bytes, mime: str, *, name: str | None, hint: str) -> str:
        self.shown.append((mime, name, hint))
        return f"{mime} of {len(media)} bytes"


class Asleep:
    """A model that cannot be asked."""

    def describe(self, media: bytes, mime: str, *, name: str | None, hint: str) -> str:
        raise Unavailable("the model does not answer")


def refused(asked: Item, reading: ContentReader | None = None) -> str:
    with pytest.raises(Unreadable) as caught:
        (reading or ContentReader()).read_items([asked])
    return caught.value.reason


@pytest.mark.parametrize(
    ("type", "data", "ext", "text"),
    [
        ("doc", b"# Trip\r\n\r\n- tea", "md", "# Trip\n\n- tea"),
        ("doc", b"a,b\n1,2\n", "CSV", "a,b\n1,2"),
        ("doc", b'{"a": 1}', ".json", '{"a": 1}'),
        ("doc", b"<p>Hello</p>", "html", "Hello"),
        ("doc", b"<!DOCTYPE html><title>Hello</title>", None, "Hello"),
        ("doc", b"def f(): ...", "py", "def f(): ..."),
        ("doc", "grüß".encode(), None, "grüß"),
        ("doc", "grüß".encode("utf-16"), "txt", "grüß"),
        ("doc", "grüß".encode("cp1252"), "txt", "grüß"),
        ("html", b"Hello", "txt", "Hello"),
        ("html", '<meta charset="koi8-r">ж'.encode("koi8-r") + b" " * 100_000, None, "ж"),
    ],
)
def test_each_kind_of_document_becomes_its_text(type: str, data: bytes, ext: str | None, text: str) -> None:
    assert ContentReader().read_items([item(type, data, ext), Item(type="text", text=" a\0 ")]) == [text, " a\0 "]
    assert ContentReader().read_items([]) == []


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (Item(type="doc"), "needs either uri or base64"),
        (Item(type="text"), "needs its text"),
        (item("text", b"hello"), "needs its text"),
        (Item(type="doc", uri="http://a.test/", base64="aGk="), "either"),
        (Item(type="video", base64="aGk="), "types"),
        (item("doc", b"\x00\x01\x02\xff"), "say it with `ext`"),
        (item("doc", pdf("Hello"), "txt"), "not text"),
        (item("html", pdf("Hello")), "not HTML"),
        (item("pdf", b"c"), "The document is not a PDF, though it is said to be."),
        (item("email", docx("")), "not an email"),
        (item("doc", b"hello", "docx"), "not an office document"),
        (item("doc", b"hello", "doc"), "save it as docx"),
        (item("doc", b"{\\rtf1 hello}", "rtf"), "save it as docx"),
        (item("html", b"<script>1</script>"), "no text"),
        (item("doc", b""), "no text"),
        (item("doc", b"x" * (MAX_TEXT + 1), "txt"), "characters of text"),
        (item("doc", b"x" * (5 * MAX_TEXT), "txt"), "characters of text"),
        # Were it decoded first, its letters would be what is wrong with it.
        (Item(type="doc", base64="!" * 80_000_000), f"larger than {message_items.MAX_BYTES:,} bytes"),
    ],
)
def test_what_cannot_be_read_says_why_is_named_and_the_others_are_not_given(asked: Item, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        ContentReader().read_items([Item(type="text", text="a"), item("doc", b"b", "txt"), asked])
    assert caught.value.item == 2
    assert reason in caught.value.reason


def test_images_and_recordings_alone_go_to_the_model_with_what_the_sender_says(tmp_path: Path) -> None:
    eyes = Eyes()
    (tmp_path / "key.png").write_text("a secret")
    reading = ContentReader(FetchPolicy(folders=(tmp_path,)), eyes)
    for wrong in (Item(type="image", uri=f"file://{tmp_path}/key.png"), item("image", WAV), item("image", pdf("x"))):
        assert "not an image" in refused(wrong, reading)
    assert eyes.shown == []
    picture = Item(type="image", base64=base64.b64encode(PNG).decode(), name="cat.png", extras={"caption": "Zoë"})
    texts = reading.read_items([picture, item("audio", WAV), item("doc", PNG, "png")])
    assert texts == ["image/png of 28 bytes", "audio/wav of 36 bytes", "image/png of 28 bytes"]
    assert eyes.shown[0] == ("image/png", "cat.png", '{"caption": "Zoë"}')
    assert eyes.shown[1:] == [("audio/wav", None, ""), ("image/png", None, "")]
    for asked in (item("image", PNG), item("audio", WAV), item("doc", PNG), Item(type="image", uri="http://a.test/")):
        assert "needs a model that can look and listen" in refused(asked)  # before anything is fetched
    with pytest.raises(Unavailable):  # one that cannot be asked now is no reason to give up
        ContentReader(viewer=Asleep()).read_items([item("image", PNG)])


@pytest.mark.parametrize(
    "encoded", ["data:text/plain;base64,aGk=", "aGk", "a-_=", "!!!!", "aGk=\0", "ａＧｋ＝", "\ud800"]
)
def test_only_plain_base64_is_decoded(encoded: str) -> None:
    assert "base64" in refused(Item(type="doc", base64=encoded, ext="txt"))
    lines = base64.encodebytes(b"hello world " * 20).decode().replace("\n", "\r\n")
    read = ContentReader().read_items([Item(type="doc", base64=f" {lines}\t", ext="txt")])
    assert read == [("hello world " * 20).strip()]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Has a script run in place of the parsers."""

    def make(script: str) -> None:
        (tmp_path / "python").write_text(f"#!/bin/sh\n{script}")
        (tmp_path / "python").chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    return make


def test_no_key_of_the_server_reaches_a_parser(monkeypatch: pytest.MonkeyPatch, pretend: Callable[[str], None]) -> None:
    pretend("cat >/dev/null; env")
    monkeypatch.setenv("COFIO_EMBED_KEY", "secret")
    (environment,) = ContentReader().read_items([item("pdf", pdf("x"))])
    assert "PATH=" in environment
    assert "secret" not in environment


def test_where_no_process_can_be_started_it_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, said in (("/nonexistent", "no process can be started"), ("/bin/false", "does not start")):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(Unavailable, match=said):
            ContentReader().read_items([item("pdf", pdf("x"))])


def test_when_enough_are_being_read_the_next_is_told_to_come_back(
    tmp_path: Path, pretend: Callable[[str], None]
) -> None:
    done = tmp_path / "done"
    pretend(f"touch {tmp_path}/$$.started\nwhile [ ! -e {done} ]; do sleep 0.02; done\necho read")
    few = WorkerPool()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [pool.submit(few.read, Kind.PDF, b"", time.monotonic() + 30) for _ in range(AT_ONCE)]
        try:
            wait_until(lambda: len(list(tmp_path.glob("*.started"))) == AT_ONCE)
            with pytest.raises(Unavailable, match="try again"):
                few.read(Kind.PDF, b"", time.monotonic() + 0.05)
        finally:
            done.touch()
        assert [each.result(60) for each in begun] == ["read\n"] * AT_ONCE


def test_what_is_being_read_when_the_program_ends_is_not_waited_for(
    tmp_path: Path, pretend: Callable[[str], None]
) -> None:
    pretend(f"touch {tmp_path}/$$.started\nexec sleep 600")
    workers_ = WorkerPool(3600)
    reading_ = ContentReader(workers=workers_)
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        begun = [pool.submit(workers_.read, Kind.PDF, b"", time.monotonic() + 3600) for _ in range(AT_ONCE + 1)]
        wait_until(lambda: len(list(tmp_path.glob("*.started"))) == AT_ONCE)
        reading_.close()
        for each in begun:  # also the one that waits for its turn
            with pytest.raises(Unavailable, match="the program is ending"):
                each.result(60)
    with pytest.raises(Unavailable, match="the program is ending"):
        reading_.read_items([item("pdf", pdf("x"))])


documents = [pdf("Hello"), docx("<w:p><w:r><w:t>x</w:t></w:r></w:p>"), xlsx(""), pptx("a"), odt("<text:p>a</text:p>")]
damaged = st.builds(
    lambda data, at, put: data[: at % len(data)] + put + data[at % len(data) + len(put) :],
    st.sampled_from(documents), st.integers(0, 10_000), st.binary(min_size=1, max_size=8),
)  # fmt: skip


types = st.sampled_from(["pdf", "email", "doc", "html"])


def outcome(asked: Item, reading: ContentReader) -> str:
    """What is said of an item: its text, or why there is none."""
    try:
        return reading.read_items([asked])[0]
    except Unreadable as error:
        return error.reason


@settings(max_examples=scale_examples(60))
@given(types, st.binary() | damaged, st.sampled_from([None, "docx", "pdf", "eml"]))
@example("email", b"From: a\nContent-Type: message/rfc822\n\nFrom: b\n\nc", None)
@example("email", b"From:\nContent-Type: multipart/alternative; boundary=\n\n--\n\n--", None)
def test_any_bytes_are_read_or_refused(type: str, data: bytes, ext: str | None) -> None:
    said = outcome(item(type, data, ext), ContentReader())
    assert 0 < len(said) <= MAX_TEXT
    assert b"\0" not in said.encode()


@given(
    st.builds(
        Item, type=st.sampled_from(["html", "doc", "text", "image"]), uri=st.none() | st.text(),
        base64=st.none() | st.text(alphabet="aGk=/+ \n") | st.text(), ext=st.none() | st.text(),
    ), st.text(),
)  # fmt: skip
def test_any_item_is_read_or_refused_as_is_any_uri_where_none_is_allowed(asked: Item, rest: str) -> None:
    assert outcome(asked, ContentReader(FetchPolicy.parse("*,/nonexistent")))
    for scheme in ("http://", "https://[", "file://", "file:///"):
        refused(Item(type="doc", uri=scheme + rest))
