"""CPU time and memory of a process, read from /proc."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Positions after the command name. The times are user and system time of the process and of its
# waited-for children.
_PARENT_FIELD, _TIME_FIELDS = 1, slice(11, 15)


@dataclass(slots=True)
class Cost:
    """CPU time of a piece of work."""

    cpu_seconds: float = 0.0


def cpu_seconds(pid: int) -> float:
    """Returns user and system time of the process and its children, including ended ones."""
    own = sum(map(int, _stat(pid)[_TIME_FIELDS])) / _TICKS_PER_SECOND
    return own + sum(map(_cpu_seconds_if_it_lives, _children(pid)))


def resident_bytes(pid: int) -> int:
    """Returns resident memory, including mapped programs and logs."""
    return _status_bytes(pid, "VmRSS")


def own_bytes(pid: int) -> int:
    """Returns anonymous memory, without mapped files."""
    return _status_bytes(pid, "RssAnon")


def load_average() -> float:
    """Returns the one-minute load average."""
    return os.getloadavg()[0]


def _stat(pid: int) -> list[str]:
    """Returns the fields after the command name, which can contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _children(pid: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the process ended meanwhile
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
