"""How a search sees by meaning what was written a moment ago: it makes the few vectors that are missing itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..backends.search_interface import Searcher
from ..embed import Embedder, TokenEmbedder, embed_in_turn
from ..values.records import Scope

if TYPE_CHECKING:
    from ..values.changes import Vector

BUDGET = 0.03  # seconds, about, that a search takes to make vectors; one it makes in any case
LIMIT = 16  # records that a search gives a vector at most
MOST = 64  # records within bounds without a vector; more of them are a bulk load, which the background sees to
STORE_REST = 1.0  # seconds in which no search tries again, after another process kept one from storing its vectors
EMBEDDER_REST = 30.0  # the same after an embedder failed
LOOKS = 8  # searches that look first, after one has found some missing
LOCKS = 4  # searches of different scopes that make vectors at once; more would only take turns at the cores


class FreshVectors:
    """Gives vectors to the records that a search is about to miss, if they are few."""

    def __init__(self, has_queue: Callable[[], bool] | None = None, *, token_codes: bool = True) -> None:
        """While `has_queue` says that other calls wait, no vectors are made: that is left to the background.

        With `token_codes`, vectors come with the codes of their tokens, where the embedder can make them.
        """
        self._has_queue = has_queue
        self._token_codes = token_codes
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._rest_until = 0.0
        self._looks_left = 0

    @property
    def are_likely(self) -> bool:
        """Whether one of the last searches found some missing, so that the next does well to look first.

        It then makes them before its turn comes; else the search that finds them missing keeps others waiting.
        """
        return self._looks_left > 0

    def add(self, searcher: Searcher, embedder: Embedder, scope: Scope) -> bool:
        """Embed what a search of the scope has no vectors for, as far as the budget goes; whether it looked for any.

        What is left out, for want of time or because it failed, the search itself reports.
        """
        began = time.monotonic()
        self._looks_left = max(0, self._looks_left - 1)
        if began < self._rest_until or (self._has_queue is not None and self._has_queue()):
            return False
        records = searcher.find_unembedded(embedder.id, LIMIT, MOST)
        if records is None:
            return True
        # Where there are no others to keep waiting, a look that finds nothing is one too many.
        self._looks_left = 1 if self._has_queue is None else LOOKS
        lock = self._locks[hash(scope) % LOCKS]
        is_first = lock.acquire(blocking=False)
        if not is_first and not lock.acquire(timeout=BUDGET):
            return True
        try:
            if not is_first:  # another thread may have made vectors of the same records, meanwhile
                records = searcher.find_unembedded(embedder.id, LIMIT, MOST)
            if records is not None:
                made = self._embed_some(embedder, records.texts, began + BUDGET - time.monotonic())
                if not records.store(*made):
                    self._rest_until = time.monotonic() + STORE_REST
        except Exception:  # whatever an embedder raises: the search goes on without these vectors, and says so
            self._rest_until = time.monotonic() + EMBEDDER_REST
        finally:
            lock.release()
        return True

    def _embed_some(
        self, embedder: Embedder, texts: Sequence[str], seconds: float
    ) -> tuple[Vector, list[bytes] | None]:
        """Embed as many of the texts as the time allows, with the codes of their tokens if they are to be made."""
        if self._token_codes and isinstance(embedder, TokenEmbedder):
            coder, codes = embedder, list[bytes]()

            def embed(some: Sequence[str]) -> Vector:
                vectors, made = coder.embed_with_codes(some)
                codes.extend(made)
                return vectors

            return embed_in_turn(embed, texts, seconds), codes
        if hasattr(embedder, "embed_some"):  # one of a program's own may know no such call
            return embedder.embed_some(texts, seconds), None
        return embed_in_turn(embedder.embed, texts, seconds), None
