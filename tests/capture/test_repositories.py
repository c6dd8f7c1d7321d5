"""Which repository a folder belongs to, and where its memory is."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.capture import Repository, find_repository, user_scope
from cofio.capture.remotes import find_remote, normalize_remote
from cofio.capture.repositories import find_user
from cofio.doors.rest.requests import CHARSET
from cofio.values.errors import Invalid

from .conftest import make_repository

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]


def run_git(folder: Path, *words: str) -> None:
    """Run git, with nobody's configuration."""
    empty = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    subprocess.run([*GIT, "-C", str(folder), *words], check=True, capture_output=True, env=empty)


SAME = [
    "git@github.com:Example/Boats.git",
    "git@github.com:/example/boats",
    "ssh://git@ssh.github.com:443/example/boats.git",
    "https://GitHub.com//example/boats.git/",
    "https://user:hunter2@github.com:443/example/boats.git?x=1",
    "git+ssh://git@github.com:22/example/boats",
    "github.com:example/boats.git",
]


@pytest.mark.requirement("place.remote")
@pytest.mark.parametrize("remote", SAME)
def test_all_addresses_of_a_remote_are_one_repository(remote: str, tmp_path: Path) -> None:
    assert normalize_remote(remote) == "github.com/example/boats"
    found = find_repository(make_repository(tmp_path / "clone", remote))
    assert found.name == "boats"
    assert found.scope == find_repository(make_repository(tmp_path / "other", SAME[0])).scope
    assert found.root == tmp_path / "clone"


@pytest.mark.requirement("place.namesake", "place.remote")
def test_namesakes_are_other_repositories_and_ports_and_capitals_count_where_they_tell_them_apart() -> None:
    others = [
        "git@github.com:other/boats.git", "git@gitlab.com:example/boats.git", "https://github.com/example/boats/more",
        "https://evil.example/github.com/example/boats", "https://github.com@evil.example/example/boats",
    ]  # fmt: skip
    assert not {None, "github.com/example/boats"} & {normalize_remote(each) for each in others}
    assert normalize_remote("http://localhost:3000/a/b") != normalize_remote("http://localhost:3001/a/b")
    assert normalize_remote("ssh://git@[::1]:22/a/b.git") == "[::1]:22/a/b"
    assert normalize_remote("ssh://git@example.com:2222/a/b") == normalize_remote("https://example.com:8443/a/b.git")
    assert normalize_remote("https://Git.Example.com/A/b") == "git.example.com/A/b"
    assert normalize_remote("git@ssh.dev.azure.com:v3/org/tools/repo") == "dev.azure.com/org/tools/repo"
    assert normalize_remote("https://org@dev.azure.com/org/tools/_git/repo") == "dev.azure.com/org/tools/repo"


@pytest.mark.requirement("place.remote")
@pytest.mark.parametrize(
    ("config", "remote"),
    [
        ('[remote "origin"]\n\turl = a:b\n', "a:b"),
        ('[remote "fork"]\nurl=x:y\n[REMOTE "origin"] url = "a:b # c" ; why\n', "a:b # c"),
        ('[remote "fork"]\nurl = x:y # the fork\n', "x:y"),
        ('[remote "origin"]\n\tpushurl = p:q\n\turl = a:\\\nb\n\turl = c:d\n', "a:b"),
        ('[include]\n\tpath = /etc/passwd\n[includeIf "x"]\npath = y\n', None),
        ('[remote "origin"]\n\turl\n\turl =\n', None),
        ("[remote.origin]\nurl = a:b\n", "a:b"),
        ('[branch "origin"]\nurl = a:b\n[broken\nurl = x\n', None),
        ("\0\udcff[[[", None),
    ],
)
def test_the_remote_is_read_as_git_would(config: str, remote: str | None) -> None:
    assert find_remote(config) == remote


@pytest.mark.requirement("place.worktree")
@pytest.mark.usefixtures("process")
def test_clones_worktrees_submodules_and_folders_below_share_what_is_theirs(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    run_git(main, "init", "-q")
    run_git(main, "commit", "-q", "--allow-empty", "-m", "first")
    run_git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    (main / "src" / "deep").mkdir(parents=True)
    alone = find_repository(main)
    assert {find_repository(tmp_path / "tree").scope, find_repository(main / "src" / "deep").scope} == {alone.scope}
    assert alone.name == "main"
    run_git(tmp_path, "clone", "-q", str(main), str(tmp_path / "copy"))
    assert find_repository(tmp_path / "copy").scope == alone.scope  # a copy of what has no remote of its own
    run_git(main, "remote", "add", "origin", "git@github.com:example/boats.git")
    named = find_repository(main)
    assert named.scope != alone.scope
    assert find_repository(tmp_path / "tree").scope == named.scope
    assert find_repository(main / ".worktrees" / "gone" / "src").scope == named.scope
    (main / ".cofio-off").touch()
    assert find_repository(tmp_path / "tree").is_opted_out
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    run_git(other, "commit", "-q", "--allow-empty", "-m", "first")
    run_git(other, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "copy"), "part")
    below = find_repository(other / "part")
    assert below.root == other / "part"
    assert below.scope not in (find_repository(other).scope, named.scope)


