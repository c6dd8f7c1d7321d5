"""Settings come from the environment, then the store's file, then the defaults; a store is found where it should be."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, Invalid, Scope, Settings
from cofio.settings import find_store


def test_there_are_at_most_twenty_settings() -> None:
    assert len(fields(Settings)) <= 20


def test_without_a_file_or_variables_the_defaults_hold(tmp_path: Path) -> None:
    assert Settings.load(tmp_path, {}) == Settings()
    assert Settings.load(tmp_path / "nowhere", {}) == Settings()


def test_a_variable_goes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    (tmp_path / "cofio.toml").write_text('fusion = "rrf"\nfloor = 0.5\nbackground = false\n')
    loaded = Settings.load(tmp_path, {"COFIO_FLOOR": "0.25", "COFIO_SYNC": "normal"})
    assert loaded == Settings(fusion="rrf", floor=0.25, background=False, sync="normal")


def test_every_setting_can_be_a_variable_and_a_line_of_the_file(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {
        "embedder": "remote", "embed_url": "http://localhost/v1", "embed_model": "m", "embed_key": "secret ü",
        "models": "/models", "sync": "normal", "fusion": "rrf", "floor": 0.5, "background": False,
        "host": "::1", "port": 9000, "allow_secrets": True, "timezone": "Europe/Oslo", "docs": True,
        "llm_base_url": "http://localhost:1/v1", "llm_model": "m", "llm_api_key": "k", "llm_budget": "calls=5",
        "fetch": "example.org", "vault": False,
    }  # fmt: skip
    assert set(chosen) == {field.name for field in fields(Settings)}
    expected = Settings(**chosen)
    assert Settings.load(tmp_path, {f"COFIO_{name.upper()}": str(value) for name, value in chosen.items()}) == expected
    lines = (f"{name} = {str(v).lower() if isinstance(v, bool) else repr(v)}\n" for name, v in chosen.items())
    (tmp_path / "cofio.toml").write_text("".join(lines), encoding="utf-8")
    assert Settings.load(tmp_path, {}) == expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("florr = 0.5", "florr"),
        ("store = 'x'", "store"),
        ("[floor]\nx = 1", "floor"),
        ("floor = 'high'", "floor"),
        ("floor = true", "floor"),
        ("floor = 2", "floor"),
        ("floor = nan", "floor"),
        ("floor = -0.1", "floor"),
        ("embedder = 'word2vec'", "embedder"),
        ("embedder = 5", "embedder"),
        ("embedder = 'remote'", "embed_url"),
        ("sync = 'off'", "sync"),
        ("timezone = 'Mars/Olympus'", "timezone"),
        ("timezone = '../../etc/passwd'", "timezone"),
        ("timezone = ''", "timezone"),
        ("llm_model = 'm'", "llm_model"),
        ("llm_base_url = 'http://localhost:1'", "llm_model"),
        ("fusion = 'best'", "fusion"),
        ("background = 'maybe'", "background"),
        ("port = 70000", "port"),
        ("port = -1", "port"),
        ("port = 'http'", "port"),
        ("port = 80.5", "port"),
        ("port = true", "port"),
        ("host = 5", "host"),
        ("allow_secrets = 'some'", "allow_secrets"),
        ("background = []", "background"),
        ("not toml at all", "cofio.toml"),
    ],
)
def test_a_name_or_value_that_is_not_known_is_refused_by_name(tmp_path: Path, line: str, name: str) -> None:
    (tmp_path / "cofio.toml").write_text(line)
    with pytest.raises(Invalid) as caught:
        Settings.load(tmp_path, {})
    assert caught.value.field == name


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cofio.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match=r"cofio\.toml"):
        Settings.load(tmp_path, {})


@pytest.mark.parametrize(
    ("written", "value"), [("1", True), ("TRUE", True), ("yes", True), ("0", False), ("Off", False)]
)
def test_a_truth_can_be_written_in_several_ways(tmp_path: Path, written: str, value: bool) -> None:
    assert Settings.load(tmp_path, {"COFIO_BACKGROUND": written}).background is value


@pytest.mark.parametrize(("name", "value"), [("COFIO_FLOOR", "high"), ("COFIO_FLOOR", ""), ("COFIO_BACKGROUND", "2")])
def test_a_variable_that_makes_no_sense_is_refused(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(Invalid):
        Settings.load(tmp_path, {name: value})


def test_the_process_environment_is_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_FLOOR", "0.75")
    monkeypatch.setenv("COFIO_NO_SUCH_SETTING", "ignored")
    assert Settings.load(tmp_path).floor == 0.75


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


def test_the_store_is_the_one_that_is_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_STORE", "elsewhere")
    (here / ".cofio").mkdir()
    assert find_store("given") == Path("given")
    assert find_store(Path("given")) == Path("given")
    assert find_store("~/given") == here.parents[1] / "given"


def test_else_the_one_that_the_variable_names(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / ".cofio").mkdir()
    monkeypatch.setenv("COFIO_STORE", "~/named")
    assert find_store() == here.parents[1] / "named"
    monkeypatch.setenv("COFIO_STORE", "")
    assert find_store() == here / ".cofio"


def test_else_the_nearest_one_upwards(here: Path) -> None:
    (here.parent / ".cofio").mkdir()
    assert find_store() == here.parent / ".cofio"
    (here / ".cofio").write_text("a file is no store")
    assert find_store() == here.parent / ".cofio"


def test_a_memory_of_the_home_folder_is_not_that_of_the_projects_in_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = here.parents[1]
    (home / ".cofio").mkdir()
    assert find_store() == here / ".cofio"
    assert find_store(start=home) == home / ".cofio"
    monkeypatch.chdir(home)
    assert find_store() == home / ".cofio"


@pytest.mark.parametrize("mark", [".git", ".agent-memory-store"])
def test_a_project_does_not_look_above_itself(here: Path, mark: str) -> None:
    project, outer = here.parent / "inner", here.parent
    (project / "src").mkdir(parents=True)
    (outer / ".cofio").mkdir()
    assert find_store(start=project / "src") == outer / ".cofio"
    (project / mark).mkdir()
    assert find_store(start=project / "src") == project / "src" / ".cofio"
    (project / ".cofio").mkdir()
    assert find_store(start=project / "src") == project / ".cofio"


def test_else_a_new_one_here(here: Path) -> None:
    assert find_store() == here / ".cofio"
    assert not (here / ".cofio").exists()
    with Engine.open(settings=Settings(background=False, embedder="none")) as memory:
        memory.write(Scope("demo"), text="hello")
    assert (here / ".cofio" / "memory.db").is_file()
    assert (here / ".cofio" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("asked", ["", "mysql://host/db", "redis://x"])
def test_a_store_that_cannot_be_is_refused(here: Path, asked: str) -> None:
    with pytest.raises(Invalid, match="store"):
        find_store(asked)


def test_a_store_is_private_to_its_user(here: Path) -> None:
    with Engine.open("store", settings=Settings(background=False, embedder="none")) as memory:
        memory.write(Scope("demo"), text="hello")
        memory.settle()
        for path in (here / "store", *(here / "store").iterdir()):
            assert path.stat().st_mode & 0o077 == 0, path


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
