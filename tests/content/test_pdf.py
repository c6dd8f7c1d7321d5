"""A PDF becomes the text of its pages; one that loops, swells or hides takes no one down with it."""

from __future__ import annotations

import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from cofio.content import ContentReader, Unreadable
from cofio.content.worker_pool import GAVE_UP, REFUSED, WorkerPool

from .making import assembled, item, pdf

pytestmark = pytest.mark.usefixtures("process")


def read(data: bytes, *, seconds: float = 30) -> str:
    return ContentReader(workers=WorkerPool(seconds)).read_items([item("pdf", data)])[0]


def test_a_pdf_is_its_pages_one_after_the_other() -> None:
    assert read(pdf("Hello from Oslo", "", "Second page")) == "Hello from Oslo\n\nSecond page"
    assert read(b"MIME junk\n" + pdf("Hello")) == "Hello"
    spoken = b"A PDF begins with %PDF-1.4, and its songs with ID3."
    items = [item("doc", pdf("Hello"), "pdf"), item("doc", pdf("Hello")), item("doc", spoken, "txt")]
    assert ContentReader().read_items(items) == ["Hello", "Hello", spoken.decode()]


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['pypdf'] = None; from cofio.content.worker import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, "pdf", ""], input=pdf("Hello"), capture_output=True)
    assert done.returncode == REFUSED
    assert b"extra `documents`" in done.stdout


@pytest.mark.parametrize("harm", ["bytearray(3 << 30)", "open('harm', 'wb', 0).write(b'x')", "1 / 0"])
def test_a_parser_that_does_harm_ends_alone(harm: str, tmp_path: Path) -> None:
    program = (
        "import sys, types; module = types.ModuleType('pypdf'); sys.modules['pypdf'] = module\n"
        f"module.PdfReader = lambda _: {harm}\n"
        "from cofio.content.worker import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", program, "pdf", ""], input=b"", capture_output=True, cwd=tmp_path)
    assert done.returncode == GAVE_UP or done.returncode < 0
    assert done.stdout == b""
    assert not [file for file in tmp_path.iterdir() if file.stat().st_size]


def test_a_protected_pdf_says_so() -> None:
    from io import BytesIO

    from pypdf import PdfReader, PdfWriter

    for password, algorithm in (("secret", "AES-256"), ("", "AES-128"), ("", "RC4-128")):
        writer, file = PdfWriter(clone_from=PdfReader(BytesIO(pdf("Hello")))), BytesIO()
        writer.encrypt(password, "owner", algorithm=algorithm)
        writer.write(file)
        if password:
            with pytest.raises(Unreadable, match="password"):
                read(file.getvalue())
        else:
            assert read(file.getvalue()) == "Hello"


def test_what_loops_draws_itself_or_swells_is_survived() -> None:
    for data in (
        pdf("Hello", kids="2 0 R"),
        pdf("Hello", kids="4 0 R 9 0 R", extra={9: b"<</Type/Pages/Kids[2 0 R]/Count 1/Parent 2 0 R>>"}),
        pdf("Hello", kids=" ".join(["4 0 R"] * 5000)),
        pdf("Hello", extra={5: b"5 0 R"}),
        pdf("Hello", extra={4: b"<</Type/Page/Parent 4 0 R/Contents 4 0 R>>"}),
        assembled({1: b"<</Type/Catalog/Pages 1 0 R/Kids[1 0 R]>>"}),
    ):
        with suppress(Unreadable):
            assert len(read(data)) < 100_000
    uses = b"/Resources<</XObject<</F 9 0 R>>>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]" + uses + b"/Contents 5 0 R>>"
    content = b"<</Length 5>>stream\n/F Do\nendstream"
    form = b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]" + uses + b"/Length 5>>stream\n/F Do\nendstream"
    swollen = zlib.compress(zlib.compress(b"BT (x) Tj ET " * 30_000_000, 9), 9)
    large = b"<</Filter[/FlateDecode/FlateDecode]/Length %d>>stream\n%s\nendstream" % (len(swollen), swollen)
    for extra in ({4: page, 5: content, 9: form}, {5: large}):
        with pytest.raises(Unreadable):
            read(pdf("Hello", extra=extra))


def test_what_is_no_pdf_or_a_scan_or_too_long_is_refused() -> None:
    for data, said in (
        (b"<html>Please log in</html>", "not a PDF"), (pdf(""), "as a scan does not"),
        (pdf(*["x"] * 2001), "2,000 pages"), (b"%PDF-1.4", ""), (b"%PDF-1.7\n" + bytes(1000), ""),
    ):  # fmt: skip
        with pytest.raises(Unreadable, match=said or None):
            read(data)
    with pytest.raises(Unreadable, match="too long"):
        read(pdf(*["Hello"] * 1500), seconds=0.3)
