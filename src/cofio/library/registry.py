"""Which checkpointer a string means: `memory`, `file:DIR`, `redis:HOST:PORT` …

Those of cofio are known by name, others register themselves: in a program with `register_checkpointer`, from a package
with an entry point in the group `cofio.checkpointers`. Either way it is a callable that takes keywords, what stands
behind the colon as `config_hint`, and returns a checkpointer, or whatever else its user asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .checkpointer import BaseCheckpointer

if TYPE_CHECKING:
    from .providers.document_checkpointer import Clock

__all__ = ["get_checkpointer", "list_checkpointers", "register_checkpointer"]

GROUP = "cofio.checkpointers"
Factory = Callable[..., Any]

_registered: dict[str, Factory] = {}

_ELSEWHERE = ("mysql", "opensearch", "oci", "oracle")
_OCI = (
    " A bucket of OCI needs none: it speaks the protocol of S3, so use "
    "get_checkpointer('s3:BUCKET', endpoint_url='https://NAMESPACE.compat.objectstorage.REGION.oraclecloud.com')."
)


def register_checkpointer(name: str, factory: Factory) -> None:
    """Make `get_checkpointer("NAME:HINT", …)` call the factory with its keywords, and with `config_hint="HINT"`.

    A name that is known already, also one of cofio's own, means the new factory from then on.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"name: expected a word without a colon, got {name!r}")
    if not callable(factory):
        raise TypeError(f"factory: expected something to call, got {type(factory).__name__}")
    _registered[name] = factory


def list_checkpointers() -> list[str]:
    """List the names that `get_checkpointer` knows: cofio's own, those of installed packages, and the registered."""
    installed = sorted(point.name for point in entry_points(group=GROUP))
    return list(dict.fromkeys([*_OWN, *installed, *_registered]))


def get_checkpointer(checkpointer_string: str, **kwargs: Any) -> BaseCheckpointer:
    """Get the checkpointer that a string means, `PROVIDER` or `PROVIDER:HINT`; keywords go to the provider.

    | String | Where the checkpoints are |
    |---|---|
    | `memory` | in this process; a hint and keywords are ignored |
    | `file:DIR` | in a folder |
    | `sqlite:PATH`, `cofio:PATH` | in a store of cofio |
    | `redis:HOST:PORT`, `redis://…` | in Redis |
    | `postgresql:DATABASE`, `postgresql:DSN`, `postgresql://…` | in a store of cofio on PostgreSQL |
    | `http:URL`, `http://…`, `https://…` | on a server such as `cofio serve` |
    | `s3:BUCKET/PREFIX` | in a bucket of S3, or of what speaks its protocol at `endpoint_url` |

    Raises:
        ValueError: No package provides it, or the hint is not one.
        ImportError: Its driver is not installed; the message says what to install.
    """
    if not isinstance(checkpointer_string, str):
        raise TypeError(f"checkpointer_string: expected a string, got {type(checkpointer_string).__name__}")
    name, _, hint = checkpointer_string.partition(":")
    if hint:
        kwargs["config_hint"] = hint
    checkpointer: BaseCheckpointer = _find_factory(name)(**kwargs)  # a factory of another's may do without the class
    return checkpointer


def _find_factory(name: str) -> Factory:
    found = _registered.get(name) or _OWN.get(name) or _SPELLINGS.get(name)
    return found or _load_installed(name)


def _load_installed(name: str) -> Factory:
    """Find a provider among the packages that are installed."""
    points = {point.value: point for point in entry_points(group=GROUP, name=name)}
    if len(points) > 1:
        packages = ", ".join(sorted(map(_name_package, points.values())))
        raise ValueError(
            f"More than one package provides the checkpointer '{name}': {packages}. Uninstall all but one."
        )
    for point in points.values():
        factory: Factory = point.load()
        return factory
    raise ValueError(_explain_unknown(name))


def _explain_unknown(name: str) -> str:
    text = f"Unknown checkpointer provider: '{name}'. Available providers: {list_checkpointers()}. "
    if name not in _ELSEWHERE:
        return text + "Install optional dependencies or register a custom provider."
    return (
        f"{text}cofio has no '{name}' of its own: install a package with the entry point '{name}' in the group "
        f"'{GROUP}', or call register_checkpointer('{name}', factory)." + (_OCI if name == "oci" else "")
    )


def _name_package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _memory(clock: Clock | None = None, **_: Any) -> BaseCheckpointer:
    """Make one; what other providers take means nothing here, so that a program can be tried with this one."""
    from .providers.memory import MemoryCheckpointer

    return MemoryCheckpointer(clock=clock)


def _file(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    from .providers.file import FileCheckpointer

    if config_hint:
        if config_hint.startswith("//"):
            parts = urlsplit("file:" + config_hint)
            if parts.netloc not in ("", "localhost"):
                raise ValueError(f"file:{config_hint} is on another machine; write file:DIR or file:///DIR")
            config_hint = unquote(parts.path)
        kwargs.setdefault("base_dir", config_hint)
    return FileCheckpointer(**kwargs)


def _cofio(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    from .durable import CofioCheckpointer

    if config_hint:
        kwargs.setdefault("store", config_hint)
    return CofioCheckpointer.open(**kwargs)


def _redis(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    from .providers.redis import RedisCheckpointer

    if config_hint:
        kwargs.setdefault("url", config_hint if "://" in config_hint else f"redis://{config_hint.removeprefix('//')}")
    return RedisCheckpointer(**kwargs)


def _rediss(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    return _redis(config_hint=config_hint and f"rediss:{config_hint}", **kwargs)


def _postgresql(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    from .providers.postgresql import PostgreSQLBackend

    if config_hint:
        if config_hint.startswith("//"):
            config_hint = "postgresql:" + config_hint
        kwargs.setdefault("dsn" if "://" in config_hint or "=" in config_hint else "database", config_hint)
    return PostgreSQLBackend(**kwargs)


def _http(config_hint: str | None = None, scheme: str = "http", **kwargs: Any) -> BaseCheckpointer:
    from .providers.http import HTTPCheckpointer

    if config_hint:
        address = config_hint if "://" in config_hint else f"{scheme}://{config_hint.removeprefix('//')}"
        kwargs.setdefault("base_url", address)
    if "base_url" not in kwargs:
        raise ValueError(f"{scheme} needs the address of a server: write {scheme}:URL")
    return HTTPCheckpointer(**kwargs)


def _https(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    return _http(config_hint=config_hint, scheme="https", **kwargs)


def _s3(config_hint: str | None = None, **kwargs: Any) -> BaseCheckpointer:
    from .providers.s3 import S3Checkpointer

    bucket, _, prefix = (config_hint or "").removeprefix("//").partition("/")
    if bucket:
        kwargs.setdefault("bucket", bucket)
    if prefix:
        kwargs.setdefault("prefix", prefix)
    if "bucket" not in kwargs:
        raise ValueError("s3 needs the name of a bucket: write s3:BUCKET or s3:BUCKET/PREFIX")
    return S3Checkpointer(**kwargs)


_OWN: dict[str, Factory] = {
    "memory": _memory,
    "file": _file,
    "sqlite": _cofio,
    "cofio": _cofio,
    "redis": _redis,
    "postgresql": _postgresql,
    "http": _http,
    "s3": _s3,
}
_SPELLINGS: dict[str, Factory] = {"https": _https, "rediss": _rediss, "postgres": _postgresql}
