"""An installed model as an embedder: it is loaded when the first text comes, threads share it, and it ends well."""

from __future__ import annotations

import atexit
import os
import time
from contextlib import contextmanager
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakSet

from ..system.processes import run_after_fork
from . import embed_in_turn
from .model_files import Model, Network, check_file, read_pins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

_PATIENCE = 10.0  # seconds that the end of a program waits for texts that are being read

LoadedNetwork = TypeVar("LoadedNetwork", bound=Network, covariant=True)


class LocalEmbedder(Generic[LoadedNetwork]):
    """An installed model; its files are found when it is made, and read when the first text comes."""

    def __init__(self, model: Model, folder: Path, load: Callable[[], LoadedNetwork]) -> None:
        """Look for the model in its folder; `load` reads it.

        Raises:
            Unavailable: the model is not installed, its files are torn, or they cannot be read.
        """
        self._pins = read_pins(folder, model)
        self._model = model
        self._folder = folder
        self._read = load
        self._lock = Lock()
        # More texts at once than there are cores would be no faster, only take 8 MB each.
        self._most = os.cpu_count() or 1
        self._turns = Semaphore(self._most)
        self._network: LoadedNetwork | None = None
        self._ended = False
        _open.add(self)

    @property
    def id(self) -> str:
        """Names the weights and their precision."""
        return self._model.id

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        return self._model.dimensions

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question."""
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def embed_some(self, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        """One row for each of the first texts, as many as about `seconds` allow."""
        return embed_in_turn(self.embed, texts, seconds)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one for each text; what comes after its first 256 tokens does not count.

        Raises:
            Unavailable: the files are not those that were installed, or cannot be read.
        """
        import numpy as np

        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            with self._use_network() as network:
                vectors[row] = network.embed(text)
        return vectors

    def end(self) -> None:
        """Wait for the texts at hand, and read no more: native code must not run while the interpreter ends."""
        self._ended = True
        until, acquired = time.monotonic() + _PATIENCE, 0
        if self._lock.acquire(timeout=_PATIENCE):  # a model that is being loaded
            self._lock.release()
        while acquired < self._most and self._turns.acquire(timeout=max(0.0, until - time.monotonic())):
            acquired += 1
        if acquired:
            self._turns.release(acquired)

    @contextmanager
    def _use_network(self) -> Iterator[LoadedNetwork]:
        """The network, for one text: loaded if need be, and not while the program ends."""
        network = self._network or self._load()
        with self._turns:
            self._check_open()
            yield network

    def _check_open(self) -> None:
        if self._ended:
            raise SystemExit  # ends the thread, if it is not the main one, and nothing else

    def _load(self) -> LoadedNetwork:
        with self._lock:
            self._check_open()
            if self._network is None:
                for name, expected in self._pins.items():
                    check_file(self._folder / name, expected.matches, self._model)
                self._network = self._read()
            return self._network


_open: WeakSet[LocalEmbedder[Network]] = WeakSet()
run_after_fork(_open.clear)  # whose threads, and what they hold, are the parent's


@atexit.register
def _end_all() -> None:
    for each in list(_open):
        each.end()
