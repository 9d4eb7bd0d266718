"""What a process owes the system it runs on: its event loop, its signals, its age."""

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
"""As a container sees its own, with version 2 of control groups."""
START_TIME_FIELD: Final = 19  # counted behind the name of the program, which may hold blanks


class StopSignals:
    """The first signal asks for a clean end, a second one ends the process where it stands."""

    def __init__(self, discard: str | None = None) -> None:
        self._asked = asyncio.Event()
        self._discard = discard

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            try:
                loop.add_signal_handler(number, self._ask)
            except NotImplementedError:  # Windows: its loop hears of no signals
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._ask))

    async def stop_asked(self) -> None:
        await self._asked.wait()

    async def unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The result of the work, or None if a signal came first and the work was given up."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stop_asked())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
        try:
            return await working
        except asyncio.CancelledError:
            return None

    def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            # Not by the loop from now on: it may be what hangs.
            signal.signal(number, self._end_at_once)
        self._asked.set()

    def _end_at_once(self, number: int, _: object) -> None:
        if self._discard is not None:
            import shutil  # noqa: PLC0415  # 2 ms, for a directory that is thrown away

            shutil.rmtree(self._discard, ignore_errors=True)
        os._exit(SIGNAL_EXIT_BASE + number)


def end_on_sigterm() -> None:
    """Let a SIGTERM unwind what was begun, as SIGINT does by itself."""

    def end(_: int, __: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)


def seconds_since_process_start() -> float:
    """The age of this process, the interpreter's own start included; what we used, elsewhere."""
    try:
        with open("/proc/self/stat", encoding="utf-8") as file:  # noqa: PTH123  # a start needs no pathlib
            stat = file.read()
        started_ticks = int(stat.rpartition(")")[2].split()[START_TIME_FIELD])
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()
    return now - started_ticks / os.sysconf("SC_CLK_TCK")


def processors() -> float:
    """How many this process may use: those it may run on, or less if its container has less."""
    try:
        count: float = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # no Linux, or it is kept from us
        count = os.cpu_count() or 1
    try:
        with open(CPU_QUOTA_FILE, encoding="ascii") as file:  # noqa: PTH123  # a start needs no pathlib
            quota, period = file.read().split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # there is no quota, or it is "max"
        return count
