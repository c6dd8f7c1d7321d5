"""Documents are there whole or not at all, and are found, replaced, carried along and forgotten with all they have."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cofio import Engine, Invalid, Kind, NotFound, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.content import Unreadable
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.retrieval import MemoryQuery
from cofio.doors.cli import main
from cofio.embed.hashed import HashedEmbedder
from cofio.knowledge import Documents, StoredDocument, Upload, get_topic_path, summarise_topic
from cofio.knowledge.documents import SEARCHED_FOR_SECRETS, UNSEARCHED_FILE
from cofio.knowledge.originals import PART
from cofio.knowledge.uploads import UNSAFE_FILE

from ..content.making import pdf

pytestmark = pytest.mark.usefixtures("process")

HERE = Project()
SETTINGS = Settings(background=False, embedder="none", sync="normal")
GUIDE = """# Running the kitchen

Before anything else, wash your hands.

## Bread

Mix flour, water and salt, and let the dough rest overnight.

## Soup

### Stock

Simmer the bones for six hours.
"""
SECRET = "gh" + "p_" + "a8Kd02mXq91LsPz7Rt" + "VbYw34NcEfGh56Jk78"


@pytest.fixture
def engine(store: StoreAddress) -> Iterator[Engine]:
    """An empty memory."""
    with Engine.open(store, settings=SETTINGS, embedder=HashedEmbedder()) as engine:
        yield engine


@pytest.fixture
def documents(engine: Engine) -> Documents:
    """Its documents."""
    return Documents(engine)


def upload(text: str = GUIDE, title: str = "Kitchen", name: str = "kitchen.md", category: str | None = None) -> Upload:
    """A file of Markdown."""
    return Upload(data=text.encode(), title=title, name=name, mime="text/markdown", category=category)


def text_of(documents: Documents, stored: StoredDocument, place: Project = HERE) -> str:
    """What a document's topics say together."""
    return "".join(topic.text for topic in documents.read_whole(place, stored.record.id)[1])


def found(documents: Documents, text: str, place: Project = HERE) -> list[str]:
    """The names of the topics that a search finds."""
    answer = documents.search(place, MemoryQuery(text=text, mode="keyword", limit=10))
    return [get_topic_path(each.record)[-1] for each in answer.hits]


def test_a_document_is_a_record_and_so_is_each_topic(engine: Engine, documents: Documents) -> None:
    stored = documents.add(HERE, upload())
    record, topics = documents.read_whole(HERE, stored.record.id)
    assert (record.kind, record.title) == (Kind.DOCUMENT, "Kitchen")
    assert record.text.startswith("Before anything else, wash your hands. Topics: ") is False  # one topic at the top
    assert record.text == "Before anything else, wash your hands."
    assert [(topic.id, topic.title) for topic in topics] == [
        (f"{record.id}_1", "Kitchen > Running the kitchen"),
        (f"{record.id}_2", "Kitchen > Running the kitchen > Bread"),
        (f"{record.id}_3", "Kitchen > Running the kitchen > Soup"),
        (f"{record.id}_4", "Kitchen > Running the kitchen > Soup > Stock"),
    ]
    assert summarise_topic(topics[1]) == "Mix flour, water and salt, and let the dough rest overnight."
    assert engine.search("simmer bones")[0].record.title.endswith("Stock")  # like any memory
    assert found(documents, "simmer bones")[0] == "Stock"
    assert "Soup" not in found(documents, "soup")  # which is only a heading
    assert "Stock" in found(documents, "soup")  # by the names that lead to it
    assert text_of(documents, stored) == GUIDE.strip()


