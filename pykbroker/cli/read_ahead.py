"""Asks the system for all files that a start will read, before it needs them one after the other.

After a boot each of some three hundred small files is waited for; asked for together, they come
while the first of them is being worked on. Where they are in memory already, asking costs less
than a millisecond. `start_files.txt` names the modules; a test holds it to what a start loads.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

TYPE_CHECKING = False  # this module is here first, and `typing` comes from the disk, too
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

START_FILES = "start_files.txt"


def read_ahead() -> None:
    """A start goes on without it, whatever is in the way."""
    if not hasattr(os, "posix_fadvise"):
        return
    try:
        for path in paths_of(known_modules()):
            ask_for(path)
    except OSError:
        pass


def ask_for(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # another version of Python, or not compiled yet
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)


def known_modules() -> list[str]:
    """In the order in which they are loaded; a package ends in a dot, an extension in `!`.

    They begin where nothing but this module is there.
    """
    with open(f"{os.path.dirname(__file__)}/{START_FILES}", encoding="ascii") as file:  # noqa: PTH120, PTH123  # a start needs no pathlib
        return file.read().split()


def paths_of(modules: Iterable[str]) -> Iterator[str]:
    """Where their compiled files are."""
    homes: dict[str, str] = {}
    compiled, extension = f".{sys.implementation.cache_tag}.pyc", EXTENSION_SUFFIXES[0]
    for module in modules:
        top, _, _ = module.partition(".")
        if top not in homes:
            homes[top] = home_of(top)
        *packages, name = module.split(".")
        if name.endswith("!"):
            packages = packages or ["lib-dynload"]  # the standard library's own
            yield "/".join((homes[top], *packages, name[:-1] + extension))
        else:
            name = name or "__init__"
            yield "/".join((homes[top], *packages, "__pycache__", name + compiled))


def home_of(package: str) -> str:
    """The directory in which it lies: the standard library's, unless it is found before."""
    for directory in sys.path:
        if os.path.isdir(f"{directory}/{package}"):  # noqa: PTH112  # as above
            return directory
    return os.path.dirname(os.__file__)  # noqa: PTH120  # as above
