"""A case as it is kept in a record, and back."""

from __future__ import annotations

from typing import Any, cast

from ..extract.extractor import Case, Step
from ..values.records import Json, Record
from .stored_fields import INSIGHT, INTENT, QUALITY

STEPS, LONGEST = 200, 500  # what is kept of a long run: the number of steps, and the length of each


def encode_case(case: Case) -> dict[str, Json]:
    """What a case's record keeps of it."""
    return {
        INTENT: case.intent,
        "request": case.intent,  # which stays when the intent is told in other words: cases are compared by it
        "approach": case.approach,
        INSIGHT: case.insight,
        QUALITY: case.quality,
        "outcome": case.outcome,
        "messages": list(case.messages),
        "steps": [
            {
                "tool": step.tool[:LONGEST],
                "arguments": step.arguments[:LONGEST],
                "result": step.result[:LONGEST],
                "failed": step.failed,
            }
            for step in case.steps[:STEPS]
        ],
    }


def decode_case(record: Record) -> Case:
    """The case that a record keeps."""
    kept = cast("dict[str, Any]", record.data)
    return Case(
        intent=kept["request"],
        approach=kept["approach"],
        insight=kept[INSIGHT],
        quality=kept[QUALITY],
        outcome=kept["outcome"],
        messages=tuple(kept["messages"]),
        steps=tuple(Step(**step) for step in kept["steps"]),
    )
