"""The tokens of a server's clients. Only hashes are kept: in a private file, or in the database that machines share."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ..config.address import StoreAddress
from ..config.trust import is_new, mark_made
from ..engine.opening import exists, open_shared_values
from ..system.atomic_files import replace_path
from ..system.disk import has_permissions
from ..system.locks import lock_folder
from ..system.safe_files import read_file
from ..values.errors import Conflict, Invalid, NotFound, Unavailable
from ..values.records import check_text

if TYPE_CHECKING:
    from ..backends.interface import SharedValues

FILE = "tokens.json"
SHARED = "tokens"  # the name of their row in a database
FRESH = 1.0  # seconds after which the tokens of a database are read again
TRIES = 50  # of a change, while others change them, too
PREFIX = "cofio_"
MAX_FILE_BYTES = 16 * 2**20
MAX_NAME = 100
MAX_SCOPE_NAME = 128  # characters of an app's or a project's name

Access = Literal["all", "read"]

_SCOPE_NAME = re.compile(r"[a-zA-Z0-9_.@+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as it is kept: whose it is, when it was made, what it hashes to, and what it is limited to."""

    name: str
    made: str
    hash: str
    app: str | None = None
    project: str | None = None
    access: Access = "all"

    def __post_init__(self) -> None:
        check_text("name", self.name, MAX_NAME, empty=False)
        if not self.name.isprintable():
            raise Invalid("name", "holds characters that cannot be printed")
        check_text("made", self.made, MAX_NAME)
        check_text("hash", self.hash, MAX_NAME, empty=False)  # which signs the sessions of the page
        if self.app is not None:
            _check_name("app", self.app)
        if self.project is not None:
            _check_name("project", self.project)
            if self.app is None:
                raise Invalid("project", "needs the app that it is a project of")
        if self.access not in get_args(Access):
            raise Invalid("access", f"is not one of {', '.join(get_args(Access))}")

    @property
    def limits(self) -> str | None:
        """Return what the token is limited to, in words, or None if it is good for everything."""
        where = f"the app {self.app}" if self.app else ""
        if self.project:
            where = f"the project {self.project} of {where}"
        if self.access == "read":
            return f"reading in {where}" if where else "reading"
        return where or None

    def find_refusal(self, *, app: str, project: str, writes: bool) -> str | None:
        """Return why the token is not good for a call, in a sentence, or None if it is."""
        if self.app is not None and app != self.app:
            beyond = "use another app"
        elif self.project is not None and project != self.project:
            beyond = "use another project"
        elif self.access == "read" and writes:
            beyond = "change anything"
        else:
            return None
        return f"this token is limited to {self.limits}; it may not {beyond}"


