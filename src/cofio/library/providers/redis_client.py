"""What checkpoints and items in Redis share: the client, what scripts begin with, and what errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...config.installation import install_command
from ...values.errors import Unavailable

try:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError
    from redis.retry import Retry
except ImportError as error:
    raise ImportError(f"the backend redis needs its driver: {install_command('redis')}") from error

# Percent-encoded, a name has no colon and no slash, so that what a key is made of can be told apart.
ENCODE = """
local prefix = ARGV[1]
local function encode(text)
  return (text:gsub('[^%w_.~-]', function(byte) return string.format('%%%02X', byte:byte()) end))
end
"""

NO_RETRY = Retry(NoBackoff(), 0)


def connect(url: str, **options: Any) -> Redis:
    """A client of the server, which connects when it is used.

    Raises:
        ValueError: it is no URL of a server; what it is does not stand in the message.
    """
    try:
        client: Redis = Redis.from_url(url, decode_responses=True, **options)
    except (ValueError, AttributeError):  # the text of which may have a part of the password
        raise ValueError(
            "url: expected redis://HOST:PORT/DB, rediss://… or unix://…; "
            "in a password, write / ? # and @ percent-encoded"
        ) from None
    return client


def end_prefix(prefix: str) -> str:
    """The prefix with a colon at its end, unless it is empty."""
    if not isinstance(prefix, str):
        raise TypeError(f"prefix: expected a string, got {type(prefix).__name__}")
    return prefix if not prefix or prefix.endswith(":") else f"{prefix}:"


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise Unavailable for what the server or the way to it fails at, with what to check."""
    try:
        yield
    except RedisError as error:  # it names the host and the port, and never the password
        problem = str(error).strip().rstrip(".") or type(error).__name__
        raise Unavailable(
            f"the {what} in Redis cannot be reached: {problem}; check the URL, the user and the password, "
            "and that the server runs and has room"
        ) from error
