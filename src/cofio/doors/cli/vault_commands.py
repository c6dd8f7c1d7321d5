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
from .terminal import Bar, count_noun, count_records, note, output

if TYPE_CHECKING:
    from ...conversations.conversations import Conversations
    from ...engine.engine import Engine
    from ...vault.sync import SyncFinding, SyncResult
    from ...vault.vault import Vault

EVEROS = "everos"
SHOWN = 20  # how many of the same sort are named


def manage_vault(args: Namespace) -> int:
    """See how the vault is, take in what people did to it, or write it again."""
    with _open_vault(args) as (vault, conversations):
        if args.verb == "status":
            return _status(args, vault)
        from ...vault.sync import VaultSync

        syncing = VaultSync(vault, conversations)
        with Bar("looking at files") as bar:
            if args.verb == "adopt":
                synced = syncing.adopt(bar)
                settle_loss(resolve_store(args.store))
            else:
                synced = (
                    syncing.rebuild(bar) if args.verb == "rebuild" else syncing.sync(force=args.force, progress=bar)
                )
    return _tell(args, synced)


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
            yield vault, Conversations(engine, zone=settings.zone, mirror=vault)
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


def find_faults(engine: Engine, store: Path) -> list[str]:
    """What is wrong between a memory and its vault, if it has one."""
    from ...vault.journal import JournalError
    from ...vault.lifecycle import find_detachment

    try:
        why = find_detachment(engine, store)
    except (OSError, JournalError) as error:
        return [f"the vault cannot be looked at: {error}"]
    except Unavailable as error:
        return [str(error)]
    return [why] if why else []


def _status(args: Namespace, vault: Vault) -> int:
    files, now = vault.journal.list_files(), vault.list_stamps()
    changed: list[Json] = [*sorted(name for name in {**files, **now} if files.get(name) != now.get(name))]
    conflicts: list[Json] = [*vault.list_conflicts()]
    faults = vault.journal.list_faults()
    unfinished = len(vault.journal.list_pending())
    entries = count_noun(vault.journal.count_entries(), "entry", "entries")
    said = f"the vault has {entries} in {count_noun(len(now), 'file')}"
    said += f"; {count_noun(len(changed), 'file')} to look at" if changed else ""
    said += f"; {count_noun(len(conflicts), 'conflict')}" if conflicts else ""
    detached = vault.detachment
    if detached:
        said += "; it is left alone"
    elif unfinished or vault.stale:
        said += "; not all is written yet: `cofio vault sync` does that"
    output(as_json=args.json).done(
        said, folder=str(vault.folder), entries=vault.journal.count_entries(), files=len(now), changed=changed,
        conflicts=conflicts, faults=dict(faults), unfinished=unfinished, complete=not vault.stale, detached=detached,
    )  # fmt: skip
    sys.stdout.flush()
    if detached:
        note(detached)
    for name in changed[:SHOWN] if not detached else ():
        note(f"{name} is not as it was left: `cofio vault sync` takes in what was done to it")
    for name in conflicts[:SHOWN]:
        note(f"{name} keeps what a person wrote; merge what should stay, then remove it")
    for name, why in faults.items():
        note(f"{name} could not be written: {why}")
    return 1 if conflicts or faults or detached else 0


def _tell(args: Namespace, synced: SyncResult) -> int:
    told = {
        "taken in": synced.edited, "back": synced.returned, "forgotten": synced.deleted, "written": synced.rewritten,
        "in conflict": synced.conflicts, "not from here": synced.strange, "not readable": synced.unreadable,
        "refused": synced.refused,
    }  # fmt: skip
    said = ", ".join(f"{len(each):,} {what}" for what, each in told.items() if each)
    output(as_json=args.json).done(
        said or "the files and the memory say the same", edited=_json(synced.edited), deleted=_json(synced.deleted),
        written=_json(synced.rewritten), conflicts=_json(synced.conflicts), strange=_json(synced.strange),
        unreadable=_json(synced.unreadable), refused=_json(synced.refused), returned=_json(synced.returned),
    )  # fmt: skip
    sys.stdout.flush()
    for each in (*synced.rewritten, *synced.conflicts, *synced.strange, *synced.unreadable):
        if each.text:
            note(f"{each.path}{f' {each.entry}' if each.entry else ''}: {each.text}")
    if synced.refused:
        note(
            f"{count_noun(len(synced.refused), 'entry', 'entries')} seem to have been removed by mistake, and are not"
            " forgotten: `cofio vault rebuild` writes them again, `cofio vault sync --force` forgets them"
        )
    return 1 if synced.problems else 0


def _json(said: Sequence[SyncFinding]) -> list[Json]:
    return [{"path": each.path, "entry": each.entry, "text": each.text} for each in said]


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
        conversations = Conversations(engine, zone=settings.zone, mirror=mirror)
        try:
            with Bar("taking over") as bar:
                taken = take(conversations, path, zone=settings.zone, progress=bar)
        except KeyboardInterrupt:
            note("stopped; what is in stays, and the same import again does the rest")
            raise
        if own is not None and not taken.refused:
            _attach(args, own, Conversations(engine, zone=settings.zone, mirror=own))
        for what, why in taken.changed:
            note(f"{what}: {why}")
        for what, why in taken.refused:
            note(f"{what} refused: {why}")
        total = sum(taken.counts.values())
        kept = total - taken.new - len([what for what, _ in taken.refused if " " in what])
        kinds = ", ".join(f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in taken.counts.items())
        said = f"imported {count_records(taken.new)} from {path}{f' ({kinds})' if kinds else ''}"
        said += f"; {count_records(kept)} {'was' if kept == 1 else 'were'} here already" if kept > 0 else ""
        said += (
            f"; left out: {', '.join(f'{what} ({n:,})' for what, n in taken.left_out.items())}"
            if taken.left_out
            else ""
        )
        said += f"; {taken.masked:,} with a secret masked" if taken.masked else ""
        said += f"; {len(taken.refused):,} refused" if taken.refused else ""
        output(as_json=args.json).done(
            said, imported=taken.new, kept=max(kept, 0), found={str(kind): n for kind, n in taken.counts.items()},
            left_out=dict(taken.left_out), masked=taken.masked, changed=len(taken.changed), refused=len(taken.refused),
        )  # fmt: skip
        sys.stdout.flush()
        settle(engine, limit=0 if args.no_vectors else None)
    return 1 if taken.refused else 0


def _attach(args: Namespace, vault: Vault, conversations: Conversations) -> None:
    """Have a vault follow this memory again, now that the memory has all of it."""
    from ...vault.sync import VaultSync

    if vault.detachment and not vault.attachment.is_of_another():
        VaultSync(vault, conversations).adopt()
        note("the vault follows this memory again")
    settle_loss(resolve_store(args.store))
