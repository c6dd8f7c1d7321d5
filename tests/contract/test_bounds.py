"""A search sees what is within its bounds and nothing else, whatever other searches the store answers meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Draft, Engine, Kind, Query, Record, Scope, Where
from cofio.backends.interface import Backend
from cofio.backends.search_interface import Searcher
from cofio.embed.hashed import HashedEmbedder
from cofio.text.tokenizer import split_query
from cofio.values.query import Bounds

from ..tiers import scale_examples

EMBEDDER = HashedEmbedder()
SCOPES = (Scope("a"), Scope("a", "b"), Scope("ab"))
WORDS = ("walrus", "heron")
ALL = 1000

drafts = st.builds(
    Draft,
    scope=st.sampled_from(SCOPES),
    kind=st.sampled_from((Kind.NOTE, Kind.FACT, Kind.REVISION)),
    text=st.lists(st.sampled_from((*WORDS, "reed", "ice")), min_size=1, max_size=4).map(" ".join),
    tags=st.sampled_from(((), ("red",), ("red", "blue"))),
    data=st.fixed_dictionaries({"n": st.integers(1, 2)}),
    parent=st.sampled_from(("s", None)),
    position=st.integers(0, 6),
)
filters = st.sampled_from((None, Where("data.n", "=", 1), Where("data.n", "=", 2), Where("tags", "has", "blue")))
bounds = st.builds(
    Bounds,
    scope=st.sampled_from((Scope(), *SCOPES)),
    exact=st.booleans(),
    kinds=st.sampled_from(((), (Kind.NOTE,), (Kind.FACT, Kind.NOTE))),
    filter=filters,
)


def is_within(record: Record, within: Bounds) -> bool:
    """Whether a record is within bounds, one field after the other."""
    names, scope = record.scope.names, within.scope.names
    test = within.filter
    assert test is None or isinstance(test, Where)
    return (
        (names == scope if within.exact else names[: len(scope)] == scope)
        and record.kind is not Kind.REVISION
        and (not within.kinds or record.kind in within.kinds)
        and (test is None or (test.value in record.tags if test.name == "tags" else record.data == {"n": test.value}))
    )


def find_by_word(searcher: Searcher, word: str, depth: int = ALL) -> set[str]:
    """The ids that a searcher finds by a word."""
    found = searcher.candidates(split_query(word), None, None, depth=depth, flat_depth=depth)
    assert found.rows.keys() == found.keyword.keys()
    return {candidate.id for candidate in found.rows.values()}


def find_by_vector(searcher: Searcher, text: str) -> set[str]:
    """The ids that a searcher finds by a text's vector."""
    found = searcher.candidates((), EMBEDDER.embed_query(text), EMBEDDER.id, depth=ALL, flat_depth=ALL)
    assert found.rows.keys() == found.semantic.keys()
    return {candidate.id for candidate in found.rows.values()}


def in_bounds(kind: Kind | None = None, n: int | None = None) -> Bounds:
    """The bounds of a kind, and of a value in the data."""
    test = None if n is None else Where("data.n", "=", n)
    return Bounds(scope=Scope(), exact=False, kinds=() if kind is None else (kind,), filter=test)


def test_searches_with_other_bounds_never_mix(memory: Engine, backend: Backend, settle: Callable[[], None]) -> None:
    note = memory.write(Scope("a"), text="walrus of the north", data={"n": 1})
    fact = memory.write(Scope("a"), kind=Kind.FACT, text="walrus of the south", data={"n": 2})
    settle()
    with ExitStack() as stack:
        notes, facts, ones, twos = (
            stack.enter_context(backend.search(within))
            for within in (in_bounds(Kind.NOTE), in_bounds(Kind.FACT), in_bounds(n=1), in_bounds(n=2))
        )
        for _ in range(2):
            assert [find_by_word(each, "walrus") for each in (notes, facts, ones, twos)] == [
                {note.id}, {fact.id}, {note.id}, {fact.id},
            ]  # fmt: skip
            assert [find_by_vector(each, "walrus of the north") for each in (notes, facts, ones, twos)] == [
                {note.id}, {fact.id}, {note.id}, {fact.id},
            ]  # fmt: skip


