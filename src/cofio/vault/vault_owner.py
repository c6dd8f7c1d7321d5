"""Which server keeps the files of a memory that several machines share: one of them, by choice."""

from __future__ import annotations

import json
import platform
import secrets

from ..backends.interface import SharedValues
from ..values.errors import Unavailable
from .journal import Journal

NAME = "vault"
TRIES = 50


def claim_vault(shared: SharedValues, journal: Journal) -> None:
    """Have the files of a vault be those of its memory, unless others are.

    Raises:
        Unavailable: a vault elsewhere is; the message names the ways out.
    """
    with journal.lock():
        if not journal.get_about("owner"):
            journal.set_about(owner=secrets.token_hex(8))
    owner = journal.get_about("owner")
    for _ in range(TRIES):
        text = shared.read(NAME)
        found = json.loads(text) if text else {}
        if found.get("owner") == owner:
            return
        if found:
            raise Unavailable(
                f"the vault of this memory is kept by the server on {found.get('host')}: turn it off here with"
                " COFIO_VAULT=false or, if that server keeps it no more, run `cofio config unset vault`"
            )
        if shared.replace(NAME, text, json.dumps({"owner": owner, "host": platform.node()})):
            return
    raise Unavailable("others claim the vault of this memory at the same moment: try again")


def release_vault(shared: SharedValues) -> None:
    """Let the next server that asks for it keep the vault of a memory."""
    text = shared.read(NAME)
    if text:
        shared.replace(NAME, text, "")
