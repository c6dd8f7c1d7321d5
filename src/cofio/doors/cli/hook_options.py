"""The options of the commands about hooks: hooks and hook."""

from __future__ import annotations

from argparse import BooleanOptionalAction

from .parser import Commands, Parser

CLIENTS = ("claude-code", "codex", "cursor", "gemini", "copilot", "opencode")
"""The coding agents that have hooks, as in `hooks/client_protocols.py`, which is not loaded for a help text."""


def add_commands(commands: Commands) -> None:
    """Add the commands that let agents remember without being asked."""
    hooks = commands.add(
        "hooks",
        "Let coding agents remember without being asked: by hooks in their own settings.",
        "cofio hooks install claude-code\ncofio hooks status",
        run="hook_commands:manage_hooks",
    )
    verbs = commands.add_verbs(hooks)

    def add_verb(name: str, help: str, example: str) -> Parser:
        verb = verbs.add(name, help, example)
        verb.add_argument(
            "clients", metavar="CLIENT", nargs="+", choices=(*CLIENTS, "all"),
            help=f"{', '.join(CLIENTS)}; or all that are on this machine",
        )  # fmt: skip
        verb.add_argument("--file", metavar="PATH", help="the client's file, if it is not where it usually is")
        return verb

    install = add_verb(
        "install",
        "Put the hooks into the agents' files, of which copies are kept, and make a memory if there is none.",
        "cofio hooks install claude-code codex\ncofio hooks install all --import",
    )
    install.add_argument(
        "--import", dest="wants_import", action=BooleanOptionalAction,
        help="take in what agents have written on this machine so far, or do not ask (default: ask at a terminal)",
    )  # fmt: skip
    add_verb("uninstall", "Take the hooks out of the agents' files, and nothing else.", "cofio hooks uninstall all")
    verbs.add("status", "Show which hooks are installed, when they ran and what they added.", "cofio hooks status")
    hook = commands.add(
        "hook",
        "Answer one event of a coding agent, which writes it to stdin; agents run this, people need not.",
        "cofio hook claude-code < event.json",
        run="hook_event:answer_event",
    )
    hook.add_argument("client", metavar="CLIENT", help=", ".join(CLIENTS))
    hook.add_argument("--event", metavar="NAME", help="the event, for an agent whose JSON does not name it")
