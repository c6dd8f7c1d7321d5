"""The review of the vault's conflicts: what a person wrote beside what the memory says, and who has the last word."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from httpx2 import Response

from cofio import Engine, Kind, Record
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.stretches import make_profile_put
from cofio.extract.extractor import Message
from cofio.values.changes import Edit
from cofio.vault.vault import Vault

from .conftest import Browser

WROTE, SAYS = "Ann's dog is called Max.", "Ann's dog is called Bo."


@dataclass(frozen=True)
class Review:
    """A browser, and a vault in which a person and the memory have changed one fact."""

    browser: Browser
    vault: Vault
    conversations: Conversations

    @property
    def fact(self) -> Record:
        """The fact that both have changed."""
        return next(each for each in self.browser.engine.list(kinds=(Kind.FACT,)) if "dog" in each.text)

    @property
    def items(self) -> list[dict[str, Any]]:
        """What there is to review of the vault."""
        items: list[dict[str, Any]] = self.browser.read("review", sort="vault")["items"]
        return items

    @property
    def item(self) -> dict[str, Any]:
        """The one conflict that there is."""
        (item,) = self.items
        return item

    def decide(self, decision: str, **fields: str) -> Response:
        """Send the form of the conflict."""
        shown = {"sort": "vault", "only": "vault", **{name: self.item[name] for name in ("key", "path")}}
        return self.browser.post("/page/review/decide", decision=decision, **shown | fields)


@pytest.fixture
def review(memory: Engine, store_address: StoreAddress, make_browser: Callable[..., Browser]) -> Iterator[Review]:
    """A conflict in a real vault, and a browser to settle it with."""
    at = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)
    with closing(Vault(memory, store_address.home / "vault")) as vault:
        conversations = Conversations(memory, mirror=vault)
        message = Message(
            id="", sender="ann", name="Ann", role="user", at=at, text="My dog is called Rex. I live in Oslo."
        )
        conversations.append(Project(), "s", [message])
        conversations.carve(Project(), "s", whole=True)
        review = Review(make_browser(conversations=conversations), vault, conversations)
        (file,) = vault.folder.glob("*/*/users/ann/.atomic_facts/*.md")
        file.write_text(file.read_text().replace("Rex", "Max"))
        conversations.apply([Edit(id=review.fact.id, fields={"text": SAYS})])
        yield review


def join(parts: list[dict[str, Any]]) -> str:
    return "".join(each["text"] for each in parts)


@pytest.mark.requirement("page:review", "page:decisions")
def test_a_conflict_is_shown_beside_what_the_memory_says_which_takes_what_the_file_said(review: Review) -> None:
    theirs, ours = review.item["versions"]
    assert WROTE in join(theirs)
    assert SAYS in join(ours)
    assert "Oslo" not in join(theirs) + join(ours)  # which is in the file, too
    assert [part["text"] for part in theirs if part["differs"]] == ["Max"]
    assert review.item["path"].partition(".conflict-")[0] + ".md" == review.item["beside"]
    text = review.browser.show("/page/review")
    assert "What the file said" in text
    assert "&lt;!-- entry:" in text  # in the box to edit, as text
    done = review.decide("take")
    assert done.status_code == 303
    assert done.headers["location"].startswith("/page/review?sort=vault&notice=The+memory+says+it+now")
    assert review.fact.text == WROTE
    assert isinstance(review.fact.data, dict)
    assert review.fact.data["edited"] == ["content"]  # by hand: what is extracted later leaves it alone
    assert review.items == []
    assert [*review.vault.folder.rglob("*.conflict-*")] == []
    assert any(WROTE in each.read_text() for each in review.vault.folder.rglob("*.md"))


@pytest.mark.requirement("page:decisions")
@pytest.mark.parametrize("merged", ["Ann has two dogs, Max and Bo.", SAYS])
def test_the_memory_takes_what_is_merged_by_hand(review: Review, merged: str) -> None:
    before = review.fact
    text = review.item["merged"].replace(WROTE, merged).replace("\n", "\r\n")
    assert review.decide("merge", text=text).status_code == 303
    assert review.fact.text == merged
    assert (review.fact == before) is (merged == SAYS)
    assert review.items == []


@pytest.mark.requirement("page:decisions")
def test_the_memory_keeps_its_own_text_and_a_persons_profile_is_taken_too(review: Review) -> None:
    assert review.decide("delete").status_code == 303
    assert review.fact.text == SAYS
    assert [*review.vault.folder.rglob("*.conflict-*")] == []
    (profile,) = review.browser.engine.list(kinds=(Kind.PROFILE,))
    assert isinstance(profile.data, dict)
    (file,) = review.vault.folder.rglob("user.md")
    front, _, _ = file.read_text().rpartition("---\n")
    file.write_text(f"{front}---\nA sailor.\n")
    changed = make_profile_put(profile.scope, {**profile.data, "summary": "A diver."}, profile.version)
    review.conversations.apply([changed])
    assert "A sailor." in join(review.item["versions"][0])
    assert review.decide("take").status_code == 303
    (profile,) = review.browser.engine.list(kinds=(Kind.PROFILE,))
    assert isinstance(profile.data, dict)
    assert profile.data["summary"] == "A sailor."
    assert file.read_text().endswith("A sailor.\n")


@pytest.mark.requirement("page:decisions")
def test_what_is_kept_comes_up_again_and_a_decision_about_what_changed_or_makes_no_sense_changes_nothing(
    review: Review,
) -> None:
    before = review.item
    wrong = [
        (409, {"key": "vault/other"}), (404, {"path": "../../memory.db"}), (404, {"path": before["beside"]}),
        (422, {"decision": "burn"}), (422, {"decision": "merge", "text": ""}),
        (422, {"decision": "merge", "text": before["merged"].replace("entry:af_", "entry:af_1")}),
        (422, {"decision": "merge", "text": before["merged"].replace(WROTE, "")}),
        (422, {"decision": "merge", "text": before["merged"].replace(WROTE, "The password is hunter2-Zq8vXw91.")}),
    ]  # fmt: skip
    for status, change in wrong:
        fields = {"decision": "take", **change}
        assert review.decide(**fields).status_code == status, change
    stale = {name: before[name] for name in ("key", "path")}
    assert review.decide("keep").status_code == 303  # until one side changes
    assert review.items == []
    review.conversations.apply([Edit(id=review.fact.id, fields={"text": "Ann's dog is called Finn."})])
    assert "Finn" in join(review.item["versions"][1])
    assert review.decide("take", **stale).status_code == 409
    assert review.fact.text == "Ann's dog is called Finn."
    assert (review.vault.folder / before["path"]).exists()


@pytest.mark.requirement("page:review", "page:decisions")
def test_what_the_memory_cannot_take_is_shown_with_the_reason_and_can_be_removed(review: Review) -> None:
    review.decide("delete")
    folder = review.vault.folder / "default_app" / "default_project" / "users" / "ann"
    (folder / "plan.conflict-20260528T120000.md").write_text("What a person wrote.")
    assert "none of the vault's own files" in review.item["obstacle"]
    assert "The memory cannot take" in review.browser.show("/page/review")
    assert review.decide("take").status_code == 422
    assert review.decide("delete").status_code == 303
    forgotten = folder / ".atomic_facts" / "atomic_fact-2026-05-28.conflict-20260528T120000.md"
    entry = b"<!-- entry:af_20260528_00000099 -->\nx\n<!-- /entry:af_20260528_00000099 -->\n"
    for content, reason in (
        (entry, "of which the memory has no record"), (b"\xff", "it is not UTF-8 text"),
        (b"x" * 1_000_001, "it is longer than 1,000,000 bytes"),
    ):  # fmt: skip
        forgotten.write_bytes(content)
        assert review.item["obstacle"].endswith(reason)
    forgotten.unlink()
    with open(os.fsencode(folder) + b"/\xff.conflict-1.md", "w"):  # a name that is no text
        assert review.items == []


@pytest.mark.requirement("page:reach")
def test_a_limited_token_and_another_scope_see_nothing_of_the_vault(review: Review) -> None:
    assert review.browser.read("review", scope="rest/default/default")["counts"]["vault"] == 1
    assert review.browser.read("review", scope="notes")["counts"]["vault"] == 0
    shown = {name: review.item[name] for name in ("key", "path")}
    token = review.browser.tokens.add("shop", app="default")
    bearer = {"Authorization": f"Bearer {token}"}
    limited = review.browser.client.get("/api/page/review", headers=bearer)
    assert limited.status_code == 200
    assert limited.json()["counts"]["vault"] == 0
    fields = {"form_token": review.browser.get_form_token(), "decision": "delete", "sort": "vault", **shown}
    headers = {"Origin": "http://127.0.0.1", **bearer}
    assert review.browser.client.post("/page/review/decide", data=fields, headers=headers).status_code == 404
    assert [*review.vault.folder.rglob("*.conflict-*")] != []
