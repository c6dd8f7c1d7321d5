"""How much each test does: enough to be meant seriously, or with COFIO_TORTURE=1 all that a night allows."""

from __future__ import annotations

import os

TORTURE = os.environ.get("COFIO_TORTURE") == "1"


def scaled(normal: int, torture: int) -> int:
    """The number to use: `normal`, or with COFIO_TORTURE=1 `torture`."""
    return torture if TORTURE else normal
