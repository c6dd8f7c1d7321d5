"""The command line on every backend: what it writes is read, found, changed, copied and forgotten."""

from __future__ import annotations

import json
from pathlib import Path

from cofio.config.address import StoreAddress

from .conftest import Cofio


def test_a_record_is_added_shown_found_listed_edited_and_forgotten(cofio: Cofio, default_store: StoreAddress) -> None:
    added = cofio("add", "The deploy runs on Fridays.", "--title", "Going live", "--tag", "ops", "--scope", "team/ops")
    assert f"made a new memory in {default_store}" in added.err
    cofio("add", "Amounts are whole cents.", "--kind", "fact", "--data", '{"n": 3}')
    assert cofio("show", added.id[:20], "--json").json["text"] == "The deploy runs on Fridays."
    for mode in ("hybrid", "keyword", "semantic"):
        assert cofio("search", "deploy fridays", "--mode", mode).rows[0][2] == added.id
    assert [row[1] for row in cofio("list", "--where", "data.n>=3").rows] == ["fact"]
    assert [row[0] for row in cofio("list", "--tag", "ops", "--scope", "team").rows] == [added.id]
    assert cofio("edit", added.id, "--text", "The deploy runs on Mondays.").code == 0
    assert [row[2] for row in cofio("search", "mondays", "--mode", "keyword").rows] == [added.id]
    assert cofio("scopes").rows == [["mcp", "1"], ["team/ops", "1"]]
    assert cofio("rm", added.id).out == "forgot 1 record\n"
    assert cofio("rm", "--scope", "/", "--yes").out == "forgot 1 record\n"
    assert (cofio("list").rows, cofio("show", added.id).code) == ([], 1)


def test_a_key_holds_one_record_and_an_import_does_not_overwrite_a_newer_one(cofio: Cofio) -> None:
    first = cofio("add", "main", "--key", "branch").id
    older = cofio("export").out
    assert cofio("add", "release", "--key", "branch", "--json").json["id"] == first
    assert cofio("add", "release", "--dedupe").code == 0
    assert cofio("add", "release", "--dedupe", "--json").json["existed"] is True
    assert cofio("import", "-", "--json", stdin=older).json == {"imported": 0, "kept": 1, "skipped": 0}
    assert cofio("show", "--key", "branch", "--json").json["text"] == "release"


def test_an_export_and_a_backup_hold_everything(cofio: Cofio, store_home: Path) -> None:
    for number in range(30):
        cofio("add", f"record {number}", "--key", f"k{number}")
    lines = cofio("export").out
    for store in ("copy", "other"):
        ran = cofio("backup", store) if store == "copy" else cofio("import", "-", "--store", store, stdin=lines)
        assert ran.code == 0
        assert cofio("export", "--store", store).out == lines
    assert cofio("reindex", "--vectors", "--json").json == {"records": 30, "waiting_for_vectors": 0}
    stats = cofio("stats", "--json").json
    assert (stats["records"], stats["waiting_for_vectors"]) == (30, 0)
    report = cofio("doctor", "--json").json
    assert (report["problems"], report["mended"]) == ([], [])


def test_files_and_conversations_are_kept(cofio: Cofio) -> None:
    cofio("files", "write", "notes/a.md", "on Friday")
    assert cofio("files", "edit", "notes/a.md", "Friday", "Monday").code == 0
    assert cofio("files", "mv", "notes", "kept").code == 0
    assert cofio("files", "cat", "kept/a.md").out == "on Monday"
    assert [row[2] for row in cofio("files", "log", "kept/a.md").rows][-1] == "edit"
    ran = cofio("chat", "import", "-", "--session", "s", stdin="Anna: I moved to Oslo in May.\nassistant: Nice.\n")
    assert ran.out == "imported 2 messages of 1 conversation as 1 episode\n"
    hits = cofio("search", "where does Anna live", "--scope", "rest", "--floor", "0", "--json").json["hits"]
    assert "Oslo" in json.dumps(hits)
