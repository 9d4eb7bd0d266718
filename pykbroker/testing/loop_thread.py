"""An event loop in a thread of its own, for programs that have none."""

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
    """Runs what is handed in and gives back the result; the thread dies with the process."""

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
        """Whether its thread is: a copy of the process that `os.fork` makes has none of it."""
        return os.getpid() == self._process_id

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """The outcome of a coroutine; who is interrupted while waiting takes it back."""
        assert self._loop is not None, "a loop is started before it runs anything"
        assert threading.current_thread() is not self._thread, "the loop cannot wait for itself"
        return outcome_of(asyncio.run_coroutine_threadsafe(work, self._loop))

    def call(self, work: Callable[[], Result]) -> Result:
        """The outcome of a function that does not wait."""

        async def called() -> Result:
            return work()

        return self.run(called())

    def stop(self) -> None:
        """Returns when the thread is gone, and with it every task and thread of the loop."""
        if self._loop is not None and self._end is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(STOP_SECONDS_MAX)

    def _live(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._serve())
        except BaseException as failure:  # noqa: BLE001  # whoever waits for the start gets it
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
