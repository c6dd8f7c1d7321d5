"""`cofio files`: the files of the memory tool for people."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...files import Result, Tree, dispatch, home, log, restore
from ...files.paths import BadPath, canonicalize
from ...files.tree import get_path, get_size
from ...values.errors import Invalid, NotFound, Unavailable
from ...values.records import Json, check_text
from . import folder_copy
from .context import FEW, MAX_PATH, load_settings, open_memory, settle
from .identifiers import resolve, shorten
from .terminal import Bar, choose_output, make_printable, note, print_json

if TYPE_CHECKING:
    from ...engine.engine import Engine

SOURCE = "cli"


def manage_files(args: Namespace) -> int:
    """Run one of the verbs."""
    return _VERBS[args.verb](args)


def _ls(args: Namespace) -> int:
    path = _canonicalize(args.path)
    with open_memory(args) as engine:
        tree = Tree(engine, home(args.owner))
        itself = tree.get_file(path)
        files = tree.list_files(path) if itself is None else [itself]
    for file in files:
        facts: dict[str, Json] = {
            "path": get_path(file), "bytes": get_size(file), "updated_at": file.updated_at.isoformat(),
            "version": file.version,
        }  # fmt: skip
        _print_line(args, facts, get_size(file), f"{file.updated_at:%Y-%m-%dT%H:%M:%SZ}", get_path(file))
    sys.stdout.flush()
    if not files and not args.json:
        note(f"there are no files in {path}; `cofio files write` makes one")
    return 0


def _cat(args: Namespace) -> int:
    path = _canonicalize(args.path)
    with open_memory(args) as engine:
        file = Tree(engine, home(args.owner)).get_file(path)
    if file is None:
        note(f"there is no file {path}; `cofio files ls` shows what there is")
        return 1
    if args.json:
        print_json({"path": path, "text": file.text, "version": file.version})
    else:
        # What an agent wrote must not steer the reader's terminal.
        sys.stdout.write(make_printable(file.text))
    return 0


def _write(args: Namespace) -> int:
    text = args.text
    if text is None or text == "-":
        if sys.stdin.isatty():
            note("type what the file is to hold, then Ctrl-D on a line of its own")
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise Invalid("text", f"what came in is not UTF-8 ({error.reason} at byte {error.start})") from None
    command = {"command": "create", "path": args.path, "file_text": text}
    return _change(args, f"wrote {args.path}", lambda engine: _dispatch(args, engine, command), make=True)


def _edit(args: Namespace) -> int:
    command = {"command": "str_replace", "path": args.path, "old_str": args.old, "new_str": args.new}
    return _change(args, f"edited {args.path}", lambda engine: _dispatch(args, engine, command))


def _mv(args: Namespace) -> int:
    command = {"command": "rename", "old_path": args.old, "new_path": args.new}
    return _change(args, f"moved {args.old} to {args.new}", lambda engine: _dispatch(args, engine, command))


def _rm(args: Namespace) -> int:
    command = {"command": "delete", "path": args.path}
    message = f"removed {args.path}; `cofio files restore` brings a file back"
    return _change(args, message, lambda engine: _dispatch(args, engine, command))


def _restore(args: Namespace) -> int:
    def run(engine: Engine) -> Result:
        try:
            revision = None if args.revision is None else resolve(engine, args.revision).id
            return restore(engine, home(args.owner), args.path, revision, source=SOURCE)
        except NotFound:
            which = f" {args.revision}" if args.revision else ""
            there = f"`cofio files log {args.path}` shows what there is"
            raise Unavailable(f"{args.path} has no earlier state{which}; {there}") from None

    return _change(args, f"restored {args.path}", run)


def _dispatch(args: Namespace, engine: Engine, command: dict[str, str]) -> Result:
    return dispatch(engine, home(args.owner), command, overwrite=True, source=SOURCE)


def _change(args: Namespace, message: str, run: Callable[[Engine], Result], *, make: bool = False) -> int:
    """Make one change, and say what came of it."""
    with open_memory(args, make=make) as engine:
        result = run(engine)
        if result.is_error:
            note(result.content.removeprefix("Error: "))
            return 1
        choose_output(as_json=args.json).print_done(message, done=args.verb, content=result.content)
        sys.stdout.flush()
        settle(engine, limit=FEW)
    return 0


def _log(args: Namespace) -> int:
    with open_memory(args) as engine:
        revisions = log(engine, home(args.owner), args.path)
        short = shorten(args, engine, [each.id for each in revisions])
    for each in revisions:
        size = len(each.text.encode())
        since, until = each.since.isoformat(), each.until.isoformat()
        facts: dict[str, Json] = {
            "id": each.id, "path": each.path, "version": each.version, "since": since, "until": until,
            "cause": each.cause, "bytes": size,
        }  # fmt: skip
        columns = (f"{each.since:%Y-%m-%dT%H:%M:%SZ}", each.cause, size, each.path)
        # People read what it was first; programs find the id where it always was.
        _print_line(args, facts, *((*columns, short[each.id]) if short else (each.id, *columns)))
    sys.stdout.flush()
    if not revisions and not args.json:
        note(f"{args.path} has held nothing else so far")
    return 0


def _pull(args: Namespace) -> int:
    path, folder = _canonicalize(args.path), _resolve_folder(args)
    with open_memory(args) as engine:
        tree = Tree(engine, home(args.owner))
        itself = tree.get_file(path)
        with Bar("copying out") as bar:
            result = folder_copy.pull([itself] if itself is not None else tree.list_files(path), path, folder, bar)
    return _report_copy(args, f"to {folder}", result)


def _push(args: Namespace) -> int:
    path, folder = _canonicalize(args.path), _resolve_folder(args)
    if not folder.is_dir():
        raise Unavailable(f"there is no folder {folder}")
    address, _ = load_settings(args)
    with open_memory(args, make=True) as engine:
        with Bar("copying in") as bar:
            tree = Tree(engine, home(args.owner), source=SOURCE)
            result = folder_copy.push(tree, path, folder, bar, without=address.home)
        code = _report_copy(args, f"from {folder}", result)
        sys.stdout.flush()
        settle(engine, limit=FEW)
    return code


def _report_copy(args: Namespace, where: str, result: folder_copy.CopyResult) -> int:
    """Say what was copied; the exit code is 1 when something was not."""
    for name, why in result.refused:
        note(f"{name} is not copied: it {why}")
    message = f"copied {result.files:,} {'file' if result.files == 1 else 'files'} {where}"
    message += f"; {result.same:,} {'was' if result.same == 1 else 'were'} the same already" if result.same else ""
    message += f"; {len(result.refused):,} refused" if result.refused else ""
    choose_output(as_json=args.json).print_done(
        message, copied=result.files, same=result.same, refused=len(result.refused)
    )
    return 1 if result.refused else 0


def _resolve_folder(args: Namespace) -> Path:
    check_text("folder", args.folder, MAX_PATH, empty=False)
    return Path(args.folder).expanduser()


def _canonicalize(path: str) -> str:
    try:
        return canonicalize(path)
    except BadPath as bad:
        raise Invalid("path", bad.template.format(path=path)) from None


def _print_line(args: Namespace, facts: dict[str, Json], *columns: object) -> None:
    if args.json:
        print_json(facts)
    else:
        print(make_printable("\t".join(map(str, columns))))


_VERBS: dict[str, Callable[[Namespace], int]] = {
    "ls": _ls, "cat": _cat, "write": _write, "edit": _edit, "mv": _mv, "rm": _rm, "log": _log, "restore": _restore,
    "pull": _pull, "push": _push,
}  # fmt: skip
