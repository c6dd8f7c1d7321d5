"""What an agent recalls and sends back is not remembered again, and does not stand in the way of the memory itself."""

from __future__ import annotations

import pytest

from cofio import Kind

from .conftest import DAY, Api, T, said

BLOCK = "<memory>\n- Alice lives in Oslo.\n- Alice loves sailing.\n</memory>\nAnything new?"


@pytest.mark.requirement("add.recalled")
def test_an_echo_gives_no_fact_and_does_not_hide_what_it_repeats(api: Api) -> None:
    api.told("I live in Oslo.", "I love sailing.")
    first = {record.text for record in api.engine.export() if record.kind is Kind.FACT}
    for number in range(1, 6):
        session = f"echo-{number}"
        api.add(
            said("Hi again.", T + number * DAY),
            said(BLOCK, T + number * DAY + 1000, "bot", "assistant"),
            said("Alice lives in Oslo. Alice loves sailing.", T + number * DAY + 2000, "bot", "assistant"),
            said("No, nothing.", T + number * DAY + 3000),
            session=session,
        )
        assert api.flush(session) == "extracted"
    facts = {record.text for record in api.engine.export() if record.kind is Kind.FACT}
    assert not [text for text in facts - first if "Oslo" in text or "sailing" in text]
    for method in ("keyword", "hybrid"):
        assert api.search("Where does Alice live, Oslo?", method=method, top_k=3)["episodes"][0]["session_id"] == "s"
    turns = [record for record in api.engine.export() if record.kind is Kind.TURN and "Oslo" in str(record.data)]
    assert turns  # the evidence is whole, though it is not found by what was recalled in it
