"""An event loop in its own thread, for programs without an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

Result = TypeVar("Result")

STOP_SECONDS_MAX = 20.0


class LoopThread:
    """Runs coroutines and functions on the loop and returns their results. A daemon thread."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop], name: str) -> None:
        self._loop_factory = loop_factory
        self._ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._process_id = os.getpid()

    @property
    def is_here(self) -> bool:
        """False in a forked child process: threads are not copied."""
        return os.getpid() == self._process_id

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Returns the result of a coroutine. Cancels the coroutine if the wait is interrupted."""
        assert self._loop is not None, "the loop is not started"
        assert threading.current_thread() is not self._thread, "run() called on the loop's thread"
        return outcome_of(asyncio.run_coroutine_threadsafe(work, self._loop))

    def call(self, work: Callable[[], Result]) -> Result:
        """Returns the result of a function."""

        async def call_work() -> Result:
            return work()

        return self.run(call_work())

    def stop(self) -> None:
        """Ends the loop with its tasks and executor threads, and joins the thread."""
        if self._loop is not None and self._end is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(STOP_SECONDS_MAX)

    def _live(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._serve())
        except BaseException as failure:  # noqa: BLE001  # raised by start()
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._ready.set()
        await self._end.wait()


def outcome_of(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
