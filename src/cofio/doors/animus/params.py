"""What the host asks for, read from its parameters; what is wrong with them, in the words of the reference plugin."""

from __future__ import annotations

from typing import cast

from ...values.records import Json
from ..jsonrpc import INVALID_PARAMS, Params, RpcError
from .owners import Owner

LONGEST_TTL = 365_000 * 86_400  # seconds; what is to last longer than this never ends
SHORTEST_TTL = 1e-6


def make_error(code: int, category: str, message: str, **data: Json) -> RpcError:
    """An error of that code; its data names the category, which is the same whatever the code is."""
    return RpcError(code, message, {"category": category, **data})


def make_invalid(message: str) -> RpcError:
    """The error of a parameter that is wrong."""
    return make_error(INVALID_PARAMS, "invalid_params", message)


def read_root(params: Params) -> str | None:
    """The project that the host binds the process to; None when it does not say."""
    extensions = params.get("init_extensions")
    binding = extensions.get("project_binding") if isinstance(extensions, dict) else None
    if binding is None:
        return None
    root = binding.get("project_root") if isinstance(binding, dict) else None
    if not isinstance(root, str) or not root or "\0" in root or not _is_text(root):
        raise make_invalid("initialize requires init_extensions.project_binding.project_root")
    return root


def _is_text(name: str) -> bool:
    """Whether the name holds no half of a surrogate pair: no file can be called that."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_text(params: Params, method: str, name: str) -> str:
    """A text that must be there, and not be empty."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise make_invalid(f"{method}.{name} must be a non-empty string")
    return value


def read_owner(params: Params) -> Owner:
    """The scope that a call is for. An empty agent or task is none."""
    scope = params.get("scope")
    if not isinstance(scope, dict):
        raise make_invalid("scope must be an object")
    project, agent, task = scope.get("project_id"), scope.get("agent_id"), scope.get("task_id")
    if not isinstance(project, str) or not project:
        raise make_invalid("scope.project_id must be a non-empty string")
    if not isinstance(agent, str | None):
        raise make_invalid("scope.agent_id must be a string or null")
    if not isinstance(task, str | None):
        raise make_invalid("scope.task_id must be a string or null")
    if task and not agent:
        raise make_invalid("scope.task_id requires scope.agent_id")
    owner = Owner(project, agent or None, task or None)
    _ = owner.scope  # names that cannot be kept are refused before anything is done
    return owner


def read_ttl(params: Params) -> float | None:
    """How long a value lasts, as the engine takes it; None for ever."""
    ttl = params.get("ttl_secs")
    if ttl is None:
        return None
    if not isinstance(ttl, int) or isinstance(ttl, bool) or not 0 <= ttl < 2**64:
        raise make_invalid("put.ttl_secs must be a non-negative integer or null")
    return None if ttl > LONGEST_TTL else max(ttl, SHORTEST_TTL)


def read_page(cursor: Json) -> int:
    """The number of the page that a cursor stands for; the first for what is none of ours."""
    good = isinstance(cursor, str) and cursor.isascii() and cursor.isdecimal() and len(cursor) <= 9
    return max(1, int(cast(str, cursor))) if good else 1
