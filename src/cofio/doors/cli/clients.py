"""How MCP clients are told of this memory: what each wants to read, and in which file it looks.

Formats and places as the clients' own pages gave them in November 2026.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...config.installation import find_installation, join_words, start_command
from ...engine.opening import resolve_store
from ...values.errors import Invalid
from ...values.records import Json, check_text
from .atomic import put, read
from .client_config import (
    MergeResult,
    dump,
    find_member,
    merge_json,
    merge_toml,
    read_json,
    read_toml,
    render_toml_table,
)
from .context import MAX_PATH
from .parser import report_misuse
from .terminal import choose_output, make_printable, make_printable_json, note

_OWN_MEMBERS = ("type", "command", "args")
"""What is set in an entry that is there already; all else in it is its user's."""
URL_REFUSAL = "its password would stand in the client's settings for others to see: put it into ~/.pgpass"
_STORES = ("COFIO_STORE", "AGENT_STORE_PATH")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_DONE = {
    "added": "{name} is now in {file}",
    "changed": "{name} in {file} is changed: {what}",
    "unchanged": "{name} is in {file} already; nothing was changed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An MCP client: its file, where in it servers stand, and how it writes one."""

    name: str
    file: Callable[[], Path]
    servers: tuple[str, ...] = ("mcpServers",)
    entry: Callable[[list[str]], dict[str, Json]]
    document: dict[str, Json] = field(default_factory=dict)
    """What a file holds that is made for it, beside the servers."""
    follows: bool
    """Whether it starts servers in the project's folder, where they find the memory by themselves."""
    plain_names: bool = False
    """Whether it refuses names of servers with anything but letters, digits, - and _."""
    then: str = ""
    """What is left for its user to do."""


def _build_typed_entry(words: list[str]) -> dict[str, Json]:
    return {"type": "stdio", "command": words[0], "args": list(words[1:])}


def _build_entry(words: list[str]) -> dict[str, Json]:
    return {"command": words[0], "args": list(words[1:])}


def _find_claude_desktop_file() -> Path:
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "Claude" / "claude_desktop_config.json"


def _find_codex_file() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


def _find_opencode_file() -> Path:
    here = Path.cwd()
    names = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
    return next((here / name for name in names if (here / name).exists()), here / names[0])


CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="claude-code", file=lambda: Path.cwd() / ".mcp.json", follows=True, plain_names=True,
            # As `claude mcp add` writes it, so that neither finds fault with the other.
            entry=lambda words: {**_build_typed_entry(words), "env": {}},
            then="Claude Code asks whether to use it when it starts here next",
        ),
        Client(
            name="claude-desktop", file=_find_claude_desktop_file, follows=False, entry=_build_entry,
            then="quit Claude Desktop and open it again",
        ),
        # Where Cursor starts servers is not documented.
        Client(
            name="cursor", file=lambda: Path.cwd() / ".cursor" / "mcp.json", follows=False,
            entry=_build_entry,
        ),
        Client(
            name="vscode", file=lambda: Path.cwd() / ".vscode" / "mcp.json", follows=True, entry=_build_typed_entry,
            servers=("servers",),
        ),
        Client(
            name="codex", file=_find_codex_file, follows=False, entry=_build_entry, servers=("mcp_servers",),
            plain_names=True,
        ),
        Client(
            name="opencode", file=_find_opencode_file, follows=True, servers=("mcp",),
            document={"$schema": "https://opencode.ai/config.json"},
            entry=lambda words: {"type": "local", "command": list(words), "enabled": True},
        ),
    )
}  # fmt: skip


