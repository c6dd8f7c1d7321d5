"""A document is divided into topics so that nothing is lost, and its headings are the tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.content import ContentReader, Heading, Outline
from cofio.content.outlines import outline_marked, outline_text
from cofio.knowledge import Topic, divide_document
from cofio.knowledge.categories import CATEGORIES, OTHERS, choose_category
from cofio.knowledge.summaries import LONGEST as LONGEST_SUMMARY
from cofio.knowledge.summaries import summarise_document, summarise_text
from cofio.knowledge.topics import LONGEST, MOST_HEADINGS, divide_text, mask_outline, name_text, plain_heading

from ..content.making import docx, odt, pdf, pptx, xlsx
from ..tiers import scale_examples

pytestmark = pytest.mark.usefixtures("process")

lines = st.one_of(
    st.sampled_from(["", "# One", "## Two", "### Three ###", "###### Six", "Under", "====", "----", "```", "~~~", "#"]),
    st.sampled_from(["<!--", "-->", "---", "- a list", "text. More text!", "word " * 150, "x" * 700, "日本語。" * 200]),
    st.text(max_size=40).filter(lambda line: "\n" not in line),
)
documents = st.lists(lines, max_size=60).map("\n".join)


def outlined(source: str, extension: str = "md") -> Outline:
    """The outline of a text that is not blank."""
    return outline_text(f"begin {source} end", extension)


def paths(source: str, title: str = "Guide", extension: str = "md") -> list[str]:
    """The paths of the topics that a text becomes."""
    return [" > ".join(topic.path) for topic in divide_document(outline_text(source, extension), title)]


def check_tree(topics: list[Topic]) -> None:
    """Paths, depths, parents and children say the same, and nothing is its own ancestor."""
    assert [topic.index for topic in topics] == list(range(1, len(topics) + 1))
    for topic in topics:
        assert topic.name
        assert topic.name == topic.path[-1]
        assert topic.depth == len(topic.path) >= 1
        assert topic.parent < topic.index
        above = topics[topic.parent - 1].path if topic.parent else ()
        assert topic.path[:-1] == above
        assert topic.children == [other.index for other in topics if other.parent == topic.index]


def test_headings_stand_where_they_stood_once_secrets_are_masked() -> None:
    token = "gh" + "p_" + "a8Kd02mXq91LsPz7Rt" + "VbYw34NcEfGh56Jk78"
    source = f"Use {token} here.\n\n# First\n\nThen {token}.\n\n## With {token} ##\n\nbody\n\nLast\n----\n\nend"
    masked = mask_outline(outline_text(source, "md"))
    mark = "[secret removed: GitHub token]"
    assert masked.text == source.replace(token, mark)
    assert [(each.level, each.title) for each in masked.headings] == [(1, "First"), (2, f"With {mark}"), (2, "Last")]
    assert [masked.text[each.start :].split("\n")[0] for each in masked.headings] == [
        "# First", f"## With {mark} ##", "Last",
    ]  # fmt: skip
    assert [topic.name for topic in divide_document(masked, "T")][1:] == ["First", f"With {mark}", "Last"]


def test_a_heading_inside_of_a_secret_is_none() -> None:
    kind = "RSA PRIVATE" + " KEY"
    body = "\n".join("a8Kd02mXq91LsPz7RtVbYw34NcEfGh56Jk78p0ZrUeXnT3iOvBs9DgJ2LwXcQy1M" for _ in range(4))
    source = f"# Keys\n\n-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n\n# Next\n\nbody"
    outline = outline_text(source, "md")
    inside = Heading(source.index(body), 2, body.split("\n")[0])
    masked = mask_outline(Outline(source, (outline.headings[0], inside, outline.headings[1])))
    assert masked.text == "# Keys\n\n[secret removed: private key]\n\n# Next\n\nbody"
    assert [each.title for each in masked.headings] == ["Keys", "Next"]


@given(documents, st.sampled_from(["md", "rst", "txt", "csv"]))
@settings(max_examples=scale_examples(200))
def test_every_character_is_in_exactly_one_topic(source: str, extension: str) -> None:
    outline = outlined(source, extension)
    topics = divide_document(outline, "A title")
    assert "".join(topic.content for topic in topics) == outline.text
    assert all(len(topic.content) <= LONGEST for topic in topics)
    check_tree(topics)


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=30)), max_size=60))
@settings(max_examples=scale_examples(200))
def test_headings_that_a_reader_marks_are_where_the_outline_says(pieces: list[tuple[int, str]]) -> None:
    marked = "\n".join(f"\x01{level}{text}" if level else text for level, text in [(0, "begin"), *pieces])
    outline = outline_marked(marked)
    assert "\x01" not in outline.text
    for heading in outline.headings:
        line = outline.text[heading.start :].partition("\n")[0]
        assert line == f"{'#' * min(heading.level, 6)} {heading.title}"
    topics = divide_document(outline, "A title")
    assert "".join(topic.content for topic in topics) == outline.text
    check_tree(topics)


@given(st.text())
@settings(deadline=None)
def test_a_text_divided_is_the_text(text: str) -> None:
    long = f"{text} " * 100
    pieces = divide_text(long)
    assert "".join(pieces) == long
    assert all(0 < len(piece) <= LONGEST for piece in pieces)


@given(st.text())
def test_summaries_and_names_are_short_lines(text: str) -> None:
    summary, name = summarise_text(text * 50), name_text(text * 50)
    assert len(summary) <= LONGEST_SUMMARY
    assert "\n" not in summary + name
    assert len(name) <= 80


def test_markdown_headings_are_the_tree() -> None:
    source = "Before.\n\n# A\n\nText.\n\n## A1\n\nx\n\n### Deep\n\ny\n\n## A2\n\nz\n\nB\n===\n\nw"
    assert paths(source) == ["Before.", "A", "A > A1", "A > A1 > Deep", "A > A2", "B"]
    assert paths("# A\n\n#### B\n\nx\n\n## C\n\ny") == ["A", "A > B", "A > C"]  # a level that is skipped is no step
    topics = divide_document(outline_text("# A\n\n## B\n\nx\n\nC\n===\n", "md"), "T")
    assert {topic.name: topic.bare for topic in topics} == {"A": True, "B": False, "C": True}


def test_what_only_looks_like_a_heading_is_none() -> None:
    source = (
        "---\ntitle: x\nlist:\n# comment\n---\nIntro.\n\n```sh\n# in code\n```\n\n~~~\n## also\n```\n# still\n~~~\n\n"
        "<!--\n# hidden\n-->\n\n    # indented\n\n#hash\n\n- a\n- b\n---\n\n| a |\n|---|\n\n"
        "Two\nlines\n---\n\n# Real #\n\nx"
    )
    assert paths(source)[1:] == ["Real"]


def test_a_heading_that_says_the_title_again_is_no_step_of_a_path() -> None:
    source = "# The *Guide*\n\nIntro.\n\n## One\n\nx\n\n## Two\n\ny"
    assert paths(source, "the guide") == ["The Guide", "One", "Two"]
    assert paths(source, "Another") == ["The Guide", "The Guide > One", "The Guide > Two"]
    assert paths(f"{source}\n\n# More\n\nz", "the guide")[:2] == ["The Guide", "The Guide > One"]


def test_a_file_of_code_or_data_has_no_headings() -> None:
    for extension in ("csv", "json", "yaml", "py", "log"):
        assert paths("# first\nsecond\n\n# third\nfourth", extension=extension) == ["first"]


def test_underlines_are_the_headings_of_restructured_text() -> None:
    source = "=====\nGuide\n=====\n\nIntro.\n\nOne\n===\n\nx\n\nSub\n~~~\n\ny\n\nTwo\n===\n\nz\n\n~~~~\n\nend"
    assert paths(source, "T", "rst") == ["Guide", "Guide > One", "Guide > One > Sub", "Guide > Two"]


def test_a_text_without_headings_is_divided_by_paragraphs_and_named_by_first_lines() -> None:
    source = "\n\n".join(f"Paragraph {n} begins here. " + "It goes on. " * 40 for n in range(12))
    topics = divide_document(outline_text(source, "txt"), "Notes")
    assert len(topics) > 3
    assert {topic.depth for topic in topics} == {1}
    assert all(topic.name.startswith("Paragraph ") for topic in topics)
    assert all(topic.content.startswith("Paragraph ") for topic in topics)


def test_a_long_section_has_its_pieces_under_it() -> None:
    body = "\n\n".join(f"Paragraph {n} begins. " + "It goes on. " * 40 for n in range(8))
    first, *rest = divide_document(outline_text(f"# Long\n\n{body}\n\n## Sub\n\nx", "md"), "T")
    assert first.path == ("Long",)
    assert rest[-1].path == ("Long", "Sub")
    assert all(topic.parent == 1 and topic.depth == 2 for topic in rest)
    assert first.children == [topic.index for topic in rest]


def test_where_there_are_too_many_headings_the_deepest_do_not_count() -> None:
    sections = "".join(f"# {n}\n\n" + "## x\n\ny\n\n" * 30 for n in range(100))
    assert len(divide_document(outline_text(sections, "md"), "T")) == 100
    flat = "# a\n" * (MOST_HEADINGS + 1)
    topics = divide_document(outline_text(flat, "md"), "T")
    assert len(topics) < 20
    assert "".join(topic.content for topic in topics) == flat.strip()


@pytest.mark.parametrize(
    ("written", "reads"),
    [
        ("The **bold** `code_name` and [a link](https://x.org)", "The bold code_name and a link"),
        ("snake_case_name and _emphasis_ here", "snake_case_name and emphasis here"),
        ("Anchored {#here}", "Anchored"),
        (r"1\. C\# <a id='x'></a>", "1. C# "),
    ],
)
def test_a_heading_is_named_by_what_it_says(written: str, reads: str) -> None:
    assert plain_heading(written) == reads.strip()


def test_a_summary_is_the_first_sentences() -> None:
    assert summarise_text("## Title\n\nFirst one. Second **one**! " + "x" * 400) == "First one. Second one!"
    topics = divide_document(outline_text("# A\n\nIt begins.\n\n# B\n\nx", "md"), "T")
    assert summarise_document(topics) == "It begins. Topics: A; B."


def test_a_category_is_chosen_by_words_and_only_where_they_speak_for_one() -> None:
    assert len({each.id for each in CATEGORIES}) == 20
    cooking = outline_text("Preheat the oven. Mix flour, butter and sugar, then bake the dough.", "txt")
    assert choose_category("A recipe", divide_document(cooking, "A recipe")) == "Food"
    nothing = outline_text("Lorem ipsum dolor sit amet.", "txt")
    assert choose_category("Untitled", divide_document(nothing, "Untitled")) == OTHERS


# Documents of other kinds.

STYLES = (
    '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Own"><w:name w:val="Own"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    '<w:style w:styleId="Body"><w:name w:val="Body"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
)


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of Word."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def read(data: bytes, name: str) -> Outline:
    """What is read of a file."""
    return ContentReader().read_outline(data, name=name)


def test_headings_of_html_are_marked() -> None:
    page = (
        "<!doctype html><title>Page</title><h1>One <b>bold</b><br>line</h1><p>Text.</p><div hidden><h2>No</h2></div>"
        "<ul><li><h3>In a list</h3>entry</li></ul><h2></h2><pre># code\n  more</pre><h2>Two</h2>End"
    )
    outline = read(page.encode(), "page.html")
    assert [(heading.level, heading.title) for heading in outline.headings] == [
        (1, "One bold line"), (3, "In a list"), (2, "Two"),
    ]  # fmt: skip
    assert outline.text == ("# One bold line\n\nText.\n\n### In a list\n\nentry\n\n# code\n  more\n\n## Two\n\nEnd")


def test_headings_of_word_are_known_by_their_styles_in_any_language() -> None:
    body = (
        paragraph("Intro") + paragraph("Kapitel", "berschrift1") + paragraph("text", "Body") + paragraph("Sub", "Own")
    )
    table = f"<w:tbl><w:tr><w:tc>{paragraph('Cell', 'berschrift1')}</w:tc></w:tr></w:tbl>"
    outline = read(docx(body + paragraph("end") + table, styles=STYLES), "report.docx")
    assert [heading[1:] for heading in outline.headings] == [(1, "Kapitel"), (2, "Sub")]
    assert outline.text == "Intro\n\n# Kapitel\n\ntext\n\n## Sub\n\nend\nCell"


def test_headings_of_opendocument_and_names_of_sheets_are_headings() -> None:
    assert [heading[1:] for heading in read(
        odt('<text:h text:outline-level="2">Head</text:h><text:p>x</text:p><text:h>Bad</text:h>'), "a.odt"
    ).headings] == [(2, "Head"), (1, "Bad")]  # fmt: skip
    assert read(xlsx("<row><c><v>1</v></c></row>"), "a.xlsx").headings == (Heading(0, 1, "Trips"),)


def test_the_titles_of_slides_are_headings() -> None:
    title = (
        '</a:t></a:r></a:p><p:sp><p:nvPr><p:ph type="title"/></p:nvPr><a:p><a:r><a:t>The plan</a:t></a:r></a:p></p:sp>'
    )
    outline = read(pptx(f"{title}<a:p><a:r><a:t>First point", "Second slide"), "a.pptx")
    assert [heading.title for heading in outline.headings] == ["The plan"]
    assert "First point" in outline.text


def test_the_bookmarks_of_a_pdf_are_headings() -> None:
    def bookmark(title: str, page: int, rest: str) -> bytes:
        return f"<</Title({title})/Parent 20 0 R/Dest[{page} 0 R/Fit]{rest}>>".encode()

    extra = {
        1: b"<</Type/Catalog/Pages 2 0 R/Outlines 20 0 R>>",
        20: b"<</Type/Outlines/First 21 0 R/Last 22 0 R/Count 2>>",
        21: bookmark("Welcome", 4, "/Next 22 0 R/First 23 0 R/Last 23 0 R/Count 1"),
        22: bookmark("Closing", 6, "/Prev 21 0 R"),
        23: b"<</Title(Not in the text)/Parent 21 0 R/Dest[4 0 R/Fit]>>",
    }
    outline = read(pdf("Welcome", "The last page", extra=extra), "a.pdf")
    assert [heading[1:] for heading in outline.headings] == [(1, "Welcome"), (2, "Not in the text"), (1, "Closing")]
    assert outline.text == "# Welcome\n\n## Not in the text\n\n# Closing\n\nThe last page"
    broken = extra | {21: b"<</Title(Loop)/Parent 20 0 R/Dest[4 0 R/Fit]/Next 21 0 R>>"}
    assert "The last page" in read(pdf("Welcome", "The last page", extra=broken), "a.pdf").text
