"""Runs a program under strace and tells what it did that reaches beyond it: sockets, name lookups, files.

strace sees the calls to the kernel, so it also sees what native code does, which no hook in Python would.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LONGEST = 120  # seconds before a program that hangs is ended; nothing is measured against the clock

# Those with a question mark are not on every kind of machine.
_CALLS = "socket,connect,bind,sendto,sendmsg,sendmmsg,openat,openat2,mkdirat,?open,?creat,?mkdir"
_LINE = re.compile(r"(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>.*)")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
_OPENED = re.compile(r"\d+<(?P<path>[^>]*)>")
_QUOTED = re.compile(r'"(?P<path>(?:[^"\\]|\\.)*)"')
_ADDRESS = re.compile(r"sa_family=AF_(?P<family>\w+)")
_PORT = re.compile(r"port=htons\((?P<port>\d+)\)")
_LOOPBACK = re.compile(r'inet_addr\("127\.|inet_pton\(AF_INET6, "::1"')
_LOOKUPS = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf")
_OWN = (".config", ".cache", ".local/share", ".local/state")
_DEVICES = ("/dev/null", "/dev/tty", "/proc/self/", "/dev/shm/cofio-")


def unable() -> str:
    """Why no program can be traced on this machine, or nothing."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    trial = ["strace", "-f", "--seccomp-bpf", "-e", "trace=openat", "-o", os.devnull, "true"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A user's home that is empty, a place for temporary files and a working folder, for a program to be traced in."""

    home: Path
    temporary: Path
    work: Path
    logs: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the program: nothing of ours but where programs are found."""
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.temporary), "LANG": "C.UTF-8"}
        return {**own, "PYTHONDONTWRITEBYTECODE": "1", **self.variables}

    def run(self, command: Sequence[str | Path], *, input: str = "") -> None:
        """Run the program to its end, traced; it must not fail."""
        with self.start(command) as process:
            process.communicate(input, LONGEST)
        assert process.returncode == 0, f"{command}: {self._errors.read_text()}"

    @property
    def _errors(self) -> Path:
        """What the program says on stderr: a file, as a full pipe that nobody reads would hold a server up."""
        return self.logs.with_name("errors")

    @contextmanager
    def start(self, command: Sequence[str | Path]) -> Iterator[subprocess.Popen[str]]:
        """Start the program, traced; at the end of the block it is asked to end, if it has not."""
        with self._errors.open("w") as errors, subprocess.Popen(
            [*self._tracer(), *command], cwd=self.work, env=self.environ, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)  # strace itself blocks it
                try:
                    process.wait(LONGEST)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise

    def _tracer(self) -> list[str | Path]:
        # A file for each thread (-ff), so that no line is broken by another's. What goes through io_uring cannot be
        # traced, so there is none: libuv, which uses it for bookkeeping, does without.
        calls = ["-e", f"trace={_CALLS},io_uring_setup", "-e", "inject=io_uring_setup:error=ENOSYS"]
        return ["strace", "-ff", "-y", "--seccomp-bpf", *calls, "-o", self.logs / "trace"]

    def _lines(self) -> list[str]:
        return [line for log in sorted(self.logs.iterdir()) for line in log.read_text(errors="replace").splitlines()]

    def opened(self, part: str) -> bool:
        """Whether a file was opened whose path has that part."""
        return any(re.search(rf"= \d+<[^>]*{re.escape(part)}", line) for line in self._lines())

    def foreign(self) -> list[str]:
        """What was done that is not cofio's own business, as lines of strace; and what was left behind."""
        found = [
            line for line in self._lines() if (parts := _LINE.match(line)) and self._is_foreign(**parts.groupdict())
        ]
        left = [path for folder in (self.home, self.temporary) for path in folder.rglob("*")]
        return found + [f"left behind: {path}" for path in left if not self._is_own(str(path))]

    def _is_foreign(self, call: str, arguments: str, result: str) -> bool:
        match call:
            case "socket":
                return re.match(r"AF_UNIX, |AF_INET6?, SOCK_STREAM", arguments) is None
            case "connect" | "bind" | "sendto" | "sendmsg" | "sendmmsg":
                return "sa_family=" in arguments and not self._is_near(arguments)
            case "open" | "openat" | "openat2" | "creat":
                return self._is_foreign_file(call, arguments, result)
            case "mkdir" | "mkdirat":
                quoted = _QUOTED.search(arguments)
                return result == "0" and quoted is not None and not self._is_own(quoted["path"])
        return not result.endswith("(INJECTED)")

    def _is_near(self, arguments: str) -> bool:
        """Whether the address is of this machine, and no server of names."""
        family, port = _ADDRESS.search(arguments), _PORT.search(arguments)
        if family and family[1] == "UNIX":
            return str(self.work) in arguments
        return _LOOPBACK.search(arguments) is not None and port is not None and port[1] != "53"

    def _is_foreign_file(self, call: str, arguments: str, result: str) -> bool:
        quoted = _QUOTED.search(arguments)
        if quoted is not None and quoted["path"] in _LOOKUPS:
            return True
        opened = _OPENED.match(result)
        return opened is not None and bool(call == "creat" or _WRITES.search(arguments)) and not self._is_own(opened[1])

    def _is_own(self, path: str) -> bool:
        """Whether a path is one where cofio may write: what it was given, and its own folders in the home folder."""
        if not path.startswith("/") or path.startswith(_DEVICES):
            return True
        own = [self.work, *(self.home / folder / "cofio" for folder in _OWN)]
        return any(Path(path) == each or each in Path(path).parents or Path(path) in each.parents for each in own)
