"""What the crash and fault tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .children import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Forks processes that are there to be killed."""
    with Nursery() as opened:
        yield opened
