"""Whether what a store's own files ask for counts: only in a store that this user made or has trusted.

A mark in the store says so. It is a code made of the store's path with a key that only this user has, so a store that
comes with a repository cannot bring one, and a store that is copied or moved has none that fits. There is no list of
stores that would have to be kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..system.atomic_files import create_temporary, name_new, replace_path
from ..system.disk import leads_elsewhere, set_mode
from ..system.folders import open_folder
from ..system.safe_files import read_file
from ..system.user_folders import find_config_folder
from ..values.errors import Unavailable

MARK = "trusted"
"""The file of a store that holds the marks."""
PROMPTS = "prompts"
"""The folder of a store whose files replace the prompts of the same names."""
VAULT = "vault"
"""The folder of a store that holds its Markdown files; it may be a link where the store is trusted."""

_SETTINGS = "cofio.toml"
_KEY = "trust.key"
_KEY_BYTES = 32
_MOST = 1 << 20  # bytes that are read of any file
_MOST_OTHERS = 1000  # marks of others that are kept
_LINE = re.compile(r"([0-9a-f]{16}) ([0-9a-f]{64})")
_OTHER_SYSTEMS = (".hg", ".jj", ".svn")  # which are not read: what lies in their trees needs `cofio trust`


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a store's own files ask for that would send something out or widen rights."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """The restricted settings of its cofio.toml."""
    prompts: Mapping[str, bytes] = field(default_factory=dict)
    """Prompts of its own: what each file holds."""
    vault: str | None = None
    """Where its vault leads, if that is a link."""
    link: str | None = None
    """Where its cofio.toml leads, if that is a link."""

    @classmethod
    def read(cls, store: Path, settings: Mapping[str, object]) -> Claims:
        """The claims of a store whose cofio.toml holds these restricted settings.

        Raises:
            Unavailable: they cannot be read.
        """
        prompts: dict[str, bytes] = {}
        try:
            for name in sorted(os.listdir(store / PROMPTS)):
                if name.endswith(".md"):
                    prompts[name] = _read_prompt(store / PROMPTS / name)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise Unavailable(f"{store / PROMPTS} cannot be read: {error.strerror}") from error
        vault, file = (
            os.readlink(path) if leads_elsewhere(path) else None for path in (store / VAULT, store / _SETTINGS)
        )
        return cls(settings=settings, prompts=prompts, vault=vault, link=file)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.files)

    @property
    def files(self) -> tuple[str, ...]:
        """The names in the store that the claims stand in."""
        has_settings = self.settings or self.link is not None
        named = ((_SETTINGS, has_settings), (PROMPTS, self.prompts), (VAULT, self.vault is not None))
        return tuple(name for name, claims in named if claims)

    @property
    def digest(self) -> str:
        """What tells these claims from any others."""
        import hashlib
        import json

        prompts = {name: hashlib.sha256(content).hexdigest() for name, content in self.prompts.items()}
        parts = [self.settings, prompts, self.vault, self.link]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def is_trusted(store: Path, claims: Claims) -> bool:
    """Whether these claims of the store count."""
    return find_doubt(store, claims) is None


def find_doubt(store: Path, claims: Claims) -> str | None:
    """Why these claims of the store do not count; None if there are none, this user trusted them, or made the store.

    What version control can bring into a store that the user made is not the user's word: that has to be trusted.
    """
    if not claims:
        return None
    key = _read_key()
    marks = _read_marks(store, key) if key is not None else set()
    if key is not None and _sign(key, "trusted", store, claims.digest) in marks:
        return None
    if key is not None and _sign(key, "made", store) in marks:
        versioned = is_versioned(store, (*claims.files, MARK))
        if claims.link is not None and versioned is False:  # what it says stands elsewhere
            file = Path(os.path.realpath(store / _SETTINGS))
            versioned = is_versioned(file.parent, (file.name,))
        if versioned is None:
            return "could not see whether version control brings it"
        if not versioned:
            return None
    return "this memory was not made here, was moved, or its project brings the file"


def is_marked(store: Path) -> bool:
    """Whether the store has any mark of this user: that it was made, or trusted with something, at any path."""
    key = _read_key()
    return key is not None and bool(_read_marks(store, key))


def is_new(store: Path) -> bool:
    """Whether the folder is not there yet, or empty: what is then made in it has come from nowhere else."""
    try:
        with os.scandir(store) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def mark_made(store: Path) -> None:
    """Mark a store that this user has just made. Where that cannot be written, the store has no claims that count."""
    with suppress(OSError, Unavailable):
        key = _read_key() or _make_key()
        _write_marks(store, key, {_sign(key, "made", store)})


def mark_trusted(store: Path, claims: Claims) -> None:
    """Mark that this user trusts the store with these claims, and no longer with any that were trusted before.

    Raises:
        Unavailable: the mark or the user's key cannot be written.
    """
    try:
        key = _read_key() or _make_key()
        made = _read_marks(store, key) & {_sign(key, "made", store)}
        _write_marks(store, key, made | {_sign(key, "trusted", store, claims.digest)})
    except OSError as error:
        raise Unavailable(
            f"{error.filename or store} cannot be written ({error.strerror}): use COFIO_* variables instead"
        ) from error


def revoke(store: Path) -> bool:
    """Take this user's marks away; whether there were any.

    Raises:
        Unavailable: they cannot be removed.
    """
    key = _read_key()
    if key is None or not _read_marks(store, key):
        return False
    try:
        _write_marks(store, key, set())
    except OSError as error:
        raise Unavailable(f"{store / MARK} cannot be changed ({error.strerror}): remove it by hand") from error
    return True


def is_versioned(store: Path, names: tuple[str, ...]) -> bool | None:
    """Whether version control keeps any of these names of the store, so that a pull can change them.

    None where there is version control that cannot be read.
    """
    real = Path(os.path.realpath(store))
    unsure = False
    for folder in (real, *real.parents):
        has_git = os.path.lexists(folder / ".git")
        if has_git:
            from .git_index import is_tracked  # only needed in a repository

            tracked = is_tracked(folder, [(real.relative_to(folder) / name).as_posix() for name in names])
            if tracked:
                return True
            unsure |= tracked is None
        # jj keeps the index of a git that is beside it
        unsure |= any(os.path.lexists(folder / name) for name in _OTHER_SYSTEMS if not (has_git and name == ".jj"))
    return None if unsure else False


def _sign(key: bytes, kind: str, store: Path, *more: str) -> str:
    """A mark of that kind: only who has the key can make it, and it fits this path alone."""
    import hashlib
    import hmac

    message = b"\0".join([b"cofio", kind.encode(), os.fsencode(os.path.realpath(store)), *map(str.encode, more)])
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _identify(key: bytes) -> str:
    """What tells a key from others, without saying anything of it."""
    import hashlib

    return hashlib.sha256(b"cofio key\0" + key).hexdigest()[:16]


def _read_lines(store: Path) -> list[tuple[str, str]]:
    """Every user's marks, each with what tells its key; raises OSError if they cannot be read."""
    try:
        content = read_file(store / MARK, limit=_MOST)
    except Unavailable:
        return []
    found = map(_LINE.fullmatch, (content or b"").decode("ascii", "replace").splitlines())
    return [(line[1], line[2]) for line in found if line]


