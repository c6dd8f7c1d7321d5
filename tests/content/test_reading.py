"""Items become texts, all or none, and nothing that anyone sends makes reading fail in another way."""

from __future__ import annotations

import base64
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.waiting import wait_until

from cofio.content import (
    ContentReader,
    FetchPolicy,
    Item,
    Unreadable,
    http_fetch,
    mail,
    markup,
    message_items,
    packages,
    reader,
    worker_pool,
)
from cofio.content import pdf as pdf_
from cofio.content.media_types import Kind
from cofio.content.worker_pool import AT_ONCE, WorkerPool
from cofio.values.errors import Unavailable
from cofio.values.records import MAX_TEXT

from .making import PNG, WAV, docx, item, odt, pdf, pptx, xlsx


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
        ("doc", "grüß".encode(), "txt", "grüß"),
        ("doc", b"# Trip\r\n\r\n- tea", "md", "# Trip\n\n- tea"),
        ("doc", b"a,b\n1,2\n", "CSV", "a,b\n1,2"),
        ("doc", b'{"a": 1}', ".json", '{"a": 1}'),
        ("doc", b"<p>Hello</p>", "html", "Hello"),
        ("doc", b"<!DOCTYPE html><title>Hello</title>", None, "Hello"),
        ("doc", b"just words", None, "just words"),
        ("doc", b"def f(): ...", "py", "def f(): ..."),
        ("doc", "grüß".encode("utf-16"), "txt", "grüß"),
        ("doc", "grüß".encode("cp1252"), "txt", "grüß"),
        ("html", b"<p>Hello</p>", None, "Hello"),
        ("html", b"Hello", "txt", "Hello"),
        ("html", b"<p>Hello</p>" + b" " * 100_000, None, "Hello"),
        ("html", '<meta charset="koi8-r">ж'.encode("koi8-r") + b" " * 100_000, None, "ж"),
    ],
)
def test_each_kind_of_document_becomes_its_text(type: str, data: bytes, ext: str | None, text: str) -> None:
    assert ContentReader().read_items([item(type, data, ext)]) == [text]


def test_a_text_is_itself() -> None:
    assert ContentReader().read_items([]) == []
    assert ContentReader().read_items([Item(type="text", text=" a\0 "), Item(type="text", text="")]) == [" a\0 ", ""]


def test_an_item_that_cannot_be_read_is_named_and_the_others_are_not_given() -> None:
    with pytest.raises(Unreadable) as caught:
        ContentReader().read_items([Item(type="text", text="a"), item("doc", b"b", "txt"), item("pdf", b"c")])
    assert caught.value.item == 2
    assert str(caught.value) == "The document is not a PDF, though it is said to be."


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (Item(type="html", text="<p>Hello</p>"), "needs either uri or base64"),
        (Item(type="doc"), "needs either uri or base64"),
        (Item(type="text"), "needs its text"),
        (item("text", b"hello"), "needs its text"),
        (Item(type="doc", uri="http://a.test/", base64="aGk="), "either"),
        (Item(type="video", base64="aGk="), "types"),
        (item("doc", b"\x00\x01\x02\xff"), "say it with `ext`"),
        (item("doc", b"\x00\x01\x02", "txt"), "not text"),
        (item("doc", pdf("Hello"), "txt"), "not text"),
        (item("html", pdf("Hello")), "not HTML"),
        (item("email", docx("")), "not an email"),
        (item("doc", b"hello", "docx"), "not an office document"),
        (item("doc", b"hello", "doc"), "save it as docx"),
        (item("doc", b"{\\rtf1 hello}", "rtf"), "save it as docx"),
        (item("doc", b" \n ", "txt"), "no text"),
        (item("html", b"<script>1</script>"), "no text"),
        (item("doc", b""), "no text"),
        (item("doc", b"x" * (MAX_TEXT + 1), "txt"), "characters of text"),
        (item("doc", b"x" * (5 * MAX_TEXT), "txt"), "characters of text"),
    ],
)
def test_what_cannot_be_read_says_why(asked: Item, reason: str) -> None:
    assert reason in refused(asked)


def test_images_and_recordings_go_to_the_model_with_what_the_sender_says() -> None:
    eyes = Eyes()
    picture = Item(type="image", base64=base64.b64encode(PNG).decode(), name="cat.png", extras={"caption": "Zoë"})
    texts = ContentReader(viewer=eyes).read_items([picture, item("audio", WAV), item("doc", PNG, "png")])
    assert texts == ["image/png of 28 bytes", "audio/wav of 36 bytes", "image/png of 28 bytes"]
    assert eyes.shown == [
        ("image/png", "cat.png", '{"caption": "Zoë"}'),
        ("audio/wav", None, ""),
        ("image/png", None, ""),
    ]


def test_without_a_model_they_are_refused_before_anything_is_fetched() -> None:
    for asked in (item("image", PNG), item("audio", WAV), item("doc", PNG), Item(type="image", uri="http://a.test/")):
        assert "needs a model that can look and listen" in refused(asked)


