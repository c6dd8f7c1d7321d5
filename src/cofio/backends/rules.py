"""The rules of memory: what each change means, over the rows of one transaction.

What is a duplicate, when a key's holder makes room, who wins a restore, when a vector is out of date: every backend has
these from here. They look and then write, so the transaction must be serializable, or must run again when it was not:
what a Vacant, a duplicate or a key's holder was found to be must still be so when it is committed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from ..text.tokenizer import build_embed_text, count_words
from ..values.changes import EDITABLE, Change, Delete, Drop, Edit, Extend, Put, Vacant
from ..values.errors import Conflict, NotFound
from ..values.records import NOT_SEARCHABLE, Draft, Record, Similar, encode_json, make_record, new_id
from .record_interface import PreparedText, Transaction

if TYPE_CHECKING:
    from ..values.changes import Vector

_decode_json = json.JSONDecoder().raw_decode  # what was encoded here has no space around it, which json.loads looks for
PreparedTexts: TypeAlias = Mapping[int, PreparedText]
"""What was prepared of drafts, by the identity of each."""


def prepare(changes: Sequence[Change]) -> PreparedTexts:
    """Take the drafts' texts apart, which is the slow part of a write: to be done before the transaction."""
    return {id(change.draft): prepare_text(change.draft) for change in changes if isinstance(change, Put)}


def prepare_text(draft: Draft | Record) -> PreparedText:
    """Take the text of a draft or record apart."""
    words = 0
    if draft.kind not in NOT_SEARCHABLE:
        words = count_words(
            title=draft.title, text=draft.text, tags=draft.tags, author=draft.author, key=draft.key, data=draft.data
        )
    data = encode_json(draft.data)
    # What has no text is told by its title and data; the line end before them keeps it apart from any text.
    body = " ".join(draft.text.split()) or f"\n{' '.join(draft.title.split())}\n{data}"
    return PreparedText(words, _hash(body), _encode_tags(draft.tags), data)


def digest_text(text: str) -> bytes:
    """The digest of a record with this text: equal for texts that differ in white space only."""
    return _hash(" ".join(text.split()))


def is_expired(record: Record, now: datetime) -> bool:
    """Whether a record has expired, and so counts as gone."""
    return record.expires_at is not None and record.expires_at <= now


def frees_space(changes: Sequence[Change]) -> bool:
    """Return whether changes delete records and add none."""
    adds = any(isinstance(change, Put) and not change.if_version for change in changes)
    return not adds and any(isinstance(change, Delete | Drop) for change in changes)


def apply(transaction: Transaction, changes: Sequence[Change], prepared: PreparedTexts) -> list[Record | int]:
    """Make the changes in order; for each the record as it now is, or how many records were forgotten.

    Raises:
        NotFound, Conflict, Invalid: a change cannot be made; the transaction must be undone.
    """
    answers = [_apply_one(transaction, change, prepared) for change in changes]
    _store_vectors(transaction, changes)
    return answers


def _apply_one(transaction: Transaction, change: Change, prepared: PreparedTexts) -> Record | int:
    match change:
        case Put():
            return _put(transaction, change, prepared)
        case Edit():
            return _edit(transaction, change)
        case Delete():
            _find_live(transaction, change.id, change.if_version)
            return transaction.delete(change.id)
        case Drop():
            return transaction.drop_scope(change.scope)
        case Vacant():
            _require_vacant(transaction, change)
        case Extend():
            transaction.set_expiry(change.id, _find_expiry(transaction, change.ttl, change.expires_at))
    return 0


def _put(transaction: Transaction, put: Put, prepared: PreparedTexts) -> Record:
    draft = put.draft
    text = prepared.get(id(draft)) or prepare_text(draft)
    expires_at = _find_expiry(transaction, put.ttl, draft.expires_at)
    if put.how == "restore":
        return _restore(transaction, draft, text, expires_at)
    if put.on_duplicate == "return" and draft.key is None:  # what has a key is known by it, not by its text
        found = transaction.by_digest(draft.scope, draft.kind, text.digest)
        if found is not None:
            return replace(found, existed=True)
    if draft.key is not None:
        holder = _find_holder(transaction, draft)
        version = holder.version if holder else 0
        if put.if_version not in (None, version):
            raise Conflict(draft.key, expected=put.if_version, found=version)
        if holder is not None:
            if put.how == "new":
                raise Conflict(draft.key, expected=0, found=version)
            return _replace(transaction, holder, draft, text, expires_at, keep_given=False)
    if draft.id is not None:
        _make_room(transaction, draft.id)
    duplicate = None
    if put.on_duplicate == "report":
        duplicate = transaction.by_digest(draft.scope, draft.kind, text.digest)
    record = _insert(transaction, draft, text, expires_at, version=1)
    if duplicate is None:
        return record
    return replace(record, similar=(Similar(id=duplicate.id, title=duplicate.title, likeness=1.0),))


def _restore(transaction: Transaction, draft: Draft, text: PreparedText, expires_at: datetime | None) -> Record:
    """Put back a record as it was exported, unless the store has it, or another under its key, as new or newer."""
    assert draft.id is not None
    assert draft.version is not None
    assert draft.updated_at is not None
    found = transaction.by_id(draft.id)
    if found is not None and (found.version, found.updated_at) >= (draft.version, draft.updated_at):
        return replace(found, existed=True)
    holder = None if draft.key is None else _find_holder(transaction, draft)
    if holder is not None and holder.id != draft.id:
        if holder.updated_at >= draft.updated_at:
            return replace(holder, existed=True)
        transaction.delete(holder.id)
    if found is not None:
        transaction.delete(found.id)
    return _insert(transaction, draft, text, expires_at, version=draft.version)


