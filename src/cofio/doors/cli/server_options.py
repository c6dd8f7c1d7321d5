"""The options of the commands that open the memory to other programs: mcp, animus, serve, token and skill."""

from __future__ import annotations

from .argument_values import parse_origin, parse_port, parse_workers
from .parser import ALLOW_SECRETS, Commands

CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "opencode")


def add_commands(commands: Commands) -> None:
    """Add the commands that serve, and those that see to clients."""
    _add_mcp(commands)
    _add_animus(commands)
    _add_serve(commands)
    _add_token(commands)
    _add_skill(commands)


def _add_mcp(commands: Commands) -> None:
    mcp = commands.add(
        "mcp",
        "Serve the memory to an MCP client on stdin and stdout, or see to a client's configuration.",
        "cofio mcp\ncofio mcp config claude-code --write",
        run="servers:serve_mcp",
    )
    mcp.add_argument("--allow-secrets", action="store_true", help=ALLOW_SECRETS)
    mcp.add_argument(
        "--structured", action="store_true", help="give answers as data, too: for programs, not for agents"
    )
    config = commands.add_verbs(mcp, required=False).add(
        "config",
        "Print how an MCP client is told of this memory; with --write, put it into the client's own file.",
        "cofio mcp config claude-code\ncofio mcp config cursor --write",
    )
    config.add_argument("client", nargs="?", choices=CLIENTS, metavar="CLIENT", help=f"{', '.join(CLIENTS)}")
    config.add_argument("--write", action="store_true", help="merge it into the client's file and leave all else there")
    config.add_argument("--file", metavar="PATH", help="the client's file, where it is not in the usual place")
    config.add_argument("--name", default="cofio", help="what the client is to call this memory (default: cofio)")


def _add_animus(commands: Commands) -> None:
    animus = commands.add(
        "animus",
        "Be the memory_store plugin of the Animus host that starts it, on stdin and stdout.",
        "cofio animus --manifest\nln -s $(which animus-memory-cofio) ~/.animus/plugins/",
        run="servers:serve_animus",
    )
    animus.add_argument("-m", "--manifest", action="store_true", help="print the plugin's manifest and end")
    animus.add_argument(
        "--error-codes", choices=("seed", "crate"),
        help="the errors of memory are -323xx or -324xx (default: COFIO_ANIMUS_ERROR_CODES, else seed)",
    )  # fmt: skip


def _add_serve(commands: Commands) -> None:
    serve = commands.add(
        "serve",
        "Serve the memory over HTTP: a page for people at /, MCP at /mcp, REST under /api/v2/memory, checkpoints at "
        "/threads/, Claude's memory tool at /api/v1/memory-tool.",
        "cofio serve\ncofio serve --port 9000\ncofio token add laptop && cofio serve --host 0.0.0.0",
        run="servers:serve_http",
    )
    serve.add_argument(
        "--host", help="the address to listen on (default: 127.0.0.1); one that others can reach needs a token"
    )
    serve.add_argument("--port", type=parse_port, help="the port to listen on; 0 takes a free one (default: 8427)")
    serve.add_argument(
        "--workers", type=parse_workers, metavar="N",
        help="how many processes take requests, up to 8 (default: one for each core); 1: a single one does everything",
    )  # fmt: skip
    serve.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name by which clients may address the server, as behind a proxy; may be given several times",
    )  # fmt: skip
    serve.add_argument(
        "--allow-origin", action="append", default=[], type=parse_origin, metavar="URL",
        help="a site whose pages may use the server, as http://localhost:3000; may be given several times",
    )  # fmt: skip
    serve.add_argument("--allow-secrets", action="store_true", help=ALLOW_SECRETS)


def _add_token(commands: Commands) -> None:
    token = commands.add(
        "token",
        "See to the tokens that clients of `cofio serve` show.",
        "cofio token add laptop\ncofio token list",
        run="tokens:manage_tokens",
    )
    verbs = commands.add_verbs(token)
    add = verbs.add(
        "add",
        "Make a token and print it, this once.",
        "cofio token add laptop\ncofio token add dashboard --app shop --read-only",
    )
    add.add_argument("name", metavar="NAME", help="whose it is, to know it by later")
    add.add_argument("--app", help="good for this app alone, at the REST API and on the page")
    add.add_argument("--project", help="good for this project of the app alone")
    add.add_argument("--read-only", action="store_true", help="good for reading alone, at the REST API and on the page")
    verbs.add("list", "Show the tokens' names, when they were made and what they are good for.", "cofio token list")
    remove = verbs.add("rm", "End a token: whoever shows it is turned away from now on.", "cofio token rm laptop")
    remove.add_argument("name", metavar="NAME", help="the token's name")


def _add_skill(commands: Commands) -> None:
    skill = commands.add(
        "skill",
        "See or install the skill that tells an agent when to read and write memory.",
        "cofio skill install",
        run="agent_skill:manage_skill",
    )
    verbs = commands.add_verbs(skill)
    verbs.add("show", "Print the skill, to paste into a system prompt or AGENTS.md.", "cofio skill show")
    install = verbs.add(
        "install",
        "Put the skill where an agent looks for it.",
        "cofio skill install\ncofio skill install --global\ncofio skill install --path docs/memory.md",
    )
    where = install.add_mutually_exclusive_group()
    where.add_argument("--project", action="store_true", help="in this project: ./.claude/skills (the default)")
    where.add_argument("--global", action="store_true", dest="everywhere", help="for all projects: ~/.claude/skills")
    where.add_argument("--path", metavar="PATH", help="in this file, or as SKILL.md in this folder")
    install.add_argument("--force", action="store_true", help="in place of another file that is there")
