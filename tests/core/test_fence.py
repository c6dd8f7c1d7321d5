"""The blocks in which stored text is shown to a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.rules.messages.recalled_text import _TAG, strip_blocks
from cofio.text.fence import RECALL_HEADING, RECALL_TAG, fence, is_fence, make_mark, tag_lines

TEXTS = st.text(max_size=60)


@given(TEXTS)
def test_a_fenced_text_cannot_hold_the_mark_that_ends_it(text: str) -> None:
    block = fence(text, "Data, between {mark} and {mark}.")
    mark = make_mark(text)
    assert mark not in text
    assert block == f"Data, between {mark} and {mark}.\n<<< {mark}\n{text}\n{mark} >>>"
    assert is_fence(block)
    assert not is_fence(block.replace(mark, "0" * 16))
    assert not is_fence(block + "\nmore")


@given(st.lists(TEXTS, max_size=3))
def test_tagged_lines_end_with_their_only_closing_tag(lines: list[str]) -> None:
    block = tag_lines(lines)
    assert block.count(f"</{RECALL_TAG}>") == 1
    assert block.endswith(f"\n</{RECALL_TAG}>")


def test_what_cofio_shows_as_recalled_is_taken_out_of_a_conversation_that_quotes_it() -> None:
    recalled = fence("USER [home]: Ada lives in Oslo.", "What was remembered stands between the lines marked {mark}.")
    for block in (f"{RECALL_HEADING}\n{recalled}", tag_lines(["Found in memory.", '{"text": "Ada lives in Oslo."}'])):
        assert strip_blocks(f"Before.\n{block}\n\nAfter.").split() == ["Before.", "After."]
    assert _TAG.fullmatch(f"<{RECALL_TAG}>")
