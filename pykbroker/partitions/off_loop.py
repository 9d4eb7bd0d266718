"""Threads for work that would block the event loop: reads from disk and scans of records.

Each kind of work has its own bounded threads. A connection has one such request at a time, and
threads take requests in order, so no reader of old data can use the disk alone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

T = TypeVar("T")

SCAN_THREADS_MAX = 2
"""One thread runs at a time. With a second one, a request of a few thousand records need not wait
for one of millions. Each can hold an unpacked batch (100 MiB).
"""
PAUSE_SECONDS = 0.000_05
"""Without a pause, a thread that runs Python code holds the GIL for up to 5 ms."""


class ScanThreads:
    """Threads that iterate over records; one runs at a time, and they switch at each pause."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: Executor | None = None
        self._running = threading.Lock()

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        if self._threads is None:
            self._threads = threads(SCAN_THREADS_MAX, self._name)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def _run(self, work: Callable[[Callable[[], None]], T]) -> T:
        with self._running:
            return work(self._pause)

    def _pause(self) -> None:
        self._running.release()
        time.sleep(PAUSE_SECONDS)
        self._running.acquire()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class OffLoop:
    """Runs blocking work in its own threads, not in those of the event loop's executor."""

    def __init__(self, *, disk_threads_max: int, bytes_held_max: int) -> None:
        self.disk_threads_max = disk_threads_max
        self.bytes_held_max = bytes_held_max
        self.bytes_held = 0
        """Bytes of records read from disk whose responses are not sent yet."""
        self._disk: Executor | None = None
        self._searches = ScanThreads("record-searches")
        self._inspections = ScanThreads("record-inspections")
        self._tasks: set[asyncio.Task[Any]] = set()

    def resize(self, disk_threads_max: int) -> None:
        """Changes the number of threads that read from disk; the old ones finish their work."""
        if disk_threads_max != self.disk_threads_max and self._disk is not None:
            self._disk.shutdown(wait=False)
            self._disk = None
        self.disk_threads_max = disk_threads_max

    async def read(self, work: Callable[[], T]) -> T:
        """Runs work that reads from disk."""
        if self._disk is None:
            self._disk = threads(self.disk_threads_max, "disk-reads")
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)

    async def search(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Runs a scan of stored records; it calls its argument about every half millisecond."""
        return await self._searches.run(work)

    async def inspect(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Like `search` for records of a request, in threads without disk reads."""
        return await self._inspections.run(work)

    def hold(self, held: HeldBytes) -> memoryview | None:
        """Returns a view of the bytes, counted until they are freed; None above the limit."""
        if self.bytes_held and self.bytes_held + len(held) > self.bytes_held_max:
            return None
        held.counted_by = self
        self.bytes_held += len(held)
        return memoryview(held)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task that continues if the client disconnects."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Shuts down the threads; drops work that has not begun."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._disk is not None:
            self._disk.shutdown(wait=False, cancel_futures=True)
        self._searches.close()
        self._inspections.close()


class HeldBytes(bytearray):
    """Records of a response that is not sent yet; freeing them reduces `bytes_held`."""

    counted_by: OffLoop | None = None

    def __del__(self) -> None:
        if self.counted_by is not None:
            self.counted_by.bytes_held -= len(self)


def threads(threads_max: int, name: str) -> Executor:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a start needs none

    return ThreadPoolExecutor(threads_max, thread_name_prefix=name)