class Tokens:
    """The tokens of one store. Running servers know of a change at once or, by a database, within `FRESH` seconds."""

    def __init__(self, place: Path | SharedValues) -> None:
        """`place` is the store's folder or, of a store that several machines share, what they have in common."""
        self._path = place / FILE if isinstance(place, Path) else None
        self._values: SharedValues = TokenFile(place) if isinstance(place, Path) else place
        self._read_at = float("-inf")
        self._known: tuple[str | None, tuple[Token, ...] | None] = None, None
        """The text that was last read, and its tokens; None if there never was one."""

    @property
    def is_current(self) -> bool:
        """Return whether changes that others made are known; otherwise `refresh` finds out, and may have to wait."""
        return self._path is not None or time.monotonic() - self._read_at < FRESH

    def refresh(self) -> None:
        """Find out what others have changed.

        Raises:
            Unavailable: the database cannot be reached, or the tokens cannot be understood.
        """
        began = time.monotonic()
        try:
            text = self._values.read(SHARED)
            if text != self._known[0]:
                self._known = text, None if text is None else _decode(text)
        except (ValueError, TypeError, RecursionError, Invalid, OSError) as error:
            what, remedy = "the tokens in the database are", f"delete the row {SHARED!r} of the table shared"
            if self._path is not None:
                what, remedy = f"{self._path} is", "remove it"
            raise Unavailable(f"{what} damaged ({error}): {remedy}, and make the tokens anew") from error
        self._read_at = began

    def all(self) -> tuple[Token, ...]:
        """Return every token, those of a database as they were when last read.

        Raises:
            Unavailable: they cannot be understood, so no token is accepted.
        """
        if self._path is not None or self._read_at == float("-inf"):
            self.refresh()
        return self._known[1] or ()

    @property
    def are_required(self) -> bool:
        """Return whether clients have to show a token: from the first on, also when the last has been ended."""
        self.all()
        return self._known[1] is not None

    @property
    def are_several(self) -> bool:
        """Whether there are more than one, as they were when last read."""
        return len(self._known[1] or ()) > 1

    def find(self, text: str) -> Token | None:
        """Return the token that was shown, or None if there is no such token."""
        digest = _hash(text).encode()
        matches = [token for token in self.all() if hmac.compare_digest(token.hash.encode(), digest)]
        return matches[0] if matches else None

    def add(self, name: str, *, app: str | None = None, project: str | None = None, access: Access = "all") -> str:
        """Make a token and return it: the only time that it can be seen.

        With an `app`, or a `project` of it, it is good for nothing else; with the access "read" it changes nothing.

        Raises:
            Conflict: there is one of this name.
            Invalid: the name cannot be, or there can be no such app or project.
        """
        text = PREFIX + secrets.token_urlsafe(32)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        token = Token(name=name, made=made, hash=_hash(text), app=app, project=project, access=access)

        def append(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if any(each.name == name for each in tokens):
                raise Conflict(f"the token {name}")
            return (*tokens, token)

        self._change(append)
        return text

    def remove(self, name: str) -> None:
        """End a token. Raises NotFound if there is none of this name."""

        def leave_out(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if all(each.name != name for each in tokens):
                raise NotFound(name)
            return tuple(each for each in tokens if each.name != name)

        self._change(leave_out)

    def _change(self, work: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        """Put what `work` returns in the place of the tokens, and try again if others were faster."""
        for _ in range(TRIES):
            self.refresh()
            text, tokens = self._known
            new = json.dumps([asdict(token) for token in work(tokens or ())], indent=1)
            if self._values.replace(SHARED, text, new):
                self.refresh()
                return
        raise Unavailable("others change the tokens at the same moment: try again")

    def check(self) -> list[str]:
        """Return what is wrong with them, in sentences that say what to do."""
        try:
            self.refresh()
            mode = 0 if self._path is None else stat.S_IMODE(self._path.lstat().st_mode)
        except Unavailable as error:
            return [f"{error}; until then no client is let in"]
        except FileNotFoundError:
            return []
        if mode & 0o077 and has_permissions():
            return [f"others may look into {self._path}: its permissions are {mode:04o}, not 0600"]
        return []

    def make_private(self) -> None:
        """Make the file that they are in, if there is one, readable by its owner alone."""
        if self._path is not None and not self._path.is_symlink():
            with suppress(FileNotFoundError):
                self._path.chmod(0o600)


class TokenFile:
    """A file of the store's folder that is read and replaced like a value that is shared by a database."""

    read_only = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    def read(self, name: str) -> str | None:
        """Return the content, or None if there is no file."""
        content = read_file(self._path, limit=MAX_FILE_BYTES)
        return None if content is None else content.decode()

    def replace(self, name: str, old: str | None, new: str) -> bool:
        """Put `new` in the place of `old`, one process at a time; False, and no change, if there is something else."""
        is_first = is_new(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if is_first:
            mark_made(self._folder)
        with lock_folder(self._folder, wait=True):
            if self.read(name) != old:
                return False
            with replace_path(self._path) as file:
                file.write(new.encode())
        return True


@contextmanager
def open_tokens(address: StoreAddress, *, make: bool = True) -> Iterator[Tokens]:
    """Open the tokens of the store at an address. A database gets a store if it has none, and `make` says so.

    Raises:
        Unavailable: the database cannot be reached, or there is no store.
    """
    if address.folder is not None:
        yield Tokens(address.folder)
        return
    if not make and not exists(address):
        raise Unavailable(f"there is no memory in {address}: `cofio add` and `cofio serve` make one")
    with open_shared_values(address) as shared:
        assert shared is not None
        yield Tokens(shared)


def _check_name(field: str, name: str) -> None:
    check_text(field, name, MAX_SCOPE_NAME, empty=False)
    if not _SCOPE_NAME.fullmatch(name) or name in (".", ".."):
        raise Invalid(field, "takes the letters a-z and A-Z, digits and _ . @ + - only, and cannot be . or ..")


def _hash(token: str) -> str:
    # Of 256 random bits: there is nothing to guess, so a fast hash is enough.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _decode(text: str) -> tuple[Token, ...]:
    content = json.loads(text)
    if not isinstance(content, list):
        raise TypeError("it holds no list")
    # A field that is not known here may be a limit: such a file is no more understood than one with a gap.
    return tuple(Token(**each) for each in content)
