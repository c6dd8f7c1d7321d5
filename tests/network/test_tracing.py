"""The tracer sees what it is there to see, in Python and in native code; else the doors' tests would show nothing."""

from __future__ import annotations

import sys

import pytest

from .tracing import Sandbox

TRACES = {
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)": "SOCK_DGRAM",
    "import socket; socket.getaddrinfo('localhost', 80)": "/etc/",
    "import socket; socket.socket().connect_ex(('127.0.0.1', 53))": "connect(",
    "import socket; socket.socket().bind(('0.0.0.0', 0))": "bind(",
    "import pathlib; pathlib.Path('~/.device').expanduser().write_text('1')": "/home/.device",
    "import os; os.mkdir(os.path.expanduser('~/.cache')); os.mkdir(os.path.expanduser('~/.cache/Other'))": "Other",
    "import tempfile; tempfile.TemporaryFile()": "/temporary/",
    "import threading, socket; threading.Thread(target=lambda: socket.socket(socket.AF_INET, 2)).start()": "SOCK_DGRAM",
    "import subprocess; subprocess.run(['touch', '../home/trace'])": "/home/trace",
}


@pytest.mark.parametrize("program", TRACES)
def test_what_a_program_does_beyond_itself_is_seen(program: str, sandbox: Sandbox) -> None:
    sandbox.run([sys.executable, "-c", program])
    assert any(TRACES[program] in line for line in sandbox.foreign())


def test_a_server_of_its_own_and_files_of_its_own_are_no_trace(sandbox: Sandbox) -> None:
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server, socket.create_connection(server.getsockname()):\n"
        "    open('note.txt', 'w').write('mine')\n"
    )
    sandbox.run([sys.executable, "-c", program])
    assert sandbox.foreign() == []


def test_the_telemetry_of_onnxruntime_is_seen_where_it_is_not_turned_off(sandbox: Sandbox) -> None:
    sandbox.run([sys.executable, "-c", "import onnxruntime"])
    assert any("/.onnxruntime/deviceid" in line for line in sandbox.foreign())
    assert sandbox.opened("/onnxruntime_pybind11_state")


PREPARED = {
    "nothing": "",
    "a user's own choice": "os.environ['ORT_DISABLE_TELEMETRY'] = '0'",
    "a variable that was removed again": "import cofio.embed.minilm; del os.environ['ORT_DISABLE_TELEMETRY']",
}


@pytest.mark.parametrize("before", PREPARED)
def test_the_telemetry_is_off_in_a_program_and_in_its_children(before: str, sandbox: Sandbox) -> None:
    program = (
        f"import os, subprocess, sys\n{PREPARED[before]}\n"
        "from cofio.embed.runtime import import_onnxruntime\n"
        "import_onnxruntime()\n"
        "subprocess.run([sys.executable, '-c', 'import onnxruntime'], check=True)\n"
    )
    sandbox.run([sys.executable, "-c", program])
    assert sandbox.foreign() == []
    assert sandbox.opened("/onnxruntime_pybind11_state")
