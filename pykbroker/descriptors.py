"""Divides the open file limit of the process between connections and log files.

A connection uses one file descriptor, an open log file one, its memory map another one. Without
bounds whichever grows first takes all of them, and then appends fail or connections are refused.
"""

from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

UNBOUNDED = 2**31 - 1
LIMIT_WANTED = 2**20
"""More is never needed; some systems have no limit at all."""

LIMIT_MACOS = 10_240
"""OPEN_MAX: macOS refuses a higher limit, although it reports none. The JVM takes this, too."""

RESERVED = 64
"""Standard streams, event loop, listeners, the metadata log; and files that threads open for a
moment to flush, read or search them: up to three each."""

LOG_FILES_MAX = 512
"""Descriptors of log files if there are plenty: reopening one costs about 10 us."""

LIMIT_SMALL = 1024


class Shares(NamedTuple):
    connections: int
    log_files: int


def shares_of(limit: int) -> Shares:
    """Half of what is not reserved for each; connections get what log files do not need."""
    free = limit - min(RESERVED, limit // 2)
    log_files = min(free // 2, LOG_FILES_MAX)
    return Shares(connections=free - log_files, log_files=log_files)


def open_file_limit() -> int:
    """The soft limit (`ulimit -n`) of this process."""
    if resource is None:
        return UNBOUNDED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNBOUNDED if soft == resource.RLIM_INFINITY else soft


def raise_open_file_limit() -> int:
    """Raises the soft limit as far as the hard limit allows, like the JVM; returns the soft limit.

    Only for a process of our own: the limit of a host process is not ours to change.
    """
    if resource is None:
        return UNBOUNDED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = LIMIT_WANTED if hard == resource.RLIM_INFINITY else min(hard, LIMIT_WANTED)
    for wanted in (allowed, min(allowed, LIMIT_MACOS)):
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # the system has a limit of its own
            continue
        break
    return open_file_limit()
