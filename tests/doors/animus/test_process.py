"""The plugin as the host starts it: a process of its own, often for one call, with little of the host's environment."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.animus.plugin import Server
from cofio.doors.animus.project_store import SETTLE_AFTER
from cofio.doors.animus.protocol import VARIABLES
from cofio.doors.jsonrpc import Connection
from cofio.engine.engine import Engine
from cofio.engine.opening import exists

from .conftest import BLOCKS, INVALID, LONGEST, PLUGIN, Answer, Inside, Process, check, handshake, passed_on, scope

pytestmark = pytest.mark.usefixtures("process")

Start = Callable[..., Process]
COMMANDS = {
    "module": PLUGIN,
    "script": [sys.executable, "-c", "from cofio.doors.animus import main; raise SystemExit(main())"],
    "cofio": [sys.executable, "-m", "cofio", "animus"],
}
HEAVY = {
    "numpy", "apsw", "tantivy", "onnxruntime", "tokenizers", "Stemmer", "mcp", "rich", "yaml", "asyncio", "argparse",
}  # fmt: skip
LIMIT = 8 * 1024 * 1024


def command(
    *arguments: str, environ: dict[str, str] | None = None, which: str = "module"
) -> subprocess.CompletedProcess[bytes]:
    """Run the plugin's command to its end, with the environment that the host gives for a manifest."""
    return subprocess.run(
        [*COMMANDS[which], *arguments], env=passed_on() if environ is None else environ, capture_output=True,
        timeout=LONGEST, stdin=subprocess.DEVNULL,
    )  # fmt: skip


# The command.


@pytest.mark.requirement("manifest.print")
@pytest.mark.requirement("manifest.schema")
@pytest.mark.requirement("manifest.methods")
@pytest.mark.requirement("command.script")
@pytest.mark.parametrize(("which", "flag"), [("module", "--manifest"), ("script", "-m"), ("cofio", "-m")])
def test_the_manifest_is_one_line_that_fits_the_schema(which: str, flag: str) -> None:
    done = command(flag, which=which)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"}\n")
    assert done.stdout.count(b"\n") == 1
    manifest = json.loads(done.stdout)
    check("PluginManifest", manifest)
    assert (manifest["name"], manifest["plugin_kind"]) == ("animus-memory-cofio", "memory_store")
    assert manifest["protocol_version"] == "1.1.0"
    assert manifest["capabilities"] == [
        "initialize", "$/ping", "health/check", "shutdown", "exit", "memory/put", "memory/get", "memory/query",
        "memory/list_scopes", "memory/delete_scope",
    ]  # fmt: skip


@pytest.mark.requirement("manifest.bare")
@pytest.mark.requirement("manifest.steady")
def test_the_manifest_needs_no_variable_and_leaves_nothing_behind(root: Path) -> None:
    plain = command("--manifest", environ={})
    other = command("--manifest", environ=passed_on(COFIO_STORE="/x", COFIO_ANIMUS_ERROR_CODES="no", COFIO_FLOOR="?"))
    assert plain.returncode == other.returncode == 0
    assert plain.stdout == other.stdout
    assert len(plain.stdout) < 1024 * 1024
    assert list(root.iterdir()) == []


@pytest.mark.requirement("manifest.variables")
def test_every_variable_that_the_plugin_reads_is_declared(root: Path) -> None:
    declared = {each["name"]: each for each in json.loads(command("-m").stdout)["env_required"]}
    others = {"host", "port", "allow_secrets", "timezone", "docs", "fetch", "vault", "quiet_after", "structured"}
    served = others | {"workers"} | {each.name for each in fields(Settings) if each.name.startswith("llm_")}
    assert {f"COFIO_{each.name.upper()}" for each in fields(Settings) if each.name not in served} <= set(declared)
    assert not any(each["required"] for each in declared.values())
    sensitive = {name for name, each in declared.items() if each["sensitive"]}
    assert sensitive == {"COFIO_STORE", "COFIO_EMBED_KEY", "PGPASSWORD", "COFIO_READ_STORE"}
    assert set(declared) == set(VARIABLES)


@pytest.mark.requirement("command.help", "command.tty")
def test_help_is_on_stderr_and_without_a_host_it_says_so_in_one_line() -> None:
    done = command("--help")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"--manifest" in done.stderr
    assert b"--error-codes" in done.stderr
    ours, theirs = pty.openpty()
    done = subprocess.run(PLUGIN, stdin=theirs, env=passed_on(), capture_output=True, timeout=LONGEST)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


