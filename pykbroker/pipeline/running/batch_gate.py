"""Prevents new batches while a pipeline stops; running batches finish."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pykbroker.pipeline.running.writers import Write


class StoppedBetweenBatches(Exception):
    """Ends a query before it writes a batch, because its pipeline stops."""


class BatchGate:
    def __init__(self) -> None:
        self._closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._closed.set()

    def guard(self, write: Write) -> Write:
        def guarded(frame: DataFrame, batch_id: int) -> None:
            if self._closed.is_set():
                raise StoppedBetweenBatches
            write(frame, batch_id)

        return guarded
