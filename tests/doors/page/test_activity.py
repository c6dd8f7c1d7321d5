"""The activity: what was written last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cofio import Engine, Kind, Scope
from cofio.doors.page.activity_view import PAGE, build_activity
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer

Ask = Callable[..., ViewRequest]
NOTES, SHOP = Scope("notes"), Scope("rest", "shop")


@pytest.mark.requirement("page:activity", "page:reach")
def test_what_was_written_last_comes_first_and_can_be_narrowed_and_paged(memory: Engine, ask: Ask) -> None:
    for number in range(PAGE + 1):
        memory.write(NOTES, text=f"note {number}", source="mcp", author="claude")
    memory.write(SHOP / "main", title="a fact", text="more", kind=Kind.FACT, source="cli")
    memory.put(NOTES, "counter", data=1, kind=Kind.LEDGER)  # which is nobody's business
    entries = build_activity(ask()).entries
    shown = [(each.title, each.door, each.author) for each in entries[:2]]
    assert shown == [("a fact", "command line", ""), (f"note {PAGE}", "MCP", "claude")]
    for narrowed in (ask(kind="fact"), ask(source="cli"), ask(Viewer(reach=SHOP))):
        assert [each.title for each in build_activity(narrowed).entries] == ["a fact"]
    first = build_activity(ask(source="mcp"))
    assert (len(first.entries), bool(first.next), first.before) == (PAGE, True, "")
    last = build_activity(ask(source="mcp", offset=str(PAGE)))
    assert [each.title for each in last.entries] == ["note 0"]
