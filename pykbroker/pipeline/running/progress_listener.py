"""Receives the progress of queries from Spark."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from pykbroker.pipeline.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

LAST_EVENTS_TIMEOUT_SECONDS = 60.0


class ProgressListener(StreamingQueryListener):
    """Reports each batch of the queries of one pipeline; other queries may share the session."""

    def __init__(self, prefix: str, on_progress: Callable[[Progress], None]) -> None:
        self._prefix = prefix
        self._on_progress = on_progress
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def wait_for_last_events(self, run_ids: set[str]) -> None:
        """Waits until these queries have ended; Spark reports the end after all batches."""
        with self._changed:
            self._changed.wait_for(lambda: run_ids <= self._ended, LAST_EVENTS_TIMEOUT_SECONDS)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # likewise
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # likewise
        report = event.progress
        if report.name is not None and report.name.startswith(self._prefix):
            name = report.name.removeprefix(self._prefix)
            self._on_progress(Progress.of_report(name, json.loads(report.json)))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # likewise
        with self._changed:
            self._ended.add(str(event.runId))
            self._changed.notify_all()
