"""Any text survives being written as Markdown and read again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cofio.importers import markdown_entries as markdown
from cofio.values.errors import Invalid
from cofio.vault.layout import make_sort_key

pieces = st.sampled_from(
    ["### Content", "### Summary ", "\\### Content", "<!-- entry:ep_1 -->", "<!-- /entry:x -->", "<\\!-- entry:", "---",
     "**owner_id**: eve", "## ep_1", "\n", "\r\n", "\r", " ", "\\", "text", "ü\u2028\x85", "\t", "```", "\ufeff",
     "\x1b[2J", "\x9b", "\u202e", "&#x1B;", "&\\#x1B;", "&", "#x1B;", "&#x41;"]
)  # fmt: skip
texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60),
    st.lists(pieces, max_size=8).map("".join),
)
ACTIVE = {*map(chr, (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)))}
values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def written(text: str) -> str:
    """What stays of a text in a section: all but the newlines and the space around it."""
    return markdown.normalize_lines(text).strip("\n").rstrip()


@given(texts, texts, texts, st.lists(texts.filter(bool), max_size=3))
def test_an_entry_is_read_as_it_was_written(subject: str, content: str, session: str, senders: list[str]) -> None:
    block = markdown.render_entry(
        "ep_20260528_1", {"session_id": session, "sender_ids": list(senders)}, {"Subject": subject, "Content": content}
    )
    whole = markdown.normalize_lines(f"---\na: 1\n---\n{block}\n{block.replace('0528_1', '0528_2')}\n")
    first, second = markdown.find_spans(whole)
    assert (first.id, second.id) == ("ep_20260528_1", "ep_20260528_2")
    assert (
        markdown.find_entries(whole, ["ep_20260528_1"])
        == {"ep_20260528_1": markdown.normalize_lines(block)}
        == {"ep_20260528_1": block}
    )
    read = markdown.parse_fields(block)
    assert dict(read.sections) == {"Subject": written(subject), "Content": written(content)}
    assert read.lines["session_id"] == session
    assert markdown.parse_names(read.lines["sender_ids"]) == senders


@given(
    st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name.isidentifier()), values, max_size=4), texts
)
def test_front_matter_is_read_as_it_was_written(values: dict[str, Any], body: str) -> None:
    text = markdown.render_front_matter(values) + body
    assert markdown.split_front_matter(text) == (values, body)
    assert (yaml.load(text.split("---\n")[1], Loader=yaml.BaseLoader) or {}).keys() == values.keys()


@given(texts, texts, texts)
def test_nothing_that_a_terminal_would_act_on_is_written(subject: str, session: str, owner: str) -> None:
    block = markdown.render_entry("ep_1", {"session_id": session, "sender_ids": [owner]}, {"Content": subject})
    whole = block + markdown.render_front_matter({"name": owner, "many": [session]}) + markdown.escape_controls(subject)
    assert not [each for each in whole if each in ACTIVE]
    assert markdown.unescape_controls(markdown.escape_controls(subject)) == subject


@given(st.permutations(range(1, 14)), st.integers(1, 12), st.sets(st.integers(1, 13)))
def test_entries_stand_in_order_whatever_order_they_came_in(came: list[int], batch: int, gone: set[int]) -> None:
    def block(number: int) -> str:
        return markdown.render_entry(f"ep_20260528_{number}", {}, {"Content": f"n{number}"})

    text = "---\na: 1\n---\nA note.\n"
    for start in range(0, len(came), batch):
        text = markdown.replace_entries(
            text, {f"ep_20260528_{n}": block(n) for n in came[start : start + batch]}, make_sort_key
        )
    assert [span.id for span in markdown.find_spans(text)] == [f"ep_20260528_{n}" for n in range(1, 14)]
    text = markdown.replace_entries(text, {f"ep_20260528_{n}": None for n in gone}, make_sort_key)
    left = [n for n in range(1, 14) if n not in gone]
    assert text == "---\na: 1\n---\nA note.\n" + "".join(f"{block(n)}\n" for n in left)


@pytest.mark.parametrize("text", ["<!-- entry:a -->\n<!-- /entry:b -->\n", "<!-- entry:a -->\n<!-- entry:a -->\n"])
def test_entries_that_are_not_whole_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        markdown.find_spans(text)
