"""What a search reads of its candidates: the beginning of their texts, and how much each word of the query tells."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from cofio import Draft, Record, Scope
from cofio.backends.interface import Backend
from cofio.backends.search_interface import CONTENT_CHARACTERS, Content
from cofio.embed.hashed import HashedEmbedder
from cofio.text.tokenizer import split_query
from cofio.values.query import Bounds
from cofio.values.times import to_micros

HERE, THERE = Scope("a"), Scope("b")
EVERYWHERE = Bounds(scope=Scope(), exact=False, kinds=(), filter=None)
EMBEDDER = HashedEmbedder()


def _read(record: Record) -> Content:
    """What ranking reads of a record without codes."""
    whole = f"{record.title}\n{record.text}"[:CONTENT_CHARACTERS]
    return Content(whole, to_micros(record.created_at), None)


def test_the_contents_of_candidates_are_their_title_and_text_up_to_a_length(
    backend: Backend, remember: Callable[..., list[Record]]
) -> None:
    long = "ice walrus 🦭 é " * 200
    records = remember(
        Draft(scope=HERE, title="Walrus", text='on "ice"\n\tand \\ snow'),
        Draft(scope=HERE, text="walrus without a title"),
        Draft(scope=THERE, title="Long", text=long),
        Draft(scope=THERE, title="walrus " * 140, text="seen in part " * 99),
        Draft(scope=THERE, text="walrus that is not asked for"),
    )
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.candidates(
            split_query("walrus"), EMBEDDER.embed_query("walrus"), EMBEDDER.id, depth=9, flat_depth=9
        )
        rows = {each.id: each.row for each in found.rows.values()}
        around = searcher.around((), 2, [rows[record.id] for record in records[:4]])
        assert (around.rows, around.semantic) == ({}, {})
        assert around.contents == {rows[record.id]: _read(record) for record in records[:4]}
        assert searcher.around((), 2, ()).contents == {}


def test_the_contents_of_what_stands_around_candidates_come_with_it(
    backend: Backend, remember: Callable[..., list[Record]]
) -> None:
    turns = remember(
        *(Draft(scope=HERE, text=f"{'walrus' if n == 4 else 'ice'} n{n}", parent="s", position=n) for n in range(9))
    )
    with backend.search(EVERYWHERE) as searcher:
        found = searcher.candidates(split_query("walrus"), None, None, depth=1, flat_depth=1)
        (candidate,) = found.rows.values()
        around = searcher.around([candidate], 2, ())
        by_id = {turn.id: turn for turn in turns}
        near = {row: by_id[each.id] for row, each in around.rows.items()}
        assert {turn.position for turn in near.values()} == {2, 3, 5, 6}
        assert around.contents == {row: _read(turn) for row, turn in near.items()}
        searcher.candidates(split_query("walrus"), None, None, depth=1, flat_depth=1)
        both = searcher.around([candidate], 2, [candidate.row])
        assert both.contents == around.contents | {candidate.row: _read(by_id[candidate.id])}


@pytest.mark.parametrize("depth", [1, 9])
def test_each_word_weighs_as_much_as_it_tells_within_the_scope(
    backend: Backend, remember: Callable[..., list[Record]], depth: int
) -> None:
    remember(
        Draft(scope=HERE, text="walrus on ice"),
        Draft(scope=HERE, text="walrus in the water"),
        Draft(scope=HERE, text="heron in the water"),
        *(Draft(scope=THERE, text=f"heron number {n}") for n in range(5)),
    )
    words = split_query("walrus water heron giraffe")
    for scope, total, holders in ((HERE, 3, (2, 2, 1, 1)), (Scope(), 8, (2, 2, 6, 1))):
        within = Bounds(scope=scope, exact=False, kinds=(), filter=None)
        with backend.search(within) as searcher:
            found = searcher.candidates(words, None, None, depth=depth, flat_depth=depth)
            assert found.weights == pytest.approx(
                {
                    word: math.log(1 + (total - held + 0.5) / (held + 0.5))
                    for word, held in zip(words, holders, strict=True)
                }
            )
            by_meaning = searcher.candidates((), EMBEDDER.embed_query("ice"), EMBEDDER.id, depth=9, flat_depth=9)
            assert by_meaning.weights == {}
