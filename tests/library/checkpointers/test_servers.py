"""A server that is not installed is left out, and missed where it was promised."""

from __future__ import annotations

import pytest

from . import servers


def test_a_missing_server_skips_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COFIO_TEST_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="thing is not installed"):
        servers.missing("thing")


def test_a_missing_server_that_was_promised_fails_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_TEST_SERVERS", "1")
    with pytest.raises(pytest.fail.Exception, match="thing is not installed, and COFIO_TEST_SERVERS=1"):
        servers.missing("thing")
