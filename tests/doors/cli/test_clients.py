"""`cofio mcp config`: what each client is told, and that a client's file keeps what is its user's."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cofio.doors.cli.clients import CLIENTS
from cofio.doors.cli.server_options import CLIENTS as KNOWN_CLIENTS
from cofio.values.records import Json

from .conftest import Cofio

SCRIPT = str(Path(sys.executable).parent / "cofio")
TYPES: dict[str, Json] = {"claude-code": "stdio", "vscode": "stdio", "opencode": "local"}
FILES = {
    "claude-code": ".mcp.json", "claude-desktop": "home/.config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json", "codex": "home/.codex/config.toml",
    "opencode": "opencode.json",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, on Linux, where no variable moves a client's files."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "AGENT_STORE_PATH", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "platform", "linux")
    return home


def read(text: str) -> Any:
    """The document that TOML, or JSON with comments, stands for."""
    if not re.match(r"\s*(\ufeff|//.*\s*)*\{", text):
        return tomllib.loads(text.removeprefix("\ufeff"))
    plain = re.sub(r"(?<!:)//[^\n]*|/\*.*?\*/", "", text.removeprefix("\ufeff"), flags=re.DOTALL)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", plain))


def hold(client: str, words: list[str], mine: dict[str, Json]) -> None:
    """Let the client's file have an entry with this command line, written as the client has such."""
    entry: dict[str, Json] = {"command": words[0], "args": list(words[1:])}
    if client == "opencode":
        entry = {"command": list(words)}
    file = Path(FILES[client])
    file.parent.mkdir(parents=True, exist_ok=True)
    servers = CLIENTS[client].servers[0]
    if client == "codex":
        members = [f"{name} = {json.dumps(value)}\n".replace('": ', '" = ') for name, value in (entry | mine).items()]
        file.write_text(f"[{servers}.cofio]\n" + "".join(members))
    else:
        file.write_text(json.dumps({servers: {"cofio": entry | mine}}))


def find_entry(client: str) -> tuple[list[str], dict[str, Json]]:
    """The command line of the entry that the client's file has now, and what else is in it."""
    entry = read(Path(FILES[client]).read_text())[CLIENTS[client].servers[0]]["cofio"]
    command = entry.pop("command")
    return [*(command if isinstance(command, list) else [command]), *entry.pop("args", [])], entry


# What is printed


def test_each_client_gets_the_entry_that_it_reads(cofio: Cofio, folder: Path) -> None:
    assert tuple(CLIENTS) == KNOWN_CLIENTS == tuple(FILES)
    stored: Json = {"command": SCRIPT, "args": ["mcp", "--store", f"{folder}/.cofio"]}
    typed: dict[str, Json] = {"type": "stdio", "command": SCRIPT, "args": ["mcp"]}
    expected: dict[str, Json] = {
        "claude-code": {"mcpServers": {"cofio": {**typed, "env": {}}}},
        "claude-desktop": {"mcpServers": {"cofio": stored}},
        "cursor": {"mcpServers": {"cofio": stored}},
        "vscode": {"servers": {"cofio": typed}},
        "codex": {"mcp_servers": {"cofio": stored}},
        "opencode": {
            "$schema": "https://opencode.ai/config.json",
            "mcp": {"cofio": {"type": "local", "command": [SCRIPT, "mcp"], "enabled": True}},
        },
    }
    every = cofio("mcp", "config")
    objects = [json.loads(line) for line in cofio("mcp", "config", "--json").out.splitlines()]
    for client, found in zip(CLIENTS, objects, strict=True):
        ran = cofio("mcp", "config", client)
        assert read(ran.out) == expected[client]
        assert f"{folder}/{FILES[client]}" in ran.err
        assert f"# {client}: {folder}/{FILES[client]}\n\n{ran.out}" in every.out + "\n"
        assert (found["client"], found["file"]) == (client, f"{folder}/{FILES[client]}")
        assert found["config"] == ran.out.rstrip("\n")
    assert f"claude mcp add --scope project cofio -- {SCRIPT} mcp" in cofio("mcp", "config", "claude-code").err
    assert [path for path in folder.rglob("*") if path.is_file()] == [], "nothing is written unless asked for"