def _read_marks(store: Path, key: bytes) -> set[str]:
    own = _identify(key)
    try:
        return {mark for whose, mark in _read_lines(store) if whose == own}
    except OSError:
        return set()


def _write_marks(store: Path, key: bytes, marks: set[str]) -> None:
    """Replace the marks of that key by these; those of others stay."""
    own = _identify(key)
    others = [line for line in _read_lines(store) if line[0] != own][-_MOST_OTHERS:]
    lines = others + [(own, mark) for mark in sorted(marks)]
    if lines:  # marks are no secrets: whom the folder lets in may read theirs
        with replace_path(store / MARK, durable=False) as file:
            set_mode(file.fileno(), 0o644)
            file.write("".join(f"{whose} {mark}\n" for whose, mark in lines).encode())
    else:
        (store / MARK).unlink(missing_ok=True)


def _read_key() -> bytes | None:
    folder = find_config_folder()
    try:
        key = read_file(folder / _KEY, limit=_MOST, follow=True) if folder is not None else None
    except (OSError, Unavailable):
        return None
    return key if key is not None and len(key) == _KEY_BYTES else None


def _make_key() -> bytes:
    """The user's key, made; where processes do that at the same time, it is the same for all of them."""
    folder = find_config_folder()
    if folder is None:
        raise Unavailable("this user has no home folder to keep a key in: use COFIO_* variables instead")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(open_folder(folder)) as opened:
        with create_temporary(opened) as temporary:
            temporary.file.write(os.urandom(_KEY_BYTES))
        try:
            name_new(opened, temporary.name, _KEY)
        except OSError as error:
            opened.remove(temporary.name)
            if not isinstance(error, FileExistsError):  # otherwise another process was quicker: its key counts
                raise
    key = _read_key()
    if key is None:
        raise Unavailable(f"{folder / _KEY} is not a key that cofio made: remove it, and trust your stores again")
    return key


def _read_prompt(path: Path) -> bytes:
    try:
        return read_file(path, limit=_MOST, follow=True) or b""
    except (OSError, Unavailable):  # reported when the prompt is used
        return b""
