"""A conversation is cut where a person would say that something else begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Call, Message, Role
from cofio.extract.rules.boundaries import MOST_CHARACTERS, MOST_MESSAGES, find_boundaries

START = datetime(2026, 5, 28, 9, tzinfo=UTC)


def _said(*texts: str, every: timedelta = timedelta(minutes=1), start: datetime = START) -> list[Message]:
    """Texts said in turn by a user and an assistant."""
    return [
        Message(
            id=f"m{number}", sender="ana" if number % 2 == 0 else "assistant",
            role="user" if number % 2 == 0 else "assistant", at=start + every * number, text=text,
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip


def test_a_new_day_in_the_zone_of_the_talk_and_four_hours_of_silence_are_cuts() -> None:
    messages = _said("One", "Two", "Three", every=timedelta(hours=1), start=datetime(2026, 5, 28, 22, 30, tzinfo=UTC))
    assert find_boundaries(messages, UTC) == [2]
    assert find_boundaries(messages, ZoneInfo("Europe/Oslo")) == []  # there it is past midnight already
    assert find_boundaries(_said("One", "Two", every=timedelta(hours=4)), UTC) == [1], "silence"
    assert find_boundaries(_said("One", "Two", every=timedelta(hours=3, minutes=59)), UTC) == []


@pytest.mark.parametrize(
    ("said", "cuts"),
    [
        ("New topic: taxes", [2]),
        ("Unrelated question: why?", [2]),
        ("Let's change the subject.", [2]),
        ("By the way, the gate is green", []),
        ("And the new topic is fine", []),
    ],
)
def test_a_user_who_says_so_begins_anew(said: str, cuts: list[int]) -> None:
    assert find_boundaries(_said("The fence is red.", "It is.", said, "Sure."), UTC) == cuts
    assert find_boundaries(_said("The fence is red.", "New topic: gates"), UTC) == [], "an assistant does not"


def test_a_stretch_has_at_most_so_many_messages_and_characters() -> None:
    assert find_boundaries(_said(*["The fence is red."] * (MOST_MESSAGES + 5)), UTC) == [MOST_MESSAGES]
    assert find_boundaries(_said(*["fence " * (MOST_CHARACTERS // 18)] * 5), UTC) == [3]
    assert find_boundaries(_said("fence", "x" * MOST_CHARACTERS, "fence"), UTC) == [1, 2]


GARDEN = [
    "My tomato plants have yellow leaves and the soil feels soggy.",
    "Soggy soil drowns tomato roots; water less often.",
    "I water the tomato bed every evening with a hose.", "Water the tomato roots in the morning, twice weekly.",
    "The leaves near the soil are yellow, those above are green.",
    "Cut the yellow leaves and mulch the soil with straw.",
]  # fmt: skip
TAXES = [
    "My accountant filed the invoice under the wrong tax category.",
    "An invoice category can be amended with a tax form.",
    "The tax office sent a letter asking for the invoice receipts.",
    "Send receipts with the amended tax form and a letter.",
    "The accountant charges 200 dollars for the amended form.",
    "Ask the accountant to waive the charge for the invoice.",
]  # fmt: skip


def test_a_clear_change_of_topic_is_a_cut() -> None:
    assert find_boundaries(_said(*GARDEN, *TAXES), UTC) == [6]
    assert find_boundaries(_said(*GARDEN, *TAXES[:2]), UTC) == [], "a topic needs several messages to count"
    assert find_boundaries(_said(*GARDEN[:2], *TAXES), UTC) == []
    assert find_boundaries(_said(*GARDEN, *GARDEN), UTC) == []


def _run(*roles: str, start: datetime) -> list[Message]:
    """A run of an agent: u(ser), a(ssistant), c(all), r(esult); an hour apart."""
    kinds: dict[str, Role] = {"u": "user", "a": "assistant", "c": "assistant", "r": "tool"}
    found: list[Message] = []
    for number, role in enumerate(roles):
        calls = (Call(id=f"c{number}", name="look", arguments="{}"),) if role == "c" else ()
        answers = next((one.calls[0].id for one in reversed(found) if one.calls), None) if role == "r" else None
        found.append(
            Message(
                id=f"m{number}", sender=kinds[role], role=kinds[role], at=start + timedelta(hours=number),
                text="" if calls else "red fence", calls=calls, answers=answers,
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize("midnight", [1, 2, 3])
def test_a_call_its_result_and_what_is_made_of_it_stay_together(midnight: int) -> None:
    start = datetime(2026, 5, 29, tzinfo=UTC) - timedelta(hours=midnight)
    expected = {1: [1], 2: [4], 3: [4]}[midnight]
    assert find_boundaries(_run("u", "c", "r", "a", "u", start=start), UTC) == expected


def test_a_call_without_a_result_holds_nothing_up() -> None:
    start = datetime(2026, 5, 29, tzinfo=UTC) - timedelta(hours=2)
    assert find_boundaries(_run("u", "c", "u", "a", start=start), UTC) == [2]


def _is_torn(messages: Sequence[Message], cut: int) -> bool:
    called = {call.id for message in messages[:cut] for call in message.calls}
    return any(message.answers in called for message in messages[cut:] if message.answers)


@given(st.lists(st.sampled_from("uacr"), max_size=80), st.integers(0, 23))
def test_cuts_increase_lie_within_and_tear_no_call_from_its_result(roles: list[str], hour: int) -> None:
    messages = _run(*roles, start=datetime(2026, 5, 28, hour, tzinfo=UTC))
    cuts = find_boundaries(messages, UTC)
    assert cuts == sorted(set(cuts))
    assert all(0 < cut < len(messages) for cut in cuts)
    assert not any(_is_torn(messages, cut) for cut in cuts)
    assert cuts == find_boundaries(messages, UTC)
