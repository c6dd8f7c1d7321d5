"""The knowledge base over HTTP: documents, the topics that they are divided into, and a search of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from time import perf_counter
from typing import Literal, cast
from urllib.parse import quote, urlencode

from ...content import NoText
from ...conversations.conversations import Project
from ...conversations.message_records import fields
from ...conversations.retrieval import MemoryQuery
from ...conversations.rounds import search_in_rounds
from ...http.errors import RequestError
from ...knowledge import Documents, StoredDocument, Upload, get_topic_path, make_topic_id, summarise_topic
from ...knowledge.uploads import PATH
from ...values.errors import Invalid, NotFound
from ...values.query import Mode
from ...values.records import Record
from .calls import FORM, VERSIONS, Call, read_query
from .forms import read_upload
from .knowledge_models import (
    EXAMPLES,
    CategoriesData,
    CategoriesRequest,
    DocumentData,
    DocumentDeleteData,
    DocumentDetail,
    DocumentPage,
    DocumentPatchData,
    DocumentRequest,
    DocumentsRequest,
    KnowledgeSearchData,
    KnowledgeSearchRequest,
    PatchRequest,
    ReplaceRequest,
    TopicDetail,
    TopicRequest,
    UploadRequest,
)
from .operations import FAR, Operations
from .replies import Caller, Data, File, Reply
from .requests import ProjectRequest
from .responses import render_time

AREA = "knowledge"
MODES: dict[str, Mode] = {
    "keyword": "keyword", "vector": "semantic", "hybrid": "hybrid", "agentic": "hybrid", "llm_multiround": "hybrid",
}  # fmt: skip
_MIME = re.compile(r"[a-z0-9.+-]{1,100}/[a-z0-9.+-]{1,100}")


def add_document(operations: Operations, request: UploadRequest, _: Caller) -> Reply:
    """Take in a file as a new document."""
    return _store(operations, request, 201, lambda documents, upload: documents.add(_get_project(request), upload))


def replace_document(operations: Operations, request: ReplaceRequest, _: Caller) -> Reply:
    """Put a file in a document's place, under its id."""
    return _store(
        operations,
        request,
        200,
        lambda documents, upload: documents.replace(_get_project(request), request.doc_id, upload),
    )


def patch_document(operations: Operations, request: PatchRequest, _: Caller) -> Reply:
    """Give a document another title or category."""
    record, changed = _open_documents(operations).edit(
        _get_project(request), request.doc_id, title=request.title, category=request.category_id
    )
    return Reply(
        {"doc_id": record.id, "updated_fields": changed, "updated_at": _render_time(operations, record, "updated_at")}
    )


def delete_document(operations: Operations, request: DocumentRequest, _: Caller) -> Reply:
    """Forget a document, with its topics and its file; 204 when there is none."""
    topic_count = _open_documents(operations).delete(_get_project(request), request.doc_id)
    if topic_count is None:
        return Reply({}, 204)
    return Reply({"doc_id": request.doc_id, "deleted_topics": topic_count})


def list_documents(operations: Operations, request: DocumentsRequest, _: Caller) -> Reply:
    """List the documents of a project."""
    records, total = _open_documents(operations).list(
        _get_project(request), category=request.category_id or None, sort=request.sort_by,
        newest=request.sort_order == "desc", limit=request.page_size, offset=(request.page - 1) * request.page_size,
    )  # fmt: skip
    entries = [
        {
            "doc_id": record.id, "title": record.title, "category_id": fields(record)["category_id"],
            "topic_count": fields(record)["topic_count"], "created_at": _render_time(operations, record, "created_at"),
        }
        for record in records
    ]  # fmt: skip
    return Reply({"documents": entries, "total": total, "page": request.page, "page_size": request.page_size})


def get_document(operations: Operations, request: DocumentRequest, _: Caller) -> Reply:
    """Tell of a document and its topics."""
    record, topics = _open_documents(operations).read_whole(_get_project(request), request.doc_id)
    data = fields(record)
    return Reply(
        {
            "doc_id": record.id, "category_id": data["category_id"], "title": record.title, "summary": record.text,
            "source_name": data["source_name"], "source_type": data["source_type"],
            "original_file_path": _build_original_address(request, record),
            "topics": [_render_overview(record, topic) for topic in topics],
            **_render_times(operations, record),
        }
    )  # fmt: skip


def get_markdown(operations: Operations, request: DocumentRequest, _: Caller) -> Reply:
    """Give the text of a document, as Markdown."""
    record, topics = _open_documents(operations).read_whole(_get_project(request), request.doc_id)
    text = "".join(topic.text for topic in topics) + "\n"
    return Reply({}, file=_make_download(text.encode(), f"{record.id}.md", "text/markdown; charset=utf-8"))


def get_original(operations: Operations, request: DocumentRequest, _: Caller) -> Reply:
    """Give the file that a document was made of, as it was sent."""
    original = _open_documents(operations).read_original(_get_project(request), request.doc_id)
    mime = original.mime if _MIME.fullmatch(original.mime) else "application/octet-stream"
    return Reply({}, file=_make_download(original.data, original.name, mime))