def test_the_file_comes_back_as_it_was_sent(documents: Documents) -> None:
    data = b"Some text.\n" + random.Random(7).randbytes(2 * PART // 3).hex().encode()
    assert len(data) > PART
    stored = documents.add(HERE, Upload(data=data[:1_000_000], title="Big", name="../../etc/pass wd.txt"))
    original = documents.read_original(HERE, stored.record.id)
    assert original.data == data[:1_000_000]
    assert original.name == "pass wd.txt"


def test_no_other_project_sees_or_changes_a_document(documents: Documents) -> None:
    stored = documents.add(HERE, upload())
    other = Project(app="other")
    known = stored.record.id
    assert documents.list(other) == ([], 0)
    assert found(documents, "simmer bones", other) == []
    assert documents.delete(other, known) is None
    for call in (
        lambda: documents.read(other, known),
        lambda: documents.read_topic(other, f"{known}_1"),
        lambda: documents.read_original(other, known),
        lambda: documents.replace(other, known, upload()),
        lambda: documents.edit(other, known, title="Mine now"),
    ):
        with pytest.raises(NotFound):
            call()
    assert documents.read(HERE, known).title == "Kitchen"


def test_a_document_is_replaced_under_its_id_with_nothing_left_of_it(engine: Engine, documents: Documents) -> None:
    stored = documents.add(HERE, upload())
    again = documents.replace(HERE, stored.record.id, upload("# New\n\nOnly this.", "Newer", "new.md"))
    assert again.record.id == stored.record.id
    assert again.record.created_at == stored.record.created_at
    assert again.record.updated_at > stored.record.updated_at
    assert found(documents, "bones") == []
    assert documents.read_original(HERE, stored.record.id).data == b"# New\n\nOnly this."
    assert engine.count() == 3  # the document, its topic and its file


def test_what_cannot_be_read_leaves_the_document_as_it_was(engine: Engine, documents: Documents) -> None:
    stored = documents.add(HERE, upload())
    before = sorted(engine.export(), key=lambda record: record.id)
    for bad in (b"", b"   \n", b"%PDF-1.4 nothing", b"PK\x03\x04 broken", bytes(100), b"\x89PNG\r\n\x1a\n" + bytes(20)):
        with pytest.raises(Unreadable):
            documents.replace(HERE, stored.record.id, Upload(data=bad, title="Bad", name="bad.bin"))
        with pytest.raises(Unreadable):
            documents.add(HERE, Upload(data=bad, title="Bad"))
    assert sorted(engine.export(), key=lambda record: record.id) == before


def test_a_title_changes_the_paths_of_all_topics_and_a_category_stays_when_given(documents: Documents) -> None:
    known = documents.add(HERE, upload()).record.id
    assert documents.read(HERE, known).data["category_id"] == "Food"  # type: ignore[call-overload, index]  # it is an object
    record, changed = documents.edit(HERE, known, title="Cooking", category="Own things")
    assert (record.title, changed) == ("Cooking", ["title", "category_id"])
    assert documents.edit(HERE, known, title="Cooking", category="Own things") == (record, [])
    assert all(topic.title.startswith("Cooking > ") for topic in documents.read_whole(HERE, known)[1])
    assert documents.replace(HERE, known, upload()).record.data["category_id"] == "Own things"  # type: ignore[call-overload, index]  # as above
    counts = {category.id: count for category, count in documents.count_categories(HERE)}
    assert (counts["Own things"], counts["Food"], len(counts)) == (1, 0, 21)


def test_a_title_has_to_say_something(documents: Documents) -> None:
    known = documents.add(HERE, upload()).record.id
    for title in ("", "...", "x" * 1001, "nul\0"):
        with pytest.raises(Invalid):
            upload(title=title)
        with pytest.raises(Invalid):
            documents.edit(HERE, known, title=title)


def test_documents_are_listed_by_time_and_title_and_category(documents: Documents) -> None:
    for title, category in (("beta", "A"), ("Alpha", "A"), ("gamma", "B")):
        documents.add(HERE, upload(title=title, category=category))

    def titles(**how: object) -> list[str]:
        return [record.title for record in documents.list(HERE, **how)[0]]  # type: ignore[arg-type]  # each by its name

    assert titles() == ["gamma", "Alpha", "beta"]
    assert titles(newest=False) == ["beta", "Alpha", "gamma"]
    assert titles(sort="title", newest=False) == ["Alpha", "beta", "gamma"]
    assert titles(sort="title", limit=1, offset=1) == ["beta"]
    assert titles(category="A") == ["Alpha", "beta"]
    documents.edit(HERE, documents.list(HERE, newest=False)[0][0].id, category="C")
    assert titles(sort="updated_at")[0] == "beta"
    assert documents.list(HERE, limit=1)[1] == 3


def test_a_secret_is_masked_and_its_file_is_not_kept(engine: Engine, documents: Documents) -> None:
    stored = documents.add(HERE, upload(f"# Access\n\nPush with {SECRET} as before."))
    hidden = documents.add(HERE, Upload(data=f"<html><!-- {SECRET} --><p>Hi.".encode(), title="Page", name="p.html"))
    for each in (stored, hidden):
        assert "secret" in " ".join(each.notes)
        with pytest.raises(NotFound):
            documents.read_original(HERE, each.record.id)
    assert "Push with" in text_of(documents, stored)
    assert not any(SECRET in repr(record) for record in engine.export())
    with pytest.raises(Invalid):
        Documents(engine, door="cli").add(HERE, upload(f"Push with {SECRET} as before."))


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "cp1252"])
def test_a_file_with_a_secret_where_no_reader_looks_is_not_kept_however_it_is_written(
    engine: Engine, documents: Documents, charset: str
) -> None:
    page = f"<html><!-- für den Notfall: {SECRET} --><p>Hallo.".encode(charset)
    stored = documents.add(HERE, Upload(data=page, title="Page", name="p.html"))
    assert stored.notes == (UNSAFE_FILE,)
    with pytest.raises(NotFound):
        documents.read_original(HERE, stored.record.id)


