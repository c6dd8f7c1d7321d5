"""The protocol's own conformance suite, on both revisions that it has requirements for.

Most of its scenarios ask for tools of their own, which test the SDK and not cofio. Those on streams go by the clock:
on a busy machine their timers end before anything was tested. Neither are looked at.
"""

from __future__ import annotations

import re

import pytest

from .conftest import Npm

BOTH = {
    "dns-rebinding-protection", "prompts-list", "resources-list", "tools-call-error", "tools-call-simple-text",
    "tools-list",
}  # fmt: skip
SCENARIOS = {
    "2025-11-25": BOTH | {"ping", "server-initialize"},
    "2026-07-28": BOTH | {"caching", "http-header-validation", "sep-2164-resource-not-found"},
}
SCENARIO = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


@pytest.mark.requirement("clients.conformance")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_server_passes_the_scenarios_that_need_no_tools_of_the_suite(npm: Npm, serve: str, revision: str) -> None:
    ran = npm("conformance", "server", "--url", serve, "--requirements", revision)
    results = {name: int(passed) > 0 and failed == "0" for name, passed, failed in SCENARIO.findall(ran.stdout)}
    assert {name for name, passed in results.items() if passed} >= SCENARIOS[revision], ran.stdout + ran.stderr
