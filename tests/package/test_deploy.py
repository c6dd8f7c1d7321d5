"""What is in deploy/ starts this cofio, with options and settings that it has, and as its checkers want it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cofio import Engine, Scope
from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.cli.command_line import build_parser

from .. import postgres, servers

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(DEPLOY.iterdir())
UNITS = ("cofio.service", "cofio-user.service")
CONTAINER = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
PAGE = (ROOT / "docs" / "deploy.md").read_text()
KNOWN = {f"COFIO_{each.name.upper()}" for each in fields(Settings)} | {"COFIO_STORE"}


def instructions(name: str) -> list[str]:
    """The arguments of an instruction of the Containerfile, as often as it is there."""
    return re.findall(rf"^{name}\s+(.*)$", CONTAINER, re.MULTILINE)


def unit(name: str) -> dict[str, list[str]]:
    """The values of each name in a unit."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (DEPLOY / name).read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def commands() -> Iterator[list[str]]:
    """The words after `cofio` of each command that is run."""
    yield json.loads(instructions("CMD")[0])
    yield from (unit(name)["ExecStart"][0].split()[1:] for name in UNITS)
    said = f"{CONTAINER}\n{(DEPLOY / 'compose.yaml').read_text()}\n{PAGE}"
    yield from (
        shlex.split(line, comments=True) for line in re.findall(r"cofio(?:/bin/cofio)? ((?:token|model) .*)", said)
    )
    yield from (shlex.split(line) for line in re.findall(r"^cofio (.*)$", PAGE, re.MULTILINE))


def test_every_command_is_one_that_there_is() -> None:
    found = [*commands()]
    assert {words[0] for words in found} >= {"serve", "token", "model", "doctor"}
    for words in found:
        build_parser().parse_args(words)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_setting_is_one_that_there_is(file: Path) -> None:
    named = set(re.findall(r"\bCOFIO_[A-Z_]+", file.read_text()))
    assert named
    assert named <= KNOWN


def test_commands_on_the_units_store_have_the_variables_of_the_unit() -> None:
    alias = re.search(r"^alias cofio='(.*?)'$", PAGE, re.MULTILINE)
    assert alias
    service = unit("cofio.service")
    words = shlex.split(alias[1])
    assert words[:4] == ["sudo", "-u", service["User"][0], "env"]
    assert words[-1] == service["ExecStart"][0].split()[0]
    assert sorted(words[4:-1]) == sorted(each.replace("%S", "/var/lib") for each in service["Environment"])