def configure_client(args: Namespace) -> int:
    """Print how a client, or each of them, is told of this memory; or put it into the client's file."""
    if not args.name or not args.name.isprintable():
        return report_misuse(args, "--name is to be a name of visible characters")
    if args.client is None:
        if args.write or args.file is not None:
            return report_misuse(args, f"--write and --file need a client: {', '.join(CLIENTS)}")
        return _print_all(args)
    if args.file == "":
        return report_misuse(args, "--file is empty; name the client's file")
    client = CLIENTS[args.client]
    file = client.file() if args.file is None else Path(os.path.expanduser(args.file)).absolute()
    if client.plain_names and not _PLAIN_NAME.fullmatch(args.name):
        note(f"{client.name} takes only letters, digits, - and _ in a server's name, and may refuse {args.name!r}")
    return _write(args, client, file) if args.write else _print(args, client, file)


def _print(args: Namespace, client: Client, file: Path) -> int:
    words, snippet = _build_command(args, client), _render_snippet(args, client)
    if args.json:
        choose_output(as_json=True).print_done(
            "", client=client.name, file=str(file), command=list(words), config=snippet
        )
        return 0
    print(_make_printable(client, snippet))
    sys.stdout.flush()
    note(f"this belongs in {file}; `{_repeat_command(args)} --write` puts it there")
    if client.name == "claude-code":
        note(f"or run `{join_words(['claude', 'mcp', 'add', '--scope', 'project', args.name, '--', *words])}`")
    return 0


def _repeat_command(args: Namespace) -> str:
    """The command as it was given."""
    options = {"--file": args.file, "--store": args.store, "--name": args.name if args.name != "cofio" else None}
    arguments = [word for option, value in options.items() if value is not None for word in (option, value)]
    return join_words([*find_installation().shell_command(), "mcp", "config", args.client, *arguments])


def _print_all(args: Namespace) -> int:
    for number, client in enumerate(CLIENTS.values()):
        if args.json:
            _print(args, client, client.file())
        else:
            snippet = _make_printable(client, _render_snippet(args, client))
            print(f"{'' if number == 0 else chr(10)}# {client.name}: {make_printable(str(client.file()))}\n\n{snippet}")
    sys.stdout.flush()
    if not args.json:
        again = join_words([*find_installation().shell_command(), "mcp", "config", "CLIENT", "--write"])
        note(f"`{again}` puts one of them into its file")
    return 0


def _write(args: Namespace, client: Client, file: Path) -> int:
    content = read(file)
    try:
        text = "" if content is None else content.decode()
    except UnicodeDecodeError:
        raise Invalid(str(file), "is not UTF-8 text; nothing was changed") from None
    document = read_toml(text, str(file)) if client.name == "codex" else read_json(text, str(file))
    second = client.name == "opencode" and _has_second_shape(document)
    names = (*client.servers, *(["servers"] if second else []), args.name)
    current = _find_entry(document, names, str(file))
    words = _build_command(args, client, current)
    entry = client.entry(words)
    if current or second:
        entry = {name: entry[name] for name in _OWN_MEMBERS if name in entry}
    merged = _merge(args, client, text, names, entry, str(file))
    if merged.change != "unchanged":
        put(file, merged.text)
    choose_output(as_json=args.json).print_done(
        _DONE[merged.change].format(name=args.name, file=file, what=_describe_difference(current, entry, words)),
        client=client.name, file=str(file), name=args.name, change=merged.change, command=list(words),
    )  # fmt: skip
    if client.then and merged.change != "unchanged" and not args.json:
        sys.stdout.flush()
        note(client.then)
    return 0


def _merge(
    args: Namespace, client: Client, text: str, names: tuple[str, ...], entry: dict[str, Json], where: str
) -> MergeResult:
    if client.name == "codex":
        return merge_toml(text, (client.servers[0], args.name), entry, where=where)
    return merge_json(text, names, entry, new=_build_document(args, client), where=where)


def _find_entry(document: object, names: tuple[str, ...], where: str) -> dict[str, object]:
    """The members of the entry that is there; none if there is no such entry.

    Raises:
        Invalid: It is of a server that the client reaches at an address: nothing of that goes with a command.
    """
    current = find_member(document, names)
    if not isinstance(current, dict):
        return {}
    if "url" in current and "command" not in current:
        url = _render_words([str(current["url"])])
        raise Invalid(where, f"its {names[-1]} is at {url}, not a command; take it out, or give another --name")
    return current


