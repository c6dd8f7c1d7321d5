"""What the page lets nobody do: forge a form, run a script, see more than a token is good for."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from html.parser import HTMLParser
from time import monotonic
from typing import Any

import pytest

from cofio import Engine, Importance, Record, Scope
from cofio.conversations.conversations import Conversations
from cofio.doors.example_memory import ExampleMemory
from cofio.doors.page import view_table
from cofio.doors.page.asset_files import load_assets
from cofio.doors.page.routes import _clean_target
from cofio.doors.page.viewer import Viewer
from cofio.doors.web.workers import MAX_WAITING

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


@pytest.mark.requirement("page:policy")
@pytest.mark.parametrize("name", KINDS)
def test_every_page_has_a_strict_policy_and_nothing_inline(browser: Browser, name: str) -> None:
    ExampleMemory(Conversations(browser.engine)).load()
    answer = browser.get(make_address(name, browser.engine.list(limit=1)[0]))
    assert answer.status_code == 200
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    check_page(answer.text)


@pytest.mark.requirement("page:text")
@pytest.mark.parametrize("name", KINDS)
def test_hostile_records_are_text_on_every_page(browser: Browser, hostile: list[Record], name: str) -> None:
    addresses = [make_address(name, hostile[0])]
    if name == "record":
        addresses = [f"/page/record?id={each.id}{more}" for each in hostile for more in ("", "&edit=1", "&delete=1")]
    if name == "search":
        addresses += [
            "/?q=document+title+pwned+right+red",
            "/?q=%3Cscript%3Ealert(1)%3C/script%3E&near=1",
            "/?offset=20",
        ]
    for address in addresses:
        page = browser.show(address)
        check_page(page)
        # What is in a form comes back from it, and so is there as it is.
        visible = re.sub(r'<textarea.*?</textarea>|value="[^"]*"', "", page, flags=re.DOTALL)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]", visible), address


@pytest.mark.requirement("page:text")
def test_what_a_reader_edits_of_a_hostile_record_is_kept_as_it_is(browser: Browser, memory: Engine) -> None:
    text = "a\u202eb </textarea><script>x</script>\n\n  indented"
    record = memory.write(Scope("a"), title="t", text=text)
    page = browser.show(f"/page/record?id={record.id}&edit=1")
    check_page(page)
    browser.post("/page/record/edit", id=record.id, version=1, title="new", text=text.replace("\n", "\r\n"))
    assert memory.read(record.id).text == text


class FormReader(HTMLParser):
    """Reads what a form on a page would send, as a browser does."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._action = action
        self._is_within = False
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a field."""
        attributes = dict(attrs)
        if tag == "form":
            self._is_within = attributes.get("action") == self._action
        name = attributes.get("name")
        if self._is_within and name and tag == "input":
            self.fields[name] = re.sub("[\r\n]", "", attributes.get("value") or "")
        self._area = name if self._is_within and name and tag == "textarea" else ""

    def handle_data(self, data: str) -> None:
        """Take the text of an area, which begins after a line break and has the line breaks of forms."""
        if self._area:
            self.fields[self._area] = re.sub("\r\n?|\n", "\r\n", data.removeprefix("\n"))

    def handle_endtag(self, tag: str) -> None:
        """Leave an area."""
        self._area = ""


@pytest.mark.requirement("page:text")
@pytest.mark.requirement("page:edit")
def test_what_a_form_sends_back_untouched_stays_as_it_was_though_it_is_not_seen(
    browser: Browser, memory: Engine
) -> None:
    hidden = "\u05d0\u200f\u202e \u00adsoft \ufeff \u200b \x1b[31m &amp; <b>"
    data: dict[str, Any] = {"k\u200b": f"{hidden}\n"}
    record = memory.write(
        Scope("a\u200b"), title=f"t\u202e{hidden}", text=f"\n{hidden}\n\tlone\rreturn", tags=["x\u200by"], data=data
    )
    form = FormReader("/page/record/edit")
    form.feed(browser.show(f"/page/record?id={record.id}&edit=1"))
    assert form.fields["text"].startswith("\r\n\u05d0\u200f")
    browser.post("/page/record/edit", **form.fields)
    assert memory.read(record.id) == record
    browser.post("/page/record/edit", **form.fields | {"tags": "other"})
    after = memory.read(record.id)
    assert (after.title, after.text, after.data, after.tags) == (record.title, record.text, record.data, ("other",))
    search = FormReader("/")
    search.feed(browser.show("/?q=soft%E2%80%8B&scope=a%E2%80%8B"))
    assert (search.fields["q"], search.fields["scope"]) == ("soft\u200b", "a\u200b")


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
        (None, {}),
        ("http://evil.example", {}),
        ("null", {}),
        ("http://127.0.0.1:9999", {}),
        (ORIGIN, {"form_token": ""}),
        (ORIGIN, {"form_token": "0" * 64}),
        (ORIGIN, {"form_token": "é"}),
    ],
)
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


@pytest.mark.requirement("page:forgery")
def test_a_form_is_a_form_and_not_json_or_a_file(browser: Browser) -> None:
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        headers = {"Origin": ORIGIN, "Content-Type": kind, "Accept": "text/html"}
        answer = browser.client.post("/page/record/delete", content=b"{}", headers=headers)
        assert answer.status_code == 415
    long = browser.client.post(
        "/page/record/delete", content=b"", headers={"Origin": ORIGIN, "Content-Length": "99999999",
        "Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
    )  # fmt: skip
    assert long.status_code == 413


@pytest.mark.requirement("page:guard")
@pytest.mark.parametrize(
    "path", ["/", "/page/search", "/page/record", "/api/page/search", "/api/page/start", "/page/signin"]
)
def test_host_and_origin_are_looked_at_on_every_route(browser: Browser, path: str) -> None:
    for accept in ("text/html", "application/json"):
        elsewhere = browser.client.get(path, headers={"Host": "evil.example", "Accept": accept})
        assert elsewhere.status_code == 421
        foreign = browser.client.get(path, headers={"Origin": "http://evil.example", "Accept": accept})
        assert foreign.status_code == 403


@pytest.mark.requirement("page:guard")
def test_what_is_not_there_is_told_in_the_form_that_was_asked_for(browser: Browser) -> None:
    browser.engine.write(Scope("a"), text="t")
    assert browser.get("/page/nothing").status_code == 404
    assert browser.client.get("/api/page/nothing").json()["error"]["message"]
    assert browser.client.get("/api/page/search/nothing").status_code == 404
    assert browser.get("/page/assets/page.css").status_code == 404
    assert browser.post("/page/record/nothing").status_code == 404
    assert browser.get("/page/search?q=%ff").status_code == 422
    assert browser.get("/page/search?" + "&".join(f"a{n}=1" for n in range(500))).status_code == 422


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
    assert token in cookie
    for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age="):
        assert part in cookie
    page = browser.show("/?q=those")
    assert "for those who may" in page.replace("<mark>", "").replace("</mark>", "")
    assert token not in page
    assert browser.read("search")["hits"]
    assert browser.client.get("/metrics").status_code == 401  # a cookie opens the page, and no other door
    out = browser.post("/page/signout")
    assert out.status_code == 303
    assert browser.get("/").status_code == 401


@pytest.mark.requirement("page:sign-in")
def test_a_token_that_has_ended_is_shown_the_form_again(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    browser.post("/page/signin", token=browser.tokens.add("laptop"), next="/")
    assert browser.get("/page/start").status_code == 200
    browser.tokens.remove("laptop")
    assert browser.get("/page/start").status_code == 401
    assert "Sign in" in browser.get("/page/start").text


@pytest.mark.requirement("page:sign-in")
def test_a_sign_in_is_no_way_to_another_site_and_takes_no_forged_form(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    token = browser.tokens.add("laptop")
    for target in (
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "/mcp",
        "javascript:x",
        "/page/\r\nX: y",
    ):
        assert browser.post("/page/signin", token=token, next=target).headers["location"] == "/"
        assert _clean_target(target) == "/"
    assert _clean_target("/page/record?id=1") == "/page/record?id=1"
    assert browser.post("/page/signin", origin="http://evil.example", token=token).status_code == 403
    assert browser.post("/page/signin", token=token, form_token="").status_code == 403


@pytest.mark.requirement("page:guard")
def test_every_address_of_the_page_is_behind_the_guard(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    names = [view.name for view in view_table.VIEWS]
    reads = ["/", *(f"{start}{name}" for name in (*names, "other") for start in ("/page/", "/api/page/"))]
    reads += [f"/api/page/{stream.name}" for stream in view_table.STREAMS]
    posts = [f"/page/{action.name}" for action in view_table.ACTIONS] + ["/page/signout", "/page/other/action"]
    for method, paths in (("GET", reads), ("POST", posts)):
        for path in paths:
            assert browser.client.request(method, path, headers=HTML).status_code == 401, path
            assert browser.client.request(method, path, headers={"Host": "evil.example"}).status_code == 421, path
            answer = browser.client.request(method, path, headers={"Origin": "http://evil.example"})
            assert answer.status_code == 403, path
    assert "Sign in" in browser.get("/page/signin").text
    browser.post("/page/signin", token=browser.tokens.add("reader", access="read"), next="/")
    for path in posts:
        if path != "/page/signout":
            assert browser.post(path, id="x", version=1).status_code in (403, 404), path


@pytest.mark.requirement("page:reach")
@pytest.mark.parametrize("name", KINDS)
def test_a_limited_token_sees_its_scope_alone_on_every_screen(make_browser: Callable[..., Browser], name: str) -> None:
    browser = make_browser(strict=True)
    ExampleMemory(Conversations(browser.engine)).load()
    own = browser.engine.write(Scope("rest", "shop", "web", "user", "kim"), title="Ours", text="the shop's own words")
    other = browser.engine.list(Scope("demo"), limit=1)[0]
    browser.post("/page/signin", token=browser.tokens.add("shop", app="shop"), next="/")
    foreign = ("harbour", "jonas", "Jonas", "allergic", other.id)
    page = browser.show(make_address(name, own))
    assert not [each for each in foreign if each in page]
    if name == "record":
        assert browser.get(make_address(name, other)).status_code == 404
        return
    for answer in (browser.get(f"/page/{name}?scope=demo"), browser.client.get(f"/api/page/{name}?scope=demo")):
        takes_scope = any(
            each.name == "scope" for view in view_table.VIEWS if view.name == name for each in view.parameters
        )
        assert answer.status_code == (403 if takes_scope else 200)
        assert not [each for each in foreign if each in answer.text]


@pytest.mark.requirement("page:reach")
def test_a_limited_token_changes_nothing_elsewhere(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    record = browser.engine.write(Scope("mcp"), text="as it was")
    browser.post("/page/signin", token=browser.tokens.add("shop", app="shop"), next="/")
    assert browser.post("/page/record/edit", id=record.id, version=1, text="new").status_code == 404
    assert browser.post("/page/record/delete", id=record.id, version=1).status_code == 404
    assert browser.post("/page/start/example").status_code == 403
    assert browser.engine.list() == [record]


@pytest.mark.requirement("page:read-only")
def test_a_token_for_reading_reads_and_is_refused_with_a_sentence(make_browser: Callable[..., Browser]) -> None:
    browser = make_browser(strict=True)
    record = browser.engine.write(Scope("mcp"), text="as it was")
    browser.post("/page/signin", token=browser.tokens.add("dashboard", access="read"), next="/")
    page = browser.show(f"/page/record?id={record.id}")
    assert "as it was" in page
    assert "Delete" not in page
    assert "Read only" in page
    for path in ("/page/record/edit", "/page/record/delete", "/page/start/example"):
        answer = browser.post(path, id=record.id, version=1, text="new")
        assert answer.status_code == 403
        assert "may not change anything" in answer.text
    assert browser.engine.list() == [record]


@pytest.mark.requirement("page:read-only")
def test_a_memory_that_is_read_only_says_so() -> None:
    viewer = Viewer.of(None, read_only=True)
    assert viewer.refusal == "this memory is read-only: nothing can be changed here"


@pytest.mark.requirement("page:assets")
def test_assets_are_small_named_by_their_content_and_kept(browser: Browser) -> None:
    assets = load_assets()
    total = sum(len(asset.compressed) for asset in assets.values())
    assert total <= 50_000, {name: len(asset.compressed) for name, asset in assets.items()}
    page = browser.show("/page/start")
    for address in re.findall(r'"(/page/assets/[^"]+)"', page):
        answer = browser.client.get(address, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        plain = browser.client.get(address, headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content
    for name, asset in assets.items():
        assert re.fullmatch(rf"/page/assets/{name.rpartition('.')[0]}\.[0-9a-f]{{12}}\.\w+", asset.address)
        assert gzip.decompress(asset.compressed) == asset.content
        for imported in re.findall(rb'from "([^"]+)"', asset.content):
            assert imported.decode() in {each.address for each in assets.values()}, name


@pytest.mark.requirement("page:openapi")
def test_the_json_of_every_view_is_described_and_is_as_described(browser: Browser) -> None:
    from cofio.doors.page.routes import describe_paths

    ExampleMemory(Conversations(browser.engine)).load()
    paths = describe_paths()
    assert {f"/api/page/{view.name}" for view in view_table.VIEWS} <= paths.keys()
    for view in view_table.VIEWS:
        operation = paths[f"/api/page/{view.name}"]["get"]
        assert operation["summary"]
        parameters = {"id": browser.engine.list(limit=1)[0].id} if view.name == "record" else {}
        data = browser.read(view.name, **parameters)
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert set(schema.get("required", ())) <= data.keys()


@pytest.mark.requirement("page:guard")
def test_a_page_that_would_have_to_wait_is_refused_in_plain_words(browser: Browser) -> None:
    browser.engine.write(Scope("a"), text="t")
    token = browser.get_form_token()
    waiting = browser.door._workers._queue
    waiting.extend([monotonic()] * MAX_WAITING)  # as many calls as may wait, however quick they are
    answers = [
        browser.get("/page/search"), browser.client.get("/api/page/search"), browser.get("/page/signin"),
        browser.client.post("/page/record/edit", data={"form_token": token}, headers={"Origin": ORIGIN} | HTML),
    ]  # fmt: skip
    waiting.clear()
    for answer in answers:
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
    assert answers[0].headers["content-type"].startswith("text/plain")
    assert answers[1].json()["error"]["code"] == "QUEUE_SATURATED"
    assert browser.get("/page/search").status_code == 200
