"""The options of the commands about files: those of the vault, and those of Claude's memory tool."""

from __future__ import annotations

from .parser import ALLOW_SECRETS, Commands, Parser


def add_vault(commands: Commands) -> None:
    """Add the command about the vault."""
    vault = commands.add(
        "vault",
        "See to the vault: what is remembered of conversations, as Markdown files that people may edit.",
        "cofio vault status\ncofio vault sync",
        run="vault_commands:manage_vault",
    )
    verbs = commands.add_verbs(vault)
    verbs.add(
        "status", "Show how many entries and files there are, and what people should look at.", "cofio vault status"
    )
    sync = verbs.add(
        "sync", "Take in what people changed and removed, and write what is not written.", "cofio vault sync"
    )
    sync.add_argument("--force", action="store_true", help="forget what was removed, however much it is")
    verbs.add("rebuild", "Write every file anew; what they say otherwise is kept beside.", "cofio vault rebuild")
    verbs.add(
        "adopt", "Make the files this memory's, whoever's they were; what it has no record of is kept beside.",
        "cofio vault adopt",
    )  # fmt: skip


def add_files(commands: Commands) -> None:
    """Add the command about the memory tool's files."""
    files = commands.add(
        "files",
        "See to the files of Claude's memory tool: read, write, copy them in and out, and go back.",
        "cofio files ls\ncofio files push notes/ --owner pm",
        run="memory_files:manage_files",
    )
    verbs = commands.add_verbs(files)

    def add_verb(name: str, help: str, example: str, **arguments: str) -> Parser:
        verb = verbs.add(name, help, f"cofio files {example}")
        for each, means in arguments.items():
            verb.add_argument(each, metavar=each.upper(), help=means)
        verb.add_argument("--owner", default="default", metavar="NAME", help="whose files (default: default)")
        return verb

    path = "the file, as /memories/notes/a.md or notes/a.md"
    list_ = add_verb("ls", "List the files of a directory and all under it.", "ls notes")
    list_.add_argument("path", nargs="?", default="/memories", metavar="PATH", help="the directory (default: all)")
    add_verb("cat", "Print what a file holds.", "cat notes/a.md", path=path)
    write = add_verb("write", "Make a file, or replace what it holds.", "write notes/a.md < a.md", path=path)
    write.add_argument(
        "text", nargs="?", metavar="TEXT", help="what it is to hold; left out or -, it is read from stdin"
    )
    edit = add_verb(
        "edit", "Replace a text that stands in one place of a file.", "edit notes/a.md Friday Monday",
        path=path, old="the text to replace", new="what to put there",
    )  # fmt: skip
    add_verb(
        "mv", "Move a file or a directory to where there is nothing.", "mv notes/a.md notes/b.md",
        old="the file or directory", new="its new path",
    )  # fmt: skip
    add_verb("rm", "Remove a file, or a directory with all under it.", "rm notes", path="the file or directory")
    add_verb("log", "Show what a file held before, the latest first.", "log notes/a.md", path=path)
    restore = add_verb("restore", "Give a file a text that it held before.", "restore notes/a.md", path=path)
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
        copying = add_verb(way, does, f"{way} backup/ --path notes", folder="a folder on this machine")
        copying.add_argument("--path", default="/memories", metavar="PATH", help="which directory (default: all)")
    for each in (write, edit, copying):
        each.add_argument("--allow-secrets", action="store_true", help=ALLOW_SECRETS)
