"""A page of HTML becomes the text that its reader sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.content import Unreadable, markup
from cofio.values.records import MAX_TEXT


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("<h1>Trip</h1>We  went\n to <b>Oslo</b>.", "Trip\n\nWe went to Oslo."),
        ("<ul><li>tea<li>milk</ul>and so on", "- tea\n- milk\n\nand so on"),
        ("<ol><li><p>one</p></li><li></li><li>two</li></ol>", "- one\n\n- two"),
        ("see <a href='https://a.example/?b=1&amp;c'>the  plan</a>!", "see the plan!"),
        ("<table><tr><th>Day</th><th>City</th></tr><tr><td>1</td> <td>Rome</td></table>", "Day | City\n1 | Rome"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("Caf&eacute; &#233;&#xe9; &amp;lt; &unknown; &copy", "Café éé &lt; &unknown; ©"),
        ("<title>Trip</title><script>var p='<p>no</p>';</script><style>p{}</style>yes", "Trip\n\nyes"),
        ("<noscript>no</noscript><template>no</template>yes<!-- no --><!doctype x><?no?>", "yes"),
        ("<div hidden>no<p>no</p></div><p style='color:red; display : none'>no</p>yes", "yes"),
        ("<ul><li hidden>no<li>yes</ul>", "- yes"),
        ("<span aria-hidden=true>no</span><input type=hidden value=no>yes", "yes"),
        ("<p title='no > no' class=\"a'b\">yes", "yes"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("1 < 2 and a <b>c</b> <3", "1 < 2 and a c <3"),
        ("<img alt='A dog' src=x> barks", "A dog barks"),
        ("yes <a href='unfinished", "yes"),
        ("yes<!-- unfinished", "yes"),
        ("&#99999999999;x", "\ufffdx"),
        ("a&#1;b<pre>&#1;</pre>", "ab"),
        ("<svg/>yes<svg><title>no</title><path/></svg><math/>", "yes"),
    ],
)
def test_a_page_reads_as_it_is_seen(source: str, seen: str) -> None:
    assert markup.read_markup(source) == seen


@pytest.mark.parametrize(
    ("data", "declared", "seen"),
    [
        ("ж".encode("koi8-r"), "KOI8-R", "ж"),
        ('<meta charset="windows-1251">ж'.encode("cp1251"), None, "ж"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=shift_jis">日'.encode("cp932"), None, "日"),
        (b"\xef\xbb\xbf" + "é".encode(), "latin-1", "é"),
        ("é".encode("utf-16"), None, "é"),
        ('<meta charset="utf-16">é'.encode(), None, "é"),
        ('<meta charset="unicode_escape">\\x41é'.encode(), None, "\\x41é"),
        ('<meta charset="punycode">é'.encode(), "zlib", "é"),
    ],
)
def test_the_charset_is_that_of_the_mark_the_server_or_the_page(data: bytes, declared: str | None, seen: str) -> None:
    assert markup.read_page(data, declared) == seen


@pytest.mark.parametrize(
    "piece",
    ["<!", "<a ", "<!--", "</", "<a b='", '<a b="c" ', "<?", "<![", "<script>", "<script", "</script", "<title>", "<",
     "<p>", "<div hidden>", "<li>", "</p>", "&#", "<a b=c>", "<p></b>", "<!-- -- ", "<a ="],
)  # fmt: skip
def test_a_page_is_looked_at_once(piece: str) -> None:
    # The standard library's parser, which goes back to look for an end, takes hours for some of these.
    markup.read_markup((piece * 500_000)[:500_000])


def test_a_page_of_too_much_text_is_refused_and_one_that_is_nested_deep_is_read() -> None:
    with pytest.raises(Unreadable, match="characters"):
        markup.read_markup("word " * (MAX_TEXT // 5 + 1))
    with pytest.raises(Unreadable, match="bytes"):
        markup.read_page(b" " * (markup.MAX_PAGE + 1))
    assert len(markup.read_markup("x" * MAX_TEXT)) == MAX_TEXT
    assert markup.read_markup("<div>" * 200_000 + "deep" + "</div>" * 200_000) == "deep"


@given(st.text(alphabet="<>/!-=\"'&#; 019abprelitdx\n\0é\ud800") | st.text(), st.binary(), st.text())
def test_any_text_and_any_bytes_are_a_page(source: str, data: bytes, declared: str) -> None:
    assert len(markup.read_markup(source)) <= 3 * len(source) + 3
    markup.read_page(data, declared)
