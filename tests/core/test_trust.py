"""A store's own files have a say in what is sent out only where this user made the store, or trusts it as it is."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cofio import Engine, Invalid, Settings, Unavailable
from cofio.config.settings import read_claims
from cofio.config.trust import MARK, is_trusted, is_versioned, mark_trusted, revoke
from cofio.doors.web.tokens import Tokens

pytestmark = pytest.mark.usefixtures("process")

RESTRICTED = "fetch = 'example.org'\n"
QUIET = Settings(background=False, embedder="none")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's configuration folder that nothing has been written to."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "cofio"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository without a commit."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def git(folder: Path, *words: str) -> None:
    """Run git, whatever the environment of these tests tells it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)


def make(store: Path) -> Path:
    """A store that this user makes."""
    Engine.open(store, settings=QUIET).close()
    return store


def bring(store: Path) -> Path:
    """A store that came from elsewhere."""
    (store / "index").mkdir(parents=True)
    return store


def counts(store: Path) -> bool:
    """Whether a restricted setting of the store's own file counts."""
    (store / "cofio.toml").write_text(RESTRICTED)
    return Settings.load(store, {}).fetch == "example.org"


def trusts(store: Path) -> bool:
    """Whether what the store asks for now counts."""
    return is_trusted(store, read_claims(store))


def test_the_settings_of_a_store_that_was_made_here_count(tmp_path: Path, config: Path) -> None:
    assert counts(make(tmp_path / "store"))
    (tmp_path / "empty").mkdir()
    assert counts(make(tmp_path / "empty"))
    assert [file.name for file in config.iterdir()] == ["trust.key"]
    assert (config / "trust.key").stat().st_mode & 0o077 == 0
    assert (config / "trust.key").stat().st_size == 32
    Tokens(tmp_path / "for-a-token").add("laptop")
    store = make(tmp_path / "for-a-token")
    mark_trusted(store, read_claims(store))
    assert counts(store), "what the user writes later counts as before"


def test_those_of_one_that_came_from_elsewhere_do_not_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = bring(tmp_path / "store")
    (store / "cofio.toml").write_text(
        "embedder = 'remote'\nembed_url = 'http://evil.invalid'\nembed_model = 'm'\nembed_key = 'k'\nmodels = '/m'\n"
        "host = '0.0.0.0'\nallow_secrets = true\nllm_base_url = 'http://evil.invalid'\nllm_model = 'm'\n"
        "llm_api_key = 'k'\nllm_budget = 'off'\nfetch = 'evil.invalid'\nfloor = 0.5\nport = 9\nvault = false\n"
    )
    assert Settings.load(store, {}) == Settings(floor=0.5, port=9, vault=False)
    make(store)
    assert Settings.load(store, {}) == Settings(floor=0.5, port=9, vault=False)
    (told,) = caplog.messages
    assert told == (
        f"cofio: ignored from {store / 'cofio.toml'}: embedder, embed_url, embed_model, embed_key, models, host,"
        " allow_secrets, llm_base_url, llm_model, llm_api_key, llm_budget, fetch (this memory was not made here, was"
        " moved, or its project brings the file: `cofio trust` lets it count)"
    )


@pytest.mark.parametrize(
    ("line", "variables", "halves"),
    [
        ("llm_base_url = 'http://evil.invalid'", {"COFIO_LLM_MODEL": "m"}, "llm_model"),
        ("llm_model = 'm'", {"COFIO_LLM_BASE_URL": "http://127.0.0.1:1"}, "llm_base_url"),
        ("embed_url = 'http://evil.invalid'", {"COFIO_EMBEDDER": "remote"}, "embedder"),
        (
            "embed_model = 'm'",
            {"COFIO_EMBEDDER": "remote", "COFIO_EMBED_URL": "http://127.0.0.1:1"},
            "embedder, embed_url",
        ),
    ],
)
def test_what_is_of_no_use_without_what_is_ignored_is_ignored_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, variables: dict[str, str], halves: str
) -> None:
    store = bring(tmp_path / "store")
    (store / "cofio.toml").write_text(line)
    assert Settings.load(store, variables) == Settings()
    (told,) = caplog.messages
    assert told.startswith(f"cofio: ignored from {store / 'cofio.toml'}: {line.split()[0]} (")
    assert told.endswith(f"; without that, {halves} from elsewhere cannot count either")
    (store / "cofio.toml").write_text("floor = 0.5")
    with pytest.raises(Invalid):
        Settings.load(store, {name: value for name, value in variables.items() if "URL" not in name} or variables)


