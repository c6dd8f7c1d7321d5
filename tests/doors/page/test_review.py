"""The review: what may be wrong comes up once, side by side, and a decision about it is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cofio import Conflict, Engine, Invalid, Kind, NotFound, Scope
from cofio.doors.page import review_view
from cofio.doors.page.review_items import ReviewItem, mark_differences
from cofio.doors.page.review_view import build_review, decide
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.files import Tree
from cofio.values.scopes import REVIEW

Ask = Callable[..., ViewRequest]
NOTES = Scope("notes")
SECRET = "The database password is hunter2-Zq8vXw91 for now."


def write_pair(memory: Engine, scope: Scope, *drafts: dict[str, Any]) -> tuple[str, str]:
    """Write two records of one moment, of which the second counts as the newer by its id."""
    one, other = (memory.write(scope, id=f"{number}-{scope}", **draft).id for number, draft in enumerate(drafts, 1))
    return one, other


def write_duplicates(memory: Engine, scope: Scope = NOTES) -> tuple[str, str]:
    text = "Endpoints return snake_case JSON and ISO times"
    older = {"title": "API style", "text": f"{text}.", "tags": ["api"]}
    return write_pair(memory, scope, older, {"title": "API style guide", "text": f"{text}, in UTC.", "tags": ["style"]})


def write_contradiction(memory: Engine, scope: Scope = NOTES) -> tuple[str, str]:
    texts = [f"We release on {day} morning, never late." for day in ("Tuesday", "Thursday")]
    return write_pair(memory, scope, *({"title": "Release day", "text": text} for text in texts))


def answer(item: ReviewItem, decision: str, **more: Any) -> dict[str, Any]:
    """The fields of an item's form."""
    return {
        "decision": decision, "sort": item.sort, "key": item.key, "id": [each.entry.id for each in item.sides],
        "version": [str(each.entry.version) for each in item.sides], "text": item.merged, "path": item.path, **more,
    }  # fmt: skip


@pytest.mark.requirement("page:review", "page:decisions")
def test_what_may_contradict_comes_first_with_what_differs_marked_and_if_kept_only_when_it_has_changed(
    memory: Engine, ask: Ask
) -> None:
    write_duplicates(memory, Scope("guides"))
    older, newer = write_contradiction(memory)
    memory.write(NOTES, title="Lunch", text="The canteen opens at noon.")
    memory.write(NOTES, title="Parking", text="Bicycles stand in the yard behind the house.")
    memory.write(Scope("others"), title="Lunch", text="The canteen opens at one.")  # of another scope
    model = build_review(ask())
    assert [item.sort for item in model.items] == ["contradiction", "duplicate"]
    item = model.items[0]
    assert [side.entry.id for side in item.sides] == [older, newer]
    assert [[part.text for part in side.parts if part.differs] for side in item.sides] == [["Tuesday"], ["Thursday"]]
    assert model.counts == {"contradiction": 1, "duplicate": 1, "secret": 0, "vault": 0}
    assert "number" in model.judgements["contradiction"]
    decide(ask(**answer(item, "keep")))
    assert [item.sort for item in build_review(ask()).items] == ["duplicate"]
    assert memory.count(REVIEW) == 1
    memory.edit(newer, text="We release on Wednesday morning, never late.")
    assert len(build_review(ask()).items) == 2


@pytest.mark.requirement("page:decisions")
def test_a_merge_leaves_one_record_that_says_both_and_lets_no_secret_in(memory: Engine, ask: Ask) -> None:
    older, newer = write_duplicates(memory)
    (item,) = build_review(ask()).items
    with pytest.raises(Invalid, match="looks like"):
        decide(ask(**answer(item, "merge", text=SECRET)))
    decide(ask(**answer(item, "merge", text="Endpoints return JSON.\r\nIn UTC.")))
    left = memory.read(newer)
    assert (left.text, set(left.tags)) == ("Endpoints return JSON.\nIn UTC.", {"api", "style"})
    with pytest.raises(NotFound):
        memory.read(older)
    first = "Calls to the weather service are retried with a growing pause between them."
    write_pair(memory, Scope("more"), {"text": f"{first} Ask Jon."}, {"text": f"{first} Or Mira."})
    (item,) = build_review(ask()).items
    assert item.merged == f"{first} Or Mira. Ask Jon."


