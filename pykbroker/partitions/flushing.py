"""Flushes the log of a partition in a thread and completes the requests that wait for the flush.

One flush of a log runs at a time. The appends that arrive meanwhile share the next one (group
commit).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pykbroker.partitions.directory_health import DirectoryHealth
    from pykbroker_storage.log import Log

logger = logging.getLogger(__name__)

FLUSH_THREADS_MAX = 8
"""Default number of threads that flush logs; a broker uses `num.io.threads`."""

BEYOND_ALL = 2**63


class Replica(Protocol):
    """The partition as its flushes use it."""

    log: Log

    @property
    def settled_offset(self) -> int: ...
    def commit(self) -> None: ...


class FlushThreads:
    """The threads that flush the logs of a node; the first flush starts the first of them."""

    def __init__(self, threads_max: int = FLUSH_THREADS_MAX) -> None:
        self.threads_max = threads_max
        self.health: DirectoryHealth | None = None
        """Receives the errors of failed flushes."""
        self._executor: ThreadPoolExecutor | None = None

    def flush(self, log: Log, upto: int) -> asyncio.Future[None]:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - not at the start

            self._executor = ThreadPoolExecutor(self.threads_max, "flush")
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._executor, log.flush, upto)

    def resize(self, threads_max: int) -> None:
        """The next flush starts new threads; the old ones end after their flushes."""
        if threads_max != self.threads_max:
            self.threads_max = threads_max
            executor, self._executor = self._executor, None
            if executor is not None:
                executor.shutdown(wait=False)

    async def end(self) -> None:
        """Waits for running flushes, and for those that begin when these end."""
        while self._executor is not None:
            executor, self._executor = self._executor, None
            await asyncio.to_thread(executor.shutdown)


class Flushing:
    """The flushes of one partition, and the requests whose records they cover."""

    __slots__ = ("_awaited", "_has_failed", "_partition", "_running", "_threads")

    def __init__(self, partition: Replica, threads: FlushThreads) -> None:
        self._partition = partition
        self._threads = threads
        self._running: asyncio.Future[None] | None = None
        self._awaited: list[tuple[int, asyncio.Future[bool]]] = []
        self._has_failed = False

    def begin(self, upto: int | None = None) -> asyncio.Future[None]:
        """Returns the running flush, or starts one of all records or of those before `upto`."""
        if self._running is None:
            if upto is None:
                upto = self._partition.log.log_end_offset
            self._running = self._threads.flush(self._partition.log, upto)
            self._running.add_done_callback(self._ended)
        return self._running

    async def until_flushed(self, upto: int) -> None:
        """Flushes the records before `upto`. Raises OSError."""
        log = self._partition.log
        while self._running is not None:
            await asyncio.wait([self._running])
            if log.recovery_point >= upto:
                return  # under load, flushes follow each other without a pause
        await asyncio.shield(self.begin(upto))

    async def until_idle(self) -> None:
        """Waits until no flush of this log runs in a thread."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def until_settled(self, offset: int) -> bool:
        """Waits until the records before `offset` need no flush; False if their flush failed."""
        partition = self._partition
        if partition.settled_offset >= offset:
            partition.commit()  # the flush may have ended just now
            return True
        if partition.log.flush_failure is not None:
            return False  # the periodic flush retries
        self.begin()
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._awaited.append((offset, settled))
        return await settled

    def _ended(self, flush: asyncio.Future[None]) -> None:
        self._running = None
        partition = self._partition
        error = asyncio.CancelledError() if flush.cancelled() else flush.exception()
        self._note(error)
        if error is not None or partition.log.is_closed:
            self._complete(is_settled=False)
            return
        partition.commit()
        if not partition.log.is_flush_due:
            self._complete(is_settled=True)
        else:
            self._complete(is_settled=True, before=partition.settled_offset)
            self.begin()

    def _complete(self, *, is_settled: bool, before: int = BEYOND_ALL) -> None:
        """Completes the requests whose records end at or before an offset."""
        waiting, self._awaited = self._awaited, []
        for offset, settled in waiting:
            if offset > before:
                self._awaited.append((offset, settled))
            elif not settled.done():
                settled.set_result(is_settled)

    def _note(self, error: BaseException | None) -> None:
        """Logs the first of several failures, and the success that ends them."""
        if error is not None and self._threads.health is not None:
            self._threads.health.note(self._partition, error)
        if error is not None and not self._has_failed:
            logger.error(
                "%s: flush failed (%s); clients get KAFKA_STORAGE_ERROR; retrying every second",
                self._partition,
                error,
            )
        elif error is None and self._has_failed:
            logger.info("%s: flush succeeds again; appends are accepted", self._partition)
        self._has_failed = error is not None
