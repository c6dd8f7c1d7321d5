"""Groups of words that mean something alike, so that a word that no labelled message has is judged by its neighbours.

`word_groups.bin`, made by `benchmarks.group_words`, has four bytes for each of some ten thousand frequent words of
several languages: 23 bits of the word's checksum, and 9 bits that are the number of its group. The words themselves are
not in it.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left
from functools import cache
from importlib.resources import files

GROUPS = 512
GROUP_BITS = 9
FILE = "word_groups.bin"


def find_group(word: str) -> int:
    """The number of a word's group; -1 where it is in none."""
    groups = _load_groups()
    mark = hash_word(word)
    at = bisect_left(groups, mark)
    if at < len(groups) and groups[at] ^ mark < GROUPS:
        return groups[at] ^ mark
    return -1


def hash_word(word: str) -> int:
    """The checksum of a word, with room for the number of a group in its last bits."""
    return zlib.crc32(word.encode("utf-8", "replace")) >> GROUP_BITS << GROUP_BITS


@cache
def _load_groups() -> array[int]:
    """The table, in the order of the checksums."""
    table = array("I")
    table.frombytes(files(__package__).joinpath(FILE).read_bytes())
    if sys.byteorder == "big":
        table.byteswap()
    return table
