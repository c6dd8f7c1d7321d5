"""Settings come from the environment, then the store's file, then the defaults; a store is found where it should be."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, Invalid, Scope, Settings
from cofio.config.settings import HARMLESS, OTHERS, find_store
from cofio.config.trust import MARK, mark_made


def test_a_variable_goes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    assert Settings.load(tmp_path / "nowhere", {}) == Settings()
    (tmp_path / "cofio.toml").write_text('fusion = "rrf"\nfloor = 0.5\nbackground = false\n')
    loaded = Settings.load(tmp_path, {"COFIO_FLOOR": "0.25", "COFIO_SYNC": "normal"})
    assert loaded == Settings(fusion="rrf", floor=0.25, background=False, sync="normal")


def test_every_setting_can_be_a_variable_and_a_line_of_the_file(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {
        "embedder": "remote", "embed_url": "http://localhost/v1", "embed_model": "m", "embed_key": "secret ü",
        "models": "/models", "fetch_model": False, "sync": "normal", "fusion": "rrf", "floor": 0.5, "background": False,
        "token_codes": False,
        "host": "::1", "port": 9000, "allow_secrets": True, "timezone": "Europe/Oslo", "docs": True,
        "llm_base_url": "http://localhost:1/v1", "llm_model": "m", "llm_api_key": "k", "llm_budget": "calls=5",
        "llm_wait": 0.5,
        "fetch": "example.org", "vault": False, "quiet_after": 1.5, "structured": True, "workers": 3,
        "row_security": True, "pool_size": 4, "replica_lag": 2.5, "read_store": "postgresql://standby/memory",
    }  # fmt: skip
    assert set(chosen) == {field.name for field in fields(Settings)}
    expected = Settings(**chosen)
    assert Settings.load(tmp_path, {f"COFIO_{name.upper()}": str(value) for name, value in chosen.items()}) == expected
    lines = (f"{name} = {str(v).lower() if isinstance(v, bool) else repr(v)}\n" for name, v in chosen.items())
    mark_made(tmp_path)
    (tmp_path / "cofio.toml").write_text("".join(lines), encoding="utf-8")
    assert Settings.load(tmp_path, {}) == expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("florr = 0.5", "florr"), ("store = 'x'", "store"), ("[floor]\nx = 1", "floor"), ("floor = 'high'", "floor"),
        ("floor = true", "floor"), ("floor = nan", "floor"), ("floor = -0.1", "floor"), ("embedder = 5", "embedder"),
        ("embedder = 'word2vec'", "embedder"), ("embedder = 'remote'", "embed_url"), ("sync = 'off'", "sync"),
        ("timezone = '../../etc/passwd'", "timezone"), ("timezone = ''", "timezone"),
        ("timezone = 'Mars/Olympus'", "timezone"), ("quiet_after = -1", "quiet_after"), ("vault = 'maybe'", "vault"),
        ("llm_model = 'm'", "llm_model"),
        ("llm_base_url = 'http://localhost:1'", "llm_model"), ("fusion = 'best'", "fusion"),
        ("llm_wait = 601", "llm_wait"), ("llm_wait = nan", "llm_wait"), ("quiet_after = 525601", "quiet_after"),
        ("port = -1", "port"), ("port = 80.5", "port"), ("port = true", "port"), ("host = 5", "host"),
        ("allow_secrets = 'some'", "allow_secrets"), ("background = []", "background"), ("not toml", "cofio.toml"),
    ],
)  # fmt: skip
def test_a_name_or_value_that_is_not_known_is_refused_by_name(tmp_path: Path, line: str, name: str) -> None:
    mark_made(tmp_path)
    (tmp_path / "cofio.toml").write_text(line)
    with pytest.raises(Invalid) as caught:
        Settings.load(tmp_path, {})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("vault = off", "line 2: `vault = off` is not TOML; write `vault = false`"),
        ("docs = perhaps", "line 2: `docs = perhaps` is not TOML; write `docs = true` or `docs = false`"),
        ("fetch = off", 'line 2: `fetch = off` is not TOML; write `fetch = "off"`'),
        ("embed_key = fake", "line 2 is not TOML: write the value of `embed_key` in quotes"),
        ("floor = high", "line 2 is not TOML (Invalid value): texts stand in quotes"),
        ("timezone = 5", "timezone: 5 is not a text, which stands in quotes"),
        ("timezone = [", "line 2 is not TOML (Invalid value)"),
        (f"port = {'9' * 5000}", "cofio.toml is not TOML (Exceeds the limit"),
        (f"port = {'[' * 5000}", "is not TOML"),
    ],
)
def test_a_broken_file_is_told_by_its_line_with_what_to_write(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "cofio.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="is not text in UTF-8"):
        Settings.load(tmp_path, {})
    (tmp_path / "cofio.toml").write_text(f"# mine\n{line}\n")
    with pytest.raises(Invalid) as caught:
        Settings.load(tmp_path, {})
    assert said in str(caught.value)
    assert str(caught.value).count(str(tmp_path / "cofio.toml")) == 1
    assert str(caught.value).count("cofio.toml") == 1
    assert "\n" not in str(caught.value)
    assert "fake" not in str(caught.value)


def test_the_users_own_file_holds_for_every_store_below_the_stores_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, own = tmp_path / "store", tmp_path / "config" / "cofio"
    for folder in (store, own):
        folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (own / "mine.toml").write_text("floor = 0.1\nport = 1\nallow_secrets = true\nfetch = 'example.org'\n")
    (own / "cofio.toml").symlink_to("mine.toml")
    (store / "cofio.toml").write_text("floor = 0.2\nallow_secrets = false\n")
    loaded = Settings.load(store, {"COFIO_PORT": "3"})
    assert (loaded.floor, loaded.port, loaded.allow_secrets, loaded.fetch) == (0.2, 3, True, "example.org")
    (own / "mine.toml").write_text("florr = 0.1")
    with pytest.raises(Invalid, match="florr"):
        Settings.load(store, {})


def test_a_configuration_folder_is_never_looked_for_in_the_folder_that_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "config" / "cofio").mkdir(parents=True)
    (tmp_path / "here" / "config" / "cofio" / "cofio.toml").write_text("allow_secrets = true")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert not Settings.load(tmp_path / "store", {}).allow_secrets


def test_each_setting_is_either_open_to_any_store_or_restricted() -> None:
    restricted = {
        "embedder", "embed_url", "embed_model", "embed_key", "models", "fetch_model", "host", "allow_secrets",
        "llm_base_url", "llm_model", "llm_api_key", "llm_budget", "fetch", "row_security", "read_store",
    }  # fmt: skip
    assert {field.name for field in fields(Settings)} == restricted | HARMLESS
    assert not restricted & HARMLESS


ENDPOINTS = [
    ("embedder = 'remote'\nembed_model = 'm'\n", "embed_url", "embed_key"),
    ("llm_model = 'm'\n", "llm_base_url", "llm_api_key"),
]


@pytest.mark.parametrize(("more", "address", "key"), ENDPOINTS)
@pytest.mark.parametrize("whose", ["variable", "user"])
def test_a_key_is_never_given_to_an_address_from_a_stores_file_unless_it_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, more: str, address: str,
    key: str, whose: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    store, own = tmp_path / "store", tmp_path / "config" / "cofio" / "cofio.toml"
    store.mkdir()
    mark_made(store)
    file = store / "cofio.toml"
    file.write_text(f"{more}{address} = 'http://127.0.0.1:1/v1'\n")
    variable = {f"COFIO_{key.upper()}": "of-the-user"} if whose == "variable" else {}
    own.write_text(f"{key} = 'of-the-user'\n" if whose == "user" else "")
    loaded = Settings.load(store, variable)
    assert (getattr(loaded, address), getattr(loaded, key)) == ("http://127.0.0.1:1/v1", "")
    named = f"COFIO_{key.upper()}" if whose == "variable" else f"the {key} of {own}"
    assert f"{named} is not sent to the {address} of {file}" in caplog.text
    loaded = Settings.load(store, {**variable, f"COFIO_{address.upper()}": "http://127.0.0.1:2/v1"})
    assert (getattr(loaded, address), getattr(loaded, key)) == ("http://127.0.0.1:2/v1", "of-the-user")
    file.write_text(f"{file.read_text()}{key} = 'of-the-file'\n")
    assert getattr(Settings.load(store, {}), key) == "of-the-file"
    file.write_text(more)
    own.write_text(f"{own.read_text()}{address} = 'http://127.0.0.1:3/v1'\n")
    loaded = Settings.load(store, variable)
    sent = "" if whose == "variable" else "of-the-user"  # a variable's key is sent to no address from a file
    assert (getattr(loaded, address), getattr(loaded, key)) == ("http://127.0.0.1:3/v1", sent)
    assert caplog.text.count("is not sent") == (2 if whose == "variable" else 1)


def test_a_value_that_is_refused_is_told_with_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, store = tmp_path / "config" / "cofio" / "cofio.toml", tmp_path / "store"
    own.parent.mkdir(parents=True)
    store.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    said = "port: 70000 is not a port; use 1 to 65535, or 0 for one that is free"
    for file in (own, store / "cofio.toml"):
        file.write_text("port = 70000")
        with pytest.raises(Invalid) as caught:
            Settings.load(store, {})
        assert str(caught.value) == f"{said} ({file})"
        file.unlink()
    for variable in ("COFIO_PORT", OTHERS["port"]):
        with pytest.raises(Invalid) as caught:
            Settings.load(store, {variable: "70000"})
        assert str(caught.value) == f"{said} ({variable})"


def test_a_variable_of_the_process_counts_and_one_that_makes_no_sense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_FLOOR", "0.75")
    monkeypatch.setenv("COFIO_NO_SUCH_SETTING", "ignored")
    assert Settings.load(tmp_path).floor == 0.75
    for written, value in (("1", True), ("TRUE", True), ("yes", True), ("0", False), ("Off", False)):
        assert Settings.load(tmp_path, {"COFIO_BACKGROUND": written}).background is value
    for name, wrong in (("COFIO_FLOOR", "high"), ("COFIO_FLOOR", ""), ("COFIO_BACKGROUND", "2")):
        with pytest.raises(Invalid):
            Settings.load(tmp_path, {name: wrong})


def test_models_are_kept_where_they_are_told_or_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Settings(models="/somewhere").models_folder == Path("/somewhere")
    assert Settings(models="~/m").models_folder == tmp_path / "m"
    assert Settings().models_folder == tmp_path / ".cache/cofio/models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Settings().models_folder == tmp_path / "cache/cofio/models"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory deep under a folder that is like a home."""
    folder = tmp_path / "home" / "project" / "src"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COFIO_STORE", raising=False)
    monkeypatch.chdir(folder)
    return folder


