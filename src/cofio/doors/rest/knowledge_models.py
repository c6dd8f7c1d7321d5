"""What the calls of the knowledge base take and give, and what each of them looks like."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StringConstraints, WithJsonSchema

from ...knowledge.uploads import MAX_CATEGORY, MAX_SOURCE_TYPE
from ...values.records import MAX_TITLE
from .examples import Example
from .forms import FilePart
from .requests import ProjectRequest

MAX_QUERY = 2000


def _check_file(value: object) -> FilePart:
    if not isinstance(value, FilePart):
        raise ValueError("it is no file; with curl, send it as -F file=@NAME")
    return value


FormFile = Annotated[
    FilePart,
    PlainValidator(_check_file),
    WithJsonSchema({"type": "string", "contentMediaType": "application/octet-stream"}),
]
DocumentId = Annotated[str, StringConstraints(pattern=r"^d_[a-f0-9]{12,32}$")]
TopicId = Annotated[str, StringConstraints(pattern=r"^d_[a-f0-9]{12,32}_[0-9]{1,9}$")]
Title = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE, pattern=r"\w")]
CategoryId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CATEGORY)]


class UploadRequest(ProjectRequest):
    """A file that is to be a document."""

    model_config = ConfigDict(extra="ignore")
    file: FormFile = Field(
        description="The file: text, Markdown, HTML, an office document, an email or a PDF, of at most 50 MiB."
    )
    title: Title = Field(description="What the document is called.")
    source_type: Annotated[str, StringConstraints(max_length=MAX_SOURCE_TYPE)] | None = Field(
        default=None, description="Where the file comes from, in a word of the sender's."
    )
    category_id: CategoryId | None = Field(
        default=None, description="What it is filed under; without it, that is decided by what it says."
    )


class ReplaceRequest(UploadRequest):
    """A file that is to take the place of a document."""

    doc_id: DocumentId = Field(description="The document's id.")


class DocumentRequest(ProjectRequest):
    """Which document is meant."""

    doc_id: DocumentId = Field(description="The document's id.")


class PatchRequest(DocumentRequest):
    """What is to change of a document."""

    title: Title | None = Field(default=None, description="What the document is called.")
    category_id: CategoryId | None = Field(default=None, description="What the document is filed under.")


class DocumentsRequest(ProjectRequest):
    """Which documents are listed."""

    category_id: str | None = Field(default=None, description="What the document is filed under.")
    page: Annotated[int, Field(ge=1, le=2**31)] = 1
    page_size: Annotated[int, Field(ge=1, le=100)] = 20
    sort_by: Literal["created_at", "updated_at", "title"] = Field(
        default="created_at", description="What they are sorted by."
    )
    sort_order: Literal["asc", "desc"] = Field(default="desc", description="desc: the newest first, or from Z to A.")


class TopicRequest(ProjectRequest):
    """Which topic is meant; the number 0 is the document itself."""

    topic_id: TopicId = Field(
        description="The topic's id: the document's, and a number from 1 on; 0 is the document itself."
    )


class KnowledgeSearchRequest(ProjectRequest):
    """What is looked for in all documents."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY)]
    method: Literal["keyword", "vector", "hybrid", "agentic", "llm_multiround"] = Field(
        default="hybrid",
        description="keyword: by words; vector: by meaning; hybrid: both; agentic, llm_multiround: in several rounds.",
    )
    top_k: int = Field(default=10, ge=1, le=100, description="How many hits there may be.")
    score_threshold: float | None = Field(default=None, description="The least score of a hit, from 0 to 1.")
    include_content: bool = Field(default=False, description="Give what the topics say, too.")


class CategoriesRequest(ProjectRequest):
    """Whose categories are meant."""


class DocumentData(BaseModel):
    """A document that was just stored."""

    doc_id: str = Field(description="The document's id.")
    category_id: str = Field(description="What the document is filed under.")
    topic_count: int = Field(description="How many topics the document has.")
    source_name: str | None = Field(description="The name of its file; null if it had none.")
    md_path: str = Field(description="The address of its text, as Markdown.")
    original_file_path: str | None = Field(description="The address of the file as it was sent, if it is kept.")