def get_topic(operations: Operations, request: TopicRequest, _: Caller) -> Reply:
    """Tell of a topic, with what it says; the number 0 is the document itself."""
    document_id, number = request.topic_id.rsplit("_", 1)
    documents = _open_documents(operations)
    if not int(number):
        record, topics = documents.read_whole(_get_project(request), document_id)
        top = [topic.id for topic in topics if not fields(topic)["parent"]]
        overview = {
            "topic_id": make_topic_id(document_id, 0), "topic_name": record.title, "topic_path": record.title,
            "depth": 0, "summary": record.text,
        }  # fmt: skip
        tree = {"content": "", "content_labels": [], "parent_topic_id": None, "children_topic_ids": top}
        return Reply({**overview, **_render_document_ids(record), **tree, **_render_times(operations, record)})
    topic, record = documents.read_topic(_get_project(request), request.topic_id)
    data = fields(topic)
    return Reply(
        {
            **_render_overview(record, topic), **_render_document_ids(record),
            "content": topic.text, "content_labels": data.get("labels") or [],
            "parent_topic_id": make_topic_id(document_id, cast(int, data["parent"])),
            "children_topic_ids": [make_topic_id(document_id, child) for child in cast("list[int]", data["children"])],
            **_render_times(operations, topic),
        }
    )  # fmt: skip


def search_knowledge(operations: Operations, request: KnowledgeSearchRequest, _: Caller) -> Reply:
    """Find the topics that answer a query, in all documents of a project."""
    start = perf_counter()
    if request.method == "vector" and operations.engine.embedder() is None:
        raise Invalid("method", "'vector' needs a model: run `cofio model install`, or search by 'keyword'")
    assistant = operations.assistant
    with nullcontext() if assistant is None else assistant.spending.count_usage() as spent:
        reply = _search(operations, request)
        usage = None if spent is None else spent()
    took = round((perf_counter() - start) * 1000, 3)
    return replace(reply, data={**reply.data, "took_ms": took}, usage=usage)


def list_categories(operations: Operations, request: CategoriesRequest, _: Caller) -> Reply:
    """List the categories, each with the number of its documents."""
    counts = _open_documents(operations).count_categories(_get_project(request))
    entries = [
        {"category_id": category.id, "description": category.description, "document_count": count}
        for category, count in counts
    ]
    return Reply({"categories": entries})


def _search(operations: Operations, request: KnowledgeSearchRequest) -> Reply:
    documents, project = _open_documents(operations), _get_project(request)
    # By default what neither its words nor its meaning speak for is left out; a number that was asked for is given.
    bounds = request.model_fields_set & {"top_k", "score_threshold"}
    question = MemoryQuery(
        text=request.query, mode=MODES[request.method], limit=request.top_k,
        floor=0.0 if bounds else None,
    )  # fmt: skip
    notes: list[str] = []
    search = partial(documents.search, project)
    if request.method in ("agentic", "llm_multiround"):
        answer, how = search_in_rounds(
            search, question, None if operations.assistant is None else operations.assistant.reader
        )
        notes.append(f"method {request.method!r} was answered {how}")
    else:
        answer = search(question)
    least = request.score_threshold if request.score_threshold is not None else 0.0
    hits: list[Data] = []
    cache: dict[str, Record] = {}
    for hit in answer.hits:
        of = hit.record.scope.names[-1]
        if hit.score < least:
            continue
        try:
            document = cache.get(of) or cache.setdefault(of, documents.read(project, of))
        except NotFound:  # it was forgotten just now
            continue
        hits.append(
            {
                **_render_overview(document, hit.record),
                "category_id": fields(document)["category_id"],
                "content": hit.record.text if request.include_content else None,
                "score": hit.score,
                "retrieval_method": request.method,
                "source": fields(document)["source_name"],
                "document": {"doc_id": document.id, "title": document.title, "summary": document.text},
            }
        )
    if answer.is_near and not hits:
        notes.append(FAR)
    return Reply({"hits": hits, "total": len(hits)}, notes=tuple(notes), degraded=answer.degraded)


def _store(
    operations: Operations, request: UploadRequest, status: int, does: Callable[[Documents, Upload], StoredDocument]
) -> Reply:
    """Store a file with `does`."""
    part = request.file
    upload = Upload(
        data=part.data, name=part.name, mime=part.mime, title=request.title, source_type=request.source_type,
        category=request.category_id,
    )  # fmt: skip
    assistant = operations.assistant
    try:
        with nullcontext() if assistant is None else assistant.spending.count_usage() as spent:
            stored = does(_open_documents(operations), upload)
            usage = None if spent is None else spent()
    except NoText as error:
        raise RequestError(422, str(error)) from error
    record, data = stored.record, fields(stored.record)
    return Reply(
        {
            "doc_id": record.id, "category_id": data["category_id"], "topic_count": data["topic_count"],
            "source_name": data["source_name"], "md_path": _build_address(request, record.id, "markdown"),
            "original_file_path": _build_original_address(request, record),
        },
        status, notes=stored.notes, usage=usage,
    )  # fmt: skip


