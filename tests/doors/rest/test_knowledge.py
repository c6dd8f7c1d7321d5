"""The knowledge base over HTTP: documents come in as forms, and are listed, read, searched, changed and forgotten."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from random import Random
from string import ascii_letters, digits
from threading import Event
from typing import Any

import anyio
import pytest
from httpx2 import Response
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Scope
from tests.llm.scripted import Asked, Manner, Say, Scripted, broken, empty, fails, refusing, right, wrong_types
from tests.waiting import wait_until

from cofio import Kind
from cofio.config.address import StoreAddress
from cofio.content import MAX_BYTES
from cofio.doors.rest import forms
from cofio.doors.rest.operations import FAR
from cofio.http.tokens import Tokens
from cofio.knowledge import CATEGORIES

from ...content.making import docx, pdf
from ...tiers import scale_examples
from .conftest import Api, Json, enveloped, failed, said, serving

AT = "/api/v2/knowledge"
DOCUMENTS = f"{AT}/documents"
GUIDE = """# Deploying

Deploy on Tuesdays. Never on a Friday.

## Rollback

Run the rollback script, and tell the channel about it.

## Checks

### Smoke tests

The login page has to answer within a second.
"""
NOBODY = "d_0123456789ab"
PLACES: list[Json] = [{}, {"app_id": "other"}, {"project_id": "other"}]
FORM = "multipart/form-data; boundary=x"


def send(
    api: Api, data: bytes | str = GUIDE, name: str = "deploy.md", mime: str = "text/markdown", *,
    at: str = DOCUMENTS, method: str = "POST", title: str | None = "Runbook", **fields: str,
) -> Response:  # fmt: skip
    """The answer to a form with a file."""
    content = data.encode() if isinstance(data, str) else data
    told = {**fields, **({} if title is None else {"title": title})}
    return api.client.request(method, at, files={"file": (name, content, mime)}, data=told)


def add(api: Api, *how: Any, **more: Any) -> Json:
    """A document that was taken in."""
    data: Json = enveloped(send(api, *how, **more), 201)
    return data


def get(api: Api, path: str, **query: Any) -> Any:
    """The data at an address."""
    return enveloped(api.client.get(f"{AT}/{path}", params=query))


def find(api: Api, query: str, **more: Any) -> Json:
    """What a search of the documents finds."""
    data: Json = enveloped(api.client.post(f"{AT}/search", json={"query": query, **more}))
    return data


def names(found: Json) -> list[str]:
    """The names of the hits of a search."""
    return [hit["topic_name"] for hit in found["hits"]]


def raw(api: Api, body: bytes, kind: str = FORM) -> Response:
    """The answer to a body as it is."""
    return api.client.post(DOCUMENTS, content=body, headers={"Content-Type": kind})


def form(*parts: tuple[str, bytes], end: bytes = b"--x--\r\n") -> bytes:
    """A form of parts, each with what stands after form-data in its header."""
    written = (f"--x\r\nContent-Disposition: form-data{head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts)
    return b"".join(written) + end


FILE = ('; name="file"; filename="a.md"', b"# A\n\ntext")
TITLE = ('; name="title"', b"T")


@pytest.mark.requirement("knowledge.add", "knowledge.get", "knowledge.topic")
def test_a_file_becomes_a_document_with_a_tree_of_topics(api: Api) -> None:
    made = add(api, source_type="file", category_id="Operations")
    known = made["doc_id"]
    assert re.fullmatch(r"d_[a-f0-9]{12,32}", known)
    assert made == {
        "doc_id": known, "category_id": "Operations", "topic_count": 4, "source_name": "deploy.md",
        "md_path": f"{DOCUMENTS}/{known}/markdown", "original_file_path": f"{DOCUMENTS}/{known}/original",
    }  # fmt: skip
    told = get(api, f"documents/{known}")
    topics = told.pop("topics")
    assert datetime.fromisoformat(told.pop("created_at")) == datetime.fromisoformat(told.pop("updated_at"))
    assert told == {
        "doc_id": known, "category_id": "Operations", "title": "Runbook", "source_name": "deploy.md",
        "source_type": "file", "summary": "Deploy on Tuesdays. Never on a Friday.",
        "original_file_path": f"{DOCUMENTS}/{known}/original",
    }  # fmt: skip
    assert topics[0] == {
        "topic_id": f"{known}_1", "topic_name": "Deploying", "topic_path": "Runbook > Deploying", "depth": 1,
        "summary": "Deploy on Tuesdays. Never on a Friday.",
    }  # fmt: skip
    assert [(each["topic_path"], each["depth"]) for each in topics[1:]] == [
        ("Runbook > Deploying > Rollback", 2),
        ("Runbook > Deploying > Checks", 2),
        ("Runbook > Deploying > Checks > Smoke tests", 3),
    ]
    topic = get(api, f"topics/{known}_3")
    assert topic.pop("created_at").endswith("Z")
    assert topic.pop("updated_at").endswith("Z")
    assert topic == {
        "topic_id": f"{known}_3", "doc_id": known, "category_id": "Operations", "topic_name": "Checks",
        "topic_path": "Runbook > Deploying > Checks", "depth": 2, "summary": "Checks", "content": "## Checks\n\n",
        "content_labels": [], "parent_topic_id": f"{known}_1", "children_topic_ids": [f"{known}_4"],
    }  # fmt: skip
    assert get(api, f"topics/{known}_1")["parent_topic_id"] == f"{known}_0"
    root = get(api, f"topics/{known}_0")
    assert (root["depth"], root["parent_topic_id"], root["children_topic_ids"]) == (0, None, [f"{known}_1"])
    for missing in (f"{known}_5", f"{NOBODY}_0"):
        assert failed(api.client.get(f"{AT}/topics/{missing}"), 404)


@pytest.mark.requirement("knowledge.versions")
def test_every_route_is_there_under_both_versions(api: Api) -> None:
    known = enveloped(send(api, at="/api/v1/knowledge/documents"), 201)["doc_id"]
    for path in (f"/documents/{known}", f"/topics/{known}_1", "/categories", "/documents"):
        one, two = (enveloped(api.client.get(f"/api/{version}/knowledge{path}")) for version in ("v1", "v2"))
        assert one == two
    for at in ("/api/v1/knowledge", "/api/v2/knowledge"):
        assert enveloped(api.client.post(f"{at}/search", json={"query": "rollback"}))["hits"]
        assert enveloped(send(api, at=f"{at}/documents/{known}", method="PUT"))["doc_id"] == known
        assert enveloped(api.client.patch(f"{at}/documents/{known}", json={"title": at}))["doc_id"] == known
        assert failed(api.client.get(f"{at}/documents/{NOBODY}"), 404, f"{at}/documents/{NOBODY}")
    assert enveloped(api.client.delete(f"/api/v1/knowledge/documents/{known}"))["deleted_topics"] == 4


@pytest.mark.requirement("knowledge.file")
def test_the_addresses_in_the_answer_give_the_text_and_the_file(api: Api) -> None:
    page = f"<html><script>alert(1)</script><h1>Hi</h1><p>{'x ' * 50}</p>".encode()
    made = add(api, page, "päge.html", "text/html", app_id="acme", project_id="p")
    original = api.client.get(made["original_file_path"])
    assert original.content == page
    assert original.headers["content-type"].startswith("text/html")
    assert original.headers["content-disposition"] == "attachment; filename*=UTF-8''p%C3%A4ge.html"
    assert original.headers["x-content-type-options"] == "nosniff"
    assert original.headers["content-security-policy"] == "sandbox"
    text = api.client.get(made["md_path"])
    assert text.text.startswith("# Hi\n\nx x")
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert failed(api.client.get(made["md_path"].partition("?")[0]), 404)


@pytest.mark.requirement("knowledge.patch", "knowledge.replace", "knowledge.ids")
@pytest.mark.usefixtures("process")
def test_a_document_is_changed_and_replaced_under_its_id(api: Api) -> None:
    known = add(api)["doc_id"]
    path = f"{DOCUMENTS}/{known}"
    changed = enveloped(api.client.patch(path, json={"title": "Book", "category_id": "Ops"}))
    assert (changed["doc_id"], changed["updated_fields"]) == (known, ["title", "category_id"])
    told = get(api, f"documents/{known}")
    assert (told["title"], told["category_id"], told["updated_at"]) == ("Book", "Ops", changed["updated_at"])
    assert told["topics"][1]["topic_path"] == "Book > Deploying > Rollback"
    assert enveloped(api.client.patch(path, json={"title": "Book"}))["updated_fields"] == []
    failed(api.client.patch(path, json={"title": "--"}), 422, path)
    failed(api.client.patch(f"{DOCUMENTS}/x", json={"title": "Book"}), 422)
    again = enveloped(send(api, "# New\n\nAll is new.", "new.md", title="New", at=path, method="PUT"))
    assert (again["doc_id"], again["topic_count"], again["source_name"]) == (known, 1, "new.md")
    assert names(find(api, "rollback", method="keyword")) == []
    assert names(find(api, "new", method="keyword")) == ["New"]
    told = get(api, f"documents/{known}")
    assert told["updated_at"] > told["created_at"]
    before = api.everything()
    assert failed(send(api, b"%PDF-1.4 broken", "a.pdf", "application/pdf", at=path, method="PUT"), 415)
    failed(send(api, at=f"{DOCUMENTS}/{NOBODY}", method="PUT"), 404)
    failed(api.client.patch(f"{DOCUMENTS}/{NOBODY}", json={"title": "Book"}), 404)
    assert api.everything() == before


@pytest.mark.requirement("knowledge.delete", "knowledge.twice", "knowledge.forget")
def test_a_document_is_forgotten_with_all_that_it_has(api: Api) -> None:
    known = add(api)["doc_id"]
    again = send(api)  # the same file twice is two documents, and the sender is told
    kept = enveloped(again, 201)["doc_id"]
    assert kept != known
    assert known in again.json()["meta"]["notes"][0]
    elsewhere = add(api, app_id="other")["doc_id"]
    assert enveloped(api.client.delete(f"{DOCUMENTS}/{known}")) == {"doc_id": known, "deleted_topics": 4}
    gone = api.client.delete(f"{DOCUMENTS}/{known}")
    assert (gone.status_code, gone.content) == (204, b"")
    for path in (f"{known}", f"{known}/original", f"{known}/markdown"):
        failed(api.client.get(f"{DOCUMENTS}/{path}"), 404)
    failed(api.client.get(f"{AT}/topics/{known}_1"), 404)
    assert not any(known in str(record.scope) for record in api.engine.export())
    assert {record.id for record in api.engine.export() if record.kind is Kind.DOCUMENT} == {kept, elsewhere}
    api.ok("delete", all=True)  # forgetting everything of a project forgets its documents
    assert {record.id for record in api.engine.export() if record.kind is Kind.DOCUMENT} == {elsewhere}


@pytest.mark.requirement("knowledge.list", "knowledge.categories")
def test_documents_are_listed_in_pages_by_time_title_and_category(api: Api) -> None:
    for title, category in (("beta", "A"), ("Alpha", "A"), ("gamma", "B")):
        add(api, title=title, category_id=category)
    page = get(api, "documents", page_size=2)
    assert (page["total"], page["page"], page["page_size"]) == (3, 1, 2)
    assert set(page["documents"][0]) == {"doc_id", "category_id", "title", "topic_count", "created_at"}

    def titles(**query: Any) -> list[str]:
        return [each["title"] for each in get(api, "documents", **query)["documents"]]

    assert titles() == ["gamma", "Alpha", "beta"]
    assert titles(page=2, page_size=2) == ["beta"]
    assert titles(sort_by="title", sort_order="asc") == ["Alpha", "beta", "gamma"]
    assert titles(sort_by="updated_at", sort_order="asc") == ["beta", "Alpha", "gamma"]
    assert titles(category_id="A") == ["Alpha", "beta"]
    assert titles(category_id="nothing") == []
    failed(api.client.get(DOCUMENTS, params={"page": 0}), 422, DOCUMENTS)
    add(api, "Preheat the oven, mix flour and butter, and bake the dough.", "a.txt", "text/plain", title="A recipe")
    told = {each["category_id"]: each for each in get(api, "categories")["categories"]}
    assert list(told)[:20] == [each.id for each in CATEGORIES]
    counts = {name: each["document_count"] for name, each in told.items() if each["document_count"]}
    assert counts == {"A": 2, "B": 1, "Food": 1}
    assert told["Others"]["description"]


@pytest.mark.requirement("knowledge.search")
def test_a_search_finds_topics_with_their_documents(api: Api) -> None:
    known = add(api)["doc_id"]
    found = find(api, "how to roll back: the rollback script", method="keyword", include_content=True, top_k=3)
    assert found["total"] == len(found["hits"])
    assert found["took_ms"] > 0
    hit = found["hits"][0]
    assert 0 < hit.pop("score") <= 1
    assert hit == {
        "topic_id": f"{known}_2", "category_id": hit["category_id"], "topic_name": "Rollback",
        "topic_path": "Runbook > Deploying > Rollback", "depth": 2,
        "summary": "Run the rollback script, and tell the channel about it.",
        "content": "## Rollback\n\nRun the rollback script, and tell the channel about it.\n\n",
        "retrieval_method": "keyword", "source": "deploy.md",
        "document": {"doc_id": known, "title": "Runbook", "summary": "Deploy on Tuesdays. Never on a Friday."},
    }  # fmt: skip
    assert find(api, "rollback")["hits"][0]["content"] is None
    for method in ("keyword", "vector", "hybrid", "agentic", "llm_multiround"):
        api.engine.settle()
        assert "Rollback" in names(find(api, "run the rollback script", method=method, top_k=3))
    assert len(find(api, "deploying", top_k=1)["hits"]) == 1
    assert find(api, "rollback", score_threshold=1.01)["hits"] == []
    assert "Checks" not in names(find(api, "checks", top_k=100))  # there is nothing but a heading in it
    failed(api.client.post(f"{AT}/search", json={"query": ""}), 422)


@pytest.mark.requirement("knowledge.memory")
def test_what_documents_say_is_found_through_the_other_doors(api: Api) -> None:
    known = add(api)["doc_id"]
    asked = {"name": "search_context", "arguments": {"query": "rollback script", "everywhere": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    assert "Run the rollback script" in api.client.post("/mcp", json=body, headers=headers).text
    assert api.engine.read(f"{known}_2").text.startswith("## Rollback")


@pytest.mark.requirement("knowledge.isolated")
def test_no_project_sees_or_changes_the_documents_of_another(api: Api) -> None:
    made = [
        add(api, f"# Only {n}\n\nThe word of {n} is rollback.", **place)["doc_id"] for n, place in enumerate(PLACES)
    ]
    for n, place in enumerate(PLACES):
        assert [each["doc_id"] for each in get(api, "documents", **place)["documents"]] == [made[n]]
        assert [hit["document"]["doc_id"] for hit in find(api, "rollback", **place)["hits"]] == [made[n]]
        assert sum(each["document_count"] for each in get(api, "categories", **place)["categories"]) == 1
        for other in made[:n] + made[n + 1 :]:
            path = f"{DOCUMENTS}/{other}"
            for read in (path, f"{path}/original", f"{AT}/topics/{other}_1", f"{AT}/topics/{other}_0"):
                failed(api.client.get(read, params=place), 404)
            failed(api.client.patch(path, json={"title": "Mine", **place}), 404)
            failed(send(api, at=path, method="PUT", **place), 404)
            assert api.client.delete(path, params=place).status_code == 204
    assert [get(api, "documents", **place)["total"] for place in PLACES] == [1, 1, 1]


@pytest.mark.requirement("knowledge.tokens")
def test_a_token_is_held_to_its_app_its_project_and_reading(guarded: tuple[Api, Tokens]) -> None:
    api, tokens = guarded
    full, app, read = tokens.add("full"), tokens.add("app", app="acme"), tokens.add("read", access="read")

    def use(token: str) -> None:
        api.client.headers["Authorization"] = f"Bearer {token}"

    use(full)
    ours = add(api, app_id="acme")["doc_id"]
    theirs = add(api)["doc_id"]
    use(app)
    assert add(api, "# More\n\ntext", app_id="acme")["doc_id"]
    assert get(api, f"documents/{ours}", app_id="acme")["doc_id"] == ours
    for method, path in (
        ("GET", f"documents/{theirs}"), ("GET", f"documents/{theirs}/original"), ("GET", f"topics/{theirs}_1"),
        ("GET", "categories"), ("PATCH", f"documents/{theirs}"), ("DELETE", f"documents/{theirs}"), ("POST", "search"),
    ):  # fmt: skip
        body = {"title": "Mine", "query": "rollback"} if method in ("PATCH", "POST") else None
        assert "limited to the app acme" in failed(api.client.request(method, f"{AT}/{path}", json=body), 403)
    for refused in (send(api), send(api, at=f"{DOCUMENTS}/{theirs}", method="PUT")):
        assert "limited to the app acme" in failed(refused, 403)
    use(read)
    assert get(api, f"documents/{theirs}")["doc_id"] == theirs
    assert find(api, "rollback")["hits"]
    for refused in (send(api), api.client.delete(f"{DOCUMENTS}/{theirs}"),
                    api.client.patch(f"{DOCUMENTS}/{theirs}", json={"title": "Mine"})):  # fmt: skip
        assert "change anything" in failed(refused, 403)
    use("wrong")
    failed(send(api), 401)
    use(full)
    assert get(api, "documents")["total"] == 1


@pytest.mark.requirement("knowledge.kinds")
@pytest.mark.usefixtures("process")
def test_documents_of_many_kinds_are_read(api: Api) -> None:
    word = docx("<w:p><w:r><w:t>Written in Word about quokkas.</w:t></w:r></w:p>")
    for data, name, mime, asked in (
        (word, "a.docx", "application/octet-stream", "quokkas"),
        (pdf("Written in a PDF about dingoes."), "a.pdf", "application/pdf", "dingoes"),
        ("Über Kängurus geschrieben.".encode("utf-16"), "a.txt", "text/plain", "Kängurus"),
        (b"Without a name about possums.", "", "application/octet-stream", "possums"),
    ):
        add(api, data, name or "noname", mime)
        assert find(api, asked, method="keyword")["total"] == 1, name


@pytest.mark.requirement("knowledge.kinds")
@pytest.mark.usefixtures("process")
def test_what_cannot_be_read_is_refused_with_a_reason(bare: Api) -> None:
    for data, name, status, says in (
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "a.png", 415, "image"),
        (b"PK\x03\x04 broken", "a.docx", 415, "damaged"),
        (bytes(64), "noname", 415, "give it a name that ends in what it is, such as .pdf, .docx"),
        (b" \n \n", "a.md", 422, "text"),
        (b"x" * 1_100_000, "long.txt", 415, "send it in parts"),
    ):
        assert says in failed(send(bare, data, name, "application/octet-stream"), status, DOCUMENTS)


@pytest.mark.requirement("knowledge.forms")
@pytest.mark.parametrize(
    ("body", "kind", "status", "says"),
    [
        (b'{"title": "x"}', "application/json", 415, "multipart/form-data"),
        (b"title=x", "application/x-www-form-urlencoded", 415, "-F file=@"),
        (b"", "", 415, "multipart/form-data"),
        (form(FILE, TITLE), "multipart/form-data", 422, "boundary"),
        (form(FILE, TITLE), "multipart/form-data; boundary=other", 422, "form"),
        (form(FILE, TITLE, end=b""), FORM, 422, "cut off"),
        (form(TITLE), FORM, 422, "Field required: file"),
        (form(FILE, ('; name="title"', b"")), FORM, 422, "Field required: title"),
        (form(FILE, ('; name="title"', b"x" * 70_000)), FORM, 422, "form"),
        (form(FILE, ('; name="title"', b"a\0b")), FORM, 422, "title"),
        (form(('; name="file"', b"text"), TITLE), FORM, 422, "-F file=@"),
        (form(FILE, FILE, TITLE), FORM, 422, "files"),
        (form(FILE, TITLE, TITLE), FORM, 422, "more than once: title"),
        (form(FILE, TITLE, ("", b"nameless")), FORM, 422, "name"),
        (form(FILE, TITLE, ('; name="category_id"', b"a\x1bb")), FORM, 422, "category_id"),
        (form(FILE, TITLE, *[('; name="n"', b"")] * 30), FORM, 422, "fields"),
        (b"\0" * 500, FORM, 422, "form"),
    ],
)
def test_a_form_that_is_wrong_is_refused_with_what_to_do(
    bare: Api, body: bytes, kind: str, status: int, says: str
) -> None:
    assert says in failed(raw(bare, body, kind), status, DOCUMENTS)


@pytest.mark.requirement("knowledge.forms")
@given(st.binary(max_size=300), st.binary(max_size=60))
@settings(max_examples=scale_examples(60))
def test_no_form_is_a_fault_of_the_server(bare: Api, noise: bytes, header: bytes) -> None:
    kept = form((f'; name="file"; filename="{header.decode("latin-1")}"', noise), TITLE)
    for body in (noise, form(FILE, TITLE)[:40] + noise, kept):
        answer = raw(bare, body)
        assert answer.status_code in (201, 415, 422), answer.text
        if answer.status_code == 201:
            assert bare.client.delete(f"{DOCUMENTS}/{answer.json()['data']['doc_id']}").status_code == 200


@pytest.mark.requirement("knowledge.size")
def test_a_file_that_is_too_large_is_refused_by_what_it_declares_or_sends(
    bare: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for declared in (str(MAX_BYTES + 2_000_000), "9" * 30):
        headers = {"Content-Type": FORM, "Content-Length": declared}
        assert f"{MAX_BYTES:,} bytes" in failed(bare.client.post(DOCUMENTS, content=b"", headers=headers), 413)
    monkeypatch.setattr(forms, "MAX_FORM", 100_000)
    pieces = iter([form(FILE, end=b""), *[b"x" * 10_000] * 20])
    failed(bare.client.post(DOCUMENTS, content=pieces, headers={"Content-Type": FORM}), 413)


@pytest.mark.requirement("knowledge.forms")
def test_a_client_that_goes_away_in_the_middle_of_a_file_leaves_nothing(bare: Api) -> None:
    coming: list[Message] = [
        {"type": "http.request", "body": form(FILE, end=b"")[:70], "more_body": True},
        {"type": "http.disconnect"},
    ]
    answers: list[Message] = []

    async def receive() -> Message:
        return coming.pop(0)

    async def send_(message: Message) -> None:
        answers.append(message)

    scope: Scope = {
        "type": "http", "method": "POST", "path": DOCUMENTS, "raw_path": DOCUMENTS.encode(), "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", FORM.encode())], "state": {},
    }  # fmt: skip
    anyio.run(bare.client.app, scope, receive, send_)
    assert (coming, answers) == ([], [])


@pytest.mark.requirement("knowledge.size")
@pytest.mark.usefixtures("process")
def test_large_files_wait_on_the_disk_of_the_store_alone(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    page = b"<html><!-- " + b"much ado " * 400_000 + b"--><p>Hi."
    made = add(api, page, "p.html", "text/html")
    assert api.client.get(made["original_file_path"]).content == page
    monkeypatch.setattr(api.door, "_folder", Path("/nowhere/at/all"))
    assert "make room on the disk" in failed(send(api, b"x" * 2_000_000), 503)
    assert add(api)["doc_id"]  # what is small needs none
    monkeypatch.setattr(api.door, "_folder", None)
    assert add(api, page, "p.html", "text/html")["doc_id"]


@pytest.mark.requirement("knowledge.names")
def test_only_the_last_part_of_a_name_is_kept(api: Api) -> None:
    for sent, kept in (
        ("../../etc/passwd.md", "passwd.md"),
        ("C:\\Users\\me\\notes.md", "notes.md"),
        ("/abs/olute.md", "olute.md"),
        ("\u202eevil.md", "evil.md"),
        ("..", None),
        ("n" * 400 + ".md", "n" * 252 + ".md"),
        ("sp ace & ünï.md", "sp ace & ünï.md"),
    ):
        body = form((f'; name="file"; filename="{sent}"', b"# A\n\ntext"), TITLE)
        assert enveloped(raw(api, body), 201)["source_name"] == kept


@pytest.mark.requirement("knowledge.secrets")
@pytest.mark.parametrize("allow", [False, True])
def test_no_line_of_a_secret_longer_than_a_topic_is_kept_found_or_sent_to_a_model(
    store: StoreAddress, tmp_path: Path, allow: bool
) -> None:
    drawn = Random(1)
    lines = ["".join(drawn.choices(ascii_letters + digits, k=64)) for _ in range(50)]
    kind = "RSA PRIVATE" + " KEY"
    key = "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])
    source = f"# Access\n\nThe key of the old host.\n\n{key}\n\nNever share it.\n\n## Rollback\n\nRun the script.\n"
    with Scripted(right) as model, serving(store, model=model.url, allow_secrets=allow) as (api, _):
        answer = send(api, source)
        made = enveloped(answer, 201)
        told = json.dumps([call.body for call in model.calls])
        assert "The key of the old host" in told
        assert not any(line in told for line in lines)
        if allow:
            assert api.client.get(made["original_file_path"]).text == source
            assert api.client.get(made["md_path"]).text == source
            return
        assert made["original_file_path"] is None
        failed(api.client.get(f"{DOCUMENTS}/{made['doc_id']}/original"), 404)
        assert "masked" in answer.json()["meta"]["notes"][0]
        topics = get(api, f"documents/{made['doc_id']}")["topics"]
        assert [each["topic_path"] for each in topics] == ["Runbook > Access", "Runbook > Access > Rollback"]
        shown = [get(api, f"topics/{each['topic_id']}") for each in topics]
        assert "The key of the old host.\n\n[secret removed: private key]\n\nNever share it." in shown[0]["content"]
        assert shown[1]["content"] == "## Rollback\n\nRun the script."
        hits = [find(api, line, method="keyword", include_content=True)["hits"] for line in (lines[0], lines[40])]
        markdown = api.client.get(made["md_path"]).text
        everything = json.dumps([shown, hits, markdown, api.everything()])
        assert not any(line in everything for line in lines)
    files = [file.read_bytes() for file in store.home.rglob("*") if file.is_file()]
    assert not any(line.encode() in data for data in files for line in lines)


@pytest.mark.requirement("knowledge.together")
def test_uploads_at_once_are_all_there_and_other_calls_do_not_wait_for_them(store: StoreAddress) -> None:
    goes_on = Event()

    def patient(asked: Asked) -> Say:
        goes_on.wait(60)
        return right(asked)

    with Scripted(patient) as model, serving(store, model=model.url) as (api, _):
        with ThreadPoolExecutor(20) as pool:  # more than there are threads for other calls
            sent = [pool.submit(add, api, f"# N{n}\n\nbody of {n}") for n in range(20)]
            try:
                assert api.add(said("Hello there.")) == "accumulated"
                assert get(api, "documents")["total"] == 0
                assert not any(each.done() for each in sent)
            finally:
                goes_on.set()
        assert get(api, "documents")["total"] == 20
        for number, each in enumerate(sent):
            assert api.client.get(each.result()["md_path"]).text == f"# N{number}\n\nbody of {number}\n"


@pytest.mark.requirement("knowledge.model")
def test_a_model_sums_up_and_names_what_has_no_heading(store: StoreAddress) -> None:
    source = f"Some words before.\n\n{GUIDE}"
    with Scripted(right) as model, serving(store, model=model.url) as (api, _):
        answer = send(api, source)
        made = enveloped(answer, 201)
        assert answer.json()["meta"]["usage"]["calls"] == len(model.calls) == 1
        assert made["category_id"] == "Travel"
        told = get(api, f"documents/{made['doc_id']}")
        assert told["summary"] == "What it is about."
        assert [(each["topic_name"], each["summary"]) for each in told["topics"]] == [
            ("Name 1", "Gist 1."), ("Deploying", "Gist 2."), ("Rollback", "Gist 3."), ("Checks", "Checks"),
            ("Smoke tests", "Gist 4."),
        ]  # fmt: skip
        assert get(api, f"topics/{made['doc_id']}_1")["content_labels"] == ["a", "b"]
        assert add(api, category_id="Own")["category_id"] == "Own"


@pytest.mark.requirement("knowledge.model")
@pytest.mark.parametrize("manner", [broken, empty, refusing, wrong_types])
def test_a_model_that_fails_costs_no_document(store: StoreAddress, manner: Manner) -> None:
    with Scripted(manner) as model, serving(store, model=model.url) as (api, _):
        answer = send(api)
        made = enveloped(answer, 201)
        assert "the model could not be asked" in answer.json()["meta"]["notes"][0]
        assert get(api, f"documents/{made['doc_id']}")["summary"] == "Deploy on Tuesdays. Never on a Friday."


@pytest.mark.requirement("knowledge.model")
def test_a_long_document_is_summed_up_in_a_few_calls(store: StoreAddress) -> None:
    source = "".join(f"# S{n}\n\nbody {n}\n\n" for n in range(130))
    with Scripted(right) as model, serving(store, model=model.url) as (api, _):
        add(api, source)
        assert len(model.calls) == 4
        model.script = [right, right, fails(500)]
        topics = get(api, f"documents/{add(api, source)['doc_id']}")["topics"]
        assert [topics[n]["summary"] for n in (0, 25, 49, 50)] == ["Gist 1.", "Gist 1.", "Gist 25.", "body 50"]


@pytest.mark.requirement("search.far", "knowledge.search")
def test_a_search_that_finds_nothing_near_enough_says_how_the_nearest_are_had(api: Api) -> None:
    lines = ["Most bikes stand behind the work bench.", "The house is called Rex.", "Coffee is free.", "It is red."] * 3
    add(api, "# Houses\n\n" + "\n\n".join(f"## Part {n}\n\n{line}" for n, line in enumerate(lines)))

    def ask(**more: Any) -> Json:
        asked = {"query": "municipal archive audit ledger quorum bylaw clerk docket gavel proxy statute called", **more}
        told: Json = api.client.post(f"{AT}/search", json=asked).json()
        return told

    assert (ask()["data"]["hits"], ask()["meta"]) == ([], {"notes": [FAR]})
    assert "meta" not in ask(project_id="other")
    assert len(ask(top_k=3)["data"]["hits"]) == 3
    assert "meta" not in ask(top_k=3)


@pytest.mark.requirement("server.sigterm")
@pytest.mark.usefixtures("process")
def test_a_file_that_is_being_read_keeps_no_server_from_ending(
    store: StoreAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"  # a parser that never ends
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 600")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with serving(store) as (api, _), ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, api, pdf("x"), "x.pdf", "application/pdf")
        wait_until((tmp_path / "started").exists)
        api.door.close()
        assert "the program is ending" in failed(sent.result(20), 503)  # sooner than a parser has time to read
