"""Divides the open file limit of the process between connections and log files.

A connection uses one file descriptor, an open log file one, its memory map another one. Without
these bounds, connections could use all descriptors and appends fail, or the reverse.
"""

from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

UNBOUNDED = 2**31 - 1
LIMIT_MAX = 2**20
"""A higher limit is not useful; some systems have no limit."""

LIMIT_MACOS = 10_240
"""OPEN_MAX: macOS rejects a higher limit, although it reports none. The JVM uses it too."""

RESERVED = 64
"""Standard streams, event loop, listeners, the metadata log, and up to three files that each thread
opens temporarily to flush, read or search."""

LOG_FILES_MAX = 512
"""Maximum number of descriptors of log files; reopening a file costs about 10 us."""

LIMIT_SMALL = 1024


class Shares(NamedTuple):
    connections: int
    log_files: int


def shares_of(limit: int) -> Shares:
    """Divides unreserved descriptors in half; connections get those above `LOG_FILES_MAX`."""
    free = limit - min(RESERVED, limit // 2)
    log_files = min(free // 2, LOG_FILES_MAX)
    return Shares(connections=free - log_files, log_files=log_files)


def open_file_limit() -> int:
    """Returns the soft limit (`ulimit -n`) of this process."""
    if resource is None:
        return UNBOUNDED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNBOUNDED if soft == resource.RLIM_INFINITY else soft


def raise_open_file_limit() -> int:
    """Raises the soft limit as far as the hard limit allows, like the JVM; returns the soft limit.

    Used only by the command line: an embedded broker does not change the limit of its host process.
    """
    if resource is None:
        return UNBOUNDED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    for limit in (allowed, min(allowed, LIMIT_MACOS)):
        if soft == resource.RLIM_INFINITY or soft >= limit:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):  # above a limit of the system that is not reported
            continue
        break
    return open_file_limit()
