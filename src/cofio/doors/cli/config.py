"""The command that shows the settings: what is in force, where each comes from, and a sample file."""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...config.address import StoreAddress
from ...config.notices import sanitize
from ...config.settings import RawSettings, Settings, gather
from ...config.toml_files import FILE
from ...engine.opening import open_shared_values, read_agreement, resolve_store
from ...system.user_folders import find_config_folder
from ...values.errors import Invalid, Unavailable
from ...values.records import Json
from .terminal import choose_output, note

if TYPE_CHECKING:
    from ...backends.interface import SharedValues

MEANINGS = {
    "embedder": 'What makes vectors: "minilm", "multilingual", "remote" (an OpenAI-compatible endpoint), "none".',
    "embed_url": 'The endpoint of the "remote" embedder, as "https://api.openai.com/v1".',
    "embed_model": 'Its model, as "text-embedding-3-small".',
    "embed_key": "Its key. Better in the variable COFIO_EMBED_KEY, together with COFIO_EMBED_URL.",
    "models": 'The folder that models are kept in; "" is cofio/models in your cache folder.',
    "fetch_model": "Fetch the model by itself, in the background, when it is first wanted and not there.",
    "token_codes": "Compare texts word by word, too, by codes of at most 3 KB a record; only with minilm.",
    "sync": '"full": what is acknowledged survives a power cut. "normal": a crash of the process only.',
    "pool_size": "How many connections a process has to a store on PostgreSQL at most, from 2 to 100.",
    "fusion": 'How the two rankings become one: "convex" or "rrf".',
    "floor": "The least score, 0 to 1, that the best hit must have when the query does not say.",
    "background": "Index and embed in a background thread.",
    "host": "Where `cofio serve` listens; an address that others can reach needs a token.",
    "port": "The port of `cofio serve`; 0 takes a free one.",
    "workers": "Processes of `cofio serve` that take requests, up to 8; 1: a single process; unset, one for each core.",
    "allow_secrets": "Keep what looks like a key, a token or a password, rather than refuse or mask it.",
    "timezone": 'The zone of the times that REST shows and of days, as "Europe/Oslo".',
    "docs": "Show the REST API at /docs, /redoc and /openapi.json; unset, only where others cannot reach it.",
    "structured": "Add data to answers over MCP, for programs: some agents then see no text.",
    "quiet_after": "Minutes after which `cofio serve` carves a session that nobody flushes; 0 for never.",
    "vault": "Keep what is remembered of conversations as Markdown files, too.",
    "llm_base_url": 'An OpenAI-compatible endpoint whose model betters what is remembered, as "http://127.0.0.1:11434/v1".',
    "llm_model": 'Its model, as "llama3.2".',
    "llm_api_key": "Its key. Better in the variable COFIO_LLM_API_KEY, together with COFIO_LLM_BASE_URL.",
    "llm_budget": 'The most that the model may be asked on one day, or "off" for no limit.',
    "llm_wait": "Seconds that a flush waits for the model's records, which follow by themselves; 0: not at all.",
    "row_security": "On PostgreSQL: have the database, too, hold each call to the scopes that it is about.",
    "fetch": 'What content items may point at: "off", or hosts and folders, as "docs.example.org, /srv/inbox".',
    "read_store": 'A standby of the database that answers reads, as "postgresql://me@replica.example/memory".',
    "replica_lag": "Seconds that an answer of the standby may be old.",
}
"""What each setting is for, in a line."""
UNSET = {"docs": "true", "workers": "2"}
"""What may stand for each setting that is unset unless someone sets it."""
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def show_config(args: Namespace) -> int:
    """Show the settings in force, set what servers have in common, or print a sample file."""
    if args.verb is not None:
        return change_agreement(args)
    if args.sample:
        print_sample(args)
        return 0
    address = resolve_store(args.store)
    home = address.home
    shared = _read_agreement(address)
    settings, gathered = Settings.load(home, shared=shared), gather(home, shared=shared)
    values = {
        each.name: (_mask(each.name, getattr(settings, each.name)), _find_origin(each.name, gathered))
        for each in fields(Settings)
    }
    entries: list[Json] = [
        {"name": name, "value": value, "from": origin, "ignored": gathered.ignored.get(name)}
        for name, (value, origin) in values.items()
    ]
    files: list[Json] = [str(path) for path in _list_files(home)]
    rows = {"store": (str(address), _explain_store(args))}
    for name, (value, origin) in values.items():
        rows[name] = (_render_value(value), f"{origin}{' (another is ignored)' if name in gathered.ignored else ''}")
    choose_output(as_json=args.json).print_settings(
        rows, store=str(address), found=_explain_store(args), files=files, settings=entries
    )
    sys.stdout.flush()
    if args.json:
        return 0
    read = [str(path) for path in _list_files(home) if path.exists()]
    note(
        f"{'read from ' + ' and '.join(read) if read else 'no file sets anything'}; `cofio config --sample` prints one"
    )
    return 0


