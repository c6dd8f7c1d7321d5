"""The TypeScript client: its types are the server's, it compiles, works against real servers, and can be published."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("process")

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
NODE = ROOT / ".node"
PATIENCE = 120  # seconds until something that hangs is ended


@pytest.fixture(scope="module")
def node() -> Path:
    """The Node that `make test` installs, with TypeScript beside it."""
    tsc = NODE / "node_modules/.bin/tsc"
    if not (NODE / "installed").exists() or not tsc.exists():
        missing = NODE / "missing"
        pytest.skip(
            f"TypeScript is not installed: {missing.read_text().strip() if missing.exists() else 'run make test'}"
        )
    return NODE / "node_modules/node/bin/node"


@pytest.fixture
def package(node: Path, tmp_path: Path) -> Path:
    """A copy of the package as a developer has it after `npm install`."""
    copy = tmp_path / "package"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(NODE / "node_modules")
    return copy


def run(node: Path, cwd: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run something of Node's; its output is kept."""
    path = f"{node.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(node), *command], cwd=cwd, env={**os.environ, "PATH": path, **variables}, capture_output=True, text=True,
        check=False, timeout=PATIENCE,
    )  # fmt: skip


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """The address of a real server over a store."""
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--store", str(store)]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**ours, "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}, text=True
    ) as server:
        hangs = threading.Timer(PATIENCE, server.kill)
        hangs.start()
        assert server.stdout is not None
        yield server.stdout.readline().strip().removesuffix("/mcp")
        server.terminate()
        server.wait(PATIENCE)
        hangs.cancel()


def test_the_types_are_those_of_the_server() -> None:
    done = subprocess.run(
        [sys.executable, str(CLIENT / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_call_of_the_server_is_typed_and_has_a_route() -> None:
    from cofio.doors.rest.openapi import build_document

    schema = (CLIENT / "src" / "schema.ts").read_text(encoding="utf-8")
    routes = dict(re.findall(r'^  (\w+): \{ method: "\w+", path: "([^"]+)"', schema, re.MULTILINE))
    operations = {
        operation["operationId"]: path
        for path, each in build_document()["paths"].items()
        for operation in each.values()
    }
    assert routes == operations


def test_it_compiles_as_strictly_as_can_be(node: Path, package: Path) -> None:
    done = run(node, package, str(NODE / "node_modules/.bin/tsc"), "--noEmit")
    assert done.returncode == 0, done.stdout


def test_it_works_against_real_servers(node: Path, package: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    made = subprocess.run(
        [sys.executable, "-m", "cofio", "token", "add", "web", "--store", str(locked)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    token = made.stdout.split()[-1]
    with ExitStack() as servers:
        address = servers.enter_context(serving(tmp_path / "open"))
        behind = servers.enter_context(serving(locked))
        done = run(
            node, package, "--test", "--test-reporter=tap", "test/client.test.ts",
            COFIO_URL=address, COFIO_LOCKED_URL=behind, COFIO_LOCKED_TOKEN=token,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# fail 0$", done.stdout, re.MULTILINE), done.stdout
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 14


def test_what_would_be_published_is_built_and_needs_nothing(node: Path, package: Path, tmp_path: Path) -> None:
    build = run(node, package, str(NODE / "node_modules/.bin/tsc"), "--project", "tsconfig.build.json")
    assert build.returncode == 0, build.stdout
    described = json.loads((package / "package.json").read_text())
    assert "dependencies" not in described
    made = sorted(path.name for path in (package / "dist").iterdir() if path.suffix in (".js", ".ts"))
    assert made == sorted(f"{path.stem}{end}" for path in (CLIENT / "src").iterdir() for end in (".js", ".d.ts"))
    imported = re.findall(r"""from ["']([^"']+)["']""", "".join(p.read_text() for p in (package / "dist").glob("*.js")))
    assert imported
    assert all(name.startswith("./") for name in imported)
    user = tmp_path / "user"
    (user / "node_modules").mkdir(parents=True)
    (user / "node_modules" / "cofio").symlink_to(package)
    (user / "main.mjs").write_text('import { Cofio } from "cofio"; console.log(typeof new Cofio().search)\n')
    done = run(node, user, "--preserve-symlinks", "main.mjs")
    assert done.stdout == "function\n", done.stderr
    assert (user / "node_modules" / "cofio" / described["types"]).exists()


def test_the_version_is_the_servers() -> None:
    from cofio import __version__

    assert json.loads((CLIENT / "package.json").read_text())["version"] == __version__


def test_the_programs_of_its_page_run(node: Path, package: Path, tmp_path: Path) -> None:
    build = run(node, package, str(NODE / "node_modules/.bin/tsc"), "--project", "tsconfig.build.json")
    assert build.returncode == 0, build.stdout
    programs = re.findall(r"```js\n(.*?)```", (CLIENT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) >= 2
    user = tmp_path / "user"
    (user / "node_modules").mkdir(parents=True)
    (user / "node_modules" / "cofio").symlink_to(package)
    shown = []
    with serving(tmp_path / "store") as address:
        for program in programs:
            assert "new Cofio()" in program
            (user / "main.mjs").write_text(program.replace("new Cofio()", f'new Cofio({{ url: "{address}" }})'))
            done = run(node, user, "main.mjs")
            assert done.returncode == 0, done.stderr
            shown.append(done.stdout)
    assert "allergic to peanuts" in shown[0]
    assert shown[1] == "pay true\n1 true\n"
