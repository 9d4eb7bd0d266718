"""Threads for work that must not occupy the event loop: waiting for the disk, walking over records.

Each kind is bounded, and none takes threads of another. A connection has one such request at a time
and threads take requests in order, so readers of old data share the disk by turns.
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

WALKS_MAX = 2
"""Threads of one kind that walk over records. One works at a time; a second one keeps a request of
a few thousand records from waiting for one of millions. Each may hold an unpacked batch (100 MiB).
"""
PAUSE_SECONDS = 0.000_05
"""A thread of Python code gives the interpreter back every 5 ms unless it sleeps. While it sleeps,
the event loop serves what has arrived."""


class Walks:
    """Threads that walk over records, one at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: Executor | None = None
        self._walking = threading.Lock()

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        if self._threads is None:
            self._threads = threads(WALKS_MAX, self._name)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._walk, work)

    def _walk(self, work: Callable[[Callable[[], None]], T]) -> T:
        with self._walking:
            return work(self._breathe)

    def _breathe(self) -> None:
        self._walking.release()
        time.sleep(PAUSE_SECONDS)
        self._walking.acquire()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class OffLoop:
    """Runs blocking work in threads; the loop's executor is not used, for flushes wait there."""

    def __init__(self, *, disk_threads_max: int, bytes_held_max: int) -> None:
        self.disk_threads_max = disk_threads_max
        self.bytes_held_max = bytes_held_max
        self.bytes_held = 0
        """Of records read from the disk, until the answers with them have left."""
        self._disk: Executor | None = None
        self._searches = Walks("record-searches")
        self._inspections = Walks("record-inspections")
        self._tasks: set[asyncio.Task[Any]] = set()

    def resize(self, disk_threads_max: int) -> None:
        """From now on so many threads wait for the disk; work that was handed in is still done."""
        if disk_threads_max != self.disk_threads_max and self._disk is not None:
            self._disk.shutdown(wait=False)
            self._disk = None
        self.disk_threads_max = disk_threads_max

    async def read(self, work: Callable[[], T]) -> T:
        """Waits for the disk."""
        if self._disk is None:
            self._disk = threads(self.disk_threads_max, "disk-reads")
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)

    async def search(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Walks over stored records, and calls its argument about every half millisecond."""
        return await self._searches.run(work)

    async def inspect(self, work: Callable[[Callable[[], None]], T]) -> T:
        """The same for records of a request: it waits for no disk, so searches do not delay it."""
        return await self._inspections.run(work)

    def hold(self, held: HeldBytes) -> memoryview | None:
        """A view of the bytes, counted until its last copy is gone; None if that is too many."""
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
        """Lets the threads end; work that has not begun is dropped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._disk is not None:
            self._disk.shutdown(wait=False, cancel_futures=True)
        self._searches.close()
        self._inspections.close()


class HeldBytes(bytearray):
    """Records on their way to a client."""

    counted_by: OffLoop | None = None

    def __del__(self) -> None:
        if self.counted_by is not None:
            self.counted_by.bytes_held -= len(self)


def threads(threads_max: int, name: str) -> Executor:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a start needs none

    return ThreadPoolExecutor(threads_max, thread_name_prefix=name)
