"""An email becomes its heading, what was written, and the names of what was attached."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from cofio.content import ContentReader, Unreadable

from .making import item

pytestmark = pytest.mark.usefixtures("process")


def mail(*, text: str | None = None, html: str | None = None) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Zoë Müller <zoe@example.org>"
    message["To"] = "bob@example.org"
    message["Date"] = "Sun, 01 Mar 2026 12:00:00 +0000"
    message["Subject"] = "Grüße aus Köln"
    if text is not None:
        message.set_content(text)
    if html is not None and text is not None:
        message.add_alternative(html, subtype="html")
    elif html is not None:
        message.set_content(html, subtype="html")
    return message


HEADING = (
    "From: Zoë Müller <zoe@example.org>\nTo: bob@example.org\nDate: Sun, 01 Mar 2026 12:00:00 +0000\n"
    "Subject: Grüße aus Köln\n\n"
)


def read(data: bytes) -> str:
    return ContentReader().read_items([item("email", data)])[0]


def test_the_plain_text_comes_first_and_without_one_the_page_is_read() -> None:
    told = HEADING + "Schön hier."
    assert read(bytes(mail(text="Schön hier.", html="<p>Not this</p>"))) == told
    assert read(bytes(mail(html="<p>Schön <b>hier</b>.</p><style>x</style>"))) == told
    assert read(bytes(mail(text=" ", html="<p>Schön hier.</p>"))) == told
    assert ContentReader().read_items([item("doc", bytes(mail(text="Hi")), ext=".EML")]) == [HEADING + "Hi"]
    forwarded = mail(text="FYI")
    forwarded.add_attachment(mail(text="The first one."))
    assert read(bytes(forwarded)) == HEADING + "FYI\n\n" + HEADING + "The first one."


def test_attachments_are_named_and_not_read() -> None:
    message = mail(text="See the files.")
    message.add_attachment(b"%PDF-secret", maintype="application", subtype="pdf", filename="Plan für März.pdf")
    message.add_attachment("not read", filename="notes.txt")
    message.add_attachment(b"x", maintype="image", subtype="png")
    assert read(bytes(message)) == (
        HEADING + "See the files.\n\nAttachments: Plan für März.pdf, notes.txt, a file of the type image/png"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"Subject: =?utf-8?b?not base64!?= =?nonsense?q?a?=\nContent-Type: text/plain; charset=nonsense\n\nbody \xff",
        b"Subject: x\nContent-Type: text/html; charset=\"\x00\"\nContent-Transfer-Encoding: base64\n\nPGI+Ym9keQ==",
        b"Subject: x\nContent-Type: multipart/mixed\n\nbody without a boundary",
        b"Subject: x\nContent-Type: text/plain; charset*=utf-8''%ff%fe\n\nbody",
        b"From: a\nContent-Transfer-Encoding: x-uuencode\n\nbegin 666 x\nbody",
    ],
)  # fmt: skip
def test_a_badly_made_email_is_read_as_far_as_it_goes(data: bytes) -> None:
    assert "body" in read(data)


def multipart(depth: int) -> bytes:
    opening = [b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(depth)]
    return b"Subject: x\n" + b"".join(opening) + b"Content-Type: text/plain\n\nbody"


def test_what_is_no_email_or_has_parts_without_end_is_refused() -> None:
    with pytest.raises(Unreadable, match="not an email"):
        read(b"Just some text: with a colon.\n\nAnd more.")
    assert read(multipart(10)).endswith("body")
    for depth in (30, 5000):
        with pytest.raises(Unreadable):
            read(multipart(depth))
    part = b"--b\nContent-Type: text/plain\n\nbody\n"
    with pytest.raises(Unreadable, match="500 parts"):
        read(b"Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n" + part * 600)
