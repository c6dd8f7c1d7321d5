"""Savers on a store of the test's own, and checkpoints to put into them."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint

from cofio import Settings

QUIET = Settings(background=False, embedder="none", sync="normal")


def config_of(thread: Any = "ada", ns: str | None = "", at: str | None = None) -> RunnableConfig:
    """The config that names a thread, or a checkpoint of it."""
    options: dict[str, Any] = {"thread_id": thread}
    if ns is not None:
        options["checkpoint_ns"] = ns
    if at is not None:
        options["checkpoint_id"] = at
    return {"configurable": options}


def checkpoint_with(name: str, values: dict[str, Any] | None = None, **extra: Any) -> Checkpoint:
    """A checkpoint that holds these values."""
    held = values or {}
    version = f"{1:032}.5"
    made = {
        "v": 4, "id": name, "ts": "2026-01-01T00:00:00+00:00", "channel_values": held,
        "channel_versions": dict.fromkeys(held, version), "versions_seen": {"node": {"a": version}},
        "updated_channels": [*held],
    }  # fmt: skip
    return cast(Checkpoint, made | extra)
