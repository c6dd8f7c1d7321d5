"""`cofio mcp config`: what each client is told, and that a client's file keeps every other byte."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.doors.cli.atomic import put
from cofio.doors.cli.client_config import merge_json, merge_toml, read_json, render_toml_table
from cofio.doors.cli.clients import CLIENTS
from cofio.doors.cli.server_options import CLIENTS as KNOWN_CLIENTS
from cofio.values.errors import Invalid
from cofio.values.records import Json

from .conftest import Cofio

SCRIPT = str(Path(sys.executable).parent / "cofio")
ENTRY: dict[str, Json] = {"command": "/bin/cofio", "args": ["mcp", "--store", '/a "b"']}
NAMES = ("mcpServers", "cofio")


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is empty, on Linux, where nothing says otherwise where clients keep their files."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "AGENT_STORE_PATH"):
        monkeypatch.delenv(name, raising=False)
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "platform", "linux")
    return home


def merged(text: str) -> str:
    return merge_json(text, NAMES, ENTRY, new={"mcpServers": {"cofio": ENTRY}}, where="f").text


def test_every_client_that_the_command_takes_is_known() -> None:
    assert tuple(CLIENTS) == KNOWN_CLIENTS


# What is printed


def test_claude_code_reads_stdio_servers_from_the_project(cofio: Cofio, folder: Path) -> None:
    ran = cofio("mcp", "config", "claude-code")
    assert json.loads(ran.out) == {
        "mcpServers": {"cofio": {"type": "stdio", "command": SCRIPT, "args": ["mcp"], "env": {}}}
    }
    assert f"{folder}/.mcp.json" in ran.err
    assert "--write" in ran.err
    assert f"claude mcp add --scope project cofio -- {SCRIPT} mcp" in ran.err


def test_claude_desktop_is_told_the_whole_path_of_the_memory(cofio: Cofio, folder: Path, home: Path) -> None:
    ran = cofio("mcp", "config", "claude-desktop")
    args: list[Json] = ["mcp", "--store", f"{folder}/.cofio"]
    assert json.loads(ran.out) == {"mcpServers": {"cofio": {"command": SCRIPT, "args": args}}}
    assert f"{home}/.config/Claude/claude_desktop_config.json" in ran.err


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("darwin", "Library/Application Support/Claude"),
        ("win32", "AppData/Roaming/Claude"),
        ("linux", ".config/Claude"),
    ],
)
def test_claude_desktop_has_its_file_where_the_system_keeps_such(
    cofio: Cofio, home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, place: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("APPDATA", raising=False)
    assert str(CLIENTS["claude-desktop"].file()) == f"{home}/{place}/claude_desktop_config.json"


def test_variables_that_move_a_clients_folder_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    monkeypatch.setenv("CODEX_HOME", "/c")
    assert str(CLIENTS["claude-desktop"].file()) == "/x/Claude/claude_desktop_config.json"
    assert str(CLIENTS["codex"].file()) == "/c/config.toml"


def test_cursor_is_told_the_whole_path_since_it_does_not_say_where_it_starts_servers(
    cofio: Cofio, folder: Path
) -> None:
    ran = cofio("mcp", "config", "cursor")
    args: list[Json] = ["mcp", "--store", f"{folder}/.cofio"]
    assert json.loads(ran.out) == {"mcpServers": {"cofio": {"command": SCRIPT, "args": args}}}
    assert f"{folder}/.cursor/mcp.json" in ran.err


def test_vscode_calls_them_servers(cofio: Cofio, folder: Path) -> None:
    ran = cofio("mcp", "config", "vscode")
    assert json.loads(ran.out) == {"servers": {"cofio": {"type": "stdio", "command": SCRIPT, "args": ["mcp"]}}}
    assert f"{folder}/.vscode/mcp.json" in ran.err


def test_codex_reads_toml(cofio: Cofio, folder: Path, home: Path) -> None:
    ran = cofio("mcp", "config", "codex")
    args: list[Json] = ["mcp", "--store", f"{folder}/.cofio"]
    assert tomllib.loads(ran.out) == {"mcp_servers": {"cofio": {"command": SCRIPT, "args": args}}}
    assert f"{home}/.codex/config.toml" in ran.err


def test_opencode_takes_the_command_as_one_list(cofio: Cofio, folder: Path) -> None:
    ran = cofio("mcp", "config", "opencode")
    assert json.loads(ran.out) == {
        "$schema": "https://opencode.ai/config.json",
        "mcp": {"cofio": {"type": "local", "command": [SCRIPT, "mcp"], "enabled": True}},
    }
    assert f"{folder}/opencode.json" in ran.err


def test_without_a_client_all_are_printed_with_their_files(cofio: Cofio) -> None:
    ran = cofio("mcp", "config")
    headings = [line for line in ran.out.splitlines() if line.startswith("# ")]
    assert headings == [f"# {client.name}: {client.file()}" for client in CLIENTS.values()]
    for client in CLIENTS:
        assert cofio("mcp", "config", client).out in ran.out + "\n"


def test_a_program_gets_one_object_a_client(cofio: Cofio, folder: Path) -> None:
    lines = [json.loads(line) for line in cofio("mcp", "config", "--json").out.splitlines()]
    assert [line["client"] for line in lines] == list(CLIENTS)
    assert lines[0]["file"] == f"{folder}/.mcp.json"
    assert lines[0]["command"] == [SCRIPT, "mcp"]
    assert json.loads(lines[0]["config"])["mcpServers"]["cofio"]["command"] == SCRIPT


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_written_unless_asked_for(cofio: Cofio, folder: Path, client: str) -> None:
    cofio("mcp", "config", client)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


# Which command


def words(cofio: Cofio, client: str, *options: str) -> list[str]:
    read = json.loads(cofio("mcp", "config", client, "--json", *options).out)
    assert all(isinstance(word, str) for word in read["command"])
    return list(read["command"])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_store_that_was_asked_for_is_passed_on_whole(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    assert words(cofio, client, "--store", "sub/memory")[2:] == ["--store", f"{folder}/sub/memory"]
    monkeypatch.setenv("AGENT_STORE_PATH", "/old")
    assert words(cofio, client)[2:] == ["--store", "/old"]
    monkeypatch.setenv("COFIO_STORE", "/new")
    assert words(cofio, client)[2:] == ["--store", "/new"]


def test_the_memory_of_the_project_is_found_upwards(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".cofio").mkdir()
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    assert words(cofio, "codex")[2:] == ["--store", f"{folder}/.cofio"]


def test_where_there_is_no_script_the_module_is_run(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", f"{folder}/bin/python")
    assert words(cofio, "vscode") == [f"{folder}/bin/python", "-m", "cofio", "mcp"]
    cofio("mcp", "config", "vscode", "--write")
    entry = json.loads((folder / ".vscode/mcp.json").read_text())["servers"]["cofio"]
    assert (entry["command"], entry["args"]) == (f"{folder}/bin/python", ["-m", "cofio", "mcp"])


def test_the_hint_repeats_the_command_with_its_options(cofio: Cofio) -> None:
    ran = cofio("mcp", "config", "cursor", "--file", "a b.json", "--store", "x y", "--name", "our memory")
    command = ran.err.partition("`")[2].partition("`")[0]
    again = cofio(*shlex.split(command)[1:])
    assert again.code == 0
    assert list(json.loads(Path("a b.json").read_text())["mcpServers"]) == ["our memory"]


# What is written


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_is_not_there_is_made_as_it_was_printed(cofio: Cofio, client: str) -> None:
    printed = cofio("mcp", "config", client).out
    ran = cofio("mcp", "config", client, "--write")
    file = CLIENTS[client].file()
    assert (ran.code, ran.out) == (0, f"cofio is now in {file}\n")
    assert file.read_text() == printed
    again = cofio("mcp", "config", client, "--write")
    assert (again.code, again.out) == (0, f"cofio is in {file} already; nothing was changed\n")
    assert file.read_text() == printed


@pytest.mark.parametrize("client", CLIENTS)
def test_an_empty_file_is_as_good_as_none(cofio: Cofio, folder: Path, client: str) -> None:
    (folder / "f").touch()
    printed = cofio("mcp", "config", client).out
    cofio("mcp", "config", client, "--write", "--file", "f")
    assert (folder / "f").read_text() == printed


@pytest.mark.parametrize("client", CLIENTS)
def test_another_command_in_an_entry_of_that_name_is_changed_and_it_is_said(cofio: Cofio, client: str) -> None:
    cofio("mcp", "config", client, "--write", "--store", "/before")
    ran = cofio("mcp", "config", client, "--write", "--store", "/af ter")
    file = CLIENTS[client].file()
    was, now = f"{SCRIPT} mcp --store /before", f"{SCRIPT} mcp --store '/af ter'"
    assert ran.out == f"cofio in {file} is changed: {was} → {now}\n"
    assert "/af ter" in file.read_text()
    assert "/before" not in file.read_text()
    told = cofio("mcp", "config", client, "--write", "--store", "/before", "--json").json
    assert told == {
        "client": client, "file": str(file), "name": "cofio", "change": "changed",
        "command": [SCRIPT, "mcp", "--store", "/before"],
    }  # fmt: skip


# What its user has put into an entry


def held(client: str, words: list[str], mine: dict[str, Json]) -> None:
    """Let the client's file have an entry with this command line, written as the client has such."""
    entry: dict[str, Json] = {"command": words[0], "args": list(words[1:])}
    if client == "opencode":
        entry = {"command": list(words)}
    file = CLIENTS[client].file()
    file.parent.mkdir(parents=True, exist_ok=True)
    servers = CLIENTS[client].servers[0]
    if client == "codex":
        file.write_text(render_toml_table((servers, "cofio"), entry | mine))
    else:
        file.write_text(json.dumps({servers: {"cofio": entry | mine}}))