def test_files_are_where_the_system_and_variables_put_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for platform, place in (("darwin", "Library/Application Support"), ("win32", "AppData/Roaming")):
        monkeypatch.setattr(sys, "platform", platform)
        assert CLIENTS["claude-desktop"].file() == home / place / "Claude/claude_desktop_config.json"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    monkeypatch.setenv("CODEX_HOME", "/c")
    assert str(CLIENTS["claude-desktop"].file()) == "/x/Claude/claude_desktop_config.json"
    assert str(CLIENTS["codex"].file()) == "/c/config.toml"


def test_where_there_is_no_script_the_module_is_run(cofio: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/python")
    assert cofio("mcp", "config", "vscode", "--json").json["command"] == ["/bin/python", "-m", "cofio", "mcp"]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_a_store_that_was_asked_for_is_passed_on_whole(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    def find_store(*options: str) -> Json:
        command = cofio("mcp", "config", client, "--json", *options).json["command"]
        assert isinstance(command, list)
        return command[-1]

    assert find_store("--store", "sub/memory") == f"{folder}/sub/memory"
    (folder / ".cofio").mkdir()
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    assert find_store() == (f"{folder}/.cofio" if client == "codex" else "mcp")
    for name, store in (("AGENT_STORE_PATH", "/old"), ("COFIO_STORE", "/new")):
        monkeypatch.setenv(name, store)
        assert find_store() == store


# What is written


@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_is_made_kept_changed_and_joined_by_another(cofio: Cofio, folder: Path, client: str) -> None:
    printed = cofio("mcp", "config", client).out
    file = folder / FILES[client]
    ran = cofio("mcp", "config", client, "--write")
    assert (ran.code, ran.out, file.read_text()) == (0, f"cofio is now in {file}\n", printed)
    again = cofio("mcp", "config", client, "--write")
    assert (again.code, file.read_text()) == (0, printed)
    assert "nothing was changed" in again.out
    cofio("mcp", "config", client, "--write", "--store", "/before")
    changed = cofio("mcp", "config", client, "--write", "--store", "/af ter")
    assert f"{SCRIPT} mcp --store /before → {SCRIPT} mcp --store '/af ter'" in changed.out
    assert ("/before" in file.read_text(), "/af ter" in file.read_text()) == (False, True)
    second = cofio("mcp", "config", client, "--write", "--store", "/two", "--name", 'the "second"', "--json")
    assert second.json == {
        "client": client, "file": str(file), "name": 'the "second"', "change": "added",
        "command": [SCRIPT, "mcp", "--store", "/two"],
    }  # fmt: skip
    assert ("may refuse" in second.err) == (client in ("claude-code", "codex"))
    assert set(read(file.read_text())[CLIENTS[client].servers[0]]) == {"cofio", 'the "second"'}


@pytest.mark.parametrize("client", CLIENTS)
def test_all_that_its_user_added_to_an_entry_stays(cofio: Cofio, client: str) -> None:
    mine: dict[str, Json] = {"enabled": False, "timeout": 7, "cwd": "/x", "env": {"COFIO_STORE": "/m", "A": "b"}}
    hold(client, ["/old/cofio", "mcp", "--allow-secrets"], mine)
    ran = cofio("mcp", "config", client, "--write")
    assert f"/old/cofio mcp --allow-secrets → {SCRIPT} mcp --allow-secrets" in ran.out
    needed: dict[str, Json] = {"type": TYPES[client]} if client in TYPES else {}
    assert find_entry(client) == ([SCRIPT, "mcp", "--allow-secrets"], mine | needed)
    assert cofio("mcp", "config", client, "--write", "--json").json["change"] == "unchanged"


@pytest.mark.parametrize(
    ("words", "options", "wanted"),
    [
        ("cofio mcp --store /mine", "", "--store /mine"),
        ("cofio --store mcp mcp --json", "", "--store mcp --json"),
        ("uvx --from x cofio mcp --allow-secrets --store /mine", "--store /asked", "--allow-secrets --store /asked"),
        ("python -m cofio mcp --store=/mine --json", "--store /asked", "--store=/asked --json"),
        ("npx other-server --port 3", "--store /asked", "--store /asked"),
        ("", "--store /asked", "--store /asked"),
    ],
)
def test_arguments_stay_but_for_a_store_where_another_is_asked_for(
    cofio: Cofio, words: str, options: str, wanted: str
) -> None:
    hold("cursor", words.split(" "), {})
    assert cofio("mcp", "config", "cursor", "--write", *options.split()).code == 0
    assert find_entry("cursor")[0] == [SCRIPT, "mcp", *wanted.split()]


def test_no_store_is_added_where_the_entry_says_itself_which(cofio: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_STORE", "/shell")
    ways: list[dict[str, Json]] = [
        {"env": {"COFIO_STORE": "/m"}}, {"environment": {"AGENT_STORE_PATH": "/m"}}, {"cwd": "/project"},
    ]  # fmt: skip
    for mine in ways:
        hold("cursor", ["cofio", "mcp"], mine)
        cofio("mcp", "config", "cursor", "--write")
        assert find_entry("cursor") == ([SCRIPT, "mcp"], mine)
    hold("cursor", ["cofio", "mcp"], {"env": {"COFIO_STORE": ""}})
    cofio("mcp", "config", "cursor", "--write")
    assert find_entry("cursor")[0] == [SCRIPT, "mcp", "--store", "/shell"]


@pytest.mark.parametrize("entry", [1, {}, {"type": "http", "command": "a\ud800\n", "args": ["x"]}])
def test_what_is_no_entry_gives_way_to_one(cofio: Cofio, entry: Json) -> None:
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"cofio": entry}}))
    ran = cofio("mcp", "config", "claude-code", "--write")
    assert (ran.code, " is changed: " in ran.out) == (0, True)
    words, more = find_entry("claude-code")
    assert (words, more["type"]) == ([SCRIPT, "mcp"], "stdio")


