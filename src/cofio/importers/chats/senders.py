"""How the names of those who speak become ids."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from ...extract.extractor import Role

MAX_SENDER = 128
_LATIN = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
     "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i"}
)  # fmt: skip


@lru_cache(maxsize=1024)
def make_sender_id(name: str, role: Role) -> str:
    """Return the id of the person with this name: the name itself, as far as an id can hold it.

    Where letters are lost, a few digits that only this name has stand for them: two people are never one.
    """
    latin = unicodedata.normalize("NFKD", name.translate(_LATIN))
    spelled = "_".join("".join(each for each in latin if not unicodedata.combining(each)).split())
    sender = re.sub(r"[^a-zA-Z0-9_.@+-]", "", spelled).strip("_")
    lost = any(each.isalnum() and not each.isascii() for each in spelled)
    digits = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    if not any(each.isalnum() for each in sender):
        return f"{role}_{digits}"
    if lost or len(sender) > MAX_SENDER:
        return f"{sender[: MAX_SENDER - len(digits) - 1]}_{digits}"
    return sender
