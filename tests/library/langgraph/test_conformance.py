"""LangGraph's own suite for checkpointers, every capability of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate

from cofio.config.address import StoreAddress
from cofio.library.langgraph import CofioSaver

from .saving import QUIET


@pytest.mark.requirement("langgraph.saver.conformance", "langgraph.saver.async", "langgraph.saver.writes")
def test_every_capability_is_there_and_passes(store_address: StoreAddress) -> None:
    async def savers() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        async with CofioSaver.open(store_address.spell(), settings=QUIET) as saver:
            yield saver

    report = asyncio.run(validate(RegisteredCheckpointer(name="CofioSaver", factory=savers)))
    assert {name for name, result in report.results.items() if result.detected} == {each.value for each in Capability}
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert all(result.passed is True and result.tests_passed for result in report.results.values())
    assert not any(result.tests_skipped for result in report.results.values())
