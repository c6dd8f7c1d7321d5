"""The six commands: each reads what is there, decides, and makes its changes in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..engine.engine import Engine
from ..engine.retries import Busy
from ..secrets.policy import admit
from ..secrets.scanner import find_secret
from ..values.changes import Change
from ..values.errors import Invalid, LimitExceeded, Unavailable
from ..values.records import Record, Scope
from . import texts
from .inputs import Arguments, Options, Refusal
from .limiter import Limiter
from .paths import MAX_PATH, ROOT, Spelling
from .tree import Tree, get_path, get_size


@dataclass(frozen=True, slots=True)
class Result:
    """What a command came to, as a `tool_result` takes it."""

    content: str
    is_error: bool = False


def dispatch(
    engine: Engine,
    scope: Scope,
    command: object,
    *,
    strings: texts.Strings = "docs",
    overwrite: bool = False,
    paths: Spelling = "any",
    replace_first: bool = False,
    limiter: Limiter | None = None,
    source: str = "memory_tool",
) -> Result:
    """Carry out one command, the `input` of a `tool_use`, on the files in a scope.

    Whatever is wrong with the command is an error text for the model, and nothing has changed then.

    Raises:
        Invalid: the scope or an option is wrong, which no model can mend.
    """
    options = Options(strings=strings, overwrite=overwrite, paths=paths, replace_first=replace_first)
    tree = Tree(engine, scope, source=source)
    if limiter is not None and not limiter.take():
        return Result(texts.RATE_LIMITED, is_error=True)
    try:
        content, is_error = _Commands(tree, options, Arguments(command, options)).run(), False
    except Refusal as refusal:
        content, is_error = str(refusal), True
    except Unavailable as error:  # its sentence may name a folder of this machine, which is not the model's business
        content, is_error = texts.get_phrases(strings).render_error(error.public or texts.UNAVAILABLE), True
    # What is quoted may hold half of a surrogate pair, which no reader of UTF-8 would take.
    return Result(content if content.isascii() else content.encode(errors="replace").decode(), is_error)


class _Commands:
    """One command on its way."""

    def __init__(self, tree: Tree, options: Options, arguments: Arguments) -> None:
        self._tree = tree
        self._options = options
        self._phrases = texts.get_phrases(options.strings)
        self._arguments = arguments

    def run(self) -> str:
        """What to answer; raises Refused."""
        verbs = {
            "view": self._view, "create": self._create, "str_replace": self._str_replace, "insert": self._insert,
            "delete": self._delete, "rename": self._rename,
        }  # fmt: skip
        return verbs[self._arguments.name]()

    # Reading.

    def _view(self) -> str:
        written, path = self._arguments.parse_path()
        view_range = self._arguments.get_view_range()
        file = self._tree.get_file(path)
        if file is None:
            return self._list_directory(written, path)
        if file.text.count("\n") >= texts.MAX_LINES:
            raise Refusal(texts.TOO_MANY_LINES.format(path=written))
        return texts.render_file(written, file.text, view_range)

    def _list_directory(self, written: str, path: str) -> str:
        files = self._tree.list_files(path)
        if not files and path != ROOT:
            raise Refusal(texts.NOT_THERE.format(path=written))
        prefix = written.rstrip("/")
        sizes = _list_sizes(files, path, self._phrases.hidden_names)
        lines = [f"{texts.format_size(sum(map(get_size, files)), self._phrases.strings)}\t{prefix}"]
        for name, size in sizes.items():
            lines.append(f"{texts.format_size(size, self._phrases.strings)}\t{prefix}/{name}")
        return "\n".join([self._phrases.directory.format(path=written), *lines])

    # Writing.

    def _create(self) -> str:
        written, path = self._arguments.parse_path()
        text = self._arguments.check_content(self._arguments.get_text("file_text"), written)
        self._refuse_secrets(path=written, file_text=text)
        if path == ROOT:
            raise self._arguments.make_refusal(texts.EXISTS, path=written)

        def attempt() -> list[Change]:
            file = self._tree.get_file(path)
            if file is not None and self._options.overwrite:
                return self._tree.plan_edit(file, text)
            if file is not None or self._tree.is_directory(path):
                raise self._arguments.make_refusal(texts.EXISTS, path=written)
            self._refuse_under_file(written, path)
            return self._tree.plan_creation(path, text)

        self._apply(attempt, written)
        return texts.CREATED.format(path=written)

    def _str_replace(self) -> str:
        written, path = self._arguments.parse_path()
        old_text, instead = self._arguments.get_text("old_str"), self._arguments.get_text("new_str")
        self._refuse_secrets(new_str=instead)
        edited = ""

        def attempt() -> list[Change]:
            nonlocal edited
            file = self._require_file(path, written, self._phrases.edit_missing, self._phrases.edit_directory)
            at = self._find_occurrence(file.text, old_text, written)
            text = self._arguments.check_content(file.text[:at] + instead + file.text[at + len(old_text) :], written)
            self._refuse_joined(file.text, text)
            edited = texts.render_snippet(text, file.text.count("\n", 0, at))
            return self._tree.plan_edit(file, text)

        self._apply(attempt, written)
        return texts.EDITED.format(snippet=edited)

    def _find_occurrence(self, text: str, old_text: str, written: str) -> int:
        """Return where the one occurrence of `old_text` begins."""
        if not old_text:
            raise Refusal(texts.EMPTY_OLD_TEXT)
        at = text.find(old_text)
        if at < 0:
            raise Refusal(texts.NOT_FOUND.format(old_text=old_text, path=written))
        if not self._options.replace_first and text.find(old_text, at + len(old_text)) >= 0:
            raise Refusal(texts.SEVERAL.format(old_text=old_text, lines=_list_occurrences(text, old_text)))
        return at

    def _insert(self) -> str:
        written, path = self._arguments.parse_path()
        line, inserted = self._arguments.get_number("insert_line"), self._arguments.get_text("insert_text")
        self._refuse_secrets(insert_text=inserted)
        texts_read: list[str] = []

        def attempt() -> list[Change]:
            file = self._require_file(path, written, self._phrases.insert_missing, self._phrases.insert_directory)
            if texts_read and texts_read[0] != file.text:  # the line that was counted may be another by now
                raise self._arguments.make_refusal(texts.CHANGED, path=written)
            texts_read[:] = [file.text]
            lines = file.text.removesuffix("\n").split("\n") if file.text else []
            if not 0 <= line <= len(lines):
                raise Refusal(self._phrases.bad_line.format(line=line, last=len(lines)))
            lines.insert(line, inserted.rstrip("\n"))
            text = "\n".join(lines)
            text = self._arguments.check_content(text if text.endswith("\n") else f"{text}\n", written)
            self._refuse_joined(file.text, text)
            return self._tree.plan_edit(file, text)

        self._apply(attempt, written)
        return texts.INSERTED.format(path=written)

    def _delete(self) -> str:
        written, path = self._arguments.parse_path()
        if path == ROOT:
            raise self._arguments.make_refusal(texts.KEEP_ROOT, verb="delete")

        def attempt() -> list[Change]:
            files = self._list_files_at(path)
            if not files:
                raise self._arguments.make_refusal(texts.MISSING, path=written)
            return self._tree.plan_removal(files)

        self._apply(attempt, written)
        return texts.DELETED.format(path=written)

    def _rename(self) -> str:
        written, path = self._arguments.parse_path("old_path")
        new, target = self._arguments.parse_path("new_path")
        self._refuse_secrets(new_path=new)
        if path == ROOT:
            raise self._arguments.make_refusal(texts.KEEP_ROOT, verb="rename")

        def attempt() -> list[Change]:
            if self._tree.get_file(target) is not None or self._tree.is_directory(target):
                raise self._arguments.make_refusal(texts.TAKEN, path=new)
            files = self._list_files_at(path)
            if not files:
                raise self._arguments.make_refusal(texts.MISSING, path=written)
            if target.startswith(f"{path}/"):
                raise self._arguments.make_refusal(texts.INTO_ITSELF, path=written)
            self._refuse_under_file(new, target)
            longest = max(len(get_path(file)) for file in files) - len(path) + len(target)
            if longest > MAX_PATH:
                raise self._arguments.make_refusal(texts.PATH_TOO_LONG, path=new)
            return self._tree.plan_move(files, path, target)

        self._apply(attempt, written)
        return texts.RENAMED.format(path=written, target=new)

    def _list_files_at(self, path: str) -> list[Record]:
        """The file at a path, or else the files under it."""
        file = self._tree.get_file(path)
        return [file] if file is not None else self._tree.list_files(path)

    def _require_file(self, path: str, written: str, missing: str, directory: str) -> Record:
        file = self._tree.get_file(path)
        if file is None:
            raise Refusal((directory if self._tree.is_directory(path) else missing).format(path=written))
        return file

    def _refuse_secrets(self, **arguments: str) -> None:
        """Refuse what looks like a secret among the fields of the command."""
        try:
            admit(self._tree.door, arguments, allow=self._tree.engine.settings.allow_secrets)
        except Invalid as error:
            raise self._arguments.make_refusal(texts.NOT_KEPT, problem=error) from None

    def _refuse_joined(self, before: str, after: str) -> None:
        """Refuse an edit that makes a secret of what stands around it; one that was there before may stay."""
        try:
            self._refuse_secrets(file=after)
        except Refusal:
            if find_secret(before) is None:
                raise

    def _refuse_under_file(self, written: str, path: str) -> None:
        above = self._tree.find_file_above(path)
        if above is not None:
            raise self._arguments.make_refusal(texts.UNDER_FILE, path=written, parent=above)

    def _apply(self, attempt: Callable[[], list[Change]], written: str) -> None:
        """Make the changes that an attempt comes to; read and decide again when others were faster."""
        try:
            self._tree.engine.change(attempt)
        except LimitExceeded as error:
            if error.field != "changes":
                raise
            raise self._arguments.make_refusal(texts.TOO_MANY, path=written) from error
        except Busy as error:
            raise self._arguments.make_refusal(texts.BUSY, path=written) from error


def _list_occurrences(text: str, old_text: str) -> str:
    """List the line of each occurrence of `old_text`, also of those that overlap."""
    found: list[str] = []
    line, start, at = 1, 0, text.find(old_text)
    while at >= 0:
        if len(found) == texts.MAX_OCCURRENCES:
            return f"{', '.join(found)}, …"
        line, start = line + text.count("\n", start, at), at
        found.append(str(line))
        at = text.find(old_text, at + 1)
    return ", ".join(found)


def _list_sizes(files: Iterable[Record], path: str, hidden_names: frozenset[str]) -> dict[str, int]:
    """The names that a listing shows, two levels deep, each with its size; a directory's ends in a slash."""
    entries: dict[tuple[str, ...], int] = {}
    for file in files:
        names = get_path(file)[len(path) + 1 :].split("/")
        size = get_size(file)
        for depth in range(1, min(len(names), 2) + 1):
            if names[depth - 1].startswith(".") or names[depth - 1] in hidden_names:
                break
            entry = (*names[: depth - 1], names[depth - 1] + ("/" if len(names) > depth else ""))
            entries[entry] = entries.get(entry, 0) + size
    # A directory sorts by its name without the slash, and stands before what is in it.
    order = sorted(entries, key=lambda entry: tuple(name.rstrip("/") for name in entry))
    return {"/".join(entry): entries[entry] for entry in order}
