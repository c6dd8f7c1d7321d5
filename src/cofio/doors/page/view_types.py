"""What a view and an action of the page are, and what each is given by a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import urlencode

from ...config.address import StoreAddress
from ...config.settings import Settings
from ...conversations.conversations import Conversations
from ...engine.engine import Engine
from ...http.metrics import Metrics
from ...values.errors import Invalid
from ...values.records import Scope
from .viewer import Viewer

Parameters: TypeAlias = Mapping[str, tuple[str, ...]]
"""The values of a query string or a form, by their names."""
Model: TypeAlias = Any
"""What a view shows: a dict or a dataclass of values that `to_json` of renderer.py can make JSON of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServer:
    """What the page knows of the server that it belongs to."""

    engine: Callable[[], Engine]
    address: StoreAddress
    settings: Settings
    conversations: Conversations | None = None
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """A request for a view, or for an action: who asks, of which memory, with which parameters."""

    engine: Engine
    viewer: Viewer = field(default_factory=Viewer)
    parameters: Parameters = field(default_factory=dict)
    server: PageServer | None = None
    """None in tests of a view alone."""
    address: str = "http://127.0.0.1:8427"
    """Where the reader has found the page."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def conversations(self) -> Conversations:
        """What changes are made by, so that the files of the vault follow."""
        own = None if self.server is None else self.server.conversations
        return own or Conversations(self.engine)

    def get(self, name: str, default: str = "") -> str:
        """The first value of a parameter."""
        values = self.parameters.get(name, ())
        return values[0] if values else default

    def get_all(self, name: str) -> tuple[str, ...]:
        """Every value of a parameter that is not empty, each once."""
        return tuple(dict.fromkeys(value for value in self.parameters.get(name, ()) if value))

    def get_int(self, name: str, default: int, low: int, high: int) -> int:
        """A parameter that is a whole number from `low` to `high`.

        Raises:
            Invalid: it is something else.
        """
        text = self.get(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16 and low <= int(text) <= high):
            raise Invalid(name, f"expected a whole number from {low:,} to {high:,}")
        return int(text)

    def get_scope(self, name: str = "scope") -> Scope:
        """The scope that a parameter names, or all that the viewer sees.

        Raises:
            Invalid: it is no scope.
            RequestError: the viewer does not see it.
        """
        return self.viewer.narrow(Scope.parse(self.get(name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a view, as the OpenAPI document describes it."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


SCOPE = Parameter(name="scope", description="Only this scope and all that is under it, as `mcp/notes`.")
OFFSET = Parameter(
    name="offset", description="How many to leave out at the beginning.", schema={"type": "integer", "minimum": 0}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A screen: its page at `/page/NAME`, and the same as JSON at `/api/page/NAME`, with the same parameters."""

    name: str
    title: str
    build: Callable[[ViewRequest], Model]
    """Makes the view model, which the template gets as `view`."""
    summary: str
    """What it shows, in a sentence, for the OpenAPI document."""
    parameters: tuple[Parameter, ...] = ()
    in_navigation: bool = True
    template: str = ""
    """The template's name, `NAME.html` if left out."""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """What the JSON is, for the OpenAPI document."""

    @property
    def template_name(self) -> str:
        """The template that renders it."""
        return self.template or f"{self.name}.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an action came to: where to go next, and a sentence for the reader."""

    location: str
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What a script wants to know of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """An action that was not carried out, so that the reader is shown their form once more, with why."""

    template: str
    model: Model
    message: str
    status: int = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A change that a form makes: POST to `/page/NAME`, as `record/edit`. The guard against forgery is before it."""

    name: str
    run: Callable[[ViewRequest], Outcome | Rejection]
    """Makes the change; `parameters` are the fields of the form. It may raise any of the five errors."""
    summary: str


def make_link(name: str, **parameters: object) -> str:
    """The address of a view with these parameters; those that are None or empty are left out."""
    pairs = [
        (key, str(each))
        for key, value in parameters.items()
        for each in (value if isinstance(value, list | tuple) else (value,))
        if each is not None and str(each) != ""
    ]
    path = "/" if name == "search" else f"/page/{name}"
    return f"{path}?{urlencode(pairs)}" if pairs else path
