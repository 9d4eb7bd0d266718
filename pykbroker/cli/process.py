"""Process-level functions: stop signals, process age, available processors."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
SIGNAL_EXIT_BASE: Final = 128
CPU_QUOTA_FILE: Final = "/sys/fs/cgroup/cpu.max"
"""Quota of the current container (cgroup version 2)."""
START_TIME_FIELD: Final = 19  # counted after the program name, which can contain blanks


class StopSignals:
    """Handles SIGTERM and SIGINT: the first requests a clean stop, the second exits immediately."""

    def __init__(self, discard: str | None = None) -> None:
        """`discard` is a directory that the second signal deletes before it exits."""
        self._stop_requested = asyncio.Event()
        self._discard = discard

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            try:
                loop.add_signal_handler(number, self._request_stop)
            except NotImplementedError:  # event loops on Windows do not handle signals
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._request_stop))

    async def stop_requested(self) -> None:
        await self._stop_requested.wait()

    async def unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Returns the result of `work`. Returns None if a signal arrives first and cancels it."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stop_requested())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
        try:
            return await working
        except asyncio.CancelledError:
            return None

    def _request_stop(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            # The event loop does not handle the second signal, because it may hang.
            signal.signal(number, self._exit_immediately)
        self._stop_requested.set()

    def _exit_immediately(self, number: int, _: object) -> None:
        if self._discard is not None:
            import shutil  # noqa: PLC0415  # takes 2 ms, rarely needed

            shutil.rmtree(self._discard, ignore_errors=True)
        os._exit(SIGNAL_EXIT_BASE + number)


def exit_on_sigterm() -> None:
    """Makes SIGTERM raise SystemExit, so that context managers clean up as on SIGINT."""

    def end(_: int, __: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)


def seconds_since_process_start() -> float:
    """Returns the age of this process, including the start of the interpreter.

    Returns the CPU time on systems without /proc.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8") as file:  # noqa: PTH123  # a start does not import pathlib
            stat = file.read()
        started_ticks = int(stat.rpartition(")")[2].split()[START_TIME_FIELD])
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()
    return now - started_ticks / os.sysconf("SC_CLK_TCK")


def processors() -> float:
    """Returns the number of usable processors: the CPU affinity, limited by the container quota."""
    try:
        count: float = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux, or not permitted
        count = os.cpu_count() or 1
    try:
        with open(CPU_QUOTA_FILE, encoding="ascii") as file:  # noqa: PTH123  # a start does not import pathlib
            quota, period = file.read().split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # no quota, or it is "max"
        return count
