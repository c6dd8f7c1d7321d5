"""Tests of a server that is not installed are skipped, and fail where the server was promised."""

from __future__ import annotations

import pytest

from ... import servers


@pytest.mark.requirement("servers")
def test_a_missing_server_skips_its_tests_and_fails_them_where_it_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COFIO_TEST_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="thing is not installed"):
        servers.missing("thing")
    monkeypatch.setenv("COFIO_TEST_SERVERS", "1")
    with pytest.raises(pytest.fail.Exception, match="thing is not installed, and COFIO_TEST_SERVERS=1"):
        servers.missing("thing")
