"""The tokens that clients of the server show: kept as hashes, in a file of the store that only its owner reads."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..errors import Conflict, Invalid, NotFound, Unavailable
from ..model import check_text

FILE = "tokens.json"
PREFIX = "cofio_"
MAX_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as it is kept: whose it is, when it was made, and what it hashes to."""

    name: str
    made: str
    hash: str


class Tokens:
    """The tokens of one store. A change holds for running servers from the next request on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._seen: tuple[int, int, int] | None = None
        self._kept: tuple[Token, ...] = ()

    def all(self) -> tuple[Token, ...]:
        """Every token, as kept.

        Raises:
            Unavailable: the file cannot be understood; nobody is let in by a guess.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._seen, self._kept = None, ()
            return ()
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if state != self._seen:
            self._kept, self._seen = self._read(), state
        return self._kept

    @property
    def wanted(self) -> bool:
        """Whether clients have to show a token: from the first on, also when the last has been ended."""
        return bool(self.all()) or self._path.exists()

    def owner(self, shown: str) -> str | None:
        """The name of the token that was shown; None when there is no such token."""
        hashed = _hash(shown)
        matches = [token.name for token in self.all() if hmac.compare_digest(token.hash, hashed)]
        return matches[0] if matches else None

    def add(self, name: str) -> str:
        """Make a token and return it: the only time that it can be seen.

        Raises:
            Conflict: there is one of this name.
        """
        check_text("name", name, MAX_NAME, empty=False)
        if not name.isprintable():
            raise Invalid("name", "holds characters that cannot be printed")
        token = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as tokens:
            if any(each.name == name for each in tokens):
                raise Conflict(f"the token {name}")
            made = datetime.now(UTC).isoformat(timespec="seconds")
            tokens.append(Token(name=name, made=made, hash=_hash(token)))
        return token

    def remove(self, name: str) -> None:
        """End a token.

        Raises:
            NotFound: there is none of this name.
        """
        with self._changing() as tokens:
            kept = [each for each in tokens if each.name != name]
            if len(kept) == len(tokens):
                raise NotFound(name)
            tokens[:] = kept

    def _read(self) -> tuple[Token, ...]:
        try:
            kept = json.loads(self._path.read_text())
            if not isinstance(kept, list):
                raise TypeError("it holds no list")
            return tuple(Token(name=str(each["name"]), made=str(each["made"]), hash=str(each["hash"])) for each in kept)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise Unavailable(f"{self._path} is damaged ({error}): remove it, and make the tokens anew") from error

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens, to be changed in place and then kept; one process at a time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            tokens = list(self.all())
            yield tokens
            with tempfile.NamedTemporaryFile("w", dir=self._folder, prefix=f".{FILE}.", delete=False) as file:
                json.dump([asdict(token) for token in tokens], file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(file.name, self._path)
            os.fsync(folder)
        finally:
            os.close(folder)


def _hash(token: str) -> str:
    # Of 256 random bits: there is nothing to guess, so a fast hash is enough.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
