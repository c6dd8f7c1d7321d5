"""Where packages come from, as pip and uv are told by variables and files."""

import os
import sys
from pathlib import Path

import pytest

from cofio.embed.sources import PYPI, Sources, read_sources
from cofio.values.errors import Unavailable


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home folder; the system's own files do not count."""
    monkeypatch.setattr("cofio.embed.sources._PIP_SYSTEM", tmp_path / "nowhere")
    monkeypatch.setattr("cofio.embed.sources._UV_SYSTEM", tmp_path / "nowhere")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    return tmp_path


def read(home: Path, **variables: str) -> Sources:
    return read_sources({"HOME": str(home), "XDG_CONFIG_DIRS": str(home / "etc"), **variables})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_pips_variables_count_and_else_it_is_pypi(home: Path) -> None:
    plain = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}
    assert read(home, **plain) == Sources(indexes=(PYPI,))
    found = read(
        home,
        **plain,
        PIP_INDEX_URL="https://a/simple",
        PIP_EXTRA_INDEX_URL="https://b/simple https://c/simple",
        UV_EXTRA_INDEX_URL="https://b/simple",
        PIP_FIND_LINKS="/wheels https://d/links",
        PIP_PROXY="http://proxy",
        PIP_CERT="/certs.pem",
        PIP_TRUSTED_HOST="B c:8443",
    )
    assert found == Sources(
        indexes=("https://b/simple", "https://a/simple", "https://c/simple"),
        links=("/wheels", "https://d/links"),
        proxy="http://proxy",
        certificates="/certs.pem",
        insecure=frozenset({"b", "c:8443"}),
    )
    for off in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        found = read(home, **plain, PIP_FIND_LINKS="/wheels", **{off: "1"})
        assert found == Sources(indexes=(), links=("/wheels",))


@pytest.mark.skipif(sys.platform == "win32", reason="the files lie elsewhere")
def test_pips_files_count_each_more_than_the_one_before(home: Path) -> None:
    write(home / "etc/pip/pip.conf", "[global]\nindex-url = https://system\nproxy = http://system\ncert = /system\n")
    assert read(home).indexes == ("https://system",)
    write(
        home / ".config/pip/pip.conf",
        "[global]\nindex_url = https://user\nextra-index-url =\n  https://b\n  https://c\n",
    )
    assert read(home).indexes == ("https://user", "https://b", "https://c")
    write(home / "own.conf", "[global]\nindex-url = https://own\n[install]\nproxy = http://own\n[freeze]\ncert = /no\n")
    found = read(home, PIP_CONFIG_FILE=str(home / "own.conf"))
    assert (found.indexes[0], found.proxy, found.certificates) == ("https://own", "http://own", "/system")
    assert read(home, PIP_CONFIG_FILE=str(home / "own.conf"), PIP_INDEX_URL="https://v").indexes[0] == "https://v"
    write(home / "etc/pip/pip.conf", "[download]\nindex-url = https://download\n")  # a command's own section
    assert read(home).indexes[0] == "https://download"


def test_uvs_variables_count(home: Path) -> None:
    found = read(
        home,
        UV_NO_CONFIG="1",
        PIP_CONFIG_FILE=os.devnull,
        UV_DEFAULT_INDEX="main=https://a/simple",
        UV_INDEX="our-own=https://b/simple https://c/simple?x=y",
        UV_INDEX_OUR_OWN_USERNAME="me",
        UV_INDEX_OUR_OWN_PASSWORD="s@cret",
        UV_FIND_LINKS="/wheels,https://d/links",
        UV_INSECURE_HOST="b",
    )
    assert found == Sources(
        indexes=("https://me:s%40cret@b/simple", "https://c/simple?x=y", "https://a/simple"),
        links=("/wheels", "https://d/links"),
        insecure=frozenset({"b"}),
    )
    assert read(home, UV_NO_CONFIG="1", PIP_CONFIG_FILE=os.devnull, UV_INDEX_URL="https://old").indexes == (
        "https://old",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the files lie elsewhere")
def test_uvs_files_count(home: Path) -> None:
    write(home / "etc/uv/uv.toml", 'index-url = "https://system"\nallow-insecure-host = ["h"]\n')
    assert read(home, PIP_CONFIG_FILE=os.devnull).indexes == ("https://system",)
    write(
        home / ".config/uv/uv.toml",
        '[[index]]\nurl = "https://extra"\n[[index]]\nurl = "https://main"\ndefault = true\n'
        '[[index]]\nurl = "https://no"\nexplicit = true\n[pip]\nfind-links = ["/wheels"]\n',
    )
    found = read(home, PIP_CONFIG_FILE=os.devnull)
    assert found == Sources(
        indexes=("https://extra", "https://main"), links=("/wheels",), insecure=frozenset({"h"})
    )  # fmt: skip
    write(home / "other.toml", 'extra-index-url = ["https://other"]\n')
    assert read(home, PIP_CONFIG_FILE=os.devnull, UV_CONFIG_FILE=str(home / "other.toml")).indexes == (
        "https://other",
        PYPI,
    )


def test_files_of_the_project_at_hand_do_not_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = home / "project"
    write(project / "uv.toml", 'index-url = "https://stranger"\n')
    write(project / "pyproject.toml", '[[tool.uv.index]]\nurl = "https://stranger"\ndefault = true\n')
    write(project / "pip.conf", "[global]\nindex-url = https://stranger\n")
    monkeypatch.chdir(project)
    assert "https://stranger" not in read(home).indexes


@pytest.mark.parametrize("variable", ["PIP_CONFIG_FILE", "UV_CONFIG_FILE"])
def test_a_file_that_cannot_be_read_is_named_and_not_quoted(home: Path, variable: str) -> None:
    write(home / "broken", "index-url = https://me:secret@a\n")
    with pytest.raises(Unavailable, match="cannot be read") as caught:
        read(home, **{variable: str(home / "broken")})
    assert str(home / "broken") in str(caught.value)
    assert "secret" not in str(caught.value)