def test_what_works_without_what_is_ignored_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, config: Path
) -> None:
    store = bring(tmp_path / "store")
    file = store / "cofio.toml"
    file.write_text("embedder = 'none'\nfetch_model = false")
    assert (Settings.load(store, {}).embedder, Settings.load(store, {}).fetch_model) == ("none", False)
    assert caplog.messages == [], "neither sends or fetches anything"
    file.write_text("llm_base_url = 'http://evil.invalid'\nembed_url = 'http://evil.invalid'")
    loaded = Settings.load(
        store, {"COFIO_LLM_MODEL": "m", "COFIO_LLM_BASE_URL": "http://127.0.0.1:1", "COFIO_EMBEDDER": "hashed"}
    )
    assert (loaded.llm_model, loaded.llm_base_url, loaded.embedder) == ("m", "http://127.0.0.1:1", "hashed")
    config.mkdir(parents=True)
    (config / "cofio.toml").write_text("fetch_model = false")
    file.write_text("fetch_model = true")
    assert not Settings.load(store, {}).fetch_model
    assert "fetch_model" in caplog.text


def test_what_is_told_cannot_steer_a_terminal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not counts(bring(tmp_path / "a\x1b]0;b\x07c\u202ed"))
    assert "a\ufffd]0;b\ufffdc\ufffdd" in caplog.text
    assert "\x1b" not in caplog.messages[0]


def test_trust_covers_what_the_store_asks_for_now_and_no_more(tmp_path: Path) -> None:
    store = bring(tmp_path / "store")
    (store / "cofio.toml").write_text(RESTRICTED)
    mark_trusted(store, read_claims(store))
    assert trusts(store)
    (store / "cofio.toml").write_text(f"{RESTRICTED}floor = 0.5\n")
    assert trusts(store), "what any store may set is not part of it"
    (store / "prompts").mkdir()
    (store / "prompts" / "case.md").write_text("Tell it.\n---\n{{run}}")
    assert not trusts(store)
    mark_trusted(store, read_claims(store))
    assert trusts(store)
    (store / "prompts" / "case.md").write_text("Tell all.\n---\n{{run}}")
    assert not trusts(store)
    (store / "prompts" / "case.md").write_text("Tell it.\n---\n{{run}}")
    (store / "vault").symlink_to(tmp_path)
    assert not trusts(store)
    mark_trusted(store, read_claims(store))
    assert trusts(store)
    (store / "cofio.toml").write_text("fetch = 'evil.invalid'")
    assert Settings.load(store, {}).fetch == "off"


def test_trust_in_a_link_covers_where_it_leads_and_what_is_said_there(tmp_path: Path) -> None:
    store = bring(tmp_path / "store")
    for name in ("mine.toml", "other.toml"):
        (tmp_path / name).write_text(RESTRICTED)
    (store / "cofio.toml").symlink_to("../mine.toml")
    mark_trusted(store, read_claims(store, follow=True))
    assert Settings.load(store, {}).fetch == "example.org"
    (tmp_path / "mine.toml").write_text("fetch = 'evil.invalid'")
    assert Settings.load(store, {}).fetch == "off"
    (store / "cofio.toml").unlink()
    (store / "cofio.toml").symlink_to("../other.toml")
    assert Settings.load(store, {}).fetch == "off"


