"""all-MiniLM-L6-v2 on this machine, through onnxruntime: no key, no server, no PyTorch."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import time
from dataclasses import dataclass
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from ..system.processes import run_after_fork
from ..values.errors import Unavailable
from . import embed_in_turn, replace_surrogates
from .runtime import import_onnxruntime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

ID = "minilm-l6-v2-int8"
DIMENSIONS = 384
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
MANIFEST = "manifest.json"
UNREADABLE = "the folder of models cannot be read: `cofio model status` says which and what to do"

_PATIENCE = 10.0  # seconds that the end of a program waits for texts that are being read
_MOST_TOKENS = 256
# The tokenizer would read a whole book to keep its first 256 tokens; hardly any text gets this far.
_MOST_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a file must be: its sha256 and its size in bytes."""

    sha256: str
    size: int

    def matches_size(self, path: Path) -> bool:
        """Whether the file is there, in full length; does not read it."""
        return path.is_file() and path.stat().st_size == self.size

    def matches(self, path: Path) -> bool:
        """Whether the file is this very file; reads all of it."""
        return self.matches_size(path) and compute_pin(path) == self


def compute_pin(path: Path) -> Pin:
    """What the file is now."""
    with path.open("rb") as file:
        return Pin(sha256=hashlib.file_digest(file, "sha256").hexdigest(), size=path.stat().st_size)


class Unreadable(Unavailable):
    """The model may be there, but the system does not let this process read it."""

    def __init__(self, path: Path, error: OSError) -> None:
        """For a file of the model."""
        super().__init__(
            f"the models in {path.parent.parent} cannot be read ({error.strerror}): "
            "set COFIO_MODELS to a folder that you can read and write, for this command and for all later ones",
            public=UNREADABLE,
        )


def read_pins(folder: Path) -> Mapping[str, Pin]:
    """What the folder's manifest says of its files, all of which are there and in full length.

    Raises:
        Unreadable: the system does not let this process see.
        Unavailable: the model is not installed, or its files are torn.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        recorded = {
            name: Pin(sha256=manifest["files"][name]["sha256"], size=manifest["files"][name]["size"])
            for name in (GRAPH, TOKENIZER)
        }
    except (FileNotFoundError, NotADirectoryError):
        raise Unavailable(f"{ID} is not installed: run `cofio model install`") from None
    except OSError as error:
        raise Unreadable(folder / MANIFEST, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _make_torn(folder / MANIFEST) from error
    for name, expected in recorded.items():
        _check(folder / name, expected.matches_size)
    return recorded


def _check(path: Path, fits: Callable[[Path], bool]) -> None:
    try:
        is_whole = fits(path)
    except OSError as error:
        raise Unreadable(path, error) from error
    if not is_whole:
        raise _make_torn(path)


def is_installed(models: Path) -> bool:
    """Whether the model is there with all its files; does not read the large one."""
    try:
        read_pins(models / ID)
    except Unavailable:
        return False
    return True


class MiniLM:
    """The installed model; its files are found when it is made, and read when the first text comes."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        """Look for the model in its folder.

        `threads` is how many work on one text. More than one costs more than it gains on texts this short;
        callers on several threads run side by side anyway.

        Raises:
            Unavailable: the model is not installed, its files are torn, or they cannot be read.
        """
        self._pins = read_pins(folder)
        self._folder = folder
        self._threads = threads
        self._lock = Lock()
        # More texts at once than there are cores would be no faster, only take 8 MB each.
        self._most = os.cpu_count() or 1
        self._turns = Semaphore(self._most)
        self._network: Network | None = None
        self._ended = False
        _open.add(self)

    @property
    def id(self) -> str:
        """Names the weights and their precision."""
        return ID

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        return DIMENSIONS

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

        network = self._network or self._load()
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            with self._turns:
                self._check_open()
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

    def _check_open(self) -> None:
        if self._ended:
            raise SystemExit  # ends the thread, if it is not the main one, and nothing else

    def _load(self) -> Network:
        with self._lock:
            self._check_open()
            if self._network is None:
                for name, expected in self._pins.items():
                    _check(self._folder / name, expected.matches)
                graph, tokenizer = self._folder / GRAPH, self._folder / TOKENIZER
                self._network = Network(graph, tokenizer, threads=self._threads)
            return self._network


_open: WeakSet[MiniLM] = WeakSet()
run_after_fork(_open.clear)  # whose threads, and what they hold, are the parent's


@atexit.register
def _end_all() -> None:
    for each in list(_open):
        each.end()


class Network:
    """A graph and its tokenizer in memory: one text in, one vector out.

    One text at a time, on purpose: the int8 graph scales its activations by the largest value in a batch, so
    neighbours would change a text's vector (cosine down to .977), for a tenth more speed at best.
    """

    def __init__(self, graph: Path, tokenizer: Path, *, threads: int = 1) -> None:
        """Read both files; takes about 50 MB."""
        from .wordpiece import WordPiece

        self._session = _open_session(graph, threads)
        self._tokenizer = WordPiece(tokenizer, most=_MOST_TOKENS)

    def embed(self, text: str) -> NDArray[np.float32]:
        """The text's vector, of length one."""
        import numpy as np

        tokens = self._tokenizer.encode(replace_surrogates(text[:_MOST_CHARACTERS]))
        (vectors,) = self._session.run(None, {"input_ids": np.array([tokens], np.int64)})
        vector: NDArray[np.float32] = vectors[0]
        return vector


class _Session(Protocol):
    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, NDArray[np.int64]]
    ) -> list[NDArray[np.float32]]: ...


def _open_session(graph: Path, threads: int) -> _Session:
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A pool that spins between texts would take a core away from everything else on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The arena stays on: without it, each thread that ever embedded a long text keeps some 15 MB in malloc.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    session: _Session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    return session


def _make_torn(path: Path) -> Unavailable:
    # Without its folder: this goes to agents, too, with each answer.
    return Unavailable(f"{path.name} of {ID} is not the file that was installed: run `cofio model install --force`")
