"""A model is asked over real HTTP: what it takes is found out, trouble is waited for, and nothing secret is told."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Event, Thread

import pytest

from cofio.llm import Dialect, Failed, Model, Nonsense
from cofio.llm.answers import SUFFICIENCY
from cofio.llm.shapes import make_list, make_object, make_text
from cofio.values.errors import Invalid, Unavailable

from .conftest import KEY, Making, Watch
from .scripted import (
    BAD,
    Asked,
    Manner,
    Say,
    Scripted,
    as_llama_cpp,
    broken,
    completion,
    echoing,
    empty,
    fails,
    particular,
    resetting,
    says,
    slow,
    without_json,
    without_schema,
)  # fmt: skip

GOOD = {"sufficient": True, "missing": ""}


@dataclass(slots=True)
class Shelf:
    """Keeps what endpoints take as long as the test."""

    dialects: dict[tuple[str, str], Dialect] = field(default_factory=dict)

    def load(self, url: str, model: str) -> Dialect | None:
        return self.dialects.get((url, model))

    def save(self, url: str, model: str, dialect: Dialect) -> None:
        self.dialects[url, model] = dialect


def ask(model: Model, *, hurried: bool = False) -> dict[str, object]:
    return model.ask("Answer in JSON.", "Is it enough?", schema=SUFFICIENCY, name="sufficiency", hurried=hurried)


def after(manner: Manner) -> Manner:
    """The manner's refusals; where it would not refuse, a good answer."""

    def then(asked: Asked) -> Say:
        said = manner(asked)
        return said if said.status != 200 else says(GOOD)(asked)

    return then


def without_grammars(asked: Asked) -> Say:
    """A server that fails at each form, and says why."""
    return fails(500, "failed to parse grammar")(asked) if asked.form else says(GOOD)(asked)


def failure(model: Model, *, hurried: bool = False) -> Failed:
    with pytest.raises(Failed) as failed:
        ask(model, hurried=hurried)
    return failed.value


