"""Documents, made by hand as small as they can be."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Mapping

from cofio.content import Item

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(20)


def item(type: str, data: bytes, ext: str | None = None) -> Item:
    """An item that holds a document."""
    return Item(type=type, base64=base64.b64encode(data).decode(), ext=ext)


def zipped(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file of these parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def relations(**targets: str) -> str:
    """What a part refers to: the types, and where they are; a type's number is not part of it."""
    lines = "".join(
        f'<Relationship Id="{name}" Type="{RELATION}/{name.rstrip("0123456789")}" Target="{target}"/>'
        for name, target in targets.items()
    )
    return f'<?xml version="1.0"?><Relationships xmlns="x">{lines}</Relationships>'


def docx(body: str, **others: str) -> bytes:
    """A text document with this body, and other parts in the folder `word`."""
    main = f'<?xml version="1.0"?><w:document xmlns:w="{WORD}" xmlns:mc="mc"><w:body>{body}</w:body></w:document>'
    parts = {f"word/{name}.xml": f'<w:notes xmlns:w="{WORD}">{text}</w:notes>' for name, text in others.items()}
    return zipped(
        {
            "_rels/.rels": relations(officeDocument="word/document.xml"),
            "word/document.xml": main,
            "word/_rels/document.xml.rels": relations(**{name: f"{name}.xml" for name in others}),
            **parts,
        }
    )


def xlsx(rows: str, *, shared: str = "", styles: str = "") -> bytes:
    """A workbook of one sheet."""
    return zipped(
        {
            "_rels/.rels": relations(officeDocument="/xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATION}"><sheets>'
            '<sheet name="Trips" sheetId="1" r:id="worksheet1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                worksheet1="worksheets/sheet1.xml", sharedStrings="sharedStrings.xml", styles="styles.xml"
            ),
            "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{shared}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
        }
    )


def pptx(*slides: str, notes: str = "") -> bytes:
    """Slides of one paragraph each; the notes are those of the first, which is stored last."""
    order = "".join(f'<p:sldId id="{256 + n}" r:id="slide{n}"/>' for n in range(len(slides)))
    names = {f"slide{n}": f"slides/slide{len(slides) - n}.xml" for n in range(len(slides))}
    shape = f'<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}"><a:p><a:r><a:t>{{}}</a:t></a:r></a:p></p:sld>'
    return zipped(
        {
            "_rels/.rels": relations(officeDocument="ppt/presentation.xml"),
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{RELATION}">{order}</p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(**names),
            **{f"ppt/slides/slide{len(slides) - n}.xml": shape.format(slide) for n, slide in enumerate(slides)},
            f"ppt/slides/_rels/slide{len(slides)}.xml.rels": relations(notesSlide="../notesSlides/notes.xml"),
            "ppt/notesSlides/notes.xml": shape.format(notes),
        }
    )


def odt(body: str) -> bytes:
    """An OpenDocument text."""
    namespaces = 'xmlns:office="o" xmlns:text="t" xmlns:table="b" xmlns:dc="d"'
    content = f"<office:document-content {namespaces}><office:body>{body}</office:body></office:document-content>"
    return zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def pdf(*pages: str, kids: str | None = None, extra: Mapping[int, bytes] | None = None) -> bytes:
    """A PDF with a line of text on each page; `kids` names other pages, and `extra` sets objects by their number."""
    objects: dict[int, bytes] = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    numbers = range(4, 4 + 2 * len(pages), 2)
    listed = kids or " ".join(f"{n} 0 R" for n in numbers)
    objects[2] = f"<</Type/Pages/Kids[{listed}]/Count {len(pages)}>>".encode()
    objects[3] = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    for n, words in zip(numbers, pages, strict=True):
        content = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode() if words else b""
        font = "/Resources<</Font<</F1 3 0 R>>>>"
        objects[n] = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{font}/Contents {n + 1} 0 R>>".encode()
        objects[n + 1] = b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
    objects |= extra or {}
    return assembled(objects)


def assembled(objects: Mapping[int, bytes]) -> bytes:
    """A PDF of these objects, the first of which is its catalog."""
    data, offsets = bytearray(b"%PDF-1.4\n"), {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (max(objects) + 1)
    for number in range(1, max(objects) + 1):
        data += b"%010d 00000 %s \n" % (offsets.get(number, 0), b"n" if number in offsets else b"f")
    return bytes(data + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (max(objects) + 1, start))
