"""What LangGraph's configs name: a thread, a namespace of it, a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ...checkpoints.checkpoints import MAX_NAME, MAX_NS
from ...values.errors import Invalid
from ...values.records import check_text


def parse_options(config: RunnableConfig) -> Mapping[str, Any]:
    """What is configured.

    Raises:
        Invalid: the config is none.
    """
    options = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(options, Mapping):
        raise Invalid("config", 'expected {"configurable": {"thread_id": …}}')
    return options


def parse_thread(options: Mapping[str, Any]) -> str:
    """The thread, which must be named."""
    if options.get("thread_id") is None:
        raise Invalid("thread_id", 'is missing: pass {"configurable": {"thread_id": …}} as the config')
    return check_thread("thread_id", options["thread_id"])


def check_thread(field: str, thread: object) -> str:
    """LangGraph takes any object for a thread's id, as the text that it is shown as."""
    if thread is None:
        raise Invalid(field, "is missing")
    name = str(thread)
    check_text(field, name, MAX_NAME, empty=False)
    return name


def parse_ns(options: Mapping[str, Any]) -> str:
    """The namespace, which is "" for the graph that is not inside of another."""
    ns: str = options.get("checkpoint_ns") or ""
    check_text("checkpoint_ns", ns, MAX_NS)
    return ns


def parse_id(options: Mapping[str, Any]) -> str | None:
    """The checkpoint, if one is named."""
    named = options.get("checkpoint_id")
    if named:
        check_text("checkpoint_id", named, MAX_NAME)
    return named or None


def make_config(thread: Any, ns: str, id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def check_several(field: str, names: Iterable[Any]) -> list[Any]:
    """Names, and not the letters of one."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise Invalid(field, "expected several, not one: put it into a list")
    return [*names]