def test_the_image_is_made_of_files_that_there_are_and_run_by_nobody_in_particular() -> None:
    copied = [word for each in instructions("COPY") if "--from" not in each for word in each.split()[:-1]]
    assert {"pyproject.toml", "src"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
    assert instructions("USER") == ["10001"]
    extras = re.search(r"'\.\[([\w,-]+)\]'", CONTAINER)
    assert extras
    known = re.search(r"\[project.optional-dependencies\]\n(.*?)\n\[", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert known
    assert set(extras[1].split(",")) <= set(re.findall(r"^([\w-]+) = \[", known[1], re.MULTILINE))


@pytest.mark.parametrize(("file", "front"), [("compose.yaml", "cofio"), ("compose-postgres.yaml", "proxy")])
def test_compose_shows_the_memory_to_this_machine_alone_and_lets_it_write_its_volume_alone(
    file: str, front: str
) -> None:
    services = yaml.safe_load((DEPLOY / file).read_text())["services"]
    service = services["cofio"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert [name for name, each in services.items() if "ports" in each] == [front]
    assert [port.rsplit(":", 2)[0] for port in services[front]["ports"]] == ["127.0.0.1"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    (volume,) = service["volumes"]
    assert volume.partition(":")[2] == instructions("VOLUME")[0]


def test_the_servers_of_compose_find_their_database_and_are_no_superusers(
    tmp_path: Path,
) -> None:
    """The script that the database runs when it is made, on a database of its own, and the address of the servers."""
    file = yaml.safe_load((DEPLOY / "compose-postgres.yaml").read_text())
    services, configs = file["services"], file["configs"]
    for each in services.values():
        assert {config["source"] for config in each.get("configs", ())} <= set(configs)
        assert {volume.partition(":")[0] for volume in each.get("volumes", ())} <= set(file["volumes"])
    address = StoreAddress(url=services["cofio"]["environment"]["COFIO_STORE"])
    assert conninfo_to_dict(address.spell())["host"] in services
    (port,) = re.findall(r"COFIO_PORT=(\d+)", CONTAINER)
    assert f"dynamic a cofio {port}" in configs["proxy"]["content"]

    made, role = f"made_{os.getpid()}", f"cofio_{os.getpid()}"
    url = postgres.find_url()
    script = tmp_path / "roles.sh"
    script.write_text(configs["roles"]["content"].replace("$$", "$").replace("ROLE cofio", f"ROLE {role}").replace(
        "AUTHORIZATION cofio", f"AUTHORIZATION {role}"
    ))  # fmt: skip
    server = conninfo_to_dict(url)
    environ = {"PATH": f"{servers.find_postgresql().folder}{os.pathsep}{os.environ['PATH']}"} | {
        "PGHOST": str(server["host"]), "PGPORT": str(server["port"]), "PGPASSWORD": str(server.get("password", "")),
        "POSTGRES_USER": str(server["user"]), "POSTGRES_DB": made, "DB_PASSWORD": "it's $ecret",
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {made} TEMPLATE template0 ENCODING 'UTF8'".encode())
        try:
            subprocess.run(["bash", script], env=environ, check=True, capture_output=True)
            own = make_conninfo(url, user=role, password="it's $ecret", dbname=made)
            with psycopg.connect(own) as connection:
                assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (
                    False,
                )
            their = f"postgresql://{role}:it%27s%20%24ecret@{server['host']}:{server['port']}/{made}"
            with Engine.open(their, settings=Settings(background=False, embedder="none")) as memory:
                memory.write(Scope("here"), text="something")
                assert memory.check() == []
        finally:
            admin.execute(f"DROP DATABASE {made} WITH (FORCE)".encode())
            admin.execute(f"DROP ROLE IF EXISTS {role}".encode())


def test_the_unit_starts_after_a_database_of_its_machine_and_its_file_names_another_store() -> None:
    service = unit("cofio.service")
    assert "postgresql.service" in service["After"][0].split()
    assert "Requires" not in service  # there may be none
    text = (DEPLOY / "cofio.service").read_text()
    assert text.index("\nEnvironment=COFIO_STORE") < text.index("\nEnvironmentFile=")
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} <= set(service["RestrictAddressFamilies"][0].split())
    for name in re.findall(r"^(COFIO_\w+|PG\w+)=\S+$", PAGE, re.MULTILINE):
        assert name in KNOWN | {"PGPASSFILE"}


def test_the_container_serves_once_there_is_a_token_and_is_healthy(tmp_path: Path) -> None:
    """With the image's own variables, its folder in another place and a port that is free."""
    variables = dict(re.findall(r"(\w+)=(\S+)", instructions("ENV")[0]))
    place = {
        name: value.replace("/var/lib/cofio", str(tmp_path)) for name, value in variables.items() if name != "PATH"
    }
    environ = {"PATH": os.environ["PATH"], **place, "COFIO_PORT": "0", "COFIO_EMBEDDER": "none", "COFIO_SYNC": "normal"}
    cofio = [sys.executable, "-m", *json.loads(instructions("ENTRYPOINT")[0])]
    serve = [*cofio, *json.loads(instructions("CMD")[0])]
    refused = subprocess.run(serve, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "`cofio token add NAME`" in refused.stderr
    subprocess.run([*cofio, "token", "add", "laptop"], env=environ, cwd=tmp_path, check=True, capture_output=True)
    with subprocess.Popen(serve, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = re.fullmatch(r"http://0\.0\.0\.0:(\d+)/mcp\n", server.stdout.readline())
        assert address
        _, *rest = json.loads(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
        asked = subprocess.run([sys.executable, *rest], env=environ | {"COFIO_PORT": address[1]}, check=False)
        assert asked.returncode == 0
        server.terminate()
    assert server.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"store", "config"}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze on this machine")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_no_fault_with_the_unit(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / name).read_text()
    copy = tmp_path / name
    copy.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.MULTILINE))
    for_users = ["--user"] if "user" in name else []
    done = subprocess.run(
        ["systemd-analyze", *for_users, "verify", copy], env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    # What is said of other units of this machine is not ours to answer for.
    assert [line for line in done.stderr.splitlines() if name in line] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze on this machine")
def test_the_unit_leaves_little_to_whoever_breaks_in() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", DEPLOY / "cofio.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "exposure level" in done.stdout