@pytest.mark.requirement("command.usage")
@pytest.mark.parametrize(
    ("arguments", "codes", "expected"),
    [(["--nope"], "", (2, 1)), (["--error-codes"], "", (2, 1)), (["--error-codes", "zep"], "", (2, 1)),
     ([], "zep", (2, 1)), (["--error-codes="], "", (0, 0))],  # an empty choice is no choice
)  # fmt: skip
def test_wrong_usage_is_told_in_one_line(arguments: list[str], codes: str, expected: tuple[int, int]) -> None:
    done = command(*arguments, environ=passed_on(COFIO_ANIMUS_ERROR_CODES=codes))
    assert (done.returncode, done.stderr.count(b"\n"), done.stdout) == (*expected, b"")


# A host.


@pytest.mark.requirement("host")
@pytest.mark.requirement("errors.codes")
@pytest.mark.parametrize(
    ("arguments", "variables", "codes", "bound"),
    [
        (["--error-codes", "crate"], {}, "crate", True), ([], {"COFIO_ANIMUS_ERROR_CODES": "crate"}, "crate", True),
        (["--error-codes=seed"], {}, "seed", False),
    ],
)  # fmt: skip
def test_a_host_finds_all_as_it_expects(
    root: Path, start: Start, default_store: StoreAddress, arguments: list[str], variables: dict[str, str], codes: str,
    bound: bool,
) -> None:  # fmt: skip
    block, host = BLOCKS[codes], start(*arguments, **variables)
    project, agent, task = scope("Host Project!"), scope("Host Project!", "A__α"), scope("Host Project!", "A__α", "T/1")
    early = host.error("memory/get", {"scope": project, "key": "k"})
    assert early[0] == (block - 7 if codes == "seed" else -32000)
    host.initialize(root if bound else None)
    assert host.result("$/ping") == {}
    assert host.result("health/check")["status"] == "healthy"
    host.send(b"", b"not json")
    assert host.result("$/ping") == {}
    values: list[tuple[dict[str, str], str, object]] = [
        (project, "k1", {"a": [1, None, "ü\n"]}), (agent, "k1", "of the agent"), (task, "k1", None),
        (project, "k2", "the sky is blue"),
    ]  # fmt: skip
    for where, key, value in values:
        assert host.put(where, key, value, ttl_secs=3600)["ack"]
    for where, key, value in values:
        assert host.get(where, key) == {"found": True, "value": value}
    assert host.get(project, "absent") == {"found": False}
    assert host.query(project, "what colour is the sky", 5) == ["k2"]
    assert host.result("memory/query", {"scope": scope("new"), "query": "x", "top_k": 1}) == {"results": []}
    assert host.error("memory/query", {"scope": project, "query": "x", "top_k": 51})[0] == block - 6
    assert host.error("memory/get", {"scope": scope("host-project"), "key": "k1"})[0] == block - 3
    assert host.error("memory/put", {"scope": project, "key": "", "value": 1})[0] == INVALID
    first = host.result("memory/list_scopes", {"project_id": "host   PROJECT", "page_size": 2})
    second = host.result("memory/list_scopes", {"project_id": "host-project", "page_size": 2, "cursor": "2"})
    assert (first["next_cursor"], first["scopes"] + second["scopes"]) == ("2", [project, agent, task])
    for _ in range(2):
        assert host.result("memory/delete_scope", {"scope": agent}) == {"ack": True}
    assert host.get(project, "k1")["found"]
    assert host.get(task, "k1")["found"]
    assert host.error("initialize", handshake("/elsewhere"))[0] == block - 7
    assert host.result("shutdown") == {}
    host.notify("exit")
    assert host.process.wait(LONGEST) == 0
    assert exists(default_store)