@pytest.mark.requirement("place.local", "place.opt-out")
def test_without_a_remote_the_folder_is_the_repository_and_a_file_keeps_cofio_out_of_it_and_all_below(
    tmp_path: Path,
) -> None:
    here, there = make_repository(tmp_path / "a" / "boats"), make_repository(tmp_path / "b" / "boats")
    assert find_repository(here).scope != find_repository(there).scope
    (tmp_path / "link").symlink_to(here)
    assert find_repository(tmp_path / "link").scope == find_repository(here).scope
    bare = find_repository(tmp_path)
    assert (bare.root, bare.name) == (None, tmp_path.name)
    assert find_repository(tmp_path / "gone", remote=SAME[0]).name == "boats"
    (here / "src").mkdir()
    assert not find_repository(here / "src").is_opted_out
    (here / ".cofio-off").touch()
    assert find_repository(here / "src").is_opted_out
    (here / ".cofio-off").unlink()
    (tmp_path / "a" / ".cofio-off").symlink_to("nowhere")
    assert find_repository(here).is_opted_out
    assert find_repository(tmp_path / "a" / "plain").is_opted_out
    assert not find_repository(there).is_opted_out


def replace_config(git: Path) -> Path:
    """Take the configuration away; its path."""
    (git / "config").unlink()
    return git / "config"


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a huge configuration": lambda git: (git / "config").write_bytes(b"[remote]" * 200_000),
    "a pipe": lambda git: os.mkfifo(replace_config(git)),
    "a folder": lambda git: replace_config(git).mkdir(),
    "a loop of links": lambda git: replace_config(git).symlink_to("config"),
    "no text": lambda git: (git / "config").write_bytes(bytes(range(256)) * 9),
    "a helper as remote": lambda git: (git / "config").write_text('[remote "origin"]\nurl = ext::sh -c "touch x"\n'),
    "a pipe that names a folder": lambda git: os.mkfifo(git / "commondir"),
    "a loop of folders": lambda git: (git / "commondir").write_text(".\n"),
    "a folder elsewhere": lambda git: (git / "commondir").write_text("/dev\n"),
    "a name with a NUL": lambda git: (git / "commondir").write_bytes(b"a\0b"),
}


@pytest.mark.requirement("place.hostile")
@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_repository_is_at_worst_one_without_a_remote(how: str, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "boats", "a:b/c")
    HOSTILE[how](root / ".git")
    assert isinstance(find_repository(root), Repository)
    assert not (tmp_path / "boats" / "x").exists()


@pytest.mark.requirement("place.hostile")
@given(st.text(), st.text())
def test_no_remote_and_no_configuration_can_make_it_fail(url: str, config: str) -> None:
    normalize_remote(url)
    find_remote(config)
    for cwd in ("relative", "/a\0b", "C:\\work"):
        with pytest.raises(Invalid, match="cwd"):
            find_repository(Path(cwd))


@pytest.mark.requirement("place.doors")
@pytest.mark.parametrize("name", ["boats", "été", "...", "a b", "x" * 200, "$(id)"])
def test_a_scope_is_a_project_that_rest_can_name(name: str, tmp_path: Path) -> None:
    found = find_repository(make_repository(tmp_path / name))
    assert found.scope.names[:2] == ("rest", "code")
    assert re.fullmatch(CHARSET, found.project.name)
    assert len(found.project.name) <= 128
    assert found.project.scope == found.scope
    assert found.user_scope.names[3:] == user_scope().names[3:] == ("user", user_scope().names[-1])
    assert re.fullmatch(CHARSET, user_scope().names[-1])
    assert found.scope.names != user_scope().names[:3]


@pytest.mark.requirement("place.user")
@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"USER": "ada", "HOME": "/home/other"}, "ada"),
        ({"LOGNAME": "", "USERNAME": "Ada L."}, "Ada-L"),
        ({"HOME": "/home/ada/"}, "ada"),
        ({"HOME": "/"}, "user"),
        ({}, "user"),
    ],
)
def test_a_user_is_known_by_the_login_or_else_by_the_home_folder(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME", "USERPROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert find_user() == name
