"""A check of vector codes beside the work that replaces their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio import Engine, Scope, Settings
from cofio.backends.sqlite import SqliteBackend, vector_codes
from cofio.embed.hashed import HashedEmbedder

QUIET = Settings(background=False, embedder="none", sync="normal")


def test_a_file_that_is_replaced_during_a_check_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_codes, "TAIL", 1)
    with Engine.open(tmp_path, settings=QUIET, embedder=HashedEmbedder()) as memory:
        memory.write(Scope("a"), text="fig")
        memory.settle()
        (first,) = (tmp_path / "vectors").glob("*.codes")
        is_intact = vector_codes._is_intact

        def replace(path: Path) -> bool:
            monkeypatch.setattr(vector_codes, "_is_intact", is_intact)
            found = is_intact(path)
            memory.write(Scope("a"), text="plum")
            memory.settle()
            assert not first.exists()
            return found

        monkeypatch.setattr(vector_codes, "_is_intact", replace)
        assert isinstance(memory._backend, SqliteBackend)
        assert memory.check() == []
        (second,) = (tmp_path / "vectors").glob("*.codes")
        second.write_bytes(b"torn")
        assert memory.check() == [f"vectors/{second.name} is missing, torn or out of date"]