def test_a_question_is_one_call_with_the_schema(server: Scripted, make: Making, watch: Watch) -> None:
    server.script = [says(GOOD)]
    assert ask(make()) == GOOD
    (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body["model"] == "scripted"
    assert call.body["temperature"] == 0
    assert call.body["max_tokens"] == 8_000
    form = call.body["response_format"]["json_schema"]
    assert (form["name"], form["strict"]) == ("sufficiency", True)
    assert form["schema"]["additionalProperties"] is False
    assert "minLength" not in str(form)
    assert watch.spent == [(1, 120)]
    model = Model(f"{server.url}/chat/completions/", "m")  # the whole address will do
    assert ask(model) == GOOD
    model.close()
    assert server.calls[1].path == "/v1/chat/completions"


@pytest.mark.parametrize("key", [KEY, ""])
def test_nothing_is_told_of_the_machine_nor_of_the_accounts_of_others(
    key: str, server: Scripted, make: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-mine")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine.invalid/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: yes\nauthorization: Bearer sk-mine")
    server.script = [says(GOOD)]
    ask(make(key=key))
    assert "mine" not in str(server.calls[0].headers)
    assert not [name for name in server.calls[0].headers if name.startswith("x-")]
    assert server.calls[0].headers["user-agent"] == "cofio"


@pytest.mark.parametrize(
    ("manner", "forms"),
    [
        (without_schema, ["json_schema", "json_object"]),
        (without_json, ["json_schema", "json_object", ""]),
        (as_llama_cpp, ["json_schema", "json_object"]),
        (without_grammars, ["json_schema", "json_object", ""]),
    ],
)
def test_a_form_that_the_endpoint_does_not_know_is_given_up_for_good(
    manner: Manner, forms: list[str], server: Scripted, make: Making
) -> None:
    server.script = [after(manner)]
    model = make()
    assert ask(model) == GOOD
    assert ask(model) == GOOD
    assert [call.form for call in server.calls] == [*forms, forms[-1]]
    assert "JSON Schema" not in server.calls[0].system
    assert all("JSON Schema" in call.system for call in server.calls[1:])
    server.calls.clear()
    server.script = [fails(500, "no schema today")]  # what fails at everything is asked for the whole form another time
    model = make()
    assert failure(model).reason == "down"
    assert [call.form for call in server.calls] == ["json_schema", "json_object", "", "", ""]
    server.script = [says(GOOD)]
    assert ask(model) == GOOD
    assert server.calls[-1].form == "json_schema"


def test_what_an_endpoint_takes_is_kept_for_others_and_what_is_not_known_is_passed_over(
    server: Scripted, make: Making
) -> None:
    shelf = Shelf()
    server.script = [after(as_llama_cpp)]
    ask(make(dialects=shelf))
    ask(make(dialects=shelf))
    assert [call.form for call in server.calls] == ["json_schema", "json_object", "json_object"]
    assert shelf.dialects == {(server.url, "scripted"): Dialect(form="object")}
    known = asdict(Dialect(form="text", limit="", takes_temperature=False, needs_words=True))
    assert asdict(Dialect.decode(known) or Dialect()) == known
    for unknown in ({}, {**known, "more": 1}, {**known, "form": "verse"}, {**known, "limit": "most"}):
        assert Dialect.decode(unknown) is None


def test_other_names_for_the_limit_and_other_temperatures_are_remembered(server: Scripted, make: Making) -> None:
    server.script = [after(particular)]
    model = make()
    ask(model)
    ask(model)
    assert [("max_tokens" in call.body, "temperature" in call.body) for call in server.calls] == [
        (True, True), (False, True), (False, False), (False, False),
    ]  # fmt: skip
    assert all(call.form == "json_schema" for call in server.calls)


def test_where_there_is_too_little_room_the_answer_gets_more_or_no_limit_and_others_keep_theirs(
    server: Scripted, make: Making
) -> None:
    shelf = Shelf()
    server.script = [fails(400, "This model's maximum context length is 4096 tokens."), says(GOOD)]
    assert ask(make(dialects=shelf)) == GOOD
    assert "max_tokens" not in server.calls[1].body
    assert shelf.dialects == {}
    server.script = [lambda asked: completion('{"sufficient": tr', finish="length"), says(GOOD)]
    assert ask(make()) == GOOD
    assert [call.body["max_tokens"] for call in server.calls[2:]] == [8_000, 16_000]


@pytest.mark.parametrize("manner", [broken, resetting, fails(503), fails(408)])
def test_a_moment_of_trouble_is_waited_for(manner: Manner, server: Scripted, make: Making, watch: Watch) -> None:
    server.script = [manner, manner, says(GOOD)]
    assert ask(make(jitter=iter([0.0, 1.0]).__next__)) == GOOD
    assert watch.waits == [0.25, 1.5]  # which differ, so that not all come back at once
    assert [call.form for call in server.calls] == ["json_schema"] * 3
    assert [calls for calls, _ in watch.spent] == [1, 1, 1]
    server.script = [manner]
    failed = failure(make())
    assert failed.reason in ("down", "busy")
    assert "3 times" in str(failed)
    assert len(server.calls) == 6


@pytest.mark.parametrize(("refusal", "count"), [(fails(400, "no"), 4), (fails(429, "insufficient_quota"), 1)])
def test_a_refusal_that_nothing_helps_ends_as_does_the_first_try_for_someone_who_waits(
    refusal: Manner, count: int, server: Scripted, make: Making, watch: Watch
) -> None:
    server.script = [refusal]
    assert failure(make()).reason == "refused"
    assert len(server.calls) == count
    assert watch.waits == []
    for manner, reason in ((broken, "down"), (empty, "nonsense")):  # someone who waits is not kept by a second try
        server.script = [manner]
        assert failure(make(), hurried=True).reason == reason
    assert len(server.calls) == count + 2


def test_an_endpoint_that_asks_for_time_gets_it_and_one_that_asks_for_an_hour_is_left_alone(
    server: Scripted, make: Making, watch: Watch
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for asked in ("3600", later):
        server.script = [fails(429, Retry_After=asked)]
        server.calls.clear()
        model = make(rest=30.0)
        assert failure(model).reason == "busy"
        assert failure(model).reason == "down"
        watch.now += 500.0
        assert failure(model).reason == "down"
        assert len(server.calls) == 1
        assert watch.waits == []
        watch.now += 101.0
        server.script = [says(GOOD)]
        assert ask(model) == GOOD
    for asked in ("7", "", "soon", "-5", "nan"):
        server.script = [fails(429, Retry_After=asked), says(GOOD)]
        assert ask(make()) == GOOD
    assert watch.waits == [7.0, 0.5, 0.5, 0.5, 0.5]


def test_a_slow_endpoint_and_an_answer_that_never_ends_are_given_up(
    server: Scripted, make: Making, watch: Watch
) -> None:
    server.script = [slow]
    assert failure(make(timeout=0.05)).reason == "slow"
    assert len(watch.spent) == len(server.calls) == 3
    assert all(tokens > 0 for _, tokens in watch.spent)  # it may have worked on it all the same
    server.script = [lambda asked: replace(says(GOOD)(asked), drip=True)]
    watch.tick = 1.0
    assert failure(make(timeout=10.0)).reason == "slow"
    assert len(server.calls) <= 6


@pytest.mark.parametrize("manner", [empty, echoing, says("I would rather not."), says([1])])
def test_nonsense_gets_a_second_chance_with_the_schema_in_words(manner: Manner, server: Scripted, make: Making) -> None:
    server.script = [manner, says(GOOD)]
    model = make()
    assert ask(model) == GOOD
    roles = [turn["role"] for turn in server.calls[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "cannot be used" in server.calls[1].body["messages"][3]["content"]
    ask(model)
    assert "JSON Schema" in server.calls[2].system  # what does not hold the model to a schema needs to be told
    server.script = [manner]
    failed = failure(model)
    assert isinstance(failed, Nonsense)
    assert isinstance(failed, Unavailable)
    assert failed.reason == "nonsense"
    assert len(server.calls) == 5


def test_items_of_another_shape_are_left_out_unless_all_are(server: Scripted, make: Making) -> None:
    shape = make_object(items=make_list(make_object(text=make_text("a text")), "items"))
    server.script = [says({"items": [{"text": "a", "more": 1}, {"text": 5}, {"text": ""}, {}, 7, {"text": "b"}]})]
    asked = make().ask("JSON", "?", schema=shape, name="items")
    assert asked == {"items": [{"text": "a"}, {"text": "5"}, {"text": "b"}]}
    server.script = [says({"items": [{}, 7]})]
    with pytest.raises(Nonsense):
        make().ask("JSON", "?", schema=shape, name="items")
    server.script = [says({"items": []})]
    assert make().ask("JSON", "?", schema=shape, name="items") == {"items": []}


def test_what_a_call_cost_is_estimated_where_the_endpoint_does_not_say_also_of_halves_of_characters(
    server: Scripted, make: Making, watch: Watch
) -> None:
    server.script = [lambda asked: completion('{"sufficient": true, "missing": "\\ud83d \\u0000 x"}', usage=False)]
    found = make().ask("JSON", "\ud83d?", schema=SUFFICIENCY, name="sufficiency")
    assert found["missing"] == "?  x"
    ((calls, tokens),) = watch.spent
    assert calls == 1
    assert 10 <= tokens <= 30


def test_a_spent_budget_stops_the_next_call_not_the_one_before(server: Scripted, make: Making, watch: Watch) -> None:
    server.script = [says("nonsense")]
    failed = failure(make(allowed=lambda: "today's budget is spent" if watch.spent else None))
    assert failed.reason == "budget"
    assert str(failed) == "today's budget is spent"
    assert len(server.calls) == 1


@pytest.mark.parametrize("manner", BAD)
def test_neither_the_key_nor_what_was_asked_is_in_any_error(
    manner: str, server: Scripted, make: Making, watch: Watch
) -> None:
    server.script = [BAD[manner]]
    watch.tick = 0.01
    private = "Mathilda's " + "diary"
    with pytest.raises(Failed) as failed:
        make(timeout=0.05).ask("JSON", private, schema=SUFFICIENCY, name="sufficiency")
    told = "".join(traceback.format_exception(failed.value))
    assert KEY not in told
    assert private not in told
    assert failed.value.__context__ is None


def test_images_are_shown_recordings_are_played_and_nothing_else_is_sent(server: Scripted, make: Making) -> None:
    model = make()
    seen = model.describe(b"\x89PNG", "image/png", name="boat.png", hint='{"where": "Oslo"}')
    assert seen == "A red boat on a blue lake."
    assert model.describe(b"ID3", "audio/mpeg", name=None, hint="") == "Speaker 1: Good morning."
    image, sound = (call.body["messages"][1]["content"][1] for call in server.calls)
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    assert sound == {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}
    assert "boat.png" in server.calls[0].user
    assert "Oslo" in server.calls[0].user
    assert all(call.form == "" for call in server.calls)
    for media, mime in ((b"", "image/png"), (b"x", "video/mp4"), (b"x", "image"), (b"x", "")):
        with pytest.raises(Failed) as failed:
            model.describe(media, mime, name=None, hint="")
        assert failed.value.reason == "refused"
    assert len(server.calls) == 2
    server.script = [says("<think>hm</think>")]  # and a description without words is none
    with pytest.raises(Nonsense):
        model.describe(b"x", "image/png", name=None, hint="")


@pytest.mark.parametrize(
    ("url", "name", "key", "field"),
    [
        ("ftp://x/v1", "m", "", "llm_base_url"),
        ("http://x:y/v1", "m", "", "llm_base_url"),
        ("http://me:pass@x/v1", "m", "", "llm_base_url"),
        ("http://x/v1", " ", "", "llm_model"),
        ("http://x/v1", "m", "a\nb", "llm_api_key"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(url: str, name: str, key: str, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        Model(url, name, key)
    assert refused.value.field == field
    assert "pass" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize("manner", [slow, fails(429, "slow down", Retry_After="29")])
def test_what_waits_for_an_answer_or_between_two_tries_ends_when_the_model_is_closed(
    manner: Manner, server: Scripted, make: Making
) -> None:
    asked, failed = Event(), list[Failed]()

    def told(call: Asked) -> Say:
        asked.set()
        return manner(call)

    server.script = [told]
    model = make(timeout=3600.0, sleep=None)
    waiting = Thread(target=lambda: failed.append(failure(model)), daemon=True)
    waiting.start()
    assert asked.wait(60)
    model.close()
    waiting.join(60)
    assert [each.reason for each in failed] == ["down"]
    assert "the program is ending" in str(failed[0])
    assert "the program is ending" in str(failure(model))
    assert len(server.calls) == 1
