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
from . import texts as words
from .inputs import Arguments, Options, Refused
from .limiter import Limiter
from .paths import MAX_PATH, ROOT, Spelling
from .tree import Tree, path_of, size_of


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
    strings: words.Strings = "docs",
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
        return Result(words.RATE_LIMITED, is_error=True)
    try:
        content, is_error = _Commands(tree, options, Arguments(command, options)).run(), False
    except Refused as refused:
        content, is_error = str(refused), True
    except Unavailable as error:  # its sentence may name a folder of this machine, which is not the model's business
        content, is_error = words.wording(strings).error(error.public or words.UNAVAILABLE), True
    # What is quoted may hold half of a surrogate pair, which no reader of UTF-8 would take.
    return Result(content if content.isascii() else content.encode(errors="replace").decode(), is_error)


class _Commands:
    """One command on its way."""

    def __init__(self, tree: Tree, options: Options, given: Arguments) -> None:
        self._tree = tree
        self._options = options
        self._said = words.wording(options.strings)
        self._given = given

    def run(self) -> str:
        """What to answer; raises Refused."""
        verbs = {
            "view": self._view, "create": self._create, "str_replace": self._str_replace, "insert": self._insert,
            "delete": self._delete, "rename": self._rename,
        }  # fmt: skip
        return verbs[self._given.name]()

    # Reading.

    def _view(self) -> str:
        written, path = self._given.path()
        asked = self._given.range()
        file = self._tree.file(path)
        if file is None:
            return self._listing(written, path)
        if file.text.count("\n") >= words.MAX_LINES:
            raise Refused(words.TOO_MANY_LINES.format(path=written))
        return words.shown(written, file.text, asked)

    def _listing(self, written: str, path: str) -> str:
        files = self._tree.under(path)
        if not files and path != ROOT:
            raise Refused(words.NOT_THERE.format(path=written))
        prefix = written.rstrip("/")
        sizes = _sizes(files, path, self._said.hidden)
        lines = [f"{words.size(sum(map(size_of, files)), self._said.strings)}\t{prefix}"]
        for name, size in sizes.items():
            lines.append(f"{words.size(size, self._said.strings)}\t{prefix}/{name}")
        return "\n".join([self._said.directory.format(path=written), *lines])

    # Writing.

    def _create(self) -> str:
        written, path = self._given.path()
        text = self._given.content(self._given.text("file_text"), written)
        self._refuse_secrets(path=written, file_text=text)
        if path == ROOT:
            raise self._given.refused(words.EXISTS, path=written)

        def attempt() -> list[Change]:
            file = self._tree.file(path)
            if file is not None and self._options.overwrite:
                return self._tree.editing(file, text)
            if file is not None or self._tree.is_directory(path):
                raise self._given.refused(words.EXISTS, path=written)
            self._refuse_under_file(written, path)
            return self._tree.creating(path, text)

        self._make(attempt, written)
        return words.CREATED.format(path=written)

    def _str_replace(self) -> str:
        written, path = self._given.path()
        sought, instead = self._given.text("old_str"), self._given.text("new_str")
        self._refuse_secrets(new_str=instead)
        edited = ""

        def attempt() -> list[Change]:
            nonlocal edited
            file = self._file(path, written, self._said.edit_missing, self._said.edit_directory)
            at = self._place(file.text, sought, written)
            text = self._given.content(file.text[:at] + instead + file.text[at + len(sought) :], written)
            self._refuse_joined(file.text, text)
            edited = words.snippet(text, file.text.count("\n", 0, at))
            return self._tree.editing(file, text)

        self._make(attempt, written)
        return words.EDITED.format(snippet=edited)

    def _place(self, text: str, sought: str, written: str) -> int:
        """Where the one place is that `sought` stands in."""
        if not sought:
            raise Refused(words.NOTHING_SOUGHT)
        at = text.find(sought)
        if at < 0:
            raise Refused(words.NOT_FOUND.format(sought=sought, path=written))
        if not self._options.replace_first and text.find(sought, at + len(sought)) >= 0:
            raise Refused(words.SEVERAL.format(sought=sought, lines=_places(text, sought)))
        return at

    def _insert(self) -> str:
        written, path = self._given.path()
        line, inserted = self._given.number("insert_line"), self._given.text("insert_text")
        self._refuse_secrets(insert_text=inserted)
        meant: list[str] = []

        def attempt() -> list[Change]:
            file = self._file(path, written, self._said.insert_missing, self._said.insert_directory)
            if meant and meant[0] != file.text:  # the line that was counted may be another by now
                raise self._given.refused(words.CHANGED, path=written)
            meant[:] = [file.text]
            lines = file.text.removesuffix("\n").split("\n") if file.text else []
            if not 0 <= line <= len(lines):
                raise Refused(self._said.bad_line.format(line=line, last=len(lines)))
            lines.insert(line, inserted.rstrip("\n"))
            text = "\n".join(lines)
            text = self._given.content(text if text.endswith("\n") else f"{text}\n", written)
            self._refuse_joined(file.text, text)
            return self._tree.editing(file, text)

        self._make(attempt, written)
        return words.INSERTED.format(path=written)

    def _delete(self) -> str:
        written, path = self._given.path()
        if path == ROOT:
            raise self._given.refused(words.KEEP_ROOT, verb="delete")

        def attempt() -> list[Change]:
            files = self._at(path)
            if not files:
                raise self._given.refused(words.MISSING, path=written)
            return self._tree.removing(files)

        self._make(attempt, written)
        return words.DELETED.format(path=written)

    def _rename(self) -> str:
        written, path = self._given.path("old_path")
        new, target = self._given.path("new_path")
        self._refuse_secrets(new_path=new)
        if path == ROOT:
            raise self._given.refused(words.KEEP_ROOT, verb="rename")

        def attempt() -> list[Change]:
            if self._tree.file(target) is not None or self._tree.is_directory(target):
                raise self._given.refused(words.TAKEN, path=new)
            files = self._at(path)
            if not files:
                raise self._given.refused(words.MISSING, path=written)
            if target.startswith(f"{path}/"):
                raise self._given.refused(words.INTO_ITSELF, path=written)
            self._refuse_under_file(new, target)
            longest = max(len(path_of(file)) for file in files) - len(path) + len(target)
            if longest > MAX_PATH:
                raise self._given.refused(words.PATH_TOO_LONG, path=new)
            return self._tree.moving(files, path, target)

        self._make(attempt, written)
        return words.RENAMED.format(path=written, target=new)

    def _at(self, path: str) -> list[Record]:
        """The file at a path, or else the files under it."""
        file = self._tree.file(path)
        return [file] if file is not None else self._tree.under(path)

    def _file(self, path: str, written: str, missing: str, directory: str) -> Record:
        file = self._tree.file(path)
        if file is None:
            raise Refused((directory if self._tree.is_directory(path) else missing).format(path=written))
        return file

    def _refuse_secrets(self, **given: str) -> None:
        """Refuse what looks like a secret among the fields of the command."""
        try:
            admit(self._tree.door, given, allow=self._tree.engine.settings.allow_secrets)
        except Invalid as error:
            raise self._given.refused(words.NOT_KEPT, problem=error) from None

    def _refuse_joined(self, before: str, after: str) -> None:
        """Refuse an edit that makes a secret of what stands around it; one that was there before may stay."""
        try:
            self._refuse_secrets(file=after)
        except Refused:
            if find_secret(before) is None:
                raise

    def _refuse_under_file(self, written: str, path: str) -> None:
        above = self._tree.above(path)
        if above is not None:
            raise self._given.refused(words.UNDER_FILE, path=written, parent=above)

    def _make(self, attempt: Callable[[], list[Change]], written: str) -> None:
        """Make the changes that an attempt comes to; read and decide anew when others were faster."""
        try:
            self._tree.engine.change(attempt)
        except LimitExceeded as error:
            if error.field != "changes":
                raise
            raise self._given.refused(words.TOO_MANY, path=written) from error
        except Busy as error:
            raise self._given.refused(words.BUSY, path=written) from error


