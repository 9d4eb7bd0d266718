"""A directory for a broker's data that goes with the broker: in memory where there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

MEMORY = "/dev/shm"  # noqa: S108  # the name within it is made by mkdtemp
ROOM_BYTES_MIN = 1 << 30
"""A container's shared memory often is 64 MB, too little for a broker to count on."""


def make_directory() -> Path:
    """Making a file costs ten times as much on a disk; whoever sets TMPDIR wants it there."""
    inside = MEMORY if "TMPDIR" not in os.environ and has_room(MEMORY) else None
    return Path(tempfile.mkdtemp(prefix="pykbroker-", dir=inside))


def has_room(path: str) -> bool:
    try:
        found = os.statvfs(path)
    except (OSError, AttributeError):
        return False
    return os.access(path, os.W_OK) and found.f_bavail * found.f_frsize >= ROOM_BYTES_MIN


class UnclaimedDirectory:
    """A directory for an owner who may take it, and with whom it goes until then."""

    def __init__(self, owner: object, path: Path) -> None:
        self._path = path
        self._end = weakref.finalize(owner, remove_in_process, os.getpid(), path)

    def take(self) -> Path:
        self._end.detach()
        return self._path

    def remove(self) -> None:
        self._end()


def remove_in_process(process_id: int, path: Path) -> None:
    """A copy of the process, made by `os.fork`, has its own end and not its own directory."""
    if os.getpid() == process_id:
        remove_directory(path)


def remove_directory(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
