"""Which settings all servers of a memory have in common, where they may be on several machines.

They stand in the store. The first server says which they are; each that comes later has the same, or does not start.
"""

from __future__ import annotations

import json
from dataclasses import fields

from ..backends.interface import SharedValues
from ..config.settings import AGREED, Settings
from ..config.toml_files import convert
from ..values.errors import Invalid, Unavailable

NAME = "settings"
TRIES = 50
_BUSY = "others change the settings of this memory at the same moment: try again"
_KINDS = {each.name: str(each.type) for each in fields(Settings)}


def decode_agreement(text: str | None) -> dict[str, object]:
    """Return the settings that a text holds, but for those that only a newer version knows.

    Raises:
        Unavailable: it is not what cofio has written.
    """
    return {name: value for name, value in _decode(text).items() if name in AGREED}


def agree(shared: SharedValues, settings: Settings) -> None:
    """See to it that a server has the settings that the servers of its memory have; the first one says which.

    Raises:
        Invalid: another value was agreed on.
        Unavailable: the store cannot be used.
    """
    own = {name: getattr(settings, name) for name in AGREED}
    for _ in range(TRIES):
        text = shared.read(NAME)
        agreed = decode_agreement(text)
        for name, value in agreed.items():
            if own[name] != value:
                raise Invalid(
                    name,
                    f"the servers of this memory have {_render(value)}, and this one has {_render(own[name])}: set"
                    f" COFIO_{name.upper()} to the same here, or change it for all with `cofio config set {name}"
                    " VALUE`",
                )
        if shared.read_only or agreed.keys() == own.keys():
            return
        if shared.replace(NAME, text, _encode({**_decode(text), **own})):
            return
    raise Unavailable(_BUSY)


def set_agreed(shared: SharedValues, name: str, text: str | None) -> object:
    """Have all servers of a memory use a value from their next start on, or with None whatever the first one has.

    Returns the value.

    Raises:
        Invalid: servers need not agree on the setting, or it has no such value.
    """
    if name not in AGREED:
        if name not in _KINDS:
            raise Invalid(name, f"is not a setting; those that servers have in common are {', '.join(AGREED)}")
        raise Invalid(name, f"is each machine's own: set COFIO_{name.upper()} there, or {name} in its cofio.toml")
    value = None if text is None else _check(name, text)
    for _ in range(TRIES):
        before = shared.read(NAME)
        agreed = _decode(before)
        if value is None:
            agreed.pop(name, None)
        else:
            agreed[name] = value
        if shared.replace(NAME, before, _encode(agreed)):
            return value
    raise Unavailable(_BUSY)


def _check(name: str, text: str) -> object:
    value = convert(name, text, _KINDS[name])
    needed = {"embed_url": "https://example.org", "embed_model": "any"} if value == "remote" else {}
    Settings(**{**needed, name: value})  # type: ignore[arg-type]  # convert has checked it against its field
    return value


def _decode(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable(
            f"the settings in the database are damaged: delete the row {NAME!r} of the table shared; the next server"
            " that starts writes it anew"
        )
    return found


def _encode(settings: dict[str, object]) -> str:
    return json.dumps(settings, sort_keys=True)


def _render(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