def _places(text: str, sought: str) -> str:
    """The line of each place where `sought` begins, also of those that overlap."""
    found: list[str] = []
    line, seen, at = 1, 0, text.find(sought)
    while at >= 0:
        if len(found) == words.MAX_PLACES:
            return f"{', '.join(found)}, …"
        line, seen = line + text.count("\n", seen, at), at
        found.append(str(line))
        at = text.find(sought, at + 1)
    return ", ".join(found)


def _sizes(files: Iterable[Record], path: str, hidden: frozenset[str]) -> dict[str, int]:
    """The names that a listing shows, two levels deep, each with its size; a directory's ends in a slash."""
    entries: dict[tuple[str, ...], int] = {}
    for file in files:
        names = path_of(file)[len(path) + 1 :].split("/")
        size = size_of(file)
        for depth in range(1, min(len(names), 2) + 1):
            if names[depth - 1].startswith(".") or names[depth - 1] in hidden:
                break
            entry = (*names[: depth - 1], names[depth - 1] + ("/" if len(names) > depth else ""))
            entries[entry] = entries.get(entry, 0) + size
    # A directory sorts by its name without the slash, and stands before what is in it.
    order = sorted(entries, key=lambda entry: tuple(name.rstrip("/") for name in entry))
    return {"/".join(entry): entries[entry] for entry in order}