# Comments, other entries and everything else in the file


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (
            "cursor",
            '// team\n{\n\t"x": [],\n\t"mcpServers": {\n\t\t"a": {"b": 1} // keep, } this\n\t\t// and\n\t}\n}\n',
        ),
        ("cursor", '{\n  "mcpServers": {\n    "a": 1, // one\n  },\n}\n'),
        ("cursor", '{"mcpServers": {"a": 1 /* x */}}'),
        ("cursor", '{\r\n    "mcpServers": {\r\n        // none yet\r\n    }\r\n}'),
        ("cursor", '\ufeff{"a": 1}'),
        ("cursor", "{}"),
        ("cursor", ""),
        ("cursor", '{"mcpServers": {"cofio": {"env": {"A": "b"}, // keep\n}, "other": {}}}'),
        ("opencode", '{\n  "theme": "dark", // mine\n}\n'),
        ("codex", ""),
        ("codex", "\ufeffmodel = 1_000 # [x]"),
        (
            "codex",
            "# mine\n[mcp_servers.a]\ncommand = '[mcp_servers.cofio]'\n[[list]]\nx = [ # [\n  [1], {a = 1},\n]\n",
        ),
        ("codex", '[a]\r\nb = """\r\n[mcp_servers.cofio]\r\ncommand = "no" \\"""\r\n"""\r\n'),
        ("codex", '[ mcp_servers . "cofio" ] # mine\nenabled = true\n# about\nenv.A = "b"\n[z]\n'),
        ("codex", "[mcp_servers.cofio.tools.'x.y']\nenabled = true\n"),
        ("codex", '[mcp_servers]\n  cofio.env.A = "b"\nother.command = "y"'),
        ("codex", "mcp_servers.cofio = { a = { b = [1, true, nan, 2026-01-01, {}] }, \"c d\" = 'e' } # mine"),
    ],
)
def test_comments_and_whatever_else_is_in_a_file_stay(cofio: Cofio, folder: Path, client: str, text: str) -> None:
    (folder / "config").write_bytes(text.encode())
    before = read(text) if text else {}
    assert cofio("mcp", "config", client, "--write", "--file", "config", "--store", "/m").code == 0
    new = (folder / "config").read_bytes().decode()
    rest = iter(new)
    assert all(each in rest for each in text.replace("'e'", '"e"')), "every character is there, in that order"
    assert ("\r\n" in text) == ("\r\n" in new) == (not re.search(r"(?<!\r)\n", new) and "\n" in new)
    servers = CLIENTS[client].servers[0]
    after = read(new)
    entry = after[servers].pop("cofio")
    old = before.get(servers, {}).pop("cofio", {})
    assert (entry.get("args") or entry["command"][1:]) == ["mcp", "--store", "/m"]
    assert repr({name: entry[name] for name in old}) == repr(old)
    assert after == {servers: {}} | before
    cofio("mcp", "config", client, "--write", "--file", "config", "--store", "/m")
    assert (folder / "config").read_bytes().decode() == new


