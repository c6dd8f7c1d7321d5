"""The whole application on an empty memory with a client like a browser, and Chromium for servers in processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.doors.rest.http import Door
from cofio.http.admission import CallQueue, ServerLoad
from cofio.http.tokens import Tokens

from ..application import make_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium

    from .real_browser import Tab

HTML = {"Accept": "text/html,application/xhtml+xml"}
SETTINGS = Settings(background=False, embedder="hashed", sync="normal")
ORIGIN = "http://127.0.0.1"


class Browser:
    """A client of the page that shows no pages: it keeps cookies, and sends forms as a browser does."""

    def __init__(self, client: TestClient, engine: Engine, tokens: Tokens, queue: CallQueue) -> None:
        self.client = client
        self.queue = queue
        self.engine = engine
        self.tokens = tokens

    def get(self, path: str, **headers: str) -> Response:
        """Ask for a page."""
        return self.client.get(path, headers=HTML | headers, follow_redirects=False)

    def show(self, path: str) -> str:
        """The page at an address, which must be there."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    def read(self, name: str, **parameters: Any) -> Any:
        """The view as JSON."""
        answer = self.client.get(f"/api/page/{name}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get_form_token(self) -> str:
        """What the forms of this browser carry."""
        found = re.search(r'name="form_token" value="(\w+)"', self.get("/page/signin").text)
        assert found is not None
        return found[1]

    def post(self, path: str, /, *, origin: str | None = ORIGIN, accept: str = "text/html", **fields: Any) -> Response:
        """Send a form, with its token unless another is given."""
        sent = {"form_token": self.get_form_token(), **fields}
        headers = {"Accept": accept} | ({"Origin": origin} if origin else {})
        return self.client.post(path, data=sent, headers=headers, follow_redirects=False)


@pytest.fixture
def make_browser(memory: Engine, store_address: StoreAddress) -> Iterator[Callable[..., Browser]]:
    """Makes browsers of servers on the test's memory; `strict` ones need a token."""
    opened: list[TestClient] = []
    tokens = Tokens(memory.shared_values or store_address.home)

    def make(*, strict: bool = False, conversations: Conversations | None = None) -> Browser:
        load = ServerLoad()
        door = Door(conversations or Conversations(memory), SETTINGS.zone)
        host = "0.0.0.0" if strict else "127.0.0.1"
        application = make_app(store_address, memory, settings=SETTINGS, door=door, load=load, host=host)
        opened.append(TestClient(application, base_url=ORIGIN).__enter__())
        (queue,) = [each for each in load._queues if each.door == "page"]
        return Browser(opened[-1], memory, tokens, queue)

    yield make
    for each in opened:
        each.__exit__(None, None, None)


@pytest.fixture
def browser(make_browser: Callable[..., Browser]) -> Browser:
    """A browser that needs no token."""
    return make_browser()


@pytest.fixture
def ask(memory: Engine, clock: Callable[[], datetime]) -> Callable[..., ViewRequest]:
    """Makes requests for a view alone, at the time of the clock: parameters by their names, and who asks."""

    def make(viewer: Viewer | None = None, **parameters: str | list[str]) -> ViewRequest:
        values = {name: tuple(value) if isinstance(value, list) else (value,) for name, value in parameters.items()}
        return ViewRequest(engine=memory, viewer=viewer or Viewer(), parameters=values, now=clock())

    return make


@pytest.fixture(scope="module")
def chromium(process: None) -> Iterator[Chromium]:
    """Debian's Chromium; one for all tests of a file."""
    from .real_browser import open_chromium

    with open_chromium() as opened:
        yield opened


@pytest.fixture
def open_window(chromium: Chromium) -> Iterator[Callable[..., Tab]]:
    """Opens windows of the real browser that share nothing with each other."""
    from .real_browser import Tab

    tabs: list[Tab] = []

    def make(url: str, **options: Any) -> Tab:
        tabs.append(Tab(chromium, url, **options))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.close()
