"""A model behind any OpenAI-compatible `/embeddings` endpoint."""

from __future__ import annotations

import json
import time
from threading import Lock
from typing import TYPE_CHECKING

from ..endpoints.endpoint import Address, Endpoint, Post, RetryPolicy, SettingNames, Trouble
from ..values.errors import Invalid
from . import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

_BATCH = 64
_MOST_AT_ONCE, _SOME_SECONDS = 16, 1.0  # texts that are embedded while someone waits, and for how long, about
_TRIES = 4
_REST = 30.0  # seconds: a search that has its words should not wait for an endpoint that was down a moment ago
_HURRY = 3.0  # seconds that a question waits for its vector
_SLOWEST = 4  # times the longest silence: what an answer may take in all
_MAX_BYTES = 64_000_000
# Models refuse what is too long instead of cutting it off; most take 8192 tokens, which this stays below.
_MAX_CHARACTERS = 8_000
_PATH = "/embeddings"
_SETTINGS = SettingNames(url="embed_url", model="embed_model", key="embed_key")
_STRANGE = "answered something else than one vector for each text"


class Remote:
    """Asks the endpoint in batches; when it is busy or the line is broken, it is asked three times more."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        key: str = "",
        timeout: float = 30.0,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        """Name the endpoint; nothing is sent yet.

        `url` is the API's root, such as `https://api.openai.com/v1`, or the whole address of the endpoint.
        `timeout` is in seconds, for each silence of the server.

        Raises:
            Invalid: the URL, the model or the key cannot be used.
        """
        address = Address.parse(url, _PATH, _SETTINGS)
        if not model:
            raise Invalid("embed_model", "is empty; the remote embedder needs the name of a model")
        policy = RetryPolicy(
            tries=_TRIES, timeout=timeout, hurry=_HURRY, rest=_REST, longest_answer=_SLOWEST * timeout,
            max_bytes=_MAX_BYTES, shortens_waits=True,
        )  # fmt: skip
        self._endpoint = Endpoint(address.url, address.root + _PATH, key, policy, _SETTINGS, sleep=sleep)
        self._model = model
        self._id = f"remote:{model}@{address.host}"
        self._dimensions: int | None = None
        self._pace = _SOME_SECONDS
        """The seconds that a text took when the endpoint last answered."""
        self._lock = Lock()

    @property
    def id(self) -> str:
        """Names the model and who runs it."""
        return self._id

    @property
    def dimensions(self) -> int:
        """The length of each vector; asks the endpoint when no vector has come yet.

        Raises:
            Unavailable: the endpoint does not answer as it should.
        """
        return self._dimensions or int(self.embed(["dimensions"]).shape[1])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of length one for each text; what comes after its first 8000 characters does not count.

        Raises:
            Unavailable: the endpoint cannot be reached, refuses, or answers something else than vectors.
        """
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        starts = range(0, len(texts), _BATCH)
        return np.concatenate([self._embed_batch(texts[start : start + _BATCH]) for start in starts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question: the endpoint is asked once, and given a few seconds.

        Raises:
            Unavailable: the endpoint cannot be reached, refuses, or answers something else than vectors.
        """
        vector: NDArray[np.float32] = self._embed_batch([text], hurried=True)[0]
        return vector

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """Return the vectors of the first texts: the endpoint is asked once, and given a few seconds.

        No endpoint answers as soon as a model that is here, so `seconds` do not say how many texts it is asked for.
        They are 16 at most, and no more than it should answer in a second, by the time that its last answer took.

        Raises:
            Unavailable: the endpoint cannot be reached, refuses, or answers something else than vectors.
        """
        count = min(_MOST_AT_ONCE, int(_SOME_SECONDS / self._pace)) or 1
        return self._embed_batch(texts[:count], hurried=True, may_rest=False)

    def _embed_batch(
        self, texts: Sequence[str], *, hurried: bool = False, may_rest: bool = True
    ) -> NDArray[np.float32]:
        # Endpoints refuse an empty text, and with it the whole batch.
        body = {"model": self._model, "input": [replace_surrogates(text[:_MAX_CHARACTERS]) or " " for text in texts]}

        def attempt(post: Post) -> NDArray[np.float32] | Trouble:
            answer = post(body)
            return answer if isinstance(answer, Trouble) else self._parse_vectors(answer, len(texts))

        began = time.monotonic()
        vectors = self._endpoint.ask(attempt, hurried=hurried, may_rest=may_rest)
        self._pace = max(1e-6, (time.monotonic() - began) / len(texts))
        return vectors

    def _parse_vectors(self, answer: bytes, count: int) -> NDArray[np.float32] | Trouble:
        import numpy as np

        try:
            rows = {row["index"]: row["embedding"] for row in json.loads(answer)["data"]}
            vectors = np.array([rows.pop(index) for index in range(count)], np.float64)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return Trouble(reason="nonsense", problem=_STRANGE)
        if rows or vectors.ndim != 2:
            return Trouble(reason="nonsense", problem=_STRANGE)
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            return Trouble(
                reason="nonsense", problem="answered a vector without a direction: all zero, or not all numbers"
            )
        with self._lock:
            expected = self._dimensions = self._dimensions or vectors.shape[1]
        if vectors.shape[1] != expected:
            problem = f"answered vectors of {vectors.shape[1]} dimensions, not {expected}"
            return Trouble(reason="nonsense", problem=problem)
        unit: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
        return unit
