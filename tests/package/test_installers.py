"""With the real uv, uvx and pipx: what `cofio mcp config` writes lasts, and what errors say to type helps.

Everything is installed from a wheel that is built here, into a home folder of its own; only uv's cache is its user's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("wide")  # uv and pipx install cofio again and again

ROOT = Path(__file__).parents[2]
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def uv() -> dict[str, str]:
    """The environment variables with which uv finds its cache, and the packages where pip finds them."""
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("there is no uv on this machine: it comes with the extra `dev`")
    cache = subprocess.run([program, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    variables = {"PATH": f"{Path(program).parent}{os.pathsep}/usr/bin:/bin", "UV_CACHE_DIR": cache}
    index = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if index.returncode == 0:
        variables["UV_DEFAULT_INDEX"] = index.stdout.strip()
    return variables | {name: value for name, value in os.environ.items() if name.startswith(("SSL_", "UV_"))}


@pytest.fixture(scope="module")
def wheel(uv: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cofio as it would be handed to a stranger, in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("wheel") / "my wheels"
    home = {**uv, "HOME": str(folder.parent)}
    build = ["uv", "build", "--wheel", "--python", sys.executable, "--out-dir", str(folder), str(ROOT)]
    done = subprocess.run(build, env=home, capture_output=True, text=True, check=False)
    if "Failed to fetch" in done.stderr:
        pytest.skip(f"the package index is out of reach: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return next(folder.glob("cofio-*.whl"))


@pytest.fixture
def run(uv: dict[str, str], tmp_path: Path) -> Run:
    """Runs a line of shell as a user with an empty home folder would."""
    home = tmp_path / "home"
    home.mkdir()
    chosen = {"UV_PYTHON": sys.executable, "PIPX_DEFAULT_PYTHON": sys.executable, "COFIO_EMBEDDER": "none"}

    def run(line: str, *, code: int = 0, path: str | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environ = {**uv, **chosen, "HOME": str(home), "PATH": path or f"{home}/.local/bin:{uv['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", line], env=environ, cwd=home, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    return run


def configured(run: Run, cofio: str) -> list[str]:
    """The command that a client is given, once it has been seen to work for a client with a PATH of its own."""
    command: list[str] = json.loads(run(f"{cofio} mcp config claude-code --json").stdout)["command"]
    answered = run(shlex.join(command), path="/usr/bin:/bin", stdin=json.dumps(HELLO) + "\n")
    assert json.loads(answered.stdout.splitlines()[0])["result"]["serverInfo"]["name"]
    return command


def advised(run: Run, cofio: str) -> str:
    """The line that a user is told to type for the extra `server`."""
    told = run(f"{cofio} serve", code=1).stderr
    match = re.fullmatch(r"cofio: serving over HTTP needs the extra `server` \([\w.]+ is missing\): (.+)\n", told)
    assert match, told
    return match[1]


def serves(run: Run, cofio: str) -> bool:
    """Whether the server can be loaded: it refuses an address for want of a token, and not of a package."""
    told = run(f"{cofio} serve --host 192.0.2.1 --store served", code=1).stderr
    return "a token is needed" in told


def test_a_tool_of_uv_is_configured_by_its_link_and_gets_an_extra_as_advised(
    run: Run, wheel: Path, tmp_path: Path
) -> None:
    run(f"uv tool install {shlex.quote(str(wheel))}")
    assert configured(run, "cofio") == [f"{tmp_path}/home/.local/bin/cofio", "mcp"]
    run(advised(run, "cofio"))
    assert serves(run, "cofio")
    assert configured(run, "cofio") == [f"{tmp_path}/home/.local/bin/cofio", "mcp"]


def test_under_uvx_the_command_is_uvx_with_the_wheel_and_its_extras(run: Run, wheel: Path, uv: dict[str, str]) -> None:
    uvx = shutil.which("uvx", path=uv["PATH"])
    cofio = f"uvx --from {shlex.quote(f'{wheel}[redis]')} cofio"
    assert configured(run, cofio) == [uvx, "--from", f"{wheel}[redis]", "cofio", "mcp"]
    assert advised(run, cofio) == f"uvx --from {shlex.quote(f'{wheel}[redis,server]')} cofio"
    assert serves(run, advised(run, cofio))
    told = run(f"{cofio} mcp config claude-code").stderr
    assert f"`{cofio} mcp config claude-code --write` puts it there" in told


def test_under_uvx_nothing_is_written_when_the_wheel_is_gone(run: Run, wheel: Path, tmp_path: Path) -> None:
    copy = tmp_path / wheel.name
    shutil.copy(wheel, copy)
    gone = f"uvx --from {copy} sh -c 'rm {copy}; cofio mcp config claude-code --write'"
    told = run(gone, code=1).stderr
    assert "cofio runs from a cache here" in told
    assert "install it first" in told
    assert not (tmp_path / "home" / ".mcp.json").exists()


def test_a_tool_of_pipx_is_configured_by_its_link_and_gets_an_extra_as_advised(
    run: Run, wheel: Path, tmp_path: Path, uv: dict[str, str]
) -> None:
    if shutil.which("pipx", path=uv["PATH"]) is None:
        pytest.skip("there is no pipx beside uv: it comes with the extra `dev`")
    run(f"pipx install {shlex.quote(str(wheel))}")
    assert configured(run, "cofio") == [f"{tmp_path}/home/.local/bin/cofio", "mcp"]
    run(advised(run, "cofio"))
    assert serves(run, "cofio")


def test_in_an_environment_of_ones_own_the_command_is_its_script(run: Run, wheel: Path, tmp_path: Path) -> None:
    run(f"uv venv -q mine && uv pip install -q --python mine {shlex.quote(str(wheel))}")
    mine = f"{tmp_path}/home/mine/bin/cofio"
    assert configured(run, mine) == [mine, "mcp"]
    assert advised(run, mine).startswith(f"uv pip install --python {tmp_path}/home/mine ")
    run(advised(run, mine))
    assert serves(run, mine)


def test_the_description_on_the_index_has_no_link_that_is_dead_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
        assert archive.getinfo("cofio/embed/projection.bin").file_size  # which an embedder needs
    assert "one memory for every agent" in metadata
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", metadata) == []
