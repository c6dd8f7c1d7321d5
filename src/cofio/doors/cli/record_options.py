"""The options of the commands about records: add, search, list, show, edit, rm, scopes and stats."""

from __future__ import annotations

from .argument_values import (
    TESTS,
    parse_data,
    parse_importance,
    parse_integer,
    parse_kind,
    parse_scope,
    parse_share,
    parse_tags,
    parse_ttl,
    parse_where,
)
from .parser import ALLOW_SECRETS, Commands, Parser

KINDS = (
    "note, state, item, file, memory, turn, episode, fact, profile, case, skill, revision, ledger, document or topic"
)
IMPORTANCES = "low, medium, high or critical"
_ALL = "also what cofio keeps for its own use: earlier states, ledgers, marks of imports"


def add_commands(commands: Commands) -> None:
    """Add the commands about records."""
    add = commands.add(
        "add",
        "Remember a text, and print the id of its record.",
        'cofio add "Refresh tokens live 30 days." --title "Token lifetime" --tag auth --author pm\n'
        "git log -1 | cofio add --kind fact --ttl 30d",
        run="commands:add",
    )
    add.add_argument("text", nargs="*", metavar="TEXT", help="what to remember; left out or -, it is read from stdin")
    add.add_argument("--title", default="", help="a short name for it")
    add.add_argument(
        "--tag", type=parse_tags, action="extend", default=[], metavar="TAG[,TAG]",
        help="a tag, or several with commas; may be given several times",
    )  # fmt: skip
    add.add_argument("--author", default="", help="who says so")
    add.add_argument(
        "--scope",
        type=parse_scope,
        default="mcp",
        help="where it belongs (default: mcp, which MCP clients read and write)",
    )
    add.add_argument("--kind", type=parse_kind, help=f"{KINDS} (default: note, or item with --key)")
    add.add_argument("--importance", type=parse_importance, default="medium", help=f"{IMPORTANCES} (default: medium)")
    add.add_argument("--ttl", type=parse_ttl, metavar="TIME", help="how long it lasts: 90s, 15m, 12h, 30d, 2w")
    add.add_argument("--data", type=parse_data, metavar="JSON", help="JSON to keep with it")
    add.add_argument("--key", help="keep it under this key, in place of what the key held")
    add.add_argument("--dedupe", action="store_true", help="add nothing if the scope has this very text")
    add.add_argument("--similar", action="store_true", help="name the records that say nearly the same")
    add.add_argument("--allow-secrets", action="store_true", help=ALLOW_SECRETS)
    search = commands.add(
        "search",
        "Find records by their words and their meaning, best first.",
        "cofio search how long do tokens live\n"
        "cofio search deploy --scope mcp --tag ops --where 'created_at>=2026-01-01' --why",
        run="commands:search",
    )
    search.add_argument("query", nargs="+", metavar="QUERY", help="what to look for; any text will do")
    _add_bounds(search)
    search.add_argument(
        "--mode", choices=("hybrid", "keyword", "semantic"), default="hybrid", help="by what to search (default: both)"
    )
    search.add_argument("--limit", type=parse_integer, default=10, help="the most hits to show (default: 10)")
    search.add_argument("--floor", type=parse_share, help="the least score of a hit, 0 to 1 (default: the store's)")
    search.add_argument("--why", action="store_true", help="say why each hit was found")
    search.add_argument("-v", "--verbose", action="store_true", help="say it with the numbers of the ranking, too")
    list_ = commands.add(
        "list",
        "List records, the last changed first.",
        "cofio list --scope mcp --kind note --where author=pm",
        run="commands:list_records",
    )
    _add_bounds(list_)
    list_.add_argument("--limit", type=parse_integer, default=50, help="the most records to list (default: 50)")
    list_.add_argument("--offset", type=parse_integer, default=0, help="how many to pass over first")
    list_.add_argument("--oldest", action="store_true", help="the longest unchanged first")
    list_.add_argument("--all", action="store_true", help=_ALL)
    show = commands.add(
        "show",
        "Show one record whole, by its id or its key.",
        "cofio show 01m7f8rj57d8bt1c1rzcvb6js0\ncofio show --key branch --scope mcp",
        run="commands:show",
    )
    show.add_argument("id", nargs="?", metavar="ID", help="the record's id, or how it begins")
    show.add_argument("--key", help="the record's key, instead of its id")
    show.add_argument("--scope", type=parse_scope, default="mcp", help="the scope that the key is in (default: mcp)")
    show.add_argument("--kind", type=parse_kind, default="item", help="the kind that the key is of (default: item)")
    edit = commands.add(
        "edit",
        "Change the title, the text or the tags of a record: in your editor, or by the options.",
        'cofio edit 01m7f8rj\ncofio edit 01m7f8rj --title "Going live" --tag ops,release\n'
        "cofio edit --key branch --text main",
        run="editor:edit",
    )
    edit.add_argument("id", nargs="?", metavar="ID", help="the record's id, or how it begins")
    edit.add_argument("--key", help="the record's key, instead of its id")
    edit.add_argument("--scope", type=parse_scope, default="mcp", help="the scope that the key is in (default: mcp)")
    edit.add_argument("--kind", type=parse_kind, default="item", help="the kind that the key is of (default: item)")
    edit.add_argument("--title", help="its new title")
    edit.add_argument("--text", help="what it is to say")
    edit.add_argument("--stdin", action="store_true", help="read from stdin what it is to say")
    edit.add_argument(
        "--tag", type=parse_tags, action="extend", default=[], metavar="TAG[,TAG]",
        help="its tags, in place of those that it has; may be given several times",
    )  # fmt: skip
    edit.add_argument("--no-tags", action="store_true", help="take all tags away")
    edit.add_argument("--allow-secrets", action="store_true", help=ALLOW_SECRETS)
    remove = commands.add(
        "rm",
        "Forget records, by id or a whole scope.",
        "cofio rm 01m7f8rj57d8bt1c1rzcvb6js0\ncofio rm --scope mcp/old --yes",
        run="commands:remove",
    )
    remove.add_argument("ids", nargs="*", metavar="ID", help="the records to forget, by id or how it begins")
    remove.add_argument("--scope", type=parse_scope, help="forget this scope and all under it; / is everything")
    remove.add_argument("--yes", action="store_true", help="do not ask before a scope is forgotten")
    scopes = commands.add(
        "scopes",
        "Show each scope that holds records, with their number.",
        "cofio scopes --scope rest",
        run="commands:show_scopes",
    )
    scopes.add_argument("--scope", type=parse_scope, default="", help="only this scope and what is under it")
    scopes.add_argument("--all", action="store_true", help=_ALL)
    commands.add(
        "stats",
        "Show numbers about the memory: records, sizes, what waits to be embedded.",
        "cofio stats --json",
        run="doctor:show_stats",
    )


def _add_bounds(command: Parser) -> None:
    """Add the options that say which records a search or a list may see."""
    command.add_argument("--scope", type=parse_scope, default="", help="only this scope and what is under it")
    command.add_argument("--exact", action="store_true", help="only the scope itself")
    command.add_argument(
        "--kind", type=parse_kind, action="append", default=[], help=f"{KINDS}; may be given several times"
    )
    command.add_argument(
        "--where", type=parse_where, action="append", default=[], metavar="TEST",
        help=f"{TESTS}; may be given several times, and all must hold",
    )  # fmt: skip
    command.add_argument(
        "--tag", type=parse_tags, action="extend", default=[], metavar="TAG[,TAG]",
        help="only what has this tag, as --where tags=TAG; of several, what has them all",
    )  # fmt: skip
    command.add_argument("--any", action="store_true", help="one --where or --tag that holds is enough")
