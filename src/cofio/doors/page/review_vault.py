"""What the vault could not take in: the memory takes a person's version, as it is or edited, or keeps its own."""

from __future__ import annotations

import re

from ...values.errors import Conflict, Invalid, NotFound, Unavailable
from ...values.records import Scope
from ...values.scopes import REVIEW
from ...vault.conflicts import ConflictFile, ConflictFiles
from .review_items import ReviewItem, TextPart, make_digest, make_note, mark_differences
from .text_differences import compare_texts
from .view_types import ViewRequest

MOST_CONFLICTS = 50
_MARKER = re.compile(r"<!-- /?entry:.* -->")
EDITABLE = 100_000  # characters of a version that can be edited on the page


def list_conflicts(request: ViewRequest, scope: Scope) -> tuple[list[ReviewItem], str]:
    """What the vault could not take in within a scope, for those who see everything; and why that cannot be told."""
    conflicts = _open_conflicts(request)
    if conflicts is None:
        return [], ""
    try:
        found = conflicts.list_all(MOST_CONFLICTS)
    except (Unavailable, OSError) as error:
        return [], str(error) if request.viewer.token is None else "it cannot be read here"
    return [
        ReviewItem(
            sort="vault", key=_make_key(each), why="changed in its file and in the memory", likeness=None, sides=(),
            merged="" if each.obstacle or len(each.theirs) > EDITABLE else each.theirs, path=each.path,
            beside=each.beside, versions=_compare(each), obstacle=each.obstacle,
        )
        for each in found
        if each.home in scope
    ], ""  # fmt: skip


def settle_conflict(request: ViewRequest, decision: str) -> str:
    """Carry out a decision about a version that the vault could not take in; a sentence about it.

    Raises:
        NotFound: there is no such file, or the viewer does not see it.
        Conflict: it, or the memory, has changed since the viewer was shown it.
        Invalid: there is no such decision, or the text cannot be taken.
    """
    path = request.get("path")
    conflicts = _open_conflicts(request)
    if conflicts is None:
        raise NotFound(path)
    found = conflicts.get(path)
    if request.get("key") != _make_key(found):
        raise Conflict(path)
    if decision == "keep":
        request.conversations.apply([make_note(REVIEW, _make_key(found), {})])
        return "Both stay as they are."
    if decision == "delete":
        conflicts.remove(path)
        return "The memory's text is kept; the file beside it is removed."
    if decision not in ("take", "merge"):
        raise Invalid("decision", "expected keep, take, merge or delete")
    text = found.theirs if decision == "take" else request.get("text").replace("\r\n", "\n")
    request.conversations.apply(conflicts.plan_changes(found, text))
    conflicts.remove(path)  # after the change: a crash between the two loses nothing
    return "The memory says it now; the file beside it is removed."


def _open_conflicts(request: ViewRequest) -> ConflictFiles | None:
    """The vault's conflicts, for those who see everything; None for others, and where there is no vault."""
    server = request.server
    if server is None or request.viewer.reach.names or not server.settings.vault:
        return None
    return ConflictFiles(request.engine, server.address.home, server.settings.zone)


def _compare(found: ConflictFile) -> tuple[tuple[TextPart, ...], ...]:
    """Both versions, without what stands in both, as most of a day's file does, and without the marks of entries."""
    if not found.ours:
        return mark_differences(found.theirs, "")
    lines = [each for each in compare_texts(found.ours, found.theirs) if not _MARKER.fullmatch(each.text)]
    theirs, ours = ("\n".join(each.text for each in lines if each.sort != other) for other in ("old", "new"))
    return mark_differences(theirs.strip(), ours.strip())


def _make_key(found: ConflictFile) -> str:
    return f"vault/{make_digest(found.path, found.theirs, found.ours)}"
