"""What the page lets nobody do: forge a form, run a script, see more than a token is good for."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from threading import Event

import pytest

from cofio import Engine, Importance, Record, Scope
from cofio.conversations.conversations import Conversations, Project
from cofio.doors.example_memory import ExampleMemory
from cofio.doors.page import view_table
from cofio.doors.page.asset_files import load_assets
from cofio.doors.page.routes import describe_paths
from cofio.doors.page.session_cookie import SESSION_SECONDS, make_session
from cofio.extract.extractor import Message
from cofio.http.admission import MAX_WAITING

from .conftest import HTML, ORIGIN, Browser

HOSTILE = [
    "<script>document.title='pwned'</script>",
    '"><img src=x onerror="document.title=\'pwned\'">',
    "' onfocus='alert(1)' autofocus='",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</textarea></title><script>document.title='pwned'</script>",
    "\u202eright to left\u202c and \u200bhidden\u2066",
    "\x01\x1b[31mred\x07\x7f\x85",
    "a" * 900,
    "<!--",
    "%0d%0aSet-Cookie: a=b",
]
KINDS = sorted(view.name for view in view_table.VIEWS)


class Outline(HTMLParser):
    """What a page is made of: its elements, attributes, and the text of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))


def check_page(page: str) -> None:
    """Hold a page to the policy: no script or style in it, no handler, no address elsewhere."""
    for tag, attributes in Outline(page).elements:
        assert tag not in ("style", "iframe", "object", "embed", "base"), tag
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        if tag == "script":
            assert (attributes["src"] or "").startswith("/page/assets/"), attributes
        if tag == "img":
            assert (attributes["src"] or "").startswith("/page/assets/"), attributes
        for name in ("href", "src", "action"):
            address = attributes.get(name)
            assert address is None or address.startswith(("/", "#")), (tag, name, address)
            assert address is None or not address.startswith("//"), address
    assert "document.title='pwned'</script>" not in page


def make_address(name: str, record: Record) -> str:
    """The address of a view."""
    return f"/page/{name}?id={record.id}" if name == "record" else f"/page/{name}"


@pytest.fixture
def hostile(memory: Engine) -> list[Record]:
    """Records with what a stranger might write, in every field."""
    records = []
    for text in HOSTILE:
        # Text that is longer than a name may be, or has what a name may not have, is left to the fields that take it.
        name = re.sub("[\x00]", "", text)[:90]
        records.append(
            memory.write(
                Scope("mcp", name), title=text, text=text, tags=[name], author=name, source=name[:60],
                data={text: [text]}, importance=Importance.HIGH,
            )
        )  # fmt: skip
        records.append(memory.put(Scope("store", name), name, text=text, data=text, title=text))
    return records


@pytest.mark.requirement("page:policy", "page:openapi")
def test_every_view_has_a_strict_policy_nothing_inline_and_json_as_described(browser: Browser) -> None:
    ExampleMemory(Conversations(browser.engine)).load()
    record, paths = browser.engine.list(limit=1)[0], describe_paths()
    for name in KINDS:
        answer = browser.get(make_address(name, record))
        assert answer.status_code == 200
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        check_page(answer.text)
        operation = paths[f"/api/page/{name}"]["get"]
        assert operation["summary"]
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        data = browser.read(name, **{"id": record.id} if name == "record" else {})
        assert set(schema.get("required", ())) <= data.keys()


@pytest.mark.requirement("page:text")
def test_hostile_records_are_text_on_every_page(browser: Browser, hostile: list[Record]) -> None:
    addresses = [make_address(name, hostile[0]) for name in KINDS]
    addresses += [f"/page/record?id={each.id}{more}" for each in hostile for more in ("", "&edit=1", "&delete=1")]
    addresses += [
        "/?q=document+title+pwned+right+red", "/?q=%3Cscript%3Ealert(1)%3C/script%3E&near=1", "/?offset=20",
    ]  # fmt: skip
    for address in addresses:
        page = browser.show(address)
        check_page(page)
        # What is in a form comes back from it, and so is there as it is.
        visible = re.sub(r'<textarea.*?</textarea>|value="[^"]*"', "", page, flags=re.DOTALL)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]", visible), address


