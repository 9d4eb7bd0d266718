"""Runs a program on a simulated Windows: without the Linux parts of `os` and other modules.

The standard library keeps the functions it needs; PyKBroker and its dependencies lose them. Open
or mapped files cannot be renamed or removed, and directories cannot be opened.
"""

# This module replaces functions of `os`, which `pathlib` would call.
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

MISSING_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "uvloop", "posix"}
OWN_MODULES = ("pykbroker", "__main__")
MISSING_FUNCTIONS: dict[Any, tuple[str, ...]] = {
    os: (
        *("pread", "pwrite", "preadv", "pwritev", "statvfs", "sync", "fdatasync", "nice", "fork"),
        *("sysconf", "getuid", "geteuid", "posix_fallocate", "posix_fadvise", "sendfile"),
        *("O_CLOEXEC", "O_DIRECTORY", "mkfifo", "getloadavg", "sched_getaffinity"),
    ),
    mmap: ("PROT_READ", "PROT_WRITE", "MAP_SHARED", "MAP_PRIVATE"),
    time: ("clock_gettime", "CLOCK_BOOTTIME"),
    socket: ("SO_REUSEPORT",),
}


def simulate_windows() -> None:
    found = shutil.disk_usage(tempfile.gettempdir())
    replaced: Any = shutil
    replaced.disk_usage = lambda _: found  # on Windows shutil uses another function
    replaced._USE_CP_SENDFILE = replaced._use_fd_functions = False  # as on Windows
    for module, names in MISSING_FUNCTIONS.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    loop: Any = asyncio.SelectorEventLoop
    loop.add_signal_handler = loop.remove_signal_handler = not_implemented
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, unless_in_use(getattr(os, name)))
    opened = os.open

    def open_file(path: Any, *rest: Any, **named: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "is a directory", path)
        return opened(path, *rest, **named)

    os.open = open_file
    imported = builtins.__import__

    def import_available(name: str, around: Any = None, *rest: Any, **named: Any) -> Any:
        importer = (around or {}).get("__name__", "")
        if name in MISSING_MODULES and (name == "uvloop" or importer.startswith(OWN_MODULES)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, around, *rest, **named)

    setattr(builtins, "__import__", import_available)  # noqa: B010  # its type is narrower
    sys.modules["msvcrt"] = msvcrt
    sys.platform = "win32"


def lock_a_byte(descriptor: int, mode: int, count: int) -> None:
    """Replaces `msvcrt.locking`."""
    assert (mode, count) == (msvcrt.LK_NBLCK, 1)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count)


msvcrt: Any = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, lock_a_byte


def not_implemented(*_: object) -> None:
    raise NotImplementedError


def unless_in_use(function: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(path: Any, *rest: Any, **named: Any) -> Any:
        target = os.path.realpath(path)
        if os.path.isfile(target) and target in in_use():
            raise PermissionError(errno.EACCES, "in use by this process", path)
        if os.path.isdir(target) and any(it.startswith(f"{target}/") for it in in_use()):
            raise PermissionError(errno.EACCES, "contains a file in use by this process", path)
        return function(path, *rest, **named)

    return refusing


def in_use() -> set[str]:
    """Returns the files that this process has open or mapped."""
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
    assert subprocess, zoneinfo  # must be loaded before functions are removed
    sys.argv = sys.argv[1:]
    simulate_windows()
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
