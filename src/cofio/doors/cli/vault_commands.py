"""The commands about the vault, and the one that takes over the memory of EverOS."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.opening import resolve_store, settle_loss
from ...values.errors import Unavailable
from ...values.records import Json
from .context import load_settings, open_memory, settle
from .terminal import Bar, choose_output, note, render_count, render_record_count

if TYPE_CHECKING:
    from ...conversations.conversations import Conversations
    from ...engine.engine import Engine
    from ...vault.sync import SyncFinding, SyncResult
    from ...vault.vault import Vault

EVEROS = "everos"
MAX_LINES = 20  # how many of the same sort are named


def manage_vault(args: Namespace) -> int:
    """See how the vault is, take in what people did to it, or write it again."""
    with _open_vault(args) as (vault, conversations):
        if args.verb == "status":
            return _report_status(args, vault)
        from ...vault.sync import VaultSync

        sync = VaultSync(vault, conversations)
        with Bar("looking at files") as bar:
            if args.verb == "adopt":
                result = sync.adopt(bar)
                settle_loss(resolve_store(args.store))
            else:
                result = sync.rebuild(bar) if args.verb == "rebuild" else sync.sync(force=args.force, progress=bar)
    return _report(args, result)


@contextmanager
def _open_vault(args: Namespace, *, make: bool = False) -> Iterator[tuple[Vault, Conversations]]:
    from ...conversations.conversations import Conversations
    from ...vault.journal import JournalError
    from ...vault.lifecycle import use_vault

    address, settings = load_settings(args)
    with open_memory(args, make=make) as engine, use_vault(engine, address.home, settings) as vault:
        if vault is None:
            raise Unavailable("the vault is turned off: `vault = true` in cofio.toml, or COFIO_VAULT=on, turns it on")
        try:
            yield vault, Conversations(engine, mirror=vault)
        except JournalError as error:
            raise Unavailable(f"the vault in {vault.folder} cannot be used: {error}") from error


@contextmanager
def follow_vault(
    args: Namespace, engine: Engine, left: str = "what is forgotten may still be in the files of the vault"
) -> Iterator[Vault | None]:
    """The vault that is to follow a command; None where there is none that could, and then what is `left` is told."""
    from ...vault.journal import JournalError
    from ...vault.lifecycle import open_vault
    from ...vault.vault import FOLDER

    address, settings = load_settings(args)
    vault, why = None, ""
    if (address.home / FOLDER).exists():
        try:
            vault = open_vault(engine, address.home, settings)
            why = vault.detachment if vault is not None else ""
        except (Unavailable, JournalError) as error:
            why = str(error)
    if why:
        note(f"{left}: {why}")
    try:
        yield None if why else vault
    finally:
        if vault is not None:
            vault.close()


def _report_status(args: Namespace, vault: Vault) -> int:
    files, now = vault.journal.list_files(), vault.list_stamps()
    changed: list[Json] = [*sorted(name for name in {**files, **now} if files.get(name) != now.get(name))]
    conflicts: list[Json] = [*vault.list_conflicts()]
    faults = vault.journal.list_faults()
    pending = vault.count_unfinished()
    entries = render_count(vault.journal.count_entries(), "entry", "entries")
    message = f"the vault has {entries} in {render_count(len(now), 'file')}"
    message += f"; {render_count(len(changed), 'file')} to look at" if changed else ""
    message += f"; {render_count(len(conflicts), 'conflict')}" if conflicts else ""
    detachment = vault.detachment
    if detachment:
        message += "; it is left alone"
    elif pending or vault.stale:
        message += "; not all is written yet: `cofio vault sync` does that"
    choose_output(as_json=args.json).print_done(
        message, folder=str(vault.folder), entries=vault.journal.count_entries(), files=len(now), changed=changed,
        conflicts=conflicts, faults=dict(faults), unfinished=pending, complete=not vault.stale, detached=detachment,
    )  # fmt: skip
    sys.stdout.flush()
    if detachment:
        note(detachment)
    for name in changed[:MAX_LINES] if not detachment else ():
        note(f"{name} is not as it was left: `cofio vault sync` takes in what was done to it")
    for name in conflicts[:MAX_LINES]:
        note(f"{name} keeps what a person wrote; merge what should stay, then remove it")
    for name, why in faults.items():
        note(f"{name} could not be written: {why}")
    return 1 if conflicts or faults or detachment else 0


def _report(args: Namespace, result: SyncResult) -> int:
    counts = {
        "taken in": result.edited, "back": result.returned, "forgotten": result.deleted, "written": result.rewritten,
        "in conflict": result.conflicts, "not from here": result.strange, "not readable": result.unreadable,
        "refused": result.refused,
    }  # fmt: skip
    message = ", ".join(f"{len(each):,} {what}" for what, each in counts.items() if each)
    choose_output(as_json=args.json).print_done(
        message or "the files and the memory say the same", edited=_to_json(result.edited),
        deleted=_to_json(result.deleted), written=_to_json(result.rewritten), conflicts=_to_json(result.conflicts),
        strange=_to_json(result.strange), unreadable=_to_json(result.unreadable), refused=_to_json(result.refused),
        returned=_to_json(result.returned),
    )  # fmt: skip
    sys.stdout.flush()
    for each in (*result.rewritten, *result.conflicts, *result.strange, *result.unreadable):
        if each.text:
            note(f"{each.path}{f' {each.entry}' if each.entry else ''}: {each.text}")
    if result.refused:
        note(
            f"{render_count(len(result.refused), 'entry', 'entries')} seem to have been removed by mistake, and are not"
            " forgotten: `cofio vault rebuild` writes them again, `cofio vault sync --force` forgets them"
        )
    return 1 if result.problems else 0


def _to_json(findings: Sequence[SyncFinding]) -> list[Json]:
    return [{"path": each.path, "entry": each.entry, "text": each.text} for each in findings]


def import_everos(args: Namespace) -> int:
    """Take over the memory of EverOS, which stays as it is."""
    from ...conversations.conversations import Conversations
    from ...importers.everos import has_memory
    from ...vault.lifecycle import use_vault
    from ...vault.recovery import take

    path = Path(args.path or os.environ.get("EVEROS_MEMORY__ROOT") or "~/.everos").expanduser()
    if not has_memory(path):
        raise Unavailable(f"there is no memory of {EVEROS} in {path}: name the folder that holds its apps")
    address, settings = load_settings(args)
    with open_memory(args, make=True) as engine, use_vault(engine, address.home, settings) as vault:
        own = vault if vault is not None and path.resolve() == vault.folder.resolve() else None
        # What the own vault holds need not be written there.
        mirror = None if own is not None and own.detachment else vault
        conversations = Conversations(engine, mirror=mirror)
        try:
            with Bar("taking over") as bar:
                result = take(conversations, path, zone=settings.zone, progress=bar)
        except KeyboardInterrupt:
            note("stopped; what is in stays, and the same import again does the rest")
            raise
        if own is not None and not result.refused:
            _attach(args, own, Conversations(engine, mirror=own))
        for what, why in result.changed:
            note(f"{what}: {why}")
        for what, why in result.refused:
            note(f"{what} refused: {why}")
        total = sum(result.counts.values())
        present = total - result.new - len([what for what, _ in result.refused if " " in what])
        kinds = ", ".join(f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in result.counts.items())
        message = f"imported {render_record_count(result.new)} from {path}{f' ({kinds})' if kinds else ''}"
        message += (
            f"; {render_record_count(present)} {'was' if present == 1 else 'were'} here already" if present > 0 else ""
        )
        message += (
            f"; left out: {', '.join(f'{what} ({n:,})' for what, n in result.left_out.items())}"
            if result.left_out
            else ""
        )
        message += f"; {result.masked:,} with a secret masked" if result.masked else ""
        message += f"; {len(result.refused):,} refused" if result.refused else ""
        choose_output(as_json=args.json).print_done(
            message, imported=result.new, kept=max(present, 0),
            found={str(kind): n for kind, n in result.counts.items()}, left_out=dict(result.left_out),
            masked=result.masked, changed=len(result.changed), refused=len(result.refused),
        )  # fmt: skip
        sys.stdout.flush()
        settle(engine, limit=0 if args.no_vectors else None)
    return 1 if result.refused else 0


def _attach(args: Namespace, vault: Vault, conversations: Conversations) -> None:
    """Have a vault follow this memory again, now that the memory has all of it."""
    from ...vault.sync import VaultSync

    if vault.detachment and not vault.attachment.is_of_another():
        VaultSync(vault, conversations).adopt()
        note("the vault follows this memory again")
    settle_loss(resolve_store(args.store))
