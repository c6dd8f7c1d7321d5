"""A scripted server, and models that are closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from cofio.llm import Model

from .scripted import Scripted

KEY = "sk-very-secret"


@dataclass(slots=True)
class Watch:
    """A clock that only goes when someone sleeps or looks at it, and what was spent by it."""

    now: float = 0.0
    tick: float = 0.0
    waits: list[float] = field(default_factory=list)
    spent: list[tuple[int, int]] = field(default_factory=list)

    def look(self) -> float:
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def spend(self, calls: int, tokens: int) -> None:
        self.spent.append((calls, tokens))


Making = Callable[..., Model]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A server that answers rightly until its script is changed."""
    monkeypatch.setenv("no_proxy", "*")
    with Scripted() as server:
        yield server


@pytest.fixture
def watch() -> Watch:
    """The clock of `make`."""
    return Watch()


@pytest.fixture
def make(server: Scripted, watch: Watch) -> Iterator[Making]:
    """Makes models of the server."""
    with ExitStack() as stack:

        def made(**options: Any) -> Model:
            given = {
                "key": KEY, "spend": watch.spend, "clock": watch.look, "sleep": watch.sleep, "jitter": lambda: 0.5,
                "rest": 0.0, **options,
            }  # fmt: skip
            model = Model(server.url, "scripted", **given)
            stack.callback(model.close)
            return model

        yield made