@pytest.mark.requirement("page:text", "page:script-free")
def test_every_screen_says_when_there_is_nothing_and_shows_what_there_is_as_text(browser: Browser) -> None:
    nothing = {
        "activity?scope=nowhere": "Nothing has been written", "conversations": "No conversations yet",
        "conversations?tab=people": "Nothing is known", "threads": "No threads", "health": "No model is asked",
        "days?day=2001-01-01": "Nothing was remembered",
    }  # fmt: skip
    for address, sentence in nothing.items():
        assert sentence in browser.show(f"/page/{address}")
    engine, at, text = browser.engine, datetime(2026, 2, 1, 9, tzinfo=UTC), f"{HOSTILE[0]}\u202e"
    engine.write(Scope("notes"), title=text, text=text, author="x\"'<", created_at=at)
    for name in ("one", "two"):
        engine.checkpoints.save("library", "a/b <c>", name, {"text": f"{text} {name}"})
    said = Message(id="m", sender="ann", name="Ann", at=at, text=f"I live in Berlin {text}. I work as a nurse.")
    Conversations(engine).append(Project(), "s<1>", [said])
    Conversations(engine).carve(Project(), "s<1>", whole=True)
    (thread,) = browser.read("threads", space="library")["threads"]
    (person,) = browser.read("conversations", tab="people")["people"]
    (session,) = browser.read("conversations")["sessions"]
    shown = {"/page/activity": "Berlin", "/page/days?day=2026-02-01": "Berlin", "/page/conversations": "s&lt;1&gt;"}
    shown |= {thread["link"]: "a/b &lt;c&gt;", person["link"]: "nurse", session["link"]: "Berlin &lt;script&gt;"}
    for address, part in shown.items():
        page = browser.show(address)
        check_page(page)
        assert part in page
        assert "\u202e" not in page
    assert len(browser.read("health", days=7)["days"]) == 7


@pytest.mark.requirement("page:text")
def test_a_notice_is_text_and_nobody_else_can_put_one_into_an_address(browser: Browser) -> None:
    record = browser.engine.write(Scope("a"), title="<script>alert(1)</script>", text="t")
    browser.engine.write(Scope("a"), text="another")
    for address in ("/?notice=Send+us+your+token", "/?notice=Send+us+your+token&seal=00000000000000000000"):
        assert "Send us your token" not in browser.show(address)
    answer = browser.post("/page/record/delete", id=record.id, version=1)
    page = browser.show(answer.headers["location"])
    check_page(page)
    assert "Deleted: &lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.requirement("page:forgery")
@pytest.mark.parametrize(
    ("origin", "fields"),
    [
        (None, {}), ("http://evil.example", {}), ("null", {}), ("http://127.0.0.1:9999", {}),
        (ORIGIN, {"form_token": ""}), (ORIGIN, {"form_token": "0" * 64}), (ORIGIN, {"form_token": "é"}),
    ],
)  # fmt: skip
def test_a_forged_form_changes_nothing(browser: Browser, origin: str | None, fields: dict[str, str]) -> None:
    record = browser.engine.write(Scope("a"), text="as it was")
    for path in ("/page/record/edit", "/page/record/delete", "/page/start/example"):
        answer = browser.post(path, origin=origin, id=record.id, version=1, text="forged", **fields)
        assert answer.status_code == 403
    assert [each.text for each in browser.engine.list()] == ["as it was"]


@pytest.mark.requirement("page:forgery")
def test_the_form_of_another_browser_or_reader_is_not_taken(make_browser: Callable[..., Browser]) -> None:
    mine, theirs = make_browser(), make_browser()
    record = mine.engine.write(Scope("a"), text="as it was")
    token = theirs.get_form_token()
    assert token != mine.get_form_token()
    assert mine.post("/page/record/delete", id=record.id, version=1, form_token=token).status_code == 403
    mine.tokens.add("t")
    mine.client.cookies.set("cofio-token-0", "another reader")
    stale = mine.client.post(
        "/page/record/delete",
        data={"form_token": token, "id": record.id, "version": "1"},
        headers={"Origin": ORIGIN, "Accept": "application/json"},
    )
    assert stale.status_code == 401