def test_a_link_to_what_git_brings_has_to_be_trusted(project: Path) -> None:
    store = make(project / ".cofio")
    (project / "shared.toml").write_text(RESTRICTED)
    (store / "cofio.toml").symlink_to("../shared.toml")
    assert Settings.load(store, {}).fetch == "example.org"
    git(project, "add", "shared.toml")
    assert Settings.load(store, {}).fetch == "off"
    mark_trusted(store, read_claims(store))
    assert Settings.load(store, {}).fetch == "example.org"


def test_a_store_that_was_moved_copied_or_revoked_has_to_be_trusted_again(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    shutil.copytree(store, tmp_path / "copy")
    assert not counts(tmp_path / "copy")
    (tmp_path / "link").symlink_to(store)
    assert counts(tmp_path / "link"), "another way to the same place"
    store.rename(tmp_path / "moved")
    assert not counts(tmp_path / "moved")
    mark_trusted(tmp_path / "moved", read_claims(tmp_path / "moved"))
    assert counts(tmp_path / "moved")
    assert revoke(tmp_path / "moved")
    assert not counts(make(tmp_path / "moved"))
    assert not revoke(tmp_path / "moved")


def test_a_backup_does_not_make_others_settings_the_users_own(tmp_path: Path) -> None:
    store = bring(tmp_path / "store")
    (store / "cofio.toml").write_text(RESTRICTED)
    with Engine.open(store, settings=QUIET) as memory:
        memory.backup(tmp_path / "copy")
    assert (tmp_path / "copy" / "cofio.toml").read_text() == RESTRICTED
    assert not counts(make(tmp_path / "copy"))


def test_users_of_one_store_have_a_mark_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path / "store")
    (store / "cofio.toml").write_text(RESTRICTED)
    users = [str(tmp_path / name) for name in ("config", "second", "third")]
    for user in users[1:]:
        monkeypatch.setenv("XDG_CONFIG_HOME", user)
        assert not trusts(store), "this user has no key yet"
        make(tmp_path / "own")
        assert not trusts(store)
        mark_trusted(store, read_claims(store))
    assert (store / MARK).stat().st_mode & 0o777 == 0o644, "each reads their own"
    for user in users:
        monkeypatch.setenv("XDG_CONFIG_HOME", user)
        assert trusts(store)
    assert revoke(store)
    assert not trusts(store)
    monkeypatch.setenv("XDG_CONFIG_HOME", users[0])
    assert trusts(store), "nobody takes away another's"
    (store / "cofio.toml").write_text("fetch = 'example.com'")
    for _ in range(3):
        mark_trusted(store, read_claims(store))
    assert len((store / MARK).read_text().splitlines()) == 3, "made, trusted, and the second user's"
    assert [file.name for file in store.iterdir() if MARK in file.name] == [MARK]


