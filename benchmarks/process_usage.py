"""What a process has cost so far, as the kernel counts it."""

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER_TIME_FIELD, _SYSTEM_TIME_FIELD = 11, 12  # counted from the field after the command name


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, the ended ones too."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat.rpartition(")")[2].split()  # the command name may hold spaces
    return (int(fields[_USER_TIME_FIELD]) + int(fields[_SYSTEM_TIME_FIELD])) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """All memory the process has touched, pages of mapped programs and logs among it."""
    return _status_bytes(pid, "VmRSS")


def own_bytes(pid: int) -> int:
    """What the process holds for itself; the rest is page cache, taken back at need."""
    return _status_bytes(pid, "RssAnon")


def load_average() -> float:
    """Runnable processes over the last minute."""
    return os.getloadavg()[0]


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise LookupError(field)
