"""The command that changes what a record says: in an editor, or by its options.

Nothing waits while the editor is open: the memory is closed meanwhile, and a record that has changed by then is left
alone, with what was written kept in a file.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from ...conversations.edits import apply_words
from ...conversations.mirror import apply_mirrored
from ...secrets.policy import admit
from ...values.changes import Edit
from ...values.errors import CofioError, Invalid, NotFound, Unavailable
from ...values.records import Json, Kind, Record
from . import vault_commands
from .argument_values import split_tags
from .context import FEW, load_settings, open_memory, settle
from .identifiers import resolve
from .parser import report_misuse
from .terminal import choose_output, note, render_headline, render_scope

if TYPE_CHECKING:
    from ...engine.engine import Engine

FOLDER = "edits"
"""The folder of the store that what is being edited lies in, and stays in if it cannot be kept."""
EDITORS = ("sensible-editor", "nano", "vim", "vi", "notepad")
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)
_REFUSALS = {
    Kind.FILE: "a file of the memory tool is edited with `cofio files edit` or `cofio files write`",
    Kind.TURN: "a message stays as it was said; `cofio rm` forgets it",
    Kind.PROFILE: "a profile is edited in its file of the vault: see `cofio vault --help`",
    Kind.CASE: "a case is edited in its file of the vault: see `cofio vault --help`",
    Kind.SKILL: "a skill is edited in its file of the vault: see `cofio vault --help`",
    Kind.DOCUMENT: "a document is replaced as a whole, with `cofio documents add --replace`",
    Kind.TOPIC: "a topic is a part of a document, which `cofio documents add --replace` replaces as a whole",
    Kind.REVISION: "an earlier state stays as it was",
    Kind.LEDGER: "what cofio keeps for its own use is not edited",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What can be edited of a record, as a person writes it."""

    title: str
    tags: str
    text: str

    @classmethod
    def of(cls, record: Record) -> Words:
        """The words of a record."""
        tags = ", ".join(" ".join(tag.split()) for tag in record.tags)
        return cls(title=" ".join(record.title.split()), tags=tags, text=record.text)

    def render(self) -> str:
        """A file to be edited: the title and the tags in front, then the text."""
        return f"---\ntitle: {self.title}\ntags: {self.tags}\n---\n{self.text}\n"

    @classmethod
    def parse(cls, text: str) -> Words:
        """What somebody made of the file.

        Raises:
            Invalid: the lines in front of the text are not there any more, or there are others.
        """
        head = _HEAD.match(text)
        if head is None:
            raise Invalid("file", "does not begin with the title and the tags between lines of ---")
        fields = {"title": "", "tags": ""}
        for line in filter(str.strip, head[1].splitlines()):
            name, colon, value = line.partition(":")
            if not colon or name.strip() not in fields:
                raise Invalid("file", f"{line.strip()} is neither the title nor the tags; the text goes under the ---")
            fields[name.strip()] = value.strip()
        return cls(**fields, text=text[head.end() :].removesuffix("\n"))

    def find_differences(self, before: Words) -> dict[str, Json]:
        """The fields of a record that are to be others than before."""
        changes: dict[str, Json] = {}
        if self.title != before.title:
            changes["title"] = self.title
        if self.tags != before.tags:
            changes["tags"] = [*split_tags(self.tags)]
        if self.text != before.text:
            changes["text"] = self.text
        return changes


def edit(args: Namespace) -> int:
    """Change a record by the options, else in an editor."""
    if (args.id is None) == (args.key is None):
        return report_misuse(args, "give the id of a record, or its key with --key")
    if (args.text is not None and args.stdin) or (args.tag and args.no_tags):
        return report_misuse(args, "--text and --stdin do not go together, nor do --tag and --no-tags")
    with open_memory(args) as engine:
        record = _find(args, engine)
    if record.kind in _REFUSALS:
        raise Invalid(record.kind, _REFUSALS[record.kind])
    fields = _read_options(args)
    if fields:
        return _change(args, record, fields)
    editor = _find_editor()
    if editor is None:
        return report_misuse(args, "say what to change: --title, --text, --stdin, --tag or --no-tags; or set EDITOR")
    return _edit_in(editor, args, record)


def _find(args: Namespace, engine: Engine) -> Record:
    if args.key is None:
        return resolve(engine, args.id)
    record = engine.get(args.scope, args.key, kind=args.kind)
    if record is None:
        raise NotFound(f"{render_scope(args.scope)}/{args.key}")
    return record