class DocumentPatchData(BaseModel):
    """What was changed of a document."""

    doc_id: str = Field(description="The document's id.")
    updated_fields: list[str] = Field(description="What has changed: title, category_id.")
    updated_at: str = Field(description="When it last changed.")


class DocumentDeleteData(BaseModel):
    """A document that was forgotten."""

    doc_id: str = Field(description="The document's id.")
    deleted_topics: int = Field(description="How many topics went with it.")


class TopicOverview(BaseModel):
    """A topic in the list of a document's."""

    topic_id: str = Field(
        description="The topic's id: the document's, and a number from 1 on; 0 is the document itself."
    )
    topic_name: str = Field(description="What the topic is called: its heading, or its first line.")
    topic_path: str = Field(description='The names that lead to it from the document, with " > " between.')
    depth: int = Field(description="How many steps lead to it from the document.")
    summary: str = Field(description="What the topic is about.")


class DocumentDetail(BaseModel):
    """A document with its topics."""

    doc_id: str = Field(description="The document's id.")
    category_id: str = Field(description="What the document is filed under.")
    title: str = Field(description="What the document is called.")
    summary: str = Field(description="What the document is about.")
    source_name: str | None = Field(description="The name of its file; null if it had none.")
    source_type: str | None = Field(description="Where the file comes from, in a word of the sender's.")
    original_file_path: str | None = Field(
        description="The address of the file as it was sent; null if it is not kept."
    )
    topics: list[TopicOverview] = Field(description="Its topics, in the order of the document.")
    created_at: str = Field(description="When it came in.")
    updated_at: str = Field(description="When it last changed.")


class DocumentOverview(BaseModel):
    """A document in a list."""

    doc_id: str = Field(description="The document's id.")
    category_id: str = Field(description="What the document is filed under.")
    title: str = Field(description="What the document is called.")
    topic_count: int = Field(description="How many topics the document has.")
    created_at: str = Field(description="When it came in.")


class DocumentPage(BaseModel):
    """A page of documents."""

    documents: list[DocumentOverview] = Field(description="The documents of this page.")
    total: int = Field(description="How many there are.")
    page: int = Field(description="Which page, from 1.")
    page_size: int = Field(description="How many there are on a page, at most 100.")


class TopicDetail(TopicOverview):
    """A topic with what it says."""

    doc_id: str = Field(description="The document's id.")
    category_id: str = Field(description="What the document is filed under.")
    content: str = Field(
        description="What the topic says, with its heading; what the topics under it say is not in it."
    )
    content_labels: list[str] = Field(description="Words that a model gave it; none without a model.")
    parent_topic_id: str | None = Field(description="The topic that it is under; null for the document itself.")
    children_topic_ids: list[str] = Field(description="The topics under it.")
    created_at: str = Field(description="When it came in.")
    updated_at: str = Field(description="When it last changed.")


class DocumentContext(BaseModel):
    """The document that a hit is of."""

    doc_id: str = Field(description="The document's id.")
    title: str = Field(description="What the document is called.")
    summary: str = Field(description="What the document is about.")


class KnowledgeHit(TopicOverview):
    """A topic that answers."""

    category_id: str = Field(description="What the document is filed under.")
    content: str | None = Field(description="What the topic says, with `include_content`.")
    score: float = Field(description="How well it answers, from 0 to 1; it orders the hits of one answer.")
    retrieval_method: str = Field(description="The method that was asked for.")
    source: str | None = Field(description="The name of the document's file.")
    document: DocumentContext = Field(description="The document that it is of.")


class KnowledgeSearchData(BaseModel):
    """The topics that answer, best first."""

    hits: list[KnowledgeHit] = Field(description="The topics that answer, best first.")
    total: int = Field(description="How many there are.")
    took_ms: float = Field(description="How long it took, in milliseconds.")