def test_a_file_that_is_too_long_to_be_looked_through_is_not_kept(engine: Engine, documents: Documents) -> None:
    def mail(header: str) -> Upload:
        attached = "\n".join(["QUJD" * 19] * (SEARCHED_FOR_SECRETS // 76))
        parts = ["Content-Type: text/plain\n\nHello from a mail.", "Content-Type: application/zip"]
        parts[1] += f"\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n{attached}"
        head = f"From: a@example.com\nX-Key: {header}\nContent-Type: multipart/mixed; boundary=b\n"
        text = head + "".join(f"\n--b\n{part}" for part in parts) + "\n--b--\n"
        return Upload(data=text.encode(), title="Mail", name="a.eml")

    for header in (SECRET, "nothing"):
        stored = documents.add(HERE, mail(header))
        assert "Hello from a mail." in text_of(documents, stored)
        assert stored.notes == (UNSEARCHED_FILE,)
        with pytest.raises(NotFound):
            documents.read_original(HERE, stored.record.id)
    assert not any(record.kind is Kind.LEDGER for record in engine.export())


def test_a_long_file_that_is_no_text_is_kept(documents: Documents) -> None:
    data = pdf("Written in a PDF.") + b"\0" * SEARCHED_FOR_SECRETS
    stored = documents.add(HERE, Upload(data=data, title="Long", name="a.pdf"))
    assert stored.notes == ()
    assert documents.read_original(HERE, stored.record.id).data == data


def test_the_same_file_twice_is_two_documents_and_the_sender_is_told(documents: Documents) -> None:
    first, second = documents.add(HERE, upload()), documents.add(HERE, upload())
    assert first.record.id != second.record.id
    assert first.notes == ()
    assert first.record.id in " ".join(second.notes)


def test_deleting_a_document_leaves_no_byte_of_it(store: StoreAddress, tmp_path: Path) -> None:
    mark = "zanzibarian" + "quokka"
    with Engine.open(store, settings=SETTINGS) as engine:
        documents = Documents(engine)
        known = documents.add(HERE, upload(f"# Secret plans\n\nThe {mark} rises.")).record.id
        engine.settle()
        assert documents.delete(HERE, known) == 1
        assert documents.delete(HERE, known) is None
        assert engine.count() == 0
        engine.reindex()
        assert engine.scrub()
    files = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert files
    assert not any(mark.encode() in file.read_bytes() for file in files)


def test_forgetting_a_project_forgets_its_documents(engine: Engine, documents: Documents) -> None:
    documents.add(HERE, upload())
    kept = documents.add(Project(app="other"), upload())
    Conversations(engine).deleter.delete_project(HERE)
    assert documents.list(HERE) == ([], 0)
    assert text_of(documents, kept, Project(app="other")) == GUIDE.strip()


def test_a_backup_and_an_export_have_the_documents_whole(
    store: StoreAddress,
    tmp_path: Path,
    engine: Engine,
    documents: Documents,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    stored = documents.add(HERE, upload())
    engine.backup(tmp_path / "backup")
    assert main(["--store", store.spell(), "export"]) == 0
    exported = tmp_path / "memory.jsonl"
    exported.write_bytes(capsysbinary.readouterr().out)
    assert main(["--store", str(tmp_path / "copy"), "import", str(exported)]) == 0
    for folder in ("backup", "copy"):
        with Engine.open(tmp_path / folder, settings=SETTINGS) as other:
            there = Documents(other)
            assert text_of(there, stored) == GUIDE.strip()
            assert there.read_original(HERE, stored.record.id).data == GUIDE.encode()
            assert found(there, "simmer bones") == ["Stock"]
            assert other.stats()["schema"] in (4, 5)  # so that programs that know no documents leave it alone


def test_many_who_change_one_document_leave_one_whole_version(documents: Documents) -> None:
    known = documents.add(HERE, upload()).record.id
    versions = {f"# V{n}\n\n" + "".join(f"## S{m}\n\nbody {n}\n\n" for m in range(n + 1)) for n in range(6)}

    def change(source: str) -> None:
        documents.replace(HERE, known, upload(source))
        documents.edit(HERE, known, title=f"T{len(source)}")

    def look(_: int) -> None:
        whole = "".join(topic.text for topic in documents.read_whole(HERE, known)[1])
        assert whole in {version.strip() for version in versions} | {GUIDE.strip()}
        assert documents.read_original(HERE, known).data.decode() in versions | {GUIDE}

    with ThreadPoolExecutor(8) as pool:
        looks = [pool.submit(look, number) for number in range(30)]
        list(pool.map(change, versions))
        for each in looks:
            each.result()
    record, topics = documents.read_whole(HERE, known)
    text = "".join(topic.text for topic in topics)
    assert text in {version.strip() for version in versions}
    assert documents.read_original(HERE, known).data.decode().strip() == text
    assert all(topic.title.startswith(f"{record.title} > ") for topic in topics)


def test_documents_that_come_in_at_once_are_all_there(documents: Documents) -> None:
    with ThreadPoolExecutor(8) as pool:
        stored = list(pool.map(lambda n: documents.add(HERE, upload(f"# N{n}\n\nbody {n}", f"T{n}")), range(24)))
    assert documents.list(HERE)[1] == 24
    assert {text_of(documents, each) for each in stored} == {f"# N{n}\n\nbody {n}" for n in range(24)}


CHILD = """
import sys
from cofio import Engine, Settings
from cofio.knowledge import Documents, Upload
from cofio.conversations.conversations import Project
engine = Engine.open(sys.argv[1], settings=Settings(background=False, embedder="none"))
documents, known = Documents(engine), None
for n in range(10_000):
    text = f"# V{n}" + "".join(f"\\n\\n## S{m}\\n\\nbody {n} " + "x" * 500 for m in range(60))
    upload = Upload(data=text.encode(), title=f"T{n}", name="a.md")
    if known is None or n % 3 == 0:
        known = documents.add(Project(), upload).record.id
    else:
        documents.replace(Project(), known, upload)
    print(known, n, flush=True)
"""


def test_a_process_that_is_killed_leaves_whole_documents_alone(store: StoreAddress, tmp_path: Path) -> None:
    last: dict[str, int] = {}
    for kill in range(6):
        command = [sys.executable, "-c", CHILD, store.spell()]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(2 + kill)]
        os.kill(child.pid, signal.SIGKILL)
        said += child.communicate(timeout=60)[0].splitlines()
        for known, version in (line.split() for line in said if line.strip().count(" ") == 1):
            last[known] = int(version)
    with Engine.open(store, settings=SETTINGS) as engine:
        documents = Documents(engine)
        listed, total = documents.list(HERE, limit=1000)
        assert len(listed) == total >= len(last)
        for record in listed:
            _, topics = documents.read_whole(HERE, record.id)
            text = "".join(topic.text for topic in topics)
            assert documents.read_original(HERE, record.id).data.decode() == text
            number = int(record.title[1:])
            assert text.startswith(f"# V{number}\n")
            assert len(topics) == 61
            assert number >= last.get(record.id, 0)
        scopes = {scope for scope in engine.scopes(Scope("rest")) if len(scope.names) == 5}
        assert {scope.names[-1] for scope in scopes} == {record.id for record in listed}
