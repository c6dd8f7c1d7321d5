"""The options of the commands that take in conversations and documents: chat, transcripts and documents."""

from __future__ import annotations

from .argument_values import parse_date, parse_name, parse_session
from .parser import ALLOW_SECRETS, ALLOW_UNMASKED, Commands, Parser

CLIENTS = ("claude-code", "codex", "cursor", "gemini", "copilot", "opencode")
"""The clients whose transcripts can be read; a test compares them with those that are."""


def add_commands(commands: Commands) -> None:
    """Add the commands that take in what is not a record yet."""
    _add_chat(commands)
    _add_transcripts(commands)
    _add_documents(commands)


def _add_chat(commands: Commands) -> None:
    chat = commands.add(
        "chat",
        "Take in conversations that other programs have kept.",
        "cofio chat import conversations.json\ncofio chat import whatsapp.txt --session family",
        run="chat_import:import_chats",
    )
    verbs = commands.add_verbs(chat)
    import_ = verbs.add(
        "import",
        "Remember the conversations of a file: each message once, and what they say as episodes, facts and profiles.",
        "cofio chat import chatgpt-export.zip --user anna\n"
        "cofio chat import messages.jsonl --session support-17 --app shop\npbpaste | cofio chat import -",
    )
    import_.add_argument(
        "file", metavar="FILE",
        help='OpenAI messages (JSON, JSONL), a ChatGPT export (JSON, zip) or lines of "Name: text"; - is stdin',
    )  # fmt: skip
    import_.add_argument("--app", type=parse_name, default="default", help="whose memory (default: default)")
    import_.add_argument("--project", type=parse_name, default="default", help="of which project (default: default)")
    import_.add_argument(
        "--user", type=parse_name, default="user", metavar="ID", help="the id of a user without a name (default: user)"
    )
    import_.add_argument(
        "--agent", type=parse_name, default="assistant", metavar="ID",
        help="the id of an assistant without a name (default: assistant)",
    )  # fmt: skip
    import_.add_argument(
        "--session", type=parse_session, metavar="NAME",
        help="what to call the conversation; more of them get -2, -3 (default: its id, its title or the file's name)",
    )  # fmt: skip
    import_.add_argument(
        "--format",
        choices=("openai", "jsonl", "chatgpt", "text"),
        help="what the file is (default: what it looks like)",
    )
    import_.add_argument(
        "--date",
        type=parse_date,
        help="when it began, where the file has no times (default: when the file was changed)",
    )
    import_.add_argument(
        "--no-flush", action="store_true", help="keep the last messages waiting for more, as a chat that goes on"
    )
    import_.add_argument("--allow-secrets", action="store_true", help=ALLOW_UNMASKED)


def _add_transcripts(commands: Commands) -> None:
    transcripts = commands.add(
        "transcripts",
        "Take in what coding agents on this machine have written, by repository.",
        "cofio transcripts list\ncofio transcripts import --dry-run",
        run="transcript_commands:manage_transcripts",
    )
    verbs = commands.add_verbs(transcripts)

    def add_verb(name_: str, help: str, example: str) -> Parser:
        verb = verbs.add(name_, help, example)
        verb.add_argument(
            "clients", metavar="CLIENT", nargs="*", choices=CLIENTS, default=[],
            help=f"whose transcripts: {', '.join(CLIENTS)} (default: all of them)",
        )  # fmt: skip
        return verb

    import_ = add_verb(
        "import",
        "Remember what is new in the transcripts: each message once, and the decisions, corrections and fixes in them.",
        "cofio transcripts import --dry-run\ncofio transcripts import claude-code codex --since 2026-01-31",
    )
    import_.add_argument("--dry-run", action="store_true", help="show what would be taken in, and store nothing")
    import_.add_argument(
        "--since", type=parse_date, metavar="DATE", help="only transcripts that have changed since then"
    )
    import_.add_argument("--allow-secrets", action="store_true", help=ALLOW_UNMASKED)
    add_verb("list", "Show the transcripts by client and repository, and how much is new.", "cofio transcripts list")


def _add_documents(commands: Commands) -> None:
    documents = commands.add(
        "documents",
        "See to the documents of the knowledge base, which are found topic by topic.",
        "cofio documents add handbook.docx\ncofio documents list",
        run="documents:manage_documents",
    )
    verbs = commands.add_verbs(documents)

    def add_verb(name_: str, help: str, example: str) -> Parser:
        verb = verbs.add(name_, help, example)
        verb.add_argument("--app", type=parse_name, default="default", help="whose documents (default: default)")
        verb.add_argument("--project", type=parse_name, default="default", help="of which project (default: default)")
        return verb

    add = add_verb(
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
    add.add_argument("--allow-secrets", action="store_true", help=ALLOW_SECRETS)
    list_ = add_verb("list", "Show the documents by their titles.", "cofio documents list --category Meetings")
    list_.add_argument("--category", help="only those that are filed under this")
    show = add_verb("show", "Show a document's summary and topics, or its text.", "cofio documents show d_3f9c --text")
    show.add_argument("id", metavar="ID", help="the document's id, or the beginning of it")
    show.add_argument("--text", action="store_true", help="print all of its text, as Markdown")
    remove = add_verb("rm", "Forget documents, with their topics and their files.", "cofio documents rm d_3f9c")
    remove.add_argument("ids", metavar="ID", nargs="+", help="the documents' ids, or the beginnings of them")
