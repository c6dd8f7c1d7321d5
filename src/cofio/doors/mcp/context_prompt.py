"""What is known of a user, as a prompt and as a resource: for clients that put it before a model's instructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ...values.errors import Invalid, NotFound
from ...values.records import Json

if TYPE_CHECKING:
    from ...capture.injections import Injection
    from ...engine.engine import Engine

NAME = "user-context"
CONTEXTS = "cofio://context/"
TEMPLATES = (f"{CONTEXTS}{{user}}", f"{CONTEXTS}{{app}}/{{project}}/{{user}}")
DESCRIPTION = (
    "What a user has asked of the assistant, in their words, what is known of them, and what was said before that"
    " answers a question."
)
PROMPT: dict[str, Json] = {
    "name": NAME,
    "title": "What is known of a user",
    "description": DESCRIPTION,
    "arguments": [
        {"name": "user", "description": "Whose memory: the sender of their messages.", "required": True},
        {"name": "query", "description": "What is asked, if something is, in plain words."},
        {"name": "budget", "description": "The tokens that it may cost (default: 1000)."},
        {"name": "app", "description": "The app that the conversations are of (default: default)."},
        {"name": "project", "description": "The project of the app (default: default)."},
    ],
}
_ARGUMENTS = ("user", "query", "budget", "app", "project")


def load_prompt(engine: Engine, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """The result of a `prompts/get`.

    Raises:
        Invalid: an argument is missing, unknown, or cannot be one.
    """
    values = {}
    for name, value in arguments.items():
        if name not in _ARGUMENTS:
            raise Invalid(name, f"is no argument of {NAME}; it takes {', '.join(_ARGUMENTS)}")
        if not isinstance(value, str):
            raise Invalid(name, f"expected a string, got {type(value).__name__}")
        values[name] = value
    if not values.get("user"):
        raise Invalid("user", "is missing: say whose memory it is")
    block = _build(engine, **values)
    content: dict[str, Json] = {"type": "text", "text": block.text, "_meta": {"cofio/stored": True}}
    return {"description": DESCRIPTION, "messages": [{"role": "user", "content": content}]}


def load_resource(engine: Engine, uri: str) -> str:
    """The text of a resource under `CONTEXTS`.

    Raises:
        NotFound: the address names no user.
    """
    *names, user = [unquote(name) for name in uri.removeprefix(CONTEXTS).split("/")]
    if len(names) not in (0, 2) or "" in names:
        raise NotFound(uri)
    app, project = names or ("", "")
    try:
        return _build(engine, user=user, app=app, project=project).text
    except Invalid:
        raise NotFound(uri) from None


def _build(
    engine: Engine, *, user: str, query: str = "", budget: str = "", app: str = "", project: str = ""
) -> Injection:
    from ...capture.user_context import BUDGET, build_context  # not before it is needed
    from ...conversations.projects import Project

    if budget and not (budget.isascii() and budget.isdigit() and len(budget) < 10):
        raise Invalid("budget", "expected a whole number of tokens")
    home = Project(app=app or "default", name=project or "default").owner("user", user)
    tokens = int(budget) if budget else BUDGET
    return engine.run_on_replica(lambda: build_context(engine, [home], query=query, budget=tokens))
