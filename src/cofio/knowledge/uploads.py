"""A file that is to be a document, and how it becomes records: one for the document, one for each topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from ..conversations.conversations import Project
from ..conversations.message_records import fields
from ..values.changes import Change, Put
from ..values.errors import Invalid
from ..values.records import MAX_TITLE, Draft, Json, Kind, Record, Scope, check_text
from .categories import Category
from .originals import describe_original, split_original
from .summaries import summarise_document, summarise_text
from .topics import Topic

SOURCE = "knowledge"
MAX_NAME = 255  # characters of a file's name
MAX_CATEGORY = 100
MAX_SOURCE_TYPE = 100
PATH = " > "
UNSAFE_FILE = "the file itself is not kept, for there is what looks like a secret in it; in the topics it is masked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that is to be a document, and what its sender says of it."""

    data: bytes
    title: str
    name: str = ""
    """The file's name; no more than its last part is kept."""
    mime: str | None = None
    source_type: str | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        check_title(self.title)
        if self.category is not None:
            check_category(self.category)
        if self.source_type is not None:
            check_text("source_type", self.source_type, MAX_SOURCE_TYPE)
        object.__setattr__(self, "name", _clean_file_name(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """What a model makes of a document: a summary, a category, and what it says of topics, by their numbers."""

    summary: str = ""
    category: str = ""
    summaries: Mapping[int, str] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    """Names for topics that had to be named by their first line."""
    labels: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


class Summariser(Protocol):
    """A model that reads documents; a call may raise Unavailable."""

    def summarise(self, title: str, topics: Sequence[Topic], categories: Sequence[Category]) -> ModelSummary:
        """What a document is about."""


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """What storing a document takes: its own record, then all the others."""

    document: Draft
    rest: list[Change]
    notes: tuple[str, ...]

    @property
    def all(self) -> list[Change]:
        """Those that store a new document."""
        return [Put(draft=self.document), *self.rest]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument:
    """A document that has been read and divided, before it has an id."""

    upload: Upload
    topics: Sequence[Topic]
    by_model: ModelSummary
    category: str
    category_by: str
    digest: str
    omission: str
    """Why the file itself is not to be kept; empty when it is."""
    notes: tuple[str, ...]

    def changes(self, project: Project, known: str, admitted: Admit) -> DocumentChanges:
        """The changes that store it under an id, with secrets handled as the door does."""
        upload, below = self.upload, get_documents_scope(project) / known
        drafts = [self._build_topic(below, known, topic) for topic in self.topics]
        drafts_admitted = [admitted(draft) for draft in drafts]
        masked = any(draft is not before for draft, before in zip(drafts_admitted, drafts, strict=True))
        unkept = self.omission or (UNSAFE_FILE if masked else "")
        original = None if unkept else describe_original(upload.data, upload.mime or "application/octet-stream")
        document = Draft(
            scope=get_documents_scope(project), kind=Kind.DOCUMENT, id=known, title=upload.title, source=SOURCE,
            text=self.by_model.summary or summarise_document(self.topics) or upload.title,
            data={
                "category_id": self.category, "category_by": self.category_by, "source_name": upload.name or None,
                "source_type": upload.source_type, "topic_count": len(self.topics),
            },
        )  # fmt: skip
        document = admitted(document)
        # After that: a digest looks as random as a key.
        document = replace(document, data={**cast("dict[str, Json]", document.data), "original": original})
        rest: list[Change] = [Put(draft=draft) for draft in drafts_admitted]
        if not unkept:
            rest += [Put(draft=draft, how="key") for draft in split_original(below, upload.data, SOURCE)]
        return DocumentChanges(document, rest, (unkept,) if unkept else ())

    def _build_topic(self, scope: Scope, known: str, topic: Topic) -> Draft:
        data: dict[str, Json] = {
            "doc_id": known, "path": list(topic.path), "parent": topic.parent, "children": [*topic.children],
        }  # fmt: skip
        if topic.bare:
            data["bare"] = True
        if topic.index in self.by_model.summaries:
            data["summary"] = self.by_model.summaries[topic.index]
        if topic.index in self.by_model.labels:
            data["labels"] = [*self.by_model.labels[topic.index]]
        return Draft(
            scope=scope, kind=Kind.TOPIC, id=make_topic_id(known, topic.index), position=topic.index,
            text=topic.content, title=join_topic_title(self.upload.title, topic.path), data=data, source=SOURCE,
        )  # fmt: skip


class Admit(Protocol):
    """Gives a draft as it may be stored, by what the door does with secrets."""

    def __call__(self, draft: Draft, /) -> Draft: ...


def make_topic_id(known: str, index: int) -> str:
    """The id of a document's topic; that of the number 0 stands for the document itself."""
    return f"{known}_{index}"


def get_topic_path(topic: Record) -> tuple[str, ...]:
    """The names that lead to a topic from its document, its own included."""
    return tuple(cast("list[str]", fields(topic)["path"]))


def summarise_topic(topic: Record) -> str:
    """What a topic is about: in a model's words, or in its first sentences."""
    summary = fields(topic).get("summary")
    return summary if isinstance(summary, str) else summarise_text(topic.text) or get_topic_path(topic)[-1]


def check_title(title: str) -> None:
    """Raise Invalid unless this can be the title of a document."""
    check_text("title", title, MAX_TITLE, empty=False)
    if not any(map(str.isalnum, title)):
        raise Invalid("title", "has no letter or digit in it")


def check_category(name: str) -> None:
    """Raise Invalid unless this can be the name of a category."""
    check_text("category_id", name, MAX_CATEGORY, empty=False)
    if not name.isprintable() or not name.strip():
        raise Invalid("category_id", "is blank, or holds characters that cannot be printed")


def get_documents_scope(project: Project) -> Scope:
    """Where the documents of a project are; the topics of each are under it."""
    return project.scope / "knowledge"


def join_topic_title(title: str, path: Iterable[str]) -> str:
    """What a topic is shown and found by: the document's title, and the names that lead to it."""
    return PATH.join([title, *path])[:MAX_TITLE]


def _clean_file_name(name: str) -> str:
    """The last part of a file's name, without what no name should hold."""
    last = name.replace("\\", "/").rpartition("/")[2]
    last = "".join(letter for letter in last if letter.isprintable()).strip()
    last = last.encode("utf-8", "replace").decode()
    return "" if last in (".", "..") else last[-MAX_NAME:]
