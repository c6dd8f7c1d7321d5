"""What a call does, what a log shows, what helped, which runs make one skill: single rules, and the labelled runs."""

from __future__ import annotations

import json

import pytest
from benchmarks.agent_runs import FILES, judge, load

from cofio.extract.extractor import Step
from cofio.extract.rules.agent_runs.command_templates import keep_common
from cofio.extract.rules.agent_runs.commands import changes_something, find_action, looks_up
from cofio.extract.rules.agent_runs.results import summarize_result

from .runs import calls, case, run, says, user

LEAST = 0.97  # of the checks; see benchmarks/results/agent_runs.md


def test_labelled_runs_become_the_cases_and_skills_that_they_should() -> None:
    verdicts = [verdict for path in FILES for verdict in judge(load(path))]
    failed = [f"{each.group}: {each.check}" for each in verdicts if not each.passed]
    assert 1 - len(failed) / len(verdicts) >= LEAST, failed


def command(text: str) -> Step:
    """A call that runs this."""
    return Step(tool="bash", arguments=json.dumps({"command": text}), result="ok", failed=False)


@pytest.mark.parametrize(
    ("text", "name", "doing"),
    [
        ("kubectl -n staging logs deploy/api --tail=50", "kubectl logs", "looks"),
        ("kubectl rollout restart deploy/api", "kubectl rollout restart", "acts"),
        ("kubectl rollout status deploy/api", "kubectl rollout status", "looks"),
        ("gh run view 77 --log-failed", "gh run view", "looks"),
        ("cd app && npm test", "npm test", "checks"),
        ("terraform plan -out p", "terraform plan", "checks"),
        ("tail -n 5 a.log | grep -v x; sudo systemctl restart api", "systemctl restart", "acts"),
        ("sed -n 1,5p a.py", "sed", "looks"),
        ("grep -E 'refused|denied; restart' a.log", "grep", "looks"),
        ("sed -i 's/a|b;c/d/' a.py", "sed", "acts"),
        ("ssh db3 sudo rm /var/lib/x.pid", "rm", "acts"),
        ("curl -s https://x.org", "curl", "looks"),
        ("curl -X POST https://x.org", "curl", "acts"),
        ("git commit -am 'a; b' && git push", "git commit", "acts"),
    ],
)
def test_a_command_looks_checks_or_acts(text: str, name: str, doing: str) -> None:
    assert find_action(command(text)) == (name, doing)


@pytest.mark.parametrize(
    ("tool", "arguments", "changes"),
    [
        ("release_lock", {"id": 1}, True),
        ("list_locks", {}, False),
        ("check_health", {}, False),
        ("browser_snapshot", {}, False),
        ("browser_click", {"element": "OK"}, True),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, False),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, True),
        ("run_sql", {"query": "EXPLAIN SELECT 1"}, False),
        ("run_sql", {"query": "CREATE INDEX a ON b (c)"}, True),
        ("http_request", {"method": "GET", "url": "x"}, False),
        ("http_request", {"method": "PUT", "url": "x"}, True),
        ("terminal", {"input": "systemctl stop nginx"}, True),
        ("terminal", {"input": "ss -ltnp"}, False),
    ],
)
def test_what_changes_something_is_told_from_what_looks(tool: str, arguments: dict[str, object], changes: bool) -> None:
    step = Step(tool=tool, arguments=json.dumps(arguments), result="ok", failed=False)
    assert changes_something(step) is changes