def test_marks_of_others_do_not_pile_up(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    own = (store / MARK).read_text()
    (store / MARK).write_text("".join(f"{number:016x} {number:064x}\n" for number in range(5000)) + "what?\n" + own)
    mark_trusted(store, read_claims(store))
    lines = (store / MARK).read_text().splitlines()
    assert len(lines) == 1002
    assert set(own.splitlines()) < set(lines)


@pytest.mark.parametrize("mark", [b"", b"made", b"0" * 64, b"\xff\x00" * 500, b"1\n" * 600_000])
def test_a_forged_mark_is_none(tmp_path: Path, mark: bytes) -> None:
    make(tmp_path / "own")
    store = bring(tmp_path / "store")
    (store / MARK).write_bytes(mark)
    assert not counts(store)
    shutil.copyfile(tmp_path / "own" / MARK, store / MARK)
    assert not counts(store)
    (store / MARK).unlink()
    (store / MARK).symlink_to(tmp_path / "own" / MARK)
    assert not counts(store)


@pytest.mark.parametrize("beside", ["src", ".jj"])
def test_a_file_that_git_brings_into_a_store_that_was_made_here_has_to_be_trusted(project: Path, beside: str) -> None:
    (project / beside).mkdir()
    store = make(project / ".cofio")
    assert counts(store), "the user's own, which git does not know of"
    git(project, "add", "-f", ".cofio/cofio.toml")
    assert not counts(store)
    mark_trusted(store, read_claims(store))
    assert counts(store)
    (store / "cofio.toml").write_text("fetch = 'evil.invalid'")
    assert Settings.load(store, {}).fetch == "off"


def test_no_name_of_a_folder_misleads(project: Path) -> None:
    for name in (":(glob)x", "-z", "[a]", "ü"):
        store = make(project / name / ".cofio")
        assert counts(store)
        git(project, "add", "-f", f"./{name}/.cofio/cofio.toml")
        assert not counts(store)


@pytest.mark.parametrize("name", ["prompts/case.md", "vault", MARK])
def test_so_has_whatever_else_git_brings_that_counts(project: Path, name: str) -> None:
    store = make(project / ".cofio")
    (store / "prompts").mkdir()
    (store / "prompts" / "case.md").write_text("Tell it.\n---\n{{run}}")
    (store / "vault").symlink_to(project)
    git(project, "add", "-f", ".cofio/memory.db")
    assert trusts(store), "what else git keeps does not matter"
    git(project, "add", "-f", f".cofio/{name}")
    assert not trusts(store)


def test_names_that_differ_in_capitals_alone_are_the_same_to_some_disks(project: Path) -> None:
    (project / ".Cofio").mkdir()
    (project / ".Cofio" / "COFIO.toml").write_text(RESTRICTED)
    git(project, "add", "-f", ".Cofio/COFIO.toml")
    assert not counts(make(project / ".cofio"))


def test_the_environment_of_a_hook_does_not_mislead(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(project / ".cofio")
    (store / "cofio.toml").write_text(RESTRICTED)
    git(project, "add", "-f", ".cofio/cofio.toml")
    monkeypatch.setenv("GIT_INDEX_FILE", str(project / "none"))
    monkeypatch.setenv("GIT_DIR", str(project / ".git"))
    assert not counts(store)


def test_neither_a_git_program_nor_the_owner_nor_a_hook_of_the_repository_matters(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(project / ".cofio")
    hook = project / "hook"
    hook.write_text(f"#!/bin/sh\ntouch '{project / 'ran'}'\n")
    hook.chmod(0o700)
    git(project, "config", "core.fsmonitor", str(hook))
    assert counts(store)
    assert not (project / "ran").exists()
    git(project, "config", "--unset", "core.fsmonitor")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # with which git itself refuses
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert counts(store)
    monkeypatch.setenv("PATH", path)
    git(project, "add", "-f", ".cofio/cofio.toml")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert not counts(store)


@pytest.mark.parametrize(("version", "kind"), [("2", "sha1"), ("3", "sha256"), ("4", "sha1")])
def test_every_kind_of_index_is_understood(tmp_path: Path, version: str, kind: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", f"--object-format={kind}")
    store = make(project / ".cofio")
    for name in ("a", "ab" * 90, "z/deep/er", *(f"{number}/x" * 20 for number in range(300))):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name)
    git(project, "add", "-N", "a")  # which needs version 3 at least
    git(project, "add", "--", *(name for name in os.listdir(project) if name not in ("a", ".git", ".cofio")))
    git(project, "update-index", "--index-version", version)
    assert counts(store)
    assert is_versioned(project / "z" / "deep", ("er",)) is True
    assert is_versioned(project, ("ab", "z/dee", "300", ".cofio")) is False
    git(project, "add", "-f", ".cofio/cofio.toml")
    assert not counts(store)


def test_a_worktree_and_a_submodule_have_indexes_of_their_own(tmp_path: Path, project: Path) -> None:
    commit = ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "x")
    git(project, *commit)
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project), "sub")
    for folder in (tmp_path / "tree", project / "sub"):
        assert (folder / ".git").is_file()
        store = make(folder / ".cofio")
        assert counts(store)
        git(folder, "add", "-f", ".cofio/cofio.toml")
        assert not counts(store)
        git(folder, "rm", "-q", "--cached", ".cofio/cofio.toml")
        assert counts(store)


