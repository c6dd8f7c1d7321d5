"""A model behind any OpenAI-compatible `/embeddings` endpoint."""

from __future__ import annotations

import json
import time
import urllib.request
from http import HTTPStatus
from http.client import HTTPException, responses
from threading import Lock
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit

from ..values.errors import Invalid, Unavailable
from . import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

_BATCH = 64
_RETRIES = 3
_FIRST_WAIT = 0.5
_REST = 30.0  # seconds that an endpoint is left alone after every try failed
_LONGEST_WAIT = 30.0
_HURRY = 3.0  # seconds that a question waits for its vector
# Models refuse what is too long instead of cutting it off; most take 8192 tokens, which this stays below.
_MOST_CHARACTERS = 8_000


class Remote:
    """Asks the endpoint in batches; when it is busy or the line is broken, it is asked three times more."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        key: str = "",
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Name the endpoint; nothing is sent yet.

        `url` is the API's root, such as `https://api.openai.com/v1`, or the whole address of the endpoint.
        `timeout` is in seconds, for each silence of the server.

        Raises:
            Invalid: the URL, the model or the key cannot be used.
        """
        self._url, self._endpoint, host = _parse(url)
        if not model:
            raise Invalid("embed_model", "is empty; the remote embedder needs the name of a model")
        # http.client would quote the whole header, key and all, in its own error.
        if not key.isascii() or not key.isprintable():
            raise Invalid("embed_key", "holds characters that no key has")
        self._model = model
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._sleep = sleep
        self._id = f"remote:{model}@{host}"
        self._dimensions: int | None = None
        self._lock = Lock()
        self._rest_until = 0.0
        self._opener = urllib.request.build_opener(_NoRedirect)

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
        """One row of length one for each text; what comes after its first 8000 characters does not count.

        Raises:
            Unavailable: the endpoint cannot be reached, refuses, or answers something else than vectors.
        """
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        starts = range(0, len(texts), _BATCH)
        return np.concatenate([self._embed_batch(texts[start : start + _BATCH]) for start in starts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question: the endpoint is asked once, and given a few seconds.

        Raises:
            Unavailable: the endpoint cannot be reached, refuses, or answers something else than vectors.
        """
        vector: NDArray[np.float32] = self._embed_batch([text], hurried=True)[0]
        return vector

    def _embed_batch(self, texts: Sequence[str], *, hurried: bool = False) -> NDArray[np.float32]:
        # Endpoints refuse an empty text, and with it the whole batch.
        prepared = [replace_surrogates(text[:_MOST_CHARACTERS]) or " " for text in texts]
        answer = self._post(json.dumps({"model": self._model, "input": prepared}).encode(), hurried=hurried)
        vectors = self._parse_vectors(answer, len(texts))
        with self._lock:
            expected = self._dimensions = self._dimensions or vectors.shape[1]
        if vectors.shape[1] != expected:
            raise self._unavailable(f"answered vectors of {vectors.shape[1]} dimensions, not {expected}")
        return vectors

    def _parse_vectors(self, answer: bytes, count: int) -> NDArray[np.float32]:
        import numpy as np

        try:
            rows = {row["index"]: row["embedding"] for row in json.loads(answer)["data"]}
            vectors = np.array([rows.pop(index) for index in range(count)], np.float64)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise self._unavailable("answered something else than one vector for each text") from error
        if rows or vectors.ndim != 2:
            raise self._unavailable("answered something else than one vector for each text")
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise self._unavailable("answered a vector without a direction: all zero, or not all numbers")
        unit: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
        return unit

    def _post(self, body: bytes, *, hurried: bool) -> bytes:
        failure: Exception
        tries, timeout = (1, min(_HURRY, self._timeout)) if hurried else (_RETRIES + 1, self._timeout)
        if time.monotonic() < self._rest_until:
            raise self._unavailable(f"did not answer; it is asked again within {_REST:.0f} s")
        for retry in range(tries):
            wait = _FIRST_WAIT * 2**retry
            try:
                request = urllib.request.Request(self._url, body, self._headers, method="POST")
                with self._opener.open(request, timeout=timeout) as response:
                    answer: bytes = response.read()
                    return answer
            except HTTPError as error:
                error.close()
                failure, problem = error, f"answered {error.code} {responses.get(error.code, '')}".rstrip()
                if error.code != HTTPStatus.TOO_MANY_REQUESTS and error.code < 500:
                    raise self._unavailable(problem) from error
                asked = error.headers.get("Retry-After", "")
                wait = min(max(wait, float(asked) if asked.isdecimal() else 0.0), _LONGEST_WAIT)
            except (OSError, HTTPException) as error:
                failure, problem = error, f"cannot be reached: {error or type(error).__name__}"
            if retry < tries - 1:
                self._sleep(wait)
        # A search that has its words should not wait for an endpoint that was down a moment ago.
        self._rest_until = time.monotonic() + _REST
        raise self._unavailable(problem if hurried else f"{problem}, {tries} times") from failure

    def _unavailable(self, problem: str) -> Unavailable:
        return Unavailable(f"{self._endpoint} {problem}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses to be sent elsewhere, since the key would go along."""

    def redirect_request(self, *_: object) -> None:
        return None


def _parse(url: str) -> tuple[str, str, str]:
    """The address to post to, the address without what may be secret, and the host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text quotes the URL, which may hold a password
        raise Invalid("embed_url", "is not an http or https URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise Invalid("embed_url", "is not an http or https URL")
    if "@" in parts.netloc:
        raise Invalid("embed_url", "holds a name or password; give the key as embed_key")
    path = parts.path.rstrip("/")
    path = path if path.endswith("/embeddings") else f"{path}/embeddings"
    address = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return address, urlunsplit((parts.scheme, parts.netloc, path, "", "")), host