def test_the_store_is_the_one_that_is_named_or_else_the_nearest_upwards(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here.parent / ".cofio").mkdir()
    assert find_store().folder == here.parent / ".cofio"
    (here / ".cofio").write_text("a file is no store")
    assert find_store().folder == here.parent / ".cofio"
    monkeypatch.setenv("COFIO_STORE", "~/named")
    assert find_store().folder == here.parents[1] / "named"
    assert find_store("given").folder == find_store(Path("given")).folder == Path("given")
    assert find_store("~/given").folder == here.parents[1] / "given"
    monkeypatch.setenv("COFIO_STORE", "")
    assert find_store().folder == here.parent / ".cofio"
    for asked in ("", "mysql://host/db"):
        with pytest.raises(Invalid, match="store"):
            find_store(asked)


@pytest.mark.usefixtures("process")
def test_a_link_of_the_users_own_is_a_store_and_is_not_passed_over_if_it_leads_nowhere(here: Path) -> None:
    (here.parent / "other").mkdir()
    (here.parent / ".cofio").symlink_to("other")
    assert find_store().folder == here.parent / ".cofio", "there is no version control that could have brought it"
    subprocess.run(["git", "init", "-q"], cwd=here.parent, check=True)
    with Engine.open(settings=Settings(background=False, embedder="none")):
        assert (here.parent / "other" / "memory.db").is_file()
    (here.parent / "other").rename(here.parent / "gone")
    with pytest.raises(Invalid, match="is a link that leads nowhere: make the folder"):
        Engine.open()


