"""The tool as heptagent-memory-tool-backend has it: relative paths, the first of several occurrences, limited calls."""

from __future__ import annotations

from ..engine.engine import Engine
from ..values.records import Scope
from . import texts
from .commands import Result, dispatch
from .limiter import CALLS, Limiter


class Quest:
    """The files of one scope, for the workers of one quest at a time."""

    def __init__(self, engine: Engine, scope: Scope, *, calls: int = CALLS, strings: texts.Strings = "docs") -> None:
        """`calls` is how many commands a quest may have, all its workers together."""
        self._engine = engine
        self._scope = scope
        self._strings = strings
        self._limiter = Limiter(calls)

    def dispatch(self, command: object) -> Result:
        """Carry out one command, if the quest may have another."""
        return dispatch(
            self._engine, self._scope, command, strings=self._strings, paths="relative", replace_first=True,
            limiter=self._limiter,
        )  # fmt: skip

    def reset_for_new_quest(self) -> None:
        """Start the count of the calls again."""
        self._limiter.reset_for_new_quest()
