"""Where a store is: a folder or a URL, and its home."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Engine, Invalid, LimitExceeded
from cofio.config.address import StoreAddress
from cofio.config.settings import find_store
from cofio.engine.opening import exists, open_backend

URL = "postgresql://cofio:s3cret@db.example.org:5432/memory"


def test_a_folder_is_its_own_home(tmp_path: Path) -> None:
    address = StoreAddress.parse(str(tmp_path / "store"))
    assert (address.folder, address.home, address.url) == (tmp_path / "store", tmp_path / "store", None)
    assert str(address) == address.spell() == str(tmp_path / "store")


def test_a_relative_folder_is_spelled_for_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address = StoreAddress.parse("store")
    assert (str(address), address.spell()) == ("store", str(tmp_path / "store"))


def test_a_url_has_a_home_among_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    address = StoreAddress.parse(URL)
    assert address.home.parent == tmp_path / "cofio" / "stores"
    assert not address.home.exists()
    assert StoreAddress.parse(URL.replace("s3cret", "changed")).home == address.home
    assert StoreAddress.parse(URL.replace(":s3cret@", "@")).home == address.home
    assert StoreAddress.parse(URL.replace("memory", "other")).home != address.home


@pytest.mark.parametrize("password", ["s3cret", "a:b", "a@b", "%2F@:x", "a/b", "a b", "a?b", "a#b", "a/b?c", "12/b"])
def test_no_password_is_shown_and_none_is_lost(password: str) -> None:
    address = StoreAddress.parse(f"postgresql://cofio:{password}@db.example.org/memory")
    assert str(address) == "postgresql://cofio:***@db.example.org/memory"
    assert StoreAddress.parse(address.spell()) == address
    assert password not in repr(address)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://co@fio:s3cret@host/memory", "postgresql://co@fio:***@host/memory"),
        ("postgresql:///memory?user=u&password=a:s3cret@b", "postgresql:///memory?user=u&password=***"),
        ("postgresql://h/memory?PASSWORD=s3cret&sslmode=require", "postgresql://h/memory?PASSWORD=***&sslmode=require"),
        ("postgresql://h/memory?sslpassword=s3cret#x", "postgresql://h/memory?sslpassword=***#x"),
        ("postgresql://h:5432/memory?options=a@b", "postgresql://h:5432/memory?options=a@b"),
        ("postgresql://u:s3cret@h:5432/memory?options=a@b", "postgresql://u:***@h:5432/memory?options=a@b"),
        ("postgresql://[::1]:5432/memory", "postgresql://[::1]:5432/memory"),
    ],
)
def test_a_password_is_masked_wherever_it_is(
    url: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    address = StoreAddress.parse(url)
    assert str(address) == shown
    assert StoreAddress.parse(url.replace("s3cret", "changed")).home == address.home


def test_an_address_checks_itself(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="mysql:// is not a kind of store that this version knows; give a folder"):
        StoreAddress.parse("mysql://host/db")
    with pytest.raises(Invalid, match="is empty; give a folder"):
        StoreAddress.parse("")
    with pytest.raises(Invalid, match="either a folder or a URL"):
        StoreAddress()
    with pytest.raises(Invalid, match="either a folder or a URL"):
        StoreAddress(folder=tmp_path, url=URL)
    with pytest.raises(Invalid, match="surrogate"):
        StoreAddress(folder=tmp_path / "\udcff")
    with pytest.raises(LimitExceeded):
        StoreAddress.parse("a" * 4097)


def test_an_address_is_taken_as_it_is(tmp_path: Path) -> None:
    address = StoreAddress(folder=tmp_path / "store")
    assert find_store(address) is address
    assert not exists(address)
    with Engine.open(address):
        assert exists(address)


@pytest.mark.usefixtures("process")
def test_to_ask_for_a_store_loads_no_driver(tmp_path: Path) -> None:
    asks = (
        "import sys; from cofio.engine.opening import exists, resolve_store; exists(resolve_store(sys.argv[1]));"
        "print([name for name in ('apsw', 'tantivy', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asks, str(tmp_path)], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


def test_a_backend_is_opened_by_its_address(tmp_path: Path) -> None:
    from cofio import Settings

    backend = open_backend(StoreAddress(folder=tmp_path / "store"), Settings(sync="normal"))
    backend.close()
    assert exists(StoreAddress(folder=tmp_path / "store"))
