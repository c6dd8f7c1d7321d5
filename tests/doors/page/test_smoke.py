"""The main verbs of the page, on every backend: search, read, list, edit, a conflict, review, delete."""

from __future__ import annotations

import pytest

from cofio import Kind, Scope

from .conftest import Browser

SCOPE = Scope("notes")


@pytest.mark.requirement("page:search", "page:record", "page:edit", "page:delete")
def test_a_record_is_found_shown_edited_and_deleted_and_a_conflict_told(browser: Browser) -> None:
    note = browser.engine.write(SCOPE, title="Release day", text="We ship on Thursdays.", source="mcp", tags=["ops"])
    assert browser.post("/page/start/example").status_code == 303
    assert [hit["entry"]["id"] for hit in browser.read("search", q="ship", scope="notes")["hits"]] == [note.id]
    assert "We ship on Thursdays." in browser.show(f"/page/record?id={note.id}")
    edited = browser.post("/page/record/edit", id=note.id, version=1, title="Release day", text="We ship on Fridays.")
    assert edited.status_code == 303
    assert browser.engine.read(note.id).text == "We ship on Fridays."
    late = browser.post("/page/record/edit", id=note.id, version=1, title="Release day", text="Never.")
    assert late.status_code == 409
    assert browser.post("/page/record/delete", id=note.id, version=2).status_code == 303
    assert browser.get(f"/page/record?id={note.id}").status_code == 404
    assert browser.read("search", q="ship", scope="notes")["hits"] == []


@pytest.mark.requirement("page:activity", "page:days", "page:sessions", "page:threads", "page:health", "page:start")
def test_every_screen_lists_what_is_there(browser: Browser) -> None:
    assert browser.post("/page/start/example").status_code == 303
    browser.engine.checkpoints.save("library", "trip", "c0", {"step": 0}, metadata={"step": 0})
    assert browser.read("activity")["entries"]
    assert browser.read("start")["writers"]
    assert browser.read("conversations")["sessions"]
    assert browser.read("conversations", tab="people")["people"]
    assert [each["name"] for each in browser.read("threads", space="library")["threads"]] == ["trip"]
    health = browser.read("health")
    assert health["records"] == browser.engine.count(kinds=[kind for kind in Kind if kind is not Kind.LEDGER])
    newest = browser.engine.list(limit=1)[0].created_at.date()
    assert browser.read("days", day=str(newest))["entries"]
    assert browser.post("/page/health/check", accept="application/json").json()["faults"] == []


@pytest.mark.requirement("page:review", "page:decisions")
def test_of_two_records_that_may_contradict_one_is_deleted(browser: Browser) -> None:
    older, newer = (
        browser.engine.write(SCOPE, id=key, title="Release day", text=f"We release on {day} morning, never late.").id
        for key, day in (("1", "Tuesday"), ("2", "Thursday"))
    )
    assert "May contradict" in browser.show("/page/review")
    (item,) = browser.read("review")["items"]
    entries = [side["entry"] for side in item["sides"]]
    assert [each["id"] for each in entries] == [older, newer]
    fields = {"sort": item["sort"], "id": [older, newer], "version": [each["version"] for each in entries]}
    assert browser.post("/page/review/decide", decision="delete", **fields).status_code == 303
    assert [record.id for record in browser.engine.list(SCOPE)] == [newer]
    assert browser.read("review")["items"] == []