def test_too_few_within_bounds_are_looked_for_further_down(
    memory: Engine, backend: Backend, settle: Callable[[], None]
) -> None:
    memory.write_many([Draft(scope=Scope("a"), text="walrus", data={"n": 1}) for _ in range(30)])
    far = memory.write(Scope("a"), text="walrus among very many other words that come after it", data={"n": 2})
    settle()
    odd = Bounds(scope=Scope(), exact=False, kinds=(), filter=Where("data.n", "!=", 1))
    with backend.search(odd) as searcher:
        assert find_by_word(searcher, "walrus", depth=2) == {far.id}


def test_a_search_that_is_asked_again_sees_what_was_written_meanwhile(memory: Engine, backend: Backend) -> None:
    with backend.search(in_bounds(Kind.NOTE)) as searcher:
        assert find_by_word(searcher, "walrus") == set()
        note = memory.write(Scope("a"), text="walrus")
        memory.write(Scope("a"), kind=Kind.FACT, text="walrus")
        assert find_by_word(searcher, "walrus") == {note.id}


def test_what_stands_around_a_candidate_is_within_the_bounds_too(
    memory: Engine, backend: Backend, settle: Callable[[], None]
) -> None:
    turns = memory.write_many(
        [
            Draft(
                scope=SCOPES[number % 2], text=f"{'walrus' if number == 4 else 'ice'} n{number}", parent="s",
                position=number, kind=Kind.FACT if number == 5 else Kind.NOTE,
            )
            for number in range(9)
        ]
    )  # fmt: skip
    memory.write(SCOPES[0], text="ice of another conversation", parent="t", position=4)
    settle()
    within = Bounds(scope=Scope("a"), exact=False, kinds=(Kind.NOTE,), filter=None)
    with backend.search(within) as searcher:
        found = searcher.candidates(
            split_query("walrus"), EMBEDDER.embed_query("walrus n4"), EMBEDDER.id, depth=1, flat_depth=1
        )
        assert {candidate.id for candidate in found.rows.values()} == {turns[4].id}
        around = searcher.around(list(found.rows.values()), 2, ())
        # Of the same scope and parent: not 3 and 5, which are of another scope.
        assert {candidate.id for candidate in around.rows.values()} == {turns[2].id, turns[6].id}
        assert around.semantic.keys() == around.rows.keys()
        assert {record.id for record in searcher.records(list(around.rows)).values()} == {turns[2].id, turns[6].id}


def test_scopes_that_are_gone_leave_a_search_by_meaning_as_it_was(memory: Engine, settle: Callable[[], None]) -> None:
    def search(scope: Scope = SCOPES[0]) -> list[str]:
        return [hit.record.text for hit in memory.search(Query("walrus", scope=scope, mode="semantic", floor=0.0))]

    memory.write(Scope("a"), text="walrus")
    settle()
    assert search() == ["walrus"]
    memory.write(Scope("ab"), text="heron")
    settle()
    assert search(Scope()) == ["walrus", "heron"]
    memory.drop(Scope())
    assert search() == []
    memory.write(Scope("a"), text="walrus again")
    settle()
    assert search() == ["walrus again"]


@settings(max_examples=scale_examples(40))
@given(
    written=st.lists(drafts, max_size=12), asked=st.lists(bounds, min_size=2, max_size=3), word=st.sampled_from(WORDS)
)
def test_every_search_finds_just_what_a_look_at_each_record_finds(
    memory: Engine,
    backend: Backend,
    settle: Callable[[], None],
    written: list[Draft],
    asked: Sequence[Bounds],
    word: str,
) -> None:
    memory.drop(Scope())
    records = memory.write_many(written)
    settle()
    with ExitStack() as stack:
        searchers = [stack.enter_context(backend.search(within)) for within in asked]
        for searcher, within in zip(searchers * 2, [*asked, *asked], strict=True):
            inside = [record for record in records if is_within(record, within)]
            assert find_by_word(searcher, word) == {each.id for each in inside if word in each.text.split()}
            assert find_by_vector(searcher, word) == {each.id for each in inside}
