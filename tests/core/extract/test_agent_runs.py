"""A call looks, checks or changes something, and its result says whether it failed."""

from __future__ import annotations

import json

import pytest

from cofio.extract.extractor import Step
from cofio.extract.rules.agent_runs.command_templates import keep_common
from cofio.extract.rules.agent_runs.commands import changes_something, find_action, looks_up
from cofio.extract.rules.agent_runs.results import summarize_result

from .runs import calls, case, run, says, user


def call(tool: str, **arguments: object) -> Step:
    """A call that went well."""
    return Step(tool=tool, arguments=json.dumps(arguments), result="ok", failed=False)


@pytest.mark.parametrize(
    ("text", "name", "doing"),
    [
        ("kubectl -n staging logs deploy/api --tail=50", "kubectl logs", "looks"),
        ("kubectl rollout restart deploy/api", "kubectl rollout restart", "acts"),
        ("cd app && npm test", "npm test", "checks"),
        ("tail -n 5 a.log | grep -v x; sudo systemctl restart api", "systemctl restart", "acts"),
        ("grep -E 'refused|denied; restart' a.log", "grep", "looks"),
        ("sed -i 's/a|b;c/d/' a.py", "sed", "acts"),
        ("ssh db3 sudo rm /var/lib/x.pid", "rm", "acts"),
        ("curl -X POST https://x.org", "curl", "acts"),
    ],
)
def test_a_command_looks_checks_or_acts(text: str, name: str, doing: str) -> None:
    assert find_action(call("bash", command=text)) == (name, doing)


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        (call("release_lock", id=1), True),
        (call("list_locks"), False),
        (call("str_replace_editor", command="view", path="a.py"), False),
        (call("str_replace_editor", command="str_replace", path="a.py"), True),
        (call("run_sql", query="EXPLAIN SELECT 1"), False),
        (call("run_sql", query="CREATE INDEX a ON b (c)"), True),
        (call("http_request", method="GET", url="x"), False),
        (call("http_request", method="PUT", url="x"), True),
        (call("terminal", input="systemctl stop nginx"), True),
    ],
)
def test_what_changes_something_is_told_from_what_looks(step: Step, changes: bool) -> None:
    assert changes_something(step) is changes
    assert looks_up(call("bash", command="cat " + "a" * 20_000)), "however long the arguments are"


FAILURES = [
    "main.c:12:5: fatal error: foo.h: No such file or directory", "npm ERR! code E404", "User 42 not found.",
    "No replacement was performed, old_str `x` did not appear verbatim in /app/config.py.", "permission denied",
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    x()\nValueError: bad value 7',
    "exit code 1\nstdout:\n\nstderr:\nmake: *** No rule to make target 'test'.  Stop.", "404 Not Found",
    '{"ok": false}', '{"error": {"message": "rate limited", "type": "x"}}', '{"status": 500, "body": "oops"}',
    '{"exit_code": 2, "stdout": "", "stderr": "usage: x"}', '{"content":[{"type":"text","text":"no"}],"isError":true}',
    "src/a.py:3: error: Incompatible types\nFound 1 error in 1 file (checked 3 source files)",
    "TypeError: x is not a function\n    at a.js:3", "Command exited with code 127", "<error>no such file</error>",
    "{'error': 'city not found'}",
    "FAIL src/a.test.ts\nTests: 1 failed, 3 passed, 4 total", "\x1b[31merror\x1b[0m: build failed",
    '{"errors":[{"message":"Field x missing"}]}', "```\nError: x\n```", "Build failed with 2 errors.",
    "building\nlinking\nmore\nError: creating the queue: it exists already", '{"error": 7, "message": ""}',
    "HTTP/1.1 404 Not Found\ncontent-type: text/html", "Error 500",
]  # fmt: skip
SUCCESSES = [
    "0 errors, 0 warnings", "Error handling in Go\n====\n", "12 passed in 0.3s", "exit code 0\n3 files", "",
    '{"ok": true, "errors": []}', '{"error": null, "result": "fine"}', "Retried 3 failed jobs: all succeeded.",
    "450 Main Street, Springfield", '{"count": 3, "status": "confirmed"}', "The error was fixed.", "Deleted 404 rows",
    "Process exited with code 0\nWarning: 1 deprecated", "Tests: 4 passed, 4 total", '{"code": 450, "name": "bus"}',
]  # fmt: skip


