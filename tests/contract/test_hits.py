"""A hit explains itself: each signal's score and rank, what its surroundings added, and what was cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from cofio import Draft, Engine, Hit, Kind, Page, Query, Record, Scope, Settings
from cofio.embed.hashed import HashedEmbedder
from cofio.values.query import Mode
from cofio.values.records import NOT_SEARCHABLE, WITHOUT_VECTOR

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
DEMO = Scope("demo")


def ids(hits: Page) -> list[str]:
    """The ids of hits, in order."""
    return [hit.record.id for hit in hits]


def parts(hit: Hit) -> float:
    """What the explanation of a hit adds up to."""
    shares = [signal.share for signal in (hit.why.keyword, hit.why.semantic) if signal]
    return sum(shares) + sum(hit.why.context.values())


def animals(remember: Callable[..., list[Record]]) -> list[Record]:
    """Records that a query about walruses finds more and less well."""
    return remember(
        Draft(scope=DEMO, id="a", title="Walrus", text="the walrus colony sleeps"),
        Draft(scope=DEMO, id="b", text="one walrus was seen near the harbour in the early morning"),
        Draft(scope=DEMO, id="c", text="walruses and their tusks, a colony of several hundred"),
        Draft(scope=DEMO, id="d", text="the harbour was closed"),
        Draft(scope=DEMO, id="e", text="colonial architecture of the harbour"),
    )


@pytest.mark.parametrize("mode", MODES)
def test_the_reasons_of_a_hit_agree_with_its_place(
    memory: Engine, remember: Callable[..., list[Record]], mode: Mode
) -> None:
    animals(remember)
    hits = memory.search(Query("walrus colony", mode=mode, floor=0.0))
    assert ids(hits)[0] == "a"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for signal in ("keyword", "semantic"):
        seen = [found for hit in hits if (found := getattr(hit.why, signal))]
        assert bool(seen) == (mode in (signal, "hybrid"))
        by_rank = sorted(seen, key=lambda found: found.rank)
        assert [found.rank for found in by_rank] == list(range(1, len(seen) + 1))
        assert [found.score for found in by_rank] == sorted((found.score for found in seen), reverse=True)
        assert all(0 <= found.relevance <= 1 for found in seen)
        assert all(0 <= found.share <= 1 for found in seen)
    for hit in hits:
        assert hit.why.total == pytest.approx(parts(hit))
        assert 0 < hit.score < 1
    assert [hit.why.total for hit in hits] == sorted((hit.why.total for hit in hits), reverse=True)


def test_a_hit_names_the_words_it_shares_with_the_query(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    animals(remember)
    words = {hit.record.id: hit.why.words for hit in memory.search(Query("the walrus tusks", floor=0.0))}
    assert words["a"] == ("walrus",)
    assert words["c"] == ("walrus", "tusk")
    assert words["d"] == ()


def test_a_page_says_what_was_searched(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    animals(remember)
    hits = memory.search(Query("the Walrus", scope=DEMO, kinds=(Kind.NOTE,), mode="hybrid", limit=2, floor=0.0))
    searched = hits.searched
    assert (searched.scope, searched.kinds, searched.mode, searched.words) == (
        DEMO,
        (Kind.NOTE,),
        "hybrid",
        ("walrus",),
    )
    assert (searched.keyword, searched.semantic) == (3, 5)
    assert (len(hits), hits.cut, hits.degraded) == (2, 0, None)
    assert list(hits) == [hits[0], hits[1]] == list(hits[:]) == list(hits.hits)


def test_below_the_floor_nothing_is_returned_and_the_cut_is_counted(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    animals(remember)
    everything = memory.search(Query("walrus colony", floor=0.0))
    assert len(everything) == 5
    for floor in (0.001, 0.05, 0.1, 0.3, 0.6, 1.0):
        hits = memory.search(Query("walrus colony", floor=floor))
        assert len(hits) + hits.cut == 5
        assert ids(hits) == [hit.record.id for hit in everything if hit.score >= floor]


def test_what_came_nearest_to_the_floor_is_named_when_nothing_reached_it(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    animals(remember)
    near = memory.search(Query("walrus colony", floor=1.0)).near
    assert 1 <= len(near) <= 3
    assert near[0].record.id == "a"
    assert [hit.score for hit in near] == sorted((hit.score for hit in near), reverse=True)
    assert memory.search(Query("walrus colony", floor=0.1)).near == ()
    nothing = memory.search("quarterly tax return")
    assert (len(nothing), nothing.cut, nothing.near, nothing.degraded) == (0, 5, (), None)


def test_the_floor_of_the_store_holds_when_the_query_has_none(memory: Engine, reopen: Callable[..., Engine]) -> None:
    memory.write(DEMO, text="walrus colony")
    memory.settle()
    asked = "walrus colony"
    strict = reopen(Settings(background=False, embedder="none", floor=1.0), HashedEmbedder())
    assert len(strict.search(asked)) == 0
    assert len(strict.search(Query(asked, floor=0.1))) == 1
    lax = reopen(Settings(background=False, embedder="none", floor=0.0), HashedEmbedder())
    assert len(lax.search("walrus giraffe zebra elephant leopard")) == 1


def test_a_signal_that_found_next_to_nothing_has_no_full_say(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    animals(remember)
    asked = "one of walrus giraffe zebra elephant leopard tiger"
    weak = memory.search(Query(asked, mode="keyword", floor=0.0))[0]
    strong = memory.search(Query("walrus", mode="keyword", floor=0.0))[0]
    assert weak.why.keyword is not None
    assert strong.why.keyword is not None
    assert weak.why.keyword.share < strong.why.keyword.share
    assert weak.score < strong.score


def test_reciprocal_ranks_are_fused_with_the_documented_weights(
    memory: Engine, reopen: Callable[..., Engine], remember: Callable[..., list[Record]]
) -> None:
    animals(remember)
    ranked = reopen(Settings(background=False, embedder="none", fusion="rrf"), HashedEmbedder())
    hits = ranked.search(Query("walrus colony", floor=0.0))
    assert ids(hits)[0] == "a"
    sums = []
    for hit in hits:
        expected = 0.4 / (60 + hit.why.keyword.rank) if hit.why.keyword and hit.why.keyword.rank else 0.0
        if hit.why.semantic and hit.why.semantic.rank:
            expected += 0.6 / (60 + hit.why.semantic.rank)
        sums.append(expected)
        assert hit.why.total == pytest.approx(parts(hit))
    for hit, expected in zip(hits, sums, strict=True):
        shares = sum(signal.share for signal in (hit.why.keyword, hit.why.semantic) if signal)
        assert shares == pytest.approx(expected)
        assert hit.score == hit.why.total
    plain = reopen(Settings(background=False, embedder="none", fusion="rrf"))
    assert ids(plain.search("walrus"))[0] == "a"


def conversation(parent: str, *texts: str, scope: Scope = DEMO, **fields: object) -> list[Draft]:
    """The turns of one session."""
    return [
        Draft(scope=scope, kind=Kind.TURN, text=text, parent=parent, position=at, id=f"{parent}{at}", **fields)  # type: ignore[arg-type]
        for at, text in enumerate(texts)
    ]


def test_a_turn_beside_a_match_is_brought_along(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(
        *conversation("s", "hello there", "which city do you live in?", "Lisbon", "nice", "what else is new", "bye"),
        *conversation("t", "so where were we", "Porto is nice"),
        Draft(scope=DEMO, id="note", text="an unrelated note"),
    )
    for mode in MODES[::2]:
        hits = memory.search(Query("which city", mode=mode))
        assert set(ids(hits)[:2]) == {"s1", "s2"}  # the question, and what follows it
        assert not {"t0", "t1", "note", "s5"} & set(ids(hits))
        beside = next(hit for hit in hits if hit.record.id == "s2")
        assert beside.why.keyword is None
        assert beside.why.context["reply"] > 0
        assert beside.why.total == pytest.approx(parts(beside))


def test_surroundings_stay_within_what_is_asked(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    turns = conversation("s", "which city do you live in?", "Lisbon")
    remember(
        turns[0],
        Draft(scope=DEMO, kind=Kind.FACT, text="a fact", parent="s", position=1, id="fact"),
        Draft(scope=DEMO / "other", kind=Kind.TURN, text="Porto", parent="s", position=1, id="elsewhere"),
        turns[1],
    )
    hits = memory.search(Query("which city", mode="keyword", kinds=(Kind.TURN,), floor=0.0))
    assert set(ids(hits)) == {"s0", "s1"}


def test_turns_of_the_author_whom_the_query_names_gain(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(
        *conversation("s", "I bought a kayak", author="Maria Lopez"),
        *conversation("t", "I bought a kayak", author="John"),
    )
    hits = memory.search(Query("what did Maria buy? a kayak", mode="keyword", floor=0.0))
    assert ids(hits)[0] == "s0"
    assert hits[0].why.context["author"] > 0
    assert "author" not in hits[1].why.context


def test_turns_of_the_time_that_the_query_names_gain(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(
        *conversation("s", "I bought a kayak", created_at=datetime(2023, 5, 8, tzinfo=UTC)),
        *conversation("t", "I bought a kayak", created_at=datetime(2022, 1, 8, tzinfo=UTC)),
    )
    for asked in ("kayak in May 2023", "kayak on 7 May 2023"):
        hits = memory.search(Query(asked, mode="keyword", floor=0.0))
        assert ids(hits)[0] == "s0"
        assert hits[0].why.context["date"] > 0
        assert "date" not in hits[1].why.context


def test_a_turn_gains_from_the_best_of_its_session(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    far = ["filler"] * 6
    remember(
        *conversation("s", "the kayak trip on the river, kayak and all", *far, "we took a kayak"),
        *conversation("t", "nothing", *far, "we took a kayak"),
    )
    hits = memory.search(Query("kayak trip river", mode="keyword", floor=0.0, limit=50))
    order = ids(hits)
    assert order[0] == "s0"
    assert order.index("s7") < order.index("t7")
    assert hits[order.index("s7")].why.context["session"] > hits[order.index("t7")].why.context["session"]


def test_a_record_is_as_good_as_the_best_of_what_hangs_under_it(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    remember(
        Draft(scope=DEMO, kind=Kind.EPISODE, id="trip", text="a long weekend in which among other things a kayak was "
              "seen and many more things happened that are told here at some length"),
        Draft(scope=DEMO, kind=Kind.FACT, id="fact", parent="trip", text="the kayak is red"),
        Draft(scope=DEMO, kind=Kind.EPISODE, id="other", text="a long weekend in which among other things a kayak was "
              "seen and many more things happened that are told here at great length"),
    )  # fmt: skip
    hits = memory.search(Query("red kayak", mode="keyword", floor=0.0))
    by_id = {hit.record.id: hit for hit in hits}
    assert by_id["trip"].score >= by_id["fact"].score > by_id["other"].score
    assert by_id["trip"].why.context["children"] > 0
    assert by_id["trip"].why.total == pytest.approx(parts(by_id["trip"]))
    assert "children" not in by_id["other"].why.context


def test_a_search_sees_only_the_kinds_it_asks_for(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(*(Draft(scope=DEMO, text="walrus", kind=kind, id=kind.value) for kind in Kind))
    for mode in MODES:
        for kind in Kind:
            found = [] if kind in (WITHOUT_VECTOR if mode == "semantic" else NOT_SEARCHABLE) else [kind.value]
            assert ids(memory.search(Query("walrus", kinds=(kind,), mode=mode))) == found
        several = memory.search(Query("walrus", kinds=(Kind.FACT, Kind.NOTE), mode=mode))
        assert set(ids(several)) == {"fact", "note"}
        left_out = WITHOUT_VECTOR if mode == "semantic" else NOT_SEARCHABLE
        assert len(memory.search(Query("walrus", mode=mode, limit=100))) == len(Kind) - len(left_out)


def test_hits_can_be_counted_by_what_they_stand_under(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    drafts = [Draft(scope=DEMO, kind=Kind.EPISODE, text=f"walrus {name}", id=name) for name in "ab"]
    drafts += [Draft(scope=DEMO, kind=Kind.TURN, text="walrus " * n, parent="a", position=n) for n in range(1, 6)]
    drafts += [Draft(scope=DEMO, kind=Kind.FACT, text="a walrus is here", parent="b")]
    remember(*drafts)
    for mode in MODES:
        found = memory.search(Query("walrus", mode=mode, limit=2, each=3))
        families = [hit.record.parent or hit.record.id for hit in found]
        assert (families.count("a"), families.count("b")) == (4, 2)  # three that have a place, and itself
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        apart = memory.search(Query("walrus", mode=mode, limit=2, each=(1, 3)))
        best = next(hit.record.position for hit in found if hit.record.position is not None)
        assert [hit.record.position for hit in apart if hit.record.position is not None] == [best]
        assert len(apart) == 4  # and what has no position: both episodes, and the fact
        (first,) = {hit.record.parent or hit.record.id for hit in memory.search(Query("walrus", limit=1, each=9))}
        assert first == families[0]


def test_of_two_notes_that_say_the_same_the_newer_comes_first(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    remember(
        Draft(scope=DEMO, id="new", text="The harbour opens at eight", created_at=datetime(2024, 5, 2, tzinfo=UTC)),
        Draft(scope=DEMO, id="old", text="The harbour opens at seven", created_at=datetime(2023, 5, 2, tzinfo=UTC)),
    )
    for mode in MODES:
        assert ids(memory.search(Query("when does the harbour open", mode=mode, floor=0.0))) == ["new", "old"]
    both = memory.search(Query("when did the harbour open in May 2023", mode="keyword", floor=0.0))
    assert set(ids(both)) == {"new", "old"}


def test_a_name_in_one_piece_beats_its_parts_far_apart(memory: Engine, remember: Callable[..., list[Record]]) -> None:
    remember(
        Draft(scope=DEMO, id="parts", title="ops ops", text="ops had 1500 calls; ops counts 1500 a day for ops"),
        Draft(scope=DEMO, id="whole", text="The outage of last week is described in OPS-1500 and was caused by a disk"),
    )
    for mode in ("keyword", "hybrid"):
        hits = memory.search(Query("OPS-1500", mode=mode, floor=0.0))
        assert ids(hits)[0] == "whole"
        assert hits[0].why.context["exact"] > 0


def test_a_note_that_holds_a_name_comes_before_any_talk_that_does_not(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    lines = [f"We looked at zq{number:06} today, did we not?" for number in range(30, 50)]
    seen = "Nobody has seen {} since the release, and nobody asked."
    remember(
        *conversation("01talk", *lines, scope=Scope("talks", "alice")),
        *conversation("02talk", *lines[::-1], scope=Scope("talks", "alice")),
        Draft(scope=DEMO, id="held", text=seen.format("zq000005")),
        Draft(scope=DEMO, id="data", key="k", kind=Kind.ITEM, data={"note": seen.format("zq000006")}),
        Draft(scope=DEMO, id="far", text="The list of what was seen. " * 60 + "At last zq000007."),
    )
    for mode in ("keyword", "hybrid"):
        for name, holder in (("zq000005", "held"), ("zq000006", "data"), ("zq000007", "far")):
            assert ids(memory.search(Query(name, mode=mode, floor=0.0)))[0] == holder