def holds(client: str) -> tuple[list[str], dict[str, Json]]:
    """The command line of the entry that the client's file has now, and what else is in it."""
    text = CLIENTS[client].file().read_text()
    document = tomllib.loads(text) if client == "codex" else json.loads(text)
    entry = document[CLIENTS[client].servers[0]]["cofio"]
    command = entry.pop("command")
    return [*(command if isinstance(command, list) else [command]), *entry.pop("args", [])], entry


@pytest.mark.parametrize("client", CLIENTS)
def test_all_that_its_user_added_to_an_entry_stays(cofio: Cofio, client: str) -> None:
    mine: dict[str, Json] = {
        "disabled": True, "enabled": False, "timeout": 7, "cwd": "/x",
        "env": {"COFIO_STORE": "/m", "COFIO_EMBEDDER": "hashed"},
    }  # fmt: skip
    held(client, ["/old/cofio", "mcp", "--allow-secrets"], mine)
    ran = cofio("mcp", "config", client, "--write")
    file = CLIENTS[client].file()
    line = "mcp --allow-secrets"
    assert ran.out == f"cofio in {file} is changed: /old/cofio {line} → {SCRIPT} {line}\n"
    types: dict[str, Json] = {"claude-code": "stdio", "vscode": "stdio", "opencode": "local"}
    needed: dict[str, Json] = {"type": types[client]} if client in types else {}
    assert holds(client) == ([SCRIPT, "mcp", "--allow-secrets"], mine | needed)
    written = file.read_bytes()
    again = cofio("mcp", "config", client, "--write", "--json").json
    assert again["change"] == "unchanged"
    assert file.read_bytes() == written


