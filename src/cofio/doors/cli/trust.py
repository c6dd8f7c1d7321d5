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
from .terminal import note, output


def change_trust(args: Namespace) -> int:
    """Trust the memory with what its files ask for now, or take that back."""
    address = resolve_store(args.store)
    home = address.home
    if not home.is_dir():
        raise Unavailable(f"there is no memory in {address}: --store names another folder")
    claims = read_claims(home, follow=not args.revoke)
    asked = _describe(claims)
    if args.revoke:
        had = trusting.revoke(home)
        said = f"{address} is no longer trusted" if had else f"{address} was not trusted"
    else:
        trusting.mark_trusted(home, claims)
        said = f"{address} is trusted"
    facts: dict[str, Json] = {
        "store": str(address),
        "trusted": not args.revoke,
        "settings": [*sorted(claims.settings)],
        "prompts": [*sorted(claims.prompts)],
        "vault": claims.vault,
        "link": claims.link,
    }
    output(as_json=args.json).done(said, **facts)
    for line in asked:
        note(f"{'does not count any more' if args.revoke else 'counts from now on'}: {line}")
    if not asked:
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