@pytest.mark.requirement("end.second", "exit.request", "exit.notification")
@pytest.mark.parametrize("how", ["eof", "exit", "notification"])
def test_it_ends_at_once_whatever_it_was_indexing(start: Start, how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        endpoint.settimeout(LONGEST)
        url = f"http://127.0.0.1:{endpoint.getsockname()[1]}/v1"
        host = start(COFIO_EMBEDDER="remote", COFIO_EMBED_URL=url, COFIO_EMBED_MODEL="m")
        host.initialize()
        host.put(scope(), "k", "a text that needs a vector")
        asked, _ = endpoint.accept()
        with asked:  # for vectors, which it never gets
            if how == "eof":
                host.writes.close()
            elif how == "exit":
                assert host.result("exit") == {}
            else:
                host.notify("exit")
            assert host.process.wait(LONGEST) == 0


def imported(log: bytes) -> set[str]:
    """The modules of an `-X importtime` log."""
    return {line.rpartition(b"|")[2].strip().decode() for line in log.splitlines() if line.startswith(b"import time:")}


@pytest.mark.requirement("spawn.light")
def test_nothing_heavy_is_imported_before_it_is_needed(root: Path) -> None:
    def loaded(*calls: tuple[str, Answer], arguments: tuple[str, ...] = ()) -> set[str]:
        frames = [
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            for method, params in (("initialize", handshake(root)), *calls)
        ]
        sent = b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
        begun = [sys.executable, "-X", "importtime", "-m", "cofio.doors.animus", *arguments]
        done = subprocess.run(begun, input=sent, env=passed_on(COFIO_EMBEDDER="minilm"), capture_output=True)
        assert done.stdout.count(b"\n") == (len(frames) if not arguments else 1)
        assert b'"error"' not in done.stdout
        return imported(done.stderr)

    asked = {"scope": scope(), "query": "sky", "top_k": 1}
    assert not loaded() & (
        HEAVY | {"cofio.engine.engine", "cofio.values.query", "cofio.backends", "hashlib", "importlib.metadata"}
    )
    assert not loaded(arguments=("-m",)) & (
        HEAVY | {"cofio.values.records", "cofio.doors.jsonrpc", "dataclasses", "threading"}
    )
    put = loaded(("memory/put", {"scope": scope(), "key": "k", "value": "the sky is blue"}))
    keyword = loaded(("memory/query", asked))
    assert "apsw" in put & keyword
    assert not (put | keyword) & (HEAVY - {"apsw", "tantivy", "Stemmer"})


@pytest.mark.requirement("frames.stderr")
def test_nothing_but_answers_is_on_stdout(root: Path) -> None:
    noisy = (
        "from cofio.doors.animus import main, plugin\n"
        "health = plugin.Server._describe_health\n"
        "plugin.Server._describe_health = lambda self: print('from a library') or health(self)\n"
        "raise SystemExit(main())\n"
    )
    sent = b'not json\n{"jsonrpc":"2.0","id":1}\n{"jsonrpc":"2.0","id":1,"method":"health/check"}\n'
    done = subprocess.run([sys.executable, "-c", noisy], input=sent, env=passed_on(), capture_output=True)
    check("HealthCheckResult", json.loads(done.stdout)["result"])
    assert done.stderr.count(b"animus-memory-cofio: ") == 2
    assert b"from a library" in done.stderr


# What may come in.


def session(root: Path) -> list[bytes]:
    """The frames of a short session."""
    calls: list[tuple[str, Answer]] = [
        ("initialize", handshake(root)),
        ("memory/put", {"scope": scope(), "key": "k", "value": "é"}),
        ("memory/get", {"scope": scope(), "key": "k"}),
    ]
    return [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, ensure_ascii=False).encode()
        for number, (method, params) in enumerate(calls)
    ]


def whole(frames: list[bytes], cut: int) -> int:
    """How many frames are complete in the first bytes of a session."""
    ends = [sum(len(frame) + 1 for frame in frames[: number + 1]) - 1 for number in range(len(frames))]
    return sum(end <= cut for end in ends)


@pytest.mark.requirement("frames.eof")
def test_wherever_a_session_is_cut_what_was_whole_is_answered(root: Path) -> None:
    frames = session(root)
    sent = b"\n".join(frames) + b"\n"
    for cut in range(len(sent) + 1):
        server, out, dropped = Server(), io.BytesIO(), list[str]()
        left = Connection(server, io.BytesIO(sent[:cut]), out, on_malformed=dropped.append).run()
        if server.project is not None:
            server.project.close()
        answers = [json.loads(line) for line in out.getvalue().splitlines()]
        assert left == 0
        assert sorted(each["id"] for each in answers) == list(range(whole(frames, cut)))
        assert all("result" in each for each in answers)