@pytest.mark.parametrize("can_tell", [True, False])
@pytest.mark.usefixtures("process")
def test_a_link_that_the_project_brings_is_no_store_unless_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, can_tell: bool
) -> None:
    (here.parent / "other").mkdir()
    (here.parent / ".cofio").symlink_to("other")
    subprocess.run(["git", "init", "-q"], cwd=here.parent, check=True)
    if can_tell:
        subprocess.run(["git", "add", "-f", ".cofio"], cwd=here.parent, check=True)
    else:
        (here.parent / ".git" / "index").write_bytes(b"DIRC")
    said = "which came with the project" if can_tell else "and could not see whether version control brings it"
    with pytest.raises(Invalid, match=rf"\.cofio is a link, {said}: give the folder"):
        find_store()
    assert find_store("../.cofio").folder == Path("../.cofio")
    monkeypatch.setenv("COFIO_STORE", str(here.parent / ".cofio"))
    with Engine.open(settings=Settings(background=False, embedder="none")):
        assert (here.parent / "other" / "memory.db").is_file()


@pytest.mark.parametrize("linked", [False, True])
def test_a_memory_of_the_home_folder_is_not_that_of_the_projects_in_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    home = here.parents[1]
    (home / ".hg").mkdir()
    (home / "other").mkdir()
    (home / ".cofio").symlink_to("other") if linked else (home / ".cofio").mkdir()
    assert find_store().folder == here / ".cofio"
    assert find_store(start=home).folder == home / ".cofio"
    monkeypatch.chdir(home)
    assert find_store().folder == home / ".cofio"


