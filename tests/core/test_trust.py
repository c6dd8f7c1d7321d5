"""A store's own files have a say in what is sent out only where this user made the store, or trusts it as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cofio import Engine, Settings
from cofio.config.settings import read_claims
from cofio.config.trust import MARK, is_trusted, is_versioned, mark_trusted, revoke

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
    (tmp_path / "empty").mkdir()
    assert counts(make(tmp_path / "store"))
    assert counts(make(tmp_path / "empty"))
    assert [file.name for file in config.iterdir()] == ["trust.key"]
    assert (config / "trust.key").stat().st_mode & 0o077 == 0


def test_those_of_one_that_came_from_elsewhere_do_not_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = bring(tmp_path / "a\x1b]0;b\x07c\u202ed")
    (store / "cofio.toml").write_text(
        "embedder = 'remote'\nembed_url = 'http://evil.invalid'\nembed_model = 'm'\nembed_key = 'k'\nmodels = '/m'\n"
        "host = '0.0.0.0'\nallow_secrets = true\nllm_base_url = 'http://evil.invalid'\nllm_model = 'm'\n"
        "llm_api_key = 'k'\nllm_budget = 'off'\nfetch = 'evil.invalid'\nfloor = 0.5\nport = 9\nvault = false\n"
    )
    for _ in range(2):
        assert Settings.load(store, {}) == Settings(floor=0.5, port=9, vault=False)
        make(store)
    (told,) = caplog.messages
    assert "a\ufffd]0;b\ufffdc\ufffdd" in told, "it cannot steer a terminal"
    assert (
        "embedder, embed_url, embed_model, embed_key, models, host,"
        " allow_secrets, llm_base_url, llm_model, llm_api_key, llm_budget, fetch ("
    ) in told


@pytest.mark.parametrize(
    ("line", "variables", "halves"),
    [
        ("llm_base_url = 'http://evil.invalid'", {"COFIO_LLM_MODEL": "m"}, "llm_model"),
        ("llm_model = 'm'", {"COFIO_LLM_BASE_URL": "http://127.0.0.1:1"}, "llm_base_url"),
        ("embed_url = 'http://evil.invalid'", {"COFIO_EMBEDDER": "remote"}, "embedder"),
    ],
)
def test_what_is_of_no_use_without_what_is_ignored_is_ignored_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, variables: dict[str, str], halves: str
) -> None:
    store = bring(tmp_path / "store")
    (store / "cofio.toml").write_text(line)
    assert Settings.load(store, variables) == Settings()
    assert caplog.messages[0].endswith(f"; without that, {halves} from elsewhere cannot count either")


def test_what_works_without_what_is_ignored_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, config: Path
) -> None:
    store = bring(tmp_path / "store")
    file = store / "cofio.toml"
    file.write_text("embedder = 'none'\nfetch_model = false")
    assert Settings.load(store, {}) == Settings(embedder="none", fetch_model=False)
    assert caplog.messages == [], "neither sends or fetches anything"
    file.write_text("llm_base_url = 'http://evil.invalid'\nembed_url = 'http://evil.invalid'")
    own = {"COFIO_LLM_MODEL": "m", "COFIO_LLM_BASE_URL": "http://127.0.0.1:1", "COFIO_EMBEDDER": "hashed"}
    expected = Settings(llm_model="m", llm_base_url="http://127.0.0.1:1", embedder="hashed")
    assert Settings.load(store, own) == expected
    config.mkdir(parents=True)
    (config / "cofio.toml").write_text("fetch_model = false")
    file.write_text("fetch_model = true")
    assert not Settings.load(store, {}).fetch_model


def test_trust_covers_what_the_store_asks_for_now_and_no_more(tmp_path: Path) -> None:
    store = bring(tmp_path / "store")
    (store / "cofio.toml").write_text(RESTRICTED)
    mark_trusted(store, read_claims(store))
    (store / "cofio.toml").write_text(f"{RESTRICTED}floor = 0.5\n")
    assert trusts(store), "what any store may set is not part of it"
    (store / "prompts").mkdir()
    for prompt in ("Tell it.", "Tell all."):
        (store / "prompts" / "case.md").write_text(f"{prompt}\n---\n{{{{run}}}}")
        assert not trusts(store)
        mark_trusted(store, read_claims(store))
        assert trusts(store)
    (store / "vault").symlink_to(tmp_path)
    assert not trusts(store)
    mark_trusted(store, read_claims(store))
    (store / "cofio.toml").write_text("fetch = 'evil.invalid'")
    assert Settings.load(store, {}).fetch == "off"


def test_trust_in_a_link_covers_where_it_leads_and_what_is_said_there(tmp_path: Path, project: Path) -> None:
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
    store = make(project / ".cofio")
    (project / "shared.toml").write_text(RESTRICTED)
    (store / "cofio.toml").symlink_to("../shared.toml")
    assert Settings.load(store, {}).fetch == "example.org"
    git(project, "add", "shared.toml")
    assert Settings.load(store, {}).fetch == "off", "git brings what it leads to"


def test_a_store_that_was_moved_copied_or_revoked_has_to_be_trusted_again(tmp_path: Path) -> None:
    store = make(tmp_path / "store")
    shutil.copytree(store, tmp_path / "copy")
    assert not counts(tmp_path / "copy")
    with Engine.open(tmp_path / "copy", settings=QUIET) as memory:
        memory.backup(tmp_path / "backup")
    assert not counts(make(tmp_path / "backup")), "nor are the settings in a backup of it the user's own"
    (tmp_path / "link").symlink_to(store)
    assert counts(tmp_path / "link"), "another way to the same place"
    store.rename(tmp_path / "moved")
    assert not counts(tmp_path / "moved")
    mark_trusted(tmp_path / "moved", read_claims(tmp_path / "moved"))
    assert counts(tmp_path / "moved")
    assert revoke(tmp_path / "moved")
    assert not counts(make(tmp_path / "moved"))
    assert not revoke(tmp_path / "moved")


def test_users_of_one_store_have_a_mark_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path / "store")
    (store / "cofio.toml").write_text(RESTRICTED)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "second"))
    assert not trusts(store), "this user has no key yet"
    make(tmp_path / "own")
    assert not trusts(store)
    mark_trusted(store, read_claims(store))
    assert trusts(store)
    assert revoke(store)
    assert not trusts(store)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert trusts(store), "nobody takes away another's"


@pytest.mark.parametrize("mark", [b"", b"0" * 64, b"\xff\x00" * 500, b"1\n" * 600_000])
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


@pytest.mark.parametrize("name", ["", "src", ":(glob)x", "ü"])
def test_a_file_that_git_brings_into_a_store_that_was_made_here_has_to_be_trusted(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (project / ".jj").mkdir()  # jj keeps the index of the git beside it
    store = make(project / name / ".cofio")
    assert counts(store), "the user's own, which git does not know of"
    git(project, "add", "-f", f"./{store.relative_to(project)}/cofio.toml")
    monkeypatch.setenv("GIT_INDEX_FILE", str(project / "none"))  # as in a hook
    monkeypatch.setenv("PATH", str(project / "none"))  # no program is asked
    assert not counts(store)
    mark_trusted(store, read_claims(store))
    assert counts(store)
    (store / "cofio.toml").write_text("fetch = 'evil.invalid'")
    assert Settings.load(store, {}).fetch == "off"


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


@pytest.mark.parametrize(("version", "kind"), [("2", "sha1"), ("3", "sha256"), ("4", "sha1")])
def test_every_kind_of_index_is_understood(tmp_path: Path, version: str, kind: str) -> None:
    project = tmp_path / "project"
    (project / ".Cofio").mkdir(parents=True)
    git(project, "init", "-q", f"--object-format={kind}")
    for name in ("a", "ab" * 90, *(f"n{number}" * 20 for number in range(30)), ".Cofio/COFIO.toml"):
        (project / name).write_text(name)
    git(project, "add", "-N", "a")  # which needs version 3 at least
    git(project, "add", "--", *(name for name in os.listdir(project) if name[0] == "n" or name[:2] == "ab"))
    git(project, "update-index", "--index-version", version)
    assert is_versioned(project, ("n0" * 20,)) is True
    assert is_versioned(project, ("ab", "n0", ".cofio")) is False
    git(project, "add", "-f", ".Cofio/COFIO.toml")
    assert is_versioned(project / ".cofio", ("cofio.toml",)) is True, "to some disks, capitals make no difference"


def test_a_worktree_has_an_index_of_its_own(tmp_path: Path, project: Path) -> None:
    git(project, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    store = make(tmp_path / "tree" / ".cofio")
    assert counts(store)
    git(tmp_path / "tree", "add", "-f", ".cofio/cofio.toml")
    assert not counts(store)


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
    index.write_bytes(whole[:-20] + bytes(20))
    assert is_versioned(project, ("a",)) is True
    git(project, "update-index", "--split-index")
    assert is_versioned(store, ("cofio.toml",)) is None, "the rest of it is in another file"


def test_where_version_control_cannot_be_read_the_store_has_to_be_trusted(tmp_path: Path, project: Path) -> None:
    store = make(project / ".cofio")
    (project / ".git" / "index").write_bytes(b"DIRC")
    assert not counts(store)
    mark_trusted(store, read_claims(store))
    assert counts(store)
    (tmp_path / "other" / ".hg").mkdir(parents=True)
    assert not counts(make(tmp_path / "other" / "deep" / ".cofio"))
    (tmp_path / "torn").mkdir()
    for said in ("", "gitdir: nowhere\n", "gitdir: \0"):
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
