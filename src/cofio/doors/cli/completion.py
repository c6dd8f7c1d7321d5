"""How a shell completes the command line: argcomplete asks the parser, and the memory for scopes, ids and names.

The shell runs cofio for that, with a variable set that says so; whatever goes wrong then leaves nothing to choose from.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import argcomplete
from argcomplete.shell_integration import shellcode

from ...text.display import neutralise_line
from ...values.errors import CofioError
from ...values.records import Importance, Kind
from ...values.scopes import MCP

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .parser import Parser

SETUP = {
    "bash": 'put `eval "$(cofio completion bash)"` into ~/.bashrc',
    "zsh": 'put `eval "$(cofio completion zsh)"` into ~/.zshrc, after compinit',
    "fish": "run `cofio completion fish > ~/.config/fish/completions/cofio.fish`",
}
MOST = 50  # of each sort that are offered

Candidates = Mapping[str, str]
Completer = Callable[..., Candidates]


def render_shell_code(shell: str) -> str:
    """What the shell is to run, once for each session."""
    return shellcode(["cofio"], shell=shell).strip()


def complete(top: Parser) -> None:
    """Answer the shell that asked, and end the process."""
    for action in _list_actions(top):
        completer = _choose_completer(action)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]  # where argcomplete looks for it
    argcomplete.autocomplete(top, always_complete_options=False)


def _list_actions(reader: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in reader._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _list_actions(below)


def _choose_completer(action: argparse.Action) -> Completer | None:
    """What completes the values of an option or an argument; None where the choices or files do."""
    if isinstance(action, argparse._SubParsersAction):
        return None
    name = action.option_strings[-1] if action.option_strings else str(action.metavar)
    return _COMPLETERS.get(name)


def _complete_from_memory(find: Callable[[Engine, str, argparse.Namespace], Candidates]) -> Completer:
    """A completer that looks into the memory, if there is one that can be opened."""

    def list_candidates(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Candidates:
        from ...engine.engine import Engine
        from ...engine.opening import exists
        from .context import load_settings

        try:
            address, settings = load_settings(parsed_args)
            if not exists(address):
                return {}
            with Engine.open(address, settings=replace(settings, background=False, embedder="none")) as engine:
                return find(engine, prefix, parsed_args)
        except (CofioError, OSError):
            return {}

    return list_candidates


def _list_ids(engine: Engine, prefix: str, args: argparse.Namespace) -> Candidates:
    """Ids that begin so with what their records are called; without a beginning, those that changed last."""
    from .terminal import render_headline
    from .visibility import VISIBLE

    kinds = (Kind.DOCUMENT,) if args.command == "documents" else VISIBLE
    if prefix:
        records_found = [engine.read(each) for each in engine.ids(prefix, limit=MOST)]
        records = [record for record in records_found if record.kind in kinds]
    else:
        records = engine.list(kinds=kinds, limit=MOST)
    short = engine.abbreviate([record.id for record in records], least=max(8, len(prefix)))
    return {short[record.id]: neutralise_line(render_headline(record)) for record in records}


def _list_scopes(engine: Engine, prefix: str, args: argparse.Namespace) -> Candidates:
    """Every scope that holds records, and those above them."""
    from ...values.records import Scope
    from .visibility import VISIBLE

    counts = engine.scopes(kinds=VISIBLE)
    above = {Scope(*scope.names[:depth]) for scope in counts for depth in range(1, len(scope.names) + 1)}
    return {str(scope): _render_count(counts.get(scope, 0)) for scope in sorted(above) if str(scope).startswith(prefix)}


def _render_count(count: int) -> str:
    from .terminal import render_record_count

    return render_record_count(count) if count else "scopes under it"


def _list_keys(engine: Engine, prefix: str, args: argparse.Namespace) -> Candidates:
    """The keys of the scope and kind that the command is about."""
    from ...values.query import AllOf, Where
    from ...values.records import Scope

    scope = args.scope if isinstance(args.scope, Scope) else Scope.parse(args.scope or str(MCP))
    kind = Kind(args.kind or "item") if not isinstance(args.kind, list) else Kind.ITEM
    begins = AllOf(Where("key", ">=", prefix), Where("key", "<", prefix + chr(sys.maxunicode)))
    headings = engine.headings(scope, exact=True, kinds=(kind,), filter=begins, limit=MOST)
    return {each.key: neutralise_line(each.title) for each in headings if each.key is not None}


def _offer(values: Iterable[str]) -> Completer:
    def list_candidates(**_: object) -> Candidates:
        return dict.fromkeys(values, "")

    return list_candidates


def _list_tokens(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Candidates:
    from ...engine.opening import resolve_store
    from ...http.tokens import open_tokens

    if parsed_args.verb != "rm":
        return {}
    try:
        with open_tokens(resolve_store(parsed_args.store), make=False) as tokens:
            return {each.name: each.made for each in tokens.all()}
    except CofioError:
        return {}


def _list_commands(parsed_args: argparse.Namespace, **_: object) -> Candidates:
    """The commands, or the verbs of the one that was typed before, that there is help for."""
    from .command_line import build_parser

    reader = build_parser()
    for word in parsed_args.topic or ():
        below = {name: its for action in reader.commands() for name, its in action.choices.items()}
        reader = below.get(word, reader)
    return {name: "" for action in reader.commands() for name in action.choices}


_COMPLETERS: dict[str, Completer] = {
    "--kind": _offer(Kind),
    "--importance": _offer(Importance),
    "--scope": _complete_from_memory(_list_scopes),
    "--key": _complete_from_memory(_list_keys),
    "ID": _complete_from_memory(_list_ids),
    "NAME": _list_tokens,
    "COMMAND": _list_commands,
    "QUERY": _offer(()),
    "TEXT": _offer(()),
}
