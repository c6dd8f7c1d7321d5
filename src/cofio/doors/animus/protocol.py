"""The words of the protocol: the manifest, the answer to `initialize`, and the numbers of its errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ... import __version__
from . import CODES_VARIABLE

if TYPE_CHECKING:
    from ...values.records import Json

NAME = "animus-memory-cofio"
KIND = "memory_store"
DESCRIPTION = "Durable memory in the project's own folder, shared with every other agent that uses cofio."
PROTOCOL = "1.1.0"
CRATE = "0.1.0"
MAX_TOP_K = 50

MEMORY_METHODS = ("memory/put", "memory/get", "memory/query", "memory/list_scopes", "memory/delete_scope")
METHODS = ("initialize", "$/ping", "health/check", "shutdown", "exit", *MEMORY_METHODS)

ERRORS = (
    "SCOPE_NOT_FOUND", "KEY_NOT_FOUND", "MEMORY_SCOPE_COLLISION", "BACKEND_UNAVAILABLE", "RATE_LIMITED",
    "QUERY_TOP_K_EXCEEDED", "PROJECT_BINDING_MISMATCH",
)  # fmt: skip
"""The errors of memory, in the order of their codes; the first two are never sent."""
NOT_INITIALIZED = -32000
_BLOCKS = {"seed": -32300, "crate": -32400}

# The host passes on no other variable. Those of `cofio serve` and of what is typed are of no use here.
VARIABLES = {
    "COFIO_STORE": "the memory's folder or the URL of its database; without it, the nearest .cofio of the project",
    "AGENT_STORE_PATH": "the same, as agent-memory-store calls it",
    "COFIO_EMBEDDER": "what makes vectors: minilm, multilingual, remote, none",
    "COFIO_EMBED_URL": "the OpenAI-compatible endpoint of the remote embedder",
    "COFIO_EMBED_MODEL": "the model to ask of that endpoint",
    "COFIO_EMBED_KEY": "the key of that endpoint",
    "COFIO_MODELS": "the folder of installed models",
    "COFIO_FETCH_MODEL": "whether a model that is missing is fetched in the background",
    "COFIO_TOKEN_CODES": "whether texts are compared word by word, too",
    "XDG_CACHE_HOME": "the user's cache, in which models are installed",
    "XDG_CONFIG_HOME": "the user's configuration: settings for all memories, and which memories are trusted",
    "XDG_DATA_HOME": "the user's data: settings and the vault of a memory that is on PostgreSQL",
    "PGPASSFILE": "the file of the passwords of databases, if it is not the usual one",
    "PGPASSWORD": "the password of the database",
    "COFIO_READ_STORE": "the URL of a standby of the database that answers reads",
    "COFIO_REPLICA_LAG": "how many seconds its answers may be old",
    "LOCALAPPDATA": "the user's cache and data on Windows",
    "APPDATA": "the user's configuration on Windows",
    "COFIO_POOL_SIZE": "on PostgreSQL: how many connections at most",
    "COFIO_ROW_SECURITY": "on PostgreSQL: whether the database, too, holds each call to the scopes that it is about",
    "COFIO_SYNC": "full or normal: whether a write survives a power cut",
    "COFIO_FUSION": "convex or rrf: how rankings by words and by meaning become one",
    "COFIO_FLOOR": "the least relevance of what a query finds, from 0 to 1",
    "COFIO_BACKGROUND": "whether to index and embed in the background",
    CODES_VARIABLE: "seed (-323xx, the default) or crate (-324xx)",
}
_SENSITIVE = ("COFIO_STORE", "COFIO_EMBED_KEY", "PGPASSWORD", "COFIO_READ_STORE")  # a URL may hold a password


def render_manifest() -> str:
    """The manifest as one line: the same for as long as the package's version is."""
    variables: list[Json] = [
        {"name": name, "description": about, "sensitive": name in _SENSITIVE, "required": False}
        for name, about in VARIABLES.items()
    ]
    manifest: dict[str, Json] = {
        "name": NAME, "version": __version__, "plugin_kind": KIND, "description": DESCRIPTION,
        "protocol_version": PROTOCOL, "capabilities": list(METHODS), "env_required": variables,
        "notification_buffer_size": None,
    }  # fmt: skip
    return json.dumps(manifest, separators=(",", ":")) + "\n"


def describe_plugin() -> dict[str, Json]:
    """The result of `initialize`: in the shape of the crate and in that of the reference plugin, both at once."""
    capability: dict[str, Json] = {
        "crate_version": CRATE,
        "extra": {
            "native_ttl": True, "native_key_get": True, "strong_consistency": True, "max_query_top_k": MAX_TOP_K,
        },
    }  # fmt: skip
    return {
        "protocol_version": PROTOCOL,
        "plugin_info": {"name": NAME, "version": __version__, "plugin_kind": KIND, "description": DESCRIPTION},
        "capabilities": {
            "methods": [*MEMORY_METHODS, "health/check"], "streaming": False, "progress": False, "cancellation": False,
            KIND: capability,
        },
        "kind_capabilities": {KIND: capability},
        "kinds": [KIND],
        "server_info": {"name": NAME, "version": __version__},
    }  # fmt: skip


def find_code(error: str, profile: str) -> int:
    """The number of one of ERRORS: two editions of the protocol count from different blocks."""
    return _BLOCKS[profile] - 1 - ERRORS.index(error)
