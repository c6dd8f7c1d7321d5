"""`--where` spells a filter: a field, an operator, a value."""

from __future__ import annotations

import argparse
import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Engine, Scope
from cofio.doors.cli.argument_values import parse_data, parse_scope, parse_ttl, parse_where

from .conftest import Cofio

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def three(memory: Engine) -> None:
    """Three records, called a, b and c."""
    memory.write(
        Scope("x"), text="a", title="a", author="pm", tags=["Auth"], created_at=NEW_YEAR,
        data={"n": 3, "ok": True, "who": {"first name": "ann"}, "s": "3"},
    )  # fmt: skip
    b = memory.write(
        Scope("x", "y"), text="b", title="b", kind="fact", importance="high", position=7, data={"n": 2.5},
        created_at=NEW_YEAR.replace(hour=18),
    )  # fmt: skip
    memory.edit(b.id, author="qa")
    memory.write(Scope("z"), text="c", title="c", created_at=NEW_YEAR.replace(day=2), data={"n": "three"})


@pytest.mark.usefixtures("three")
def test_a_test_holds_for_just_these(cofio: Cofio) -> None:
    for test, titles in {
        " author = pm ": "a", "author!=pm": "bc", "author=": "c", "title>=b": "bc", "tags=auth": "a",
        "kind!=fact": "ac", "importance=high": "b", "scope=x": "a", "scope!=x/y": "ac", "version>1": "b",
        "position<7.5": "b", "data.n>=3": "a", "data.n=three": "c", 'data.n="three"': "c", "data.s=3": "",
        'data.s="3"': "a", "data.ok!=true": "bc", "data.who.first name=ann": "a", "data.x=null": "",
        "created_at=2026-01-01": "ab", "created_at!=2026-01-01": "c", "created_at>2026-01-01": "c",
        "created_at>=2026-01-01": "abc", "created_at<=2026-01-01": "ab", "created_at<2026-01-01": "",
        "created_at>=2026-01-01T18:00": "bc", "created_at=2026-01-01T20:00+02:00": "b", "expires_at<=2026-01-01": "",
    }.items():  # fmt: skip
        assert sorted(row[4] for row in cofio("list", "--where", test).rows) == list(titles), test


@pytest.mark.usefixtures("three")
def test_all_tests_must_hold_unless_any_is_enough(cofio: Cofio) -> None:
    tests = ("--where", "created_at=2026-01-01", "--where", "kind=note")
    assert [row[4] for row in cofio("list", *tests).rows] == ["a"]
    assert sorted(row[4] for row in cofio("list", *tests, "--any").rows) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("author", "'author' is not a test"),
        ("=pm", "'=pm' is not a test"),
        ("colour=red", "'colour' is not a field; use data.NAME or one of scope, kind"),
        ("data=3", "a data field needs a name, as in data.status"),
        ("tags!=auth", "a tag can only be asked for, as in tags=auth"),
        ("kind=chunk", "kind =: 'chunk' is not a value that it can be compared with"),
        ("kind>note", "kind: > has no meaning here"),
        ("created_at>=yesterday", "created_at: 'yesterday' is not a time, as in 2026-01-31"),
        ("created_at>=9999-12-31", "outside the years 1 to 9999"),
        ("version=two", "version: 'two' is not a number"),
        ("data.n=[1]", "[1] is not a single value"),
        ("data.n>true", "is not a value that it can be compared with"),
    ],
)
def test_a_wrong_test_is_told_with_exit_code_2(cofio: Cofio, test: str, said: str) -> None:
    ran = cofio("list", "--where", test)
    assert ran.code == 2
    assert said in ran.err


@given(st.one_of(st.text(), st.builds("{}{}{}".format, st.text(), st.sampled_from("=<>"), st.text())))
def test_no_text_breaks_the_reading_of_values(written: str) -> None:
    for read in (parse_where, parse_ttl, parse_data, parse_scope):
        with contextlib.suppress(argparse.ArgumentTypeError):
            read(written)


def test_a_tag_asks_for_what_has_it(cofio: Cofio, memory: Engine) -> None:
    for title, author, *tags in (("a", "pm", "ops"), ("b", "qa", "ops", "release"), ("c", "qa", "auth")):
        memory.write(Scope("x"), text="zebra", title=title, author=author, tags=tags)
    for argv, titles in (
        (["--tag", "OPS"], "ab"),
        (["--tag", "ops", "--tag", "release"], "b"),
        (["--tag", "release,auth", "--any"], "bc"),
        (["--tag", "auth", "--where", "author=pm", "--any"], "ac"),
        (["--tag", "nothing"], ""),
    ):
        assert "".join(sorted(row[4] for row in cofio("list", *argv).rows)) == titles
        found = cofio("search", "zebra", "--mode", "keyword", *argv)
        assert "".join(sorted(row[4] for row in found.rows)) == titles
    assert "write a word, or several with commas between" in cofio("list", "--tag", ",").err
