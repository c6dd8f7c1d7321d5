"""Where each system keeps what is the user's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cofio import Invalid, Settings
from cofio.content.fetch_policy import FetchPolicy
from cofio.content.file_uris import read_file_uri
from cofio.system.user_folders import convert_uri_path, find_cache_folder, find_config_folder

VARIABLES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA")


@pytest.mark.parametrize(
    ("platform", "config", "cache"),
    [
        ("linux", ".config", ".cache"),
        ("freebsd14", ".config", ".cache"),
        ("darwin", "Library/Application Support", "Library/Caches"),
        ("win32", "AppData/Roaming", "AppData/Local"),
    ],
)
def test_each_system_has_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, config: str, cache: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert find_config_folder() == tmp_path / config / "cofio"
    assert find_cache_folder() == tmp_path / cache / "cofio"
    monkeypatch.setenv("APPDATA", "/roaming")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    windows = platform == "win32"
    assert find_config_folder() == (Path("/roaming/cofio") if windows else tmp_path / config / "cofio")
    assert find_cache_folder() == (Path("/local/cofio") if windows else tmp_path / cache / "cofio")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/chosen")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, and so not meant")
    assert find_config_folder() == Path("/chosen/cofio")
    assert find_cache_folder() == tmp_path / cache / "cofio"
    assert Settings().models_folder == tmp_path / cache / "cofio" / "models"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert find_config_folder() is None
    with pytest.raises(Invalid, match="COFIO_MODELS"):
        assert Settings().models_folder


def test_a_drive_of_windows_has_no_slash_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert convert_uri_path("/C:/x") == "/C:/x"
    (tmp_path / "a.txt").write_bytes(b"here")
    assert read_file_uri(f"file://{tmp_path}/a.txt", FetchPolicy(folders=(tmp_path,)))[0] == b"here"
    monkeypatch.setattr(sys, "platform", "win32")
    assert convert_uri_path("/C:/x") == "C:/x"
    assert convert_uri_path("/c:") == "c:"
    assert convert_uri_path("/srv/x:/y") == "/srv/x:/y"
