"""The vectors that messages have been given since they came in, for those who read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..engine.engine import Engine
from ..values.records import Record
from .message_records import fields

if TYPE_CHECKING:
    from ..values.changes import Vector


def find_message_vectors(engine: Engine, turns: Sequence[Record]) -> dict[str, Vector]:
    """The vectors of messages that have been embedded, by the messages' ids, for `read_with_vectors`."""
    from ..extract.rules.vector_reading import MODEL

    made = engine.read_vectors(MODEL, [turn.id for turn in turns])
    return {str(fields(turn)["message_id"]): made[turn.id] for turn in turns if turn.id in made}