@pytest.mark.requirement("page:guard", "page:forgery")
def test_what_is_not_there_or_no_form_is_told_in_the_form_that_was_asked_for(browser: Browser) -> None:
    browser.engine.write(Scope("a"), text="t")
    assert browser.get("/page/nothing").status_code == 404
    assert browser.client.get("/api/page/nothing").json()["error"]["message"]
    assert browser.client.get("/api/page/search/nothing").status_code == 404
    assert browser.get("/page/assets/page.css").status_code == 404
    assert browser.post("/page/record/nothing").status_code == 404
    assert browser.get("/page/search?q=%ff").status_code == 422
    assert browser.get("/page/search?" + "&".join(f"a{n}=1" for n in range(500))).status_code == 422
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        headers = {"Origin": ORIGIN, "Content-Type": kind, "Accept": "text/html"}
        assert browser.client.post("/page/record/delete", content=b"{}", headers=headers).status_code == 415
    headers = {"Origin": ORIGIN, "Content-Length": "99999999", "Content-Type": "application/x-www-form-urlencoded"}
    assert browser.client.post("/page/record/delete", content=b"", headers=headers).status_code == 413


@pytest.mark.requirement("page:sign-in")
def test_with_tokens_in_use_one_signs_in_and_out(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    browser.engine.write(Scope("notes"), text="for those who may")
    token = browser.tokens.add("laptop")
    asked = browser.get("/?q=those")
    assert asked.status_code == 401
    assert "Sign in" in asked.text
    assert 'name="next" value="/?q=those"' in asked.text
    assert "for those who may" not in asked.text
    check_page(asked.text)
    assert browser.client.get("/api/page/search").status_code == 401
    wrong = browser.post("/page/signin", token="cofio_wrong", next="/")
    assert wrong.status_code == 401
    assert "not known here" in wrong.text
    right = browser.post("/page/signin", token=f" {token} ", next="/?q=those")
    assert (right.status_code, right.headers["location"]) == (303, "/?q=those")
    cookie = right.headers["set-cookie"]
    assert token not in cookie
    for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=604800"):
        assert part in cookie
    page = browser.show("/?q=those")
    assert "for those who may" in page.replace("<mark>", "").replace("</mark>", "")
    assert token not in page
    assert browser.read("search")["hits"]
    out = browser.post("/page/signout")
    assert out.status_code == 303
    assert browser.get("/").status_code == 401


@pytest.mark.requirement("page:sign-in")
def test_a_session_opens_the_page_alone_and_is_no_token(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    token = browser.tokens.add("laptop")
    browser.post("/page/signin", token=token, next="/")
    session = browser.client.cookies["cofio-token-0"]
    elsewhere = ("/mcp", "/metrics", "/api/v2/memory/search", "/api/v1/memory-tool", "/api/v2/threads/t/checkpoints")
    for path in elsewhere:
        assert browser.client.post(path, json={}).status_code == 401, path
    browser.client.cookies.clear()
    for path in (*elsewhere, "/page/start"):
        refused = browser.client.post(path, json={}, headers={"Authorization": f"Bearer {session}"})
        assert refused.status_code == 401, path
        assert "not known here" in refused.text
    assert browser.post("/page/signin", token=session, next="/").status_code == 401


@pytest.mark.requirement("page:sign-in")
def test_a_session_that_is_forged_has_expired_or_is_of_a_token_made_anew_is_none(
    make_browser: Callable[..., Browser],
) -> None:
    browser, now = make_browser(strict=True), datetime.now(UTC)
    browser.tokens.add("other")
    text = browser.tokens.add("Zoë's. laptop; %41")
    other, token = browser.tokens.all()
    session = make_session(token, now)
    expiry, nonce, signature, name = session.split(".", 3)

    def try_session(value: str) -> int:
        browser.client.cookies.set("cofio-token-0", value)
        return browser.get("/page/start").status_code

    assert try_session(session) == 200
    assert session != make_session(token, now)
    forged = [
        text, token.hash, "", "...", r'"\351"', f"{int(expiry) + 1}.{nonce}.{signature}.{name}",
        f"{expiry}..{signature}.{name}", f"{expiry}.{nonce}..{name}", f"{expiry}.{nonce}.{signature[:-1]}.{name}",
        f"{expiry}.{nonce}.{signature}.other", f"{expiry}.{nonce}.{signature}", rf'"{expiry}.{nonce}.\351.{name}"',
        make_session(replace(token, hash="0" * 64), now),
    ]  # fmt: skip
    for value in forged:
        assert try_session(value) == 401, value
    assert try_session(make_session(token, now - timedelta(seconds=SESSION_SECONDS - 60))) == 200
    assert try_session(make_session(token, now - timedelta(seconds=SESSION_SECONDS))) == 401
    browser.tokens.remove(token.name)
    browser.tokens.add(token.name)
    assert try_session(session) == 401
    assert try_session(make_session(other, now)) == 200


@pytest.mark.requirement("page:sign-in")
def test_a_reader_whom_another_sites_link_has_led_here_can_go_on_or_sign_in_anew(
    make_browser: Callable[..., Browser],
) -> None:
    browser = make_browser(strict=True)
    token = browser.tokens.add("laptop")
    assert "go on" not in browser.get("/page/start").text
    browser.post("/page/signin", token=token, next="/")
    session = browser.client.cookies["cofio-token-0"]
    del browser.client.cookies["cofio-token-0"]  # as a browser does for a link of another site
    asked = browser.get("/page/start?a=b", **{"Sec-Fetch-Site": "cross-site"})
    assert asked.status_code == 401
    assert '<a href="/page/start?a=b">go on</a>' in asked.text
    check_page(asked.text)
    form_token = browser.get_form_token()
    browser.client.cookies.set("cofio-token-0", session)
    assert browser.get("/page/start").status_code == 200
    assert browser.post("/page/signout", form_token=form_token).status_code == 403
    assert browser.post("/page/signin", form_token=form_token, token=token, next="/").status_code == 303


@pytest.mark.requirement("page:sign-in")
def test_a_sign_in_leads_to_no_other_site_takes_no_forged_form_and_ends_with_its_token(
    make_browser: Callable[..., Browser],
) -> None:
    browser = make_browser(strict=True)
    token = browser.tokens.add("laptop")
    targets = ["//evil.example/", "https://evil.example/", "/\\evil.example", "/mcp", "javascript:x", "/page/\r\nX: y"]
    for target in targets:
        assert browser.post("/page/signin", token=token, next=target).headers["location"] == "/"
    target = "/page/record?id=1"
    assert browser.post("/page/signin", token=token, next=target).headers["location"] == target
    assert browser.post("/page/signin", origin="http://evil.example", token=token).status_code == 403
    assert browser.post("/page/signin", token=token, form_token="").status_code == 403
    assert browser.get("/page/start").status_code == 200
    browser.tokens.remove("laptop")
    assert browser.get("/page/start").status_code == 401


@pytest.mark.requirement("page:guard", "page:read-only")
def test_every_address_is_behind_the_guard_and_a_token_for_reading_changes_nothing(
    make_browser: Callable[..., Browser],
) -> None:
    browser = make_browser(strict=True)
    record = browser.engine.write(Scope("mcp"), text="as it was")
    reads = ["/", *(f"{start}{name}" for name in (*KINDS, "other") for start in ("/page/", "/api/page/"))]
    posts = [f"/page/{action.name}" for action in view_table.ACTIONS]
    for path in (*reads, *posts, "/page/signout", "/page/other/action"):
        method = "GET" if path in reads else "POST"
        assert browser.client.request(method, path, headers=HTML).status_code == 401, path
        assert browser.client.request(method, path, headers={"Host": "evil.example"}).status_code == 421, path
        answer = browser.client.request(method, path, headers={"Origin": "http://evil.example"})
        assert answer.status_code == 403, path
    browser.post("/page/signin", token=browser.tokens.add("dashboard", access="read"), next="/")
    page = browser.show(f"/page/record?id={record.id}")
    assert "as it was" in page
    assert "Delete" not in page
    assert "Read only" in page
    for path in posts:
        refused = browser.post(path, id=record.id, version=1, text="new")
        assert refused.status_code == 403, path
        assert "may not change anything" in refused.text
    assert browser.engine.list() == [record]


@pytest.mark.requirement("page:reach")
def test_a_limited_token_sees_and_changes_its_scope_alone(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    ExampleMemory(Conversations(browser.engine)).load()
    own = browser.engine.write(Scope("rest", "shop", "web", "user", "kim"), title="Ours", text="the shop's own words")
    other = browser.engine.list(Scope("demo"), limit=1)[0]
    browser.post("/page/signin", token=browser.tokens.add("shop", app="shop"), next="/")
    foreign = ("harbour", "jonas", "Jonas", "allergic", other.id)
    for view in view_table.VIEWS:
        answers = [browser.get(make_address(view.name, own))]
        assert answers[0].status_code == 200
        if view.name == "record":
            assert browser.get(make_address(view.name, other)).status_code == 404
        else:
            expected = 403 if any(each.name == "scope" for each in view.parameters) else 200
            answers += [browser.get(f"/page/{view.name}?scope=demo")]
            answers += [browser.client.get(f"/api/page/{view.name}?scope=demo")]
            assert [answer.status_code for answer in answers[1:]] == [expected] * 2
        assert not [each for each in foreign for answer in answers if each in answer.text], view.name
    assert browser.post("/page/record/edit", id=other.id, version=1, text="new").status_code == 404
    assert browser.post("/page/record/delete", id=other.id, version=1).status_code == 404
    assert browser.post("/page/start/example").status_code == 403
    assert browser.engine.read(other.id) == other


@pytest.mark.requirement("page:assets")
def test_assets_are_small_named_by_their_content_and_kept(browser: Browser) -> None:
    assets = load_assets()
    addresses = {asset.address for asset in assets.values()}
    assert sum(len(asset.compressed) for asset in assets.values()) <= 50_000
    for address in re.findall(r'"(/page/assets/[^"]+)"', browser.show("/page/start")):
        answer = browser.client.get(address, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        assert browser.client.get(address, headers={"Accept-Encoding": "identity"}).content == answer.content
    for name, asset in assets.items():
        assert re.fullmatch(rf"/page/assets/{name.rpartition('.')[0]}\.[0-9a-f]{{12}}\.\w+", asset.address)
        assert gzip.decompress(asset.compressed) == asset.content
        assert {each.decode() for each in re.findall(rb'from "([^"]+)"', asset.content)} <= addresses, name


@pytest.mark.requirement("page:guard")
def test_a_page_that_would_have_to_wait_is_refused_in_plain_words(browser: Browser) -> None:
    browser.engine.write(Scope("a"), text="t")
    token = browser.get_form_token()
    portal, is_free = browser.client.portal, Event()
    assert portal is not None
    calls = [portal.start_task_soon(browser.queue.run, is_free.wait) for _ in range(MAX_WAITING)]
    answers = [
        browser.get("/page/search"), browser.client.get("/api/page/search"), browser.get("/page/signin"),
        browser.client.post("/page/record/edit", data={"form_token": token}, headers={"Origin": ORIGIN} | HTML),
    ]  # fmt: skip
    is_free.set()
    wait(calls)
    for answer in answers:
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
    assert answers[0].headers["content-type"].startswith("text/plain")
    assert answers[1].json()["error"]["code"] == "QUEUE_SATURATED"
    assert browser.get("/page/search").status_code == 200
