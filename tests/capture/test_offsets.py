"""However a transcript grows, is torn, read in between or written anew: each message is stored once, and in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.capture.transcripts.line_reader import Position
from cofio.capture.transcripts.transcript_sources import Transcript, open_reading

from ..tiers import scale_examples
from .made import MAKERS, START, Step, find_file, run, say, user

STEPS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=30).map(lambda text: user(f"a {text}")),
        st.text(min_size=1, max_size=30).map(lambda text: say(f"b {text}")),
        st.text(max_size=30).map(lambda text: run("make", text)),
    ),
    min_size=1,
    max_size=12,
)


def read_into(known: dict[str, str], client: str, path: Path, position: Position) -> Position:
    """Read what is new, as a capture does: a message that is known stays as it is."""
    reading = open_reading(Transcript(client=client, path=path, changed_at=START), position)
    for chunk in reading.read_chunks():
        for message in chunk:
            known.setdefault(message.id, message.text)
    return reading.position


@pytest.mark.requirement("capture.offsets")
@pytest.mark.parametrize("client", MAKERS)
@settings(max_examples=scale_examples(30))
@given(steps=STEPS, data=st.data())
def test_any_way_of_reading_gives_the_same_messages(
    client: str, tmp_path_factory: pytest.TempPathFactory, steps: list[Step], data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = find_file(client, home)
    path.parent.mkdir(parents=True)
    records: list[dict[str, Any]] = MAKERS[client](steps, str(home))
    whole = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    path.write_bytes(whole)
    expected: dict[str, str] = {}
    read_into(expected, client, path, Position())

    found: dict[str, str] = {}
    position = Position()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    for cut in cuts:
        path.write_bytes(whole[:cut])
        position = read_into(found, client, path, position)
        if data.draw(st.booleans()):  # it is read again from a beginning that others wrote
            path.write_bytes(b'{"type": "summary"}\n' + whole[:cut])
            position = read_into(found, client, path, position)
    path.write_bytes(whole)
    position = read_into(found, client, path, position)
    if not (client == "gemini" and cuts):  # whose call is told again when it has ended, maybe in a later reading
        assert [*found.items()] == [*expected.items()]
    assert found == expected
    assert position.offset == len(whole)
