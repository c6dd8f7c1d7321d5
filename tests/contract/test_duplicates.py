"""The same text is recognised when it is written, and what says nearly the same is named."""

from __future__ import annotations

from collections.abc import Callable

from cofio import Draft, Engine, Kind, Record, Scope

DEMO = Scope("demo")


def test_dedupe_returns_the_record_that_is_there_and_writes_nothing(memory: Engine) -> None:
    first = memory.write(DEMO, text="same", title="Title", tags=["a"])
    second = memory.write(DEMO, text="same", title="Another title", tags=["b"], dedupe=True, similar=True)
    assert second == first
    assert second.existed
    assert second.similar == ()
    assert not memory.write(DEMO, text="not the same", dedupe=True).existed
    assert memory.count() == 2
    assert not memory.write(DEMO, text="same").existed  # without it, the same text is written again
    assert memory.count() == 3


def test_related_names_a_record_with_the_same_text_and_writes_another(memory: Engine) -> None:
    first = memory.write(DEMO, text="one  two", title="First", related=True)
    assert first.similar == ()
    second = memory.write(DEMO, text="one two\n", related=True)
    assert [(one.id, one.title, one.likeness) for one in second.similar] == [(first.id, "First", 1.0)]
    assert memory.write(DEMO, text="one three", related=True).similar == ()
    assert memory.write(Scope("else"), text="one two", related=True).similar == ()
    assert memory.write(DEMO, text="one two", kind=Kind.FACT, related=True).similar == ()
    assert memory.count() == 5


RELEASES = (
    "Releases: Wednesdays before noon",
    "We release on Wednesdays before noon, from main, with the office staffed.",
)
BUTTONS = ("Colour of the buttons", "Buttons that cost money are orange, all others are blue; agreed with Amira.")
LIMITS = ("Rate limits", "Each key may send 60 requests a minute; partners may send more.")
POOLER = ("Database: pooler", "All services connect to the pooler on port 6543. On Tuesdays it is restarted.")
KIOSK = ("Kiosk: hours", "The kiosk has a printer. The kiosk opens at 8 on weekdays. Its card reader leaks memory.")
SPRINT = ("Sprint 21: review", "Velocity 34. Done: kiosk reboot. Carried over: timetable import.")


RELATED: list[tuple[tuple[str, str], str, str, bool]] = [
    (RELEASES, "Releases: Thursdays", "Since the move we release on Thursdays, from main.", True),
    (RELEASES, RELEASES[0], "We release on Wednesdays before noon, from main.", False),
    (BUTTONS, BUTTONS[0], "Buttons that cost money are green, all others are blue; agreed with Amira.", True),
    (BUTTONS, BUTTONS[0], BUTTONS[1] + " The style guide says the same.", False),
    (KIOSK, "Kiosk: new hours", "The kiosk opens at 9 on weekdays; the staff was told.", True),
    (LIMITS, "Limits of requests", "Each key may send 90 requests a minute.", True),
    (LIMITS, "Requests", "Partners may send more requests; each key may send 60 a minute.", False),
    (("Backups", "Backups are kept in another region."), "Backups", "Backups are not kept in another region.", True),
]
UNRELATED: list[tuple[tuple[str, str], str, str]] = [
    (SPRINT, "Sprint 22: review", "Velocity 29. Done: pooler. Carried over: timetable import."),
    (LIMITS, "Rate of exchange", "The bank's rate of Friday counts for invoices."),
    (RELEASES, "Colour of the buttons", BUTTONS[1]),
    (POOLER, "Database: backups", "A dump is made at 02:00, is not encrypted, and is kept for 35 days on Mondays."),
    (("", "Only a text without a title, about the harbour."), "", "Another text, which has no title either."),
]


def test_related_names_what_is_on_the_topic_and_whether_it_may_contradict(memory: Engine) -> None:
    for number, (before, title, text, contradicts) in enumerate(RELATED):
        first = memory.write(Scope(str(number)), title=before[0], text=before[1])
        (one,) = memory.write(Scope(str(number)), title=title, text=text, related=True).similar
        assert (one.id, one.title, one.contradicts) == (first.id, before[0], contradicts)
        assert 0 < one.likeness < 1