def test_a_result_that_failed_is_told_from_one_that_speaks_of_errors() -> None:
    assert [text for text in FAILURES if not summarize_result(text)[1]] == []
    assert [text for text in SUCCESSES if summarize_result(text)[1]] == []


def failed(tool: str, arguments: object, result: str) -> bool:
    """Whether a call with this result is taken for a failure."""
    found = case(run(user("Look at what went wrong."), calls((tool, arguments, result)), says("Done.")))
    assert found is not None
    return found.steps[0].failed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("error.log", "Error: connection refused by db-1"),
        ("auth.log", "sshd: permission denied for root"),
        ("crash.log", "Traceback (most recent call last):\n  x()\nKeyError: 1"),
        ("tests.log", "1 failed, 3 passed in 0.2s"),
        ("answer.json", '{"status": 500, "error": "boom"}'),
    ],
)
def test_what_a_text_speaks_of_is_no_failure_to_read_it(name: str, text: str) -> None:
    assert not failed("read_file", {"path": name}, text)
    if name.endswith(".log"):
        assert not failed("bash", {"command": f"tail -n 50 /var/log/{name} | grep -v x"}, text)


@pytest.mark.parametrize(
    "text",
    [
        "Error: file not found: a/error.log", "permission denied: a/error.log", "a/error.log does not exist",
        "Traceback (most recent call last):\n  open()\nFileNotFoundError: [Errno 2] No such file: 'a/error.log'",
        '{"error": "could not open the file"}', '{"content": [{"type": "text", "text": "no"}], "isError": true}',
    ],
)  # fmt: skip
def test_what_a_tool_says_of_its_own_reading_is_a_failure(text: str) -> None:
    assert failed("read_file", {"path": "a/error.log"}, text)
    assert failed("bash", {"command": "cat a.log && pytest -q"}, "1 failed, 3 passed in 0.2s")


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ({"rows": [[412]]}, "1 row ([412])"),
        ([{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}], "4 items (a, b, c, …)"),
        ({"message": "3 mails sent", "ids": [1, 2, 3]}, "3 mails sent, 3 ids (1, 2, 3)"),
        ({"sky": "rain", "wind": {"from": "N"}, "next": None}, "sky=rain"),
        ({"ok": False}, "no reason given"),
        ({"statusCode": 401, "message": "Unauthorized"}, "401: Unauthorized"),
        ({"exit_code": 1, "stderr": "Traceback (most recent call last):\n  File a\nKeyError: 7"}, "KeyError: 7"),
        ([{"type": "text", "text": '{"error": "no seats"}'}], "no seats"),
        ({"ok": True}, "ok"),
        ({}, "empty"),
        ("text", "text"),
    ],
)
def test_json_is_told_by_what_it_holds(result: object, line: str) -> None:
    assert line in summarize_result(json.dumps(result))[0]


def test_of_a_traceback_the_last_error_is_told_and_of_a_log_the_error_in_it() -> None:
    text = (
        "Traceback (most recent call last):\n  a()\nKeyError: 1\n\nDuring handling of the above exception, another"
        " exception occurred:\n\nTraceback (most recent call last):\n  b()\nOSError: disk"
    )
    assert summarize_result(text) == ("OSError: disk", True)
    shown, is_failure = summarize_result(text, reads=True, of="/var/log/a.log")
    assert not is_failure
    assert "OSError: disk" in shown
    code = "def f():\n    # error: not handled\n    raise ValueError"
    assert summarize_result(code, reads=True, of="src/a.py") == ("def f(): (3 lines)", False)
    assert "shows an error" not in summarize_result("10:00 ok\n10:01 no error found", reads=True, of="a.log")[0]


@pytest.mark.parametrize(
    ("old", "new", "common"),
    [
        ("kubectl logs deploy/web-api -n a", "kubectl logs deploy/mail-api -n a", "kubectl logs deploy/<…>-api -n a"),
        ("npm test", "npm test", "npm test"),
        ("a b c", "x y z", "<…>"),
    ],
)
def test_commands_are_told_by_what_they_have_in_common(old: str, new: str, common: str) -> None:
    assert keep_common(old, new) == common