@pytest.mark.parametrize("mark", [".git", ".agent-memory-store"])
def test_a_project_does_not_look_above_itself(here: Path, mark: str) -> None:
    project, outer = here.parent / "inner", here.parent
    (project / "src").mkdir(parents=True)
    (outer / ".cofio").mkdir()
    assert find_store(start=project / "src").folder == outer / ".cofio"
    (project / mark).mkdir()
    assert find_store(start=project / "src").folder == project / "src" / ".cofio"
    (project / ".cofio").mkdir()
    assert find_store(start=project / "src").folder == project / ".cofio"


def test_a_new_store_is_made_here_and_is_private_to_its_user(here: Path) -> None:
    assert find_store().folder == here / ".cofio"
    assert not (here / ".cofio").exists()
    with Engine.open(settings=Settings(background=False, embedder="none")) as memory:
        memory.write(Scope("demo"), text="hello")
        memory.settle()
        for path in (here / ".cofio", *(here / ".cofio").iterdir()):
            assert path.stat().st_mode & 0o077 == 0 or path.name in (MARK, ".gitignore"), path
    assert (here / ".cofio" / "memory.db").is_file()
    assert (here / ".cofio" / ".gitignore").read_text() == "*\n"


def test_a_file_in_place_of_a_store_is_refused(here: Path) -> None:
    (here / "file").write_text("x")
    with pytest.raises(Invalid, match="store"):
        Engine.open("file", settings=Settings(background=False))
    assert (here / "file").read_text() == "x"


def test_an_engine_reads_the_settings_of_its_store(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COFIO_FLOOR", raising=False)
    (here / "store").mkdir()
    (here / "store" / "cofio.toml").write_text('floor = 0.75\nembedder = "none"\nbackground = false\n')
    with Engine.open("store") as memory:
        assert memory.settings.floor == 0.75
    (here / "store" / "cofio.toml").write_text("florr = 0.75")
    with pytest.raises(Invalid, match="florr"):
        Engine.open("store")


def test_who_comes_from_everos_need_not_set_other_variables(tmp_path: Path) -> None:
    theirs = {"EVEROS_API__HOST": "::1", "EVEROS_API__PORT": "8000", "EVEROS_MEMORY__TIMEZONE": "Asia/Shanghai"}
    loaded = Settings.load(tmp_path, theirs)
    assert (loaded.host, loaded.port, str(loaded.zone)) == ("::1", 8000, "Asia/Shanghai")
    assert Settings.load(tmp_path, {**theirs, "COFIO_PORT": "9"}).port == 9
    assert Settings.load(tmp_path, {}).zone is UTC
