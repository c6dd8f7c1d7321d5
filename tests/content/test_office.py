"""Office documents become the words they hold; those made to do harm are refused before they can."""

from __future__ import annotations

import struct
import zipfile

import pytest

from cofio.content import ContentReader, Unreadable

from .making import docx, item, odt, pptx, relations, xlsx, zipped

pytestmark = pytest.mark.usefixtures("process")


def read(data: bytes, ext: str = "docx") -> str:
    return ContentReader().read_items([item("doc", data, ext)])[0]


def paragraph(*runs: str) -> str:
    return "<w:p>" + "".join(f"<w:r><w:t>{run}</w:t></w:r>" for run in runs) + "</w:p>"


def test_a_text_document_is_its_paragraphs_tables_and_notes() -> None:
    body = (
        '<w:p><w:pPr><w:pStyle w:val="Heading1"/><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>Trip</w:t></w:r></w:p>'
        + paragraph("We went ", "to Oslo &amp; back.")
        + "<w:p><w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:tab/><w:t>c</w:t></w:r></w:p>"
        + f"<w:tbl><w:tr><w:tc>{paragraph('Day')}</w:tc>"
        + f"<w:tc>{paragraph('City')}{paragraph('and more')}</w:tc></w:tr></w:tbl>"
        + "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
        + f"<mc:Choice>{paragraph('box')}</mc:Choice><mc:Fallback>{paragraph('box')}</mc:Fallback>"
    )
    data = docx(body, footnotes=paragraph("A note."))
    text, *others = ContentReader().read_items(
        [item("doc", data, "docx"), item("doc", data), item("doc", data, "xlsx")]
    )
    assert others == [text, text]  # what kind it is shows without an extension
    assert text == "Trip\nWe went to Oslo & back.\na\nb\tc\nDay | City and more\nbox\n\nA note."


def test_a_workbook_is_its_sheets_line_by_line_with_dates() -> None:
    styles = (
        '<numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd&quot;x&quot;"/>'
        '<numFmt numFmtId="165" formatCode="0.00&quot;days&quot;"/></numFmts>'
        '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="22"/><xf numFmtId="20"/>'
        "</cellXfs>"
    )
    shared = "<si><t>Rome</t></si><si><r><t>Os</t></r><r><t>lo</t></r><rPh><t>no</t></rPh></si>"
    rows = (
        '<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c><c t="inlineStr"><is><t>here</t></is></c><c/></row><row/>'
        '<row><c s="1"><v>46082</v></c><c s="2"><v>46082</v></c><c s="3"><v>46082.5</v></c><c s="4"><v>0.75</v></c>'
        "</row>"
        '<row><c><v>0.10000000000000001</v></c><c t="b"><v>1</v></c><c t="str"><f>A1</f><v>sum</v></c></row>'
    )
    assert read(xlsx(rows, shared=shared, styles=styles), "xlsx") == (
        "Trips\nRome | Oslo | here\n2026-03-01 | 46082 | 2026-03-01 12:00:00 | 18:00:00\n0.1 | TRUE | sum"
    )


def test_an_open_document_is_read_too_and_slides_come_in_their_order_with_their_notes() -> None:
    body = (
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h>Trip</text:h>"
        "<text:p>We <text:span>went</text:span><text:s/>to<text:tab/>Oslo."
        "<office:annotation><dc:creator>Bob</dc:creator></office:annotation></text:p>"
        "<table:table-row><table:table-cell><text:p>1</text:p></table:table-cell>"
        "<table:table-cell><text:p>Rome</text:p></table:table-cell></table:table-row>"
    )
    assert read(odt(body), "odt") == "Trip\nWe went to\tOslo.\n1 | Rome"
    assert read(pptx("First", "Second", notes="Say hello"), "pptx") == "First\n\nSay hello\n\nSecond"


def package(main: str | bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A document of one part."""
    return zipped({"_rels/.rels": relations(officeDocument="word/d.xml"), "word/d.xml": main}, compression)


BOMBS = {
    "one part of zeros": package(bytes(100_000_000)),
    "many parts": zipped({f"word/{n}.xml": "" for n in range(10_001)}),
    "entities": package(
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><x><p><t>&b;</t></p></x>'
    ),
    "an entity from elsewhere": package(
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x><p><t>&a;</t></p></x>'
    ),
    "deep": docx("<w:a>" * 300_000 + "</w:a>" * 300_000),
    "a long tag": docx("<w:a " + "b" * 5_000_000 + "='1'/>"),
    "the same text again and again": xlsx(
        '<row><c t="s"><v>0</v></c></row>' * 20_000, shared=f"<si><t>{'x' * 30_000}</t></si>"
    ),
    "a huge number": xlsx(f'<row><c t="s"><v>{"9" * 10_000}</v></c></row>'),
    "a part that is missing": zipped({"_rels/.rels": relations(officeDocument="word/none.xml")}),
    "a part that is no XML": package(b"\0\1<"),
    "packed by other means": package("<x/>", zipfile.ZIP_LZMA),
    "a way out of the folder": zipped({"_rels/.rels": relations(officeDocument="../../../../etc/passwd")}),
    "slides that are each other's notes": zipped(
        {
            "_rels/.rels": relations(officeDocument="ppt/p.xml"),
            "ppt/p.xml": '<p xmlns:r="r"><sldId r:id="slide"/></p>',
            "ppt/_rels/p.xml.rels": relations(slide="p.xml", notesSlide="p.xml"),
        }
    ),
    "no office document": zipped({"readme.txt": "hello"}),
    "cut off": docx(paragraph("hello"))[:-30],
}  # fmt: skip


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS.keys())
def test_a_document_made_to_do_harm_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(data)


def test_a_part_never_gives_more_than_it_says_and_a_document_with_a_password_says_so() -> None:
    data = bytearray(package(bytes(50_000_000)))
    # The list at the end of the file says that the part has ten bytes.
    at = data.rindex(struct.pack("<L", 50_000_000))
    data[at : at + 4] = struct.pack("<L", 10)
    with pytest.raises(Unreadable, match="damaged"):
        read(bytes(data))
    with pytest.raises(Unreadable, match="it was not opened"):
        read(BOMBS["one part of zeros"])
    locked = bytearray(docx(paragraph("hello")))
    locked[locked.rindex(b"PK\x01\x02") + 8] |= 1
    for secret in (bytes(locked), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)):
        with pytest.raises(Unreadable, match="password"):
            read(secret)
