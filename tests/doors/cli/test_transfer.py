"""`cofio export` and `import`: every record leaves as a line and comes back as it was."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import stat
import threading
from pathlib import Path

import pytest
from tests.waiting import join

from cofio import Draft, Engine, Scope
from cofio.doors.cli import transfer
from cofio.embed.hashed import HashedEmbedder

from .conftest import Cofio


@pytest.fixture
def many(memory: Engine) -> None:
    """Records of all sorts: more than one batch, and some that are awkward."""
    memory.write_many([Draft(scope=Scope("bulk"), text=f"record {number}") for number in range(510)])
    memory.write(
        Scope("a/b", "%", "日本"), text='"quotes"\n\ttabs, é, 🦊, \u2028 and \x1b[31m', tags=["x", "Ü"], ttl=9999
    )
    memory.put(Scope("s"), "key\nwith a line", data={"n": [1, 2.5, None, True, {"": "\x7f"}]}, importance="critical")
    memory.write(Scope(), text="at the root", kind="turn", parent="p", position=-3, author="ann")


def records(cofio: Cofio, *store: str) -> int:
    return int(str(cofio("stats", *(["--store", *store] if store else []), "--json").json["records"]))


@pytest.mark.usefixtures("many")
def test_an_export_that_is_imported_elsewhere_exports_the_same_bytes(cofio: Cofio, folder: Path) -> None:
    lines = cofio("export").out
    for name in ("all.jsonl", "all.jsonl.gz"):
        assert cofio("export", name).out == f"exported 513 records to {name}\n"
        assert cofio("import", name, "--store", f"of-{name}").out == "imported 513 records\n"
        cofio("export", f"again-{name}", "--store", f"of-{name}")
        assert (folder / name).read_bytes() == (folder / f"again-{name}").read_bytes()
    assert (folder / "all.jsonl").read_text() == lines
    for store, argv, waiting in (("now", [], 0), ("later", ["--no-vectors"], 513)):
        assert cofio("import", "-", "--store", store, *argv, stdin=lines).code == 0
        stats = cofio("stats", "--store", store, "--json").json
        assert (stats["waiting_for_vectors"], stats["waiting_for_index"]) == (waiting, 0)
    assert cofio("export", "-", "--store", "later").out == lines
    assert cofio("doctor", "--store", "now").code == 0


@pytest.mark.usefixtures("many")
def test_the_same_import_again_changes_nothing(cofio: Cofio) -> None:
    lines = cofio("export").out
    ran = cofio("import", "-", stdin=lines)
    assert ran.out == "imported 0 records; 513 records were here already, as new or newer\n"
    assert cofio("import", "-", "--json", stdin=lines).json == {"imported": 0, "kept": 513, "skipped": 0}
    assert cofio("export").out == lines
    (line,) = cofio("export", "--scope", "s").out.splitlines()
    assert json.loads(line)["key"] == "key\nwith a line"
    assert cofio("export", "one.jsonl", "--scope", "s", "--json").json == {"exported": 1, "file": "one.jsonl"}


@pytest.mark.parametrize("name", ["nosuch/x.jsonl", "nosuch/x.jsonl.gz", "folder"])
def test_an_export_that_cannot_be_names_the_file_that_was_asked_for(cofio: Cofio, folder: Path, name: str) -> None:
    (folder / "folder").mkdir()
    cofio("add", "x", "--store", "s")
    ran = cofio("export", name, "--store", "s")
    assert ran.code == 1
    assert re.fullmatch(rf"cofio: [^\n]*{re.escape(str(folder))}/{re.escape(name)}( is| cannot) [^\n]*\n", ran.err)
    assert sorted(path.name for path in folder.iterdir()) == ["folder", "s"]


def test_an_export_is_private_and_replaces_a_file_only_when_it_is_whole(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cofio("add", "x")
    cofio("export", "file.jsonl")
    before = (folder / "file.jsonl").read_bytes()
    assert stat.S_IMODE((folder / "file.jsonl").stat().st_mode) == 0o600
    cofio("add", "y")

    def fail(source: str, target: str, **_: int) -> None:
        raise OSError(28, "No space left on device", source)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        ran = cofio("export", "file.jsonl")
    assert ran.code == 1
    assert ran.err == f"cofio: the disk that holds {folder}/file.jsonl is full; free some space and try again\n"
    assert (folder / "file.jsonl").read_bytes() == before
    assert {path.name for path in folder.iterdir()} - {".cofio"} == {"file.jsonl"}


def test_an_export_follows_a_link_and_writes_into_a_pipe(cofio: Cofio, folder: Path) -> None:
    cofio("add", "x")
    (folder / "real.jsonl").write_text("old")
    (folder / "link.jsonl").symlink_to("real.jsonl")
    cofio("export", "link.jsonl")
    assert (folder / "link.jsonl").is_symlink()
    assert (folder / "real.jsonl").read_text() == cofio("export").out
    os.mkfifo(folder / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((folder / "pipe").read_text()))
    reader.start()
    assert cofio("export", "pipe").code == 0
    join(reader)
    assert read == [cofio("export").out]
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)


@pytest.mark.usefixtures("many")
def test_a_cut_off_file_is_told_with_its_line_and_what_came_before_stays(cofio: Cofio, folder: Path) -> None:
    cofio("export", "all.jsonl")
    whole = (folder / "all.jsonl").read_bytes()
    (folder / "cut.jsonl").write_bytes(whole[: len(whole) - 40])
    ran = cofio("import", "cut.jsonl", "--store", "other")
    assert (ran.code, ran.out) == (1, "")
    assert "cofio: cut.jsonl, line 513: is not JSON" in ran.err
    assert "; 512 records before it went in; mend it, or pass it over with --skip-bad" in ran.err
    assert records(cofio, "other") == 512
    assert cofio("import", "all.jsonl", "--store", "other").out.startswith("imported 1 record; 512 records were here")
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(whole)[:5000])
    ran = cofio("import", "cut.jsonl.gz", "--store", "packed")
    assert (ran.code, "cannot be unpacked" in ran.err) == (1, True)
    assert 0 < records(cofio, "packed") < 513


def test_a_bad_line_is_passed_over_only_when_asked(cofio: Cofio) -> None:
    cofio("add", "first")
    cofio("add", "second")
    first, second = cofio("export").out.splitlines()
    lines = f"{first}\n\nnonsense\n{second}\n"
    refused = cofio("import", "-", "--store", "other", stdin=lines)
    assert refused.code == 1
    assert "stdin, line 3: is not JSON" in refused.err
    assert "; 1 record before it went in;" in refused.err
    accepted = cofio("import", "-", "--store", "other", "--skip-bad", stdin=lines)
    assert accepted.code == 0
    assert accepted.err.startswith("cofio: line 3 passed over: is not JSON")
    assert accepted.out == "imported 1 record; 1 record was here already, as new or newer; 1 bad line passed over\n"


def test_what_is_no_record_of_ours_is_told_and_nothing_goes_in(cofio: Cofio) -> None:
    for line, said in (
        ('{"title": "a chunk", "content": "x"}', "is not a field of a record"),
        ("null", "is not a JSON object"),
        ("{}", "id: is missing; each line of an export has it"),
        ('{"id": NaN', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
    ):
        ran = cofio("import", "-", stdin=line)
        assert (ran.code, ran.out) == (1, "")
        for part in ("stdin, line 1: ", said, "; nothing went in;"):
            assert part in ran.err
    record = json.loads(cofio("add", "x", "--json").out)
    del record["existed"], record["similar"]
    for change in ({"kind": "chunk"}, {"scope": "mcp"}, {"version": 0}, {"created_at": "yesterday"}, {"text": None},
                   {"data": {"n": float("nan")}}, {"extra": 1}, {"title": "\ud800"}):  # fmt: skip
        ran = cofio("import", "-", stdin=json.dumps(record | {"id": "new"} | change))
        assert (ran.code, "stdin, line 1: " in ran.err) == (1, True), change
    assert records(cofio) == 1


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(cofio: Cofio) -> None:
    cofio("add", "x")
    lines = cofio("export").out
    given = b"\xef\xbb\xbf" + lines.replace("\n", "\r\n").encode()
    assert cofio("import", "-", "--store", "other", stdin=given).code == 0
    assert cofio("export", "--store", "other").out == lines


def test_a_line_longer_than_any_record_is_not_read_into_memory(cofio: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    cofio("add", "x")
    line = cofio("export").out
    monkeypatch.setattr(transfer, "LONGEST_LINE", 1000)
    ran = cofio("import", "-", "--store", "other", "--skip-bad", stdin="y" * 2500 + "\n" + line)
    assert "line 1 passed over: is longer than any record" in ran.err
    assert ran.out == "imported 1 record; 1 bad line passed over\n"


def test_a_record_whose_key_moved_meanwhile_is_imported_in_its_place(cofio: Cofio) -> None:
    one = json.loads(cofio("add", "one", "--key", "a", "--json").out)
    cofio("add", "two", "--key", "b")
    del one["existed"], one["similar"]
    one |= {"key": "b", "version": 2, "updated_at": "2999-01-01T00:00:00+00:00"}
    assert cofio("import", "-", stdin=json.dumps(one)).out == "imported 1 record\n"
    assert [row[4:] for row in cofio("list").rows] == [["b", "one"]]


class Stopped(io.BytesIO):
    """Input during which Ctrl-C is pressed."""

    def readline(self, size: int | None = -1) -> bytes:
        """The next line, until there is none."""
        line = super().readline(size)
        if not line:
            raise KeyboardInterrupt
        return line


@pytest.mark.usefixtures("many")
def test_an_import_that_is_stopped_keeps_whole_batches_and_goes_on_next_time(cofio: Cofio) -> None:
    lines = cofio("export").out
    ran = cofio("import", "-", "--store", "other", stdin=Stopped(lines.encode()))
    assert (ran.code, ran.out) == (130, "")
    assert "cofio: stopped after 500 records, which stay; the same import again does the rest\n" in ran.err
    assert records(cofio, "other") == 500
    assert cofio("import", "-", "--store", "other", stdin=lines).out.startswith("imported 13 records; 500 records were")


def test_stopping_the_embedding_of_an_import_keeps_every_record(cofio: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    cofio("add", "kestrel")
    lines = cofio("export").out

    def stop(embedder: HashedEmbedder, texts: list[str]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HashedEmbedder, "embed", stop)
        ran = cofio("import", "-", "--store", "other", stdin=lines)
    assert (ran.code, ran.out) == (130, "imported 1 record\n")
    assert "stopped; every record is in and found by its words, and `cofio reindex` embeds the rest" in ran.err
    assert len(cofio("search", "kestrel", "--store", "other").rows) == 1


def test_a_file_that_cannot_be_read_is_told_and_makes_no_memory(cofio: Cofio, folder: Path) -> None:
    for file in ("nosuchfile", ".", "nosuchfile.gz"):
        ran = cofio("import", file)
        assert (ran.code, ran.out) == (1, "")
        assert re.fullmatch(rf"cofio: (there is no file )?{re.escape(file)}(;| is a folder;) name [^\n]*\n", ran.err)
    assert list(folder.iterdir()) == []
    (folder / "plain.gz").write_text("{}")
    assert "plain.gz, line 1: cannot be unpacked (Not a gzipped file" in cofio("import", "plain.gz").err
    (folder / "empty.gz").write_bytes(gzip.compress(b""))
    assert cofio("import", "empty.gz").out == "imported 0 records\n"