def change_agreement(args: Namespace) -> int:
    """Set, or leave open, a setting that all servers of a memory have in common."""
    address = resolve_store(args.store)
    with open_shared_values(address) as shared:
        if shared is None:
            raise Invalid(
                "store", f"the settings of a memory in a folder are in {address.home / FILE}: write them there"
            )
        value = _change(shared, args.name, args.value if args.verb == "set" else None)
    shown = "is open" if value is None else f"= {json.dumps(value, ensure_ascii=False)}"
    choose_output(as_json=args.json).print_done(f"{args.name} {shown}", name=args.name, value=value)
    note("servers take it up when they are started again")
    return 0


def _change(shared: SharedValues, name: str, text: str | None) -> Json:
    """Set a setting, or leave it open; its value. With no text for `vault`, whichever server asks next may keep it."""
    if name == "vault" and text is None:
        from ...vault.vault_owner import release_vault

        release_vault(shared)
        return None
    from ...engine.agreement import set_agreed

    return cast(Json, set_agreed(shared, name, text))


def _read_agreement(address: StoreAddress) -> dict[str, object] | None:
    """What servers have in common, as far as the database can be asked."""
    try:
        return read_agreement(address)
    except Unavailable as error:
        note(f"what the servers of this memory have in common is not known: {error}")
        return {}


def print_sample(args: Namespace) -> None:
    """Print a file in which every setting stands with its default, as a comment."""
    lines = [
        f"# {FILE}: settings of cofio. Put it into the memory's folder, or, for every memory of yours, into",
        "# ~/.config/cofio. A COFIO_* variable (COFIO_FLOOR for floor) wins over either.",
        "# Every line is the default: take away the # of those that you change. Texts stand in quotes.",
    ]
    for each in fields(Settings):
        lines += ["", f"# {MEANINGS[each.name]}", f"# {each.name} = {_render_default(each.name, each.default)}"]
    sample = "\n".join(lines)
    choose_output(as_json=args.json).print_done(sample, sample=sample + "\n")


def _render_default(name: str, default: object) -> str:
    return UNSET[name] if default is None else json.dumps(default)


def _list_files(home: Path) -> list[Path]:
    """The files that may set something, the one that wins last."""
    own = find_config_folder()
    return [*([own / FILE] if own is not None else []), home / FILE]


def _explain_store(args: Namespace) -> str:
    """What made this the store."""
    if args.store is not None:
        return "--store"
    variable = next((name for name in ("COFIO_STORE", "AGENT_STORE_PATH") if os.environ.get(name)), None)
    return variable or "the working folder"


def _find_origin(name: str, gathered: RawSettings) -> str:
    origin = gathered.origins.get(name)
    return "default" if origin is None else str(origin)


def _mask(name: str, value: object) -> Json:
    """The value as it may be seen by who looks over a shoulder: no key, and no password in an address."""
    if name.endswith("_key"):
        return "***" if value else ""
    if isinstance(value, str):
        return _USERINFO.sub("***", value)
    assert value is None or isinstance(value, bool | int | float)
    return value


def _render_value(value: Json) -> str:
    return sanitize(json.dumps(value, ensure_ascii=False)) if value not in ("", None) else "-"