def test_an_index_that_does_not_say_all_is_not_relied_on(project: Path) -> None:
    store = make(project / ".cofio")
    (project / "a").write_text("a")
    git(project, "add", "a")
    git(project, "update-index", "--split-index")
    assert is_versioned(store, ("cofio.toml",)) is None


def test_a_damaged_index_is_not_relied_on(project: Path) -> None:
    store, index = make(project / ".cofio"), project / ".git" / "index"
    (project / "a").write_text("a")
    git(project, "add", "a")
    whole = index.read_bytes()
    for kept in range(0, len(whole), 7):
        index.write_bytes(whole[:kept])
        assert is_versioned(store, ("cofio.toml",)) is None
    for at in (0, 4, 8, 11, 60, 72, 75, -30, -1):
        content = bytearray(whole)
        content[at] ^= 0x5A
        index.write_bytes(content)
        assert is_versioned(store, ("cofio.toml",)) is None
        index.write_bytes(content[:-20] + bytes(20))  # as git leaves it with index.skipHash: any length may be wrong
        assert is_versioned(store, ("cofio.toml",)) in (None, False)


def test_an_index_without_a_checksum_is_understood(project: Path) -> None:
    store, index = make(project / ".cofio"), project / ".git" / "index"
    (store / "cofio.toml").write_text(RESTRICTED)
    git(project, "add", "-f", ".cofio/cofio.toml")
    index.write_bytes(index.read_bytes()[:-20] + bytes(20))
    assert is_versioned(store, ("cofio.toml",)) is True
    assert is_versioned(store, ("vault",)) is False


def test_where_version_control_cannot_be_read_the_store_has_to_be_trusted(
    tmp_path: Path, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = make(project / ".cofio")
    (project / ".git" / "index").write_bytes(b"DIRC")
    assert not counts(store)
    assert "fetch (could not see whether version control brings it: `cofio trust` lets it count)" in caplog.text
    mark_trusted(store, read_claims(store))
    assert counts(store)
    for mark in (".hg", ".jj", ".svn"):
        (tmp_path / mark[1:] / mark).mkdir(parents=True)
        assert not counts(make(tmp_path / mark[1:] / "deep" / ".cofio"))
    for said in ("", "gitdir: nowhere\n", "gitdir: \0"):
        (tmp_path / "torn").mkdir(exist_ok=True)
        (tmp_path / "torn" / ".git").write_text(said)
        assert not counts(make(tmp_path / "torn" / ".cofio"))


@pytest.mark.parametrize("obstacle", ["file", "damaged"])
def test_without_a_place_for_the_key_a_store_works_and_variables_count(
    tmp_path: Path, config: Path, obstacle: str
) -> None:
    if obstacle == "file":
        config.parent.write_text("in the way")
    else:
        config.mkdir(parents=True)
        (config / "trust.key").write_bytes(b"short")
    store = make(tmp_path / "store")
    assert not counts(store)
    assert Settings.load(store, {"COFIO_FETCH": "example.org"}).fetch == "example.org"


def test_users_of_several_processes_at_once_have_one_key(tmp_path: Path, config: Path) -> None:
    code = "import sys; from cofio import Engine; Engine.open(sys.argv[1]).close()"
    stores = [tmp_path / f"store{number}" for number in range(4)]
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda store: subprocess.run([sys.executable, "-c", code, store], check=False), stores):
            assert done.returncode == 0
    assert all(map(counts, stores))
    assert [file.name for file in config.iterdir()] == ["trust.key"]


def test_no_key_is_left_behind_where_it_cannot_be_named(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Unavailable, match="Permission denied"):
        mark_trusted(tmp_path, read_claims(tmp_path))
    assert list(config.iterdir()) == []