def _open_documents(operations: Operations) -> Documents:
    summariser = None if operations.assistant is None else operations.assistant.summariser
    return Documents(operations.engine, operations.content_reader, door="rest", summariser=summariser)


def _get_project(request: ProjectRequest) -> Project:
    return Project(app=request.app_id, name=request.project_id)


def _render_overview(document: Record, topic: Record) -> Data:
    path = get_topic_path(topic)
    return {
        "topic_id": topic.id, "topic_name": path[-1], "topic_path": PATH.join([document.title, *path]),
        "depth": len(path), "summary": summarise_topic(topic),
    }  # fmt: skip


def _render_document_ids(document: Record) -> Data:
    return {"doc_id": document.id, "category_id": fields(document)["category_id"]}


def _build_address(request: ProjectRequest, document_id: str, part: str) -> str:
    """Where a part of a document can be fetched: a path on this server, never one of its disk."""
    project = {"app_id": request.app_id, "project_id": request.project_id}
    query = urlencode({name: value for name, value in project.items() if value != "default"})
    return f"{VERSIONS[0]}/{AREA}/documents/{document_id}/{part}" + (f"?{query}" if query else "")


def _build_original_address(request: ProjectRequest, record: Record) -> str | None:
    return _build_address(request, record.id, "original") if fields(record).get("original") else None


def _make_download(data: bytes, name: str, mime: str) -> File:
    """A file that a browser stores and does not show: a page that somebody sent must not run as one of this server."""
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox",
    }
    return File(data, mime, headers)


def _render_time(operations: Operations, record: Record, which: Literal["created_at", "updated_at"]) -> str:
    zone: tzinfo = operations.zone
    return render_time(record.created_at if which == "created_at" else record.updated_at, zone)


def _render_times(operations: Operations, record: Record) -> Data:
    return {
        "created_at": _render_time(operations, record, "created_at"),
        "updated_at": _render_time(operations, record, "updated_at"),
    }


_DOCUMENTS, _DOCUMENT = f"{AREA}/documents", f"{AREA}/documents/{{doc_id}}"
KNOWLEDGE_CALLS = (
    Call(
        name="add_document",
        example=EXAMPLES["add_document"],
        path=_DOCUMENTS,
        reads=read_upload,
        media=FORM,
        takes=UploadRequest,
        writes=True,
        does=add_document,
        gives={201: DocumentData},
    ),
    Call(
        name="list_documents",
        example=EXAMPLES["list_documents"],
        path=_DOCUMENTS,
        method="GET",
        reads=read_query,
        takes=DocumentsRequest,
        writes=False,
        does=list_documents,
        gives={200: DocumentPage},
    ),
    Call(
        name="get_document",
        example=EXAMPLES["get_document"],
        path=_DOCUMENT,
        method="GET",
        reads=read_query,
        takes=DocumentRequest,
        writes=False,
        does=get_document,
        gives={200: DocumentDetail},
    ),
    Call(
        name="replace_document",
        example=EXAMPLES["replace_document"],
        path=_DOCUMENT,
        method="PUT",
        reads=read_upload,
        media=FORM,
        takes=ReplaceRequest,
        writes=True,
        does=replace_document,
        gives={200: DocumentData},
    ),
    Call(
        name="patch_document",
        example=EXAMPLES["patch_document"],
        path=_DOCUMENT,
        method="PATCH",
        takes=PatchRequest,
        writes=True,
        does=patch_document,
        gives={200: DocumentPatchData},
    ),
    Call(
        name="delete_document",
        example=EXAMPLES["delete_document"],
        path=_DOCUMENT,
        method="DELETE",
        reads=read_query,
        takes=DocumentRequest,
        writes=True,
        does=delete_document,
        gives={200: DocumentDeleteData, 204: None},
    ),
    Call(
        name="get_original",
        example=EXAMPLES["get_original"],
        path=f"{_DOCUMENT}/original",
        method="GET",
        reads=read_query,
        takes=DocumentRequest,
        writes=False,
        does=get_original,
        gives={200: None},
    ),
    Call(
        name="get_markdown",
        example=EXAMPLES["get_markdown"],
        path=f"{_DOCUMENT}/markdown",
        method="GET",
        reads=read_query,
        takes=DocumentRequest,
        writes=False,
        does=get_markdown,
        gives={200: None},
    ),
    Call(
        name="get_topic",
        example=EXAMPLES["get_topic"],
        path=f"{AREA}/topics/{{topic_id}}",
        method="GET",
        reads=read_query,
        takes=TopicRequest,
        writes=False,
        does=get_topic,
        gives={200: TopicDetail},
    ),
    Call(
        name="search_knowledge",
        example=EXAMPLES["search_knowledge"],
        path=f"{AREA}/search",
        takes=KnowledgeSearchRequest,
        writes=False,
        does=search_knowledge,
        gives={200: KnowledgeSearchData},
    ),
    Call(
        name="list_categories",
        example=EXAMPLES["list_categories"],
        path=f"{AREA}/categories",
        method="GET",
        reads=read_query,
        takes=CategoriesRequest,
        writes=False,
        does=list_categories,
        gives={200: CategoriesData},
    ),
)
