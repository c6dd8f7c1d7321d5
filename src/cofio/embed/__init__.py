"""What turns text into vectors, and how to open one by name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ..values.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embedder", "QueryTokens", "TokenEmbedder", "open_embedder"]


class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near they are in meaning; threads may share it."""

    @property
    def id(self) -> str:
        """The model, its weights and its precision; vectors of different ids are never compared."""

    @property
    def dimensions(self) -> int:
        """The length of each vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one for each text, in their order; any text will do, the empty one too.

        Raises:
            Unavailable: the model is out of reach or talks nonsense; no row is returned then.
        """

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question, for which someone waits: better none than one that takes long.

        Raises:
            Unavailable: the model is out of reach or talks nonsense.
        """

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """One row for each of the first texts, for which someone waits: as many as about `seconds` allow, at least one.

        Raises:
            Unavailable: the model is out of reach or talks nonsense.
        """


class QueryTokens(NamedTuple):
    """What a query is compared by word by word."""

    words: tuple[str, ...]
    """For each of its tokens the word, in lower case, that the token is a piece of."""
    matrix: NDArray[np.float32]
    """A row a token, to be multiplied with codes."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """What an embedder can do in addition, whose texts can also be compared word by word.

    Whether an embedder can is asked at run time, which looks at each member: so this does not repeat those of
    Embedder, since the dimensions of a remote one may have to be asked for over the network.
    """

    def embed_with_codes(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[bytes]]:
        """What `embed` returns, and for each text the codes of its tokens, as `token_codes` has them.

        Raises:
            Unavailable: the model is out of reach or talks nonsense; nothing is returned then.
        """

    def embed_query_with_tokens(self, text: str) -> tuple[NDArray[np.float32], QueryTokens]:
        """What `embed_query` returns, and what the codes of texts are compared with.

        Raises:
            Unavailable: the model is out of reach or talks nonsense.
        """


def open_embedder(name: str, *, models: Path, url: str = "", model: str = "", key: str = "") -> Embedder | None:
    """The embedder of that name, or None for `none`; nothing is loaded or asked before it is first used.

    `models` is the folder of installed models, for `minilm` and `multilingual`; `url`, `model` and `key` are for
    `remote`.

    Raises:
        Invalid: there is no such embedder, or what it needs to be told is missing.
        Unavailable: the model is not installed.
    """
    match name:
        case "none":
            return None
        case "minilm":
            from .minilm import ID, MiniLM

            return MiniLM(models / ID)
        case "multilingual":
            from .multilingual import MULTILINGUAL, Multilingual

            return Multilingual(models / MULTILINGUAL.id)
        case "remote":
            from .remote import Remote

            return Remote(url, model=model, key=key)
        case "hashed":
            from .hashed import HashedEmbedder

            return HashedEmbedder()
    raise Invalid("embedder", f"{name!r} is not one of minilm, multilingual, remote, hashed, none")


def embed_in_turn(
    embed: Callable[[Sequence[str]], NDArray[np.float32]], texts: Sequence[str], seconds: float
) -> NDArray[np.float32]:
    """Embed one text after the other while the next is likely to be done within `seconds`; the first in any case."""
    import numpy as np

    began, vectors = time.monotonic(), []
    for text in texts:
        vectors.append(embed([text]))
        elapsed = time.monotonic() - began
        if elapsed + elapsed / len(vectors) > seconds:
            break
    return np.concatenate(vectors)


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates, which neither a tokenizer nor a server accepts, replaced by `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")
