"""How the files of the memory tool are copied into a real folder, and out of one: never beyond it.

Each step into a folder is taken from the one above it, and follows no link: a program that changes the folder meanwhile
cannot lead a copy elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ...files import Tree
from ...files.paths import ROOT, BadPath, canonicalize, list_parents
from ...files.tree import get_path
from ...secrets.policy import admit
from ...system.atomic_files import replace_file
from ...system.folders import OpenFolder, descend, open_folder, walk
from ...values.changes import Change
from ...values.errors import Invalid
from ...values.progress import Progress
from ...values.records import MAX_TEXT, Record, check_text

MAX_CHANGES = 20_000  # changes that copy in files by one transaction: a few for each file, one for each folder above it
BATCH_TEXT = 100_000_000  # characters, too
LARGEST = 4 * MAX_TEXT  # bytes; a longer file has too many characters in any case
_REFUSALS = {
    errno.ELOOP: "stands behind a link, which is not followed",
    errno.ENOTDIR: "stands behind a link or a file, which is no folder",
    errno.EISDIR: "has the name of a folder that is there",
    errno.EINVAL: "has a name that this system does not take",
    errno.ENAMETOOLONG: "has a name that is too long for this machine",
    errno.EACCES: "may not be read or written by you",
    errno.ENOENT: "has gone meanwhile",
}


@dataclass(slots=True)
class CopyResult:
    """What came of a copy: how many files, how many were the same already, and which were refused, and why."""

    files: int = 0
    same: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


# Out.


def pull(files: Sequence[Record], path: str, folder: Path, progress: Progress) -> CopyResult:
    """Copy files that are at or under `path` into a folder; each takes its name once it is whole."""
    result = CopyResult()
    folder.mkdir(parents=True, exist_ok=True)
    with closing(open_folder(folder)) as root:
        for number, file in enumerate(files):
            progress("copying out", number, len(files))
            name = get_path(file)
            try:
                names = _split_names(name, path)
                result.files += _put(root, names, file.text.encode())
            except Invalid as error:
                result.refused.append((name, error.problem))
            except OSError as error:
                if error.errno not in _REFUSALS:
                    error.filename = str(folder.joinpath(*names))  # a full disk names no file
                    raise
                result.refused.append((name, _REFUSALS[error.errno]))
    result.same = len(files) - result.files - len(result.refused)
    return result


def _split_names(name: str, path: str) -> list[str]:
    """The names that lead from the folder to a file; raises Invalid for a key that is no path of the tree."""
    try:
        plain = canonicalize(name) == name
    except BadPath:
        plain = False
    if not plain or not name.startswith((f"{ROOT}/", path)):
        raise Invalid("path", "has a path that could lead out of the folder")
    return name[len(path) + 1 :].split("/") if name != path else [name.rpartition("/")[2]]


def _put(root: OpenFolder, names: Sequence[str], content: bytes) -> bool:
    """Make a file under an open folder, with the folders that lead to it; whether it is another than before."""
    with descend(root, names[:-1], make=0o777) as parent:
        if _holds(parent, names[-1], content):
            return False
        with replace_file(parent, names[-1], mode=0o666) as file:
            file.write(content)
    return True


def _holds(parent: OpenFolder, name: str, content: bytes) -> bool:
    """Whether a plain file of that name has this content; a link is none, and is replaced itself."""
    try:
        return parent.read(name, len(content))[0] == content
    except (FileNotFoundError, PermissionError, Invalid):
        return False


# In.


def push(tree: Tree, path: str, folder: Path, progress: Progress, *, without: Path) -> CopyResult:
    """Copy the files of a folder to where `path` is, all in one transaction if they are not too many.

    The folder `without` is passed over: a memory does not take in itself.

    Raises:
        Invalid: `path` is a file, or is under one.
        Unavailable: others change the same files all the time.
    """
    if tree.get_file(path) is not None or tree.find_file_above(path) is not None:
        raise Invalid("path", f"{path} is a file, or under one, not a directory")
    result = CopyResult()
    texts = _read(path, folder, result, progress, without, tree.engine.settings.allow_secrets)
    for batch in _split_batches(texts):
        done = CopyResult()

        def find_changes(texts: Mapping[str, str] = batch) -> list[Change]:
            nonlocal done
            done = CopyResult()
            return _build_changes(tree, path, texts, done)

        tree.engine.change(find_changes, busy=f"others change {path} all the time; try again")
        result.files, result.same = result.files + done.files, result.same + done.same
        result.refused += done.refused
    return result


def _build_changes(tree: Tree, path: str, texts: Mapping[str, str], done: CopyResult) -> list[Change]:
    """What makes the files hold these texts."""
    here = {get_path(file): file for file in tree.list_files(path)}
    directories = {above for name in here for above in list_parents(name)}
    changes: list[Change] = []
    for name, text in texts.items():
        file = here.get(name)
        if file is None and (name in directories or any(above in here for above in list_parents(name))):
            done.refused.append((name, "would stand where there is a directory, or under a file"))
        elif file is None:
            changes += tree.plan_creation(name, text)
            done.files += 1
        elif file.text != text:
            changes += tree.plan_edit(file, text)
            done.files += 1
        else:
            done.same += 1
    return changes


def _split_batches(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    batch: dict[str, str] = {}
    size = changes = 0
    for name, text in texts.items():
        if batch and (changes > MAX_CHANGES or size + len(text) > BATCH_TEXT):
            yield batch
            batch, size, changes = {}, 0, 0
        batch[name] = text
        size += len(text)
        changes += 3 + len(list_parents(name))
    yield batch


def _read(
    path: str, folder: Path, result: CopyResult, progress: Progress, without: Path, allow_secrets: bool
) -> dict[str, str]:
    """The text of each file of a folder by its canonical path; what cannot be copied is refused."""
    root, texts, above = folder.resolve(), dict[str, str](), set[str]()
    excluded = without.resolve()

    def report_unreadable(error: OSError) -> None:
        result.refused.append((_make_printable(str(error.filename)), error.strerror or "cannot be read"))

    for below, folders, names, parent in walk(root, report_unreadable):
        folders[:] = [each for each in folders if root.joinpath(*below, each) != excluded]
        for name in names:
            relative = "/".join((*below, name))
            try:
                target = canonicalize(f"{path}/{relative}", "absolute")
                if target in texts or target in above or any(each in texts for each in list_parents(target)):
                    raise Invalid("name", "has the same name as another, written otherwise")
                text = _read_text(parent, name)
                admit("cli", {"name": relative, "file": text}, allow=allow_secrets)
                texts[target] = text
                above.update(list_parents(target))
            except BadPath as bad:
                result.refused.append(
                    (_make_printable(relative), f"has a name that cannot be kept ({_render_reason(bad)})")
                )
            except Invalid as error:
                result.refused.append((_make_printable(relative), error.problem))
            except OSError as error:
                if error.errno not in _REFUSALS:
                    raise
                result.refused.append((_make_printable(relative), _REFUSALS[error.errno]))
            progress("copying in", len(texts), 0)
    return texts


def _read_text(parent: OpenFolder, name: str) -> str:
    """What a file of an open folder holds; raises Invalid when that is no text."""
    content, _ = parent.read(name, LARGEST)
    if len(content) > LARGEST:
        raise Invalid("file", f"is longer than {MAX_TEXT:,} characters")
    try:
        text = content.decode()
        check_text("file", text, MAX_TEXT)
    except (UnicodeDecodeError, Invalid):
        long = len(content) > MAX_TEXT and b"\0" not in content
        raise Invalid("file", f"is longer than {MAX_TEXT:,} characters" if long else "is no UTF-8 text") from None
    return text


def _make_printable(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _render_reason(bad: BadPath) -> str:
    return bad.template.rpartition(": ")[2].replace("{path}", "it")