def _describe_difference(current: dict[str, object], entry: dict[str, Json], words: list[str]) -> str:
    """What an entry that was there has now instead of what it had."""
    before = _read_words(current)
    if before != words:
        return f"{_render_words(before) if before else 'no command'} → {_render_words(words)}"
    return ", ".join(f"{name} → {value}" for name, value in entry.items() if current.get(name) != value)


def _render_words(words: list[str]) -> str:
    """Words as they are typed, on one line that can be printed anywhere."""
    line = shlex.join(words)
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


def _has_second_shape(document: object) -> bool:
    """Whether opencode's file is in the shape of its version 2, which has its servers one level down.

    Version 2 reads the shape of version 1, too, but nothing says that it reads a mixture.
    """
    servers = find_member(document, ("mcp", "servers"))
    return isinstance(servers, dict) and "type" not in servers


def _render_snippet(args: Namespace, client: Client) -> str:
    """What a file would hold that is made for this client."""
    if client.name == "codex":
        entry = client.entry(_build_command(args, client))
        return render_toml_table((client.servers[0], args.name), entry).rstrip("\n")
    return dump(_build_document(args, client))


def _make_printable(client: Client, snippet: str) -> str:
    return make_printable(snippet) if client.name == "codex" else make_printable_json(snippet)


def _build_document(args: Namespace, client: Client) -> Json:
    return {**client.document, client.servers[0]: {args.name: client.entry(_build_command(args, client))}}


def _build_command(args: Namespace, client: Client, current: Mapping[str, object] | None = None) -> list[str]:
    """The command that a client is to start, which shares neither our PATH nor our environment.

    What its user has added to the command of the entry that the client holds already goes on being there.
    """
    words = [*start_command(), "mcp"]
    current = current or {}
    arguments = _read_arguments(_read_words(current))
    needs_store = any(map(os.environ.get, _STORES)) or not client.follows
    if args.store is not None or (needs_store and not _names_store(current, arguments)):
        address = resolve_store(args.store)
        if address.has_password:
            raise Invalid("store", URL_REFUSAL)
        arguments = _set_store(arguments, address.spell())
    words += arguments
    for word in words:
        check_text("command", word, MAX_PATH)
    return words


def _read_words(current: Mapping[str, object]) -> list[str]:
    """The command line of an entry."""
    command, rest = current.get("command"), current.get("args")
    words = [*(command if isinstance(command, list) else [command]), *(rest if isinstance(rest, list) else [])]
    return [word for word in words if isinstance(word, str)]


def _read_arguments(words: list[str]) -> list[str]:
    """What is given to `cofio mcp` on a command line: all behind it, and a store that is named before."""
    store: list[str] = []
    at = 1
    while at < len(words) and words[at] != "mcp":
        size = 2 if words[at] == "--store" else 1
        if words[at].partition("=")[0] == "--store":
            store = words[at : at + size]
        at += size
    return [*store, *words[at + 1 :]] if at < len(words) else []


def _names_store(current: Mapping[str, object], arguments: list[str]) -> bool:
    """Whether the entry itself says where the memory is: by option, by variable, or by the folder to start in."""
    variables = [find_member(current, (member, name)) for member in ("env", "environment") for name in _STORES]
    return any((*variables, current.get("cwd"), *(word.partition("=")[0] == "--store" for word in arguments)))


def _set_store(arguments: list[str], store: str) -> list[str]:
    """The arguments with this store: in place of another, if they name one."""
    words: list[str] = []
    is_set = False
    rest = iter(arguments)
    for word in rest:
        option, equals, _ = word.partition("=")
        if option != "--store":
            words.append(word)
            continue
        is_set = True
        words += [f"--store={store}"] if equals else ["--store", store]
        if not equals:
            next(rest, None)
    return words if is_set else ["--store", store, *words]
