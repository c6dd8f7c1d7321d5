"""What users are told to type, for each way in which cofio can have been installed."""

from __future__ import annotations

import json
import re
import shlex
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from cofio.config import installation
from cofio.config.installation import Installation, Installer, find_installation, install_command
from cofio.values.errors import Unavailable

ROOT = Path(__file__).parents[2]
REQUIREMENTS = {"llm": ("openai<4,>=3.49",), "redis": ("redis<9,>=6",)}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel in a folder whose name has a space."""
    file = tmp_path / "my wheels" / "cofio-0.1.0-py3-none-any.whl"
    file.parent.mkdir()
    file.touch()
    return file


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment is active."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def installed(
    installer: Installer, source: Path | str | None, *, prefix: Path = Path("/env"), extras: tuple[str, ...] = (),
    checkout: bool = False,
) -> Installation:  # fmt: skip
    return Installation(
        installer=installer, prefix=prefix, python=prefix / "bin" / "python", checkout=checkout, extras=extras,
        source=None if source is None else str(source), requirements=REQUIREMENTS,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("installer", "words"),
    [
        (Installer.PIP, ["/env/bin/python", "-m", "pip", "install", "{wheel}[llm]"]),
        (Installer.UV, ["uv", "pip", "install", "--python", "/env", "{wheel}[llm]"]),
        (Installer.UV_TOOL, ["uv", "tool", "install", "{wheel}[llm]"]),
        (Installer.UVX, ["uvx", "--from", "{wheel}[llm]", "cofio"]),
        (Installer.PIPX, ["pipx", "install", "--force", "{wheel}[llm]"]),
        (Installer.PIPX_RUN, ["pipx", "run", "--spec", "{wheel}[llm]", "cofio"]),
    ],
)
def test_an_extra_is_added_from_the_same_wheel_by_the_same_installer(
    installer: Installer, words: list[str], wheel: Path
) -> None:
    told = installed(installer, wheel).install_command("llm")
    assert shlex.split(told) == [word.format(wheel=wheel) for word in words]


def test_an_environment_that_is_made_anew_keeps_the_extras_that_it_has(wheel: Path) -> None:
    for installer in Installer:
        words = shlex.split(installed(installer, wheel, extras=("redis",)).install_command("llm"))
        stays = installer in (Installer.PIP, Installer.UV)
        assert f"{wheel}[llm]" in words if stays else f"{wheel}[llm,redis]" in words


@pytest.mark.parametrize(
    ("installer", "words"),
    [
        (Installer.PIP, ["/env/bin/python", "-m", "pip", "install", "openai<4,>=3.49"]),
        (Installer.UV, ["uv", "pip", "install", "--python", "/env", "openai<4,>=3.49"]),
        (Installer.UV_TOOL, ["uv", "pip", "install", "--python", "/env", "openai<4,>=3.49"]),
        (Installer.PIPX, ["pipx", "inject", "cofio", "openai<4,>=3.49"]),
        (Installer.UVX, ["uvx", "--with", "openai<4,>=3.49", "--from", "PATH-OF-COFIO", "cofio"]),
    ],
)
def test_the_packages_themselves_are_named_where_the_wheel_is_gone_or_unknown(
    installer: Installer, words: list[str], wheel: Path
) -> None:
    wheel.unlink()
    for source in (wheel, None):
        assert shlex.split(installed(installer, source).install_command("llm")) == words


def test_what_came_from_an_address_is_fetched_from_there_again() -> None:
    source = "git+https://example.org/cofio.git@abc"
    told = installed(Installer.UV_TOOL, source).install_command("llm")
    assert told == f"uv tool install 'cofio[llm] @ {source}'"
    assert installed(Installer.UV_TOOL, source).install_command() == f"uv tool install {source}"


def test_in_a_working_copy_the_command_is_the_one_that_its_developers_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = installed(Installer.PIP, tmp_path, prefix=tmp_path / ".venv", checkout=True)
    assert copy.install_command("llm") == (
        f"{tmp_path}/.venv/bin/python -m pip install -e {shlex.quote(f'{tmp_path}[llm]')}"
    )
    monkeypatch.chdir(tmp_path)
    assert copy.install_command("llm") == ".venv/bin/python -m pip install -e '.[llm]'"
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / ".venv"))
    assert copy.install_command("llm") == "pip install -e '.[llm]'"
    by_uv = installed(Installer.UV, tmp_path, prefix=tmp_path / ".venv", checkout=True)
    assert by_uv.install_command("llm") == "uv pip install -e '.[llm]'"


def test_what_runs_from_a_cache_is_started_by_what_filled_it(wheel: Path) -> None:
    uvx = installed(Installer.UVX, wheel, prefix=Path("/cache/env"), extras=("llm",)).start_command()
    assert [Path(uvx[0]).name, *uvx[1:]] == ["uvx", "--from", f"{wheel}[llm]", "cofio"]
    pipx = installed(Installer.PIPX_RUN, wheel, prefix=Path("/cache/env")).start_command()
    assert [Path(pipx[0]).name, *pipx[1:]] == ["pipx", "run", "--spec", str(wheel), "cofio"]


def test_a_command_that_would_not_last_is_refused_with_what_to_do(wheel: Path) -> None:
    wheel.unlink()
    for installer in (Installer.UVX, Installer.PIPX_RUN):
        for source in (wheel, None):
            with pytest.raises(Unavailable, match="install it first, with `uv tool install` or `pipx install`"):
                installed(installer, source).start_command()


def test_a_tool_is_started_by_the_link_that_leads_into_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    for name in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR", "XDG_BIN_HOME"):
        monkeypatch.delenv(name, raising=False)
    script = make_script(tmp_path / "env" / "bin" / "cofio")
    tool = installed(Installer.PIPX, None, prefix=tmp_path / "env")
    assert tool.start_command() == [str(script)]

    of_another = make_script(tmp_path / "else" / "cofio")
    link = tmp_path / ".local" / "bin" / "cofio"
    link.parent.mkdir(parents=True)
    link.symlink_to(of_another)
    assert tool.start_command() == [str(script)]

    link.unlink()
    link.symlink_to(script)
    assert tool.start_command() == [str(link)]

    chosen = tmp_path / "chosen" / "cofio"
    chosen.parent.mkdir()
    chosen.symlink_to(script)
    monkeypatch.setenv("PIPX_BIN_DIR", str(chosen.parent))
    assert tool.start_command() == [str(chosen)]


def make_script(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_an_environment_of_its_users_is_started_by_its_own_script_or_else_by_its_interpreter(tmp_path: Path) -> None:
    mine = installed(Installer.PIP, None, prefix=tmp_path / "env")
    assert mine.start_command() == [str(tmp_path / "env" / "bin" / "python"), "-m", "cofio"]
    script = make_script(tmp_path / "env" / "bin" / "cofio")
    assert mine.start_command() == [str(script)]


def test_this_copy_is_a_working_copy_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    here = find_installation()
    assert here.checkout
    assert here.source == str(ROOT)
    assert {"documents", "redis"} <= {*here.requirements} - {"dev"}
    assert shlex.quote(f"{ROOT}[documents]") in install_command("documents")


@pytest.mark.parametrize(
    ("noted", "source"),
    [
        ({"url": "file:///my%20wheels/c.whl", "archive_info": {}}, "/my wheels/c.whl"),
        ({"url": "file:///home/me/cofio", "dir_info": {}}, "/home/me/cofio"),
        ({"url": "https://example.org/c.whl", "archive_info": {}}, "https://example.org/c.whl"),
        (
            {"url": "https://example.org/c.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "git+https://example.org/c.git@abc",
        ),
        (None, None),
    ],
)
def test_where_a_copy_came_from_is_what_its_installer_noted(
    noted: dict[str, object] | None, source: str | None, tmp_path: Path
) -> None:
    if noted is not None:
        (tmp_path / "direct_url.json").write_text(json.dumps(noted))
    assert installation._find_source(PathDistribution(tmp_path)) == source


def test_only_an_environment_that_an_installer_keeps_in_its_cache_is_taken_for_one(tmp_path: Path) -> None:
    prefix = tmp_path / "cache" / "env"
    prefix.mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (prefix / "CACHEDIR.TAG").touch()
    own = installation._find_installer(prefix)
    assert own in (Installer.PIP, Installer.UV)
    (tmp_path / "cache" / "CACHEDIR.TAG").touch()
    assert installation._find_installer(prefix) == own
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13.7\n")
    assert installation._find_installer(prefix) is Installer.UVX
    (prefix / "pipx_metadata.json").touch()
    assert installation._find_installer(prefix) is Installer.PIPX_RUN
    (tmp_path / "cache" / "CACHEDIR.TAG").unlink()
    assert installation._find_installer(prefix) is Installer.PIPX


def test_no_text_tells_users_to_install_a_name_that_the_index_does_not_have() -> None:
    assert installation.INDEX_NAME is None, "cofio is published: the docs can say so, and this test can go"
    texts = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.md"), *(ROOT / "examples").rglob("*")]
    texts.remove(Path(installation.__file__))  # the one place that decides
    for file in filter(Path.is_file, texts):
        for line in file.read_text().splitlines():
            assert not names_the_index(line), f"{file.relative_to(ROOT)}: {line}"


def names_the_index(line: str) -> bool:
    """Whether a line has a command that would fetch `cofio` by its name from the package index."""
    for words in re.findall(r"(?:pipx? install|uvx|uv add|uv (?:tool|pip) install|pipx run)\b([^`|;&\n]*)", line):
        rest = re.sub(r"(--from|--spec) \S+ cofio\b", "", words.partition("#")[0])
        if re.search(r"""(?:^|[\s'"])cofio(?:\[[^]]*\])?(?:[=<>~!][^\s]*)?(?:['"\s]|$)(?!\s*@)""", rest):
            return True
    return False
