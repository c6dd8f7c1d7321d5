"""The three tiers of the suite, derived from what a test uses: `pytest --tier quick`, `test` or `slow`.

- quick: no process, PostgreSQL, real model, browser, Node or Redis. A quick test that starts a process fails.
- test: quick, and whatever else a release must pass.
- slow: what `test` leaves out (more index states, wide fault injection), and longer runs of the property tests.

Without `--tier` all cases run. `--backend sqlite` keeps those of one backend.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

TESTS = Path(__file__).parent

NOT_QUICK_FOLDERS = {
    TESTS / name
    for name in (
        "docs", "embed", "examples", "faults", "importing", "library/adapters", "library/langgraph", "llm", "network",
        "package", "postgresql", "quality", "vault",
    )
}  # fmt: skip
"""Folders of which no test is quick. `make quick` does not even import them, nor the frameworks that they test."""

NOT_QUICK_FIXTURES = {"process", "models"}
"""Fixtures that start a process or load the real model. Others take `process` as a parameter, and so do tests."""

NOT_QUICK_VALUES = {
    "http", "postgres", "postgresql", "postgresql_backend", "redis", "redis-backend", "redis_backend", "s3",
}  # fmt: skip
"""Values of the parameters that name a backend or a provider, of which each stands for a server."""

BACKEND_PARAMETERS = {"backend", "backend_under_test", "provider", "store"}

SLOW_FIXTURES = {"wide"}
"""Fixtures of tests that are left to `make slow`."""

SLOW_STATES = {"tail", "settled"}
"""Index states of a store on SQLite that are left to `make slow`; `mixed` has something of both."""

USUAL_EXAMPLES = 100
QUICK_SHARE, SLOW_EXAMPLES, TORTURE_EXAMPLES = 0.4, 4, 40
"""Factors by which `make quick`, `make slow` and `make torture` change the number of examples of a property."""

PROCESS_EVENTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"}


class Run:
    """What this run of pytest is for."""

    tier = ""
    quick_test = ""
    """The quick test under way, if one is."""


def scale_examples(usual: int) -> int:
    """Return how many examples of a property to try in this tier."""
    if os.environ.get("COFIO_TORTURE") == "1":
        return usual * TORTURE_EXAMPLES
    return {"quick": max(1, round(usual * QUICK_SHARE)), "slow": usual * SLOW_EXAMPLES}.get(Run.tier, usual)


def find_tier(item: pytest.Item) -> str:
    """Return the first tier that a test runs in."""
    fixtures = set(getattr(item, "fixturenames", ()))
    parameters: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    backends = {str(value) for name, value in parameters.items() if name in BACKEND_PARAMETERS}
    if fixtures & SLOW_FIXTURES or ("sqlite" in backends and parameters.get("state") in SLOW_STATES):
        return "slow"
    if fixtures & NOT_QUICK_FIXTURES or backends & NOT_QUICK_VALUES or NOT_QUICK_FOLDERS & {*item.path.parents}:
        return "test"
    return "quick"


def is_property(item: pytest.Item) -> bool:
    """Return whether hypothesis runs the test, or the test runs a state machine of hypothesis'."""
    function = getattr(item, "function", None)
    code = getattr(function, "__code__", None)
    is_machine = code is not None and "run_state_machine_as_test" in code.co_names
    return is_machine or bool(getattr(function, "is_hypothesis_test", False))


def is_wanted(item: pytest.Item, tier: str, backend: str) -> bool:
    """Return whether a test belongs to a tier and runs on a backend; "" stands for all of them."""
    parameters: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    if backend and str(parameters.get("backend_under_test", backend)) != backend:
        return False
    found = find_tier(item)
    return {
        "": True,
        "quick": found == "quick",
        "test": found != "slow",
        "slow": found == "slow" or is_property(item),
    }[tier]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose a part of the suite."""
    parser.addoption("--tier", choices=("quick", "test", "slow"), default="", help="run one tier of the suite")
    parser.addoption("--backend", choices=("sqlite", "postgres"), default="", help="run the cases of one backend")


def pytest_configure(config: pytest.Config) -> None:
    """Note the tier before any test module is imported, and set how many examples of a property it tries."""
    Run.tier = config.getoption("--tier")
    hypothesis.settings.register_profile("tier", max_examples=scale_examples(USUAL_EXAMPLES))
    hypothesis.settings.load_profile("tier")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over whole folders without quick tests."""
    return True if config.getoption("--tier") == "quick" and collection_path in NOT_QUICK_FOLDERS else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier and the backend."""
    tier, backend = config.getoption("--tier"), config.getoption("--backend")
    chosen = [item for item in items if is_wanted(item, tier, backend)]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Forbid a quick test to start a process."""
    Run.quick_test = item.nodeid if find_tier(item) == "quick" else ""
    try:
        return (yield)
    finally:
        Run.quick_test = ""


def forbid_processes(event: str, _: tuple[Any, ...]) -> None:
    """Fail a quick test that starts a process."""
    if event in PROCESS_EVENTS and Run.quick_test:
        raise AssertionError(
            f"{Run.quick_test} starts a process, so it is not quick: let it take the fixture `process`"
        )


sys.addaudithook(forbid_processes)