def test_the_model_is_shown_nothing_but_images_and_recordings(tmp_path: Path) -> None:
    (tmp_path / "key.png").write_text("a secret")
    eyes = Eyes()
    reading = ContentReader(FetchPolicy(folders=(tmp_path,)), eyes)
    assert "not an image" in refused(Item(type="image", uri=f"file://{tmp_path}/key.png"), reading)
    assert "not an image" in refused(item("image", WAV), reading)
    assert "not an image" in refused(item("image", pdf("x")), reading)
    assert eyes.shown == []


def test_a_model_that_cannot_be_asked_now_is_no_reason_to_give_up() -> None:
    with pytest.raises(Unavailable):
        ContentReader(viewer=Asleep()).read_items([item("image", PNG)])


@pytest.mark.parametrize(
    "encoded",
    ["data:text/plain;base64,aGk=", "aGk", "aGk=aGk=", "a-_=", "!!!!", "aGk=\0", "ａＧｋ＝", "=", "aGk==", "\ud800",
     "aGVsbG8gd29ybGQ=\u2028"],
)  # fmt: skip
def test_only_plain_base64_is_decoded(encoded: str) -> None:
    assert "base64" in refused(Item(type="doc", base64=encoded, ext="txt"))


def test_base64_may_come_in_lines() -> None:
    lines = base64.encodebytes(b"hello world " * 20).decode().replace("\n", "\r\n")
    assert ContentReader().read_items([Item(type="doc", base64=f" {lines}\t", ext="txt")]) == [
        ("hello world " * 20).strip()
    ]


def test_base64_is_measured_before_it_is_decoded() -> None:
    # Were it decoded first, its letters would be what is wrong with it.
    assert f"larger than {message_items.MAX_BYTES:,} bytes" in refused(Item(type="doc", base64="!" * 80_000_000))


def test_no_key_of_the_server_reaches_a_parser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ncat >/dev/null; env")
    program.chmod(0o700)
    monkeypatch.setenv("COFIO_EMBED_KEY", "secret")
    monkeypatch.setattr(sys, "executable", str(program))
    (environment,) = ContentReader().read_items([item("pdf", pdf("x"))])
    assert "PATH=" in environment
    assert "secret" not in environment


def test_where_no_process_can_be_started_it_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, said in (("/nonexistent", "no process can be started"), ("/bin/false", "does not start")):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(Unavailable, match=said):
            ContentReader().read_items([item("pdf", pdf("x"))])


def test_when_enough_are_being_read_the_next_is_told_to_come_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, done = tmp_path / "python", tmp_path / "done"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/$$.started\nwhile [ ! -e {done} ]; do sleep 0.02; done\necho read")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/$$.started\nexec sleep 600")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
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


def test_every_limit_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs/content.md").read_text()
    told = (
        message_items.MAX_BYTES, markup.MAX_PAGE, MAX_TEXT, pdf_.MAX_PAGES, mail.MAX_PARTS, mail.MAX_DEPTH,
        packages.MAX_PARTS, packages.MAX_PART, packages.MAX_UNPACKED, packages.MAX_RATIO, worker_pool.SECONDS,
        worker_pool.AT_ONCE, int(worker_pool.WAIT), int(reader.SECONDS), int(FetchPolicy().seconds),
        http_fetch.MAX_REDIRECTS,
    )  # fmt: skip
    for limit in told:
        assert f"{limit:,}" in page


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


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(types, st.binary() | damaged, st.sampled_from([None, "docx", "pdf", "eml"]))
@example("email", b"From: a\nContent-Type: message/rfc822\n\nFrom: b\n\nc", None)
@example("email", b"From:\nContent-Type: multipart/alternative; boundary=\n\n--\n\n--", None)
def test_any_bytes_are_read_or_refused(type: str, data: bytes, ext: str | None) -> None:
    said = outcome(item(type, data, ext), ContentReader())
    assert 0 < len(said) <= MAX_TEXT
    assert b"\0" not in said.encode()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(damaged)
def test_a_damaged_document_is_read_or_refused(data: bytes) -> None:
    assert outcome(item("doc", data), ContentReader())


@given(
    st.builds(
        Item, type=st.sampled_from(["html", "doc", "text", "image"]), uri=st.none() | st.text(),
        base64=st.none() | st.text(alphabet="aGk=/+ \n") | st.text(), ext=st.none() | st.text(),
    )
)  # fmt: skip
def test_any_item_is_read_or_refused(asked: Item) -> None:
    assert outcome(asked, ContentReader(FetchPolicy.parse("*,/nonexistent")))


@given(st.text())
def test_any_uri_is_refused_where_none_is_allowed(rest: str) -> None:
    for scheme in ("http://", "https://[", "file://", "file:///"):
        with pytest.raises(Unreadable):
            ContentReader().read_items([Item(type="doc", uri=scheme + rest)])
