"""What is at `/`."""

from __future__ import annotations

import pytest

from .conftest import Browser


@pytest.mark.requirement("page:home")
def test_a_browser_is_shown_a_page(browser: Browser) -> None:
    text = browser.show("/")
    assert "<title>" in text
    assert "cofio" in text


@pytest.mark.requirement("page:home")
def test_other_clients_learn_where_the_doors_are(browser: Browser) -> None:
    answer = browser.client.get("/")
    assert answer.json()["mcp"] == "/mcp"
