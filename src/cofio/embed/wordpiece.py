"""Cuts text into the tokens that all-MiniLM-L6-v2 was trained on: BERT's word pieces, lower case, without accents.

The library that does this elsewhere brings a client for a model hub along; this does it for one model, just as quickly,
and gives the very same numbers, which the tests compare with that library's for every character there is.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from unicodedata import normalize

from .characters import ALONE, DROPPED, SPACES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
# A text that spells these out has them cut out before anything else, as the model's own tokenizer does it.
_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_LONGEST_WORD = 100  # characters; a longer word is not known
_MOST_WORDS = 50_000  # that are kept with their tokens, some 10 MB
_MOST_CHARACTERS = 20_000


class WordPiece:
    """The tokenizer; threads may share it."""

    def __init__(self, path: Path, *, most: int) -> None:
        """Read the official `tokenizer.json`; a text has at most `most` tokens, the first and the last included."""
        self._tokens: dict[str, int] = json.loads(path.read_bytes())["model"]["vocab"]
        self._unknown_token = [self._tokens[_UNKNOWN]]
        self._start, self._end = self._tokens[_START], self._tokens[_END]
        self._longest = max(map(len, self._tokens))
        self._most = most
        self._characters = _Characters()
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The text's tokens as numbers; what is left over at its end does not count."""
        room = self._most - 2
        tokens: list[int] = []
        known = self._words
        for word in self._split(text):
            tokens += known.get(word) or self._remember_pieces(word)
            if len(tokens) >= room:
                break
        return [self._start, *tokens[:room], self._end]

    def encode_with_words(self, text: str) -> tuple[list[int], list[str]]:
        """The same tokens, and the word that each is a piece of, without those at the beginning and at the end."""
        room = self._most - 2
        tokens: list[int] = []
        words: list[str] = []
        known = self._words
        for word in self._split(text):
            pieces = known.get(word) or self._remember_pieces(word)
            tokens += pieces
            words += [word] * len(pieces)
            if len(tokens) >= room:
                break
        return [self._start, *tokens[:room], self._end], words[:room]

    def _split(self, text: str) -> Iterator[str]:
        for part in _SPECIAL.split(text) if "[" in text else (text,):
            if part.startswith("[") and _SPECIAL.fullmatch(part):
                yield part
            else:
                yield from part.translate(self._characters).split()

    def _remember_pieces(self, word: str) -> list[int]:
        """The tokens of a word that was not met lately; there is always one at least."""
        found = self._find_pieces(word)
        if len(self._words) >= _MOST_WORDS:
            self._words.clear()
        self._words[word] = found
        return found

    def _find_pieces(self, word: str) -> list[int]:
        """The longest piece that the word begins with, then the longest of what is left, and so on to its end."""
        if _SPECIAL.fullmatch(word):
            return [self._tokens[word]]
        if len(word) > _LONGEST_WORD:
            return self._unknown_token
        pieces: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._tokens.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return self._unknown_token
            pieces.append(piece)
            start, prefix = end, "##"
        return pieces


class _Characters(dict[int, str]):
    """What becomes of each character, worked out when it is first met: a table for `str.translate`."""

    def __missing__(self, code_point: int) -> str:
        if code_point in SPACES:
            found = " "
        elif code_point in DROPPED:
            found = ""
        else:
            kept = [each for each in normalize("NFD", chr(code_point)) if ord(each) not in DROPPED]
            found = "".join(f" {each} " if ord(each) in ALONE else each.lower() for each in kept)
            found = f" {found} " if code_point in ALONE else found
        if len(self) >= _MOST_CHARACTERS:
            self.clear()
        self[code_point] = found
        return found