def _read_options(args: Namespace) -> dict[str, Json]:
    """The fields that the options name."""
    fields: dict[str, Json] = {}
    if args.title is not None:
        fields["title"] = args.title
    if args.stdin:
        try:
            fields["text"] = sys.stdin.buffer.read().decode().rstrip("\n")
        except UnicodeDecodeError as error:
            raise Invalid("text", f"what came in is not UTF-8 ({error.reason} at byte {error.start})") from None
    elif args.text is not None:
        fields["text"] = args.text
    if args.tag or args.no_tags:
        fields["tags"] = [*args.tag]
    return fields


def _find_editor() -> list[str] | None:
    """The editor that the user chose; at a terminal, else one that is there."""
    for name in ("VISUAL", "EDITOR"):
        command = _split(os.environ.get(name, "").strip())
        if any(command[:1]):  # else the file itself would be run
            return command
    if not sys.stdin.isatty():
        return None
    return next(([name] for name in EDITORS if shutil.which(name)), None)


def _split(command: str) -> list[str]:
    """A command and its arguments; the path of a program may have spaces, and backslashes where those part folders."""
    if shutil.which(command):
        return [command]
    try:
        words = shlex.split(command, posix=os.sep == "/")
    except ValueError:
        raise Invalid("EDITOR", f"{command} has a quotation mark that is not closed") from None
    return [word.strip('"') for word in words]


def _edit_in(editor: list[str], args: Namespace, record: Record) -> int:
    """Have a record's words edited, and keep them."""
    before = Words.of(record)
    file = _write(args, record, before)
    try:
        _run(editor, file)
        changes = Words.parse(_read(file, before)).find_differences(before)
        if not changes:
            note("nothing was changed")
        code = _change(args, record, changes) if changes else 0
    except (CofioError, UnicodeDecodeError, KeyboardInterrupt) as error:
        if file.exists() and file.read_bytes() != before.render().encode():
            note(f"what you wrote is in {file}; take from it what should stay, then remove it")
        else:
            _remove(file)
        if isinstance(error, UnicodeDecodeError):
            raise Invalid("file", "is not UTF-8 text any more") from None
        raise
    _remove(file)
    return code


def _write(args: Namespace, record: Record, words: Words) -> Path:
    """Write the file that is edited, readable by its owner only."""
    address, _ = load_settings(args)
    name = re.sub(r"[^a-zA-Z0-9-]", "_", record.id)[:40]
    file = address.home / FOLDER / f"{name}-{token_hex(3)}.md"
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with open(file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
            stream.write(words.render().encode())
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}") from error
    return file


def _read(file: Path, before: Words) -> str:
    """What the file holds now; line ends that the editor brought in are none of the person's words."""
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        raise Unavailable("the editor removed the file, so nothing was changed") from None
    return text if "\r" in before.text else text.replace("\r\n", "\n")


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    try:
        file.parent.rmdir()
    except OSError:  # another edit is going on, or was kept
        return


def _run(editor: list[str], file: Path) -> None:
    try:
        code = subprocess.run([*editor, str(file)], check=False).returncode
    except OSError as error:
        raise Unavailable(f"the editor {editor[0]} cannot be started ({error.strerror}): set EDITOR to one") from error
    if code:
        raise Unavailable(f"the editor {editor[0]} ended with {code}, so nothing was changed")


def _change(args: Namespace, record: Record, changes: Mapping[str, Json]) -> int:
    """Change the record if it is still as it was."""
    _, settings = load_settings(args)
    admit("cli", changes, allow=settings.allow_secrets)
    with open_memory(args) as engine:
        left = "the files of the vault may not say what was edited"
        with vault_commands.follow_vault(args, engine, left=left) as vault:
            change = Edit(id=record.id, fields=apply_words(record, changes), if_version=record.version)
            (answer,) = apply_mirrored(engine, vault, [change])
        assert isinstance(answer, Record)
        short = engine.abbreviate([record.id])[record.id]
        message = f"edited {' and '.join(sorted(changes))} of {short}: {render_headline(answer)}"
        choose_output(as_json=args.json).print_done(
            message, id=answer.id, version=answer.version, edited=[*sorted(changes)]
        )
        sys.stdout.flush()
        settle(engine, limit=FEW)
    return 0
