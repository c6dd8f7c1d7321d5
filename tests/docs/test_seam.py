"""The interface that every backend has names nothing of a backend's own."""

from __future__ import annotations

import inspect

from cofio.backends import checkpoint_interface, interface, record_interface, search_interface, upkeep_interface

MODULES = (interface, upkeep_interface, record_interface, search_interface, checkpoint_interface)
PROTOCOLS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and getattr(value, "_is_protocol", False) and value.__module__ == module.__name__
]
OWN = {"file", "folder", "path", "lease", "lock", "seq", "now"}
"""What belongs to one backend, or is the backend's to know, and is no parameter of the interface."""


def test_no_method_of_the_seam_names_what_is_one_backend_s_own() -> None:
    for protocol in PROTOCOLS:
        methods = {name: each for name, each in vars(protocol).items() if inspect.isfunction(each) and name[0] != "_"}
        for name, method in methods.items():
            assert OWN.isdisjoint({name, *inspect.signature(method).parameters}), (protocol.__name__, name)
