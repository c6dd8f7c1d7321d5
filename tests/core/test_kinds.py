"""What is stored of a kind, and must not change."""

from __future__ import annotations

import copy
import pickle

from cofio import Kind
from cofio.values.records import NOT_SEARCHABLE


def test_the_numbers_of_kinds_are_those_in_the_vector_files_of_every_store() -> None:
    assert {kind.value: kind.number for kind in Kind} == {
        "note": 0, "state": 1, "item": 2, "file": 3, "memory": 4, "turn": 5, "episode": 6, "fact": 7, "profile": 8,
        "case": 9, "skill": 10, "revision": 11, "ledger": 12, "document": 13, "topic": 14,
    }  # fmt: skip


def test_a_kind_is_the_text_of_its_name() -> None:
    for kind in Kind:
        assert kind == kind.value == str(kind) == f"{kind}"
        assert Kind(kind.value) is kind
        assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind


def test_what_is_kept_for_own_use_is_not_searchable() -> None:
    assert {Kind.REVISION, Kind.LEDGER} == NOT_SEARCHABLE
