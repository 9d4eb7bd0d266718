"""Requests read-ahead of all files that the start of a broker imports.

With a cold page cache, the start waits for about 300 small files one by one. Read-ahead loads them
in parallel with the import of the first ones. With a warm cache it takes less than a millisecond.
`start_files.txt` lists the modules; a test compares the list with an actual start.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

TYPE_CHECKING = False  # importing `typing` would read a file before the read-ahead
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

START_FILES = "start_files.txt"


def read_ahead() -> None:
    """Requests read-ahead; ignores errors, because a start does not depend on it."""
    if not hasattr(os, "posix_fadvise"):
        return
    try:
        for path in paths_of(known_modules()):
            request(path)
    except OSError:
        pass


def request(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # another Python version, or not compiled yet
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)


def known_modules() -> list[str]:
    """Returns the modules in import order; a package ends in a dot, an extension in `!`."""
    with open(f"{os.path.dirname(__file__)}/{START_FILES}", encoding="ascii") as file:  # noqa: PTH120, PTH123  # a start does not import pathlib
        return file.read().split()


def paths_of(modules: Iterable[str]) -> Iterator[str]:
    """Returns the paths of the compiled files."""
    homes: dict[str, str] = {}
    compiled, extension = f".{sys.implementation.cache_tag}.pyc", EXTENSION_SUFFIXES[0]
    for module in modules:
        top, _, _ = module.partition(".")
        if top not in homes:
            homes[top] = home_of(top)
        *packages, name = module.split(".")
        if name.endswith("!"):
            packages = packages or ["lib-dynload"]  # of the standard library
            yield "/".join((homes[top], *packages, name[:-1] + extension))
        else:
            name = name or "__init__"
            yield "/".join((homes[top], *packages, "__pycache__", name + compiled))


def home_of(package: str) -> str:
    """Returns the directory that contains the package: of sys.path, else the standard library."""
    for directory in sys.path:
        if os.path.isdir(f"{directory}/{package}"):  # noqa: PTH112  # as above
            return directory
    return os.path.dirname(os.__file__)  # noqa: PTH120  # as above