@pytest.mark.requirement("frames.size")
def test_a_frame_of_eight_mebibytes_is_taken(start: Start) -> None:
    host = start()
    host.initialize()
    value = "😀" * ((LIMIT - 200) // 12)  # twelve bytes each, as the host's JSON may escape them
    params: Answer = {"scope": scope(), "key": "k", "value": value}
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "memory/put", "params": params})
    assert LIMIT - 200 < len(frame) <= LIMIT
    host.send(frame.encode())
    assert host.next()["result"]["ack"]
    assert host.get(scope(), "k")["value"] == value
    # One that the memory does not hold is refused in words, and the next is served.
    for key, large in (("value", "x" * (LIMIT - 300)), ("key", "x" * (LIMIT - 300)), ("other", ["x"] * 1_000_000)):
        params = {"scope": scope(), "key": "l", "value": 1, key: large}
        answer = host.ask("memory/put", params)
        assert ("result" in answer) == (key == "other")
        if key != "other":
            assert answer["error"]["code"] == INVALID
            assert "longer than the limit of" in answer["error"]["message"]
    host.send(b'{"jsonrpc":"2.0","id":"big","method":"$/ping","params":{"x":"' + b"y" * 3 * LIMIT + b'"}}')
    assert host.next()["id"] == "big"  # larger than any frame may be: refused, by its id
    assert host.result("$/ping") == {}


# Many at once.


@pytest.mark.requirement("scope.collision")
def test_of_processes_that_put_to_colliding_scopes_one_kind_wins(root: Path, start: Start) -> None:
    names = ["P", "p", "p!", "P"]
    hosts = [start() for _ in names]
    answers: list[Answer] = [{} for _ in names]

    def work(me: int) -> None:
        hosts[me].initialize(root)
        answers[me] = hosts[me].ask("memory/put", {"scope": scope(names[me]), "key": "k", "value": names[me]})

    threads = [threading.Thread(target=work, args=(me,)) for me in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    (winner,) = {name for name, answer in zip(names, answers, strict=True) if "result" in answer}
    assert all("result" in answer for name, answer in zip(names, answers, strict=True) if name == winner)
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {-32303}
    assert hosts[0].scopes() == [scope(winner)]


@pytest.mark.requirement("store.durable")
def test_kill_9_loses_nothing_that_was_acknowledged(root: Path, start: Start) -> None:
    host = start(COFIO_SYNC="full")
    host.initialize(root)
    for number in range(40):
        host.put(scope(), f"k{number}", f"unique{number}")
    host.process.send_signal(signal.SIGKILL)
    host.process.wait(LONGEST)
    again = start()
    again.initialize(root)
    for number in range(40):
        assert again.get(scope(), f"k{number}")["value"] == f"unique{number}"
        assert again.query(scope(), f"unique{number}") == [f"k{number}"]


@pytest.mark.requirement("store.indexed")
def test_what_many_short_processes_put_is_indexed_in_the_end(default_store: StoreAddress, root: Path) -> None:
    host = Inside()
    host.initialize(root)
    for number in range(SETTLE_AFTER):
        host.put(scope(), f"k{number}", f"unique{number}")
    host.close()
    with Engine.open(default_store, settings=Settings(background=False, embedder="none")) as engine:
        assert engine.stats()["waiting_for_index"] == 0


@pytest.mark.requirement("frames.eof", "store.concurrent", "put.immediate")
def test_many_processes_at_once_do_what_was_sent_before_their_end_and_lose_nothing(root: Path, start: Start) -> None:
    hello, put = session(root)[0], b'{"jsonrpc":"2.0","id":"put","method":"memory/put","params":%s}'
    running = []
    for number in range(16):  # all at once, on however few cores there are
        params = {"scope": {"project_id": "p"}, "key": f"k{number}", "value": f"unique{number}"}
        process = subprocess.Popen(
            PLUGIN, cwd=root, env=passed_on(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin
        process.stdin.write(b"\n".join([hello, put % json.dumps(params).encode(), b""]))
        process.stdin.close()
        process.stdin = None
        running.append(process)
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out.splitlines()[-1])["result"]["ack"] is True
    host = start()
    host.initialize(root)
    for number in range(16):
        assert host.get(scope(), f"k{number}")["value"] == f"unique{number}"
        assert host.query(scope(), f"unique{number}") == [f"k{number}"]
