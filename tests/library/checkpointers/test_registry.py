"""Which checkpointer a string means, and what is said where it means none."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from cofio.config.installation import install_command
from cofio.library import registry
from cofio.library.checkpointer import BaseCheckpointer
from cofio.library.durable import CofioCheckpointer
from cofio.library.providers.file import FileCheckpointer
from cofio.library.providers.http import HTTPCheckpointer
from cofio.library.providers.memory import MemoryCheckpointer
from cofio.library.providers.postgresql import PostgreSQLBackend
from cofio.library.providers.redis import RedisCheckpointer
from cofio.library.providers.s3 import S3Checkpointer
from cofio.library.registry import get_checkpointer, list_checkpointers, register_checkpointer

OWN = ["memory", "file", "sqlite", "cofio", "redis", "postgresql", "http", "s3"]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is known to nobody after it."""
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two packages that provide checkpointers, installed as far as Python can tell."""
    (tmp_path / "beyond.py").write_text(
        "from cofio.library.providers.memory import MemoryCheckpointer\n"
        "class Oracle(MemoryCheckpointer):\n"
        "    def __init__(self, config_hint=None, **more):\n"
        "        super().__init__()\n"
        "        self.got = (config_hint, more)\n"
        "def wrong(**more):\n"
        "    return 7\n"
    )
    points = {
        "beyond": ["oracle = beyond:Oracle", "wrong = beyond:wrong", "twice = beyond:Oracle", "memory = beyond:wrong"],
        "further": ["twice = beyond:wrong", "broken = beyond_all_reason:Oracle"],
    }
    for name, lines in points.items():
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[cofio.checkpointers]", *lines, ""]))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("beyond", None)


@pytest.mark.requirement("registry.strings")
def test_each_string_means_its_checkpointer(tmp_path: Path) -> None:
    assert isinstance(get_checkpointer("memory"), MemoryCheckpointer)
    for string, folder in {
        "file:./checkpoints": "checkpoints", "file:/tmp/x:y": "/tmp/x:y", "file:///tmp/a%20b": "/tmp/a b",
        "file": ".cofio_checkpoints", "file:": ".cofio_checkpoints",
    }.items():  # fmt: skip
        found = get_checkpointer(string)
        assert isinstance(found, FileCheckpointer)
        assert found.base_dir == Path(folder)
    given = get_checkpointer("file:ignored", base_dir="given", pretty=False)
    assert isinstance(given, FileCheckpointer)
    assert (given.base_dir, given.pretty) == (Path("given"), False)
    for string, address in {
        "http:http://host:1": "http://host:1", "http://host:1": "http://host:1", "http:host:1": "http://host:1",
        "https://host/v1/": "https://host/v1", "http:https://host": "https://host", "https:host": "https://host",
    }.items():  # fmt: skip
        reached = get_checkpointer(string, timeout=1)
        assert isinstance(reached, HTTPCheckpointer)
        assert (reached.base_url, reached.timeout) == (address, 1)
    for string in ("s3:bucket/some/prefix", "s3://bucket/some/prefix"):
        bucket = get_checkpointer(string, endpoint_url="http://127.0.0.1:1", region_name="r")
        assert isinstance(bucket, S3Checkpointer)
        assert (bucket.bucket, bucket.prefix) == ("bucket", "some/prefix")
    assert repr(get_checkpointer("s3:bucket")) == "S3Checkpointer(bucket='bucket', prefix='cofio/checkpoints')"
    for string in ("sqlite", "cofio"):
        opened = get_checkpointer(f"{string}:{tmp_path / string}")
        assert isinstance(opened, CofioCheckpointer)
        asyncio.run(opened.close())
        assert (tmp_path / string).is_dir()


@pytest.mark.requirement("registry.strings")
def test_servers_are_found_by_host_and_port_and_by_url() -> None:
    for string, place in {
        "redis": ("localhost", 6379, 0), "redis:host:1": ("host", 1, 0), "redis://host:1/2": ("host", 1, 2),
        "redis:redis://host:1": ("host", 1, 0), "rediss://host:1": ("host", 1, 0),
    }.items():  # fmt: skip
        found = get_checkpointer(string, prefix="p")
        assert isinstance(found, RedisCheckpointer)
        options = found._client.connection_pool.connection_kwargs
        assert (options.get("host", "localhost"), options.get("port", 6379), options.get("db", 0)) == place
        assert found.prefix == "p:"
    for string, reached in {
        "postgresql": "postgresql://postgres@localhost:5432/cofio",
        "postgresql:mydb": "postgresql://postgres@localhost:5432/mydb",
        "postgresql://u@h/db": "postgresql://u@h/db", "postgres://u@h/db": "postgresql://u@h/db",
        "postgresql:dbname=x host=h": "postgresql://h/x",
    }.items():  # fmt: skip
        database = get_checkpointer(string)
        assert isinstance(database, PostgreSQLBackend)
        assert database._url == reached


@pytest.mark.requirement("registry.lenient")
def test_memory_ignores_what_means_something_to_others_only() -> None:
    for made in (get_checkpointer("memory:x", ttl=5), get_checkpointer("memory", config_hint="x", base_dir="y")):
        assert type(made) is MemoryCheckpointer

    class Alike:
        """Has the methods, and not the class."""

    def alike(**_: Any) -> Any:
        return Alike()

    register_checkpointer("alike", alike)
    assert isinstance(cast(Any, get_checkpointer("alike:x")), Alike)


@pytest.mark.requirement("registry.unknown", "registry.elsewhere")
@pytest.mark.parametrize("string", ["nope:hint", "", ":hint", "Memory", " memory", "oci:hint", "oracle"])
def test_an_unknown_provider_is_told_with_all_that_are_known_or_what_to_install(string: str) -> None:
    name = string.partition(":")[0]
    with pytest.raises(ValueError, match="Unknown") as told:
        get_checkpointer(string)
    said = str(told.value)
    assert said.startswith(f"Unknown checkpointer provider: '{name}'. Available providers: {OWN}. ")
    elsewhere = f"install a package with the entry point '{name}' in the group 'cofio.checkpointers'"
    assert (elsewhere in said) == (name in ("oci", "oracle"))
    assert (f"register_checkpointer('{name}', factory)" in said) == (name in ("oci", "oracle"))
    assert ("get_checkpointer('s3:BUCKET', endpoint_url=" in said) == (name == "oci")


@pytest.mark.requirement("registry.entry-points")
def test_installed_packages_provide_checkpointers(installed: None) -> None:
    found: Any = get_checkpointer("oracle:mydb", user="me")
    assert type(found).__name__ == "Oracle"
    assert found.got == ("mydb", {"user": "me"})
    assert list_checkpointers() == [*OWN, "broken", "oracle", "twice", "wrong"]
    assert type(get_checkpointer("memory")) is MemoryCheckpointer  # no package takes a name of ours
    assert cast(Any, get_checkpointer("wrong")) == 7  # what a provider makes is its own affair
    with pytest.raises(ValueError, match="More than one package provides the checkpointer 'twice': beyond, further"):
        get_checkpointer("twice")
    with pytest.raises(ModuleNotFoundError, match="beyond_all_reason"):
        get_checkpointer("broken")


@pytest.mark.requirement("registry.register")
def test_a_program_can_register_its_own() -> None:
    got: list[dict[str, Any]] = []

    def factory(**kwargs: Any) -> BaseCheckpointer:
        got.append(kwargs)
        return MemoryCheckpointer()

    register_checkpointer("custom", factory)
    assert list_checkpointers() == [*OWN, "custom"]
    get_checkpointer("custom")
    get_checkpointer("custom:a:b", n=1)
    get_checkpointer("custom:", config_hint="given")
    assert got == [{}, {"config_hint": "a:b", "n": 1}, {"config_hint": "given"}]
    register_checkpointer("file", factory)
    assert type(get_checkpointer("file:x")) is MemoryCheckpointer
    assert list_checkpointers() == [*OWN, "custom"]


@pytest.mark.requirement("registry.bad-input")
def test_what_can_be_no_provider_is_refused() -> None:
    wrong: Any
    for wrong in ("", "a:b", None, 7):
        with pytest.raises(ValueError, match="name"):
            register_checkpointer(wrong, MemoryCheckpointer)
    with pytest.raises(TypeError, match="factory"):
        register_checkpointer("x", wrong)
    for wrong in (None, 7, b"memory"):
        with pytest.raises(TypeError, match="checkpointer_string"):
            get_checkpointer(wrong)
    for string, problem in {
        "http": "write http:URL", "https": "write https:URL",
        "s3": "write s3:BUCKET", "s3:/prefix": "write s3:BUCKET", "file://host/dir": "another machine",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=problem):
            get_checkpointer(string)
    with pytest.raises(TypeError, match="unexpected keyword"):
        get_checkpointer("file:x", base="typo")
    assert list_checkpointers() == OWN


@pytest.mark.requirement("registry.drivers")
@pytest.mark.parametrize(("name", "driver"), [("redis", "redis"), ("postgresql", "psycopg"), ("s3", "boto3")])
def test_a_missing_driver_is_told_with_what_to_install(name: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    for module in [each for each in sys.modules if each.startswith(f"cofio.library.providers.{name}")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=re.escape(install_command(name))):
        get_checkpointer(f"{name}:x")
    assert name in list_checkpointers()


@pytest.mark.requirement("registry.lazy")
@pytest.mark.usefixtures("process")
def test_no_driver_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys; from cofio.library.registry import get_checkpointer; get_checkpointer('memory');"
        "get_checkpointer('file:x');"
        "print({'redis', 'boto3', 'psycopg', 'httpx2', 'mcp', 'apsw'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
