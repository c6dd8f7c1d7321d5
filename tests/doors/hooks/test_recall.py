"""Which memories bear on a prompt, by their words alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio import Engine, Kind, Scope
from cofio.capture.recall import recall
from cofio.doors.hooks.hook_actions import LONG_TAIL

from .conftest import SETTINGS, Host

PLACE = Scope("rest", "code", "shop")
PACKAGES = "Use pnpm in this repository, never the other two."
PICTURES = "Images go to the bucket petal-media by a signed address."


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A memory with two statements, and much talk of invoices."""
    with Engine.open(tmp_path / "store", settings=SETTINGS) as opened:
        texts = [PACKAGES, PICTURES, *(f"The invoice of month {number} was sent again." for number in range(30))]
        for text in texts:
            opened.write(PLACE, text=text, kind=Kind.FACT)
        yield opened


@pytest.mark.requirement("prompt.recall")
@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Install the date picker package.", PACKAGES),
        ("How do florists send us photos for the bucket?", PICTURES),
    ],
)
def test_a_memory_is_found_by_another_word_for_what_it_says(engine: Engine, prompt: str, expected: str) -> None:
    assert expected in recall(engine, prompt, [PLACE], session="one").text


@pytest.mark.requirement("prompt.silent")
@pytest.mark.parametrize(
    "prompt", ["Rename the variable in this file.", "Show me the invoice class.", "Write a test, never mind which."]
)
def test_words_that_are_common_or_frequent_here_are_not_enough(engine: Engine, prompt: str) -> None:
    assert not recall(engine, prompt, [PLACE], session="one")


@pytest.mark.requirement("prompt.recall")
def test_a_memory_that_shares_much_more_is_told_alone(engine: Engine) -> None:
    block = recall(engine, "Which signed address of the bucket takes images, which invoice?", [PLACE], session="one")
    assert len(block.records) == 1
    assert PICTURES in block.text


@pytest.mark.requirement("cost.start")
@pytest.mark.usefixtures("process")
def test_a_capture_sees_to_the_word_index_before_prompts_have_to(host: Host) -> None:
    turns = [(role, f"Turn {number} is about it.") for number in range(LONG_TAIL) for role in ("user", "assistant")]
    transcript = host.write_transcript(turns)
    host.fire("Stop", transcript_path=str(transcript)).check_silent()
    with Engine.open(host.store, settings=SETTINGS) as engine:
        assert engine.stats().waiting_for_index < LONG_TAIL
