"""Where what is said in a folder belongs: the repository that the folder is in, and the user's own memory beside it.

A repository is known by its remote, so that all its clones and worktrees share their memory and a namesake does not.
One without a remote is known by its folder. git is not run, which may be missing, refuses another user's repository
and obeys its configuration.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..config.git_index import find_git_folder
from ..conversations.projects import Project
from ..system.safe_files import read_file
from ..values.errors import Invalid, Unavailable
from ..values.records import Scope
from .remotes import find_remote, name_folder, normalize_remote

APP = "code"
"""The app under which the memory of coding agents is, for REST and the page."""
PERSONAL = "any-repository"
"""The project of what holds in each repository of a user. No repository's has this name: theirs end in a digest."""
OPT_OUT = ".cofio-off"
"""The file that keeps cofio out of its folder and all below."""
_CONFIG = 1 << 20  # bytes of a configuration
_POINTER = 1 << 12  # bytes of the file that names the folder which worktrees share
_DEEPEST = 256  # folders that are looked at on the way up
_NAME = 60  # characters of a repository's name that its scope shows
_LOGINS = ("LOGNAME", "USER", "LNAME", "USERNAME")  # as getpass reads them
_OTHERS = re.compile(r"[^A-Za-z0-9_.+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository, or a folder outside of any, and where its memory is."""

    name: str
    """What people call it: the last part of its remote or folder."""
    scope: Scope
    """All that is remembered of it: what its sessions said, and what was made of that, for all who share the store."""
    is_opted_out: bool
    """Whether a file says that nothing of it is to be captured or recalled."""
    root: Path | None
    """The folder of its working tree; None outside of any repository."""

    @property
    def project(self) -> Project:
        """The project of conversations that the scope is."""
        return Project(app=self.scope.names[1], name=self.scope.names[2])

    @property
    def user_scope(self) -> Scope:
        """What is remembered of this user's work in it."""
        return self.project.owner("user", find_user())


def find_repository(cwd: Path, *, remote: str | None = None) -> Repository:
    """The repository that a folder is in, which need not exist any more; `remote` counts if none can be read there.

    Raises:
        Invalid: the path is not absolute, or cannot be one.
    """
    if not cwd.is_absolute() or "\0" in str(cwd):
        raise Invalid("cwd", "is not an absolute path")
    folder = Path(os.path.realpath(cwd))
    above = [folder, *folder.parents][:_DEEPEST]
    for root in above:
        if (git := _find_shared_folder(root)) is not None:
            main = git.parent if git.name == ".git" else git
            address = _read_remote(git, main)
            off = _has_opt_out([*above, main])
            return _make_repository(address or name_folder(str(git)), root=root, is_opted_out=off)
    address = normalize_remote(remote) if remote else None
    return _make_repository(address or name_folder(str(folder)), root=None, is_opted_out=_has_opt_out(above))


def user_scope() -> Scope:
    """What is remembered of this user's work in every repository."""
    return find_personal_project().owner("user", find_user())


def find_personal_project() -> Project:
    """The project of what holds in each repository."""
    return Project(app=APP, name=PERSONAL)


def find_user() -> str:
    """Whose memory it is: the name by which the system knows the user, in letters that REST takes.

    The system's directory of users is not asked: it may lie on another machine.
    """
    names = (os.environ.get(variable, "") for variable in _LOGINS)
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or ""
    return _slug(next(filter(None, names), "") or os.path.basename(os.path.normpath(home))) or "user"


def _make_repository(identity: str, *, root: Path | None, is_opted_out: bool) -> Repository:
    name = re.split(r"[/\\]", identity.rstrip("/\\").removesuffix(".git"))[-1].removeprefix("file:") or "root"
    digest = hashlib.blake2b(identity.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    project = Project(app=APP, name=f"{_slug(name) or 'repository'}-{digest}")
    shown = name.encode("utf-8", "replace").decode()
    return Repository(name=shown, scope=project.scope, is_opted_out=is_opted_out, root=root)


def _slug(name: str) -> str:
    """A name in the letters that the REST door takes in names."""
    return _OTHERS.sub("-", name).strip("-.")[:_NAME]


def _find_shared_folder(root: Path) -> Path | None:
    """The git folder of a working tree, which all worktrees of a repository share; None if there is none."""
    if not os.path.lexists(root / ".git"):
        return None
    try:
        git = find_git_folder(root)
        if not (git / "HEAD").exists():
            return None
        pointer = read_file(git / "commondir", limit=_POINTER, follow=True)
        shared = git if pointer is None else git / os.fsdecode(pointer.strip())
        shared = Path(os.path.realpath(shared))
        return shared if (shared / "HEAD").exists() else None
    except (OSError, ValueError, Unavailable):
        return None


def _read_remote(git: Path, main: Path) -> str | None:
    """The remote that a repository's configuration names; a configuration that cannot be read names none."""
    try:
        config = read_file(git / "config", limit=_CONFIG, follow=True)
    except (OSError, Unavailable):
        return None
    url = find_remote((config or b"").decode("utf-8", "surrogateescape"))
    return normalize_remote(url, main) if url else None


def _has_opt_out(folders: list[Path]) -> bool:
    return any(os.path.lexists(folder / OPT_OUT) for folder in folders)
