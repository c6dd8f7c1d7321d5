"""Cuts text into the pieces that the multilingual model was trained on: SentencePiece's unigrams, for one model.

Text is first normalized by a table that comes with the model, a double array over UTF-8; then each word is cut into the
pieces that are likeliest together. The tests compare the tokens with those of SentencePiece itself.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UNKNOWN, _START, _END = 0, 1, 2
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for the white space before a word
_NORMAL, _USER_DEFINED = 1, 4  # kinds of pieces that texts can hold
_PENALTY = 10.0  # how much less likely an unknown character is than the rarest piece
_MOST_WORDS = 50_000  # that are kept with their tokens, some 10 MB
_LONGEST_WORD = 40  # characters; what is longer is a whole sentence, and not worth keeping
# What stays as it is: printable ASCII that no accent follows.
_PLAIN = re.compile(r"[ -~]+(?![^\x00-\x7f])")


class Unigram:
    """The tokenizer; threads may share it."""

    def __init__(self, path: Path, *, most: int) -> None:
        """Read what `convert_vocabulary` wrote; a text has at most `most` tokens, the first and the last included."""
        vocabulary = json.loads(path.read_bytes())
        self._tokens: dict[str, int] = {piece: token for token, piece in enumerate(vocabulary["pieces"])}
        self._scores: list[float] = vocabulary["scores"]
        self._unknown_score = min(self._scores) - _PENALTY
        self._longest = max(map(len, self._tokens))
        self._normalizer = _Normalizer(base64.b64decode(vocabulary["replacements"]))
        self._most = most
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The text's tokens as numbers; what is left over at its end does not count."""
        room = self._most - 2
        tokens: list[int] = []
        for word in self._normalizer.normalize(text).split(" "):
            if word:
                tokens += self._words.get(word) or self._cut(word)
            if len(tokens) >= room:
                break
        return [_START, *tokens[:room], _END]

    def _cut(self, word: str) -> list[int]:
        found = self._find_pieces(_SPACE + word)
        if len(word) <= _LONGEST_WORD:
            if len(self._words) >= _MOST_WORDS:
                self._words.clear()
            self._words[word] = found
        return found

    def _find_pieces(self, text: str) -> list[int]:
        """The pieces that are likeliest together; characters that are in none are unknown, a run of them at once."""
        length = len(text)
        best = [0.0] + [float("-inf")] * length  # of what ends at each position
        last = [(0, _UNKNOWN)] * (length + 1)  # where the last piece before each position begins, and which it is
        find, scores = self._tokens.get, self._scores
        for start in range(length):
            base = best[start]
            for end in range(start + 1, min(length, start + self._longest) + 1):
                token = find(text[start:end])
                if token is not None:
                    score = base + scores[token]
                elif end == start + 1:
                    token, score = _UNKNOWN, base + self._unknown_score
                else:
                    continue
                if score > best[end]:
                    best[end], last[end] = score, (start, token)
        pieces: list[int] = []
        end = length
        while end > 0:
            end, token = last[end]
            if token != _UNKNOWN or pieces[-1:] != [_UNKNOWN]:
                pieces.append(token)
        return pieces[::-1]


class _Normalizer:
    """The model's table of replacements: NFKC, and white space of every kind as a space.

    A unit of the double array has a byte as its label, a flag that says that a replacement ends here, and how far away
    its children are.
    """

    def __init__(self, table: bytes) -> None:
        (size,) = struct.unpack_from("<I", table)
        self._units = struct.unpack_from(f"<{size // 4}I", table, 4)
        self._replacements = table[4 + size :]
        self._unchanged: set[str] = set()

    def normalize(self, text: str) -> str:
        parts: list[str] = []
        position = 0
        while position < len(text):
            if plain := _PLAIN.match(text, position):
                parts.append(plain.group())
                position = plain.end()
            elif text[position] in self._unchanged:
                parts.append(text[position])
                position += 1
            else:
                replacement, length = self._find_replacement(text, position)
                parts.append(replacement)
                position += length
        return "".join(parts)

    def _find_replacement(self, text: str, position: int) -> tuple[str, int]:
        """What the longest run of characters that has a replacement becomes, and how long it is."""
        units = self._units
        node, end, value = _find_children(units[0]), 0, 0
        for number in range(position, len(text)):
            for byte in text[number].encode():
                node ^= byte
                unit = units[node]
                if unit & 0x800000FF != byte:
                    break
                node ^= _find_children(unit)
            else:
                if unit & 0x100:
                    end, value = number + 1, units[node] & 0x7FFFFFFF
                continue
            if number == position:  # nothing begins with this character
                self._unchanged.add(text[position])
            break
        if not end:
            return text[position], 1
        return self._replacements[value : self._replacements.index(b"\0", value)].decode(), end - position


def _find_children(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def convert_vocabulary(model: bytes) -> bytes:
    """What `Unigram` reads, from a model file of SentencePiece: JSON, which is read in a tenth of the time."""
    fields = list(_parse(model))
    pieces, scores = [], []
    kinds: list[int] = []
    for piece in (dict(_parse(value)) for field, value in fields if field == 1 and isinstance(value, bytes)):
        kind = piece.get(3, _NORMAL)
        pieces.append(_read_bytes(piece, 1).decode() if kind in (_NORMAL, _USER_DEFINED) else "")
        scores.append(struct.unpack("<f", _read_bytes(piece, 2))[0] if 2 in piece else 0.0)
        kinds.append(kind if isinstance(kind, int) else _NORMAL)
    normal = [score for score, kind in zip(scores, kinds, strict=True) if kind == _NORMAL]
    for token, kind in enumerate(kinds):
        if kind == _USER_DEFINED:  # likelier than any other way to cut it
            scores[token] = len(pieces[token]) * max(normal) - 0.1
    normalizer = dict(_parse(_read_bytes(dict(fields), 3)))
    table = base64.b64encode(_read_bytes(normalizer, 2)).decode()
    vocabulary = {"pieces": pieces, "scores": scores, "replacements": table}
    return json.dumps(vocabulary, ensure_ascii=False).encode()


def _read_bytes(fields: dict[int, int | bytes], field: int) -> bytes:
    value = fields[field]
    if not isinstance(value, bytes):
        raise ValueError(f"field {field} is a number")
    return value


def _parse(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message, in their order: numbers, or bytes that may be a message in turn."""
    position = 0
    while position < len(message):
        key, position = _parse_varint(message, position)
        match key & 7:
            case 0:
                value, position = _parse_varint(message, position)
                yield key >> 3, value
            case 2:
                length, position = _parse_varint(message, position)
                yield key >> 3, message[position : position + length]
                position += length
            case 5:
                yield key >> 3, message[position : position + 4]
                position += 4
            case kind:
                raise ValueError(f"a field of kind {kind}")


def _parse_varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position
