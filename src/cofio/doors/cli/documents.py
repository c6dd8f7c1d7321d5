"""The command that sees to the documents of the knowledge base."""

from __future__ import annotations

import os
import stat
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ...values.errors import Invalid, NotFound
from .context import open_memory, scrub, settle
from .identifiers import LEAST
from .parser import report_misuse
from .terminal import choose_output, make_printable, note, print_json, render_record_count

if TYPE_CHECKING:
    from ...conversations.conversations import Project
    from ...engine.engine import Engine
    from ...knowledge import Documents
    from ...values.records import Record

PAGE = 1000  # documents that are listed


def manage_documents(args: Namespace) -> int:
    """Take in, list, show or forget documents."""
    return {"add": _add, "list": _list, "show": _show, "rm": _remove}[args.verb](args)


def _add(args: Namespace) -> int:
    """Take in files, each as a document of its own; one that cannot be taken in does not keep the others out."""
    from ...content import Unreadable
    from ...knowledge import Upload

    if args.title is not None and len(args.files) > 1:
        return report_misuse(args, "--title is for one file; each of several is called by its name")
    if args.replace is not None and len(args.files) > 1:
        return report_misuse(args, "--replace takes one file")
    failures = 0
    with open_memory(args, make=True) as engine:
        documents, project = _open_documents(args, engine)
        old = None if args.replace is None else _resolve(project, documents, args.replace)
        for name in args.files:
            title = args.title or (old.title if old else Path(name).stem) or name
            try:
                upload = Upload(data=_read(name), title=title, name=name, category=args.category)
                stored = documents.add(project, upload) if old is None else documents.replace(project, old.id, upload)
            except Unreadable as error:
                note(f"{name}: {error}")
                failures += 1
                continue
            record = stored.record
            count = _count_topics(record)
            choose_output(as_json=args.json).print_done(
                f"{record.id}\t{record.title}\t{count} topic{'' if count == 1 else 's'}",
                id=record.id, title=record.title, topics=count, category=str(_get_fields(record)["category_id"]),
                file=name,
            )  # fmt: skip
            for each in stored.notes:
                note(f"{name}: {each}")
        settle(engine)
    return 1 if failures else 0


def _list(args: Namespace) -> int:
    with open_memory(args) as engine:
        documents, project = _open_documents(args, engine)
        records, total = documents.list(project, category=args.category, sort="title", newest=False, limit=PAGE)
        for record in records:
            data = _get_fields(record)
            if args.json:
                print_json(
                    {
                        "id": record.id, "title": record.title, "category": data["category_id"],
                        "topics": data["topic_count"], "file": data["source_name"],
                        "updated_at": record.updated_at.isoformat(),
                    }
                )  # fmt: skip
            else:
                columns = (record.id, record.title, data["category_id"], f"{_count_topics(record)} topics")
                print("\t".join(make_printable(str(each)) for each in columns))
        if total > len(records):
            note(f"these are {len(records):,} of {total:,}; --category shows fewer")
        if not total:
            note("there are no documents; `cofio documents add FILE` takes one in")
    return 0


def _show(args: Namespace) -> int:
    from ...knowledge import get_topic_path, summarise_topic

    with open_memory(args) as engine:
        documents, project = _open_documents(args, engine)
        record, topics = documents.read_whole(project, _resolve(project, documents, args.id).id)
    text = "".join(topic.text for topic in topics)
    if args.json:
        topic_facts = [
            {"id": each.id, "path": list(get_topic_path(each)), "summary": summarise_topic(each)} for each in topics
        ]
        facts = {"id": record.id, "title": record.title, "summary": record.text, "topics": topic_facts}
        print_json({**facts, "text": text} if args.text else facts)
    elif args.text:
        print(make_printable(text))
    else:
        print(make_printable(f"{record.title}\n{record.text}\n"))
        for each in topics:
            path = get_topic_path(each)
            print(make_printable(f"{'  ' * (len(path) - 1)}{path[-1]}  ({each.id})"))
    return 0


def _remove(args: Namespace) -> int:
    with open_memory(args) as engine:
        documents, project = _open_documents(args, engine)
        # All are found first: with a wrong one among them, nothing is forgotten.
        ids = [_resolve(project, documents, each).id for each in args.ids]
        removed = sum((documents.delete(project, each) or 0) + 1 for each in dict.fromkeys(ids))
        choose_output(as_json=args.json).print_done(f"forgot {render_record_count(removed)}", removed=removed)
        scrub(engine)
    return 0


def _open_documents(args: Namespace, engine: Engine) -> tuple[Documents, Project]:
    from ...conversations.conversations import Project
    from ...knowledge import Documents

    return Documents(engine, door="cli"), Project(app=args.app, name=args.project)


def _resolve(project: Project, documents: Documents, text: str) -> Record:
    """The document whose id this is, or begins with this if no other's does."""
    try:
        return documents.read(project, text)
    except NotFound:
        records = documents.find(project, text) if len(text) >= LEAST else []
    if not records:
        raise Invalid("id", f"no document's begins with {text}; `cofio documents list` shows what there is")
    if len(records) > 1:
        ids = ", ".join(record.id for record in records)
        raise Invalid("id", f"{text} is not enough of it, so nothing was done: {ids}")
    return records[0]


def _read(name: str) -> bytes:
    """The bytes of a file, no more than a document may have."""
    from ...content import MAX_BYTES

    if not stat.S_ISREG(os.stat(name).st_mode):  # before it is opened: a pipe would be waited for
        raise Invalid("file", f"{name} is not a regular file")
    with open(name, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Invalid("file", f"{name} is larger than {MAX_BYTES:,} bytes: divide it")
    return data


def _get_fields(record: Record) -> dict[str, object]:
    from ...conversations.message_records import fields

    return dict(fields(record))


def _count_topics(record: Record) -> int:
    return int(str(_get_fields(record)["topic_count"]))