@pytest.mark.parametrize("client", ["claude-code", "cursor", "codex", "opencode"])
@pytest.mark.parametrize(
    ("words", "options", "wanted"),
    [
        ("cofio mcp --store /mine", "", "--store /mine"),
        ("cofio mcp --allow-secrets --store=/mine", "", "--allow-secrets --store=/mine"),
        ("cofio --store /mine mcp --allow-secrets", "", "--store /mine --allow-secrets"),
        ("cofio --store=mcp mcp", "", "--store=mcp"),
        ("cofio --store mcp mcp --json", "", "--store mcp --json"),
        ("uvx --from x cofio mcp --allow-secrets --store /mine", "--store /asked", "--allow-secrets --store /asked"),
        ("python -m cofio mcp --store=/mine --json", "--store /asked", "--store=/asked --json"),
        ("cofio --store /mine mcp", "--store /asked", "--store /asked"),
        ("cofio mcp --allow-secrets", "--store /asked", "--store /asked --allow-secrets"),
        ("cofio mcp --store", "--store /asked", "--store /asked"),
        ("npx other-server --port 3", "--store /asked", "--store /asked"),
        ("", "--store /asked", "--store /asked"),
    ],
)
def test_arguments_stay_but_for_a_store_where_another_is_asked_for(
    cofio: Cofio, client: str, words: str, options: str, wanted: str
) -> None:
    held(client, words.split(" "), {})
    assert cofio("mcp", "config", client, "--write", *options.split()).code == 0
    assert holds(client)[0] == [SCRIPT, "mcp", *wanted.split()]


@pytest.mark.parametrize(
    "mine", [{"env": {"COFIO_STORE": "/m"}}, {"environment": {"AGENT_STORE_PATH": "/m"}}, {"cwd": "/project"}]
)
def test_no_store_is_added_where_the_entry_says_itself_which(
    cofio: Cofio, monkeypatch: pytest.MonkeyPatch, mine: dict[str, Json]
) -> None:
    monkeypatch.setenv("COFIO_STORE", "/shell")
    held("cursor", ["cofio", "mcp"], mine)
    cofio("mcp", "config", "cursor", "--write")
    assert holds("cursor") == ([SCRIPT, "mcp"], mine)
    held("cursor", ["cofio", "mcp"], {"env": {"COFIO_STORE": ""}})
    cofio("mcp", "config", "cursor", "--write")
    assert holds("cursor")[0] == [SCRIPT, "mcp", "--store", "/shell"]