@pytest.mark.requirement("page:decisions")
def test_a_secret_is_not_shown_and_is_masked_where_it_stands_and_in_earlier_texts_too(memory: Engine, ask: Ask) -> None:
    data: dict[str, Any] = {"note": "x", "password": "hunter2-Zq8vXw91"}
    note = memory.write(NOTES, title="Database", text=SECRET, data=data)
    model = build_review(ask(sort="secret"))
    assert "hunter2" not in repr(model)
    decide(ask(**answer(model.items[0], "merge")))
    record = memory.read(note.id)
    assert "hunter2" not in record.text + repr(record.data)
    assert record.text.startswith("The database password is")
    assert build_review(ask()).items == ()
    tree = Tree(memory, Scope("files"))
    memory.apply(tree.plan_creation("/memories/a.md", f"{SECRET}\n"))
    (file,) = memory.list(Scope("files"), exact=True, kinds=(Kind.FILE,))
    memory.apply(tree.plan_edit(file, f"{SECRET}\nMore.\n"))
    (item,) = build_review(ask()).items
    assert [each.text for each in memory.list(tree.history)] == [f"{SECRET}\n"]
    decide(ask(**answer(item, "merge")))
    assert "hunter2" not in repr(memory.list(Scope("files")) + memory.list(tree.history))
    memory.edit(item.sides[0].entry.id, text=SECRET)
    (item,) = build_review(ask()).items
    assert decide(ask(**answer(item, "delete"))).message == "Deleted. 1 more went along."
    assert memory.count(tree.history) == 0


@pytest.mark.requirement("page:decisions")
def test_a_decision_about_what_has_changed_meanwhile_or_makes_no_sense_changes_nothing(
    memory: Engine, ask: Ask
) -> None:
    older, newer = write_duplicates(memory)
    (item,) = build_review(ask()).items
    wrong: list[dict[str, Any]] = [
        {"decision": "burn"}, {"id": []}, {"version": ["1"]}, {"sort": "other"}, {"decision": "delete:someone-else"},
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(Invalid):
            decide(ask(**answer(item, "keep") | change))
    with pytest.raises(Invalid):
        build_review(ask(sort="other"))
    memory.edit(newer, text="Endpoints return snake_case JSON and ISO times, in UTC, always.")
    for decision in ("merge", "delete", "keep"):
        with pytest.raises(Conflict):
            decide(ask(**answer(item, decision)))
    assert memory.count(NOTES) == 2
    memory.delete(older)
    with pytest.raises(NotFound):
        decide(ask(**answer(item, "merge")))


@pytest.mark.requirement("page:reach")
def test_a_limited_token_reviews_its_own_scope_and_its_decisions_stay_there(memory: Engine, ask: Ask) -> None:
    theirs = Scope("rest", "shop", "main", "user", "ann")
    write_contradiction(memory)
    mine = write_contradiction(memory, theirs)
    viewer = Viewer(reach=Scope("rest", "shop"))
    (item,) = build_review(ask(viewer)).items
    assert {side.entry.id for side in item.sides} == set(mine)
    decide(ask(viewer, **answer(item, "keep")))
    assert build_review(ask(viewer)).items == ()
    assert memory.count(Scope("rest", "shop", "main", "review")) == 1
    (others,) = build_review(ask()).items
    with pytest.raises(NotFound):
        decide(ask(viewer, **answer(others, "delete")))


@pytest.mark.requirement("page:review", "page:bounded")
def test_differences_are_marked_word_by_word_and_not_where_nearly_all_differs() -> None:
    left, right = mark_differences("one two three", "one four three")
    assert [(part.text, part.differs) for part in left] == [("one ", False), ("two", True), (" three", False)]
    assert "".join(part.text for part in right) == "one four three"
    left, right = mark_differences("alpha beta gamma delta", "one four three seven eight nine")
    assert not any(part.differs for part in (*left, *right))
    natural = " ".join(f"word{number} stands here." for number in range(1_000))
    left, right = mark_differences(natural.replace("word7 ", "other "), natural)
    assert [part.text for part in left if part.differs] == ["other"]
    assert left[-1].text == " …"
    left, right = mark_differences("ab. " * 5_000, "ab, " * 5_000)
    assert "".join(part.text for part in left).startswith("ab. ab. ")
    assert right


@pytest.mark.requirement("page:review", "page:bounded")
def test_many_copies_are_few_pairs_and_one_page_looks_at_a_bounded_number_of_records(memory: Engine, ask: Ask) -> None:
    copies = {memory.write(NOTES, title="Ferry", text="Ferry tickets are sold by Olsen.").id for _ in range(8)}
    items = build_review(ask()).items
    assert {side.entry.id for item in items for side in item.sides} == copies
    assert len(items) < len(copies)
    for _ in copies:
        if items := build_review(ask()).items:
            decide(ask(**answer(items[0], f"delete:{items[0].sides[1].entry.id}")))  # the newer one
    assert memory.count(NOTES) == 1
    memory.drop(NOTES)
    for number in range(review_view.BATCH + 1):
        memory.write(NOTES, kind=Kind.STATE, title=f"state {number}", text=f"{SECRET} {number}")
    model = build_review(ask())
    assert (model.record_count, len(model.items)) == (review_view.BATCH, review_view.MOST_SHOWN)
    assert model.left_out == review_view.BATCH - review_view.MOST_SHOWN
    assert build_review(ask(offset=str(review_view.BATCH))).record_count == 1