@pytest.mark.parametrize("name", ["opencode.jsonc", ".opencode/opencode.json"])
def test_opencodes_other_files_are_used_when_they_are_there(cofio: Cofio, folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text('{"mcp": {"servers": {"other": {"type": "local", "command": ["x"]}}}}')
    cofio("mcp", "config", "opencode", "--write")
    assert read((folder / name).read_text())["mcp"] == {
        "servers": {
            "other": {"type": "local", "command": ["x"]},
            "cofio": {"type": "local", "command": [SCRIPT, "mcp"]},  # one level down, as in its second version
        }
    }
    assert not (folder / "opencode.json").exists()


@pytest.mark.parametrize(
    ("client", "broken"),
    [
        ("cursor", b'{"mcpServers": {'),
        ("cursor", b"[]"),
        ("cursor", b'{"mcpServers": []}'),
        ("cursor", b'{"a": NaN}'),
        ("cursor", b'{"a": 1,,}'),
        ("cursor", b'{"a": "\xff"}'),
        ("cursor", b"[" * 100_000),
        ("cursor", b'{"mcpServers": {"cofio": {"url": "http://127.0.0.1:8427/mcp"}}}'),
        ("cursor", b'{"mcpServers": {"cofio": {"command": "cofio", "args": ["mcp", "\\ud800"]}}}'),
        ("codex", b"[mcp_servers\n"),
        ("codex", b"mcp_servers = 3\n"),
        ("codex", b"[mcp_servers]\ncofio = 3\n"),
        ("codex", b"[[mcp_servers.cofio]]\ncommand = 'x'\n"),
        ("codex", b'mcp_servers = { cofio = { command = "x" } }\n'),
        ("codex", b'[mcp_servers.cofio]\nurl = "http://127.0.0.1:8427/mcp"\n'),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(
    cofio: Cofio, folder: Path, client: str, broken: bytes
) -> None:
    file = folder / "config"
    file.write_bytes(broken)
    ran = cofio("mcp", "config", client, "--write", "--file", "config")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(("cofio: command: ", f"cofio: {file}: "))
    assert len(ran.err.splitlines()) == 1
    assert file.read_bytes() == broken


@pytest.mark.parametrize("path", [".", "pipe", "link", "gone/sub/mcp.json"])
def test_what_is_no_file_is_refused_and_nothing_is_made(cofio: Cofio, folder: Path, path: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("nowhere/mcp.json")
    (folder / "gone").symlink_to("nowhere")
    before = sorted(folder.rglob("*"))
    ran = cofio("mcp", "config", "cursor", "--write", "--file", path)
    assert (ran.code, ran.out) == (1, "")
    assert str(folder / path.removesuffix("/sub/mcp.json")) in ran.err
    assert sorted(folder.rglob("*")) == before


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


@pytest.mark.parametrize(
    "argv", [("--write",), ("cursor", "--write", "--file", ""), ("cursor", "--name", "a\nb"), ("emacs",)]
)
def test_wrong_usage_is_told(cofio: Cofio, argv: tuple[str, ...]) -> None:
    ran = cofio("mcp", "config", *argv)
    assert (ran.code, ran.out) == (2, "")