class CategoryItem(BaseModel):
    """A category, and how many documents are filed under it."""

    category_id: str = Field(description="Its name.")
    description: str = Field(description="What belongs there.")
    document_count: int = Field(description="How many documents are filed under it.")


class CategoriesData(BaseModel):
    """The categories there are."""

    categories: list[CategoryItem] = Field(
        description="The categories there are from the start, then those that documents were given."
    )


_ID = "d_a1b2c3d4e5f60718"
_AT = {"created_at": "2026-05-28T11:30:47Z", "updated_at": "2026-05-28T11:30:47Z"}
_TOPIC = {
    "topic_id": f"{_ID}_2", "topic_name": "Rollback", "topic_path": "Runbook > Rollback", "depth": 1,
    "summary": "Run the rollback script, and tell the channel about it.",
}  # fmt: skip
_CONTENT = "## Rollback\n\nRun the rollback script, and tell the channel about it."
_DOCUMENT = {
    "doc_id": _ID, "category_id": "Technology", "topic_count": 2, "source_name": "runbook.md",
    "md_path": f"/api/v2/knowledge/documents/{_ID}/markdown",
    "original_file_path": f"/api/v2/knowledge/documents/{_ID}/original",
}  # fmt: skip
_SUMMARY = "Deploy on Tuesdays. Topics: Deploying; Rollback."
_ONE = {"doc_id": _ID}

EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        "add_document": Example(request={"file": "@runbook.md", "title": "Runbook"}, answers={201: _DOCUMENT}),
        "replace_document": Example(
            request={**_ONE, "file": "@runbook.md", "title": "Runbook"}, answers={200: _DOCUMENT}
        ),
        "list_documents": Example(
            request={"category_id": "Technology", "sort_by": "title", "sort_order": "asc"},
            answers={
                200: {
                    "documents": [
                        {
                            "doc_id": _ID, "category_id": "Technology", "title": "Runbook", "topic_count": 2,
                            "created_at": "2026-05-28T11:30:47Z",
                        }
                    ],
                    "total": 1, "page": 1, "page_size": 20,
                }
            },
        ),
        "get_document": Example(
            request=_ONE,
            answers={
                200: {
                    "doc_id": _ID, "category_id": "Technology", "title": "Runbook", "summary": _SUMMARY,
                    "source_name": "runbook.md", "source_type": None,
                    "original_file_path": _DOCUMENT["original_file_path"], "topics": [_TOPIC], **_AT,
                }
            },
        ),
        "patch_document": Example(
            request={**_ONE, "title": "The runbook"},
            answers={200: {**_ONE, "updated_fields": ["title"], "updated_at": "2026-05-28T12:00:00Z"}},
        ),
        "delete_document": Example(request=_ONE, answers={200: {**_ONE, "deleted_topics": 2}}),
        "get_original": Example(request=_ONE, answers={}),
        "get_markdown": Example(request=_ONE, answers={}),
        "get_topic": Example(
            request={"topic_id": f"{_ID}_2"},
            answers={
                200: {
                    **_TOPIC, **_ONE, "category_id": "Technology", "content": _CONTENT, "content_labels": [],
                    "parent_topic_id": f"{_ID}_0", "children_topic_ids": [], **_AT,
                }
            },
        ),
        "search_knowledge": Example(
            request={"query": "How do we roll back?", "include_content": True},
            answers={
                200: {
                    "hits": [
                        {
                            **_TOPIC, "category_id": "Technology", "content": _CONTENT, "score": 0.55,
                            "retrieval_method": "hybrid", "source": "runbook.md",
                            "document": {**_ONE, "title": "Runbook", "summary": _SUMMARY},
                        }
                    ],
                    "total": 1, "took_ms": 4.2,
                }
            },
        ),
        "list_categories": Example(
            request={"app_id": "default"},
            answers={
                200: {
                    "categories": [
                        {
                            "category_id": "Technology", "document_count": 1,
                            "description": "Software, computers, data, AI, networks and their security.",
                        }
                    ]
                }
            },
        ),
    }
)  # fmt: skip
