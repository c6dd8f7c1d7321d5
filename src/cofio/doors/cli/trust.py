"""The command that lets a memory's own settings, prompts and vault count, or no longer."""

from __future__ import annotations

import json
from argparse import Namespace

from ...config import trust as trusting
from ...config.notices import sanitize
from ...config.settings import read_claims
from ...engine.opening import resolve_store
from ...values.errors import Unavailable
from ...values.records import Json
from .terminal import choose_output, note


def change_trust(args: Namespace) -> int:
    """Trust the memory with what its files ask for now, or take that back."""
    address = resolve_store(args.store)
    home = address.home
    if not home.is_dir():
        raise Unavailable(f"there is no memory in {address}: --store names another")
    claims = read_claims(home, follow=not args.revoke)
    claim_lines = _describe(claims)
    if args.revoke:
        was_trusted = trusting.revoke(home)
        message = f"{address} is no longer trusted" if was_trusted else f"{address} was not trusted"
    else:
        trusting.mark_trusted(home, claims)
        message = f"{address} is trusted"
    facts: dict[str, Json] = {
        "store": str(address),
        "trusted": not args.revoke,
        "settings": [*sorted(claims.settings)],
        "prompts": [*sorted(claims.prompts)],
        "vault": claims.vault,
        "link": claims.link,
    }
    choose_output(as_json=args.json).print_done(message, **facts)
    for line in claim_lines:
        note(f"{'does not count any more' if args.revoke else 'counts from now on'}: {line}")
    if not claim_lines:
        note("it asks for nothing that needs trust")
    elif not args.revoke:
        note("what is changed or added later needs `cofio trust` again")
    return 0


def _describe(claims: trusting.Claims) -> list[str]:
    """What the claims are, a line each; keys are not shown, and nothing steers a terminal."""
    lines = [] if claims.link is None else [f"the settings in {claims.link}"]
    lines += [
        f"{name} = {'…' if name.endswith('_key') else json.dumps(value, default=str)}"
        for name, value in claims.settings.items()
    ]
    lines += [f"the prompt {trusting.PROMPTS}/{name}" for name in claims.prompts]
    if claims.vault is not None:
        lines.append(f"the vault in {claims.vault}")
    return [sanitize(line) for line in lines]
