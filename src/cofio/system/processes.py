"""What a process can find out about itself and others, and how it is kept within limits."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from socket import socket

NO_WINDOW = 0x08000000 if sys.platform == "win32" else 0
"""How a process is started that is to show no window: one of an agent's desktop app would flash up."""
INHERITED = ("SYSTEMROOT", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA")
"""The variables without which Python does not start on Windows, or does not find what is installed for the user."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h
_QUERY, _STILL_ACTIVE, _DENIED = 0x1000, 259, 5


def is_running(process: int) -> bool:
    """Whether there is a process of that number, of any user."""
    if sys.platform == "win32":  # where signal 0 is Ctrl-C
        import ctypes
        from ctypes import wintypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.CloseHandle.argtypes = [wintypes.HANDLE]
        kernel.GetExitCodeProcess.argtypes = [wintypes.HANDLE, wintypes.LPDWORD]
        handle = kernel.OpenProcess(_QUERY, False, process)
        if not handle:
            return ctypes.get_last_error() == _DENIED
        code = wintypes.DWORD()
        succeeded = kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return not succeeded or code.value == _STILL_ACTIVE
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def read_boot_id() -> str:
    """What is another after each start of the machine; empty where the system does not say it."""
    if sys.platform == "darwin":
        import ctypes

        text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        found = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
        return text.value.decode() if found == 0 else ""
    if sys.platform == "win32":
        import winreg

        key_path = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key_path) as key:
                return str(winreg.QueryValueEx(key, "BootId")[0])
        except OSError:
            return ""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_steady_clock() -> float:
    """Seconds by a clock that cannot be set, and that goes on while the machine sleeps, where there is such a clock."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # time.monotonic() is another one there, which stands still
    return time.monotonic()


def run_after_fork(work: Callable[[], None]) -> None:
    """Have `work` done in each child that is forked from this process, where there is such a thing."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=work)


def lower_priority(nice: int) -> None:
    """Let other threads go before this one. Only Linux gives each thread a priority of its own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))


def lower_process_priority(nice: int) -> None:
    """Let other processes go before this one. On Windows, a process gets its priority from the one that starts it."""
    if sys.platform != "win32":
        os.nice(nice)


def start_detached(command: Sequence[str], folder: Path) -> None:
    """Start a process in a folder and do not wait for it: it goes on when this one ends, and shows and reads nothing.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess

    nowhere = subprocess.DEVNULL
    if sys.platform == "win32":
        flags = NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.BELOW_NORMAL_PRIORITY_CLASS
        process = subprocess.Popen(
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd=folder, creationflags=flags
        )
    else:
        # A session of its own: Ctrl-C and a terminal that closes are not meant for it.
        process = subprocess.Popen(
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd=folder, start_new_session=True
        )
    # Else it would stay a zombie for as long as this one runs. The thread is never joined.
    threading.Thread(target=process.wait, name="cofio-detached", daemon=True).start()


def measure_peak_memory() -> int:
    """The most bytes of memory that this process has had at once."""
    if sys.platform == "win32":
        import ctypes
        from ctypes import wintypes

        class Counters(ctypes.Structure):
            _fields_ = (
                ("cb", ctypes.c_uint32),
                ("faults", ctypes.c_uint32),
                ("peak", ctypes.c_size_t),
                ("others", ctypes.c_size_t * 7),
            )

        kernel, found = ctypes.WinDLL("kernel32"), Counters(cb=ctypes.sizeof(Counters))
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.K32GetProcessMemoryInfo.argtypes = [wintypes.HANDLE, ctypes.POINTER(Counters), ctypes.c_uint32]
        kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(found), found.cb)
        return int(found.peak)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def limit_resources(*, seconds: int, memory: int) -> None:
    """Let this process use no more time and memory than that, and write no file, as far as the system has such limits.

    macOS has none for memory, and Windows none that a process sets for itself: there, its parent ends it.
    """
    if sys.platform == "win32":
        return
    import resource

    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    if sys.platform != "darwin":  # which knows this limit, and refuses to set it
        limits[resource.RLIMIT_AS] = memory
    for what, limit in limits.items():
        _, most = resource.getrlimit(what)
        least = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(what, (least, least))


def share_heaps() -> None:
    """Let the threads of this process share two heaps, unless its environment says how many.

    glibc has up to eight for each core, and what is free in one is of no use to the threads of another: a server with
    many threads that each do little would have twice the memory that it uses.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        import ctypes

        with suppress(AttributeError):  # another C library, which has one heap
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def raise_file_limit(enough: int) -> int:
    """Raise the number of files and connections that this process may have open, up to `enough`; the number."""
    if sys.platform == "win32":  # connections are no files there, and there is no limit to them
        return enough
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = enough if hard == resource.RLIM_INFINITY else min(hard, enough)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS has a limit below the one that it tells
        return soft
    return wanted


def claim_address(listening: socket) -> None:
    """Let a socket take the address of a server that has just ended, and none that another one has."""
    import socket

    if sys.platform == "win32":  # where SO_REUSEADDR takes an address away from its owner
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def count_files(unknown: int) -> int:
    """How many files and connections this process has open; `unknown` where the system does not say it."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return unknown


def count_cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_share_sockets() -> bool:
    """Whether a process can hand its open sockets to those that it starts, and they to each other."""
    return sys.platform != "win32"


def stop_blocking(descriptor: int) -> None:
    """Let reads and writes of a pipe fail rather than wait, where the system can do that."""
    if sys.platform != "win32":
        os.set_blocking(descriptor, False)
