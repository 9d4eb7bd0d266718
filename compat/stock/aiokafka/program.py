"""aiokafka as a client of the suite; its event loop runs in a thread, so heartbeats continue."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from administering import Administering
from aiokafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError, ProducerFenced
from consuming import Consuming
from line_program import Program, run
from producing import Producing

if TYPE_CHECKING:
    from collections.abc import Coroutine

LET_GO_SECONDS = 3.0


class AioKafka(Program, Producing, Consuming, Administering):
    client = "aiokafka"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result()

    def code_of(self, error: BaseException) -> int | str:
        errno = getattr(error, "errno", None)
        if isinstance(error, (KafkaTimeoutError, asyncio.TimeoutError)):
            return "TIMED_OUT"
        if isinstance(error, ProducerFenced):
            return "FENCED"
        if isinstance(error, CommitFailedError):
            return "COMMIT_FAILED"
        if isinstance(error, KafkaError) and isinstance(errno, int) and errno >= 0:
            return errno
        return "CLIENT"

    def close_cleanly(self, opened: Any) -> None:
        self.wait(opened.stop())

    def close_quickly(self, opened: Any) -> None:
        self.wait(asyncio.wait_for(opened.stop(), LET_GO_SECONDS))


if __name__ == "__main__":
    run(AioKafka())
