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
from .terminal import count_records, note, output, print_json, printable

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
    failed = 0
    with open_memory(args, make=True) as engine:
        here, place = _documents(args, engine)
        old = None if args.replace is None else _resolve(place, here, args.replace)
        for name in args.files:
            title = args.title or (old.title if old else Path(name).stem) or name
            try:
                upload = Upload(data=_read(name), title=title, name=name, category=args.category)
                stored = here.add(place, upload) if old is None else here.replace(place, old.id, upload)
            except Unreadable as error:
                note(f"{name}: {error}")
                failed += 1
                continue
            record = stored.record
            count = _count(record)
            output(as_json=args.json).done(
                f"{record.id}\t{record.title}\t{count} topic{'' if count == 1 else 's'}",
                id=record.id, title=record.title, topics=count, category=str(_data(record)["category_id"]),
                file=name,
            )  # fmt: skip
            for each in stored.notes:
                note(f"{name}: {each}")
        settle(engine)
    return 1 if failed else 0


def _list(args: Namespace) -> int:
    with open_memory(args) as engine:
        here, place = _documents(args, engine)
        found, total = here.list(place, category=args.category, sort="title", newest=False, limit=PAGE)
        for record in found:
            data = _data(record)
            if args.json:
                print_json(
                    {
                        "id": record.id, "title": record.title, "category": data["category_id"],
                        "topics": data["topic_count"], "file": data["source_name"],
                        "updated_at": record.updated_at.isoformat(),
                    }
                )  # fmt: skip
            else:
                shown = (record.id, record.title, data["category_id"], f"{_count(record)} topics")
                print("\t".join(printable(str(each)) for each in shown))
        if total > len(found):
            note(f"these are {len(found):,} of {total:,}; --category shows fewer")
        if not total:
            note("there are no documents; `cofio documents add FILE` takes one in")
    return 0


def _show(args: Namespace) -> int:
    from ...knowledge import get_topic_path, summarise_topic

    with open_memory(args) as engine:
        here, place = _documents(args, engine)
        record, topics = here.read_whole(place, _resolve(place, here, args.id).id)
    text = "".join(topic.text for topic in topics)
    if args.json:
        listed = [
            {"id": each.id, "path": list(get_topic_path(each)), "summary": summarise_topic(each)} for each in topics
        ]
        told = {"id": record.id, "title": record.title, "summary": record.text, "topics": listed}
        print_json({**told, "text": text} if args.text else told)
    elif args.text:
        print(printable(text))
    else:
        print(printable(f"{record.title}\n{record.text}\n"))
        for each in topics:
            path = get_topic_path(each)
            print(printable(f"{'  ' * (len(path) - 1)}{path[-1]}  ({each.id})"))
    return 0


def _remove(args: Namespace) -> int:
    with open_memory(args) as engine:
        here, place = _documents(args, engine)
        # All are found first: with a wrong one among them, nothing is forgotten.
        doomed = [_resolve(place, here, each).id for each in args.ids]
        removed = sum((here.delete(place, each) or 0) + 1 for each in dict.fromkeys(doomed))
        output(as_json=args.json).done(f"forgot {count_records(removed)}", removed=removed)
        scrub(engine)
    return 0


def _documents(args: Namespace, engine: Engine) -> tuple[Documents, Project]:
    from ...conversations.conversations import Project
    from ...knowledge import Documents

    return Documents(engine, door="cli"), Project(app=args.app, name=args.project)


def _resolve(place: Project, here: Documents, written: str) -> Record:
    """The document whose id this is, or begins with this if no other's does."""
    try:
        return here.read(place, written)
    except NotFound:
        found = here.find(place, written) if len(written) >= LEAST else []
    if not found:
        raise Invalid("id", f"no document's begins with {written}; `cofio documents list` shows what there is")
    if len(found) > 1:
        named = ", ".join(record.id for record in found)
        raise Invalid("id", f"{written} is not enough of it, so nothing was done: {named}")
    return found[0]


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


def _data(record: Record) -> dict[str, object]:
    from ...conversations.message_records import fields

    return dict(fields(record))


def _count(record: Record) -> int:
    return int(str(_data(record)["topic_count"]))