def test_what_a_client_needs_beside_the_command_is_set_and_told(cofio: Cofio) -> None:
    held("opencode", [SCRIPT, "mcp"], {"type": "loca"})
    ran = cofio("mcp", "config", "opencode", "--write")
    assert ran.out.endswith(" is changed: type → local\n")
    assert holds("opencode") == ([SCRIPT, "mcp"], {"type": "local"})


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{"mcpServers": {"cofio": {"url": "http://127.0.0.1:8427/mcp", "headers": {"a": "b"}}}}'),
        ("opencode", '{"mcp": {"cofio": {"type": "remote", "url": "http://127.0.0.1:8427/mcp"}}}'),
        ("codex", '[mcp_servers.cofio]\nurl = "http://127.0.0.1:8427/mcp"\nbearer_token_env_var = "X"\n'),
    ],
)
def test_an_entry_with_an_address_is_not_made_one_with_both(cofio: Cofio, client: str, text: str) -> None:
    file = CLIENTS[client].file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    ran = cofio("mcp", "config", client, "--write")
    assert (ran.code, ran.out) == (1, "")
    assert "its cofio is at http://127.0.0.1:8427/mcp" in ran.err
    assert "--name" in ran.err
    assert file.read_text() == text
    assert cofio("mcp", "config", client, "--write", "--name", "local").code == 0


@pytest.mark.parametrize("value", ["null", "1", "[]", '"x"', "{}"])
def test_what_is_no_entry_gives_way_to_one(cofio: Cofio, folder: Path, value: str) -> None:
    (folder / ".mcp.json").write_text(f'{{"mcpServers": {{"cofio": {value}}}}}')
    ran = cofio("mcp", "config", "claude-code", "--write")
    assert ran.out.endswith(f" is changed: no command → {SCRIPT} mcp\n")
    assert holds("claude-code") == ([SCRIPT, "mcp"], {"type": "stdio", "env": {}})


def test_a_command_that_cannot_be_printed_or_written_does_no_harm(cofio: Cofio, folder: Path) -> None:
    text = '{"mcpServers": {"cofio": {"command": "a\\ud800\\n", "args": ["x"]}}}'
    (folder / ".mcp.json").write_text(text)
    ran = cofio("mcp", "config", "claude-code", "--write")
    assert ran.out == f"cofio in {folder}/.mcp.json is changed: 'a\\ud800\\n' x → {SCRIPT} mcp\n"
    text = '{"mcpServers": {"cofio": {"command": "cofio", "args": ["mcp", "\\ud800"]}}}'
    (folder / ".mcp.json").write_text(text)
    ran = cofio("mcp", "config", "claude-code", "--write")
    assert (ran.code, ran.err.startswith("cofio: command: ")) == (1, True)
    assert (folder / ".mcp.json").read_text() == text


# Which files


@pytest.mark.parametrize("client", CLIENTS)
def test_two_memories_can_stand_side_by_side(cofio: Cofio, client: str) -> None:
    cofio("mcp", "config", client, "--write", "--store", "/one")
    ran = cofio("mcp", "config", client, "--write", "--store", "/two", "--name", "the second")
    text = CLIENTS[client].file().read_text()
    assert ("/one" in text, "/two" in text) == (True, True)
    assert ("may refuse 'the second'" in ran.err) == (client in ("claude-code", "codex"))


