"""Makes this process as poor as one on Windows, then runs what it is told: for tests alone.

The standard library keeps what it needs of Linux; what is ours and what it imports does not. Files
that are open or mapped can be neither renamed nor removed, and directories cannot be opened.
"""

# It replaces functions of `os`, and must not run into its own.
# ruff: noqa: PTH112, PTH113, PTH115, PTH123, PTH208

import asyncio
import builtins
import errno
import fcntl
import mmap
import os
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import zoneinfo
from collections.abc import Callable
from typing import Any

NO_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "uvloop", "posix"}
OURS = ("pykbroker", "__main__")
NO_FUNCTIONS: dict[Any, tuple[str, ...]] = {
    os: (
        *("pread", "pwrite", "preadv", "pwritev", "statvfs", "sync", "fdatasync", "nice", "fork"),
        *("sysconf", "getuid", "geteuid", "posix_fallocate", "posix_fadvise", "sendfile"),
        *("O_CLOEXEC", "O_DIRECTORY", "mkfifo", "getloadavg", "sched_getaffinity"),
    ),
    mmap: ("PROT_READ", "PROT_WRITE", "MAP_SHARED", "MAP_PRIVATE"),
    time: ("clock_gettime", "CLOCK_BOOTTIME"),
    socket: ("SO_REUSEPORT",),
}


def impoverish() -> None:
    found = shutil.disk_usage(tempfile.gettempdir())
    replaced: Any = shutil
    replaced.disk_usage = lambda _: found  # there it asks another function
    replaced._USE_CP_SENDFILE = replaced._use_fd_functions = False  # likewise
    for module, names in NO_FUNCTIONS.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    loop: Any = asyncio.SelectorEventLoop
    loop.add_signal_handler = loop.remove_signal_handler = not_implemented
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, unless_in_use(getattr(os, name)))
    opened = os.open

    def open_no_directory(path: Any, *rest: Any, **named: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "a directory", path)
        return opened(path, *rest, **named)

    os.open = open_no_directory
    imported = builtins.__import__

    def import_less(name: str, around: Any = None, *rest: Any, **named: Any) -> Any:
        who = (around or {}).get("__name__", "")
        if name in NO_MODULES and (name == "uvloop" or who.startswith(OURS)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, around, *rest, **named)

    setattr(builtins, "__import__", import_less)  # noqa: B010  # its type is narrower
    sys.modules["msvcrt"] = msvcrt
    sys.platform = "win32"


def lock_a_byte(descriptor: int, mode: int, count: int) -> None:
    """As Windows has it."""
    assert (mode, count) == (msvcrt.LK_NBLCK, 1)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count)


msvcrt: Any = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, lock_a_byte


def not_implemented(*_: object) -> None:
    raise NotImplementedError


def unless_in_use(function: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(path: Any, *rest: Any, **named: Any) -> Any:
        wanted = os.path.realpath(path)
        if os.path.isfile(wanted) and wanted in in_use():
            raise PermissionError(errno.EACCES, "in use by this process", path)
        if os.path.isdir(wanted) and any(it.startswith(f"{wanted}/") for it in in_use()):
            raise PermissionError(errno.EACCES, "holds a file in use by this process", path)
        return function(path, *rest, **named)

    return refusing


def in_use() -> set[str]:
    """The files that this process has open or mapped."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue
    with open("/proc/self/maps") as maps:
        found.update(line[line.index("/") :].rstrip("\n") for line in maps if "/" in line)
    return found


if __name__ == "__main__":
    assert subprocess, zoneinfo  # loaded while the system is still whole
    sys.argv = sys.argv[1:]
    impoverish()
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