def test_what_is_said_beside_a_command_does_not_count() -> None:
    found = case(
        run(
            user("Install the packages."),
            calls(("Bash", {"command": "npm install", "description": "Install"}, "npm ERR! code ERESOLVE")),
            calls(("Bash", {"command": "npm install --force", "description": "Insist"}, "added 3 packages")),
            says("Installed."),
        )
    )
    assert found is not None
    assert found.insight == (
        "Bash failed (npm ERR! code ERESOLVE) and worked with command=npm install --force instead of npm install."
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Traceback (most recent call last):\n  File 'a'\nKeyError: 'b'", "KeyError: 'b'"),
        (
            'Traceback (most recent call last):\n  File "a", line 1\n    x()\npsycopg2.errors.UndefinedColumn: no "a"\n'
            "LINE 1: select a",
            'psycopg2.errors.UndefinedColumn: no "a"',
        ),
        (
            "Traceback (most recent call last):\n  a()\nKeyError: 1\n\nDuring handling of the above exception, another"
            " exception occurred:\n\nTraceback (most recent call last):\n  b()\nOSError: disk",
            "OSError: disk",
        ),
    ],
)
def test_of_a_traceback_the_last_line_is_told(text: str, line: str) -> None:
    assert summarize_result(text) == (line, True)
    shown, failed = summarize_result(text, reads=True, of="/var/log/a.log")
    assert not failed
    assert shown.startswith(f"shows an error: {line} (")


def test_a_log_is_told_by_the_error_in_it_and_has_not_failed() -> None:
    log = "2026-03-04T12:01:11Z info starting\n2026-03-04T12:01:12Z error connect ECONNREFUSED 10.2.0.7:5432\nbye"
    found = case(
        run(
            user("The api is down, fix it."),
            calls(("bash", {"command": "kubectl logs deploy/api"}, log)),
            calls(("bash", {"command": "kubectl get configmap api -o yaml"}, "DATABASE_URL: 10.2.0.7")),
            calls(("bash", {"command": "kubectl set env deploy/api DATABASE_URL=pg"}, "env updated")),
            calls(("bash", {"command": "kubectl rollout status deploy/api"}, "rolled out")),
            says("It is up again."),
        )
    )
    assert found is not None
    assert not found.steps[0].failed
    assert found.insight == (
        "bash(command=kubectl logs deploy/api) showed what was wrong (error connect ECONNREFUSED 10.2.0.7:5432"
        " (3 lines)), and what helped was bash(command=kubectl set env deploy/api DATABASE_URL=pg)."
    )


@pytest.mark.parametrize("text", ["2026-03-04 all well\n0 errors", "10:00 ok\n10:01 no error found", "a = error_count"])
def test_a_log_without_an_error_shows_none(text: str) -> None:
    assert "shows an error" not in summarize_result(text, reads=True, of="a.log")[0]


def test_code_that_speaks_of_errors_shows_none() -> None:
    text = "def f():\n    # error: not handled\n    raise ValueError"
    assert summarize_result(text, reads=True, of="src/a.py") == ("def f(): (3 lines)", False)


def test_a_look_that_failed_at_first_is_no_insight_where_a_change_helped() -> None:
    found = case(
        run(
            user("Fix the importer."),
            calls(("bash", {"command": "python import.py"}, "KeyError: 'a'")),
            calls(("read_file", {"path": "imp.py"}, "file not found: imp.py")),
            calls(("read_file", {"path": "import.py"}, "x = row['a']")),
            calls(("edit_file", {"path": "import.py", "new": "row['b']"}, "ok")),
            calls(("bash", {"command": "python import.py"}, "done")),
            says("Fixed."),
        )
    )
    assert found is not None
    assert found.insight is not None
    assert found.insight.startswith("bash(command=python import.py) failed (KeyError: 'a') and worked after edit_file(")


@pytest.mark.parametrize(
    ("old", "new", "common"),
    [
        ("kubectl logs deploy/web-api -n a", "kubectl logs deploy/mail-api -n a", "kubectl logs deploy/<…>-api -n a"),
        ("git commit -m one", "git commit -m two", "git commit -m <…>"),
        ("npm test", "npm test", "npm test"),
        ("a b c", "x y z", "<…>"),
        ("SELECT a FROM b WHERE c", "SELECT d FROM b", "SELECT <…> FROM b <…>"),
    ],
)
def test_commands_are_told_by_what_they_have_in_common(old: str, new: str, common: str) -> None:
    assert keep_common(old, new) == common


def test_a_call_is_looked_at_alike_however_long_its_arguments_are() -> None:
    assert looks_up(command("cat " + "a" * 20_000))