@pytest.mark.parametrize(
    ("client", "broken"),
    [
        ("cursor", b'{"mcpServers": {'),
        ("cursor", b'{"mcpServers": {}} x'),
        ("cursor", b"[]"),
        ("cursor", b'{"mcpServers": []}'),
        ("cursor", b'{"a": NaN}'),
        ("cursor", b'{,"a": 1}'),
        ("cursor", b'{"a": [,]}'),
        ("cursor", b'{"a": 1,,}'),
        ("cursor", b'{"a": 1} /* open'),
        ("cursor", b'{"a": "\xff"}'),
        ("cursor", b"[" * 100_000),
        ("opencode", b'{"mcp": 3}'),
        ("codex", b"[mcp_servers\n"),
        ("codex", b"mcp_servers = 3\n"),
        ("codex", b"[mcp_servers]\ncofio = 3\n"),
        ("codex", b"[[mcp_servers.cofio]]\ncommand = 'x'\n"),
        ("codex", b"[mcp_servers.cofio.args]\nx = 1\n"),
        ("codex", b'mcp_servers = { cofio = { command = "x" } }\n'),
        ("codex", b"\xff"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(
    cofio: Cofio, folder: Path, client: str, broken: bytes
) -> None:
    file = folder / "config"
    file.write_bytes(broken)
    ran = cofio("mcp", "config", client, "--write", "--file", "config")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"cofio: {file}: ")
    assert len(ran.err.splitlines()) == 1
    assert file.read_bytes() == broken


def test_a_folder_in_the_files_place_is_told(cofio: Cofio, folder: Path) -> None:
    (folder / ".mcp.json").mkdir()
    ran = cofio("mcp", "config", "claude-code", "--write")
    assert ran.code == 1
    assert ".mcp.json" in ran.err


@pytest.mark.parametrize("path", ["pipe", "link", "gone/sub/mcp.json", "/dev/null"])
def test_what_is_no_file_is_refused_and_nothing_is_made(cofio: Cofio, folder: Path, path: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("nowhere/mcp.json")
    (folder / "gone").symlink_to("nowhere")
    before = sorted(folder.rglob("*"))
    ran = cofio("mcp", "config", "cursor", "--write", "--file", path)
    assert (ran.code, ran.out) == (1, "")
    named = folder / path.removesuffix("/sub/mcp.json")
    wrong = "is a link to nowhere" if named.is_symlink() else "is something else, not a file"
    assert ran.err.startswith(f"cofio: {named}: {wrong}")
    assert sorted(folder.rglob("*")) == before
    with pytest.raises(Invalid, match=wrong):
        put(folder / path, b"")


def test_permissions_and_links_stay_as_they_are(cofio: Cofio, folder: Path) -> None:
    real = folder / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    (folder / ".mcp.json").symlink_to("dotfiles/mcp.json")
    assert cofio("mcp", "config", "claude-code", "--write").code == 0
    assert os.readlink(folder / ".mcp.json") == "dotfiles/mcp.json"
    assert real.stat().st_mode & 0o777 == 0o640
    assert "cofio" in real.read_text()
    assert list(real.parent.iterdir()) == [real]


def test_a_new_file_has_the_permissions_that_new_files_have_here(cofio: Cofio, folder: Path) -> None:
    before = os.umask(0o027)
    try:
        cofio("mcp", "config", "cursor", "--write", "--file", "deep/er/mcp.json")
    finally:
        os.umask(before)
    assert (folder / "deep/er/mcp.json").stat().st_mode & 0o777 == 0o640


def test_a_file_can_be_made_for_its_owner_alone(folder: Path) -> None:
    put(folder / "sub/secret", "é", mode=0o600)
    assert (folder / "sub/secret").read_bytes() == "é".encode()
    assert (folder / "sub/secret").stat().st_mode & 0o777 == 0o600
    (folder / "sub/secret").chmod(0o644)
    put(folder / "sub/secret", b"", mode=0o600)
    assert (folder / "sub/secret").stat().st_mode & 0o777 == 0o644


def test_nothing_is_left_behind_by_what_cannot_be_written(folder: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        put(folder / "sub/file", "\ud800")
    assert list((folder / "sub").iterdir()) == []


def test_a_full_disk_leaves_the_file_as_it_was_and_nothing_beside_it(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (folder / "sub").mkdir()
    (folder / "sub/mcp.json").write_text("{}")
    monkeypatch.setattr(os, "fsync", full)
    ran = cofio("mcp", "config", "cursor", "--write", "--file", "sub/mcp.json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"cofio: the disk that holds {folder}/sub/mcp.json is full; free some space and try again\n"
    assert [(path.name, path.read_text()) for path in (folder / "sub").iterdir()] == [("mcp.json", "{}")]


@pytest.mark.parametrize("name", ["opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"])
def test_opencodes_other_files_are_used_when_they_are_there(cofio: Cofio, folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text('{\n  "theme": "dark", // mine\n}\n')
    cofio("mcp", "config", "opencode", "--write")
    text = (folder / name).read_text()
    assert text.startswith('{\n  "theme": "dark", // mine\n  "mcp": {\n    "cofio": {\n')
    assert text.endswith("    }\n  },\n}\n")
    assert not (folder / "opencode.json").exists()


def test_opencodes_second_version_has_its_servers_one_level_down(cofio: Cofio, folder: Path) -> None:
    (folder / "opencode.json").write_text('{"mcp": {"servers": {"other": {"type": "local", "command": ["x"]}}}}')
    cofio("mcp", "config", "opencode", "--write")
    assert json.loads((folder / "opencode.json").read_text())["mcp"] == {
        "servers": {
            "other": {"type": "local", "command": ["x"]},
            "cofio": {"type": "local", "command": [SCRIPT, "mcp"]},
        }
    }


@pytest.mark.parametrize(
    "argv",
    [
        ("--write",),
        ("--file", "x"),
        ("cursor", "--write", "--file", ""),
        ("cursor", "--name", ""),
        ("cursor", "--name", "a\nb"),
        ("emacs",),
    ],
)
def test_wrong_usage_is_told(cofio: Cofio, argv: tuple[str, ...]) -> None:
    ran = cofio("mcp", "config", *argv)
    assert (ran.code, ran.out) == (2, "")


# How JSON is edited


def test_the_member_is_put_in_the_style_of_its_neighbours() -> None:
    text = (
        "// servers of the team\n"
        "{\n"
        '\t"inputs": [],\n'
        '\t"mcpServers": {\n'
        '\t\t"other": {"command": "x"} // keep, } this\n'
        "\t\t// and this\n"
        "\t},\n"
        '\t"z": 1\n'
        "}\n"
    )
    assert merged(text) == (
        "// servers of the team\n"
        "{\n"
        '\t"inputs": [],\n'
        '\t"mcpServers": {\n'
        '\t\t"other": {"command": "x"}, // keep, } this\n'
        '\t\t"cofio": {\n'
        '\t\t\t"command": "/bin/cofio",\n'
        '\t\t\t"args": [\n'
        '\t\t\t\t"mcp",\n'
        '\t\t\t\t"--store",\n'
        '\t\t\t\t"/a \\"b\\""\n'
        "\t\t\t]\n"
        "\t\t}\n"
        "\t\t// and this\n"
        "\t},\n"
        '\t"z": 1\n'
        "}\n"
    )


def test_a_trailing_comma_stays_one() -> None:
    text = '{\n  "mcpServers": {\n    "a": 1, // one\n  },\n}\n'
    new = merged(text)
    assert new.startswith('{\n  "mcpServers": {\n    "a": 1, // one\n    "cofio": {\n')
    assert new.endswith("    },\n  },\n}\n")


def test_an_object_on_one_line_stays_there() -> None:
    entry = '{"command": "/bin/cofio", "args": ["mcp", "--store", "/a \\"b\\""]}'
    assert merged('{"mcpServers": {"a": 1 /* x */}}') == f'{{"mcpServers": {{"a": 1, /* x */ "cofio": {entry}}}}}'
    assert merged('{"mcpServers": {"cofio": 1}}') == f'{{"mcpServers": {{"cofio": {entry}}}}}'


def test_an_empty_object_opens_up_and_keeps_its_comments() -> None:
    new = merged('{\r\n    "mcpServers": {\r\n        // none yet\r\n    }\r\n}')
    assert new.startswith(
        '{\r\n    "mcpServers": {\r\n        // none yet\r\n        "cofio": {\r\n            "command"'
    )
    assert new.endswith("            ]\r\n        }\r\n    }\r\n}")
    assert "\n" not in new.replace("\r\n", "")
    assert merged("{}").startswith('{\n  "mcpServers": {\n    "cofio": {\n')
    assert merged("{}").endswith("    }\n  }\n}")


def test_a_byte_order_mark_and_a_file_of_comments_stay() -> None:
    assert merged('\ufeff{"a": 1}').startswith('\ufeff{"a": 1, ')
    assert merged("// nothing here").startswith("// nothing here\n{\n")


def test_of_two_members_with_one_name_the_one_that_parsers_take_is_changed() -> None:
    new = merged('{"mcpServers": {"x": 1}, "mcpServers": {"cofio": 1, "cofio": 2}}')
    assert new.startswith('{"mcpServers": {"x": 1}, "mcpServers": {"cofio": 1, "cofio": {"command"')


def test_of_an_entry_only_the_members_change_that_are_set() -> None:
    text = (
        "{\n"
        '  "mcpServers": {\n'
        '    "cofio": { // mine\n'
        "      // not the newest\n"
        '      "command": "/old/cofio", // for now\n'
        '      "args": ["mcp"], /* none */\n'
        '      "env": {"COFIO_STORE": "/m"}, // keep\n'
        "    },\n"
        '    "other": {}\n'
        "  }\n"
        "}\n"
    )
    args = '["mcp", "--store", "/a \\"b\\""]'
    assert merged(text) == text.replace("/old/cofio", "/bin/cofio").replace('["mcp"]', args)
    without = text.replace('      "args": ["mcp"], /* none */\n', "")
    assert merged(without).endswith(
        '"env": {"COFIO_STORE": "/m"}, // keep\n      "args": [\n        "mcp",\n        "--store",\n'
        '        "/a \\"b\\""\n      ],\n    },\n    "other": {}\n  }\n}\n'
    )


_KEYS = st.one_of(st.sampled_from(["mcpServers", "cofio", "a", "//", "/*", '"', ",}", "é\\"]), st.text(max_size=4))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_TRIVIA = st.lists(
    st.sampled_from(
        [" ", "  ", "\n", "\n  ", "\r\n", "\t", "/**/", "/* c */", '/*\n "cofio": { */', '// "x, } ]\n', "//\r\n"]
    ),
    max_size=3,
).map("".join)


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Json], str]:
    """An object, and a text for it; the value of the member that is to be set stands between NULs."""
    value: dict[str, Json] = draw(st.dictionaries(_KEYS, _VALUES, max_size=4))
    value.pop("mcpServers", None)
    if draw(st.booleans()):
        servers: dict[str, Json] = draw(st.dictionaries(_KEYS, _VALUES, max_size=3))
        value["mcpServers"] = servers
        order = draw(st.permutations(list(value)))
        value = {name: value[name] for name in order}

    def written(value: Json, names: tuple[str, ...]) -> str:
        if isinstance(value, dict):
            parts = [
                f"{json.dumps(name)}{draw(_TRIVIA)}:{draw(_TRIVIA)}{written(each, (*names, name))}"
                for name, each in value.items()
            ]
            text = "{" + listed(parts) + "}"
        elif isinstance(value, list):
            text = "[" + listed([written(each, (*names, "")) for each in value]) + "]"
        else:
            text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        return f"\0{text}\0" if names == NAMES else text

    def listed(parts: list[str]) -> str:
        parts = [f"{draw(_TRIVIA)}{part}{draw(_TRIVIA)}" for part in parts]
        trailing, gap = draw(st.booleans()), draw(_TRIVIA)
        return ",".join(parts) + ("," if parts and trailing else "") + gap

    return value, draw(_TRIVIA) + written(value, ()) + draw(_TRIVIA)


@given(documents())
def test_whatever_else_is_in_a_json_file_stays_byte_for_byte(document: tuple[dict[str, Json], str]) -> None:
    value, marked = document
    text = marked.replace("\0", "")
    assert read_json(text, "f") == value
    new = merged(text)
    servers = value.get("mcpServers", {})
    assert isinstance(servers, dict)
    old = servers.get("cofio")
    entry = {**old, **ENTRY} if isinstance(old, dict) else ENTRY
    assert read_json(new, "f") == {**value, "mcpServers": {**servers, "cofio": entry}}
    if "\0" in marked:
        before, inside, after = marked.split("\0")
        assert new.startswith(before)
        assert new.endswith(after)
        if isinstance(old, dict) and not set(old) & set(ENTRY):
            assert kept(inside, new[len(before) : len(new) - len(after)])
    else:
        assert only_added(text, new)
    assert merged(new) == new


def shared(one: str, other: str) -> int:
    """How many characters two texts have in common from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def kept(old: str, new: str) -> bool:
    """Whether every character of `old` is in `new`, in that order."""
    rest = iter(new)
    return all(each in rest for each in old)


def only_added(old: str, new: str) -> bool:
    """Whether `new` is `old` with something put in at one or two places."""
    head = shared(old, new)
    tail = shared(old[head:][::-1], new[head:][::-1])
    return old[head : len(old) - tail] in new[head : len(new) - tail]


@given(st.text(alphabet='{}[],:"/*\\ \n1a', max_size=30))
def test_no_text_is_edited_into_something_else(text: str) -> None:
    try:
        value = read_json(text, "f")
        new = merged(text)
    except Invalid:
        return
    assert isinstance(value, dict | None)
    assert read_json(new, "f") == {**(value or {}), "mcpServers": {"cofio": ENTRY}}
    assert only_added(text, new)


# How TOML is edited

TABLE = '[mcp_servers.cofio]\ncommand = "/bin/cofio"\nargs = ["mcp"]\n'
TOML_ENTRY: dict[str, str | list[str]] = {"command": "/bin/cofio", "args": ["mcp"]}
OURS = [
    '[mcp_servers.cofio] # old\ncommand = "x" # c\n# about args\nargs = [\n  "a", # ]\n]\nenv.A = "b"\n',
    '  [ mcp_servers . "cofio" ]\nurl = "x"\n',
    '[mcp_servers.cofio.env]\nA = "1"\n',
    "[mcp_servers.cofio.tools.'x.y']\nenabled = true\n",
]
CHANGED = {
    0: '[mcp_servers.cofio] # old\ncommand = "/bin/cofio" # c\n# about args\nargs = ["mcp"]\nenv.A = "b"\n',
    1: '  [ mcp_servers . "cofio" ]\nurl = "x"\ncommand = "/bin/cofio"\nargs = ["mcp"]\n',
}
OTHERS = [
    '# mine\n[mcp_servers.other]\ncommand = "[mcp_servers.cofio]"\n',
    '[mcp_servers.other.env]\nA = """\n[mcp_servers.cofio]\ncommand = "no" \\"""\n"""""\n',
    "\n\n[profiles.fast] # [\nmodel = '''x\n[mcp_servers.cofio]'''\nat = 2026-01-01\n",
    "[[list]]\nx = nan\n[[list]]\ny = [ # [\n  [1, 2], {a = 1},\n]\n",
    '["mcp_servers.cofio"]\nz = 1\n',
    "[cofiox]\n",
]
ROOTS = ["", 'model = "o"\n\n', "# top\nmodel = 1_000 # [x]\n", 'projects."/a.b".trust = "yes"\n']


def tabled(text: str) -> str:
    return merge_toml(text, ("mcp_servers", "cofio"), TOML_ENTRY, where="f").text


@given(
    st.sampled_from(ROOTS),
    st.lists(st.sampled_from(range(len(OTHERS))), unique=True),
    st.lists(st.sampled_from([0, 2, 3]) | st.sampled_from([1, 2]), unique=True, max_size=3),
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_else_is_in_a_toml_file_stays_byte_for_byte(
    root: str, others: list[int], ours: list[int], data: st.DataObject, eol: str
) -> None:
    if 0 in ours and 1 in ours:
        ours.remove(1)  # a table may be there but once
    if 0 in ours and 2 in ours:
        ours.remove(2)  # as may its env
    pieces: list[tuple[int | None, str]] = [(None, OTHERS[number]) for number in others]
    for number in ours:
        pieces.insert(data.draw(st.integers(0, len(pieces))), (number, OURS[number]))
    text = (root + "".join(piece for _, piece in pieces)).replace("\n", eol)
    tomllib.loads(text)
    expected = root + "".join(piece if number is None else CHANGED.get(number, piece) for number, piece in pieces)
    if not set(ours) & set(CHANGED):
        expected += ("\n" if expected else "") + TABLE
    new = tabled(text)
    assert new == (expected.replace("\n", eol) if text else expected)
    assert tabled(new) == new


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            '[mcp_servers]\ncofio = { command = "x" } # mine\nother = { command = "y" }\n[z]\n',
            '[mcp_servers]\ncofio = { command = "/bin/cofio", args = ["mcp"] } # mine\n'
            'other = { command = "y" }\n[z]\n',
        ),
        (
            "mcp_servers.cofio = {a.b = [1, true, 0x10, nan, 2026-01-01, 07:30:00, {}], 'c d' = {e = 1e9}}",
            "mcp_servers.cofio = { a = { b = [1, true, 16, nan, 2026-01-01, 07:30:00, {}] }, "
            '"c d" = { e = 1000000000.0 }, command = "/bin/cofio", args = ["mcp"] }',
        ),
        (
            '[mcp_servers]\n  cofio.command = "x"\n  cofio.env.A = "b"\nother.command = "y"',
            '[mcp_servers]\n  cofio.command = "/bin/cofio"\n  cofio.env.A = "b"\n  cofio.args = ["mcp"]\n'
            'other.command = "y"',
        ),
        (
            'mcp_servers.cofio.args = ["mcp"]',
            'mcp_servers.cofio.args = ["mcp"]\nmcp_servers.cofio.command = "/bin/cofio"',
        ),
    ],
)
def test_an_entry_without_a_header_is_changed_in_its_place_too(text: str, wanted: str) -> None:
    assert tabled(text) == wanted
    assert tabled(wanted) == wanted


def test_a_file_without_a_last_line_break_and_with_a_byte_order_mark_stays_so() -> None:
    assert tabled("a = 1") == f"a = 1\n\n{TABLE}"
    assert tabled("\ufeffa = 1\n") == f"\ufeffa = 1\n\n{TABLE}"
    assert tabled('[mcp_servers.cofio]\ncommand = "x"') == TABLE.rstrip("\n")
    assert tabled("[mcp_servers.cofio]") == TABLE.rstrip("\n")


def test_names_and_values_are_quoted_where_toml_needs_it(cofio: Cofio, home: Path) -> None:
    name, store = 'a.b "c" é', '/x "y" \\z\x7f'
    cofio("mcp", "config", "codex", "--write", "--name", name, "--store", store)
    text = (home / ".codex/config.toml").read_text()
    assert text.startswith('[mcp_servers."a.b \\"c\\" é"]\n')
    assert tomllib.loads(text)["mcp_servers"][name]["args"] == ["mcp", "--store", store]