def _edit(transaction: Transaction, edit: Edit) -> Record:
    old = _find_live(transaction, edit.id, edit.if_version)
    draft = Draft(**{name: getattr(old, name) for name in EDITABLE} | {"kind": old.kind} | dict(edit.fields))
    if draft.key is not None and (draft.key, draft.scope) != (old.key, old.scope):
        holder = _find_holder(transaction, draft)
        if holder is not None:
            raise Conflict(draft.key, expected=0, found=holder.version)
    expires_at = _find_expiry(transaction, edit.ttl, draft.expires_at)
    return _replace(transaction, old, draft, prepare_text(draft), expires_at, keep_given=True)


def _require_vacant(transaction: Transaction, vacant: Vacant) -> None:
    found = transaction.first_key(vacant.scope, vacant.kind, vacant.first, vacant.past)
    if found is not None:
        key, version = found
        raise Conflict(key, expected=0, found=version)


def _find_live(transaction: Transaction, record_id: str, if_version: int | None) -> Record:
    found = transaction.by_id(record_id)
    if found is None or is_expired(found, transaction.now):
        raise NotFound(record_id)
    if if_version is not None and if_version != found.version:
        raise Conflict(record_id, expected=if_version, found=found.version)
    return found


def _find_holder(transaction: Transaction, draft: Draft) -> Record | None:
    """The live record that has the draft's key; one that has expired makes room."""
    assert draft.key is not None
    found = transaction.by_key(draft.scope, draft.kind, draft.key)
    if found is not None and is_expired(found, transaction.now):
        transaction.delete(found.id)
        return None
    return found


def _make_room(transaction: Transaction, record_id: str) -> None:
    """Make sure that an id is free; a record that has expired makes room."""
    found = transaction.by_id(record_id)
    if found is None:
        return
    if not is_expired(found, transaction.now):
        raise Conflict(record_id)
    transaction.delete(record_id)


def _insert(
    transaction: Transaction, draft: Draft, text: PreparedText, expires_at: datetime | None, *, version: int
) -> Record:
    now = transaction.now
    record = _make_record(
        draft, text, draft.id or new_id(now), expires_at,
        created_at=draft.created_at or now, updated_at=draft.updated_at or now, version=version,
    )  # fmt: skip
    transaction.insert(record, text, draft.given or {})
    return record


def _replace(
    transaction: Transaction, old: Record, draft: Draft, text: PreparedText, expires_at: datetime | None,
    *, keep_given: bool,
) -> Record:  # fmt: skip
    """Give the record `old` the draft's content, one version up, under its own id and time of creation.

    The vectors that were given with it stay only if they may be kept, and it says the same as before.
    """
    restated = _join_text(old) != _join_text(draft)
    record = _make_record(
        draft, text, old.id, expires_at,
        created_at=old.created_at, updated_at=draft.updated_at or transaction.now, version=old.version + 1,
    )  # fmt: skip
    given = None if keep_given and not restated else draft.given or {}
    transaction.update(record, text, given, restated=restated)
    return record


def _make_record(
    draft: Draft, text: PreparedText, record_id: str, expires_at: datetime | None,
    *, created_at: datetime, updated_at: datetime, version: int,
) -> Record:  # fmt: skip
    """The record that storing `draft` makes, with data of its own."""
    return make_record((
        record_id, draft.scope, draft.kind, draft.key, draft.title, draft.text,
        None if draft.data is None else _decode_json(text.data)[0], draft.tags,
        draft.importance, draft.author, draft.source, draft.parent, draft.position,
        created_at.astimezone(UTC), updated_at.astimezone(UTC),
        None if expires_at is None else expires_at.astimezone(UTC), version,
    ))  # fmt: skip


def _find_expiry(transaction: Transaction, ttl: timedelta | None, expires_at: datetime | None) -> datetime | None:
    """When something expires. A lifetime counts by the store's time, which is what expiry is judged by."""
    return expires_at if ttl is None else transaction.now + ttl


def _store_vectors(transaction: Transaction, changes: Sequence[Change]) -> None:
    """Store the vectors that came with drafts, of those whose records now have the very texts of the drafts."""
    vectors: dict[str, dict[str, Vector]] = {}
    for change in changes:
        if not isinstance(change, Put) or change.vector is None or change.draft.id is None:
            continue
        record = transaction.by_id(change.draft.id)
        text = _join_text(change.draft)
        if record is not None and record.kind.has_vector and text and text == _join_text(record):
            vectors.setdefault(change.vector.embedder, {})[record.id] = change.vector.vector
    for embedder, by_id in vectors.items():
        transaction.store_vectors(embedder, by_id, {})


def _join_text(of: Record | Draft) -> str:
    """What a vector is made of."""
    return build_embed_text(title=of.title, text=of.text, tags=of.tags, data=of.data)


@lru_cache(maxsize=4096)  # the same few sets of tags come again and again
def _encode_tags(tags: tuple[str, ...]) -> str:
    return encode_json([*tags])


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
