"""What a process has cost so far, as the kernel counts it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Counted from the field after the command name; both kinds of time, of the process and of children
# that have ended.
_PARENT_FIELD, _TIME_FIELDS = 1, slice(11, 15)


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads and of child processes, the ended ones too."""
    own = sum(map(int, _stat(pid)[_TIME_FIELDS])) / _TICKS_PER_SECOND
    return own + sum(map(_cpu_seconds_if_it_lives, _children(pid)))


def resident_bytes(pid: int) -> int:
    """All memory the process has touched, pages of mapped programs and logs among it."""
    return _status_bytes(pid, "VmRSS")


def own_bytes(pid: int) -> int:
    """What the process holds for itself; the rest is page cache, taken back at need."""
    return _status_bytes(pid, "RssAnon")


def load_average() -> float:
    """Runnable processes over the last minute."""
    return os.getloadavg()[0]


def _stat(pid: int) -> list[str]:
    """The fields after the command name, which may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _children(pid: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
            if int(_stat(int(path.name))[_PARENT_FIELD]) == pid:
                yield int(path.name)


def _cpu_seconds_if_it_lives(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise LookupError(field)
