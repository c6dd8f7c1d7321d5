"""Scopes are told apart by whole names, whatever the names hold, and nothing is seen from outside."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Draft, Engine, Query, Record, Scope
from cofio.values.query import Mode

from ..tiers import scale_examples

MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
NAMES = [
    "acme", "acme-corp", "acme%", "acme_", "acme*", "acme?", "acme/", "acme/x", "a", "A", "%", "_", "*", "..", ".", " ",
    "é", "e\u0301", "日本", "🙂", "\x01", "\x7f", "\u00ff", "\U0010ffff", "'; DROP TABLE record; --", '"', "\\", "%2F",
    "\n", "null", "x" * 256,
]  # fmt: skip
names = st.sampled_from(["a", "ab", "a/", "a%", "b", "\x01"]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)


def test_a_scope_never_sees_one_whose_name_only_begins_alike(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    drafts = [Draft(scope=Scope(name), text="the same word") for name in NAMES]
    records = remember(*drafts, *(Draft(scope=Scope(name, "under"), text="the same word") for name in NAMES))
    for own, under in zip(records, records[len(NAMES) :], strict=False):
        scope = own.scope
        assert memory.list(scope) == [under, own]
        assert memory.list(scope, exact=True) == [own]
        assert (memory.count(scope), memory.count(scope, exact=True)) == (2, 1)
        assert memory.scopes(scope) == {scope: 1, scope / "under": 1}
        for mode in MODES:
            found = memory.search(Query("same word", scope=scope, mode=mode, limit=100))
            assert {hit.record for hit in found} == {own, under}
            found = memory.search(Query("same word", scope=scope, exact=True, mode=mode))
            assert [hit.record for hit in found] == [own]


def test_a_list_is_in_order_whether_one_scope_or_more_are_under_its_own(memory: Engine) -> None:
    drafts = [Draft(scope=Scope("acme", "only"), text=f"note {number}") for number in range(4)]
    written = [memory.write_many([draft])[0] for draft in drafts]
    memory.write(Scope("elsewhere"), text="another")
    assert memory.list(Scope("acme")) == written[::-1]
    assert memory.list(Scope("acme"), newest=False, limit=2, offset=1) == written[1:3]
    assert memory.list(Scope("acme"), exact=True) == []
    assert memory.list(Scope("nowhere")) == []
    written.append(memory.write(Scope("acme"), text="the scope's own"))
    assert memory.list(Scope("acme")) == written[::-1]


def test_a_scope_contains_what_begins_with_all_of_its_names() -> None:
    assert Scope("acme", "team") in Scope("acme")
    assert Scope("acme") in Scope("acme")
    assert Scope("acme") in Scope()
    for outside in (Scope("acme-corp"), Scope("acm"), Scope(), Scope("x", "acme"), Scope("acme/team")):
        assert outside not in Scope("acme")


def test_a_search_never_leaves_its_scope_though_the_best_is_outside(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    weak, *_ = remember(
        Draft(scope=Scope("mine"), text="a long text in which somewhere the budget is named among other things"),
        *(Draft(scope=Scope("theirs"), title="budget", text="budget budget budget") for _ in range(300)),
    )
    for mode in MODES:
        hits = memory.search(Query("budget", scope=Scope("mine"), mode=mode, floor=0.0))
        assert [hit.record for hit in hits] == [weak]


def test_scopes_counts_the_records_of_each_scope_itself_and_an_empty_one_is_no_error(memory: Engine) -> None:
    for scope in (Scope("a"), Scope("a"), Scope("a", "b"), Scope("c", "d")):
        memory.write(scope, text="x")
    assert memory.scopes() == {Scope("a"): 2, Scope("a", "b"): 1, Scope("c", "d"): 1}
    assert memory.scopes(Scope("a")) == {Scope("a"): 2, Scope("a", "b"): 1}
    assert memory.scopes(Scope("c")) == {Scope("c", "d"): 1}
    nowhere = Scope("nowhere")
    assert memory.list(nowhere) == memory.list(nowhere, exact=True) == []
    assert memory.count(nowhere) == memory.drop(nowhere) == 0
    assert memory.scopes(nowhere) == {}
    assert len(memory.search(Query("x", scope=nowhere))) == 0


def test_drop_forgets_a_scope_and_all_under_it_and_nothing_beside_it(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    scopes = [Scope("a"), Scope("a", "b"), Scope("a", "b", "c"), Scope("a-b"), Scope("ab"), Scope("b", "a"), Scope()]
    records = remember(*(Draft(scope=scope, text="common word", key="k") for scope in scopes))
    assert memory.drop(Scope("a")) == 3
    assert memory.drop(Scope("a")) == 0
    assert list(memory.export()) == records[3:]
    assert {hit.record for hit in memory.search("common")} == set(records[3:])
    assert memory.get(Scope("a"), "k", kind="note") is None
    assert memory.check() == []
    assert memory.drop(Scope()) == 4
    assert memory.count() == len(memory.search("common")) == 0


def test_a_moved_record_is_found_in_its_new_scope_only(
    memory: Engine, remember: Callable[..., list[Record]], settle: Callable[[], None]
) -> None:
    moving, _ = remember(Draft(scope=Scope("old"), text="roaming word"), Draft(scope=Scope("old"), text="other"))
    moved = memory.move(moving.id, scope=Scope("new", "place"))
    settle()
    assert moved.id == moving.id
    for mode in MODES:
        asked = Query("roaming word", scope=Scope("new"), mode=mode, floor=0.1)
        assert [hit.record for hit in memory.search(asked)] == [moved]
        asked = Query("roaming word", scope=Scope("old"), mode=mode, floor=0.3)
        assert len(memory.search(asked)) == 0
    assert memory.check() == []


def test_a_scope_is_read_back_from_how_it_prints() -> None:
    for name in (*NAMES, "a/b%2Fc%25"):
        for scope in (Scope(name), Scope("a", name), Scope(name, "b", name)):
            assert Scope.parse(str(scope)) == scope


@settings(max_examples=scale_examples(60))
@given(paths=st.lists(st.lists(names, max_size=4), max_size=6), asked=st.lists(names, max_size=3))
def test_a_subtree_is_exactly_the_scopes_that_begin_with_its_names(
    memory: Engine, paths: list[list[str]], asked: list[str]
) -> None:
    memory.drop(Scope())
    stored = memory.write_many([Draft(scope=Scope(*path), text="x") for path in paths])
    for scope in (Scope(*asked), *(record.scope for record in stored), *(Scope(*path[:1]) for path in paths)):
        inside = [record for record in stored if record.scope in scope]
        assert memory.list(scope, newest=False) == inside
        assert memory.count(scope, exact=True) == sum(record.scope == scope for record in stored)
        assert Scope.from_path(scope.path) == Scope.parse(str(scope)) == scope