def test_related_names_nothing_that_is_about_something_else_or_elsewhere(memory: Engine) -> None:
    for number, (before, title, text) in enumerate(UNRELATED):
        memory.write(Scope(str(number)), title=before[0], text=before[1])
        assert memory.write(Scope(str(number)), title=title, text=text, related=True).similar == ()
    title, text = RELEASES
    for scope, kind in ((DEMO / "below", Kind.NOTE), (Scope("else"), Kind.NOTE), (DEMO, Kind.FACT)):
        memory.write(scope, title=title, text=text, kind=kind)
    assert memory.write(DEMO, title=title, text="We release on Mondays, from main.", related=True).similar == ()


def test_white_space_makes_no_difference_between_texts_and_all_else_does(memory: Engine) -> None:
    first = memory.write(DEMO, text="one two")
    for text in ("one two", " one two ", "one\n\ntwo", "one \t two\r\n"):
        assert memory.write(DEMO, text=text, dedupe=True).id == first.id
    for text in ("One two", "one two.", "onetwo", "two one", "one twó"):
        assert not memory.write(DEMO, text=text, dedupe=True).existed
    for scope, kind in ((DEMO / "under", Kind.NOTE), (Scope(), Kind.NOTE), (DEMO, Kind.FACT)):
        assert not memory.write(scope, text="one two", kind=kind, dedupe=True).existed


def test_what_has_no_text_is_told_by_its_title_and_data(memory: Engine) -> None:
    memory.put(DEMO, "key", kind=Kind.NOTE)
    memory.write(DEMO, text="First title null")
    first = memory.write(DEMO, title="First title", dedupe=True)
    assert not first.existed
    assert not memory.write(DEMO, title="Second title", dedupe=True).existed
    assert not memory.write(DEMO, title="First title", data=1, dedupe=True).existed
    assert memory.write(DEMO, title=" First  title", text=" \n", dedupe=True) == first


def test_an_edited_or_deleted_text_is_no_longer_there_to_be_repeated(memory: Engine) -> None:
    record = memory.write(DEMO, text="old")
    memory.edit(record.id, text="new")
    assert not memory.write(DEMO, text="old", dedupe=True).existed
    assert memory.write(DEMO, text="new", dedupe=True).id == record.id
    memory.delete(record.id)
    assert not memory.write(DEMO, text="new", dedupe=True).existed


def test_the_oldest_of_several_is_the_one_returned(memory: Engine) -> None:
    first = memory.write(DEMO, text="same")
    memory.write(DEMO, text="same")
    memory.edit(first.id, title="changed since")
    assert memory.write(DEMO, text="same", dedupe=True).id == first.id


def test_a_batch_is_deduplicated_against_the_store_and_itself(memory: Engine) -> None:
    first = memory.write(DEMO, text="a")
    records = memory.write_many([Draft(scope=DEMO, text=text) for text in "abcba"], dedupe=True)
    assert [record.text for record in records] == list("abcba")
    assert [record.existed for record in records] == [True, False, False, True, True]
    assert records[0] == records[4] == first
    assert memory.count() == 3


def test_similar_names_what_says_nearly_the_same_the_most_alike_first(
    memory: Engine, remember: Callable[..., list[Record]]
) -> None:
    text = "the nightly backup of the billing database runs at two"
    near, nearer, *_ = remember(
        Draft(scope=DEMO, text="the nightly backup of our billing database starts at two", title="Near"),
        Draft(scope=DEMO, text="nightly backup of the billing database runs at three"),
        Draft(scope=DEMO, text="the billing team went home at two"),
        Draft(scope=DEMO / "under", text=text),
        Draft(scope=DEMO, kind=Kind.FACT, text=text),
    )
    record = memory.write(DEMO, text=text, similar=True)
    assert [(one.id, one.title) for one in record.similar] == [(nearer.id, ""), (near.id, "Near")]
    assert 0.7 <= record.similar[1].likeness < record.similar[0].likeness < 1
    assert not record.existed
    assert memory.read(record.id).similar == ()


def test_a_text_without_words_is_similar_to_nothing(memory: Engine) -> None:
    memory.write(DEMO, text="…!?")
    assert memory.write(DEMO, text="…!?", similar=True).similar == ()
