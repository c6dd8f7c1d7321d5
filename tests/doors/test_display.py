"""What others wrote is shown to people so that it neither steers a terminal nor hides, nor passes for a log's entry."""

from __future__ import annotations

import json
import logging
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.http.logs import LogFormatter, LogWriter, start_logging
from cofio.text.display import escape_json, neutralise, neutralise_line

HARMFUL = [
    *map(chr, [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)]),
    *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    *"\u00ad\u034f\u115f\u1160\u200b\u2060\u2064\u206a\u206f\u3164\ufeff\uffa0\u2028\u2029\ufff9\ufffa\ufffb",
    *"\U000e0001\U000e0020\U000e0041\U000e007f\U0001d173\ud800\udc9b",
]
HARMLESS = [
    "plain text, with\ttabs\nand lines",
    "naïve Ünïcödé – “quoted” … 日本語 한국어 ไทย עברית العربية",
    "e\u0301 o\u0308 a\u20dd",  # marks that stand on letters
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, which is misspelled without its joiner
    "\u0915\u094d\u200d\u0937 \u0d28\u0d4d\u200d",  # Devanagari and Malayalam
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f\u200d\U0001f525",  # emoji
    "1\ufe0f\u20e3 \U0001f44d\U0001f3fd \U0001f642\u200d\u2194\ufe0f \u845b\U000e0100",  # with variants
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # the flag of Scotland
]
characters = st.sampled_from([*HARMFUL, *"\u200c\u200d\ufe0f ab\n\t\u0645\u0915\U0001f468\U0001f3f4"])
texts = st.text(st.characters() | characters, max_size=30)


def test_a_character_that_steers_or_hides_is_replaced_and_what_people_write_stays_as_it_is() -> None:
    for character in HARMFUL:
        assert neutralise(f"be{character}fore") == "be\ufffdfore", ascii(character)
    for text in HARMLESS:
        assert neutralise(text) == text
    for text in ("pay\u200cpal", "a\u200db", "\u200d\U0001f468", "\U0001f468\u200d", "\u0645\u200c\u200c"):
        assert "\ufffd" in neutralise(text)  # a joiner that joins nothing
    # Bytes that are hidden in variants or tags.
    assert neutralise("\U0001f600\U000e0130\U000e0131\U000e0132") == "\U0001f600\U000e0130\ufffd\ufffd"
    assert neutralise("x\U000e0068\U000e0069") == "x\ufffd\ufffd"


@given(text=texts)
def test_nothing_that_steers_is_left_of_any_text(text: str) -> None:
    safe = neutralise(text)
    kinds = {unicodedata.category(each) for each in safe if each not in "\n\t"}
    bidirectional = {unicodedata.bidirectional(each) for each in safe}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert not bidirectional & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert neutralise(safe) == safe
    assert len(safe) == len(text)
    assert neutralise_line(text).splitlines() == ([neutralise_line(text)] if text else [])


@given(text=texts)
def test_json_for_a_terminal_says_the_same(text: str) -> None:
    shown = escape_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert neutralise(shown) == shown
    # Halves of a pair that stand together are one character, to JSON.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert json.loads(shown) == {whole: [whole]}


def test_only_an_entry_of_a_log_begins_at_the_margin() -> None:
    record = logging.LogRecord(
        "x", logging.WARNING, "", 0, "no %s", ("\x1b[2Jsuch\ncofio: all is well\r\n\u2028file",), None
    )
    first, *rest = LogFormatter("cofio: %(message)s").format(record).splitlines()
    assert first == "cofio: no \ufffd[2Jsuch"
    assert all(line.startswith("  ") for line in rest)
    assert len(rest) == 2


def test_a_servers_log_has_the_errors_of_psycopg_and_not_its_warning_of_each_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "psycopg"):  # its own level, which is back afterwards
        start_logging()
        logging.getLogger("psycopg").warning("error ignored terminating %r", "<psycopg.Pipeline [BAD]>")
        logging.getLogger("psycopg").error("told")
    assert caplog.messages == ["told"]


def test_a_line_waits_for_room_in_a_pipe_and_a_wrong_call_of_a_logger_is_an_entry_too() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    size = os.write(writer, b"x" * 10_000_000)  # as much as it takes
    LogWriter(writer).emit(logging.LogRecord("x", logging.WARNING, "here.py", 7, "%d", ("no number",), None))
    with open(reader, "rb") as pipe:
        assert len(pipe.read(size)) == size
        assert pipe.readline() == b"cofio: an entry of here.py:7 has no text: TypeError\n"
    os.close(writer)
