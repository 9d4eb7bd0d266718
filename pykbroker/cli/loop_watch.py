"""Logs when the event loop was blocked for long, with the cause where it is known.

A broker whose loop is blocked sends no heartbeats and no responses. A timer signal interrupts a
loop that is late and records the running function, so no second thread is needed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from typing import TYPE_CHECKING, Any, Final

from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text

if TYPE_CHECKING:
    from types import FrameType

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 0.1
LAG_SECONDS_MAX: Final = 0.2
SAMPLE_SECONDS: Final = 0.15
"""Age of a turn of the loop at which the running function is recorded."""

IDLE_CPU_SHARE: Final = 0.2
"""With less CPU time than this share of the lag, the process did not run or waited for a disk."""

LOG_PERIOD_SECONDS: Final = 10.0
EVENT_LOOPS: Final = frozenset({"asyncio.events", "asyncio.base_events", "asyncio.runners"})
"""Modules that call the callbacks of an event loop."""

OWN_PACKAGES: Final = ("pykbroker", "pykbroker_storage", "pykbroker_protocol")


class LoopWatch:
    """Measures the lag of the running event loop. One per process, in its main thread."""

    def __init__(self) -> None:
        self._throttle = LogThrottle(lines_max=1, period_seconds=LOG_PERIOD_SECONDS)
        self._collected_seconds = 0.0
        self._collection_began = 0.0
        self._sample = ""
        self._previous_handler: Any = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        gc.callbacks.append(self._note_collection)
        if hasattr(signal, "setitimer"):  # not on Windows
            self._previous_handler = signal.signal(signal.SIGALRM, self._note_function)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            gc.callbacks.remove(self._note_collection)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous_handler or signal.SIG_DFL)

    async def _run(self) -> None:
        while True:
            self._collected_seconds, self._sample = 0.0, ""
            began, cpu_began = time.monotonic(), time.process_time()
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, INTERVAL_SECONDS + SAMPLE_SECONDS)
            await asyncio.sleep(INTERVAL_SECONDS)
            now = time.monotonic()
            lag = now - began - INTERVAL_SECONDS
            if lag > LAG_SECONDS_MAX:
                self._log(lag, time.process_time() - cpu_began, now)

    def _log(self, lag: float, cpu_seconds: float, now: float) -> None:
        suppressed = self._throttle.admit("lag", now)
        if suppressed is not None:
            logger.warning(
                "event loop: blocked for %.0f ms (%s)%s",
                lag * 1000,
                cause_of(lag, cpu_seconds, self._collected_seconds, self._sample),
                suppressed_text(suppressed),
            )

    def _note_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = time.monotonic()
        else:
            self._collected_seconds += time.monotonic() - self._collection_began

    def _note_function(self, _: int, frame: FrameType | None) -> None:
        self._sample = function_of(frame)


def cause_of(lag: float, cpu_seconds: float, collected_seconds: float, sample: str) -> str:
    """Returns the most probable cause of a lag, as text."""
    if collected_seconds > lag / 2:
        return f"garbage collection took {collected_seconds * 1000:.0f} ms"
    if cpu_seconds < lag * IDLE_CPU_SHARE:
        return f"the process was paused, got no CPU, or waited for the disk{in_function(sample)}"
    return f"running{in_function(sample)}" if sample else "cause not known"


def in_function(sample: str) -> str:
    return f" in {sample}" if sample else ""


def function_of(frame: FrameType | None) -> str:
    """Returns the innermost function of this program, or "" while the loop waits for events."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in EVENT_LOOPS:
            return ""
        if module.partition(".")[0] in OWN_PACKAGES:
            return f"{module}.{frame.f_code.co_qualname} line {frame.f_lineno}"
        frame = frame.f_back
    return ""
