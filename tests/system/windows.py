"""A process that lacks what Windows lacks, and fails where Windows fails, as far as that can be had elsewhere.

`python windows.py modules` imports every module of cofio; `python windows.py COMMANDS` runs commands of the CLI, a JSON
array of arrays, one after the other, as long as they end well, with a line of one character after what each prints.
What libraries do about Windows is their affair: they are imported before it begins.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import pkgutil
import shutil
import signal
import socket
import sys
import time
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "uvloop")
MISSING = {
    os: (
        "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_SYNC", "O_DSYNC", "fork", "forkpty",
        "register_at_fork", "getuid", "geteuid", "getgid", "getegid", "fchmod", "fchown", "chown", "lchown", "fwalk",
        "pread", "pwrite", "setpriority", "getpriority", "PRIO_PROCESS", "mkfifo", "mknod",
        "killpg", "setsid", "getpgid", "uname", "nice", "sched_getaffinity", "sendfile", "fdatasync", "getloadavg",
        "chroot", "posix_fadvise", "posix_fallocate", "ttyname", "ctermid",
    ),
    signal: (
        "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGCHLD", "alarm", "setitimer", "pause",
        "pthread_sigmask",
    ),
    time: ("clock_gettime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_settime", "tzset"),
}  # fmt: skip
ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
BINARY = 1 << 27
END = "\x1e"


def pretend() -> None:
    """Be Windows from now on."""
    import asyncio
    import ctypes
    import fcntl

    import filelock  # noqa: F401  # which chooses its locks once

    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # which makes it one that cannot be imported
    for module, names in MISSING.items():
        for name in names:
            if name in vars(module):
                delattr(module, name)
    os.supports_dir_fd = os.supports_effective_ids = os.supports_fd = os.supports_follow_symlinks = set()
    vars(shutil)["_use_fd_functions"] = False
    vars(os)["O_BINARY"] = BINARY
    vars(asyncio)["ProactorEventLoop"] = asyncio.SelectorEventLoop
    vars(socket)["SO_EXCLUSIVEADDRUSE"] = socket.SO_KEEPALIVE  # an option that does no harm
    vars(ctypes)["WinDLL"] = _refuse("a library of Windows'")
    for name in (
        "open",
        "stat",
        "unlink",
        "remove",
        "mkdir",
        "rmdir",
        "rename",
        "replace",
        "link",
        "symlink",
        "scandir",
    ):
        vars(os)[name] = _without_descriptors(vars(os)[name])
    plain_open, plain_fsync = os.open, os.fsync

    def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return plain_open(path, flags & ~BINARY, *more, **named)

    def fsync(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & ACCESS == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        plain_fsync(descriptor)

    vars(os).update(
        open=open_,
        fsync=fsync,
        unlink=_unless_open(os.unlink, 1),
        remove=_unless_open(os.remove, 1),
        replace=_unless_open(os.replace, 2),
        rename=_unless_there(_unless_open(os.rename, 1)),
        symlink=_refuse("a link"),
        kill=_refuse("a signal"),
    )
    registry = types.ModuleType("winreg")
    vars(registry).update(OpenKey=_refuse("a key"), HKEY_LOCAL_MACHINE=0)
    sys.modules["winreg"] = registry
    sys.platform = "win32"


def _refuse(what: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EINVAL, f"{what} cannot be had here")

    return refused


def _without_descriptors(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(*given: Any, **named: Any) -> Any:
        if any(named.get(each) is not None for each in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            raise NotImplementedError("dir_fd unavailable on this platform")
        if call.__name__ == "scandir" and given and isinstance(given[0], int):
            raise TypeError("scandir: path should be string")
        return call(*given, **named)

    return called


def _unless_open(call: Callable[..., Any], paths: int) -> Callable[..., Any]:
    """A file that is open, or mapped, in this process cannot be removed or replaced, nor get another name."""

    @functools.wraps(call)
    def called(*given: Any, **named: Any) -> Any:
        used = set()
        for each in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the one that this very look has opened
                used.add(os.readlink(f"/proc/self/fd/{each}"))
        with open("/proc/self/maps", encoding="utf-8") as maps:
            used |= {line.split(maxsplit=5)[5].strip() for line in maps if line.count(" ") > 5 and "/" in line}
        for path in given[:paths]:
            if os.path.realpath(path) in used:
                raise PermissionError(errno.EACCES, "The file is in use", os.fspath(path))
        return call(*given, **named)

    return called


def _unless_there(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(old: Any, new: Any, **named: Any) -> Any:
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, "File exists", os.fspath(new))
        return call(old, new, **named)

    return called


def forget() -> None:
    """Have cofio's modules imported anew."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "cofio"]:
        del sys.modules[name]


def import_all() -> int:
    """Import every module of cofio; how many there are."""
    import cofio

    names = [each.name for each in pkgutil.walk_packages(cofio.__path__, "cofio.")]
    for name in names:
        if not name.endswith(".__main__"):
            import_module(name)
    return len(names)


def main() -> int:
    """Do what the arguments say."""
    given = sys.argv[1:]
    if given == ["modules"]:
        import_all()
    else:
        names = ["engine", "doors.cli.commands", "doors.cli.servers", "doors.mcp.stdio", "doors.animus.plugin"]
        for name in [*names, "doors.web.server"] if "serve" in given[0] else names:
            import_module(f"cofio.{name}")
    forget()
    pretend()
    warnings.filterwarnings("error", category=EncodingWarning, module="cofio")
    if given == ["modules"]:
        print(import_all())
        return 0
    cli: Any = import_module("cofio.doors.cli")
    code = 0
    for command in json.loads(given[0]):
        code = code or cli.main(command)
        if not {"mcp", "animus", "serve"} & {*command}:  # whose stdout is another's
            print(END, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
