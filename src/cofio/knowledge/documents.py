"""The documents of an app's project: taken in, replaced, renamed, read, searched and forgotten, each as a whole."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from ..content import ContentReader, Outline
from ..conversations.conversations import Project
from ..conversations.message_records import fields
from ..conversations.retrieval import Answer, MemoryHit, MemoryQuery
from ..engine.engine import Engine
from ..secrets.policy import Door, admit, admit_draft
from ..secrets.scanner import find_secret
from ..values.changes import Change, Delete, Drop, Edit
from ..values.errors import Conflict, NotFound, Unavailable
from ..values.query import MAX_LIMIT, MAX_LIST, AllOf, Filter, Query, Where
from ..values.records import Draft, Json, Kind, Record
from .categories import CATEGORIES, Category, choose_category
from .originals import Original, digest_file, join_original
from .topics import Topic, divide_document, mask_outline
from .uploads import (
    UNSAFE_FILE,
    ModelSummary,
    PreparedDocument,
    Summariser,
    Upload,
    check_category,
    check_title,
    get_documents_scope,
    get_topic_path,
    join_topic_title,
)

SPARE = 10  # hits that are asked for beside twice as many as are wanted
TRIES = 20  # how often a change is tried again, because another process was at the same document
SEARCHED_FOR_SECRETS = 16 * 1024 * 1024  # bytes of a file that is text: others wait while it is looked through
UNSEARCHED_FILE = (
    "the file itself is not kept, for it is too long to be looked through for secrets: it is text, markup included,"
    f" of more than {SEARCHED_FOR_SECRETS:,} bytes"
)
Records: TypeAlias = list[Record]  # inside of Documents, `list` is a verb
Counts: TypeAlias = list[tuple[Category, int]]
Names: TypeAlias = list[str]
Sort: TypeAlias = Literal["created_at", "updated_at", "title"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """A document as it was just stored, and what its sender should know about it."""

    record: Record
    notes: tuple[str, ...] = ()


class Documents:
    """The documents of one store."""

    def __init__(
        self, engine: Engine, reading: ContentReader | None = None, *, door: Door = "rest",
        summariser: Summariser | None = None,
    ) -> None:  # fmt: skip
        """`door` says what becomes of secrets; `summariser` is a model, if there is one."""
        self.engine = engine
        self._reading = reading or ContentReader()
        self._door = door
        self._summariser = summariser

    # Changing.

    def add(self, project: Project, upload: Upload) -> StoredDocument:
        """Take in a file as a new document: all of it, or nothing.

        Raises:
            Unreadable: the file is of a kind that is not read here, damaged, or without any text.
            Invalid: a secret is in it, and the door refuses those.
            Unavailable: it cannot be read or stored at the moment.
        """
        prepared = self._make(upload, upload.category)
        same = self._same_file(project, prepared.digest)
        for _ in range(TRIES):
            known = f"d_{secrets.token_hex(8)}"
            changes = prepared.changes(project, known, self._admit)
            try:
                record = self.engine.apply(changes.all)[0]
            except Conflict:  # the id is taken
                continue
            assert isinstance(record, Record)
            twice = (f"the same file is here already, as the document {same.id}",) if same is not None else ()
            return StoredDocument(record=record, notes=(*prepared.notes, *changes.notes, *twice))
        raise Unavailable("no id was free for the document; try again")

    def replace(self, project: Project, known: str, upload: Upload) -> StoredDocument:
        """Put a file in a document's place, under its id: all of it, or the document stays as it was.

        A category that was given by hand stays, unless there is another in its place.

        Raises:
            NotFound: there is no such document.
        """
        before = self.read(project, known)
        data = fields(before)
        chosen = cast(str, data["category_id"]) if data.get("category_by") == "hand" else None
        prepared = self._make(upload, upload.category or chosen)
        for _ in range(TRIES):
            changes = prepared.changes(project, known, self._admit)
            draft = changes.document
            edit = Edit(
                id=known, fields={"title": draft.title, "text": draft.text, "data": draft.data},
                if_version=before.version,
            )  # fmt: skip
            try:
                _, record, *_ = self.engine.apply(
                    [Drop(scope=get_documents_scope(project) / known), edit, *changes.rest]
                )
            except Conflict:
                before = self.read(project, known)
                continue
            assert isinstance(record, Record)
            return StoredDocument(record=record, notes=(*prepared.notes, *changes.notes))
        raise _make_busy()

    def edit(
        self, project: Project, known: str, *, title: str | None = None, category: str | None = None
    ) -> tuple[Record, Names]:
        """Give a document another title or category; the document, and what has changed of it.

        Raises:
            NotFound: there is no such document.
        """
        if category is not None:
            check_category(category)
        if title is not None:
            check_title(title)
        scope = get_documents_scope(project) / known
        for _ in range(TRIES):
            before = self.read(project, known)
            changed: Names = []
            data = dict(fields(before))
            draft = replace(_build_draft(before), title=before.title if title is None else title)
            draft = self._admit(draft)
            if draft.title != before.title:
                changed.append("title")
            if category is not None and category != data["category_id"]:
                changed.append("category_id")
                data |= {"category_id": category, "category_by": "hand"}
            if not changed:
                return before, []
            changes: list[Change] = [
                Edit(id=known, fields={"title": draft.title, "data": data}, if_version=before.version)
            ]
            if "title" in changed:
                changes += [
                    Edit(id=topic.id, fields={"title": join_topic_title(draft.title, get_topic_path(topic))})
                    for topic in self.engine.list(scope, exact=True, kinds=(Kind.TOPIC,), limit=MAX_LIST)
                ]
            try:
                record = self.engine.apply(changes)[0]
            except (Conflict, NotFound):  # it has just been replaced, or forgotten
                continue
            assert isinstance(record, Record)
            return record, changed
        raise _make_busy()

    def delete(self, project: Project, known: str) -> int | None:
        """Forget a document with its topics and its file; how many topics it had, None when there was no such one."""
        for _ in range(TRIES):
            try:
                before = self.read(project, known)
                self.engine.apply(
                    [Delete(id=known, if_version=before.version), Drop(scope=get_documents_scope(project) / known)]
                )
            except NotFound:
                return None
            except Conflict:
                continue
            return cast(int, fields(before)["topic_count"])
        raise _make_busy()

    # Reading.

    def read(self, project: Project, known: str) -> Record:
        """A document's record.

        Raises:
            NotFound: there is none with this id in the project.
        """
        found = self.engine.read(known)
        if found.kind is not Kind.DOCUMENT or found.scope != get_documents_scope(project):
            raise NotFound(known)
        return found

    def find(self, project: Project, beginning: str, *, limit: int = 10) -> Records:
        """The project's documents whose ids begin so."""
        within = AllOf(Where("id", ">=", beginning), Where("id", "<", f"{beginning}\uffff"))
        return self.engine.list(
            get_documents_scope(project), exact=True, kinds=(Kind.DOCUMENT,), filter=within, limit=limit, newest=False
        )

    def read_whole(self, project: Project, known: str) -> tuple[Record, Records]:
        """A document's record and its topics, in its order, as of one moment.

        Raises:
            NotFound: there is none with this id in the project.
        """
        record, topics = self._read_with(project, known, Kind.TOPIC)
        return record, sorted(topics, key=lambda topic: topic.position or 0)

    def read_topic(self, project: Project, known: str) -> tuple[Record, Record]:
        """A topic's record and that of its document.

        Raises:
            NotFound: there is none with this id in the project.
        """
        found = self.engine.read(known)
        if found.kind is not Kind.TOPIC or found.scope.names[:-1] != get_documents_scope(project).names:
            raise NotFound(known)
        return found, self.read(project, found.scope.names[-1])

    def list(
        self, project: Project, *, category: str | None = None, sort: Sort = "created_at", newest: bool = True,
        limit: int = 20, offset: int = 0,
    ) -> tuple[Records, int]:  # fmt: skip
        """A page of the project's documents, and how many there are; by title, `newest` is from Z to A."""
        scope, wanted = get_documents_scope(project), _filter_category(category)
        total = self.engine.count(scope, exact=True, kinds=(Kind.DOCUMENT,), filter=wanted)
        if sort != "title":
            order: Literal["created", "changed"] = "created" if sort == "created_at" else "changed"
            return self.engine.list(
                scope, exact=True, kinds=(Kind.DOCUMENT,), filter=wanted, limit=limit, offset=offset, newest=newest,
                order=order,
            ), total  # fmt: skip
        every = sorted(self._all(project, wanted), key=lambda each: (each.title.casefold(), each.id), reverse=newest)
        return every[offset : offset + limit], total

    def count_categories(self, project: Project) -> Counts:
        """Every category with the number of its documents: those there are from the start, then those made by use."""
        counts = Counter(str(fields(each)["category_id"]) for each in self._all(project, None))
        known = [each.id for each in CATEGORIES]
        own = [Category(name, "", "") for name in sorted(set(counts) - set(known))]
        return [(each, counts[each.id]) for each in (*CATEGORIES, *own)]

    def read_original(self, project: Project, known: str) -> Original:
        """The file that a document was made of.

        Raises:
            NotFound: there is no such document, or its file is not kept.
        """
        record, parts = self._read_with(project, known, Kind.LEDGER)
        described = fields(record).get("original")
        data = join_original(parts, described) if isinstance(described, dict) else None
        if data is None or not isinstance(described, dict):
            raise NotFound(known)
        return Original(data=data, name=str(fields(record)["source_name"] or known), mime=str(described["mime"]))

    def search(self, project: Project, asked: MemoryQuery) -> Answer:
        """The topics of all documents that answer, best first; one that is nothing but a heading answers nothing."""
        # Left out here, of more than is asked for: a filter on their data would cost a search ten times as much.
        page = self.engine.search(
            Query(
                asked.text, scope=get_documents_scope(project), kinds=(Kind.TOPIC,), filter=asked.filter,
                mode=asked.mode, limit=min(MAX_LIMIT, 2 * asked.limit + SPARE), floor=asked.floor,
            )
        )  # fmt: skip
        found = [MemoryHit(hit.record, hit.score, hit.why) for hit in page if not fields(hit.record).get("bare")]
        is_near = any(not fields(hit.record).get("bare") for hit in page.near)
        return Answer(found[: asked.limit], page.degraded, is_near)

    # How it is done.

    def _read_with(self, project: Project, known: str, kind: Kind) -> tuple[Record, Records]:
        """A document's record and what it has of a kind, as of one moment."""
        record = self.read(project, known)
        for _ in range(TRIES):
            found = self.engine.list(get_documents_scope(project) / known, exact=True, kinds=(kind,), limit=MAX_LIST)
            again = self.read(project, known)
            if again.version == record.version:
                return record, found
            record = again
        raise _make_busy()

    def _all(self, project: Project, wanted: Filter | None) -> Iterator[Record]:
        for start in range(0, 2**53, MAX_LIST):
            page = self.engine.list(
                get_documents_scope(project), exact=True, kinds=(Kind.DOCUMENT,), filter=wanted, limit=MAX_LIST,
                offset=start, order="written",
            )  # fmt: skip
            yield from page
            if len(page) < MAX_LIST:
                return

    def _same_file(self, project: Project, digest: str) -> Record | None:
        same = Where(("data", "original", "sha256"), "=", digest)
        found = self.engine.list(get_documents_scope(project), exact=True, kinds=(Kind.DOCUMENT,), filter=same, limit=1)
        return found[0] if found else None

    def _admit(self, draft: Draft) -> Draft:
        return admit_draft(self._door, draft, allow=self.engine.settings.allow_secrets)

    def _make(self, upload: Upload, category: str | None) -> PreparedDocument:
        """Read a file, divide it, and find words for it; nothing is stored yet."""
        read = self._reading.read_outline(upload.data, name=upload.name, mime=upload.mime)
        outline = self._admit_outline(read)
        topics = divide_document(outline, upload.title)
        by_model = ModelSummary()
        notes: Names = []
        if self._summariser is not None:
            try:
                by_model = self._summariser.summarise(upload.title, topics, CATEGORIES)
            except Unavailable as error:
                notes.append(f"the summaries are the first sentences, for the model could not be asked: {error}")
        _rename(topics, by_model.names)
        known = {each.id for each in CATEGORIES}
        suggested = by_model.category if by_model.category in known else None
        chosen = category or suggested or choose_category(upload.title, topics)
        by = "hand" if category else "model" if suggested else "words"
        return PreparedDocument(
            upload=upload, topics=topics, by_model=by_model, category=chosen, category_by=by,
            digest=digest_file(upload.data),
            omission=UNSAFE_FILE if outline is not read else self._find_omission(upload), notes=tuple(notes),
        )  # fmt: skip

    def _admit_outline(self, outline: Outline) -> Outline:
        """The outline as the door may store it: the very same, unless there is a secret in it."""
        fields: dict[str, Json] = {"text": outline.text}
        same = admit(self._door, fields, allow=self.engine.settings.allow_secrets) is fields
        return outline if same else mask_outline(outline)

    def _find_omission(self, upload: Upload) -> str:
        """Why a file is not to be kept; a secret may also be where its reader does not look, as in a comment."""
        if self.engine.settings.allow_secrets:
            return ""
        text = self._reading.decode(upload.data, name=upload.name, mime=upload.mime)
        if text is None:
            return ""
        if len(upload.data) > SEARCHED_FOR_SECRETS:
            return UNSEARCHED_FILE
        return UNSAFE_FILE if find_secret(text) is not None else ""


def _make_busy() -> Unavailable:
    sentence = "too many are changing this document at once; try again"
    return Unavailable(sentence, public=sentence)


def _filter_category(category: str | None) -> Filter | None:
    return None if category is None else Where("data.category_id", "=", category)


def _build_draft(record: Record) -> Draft:
    return Draft(scope=record.scope, kind=record.kind, id=record.id, title=record.title, text=record.text)


def _rename(topics: Sequence[Topic], names: Mapping[int, str]) -> None:
    """Give topics other names, in the paths of all that are under them too."""
    for topic in topics:
        topic.name = names.get(topic.index, topic.name)
        above = topics[topic.parent - 1].path if topic.parent else ()
        topic.path = (*above, topic.name)
