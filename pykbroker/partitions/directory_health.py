"""Errors of the disk, reported by all partitions of the log directory.

A broker that is its own cluster continues: its clients retry. A broker with followers lets them
lead instead.
"""

from __future__ import annotations

import errno
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from pykbroker_storage.filesystem import DiskFull, FlushFailed

if TYPE_CHECKING:
    from collections.abc import Callable

FULL_CODES: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FAILED_CODES: Final = frozenset(
    {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE}
    | {getattr(errno, "EUCLEAN", errno.EIO)}
)
"""Errors of a device or a file system; others concern one file, or pass."""


class DiskProblem(Enum):
    FULL = auto()
    """Appends fail until space is free. The log is unchanged."""
    FAILED = auto()
    """Bytes cannot be read or written, or a flush failed: records can be lost."""


def problem_of(error: BaseException) -> DiskProblem | None:
    """Returns the problem of the whole directory that an error shows, if any."""
    if isinstance(error, FlushFailed):
        return DiskProblem.FAILED
    if isinstance(error, DiskFull):
        return DiskProblem.FULL
    if not isinstance(error, OSError):
        return None
    if error.errno in FULL_CODES:
        return DiskProblem.FULL
    return DiskProblem.FAILED if error.errno in FAILED_CODES else None


class DirectoryHealth:
    """Passes problems of the directory to a cluster member."""

    __slots__ = ("on_problem",)

    def __init__(self) -> None:
        self.on_problem: Callable[[DiskProblem, str], None] | None = None
        """Receives each problem, with the partition and the error as text."""

    def note(
        self, partition: object, error: BaseException, *, other_can_lead: bool = False
    ) -> None:
        """Reports a failed directory, and a full one if another broker can lead the partition."""
        if self.on_problem is None:
            return
        problem = problem_of(error)
        if problem is DiskProblem.FAILED or (problem is DiskProblem.FULL and other_can_lead):
            self.on_problem(problem, f"{partition}: {reason_of(error)}")


def reason_of(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
