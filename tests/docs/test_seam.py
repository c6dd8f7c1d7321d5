"""The interface that every backend has: how large it is, and that it names nothing of a backend's own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from cofio.backends import checkpoint_interface, interface, record_interface, search_interface, upkeep_interface

ROOT = Path(__file__).parents[2]
MODULES = (interface, upkeep_interface, record_interface, search_interface, checkpoint_interface)
PROTOCOLS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and getattr(value, "_is_protocol", False) and value.__module__ == module.__name__
]
OWN = {"file", "folder", "path", "lease", "lock", "seq", "now"}
"""What belongs to one backend, or is the backend's to know, and is no parameter of the interface."""


def methods(protocol: type) -> dict[str, Callable[..., object]]:
    """The methods that a backend has to write for a protocol: not its properties, nor those that it inherits."""
    return {
        name: value for name, value in vars(protocol).items() if inspect.isfunction(value) and not name.startswith("_")
    }


def test_the_architecture_says_how_many_methods_the_seam_has() -> None:
    counted = {protocol.__name__: len(methods(protocol)) for protocol in PROTOCOLS}
    page = " ".join((ROOT / "ARCHITECTURE.md").read_text().split())
    (sentence,) = re.findall(r"The seam has ([^.]*)\.", page)
    each = ", ".join(f"`{name}` {count}" for name, count in counted.items())
    assert sentence == f"{sum(counted.values())} methods: {each}"


def test_no_method_of_the_seam_names_what_is_one_backend_s_own() -> None:
    for protocol in PROTOCOLS:
        for name, method in methods(protocol).items():
            assert OWN.isdisjoint({name, *inspect.signature(method).parameters}), (protocol.__name__, name)
