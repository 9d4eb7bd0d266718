"""One run of a pipeline: starts, monitors and stops its queries."""

from __future__ import annotations

import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.errors import PySparkException

from pykbroker.pipeline.checkpoint import (
    Definition,
    store_definition,
    store_progress,
    stored_definition,
)
from pykbroker.pipeline.fingerprint import check_unchanged, fingerprint_of
from pykbroker.pipeline.locations import Locations
from pykbroker.pipeline.plan import queries_of
from pykbroker.pipeline.running.batch_gate import BatchGate
from pykbroker.pipeline.running.failures import CannotStart, PipelineFailed, failure_cause
from pykbroker.pipeline.running.log_suppression import spark_logs_suppressed
from pykbroker.pipeline.running.progress_listener import ProgressListener
from pykbroker.pipeline.running.spark_files import SparkFiles
from pykbroker.pipeline.running.writers import Memory, Writers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from pykbroker.pipeline.declaration.values import Pipeline
    from pykbroker.pipeline.plan import Query
    from pykbroker.pipeline.progress import Progress

POLL_S: Final = 0.2
STOPPING_POLL_S: Final = 0.02
OFFSET_REQUEST_S_MAX: Final = 10.0
"""Spark requests offsets from an unreachable broker for minutes."""
OFFSET_REQUEST_STATES: Final = ("Getting offsets from", "Initializing sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    query: Query
    stream: StreamingQuery


class PipelineRun:
    """A context manager that stops all queries at its end."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        *,
        directory: Path | None = None,
        once: bool = False,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Resolves paths against `directory`; `once` ends after all existing records."""
        self._spark = spark
        self._pipeline = pipeline
        self._once = once
        self._on_progress = on_progress
        self._locations = Locations(directory=directory or Path.cwd())
        self._memory = Memory()
        self._gate = BatchGate()
        self._started: list[Started] = []
        self._listener = ProgressListener(f"{pipeline.name}.", self._record_progress)
        checkpoint = pipeline.checkpoint
        self._checkpoint = self._locations.resolve(checkpoint)
        self._files = self._locations.local_files(checkpoint) or SparkFiles(spark, self._checkpoint)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all queries from their checkpoints.

        Raises `DefinitionChanged` or `CannotStart` after stopping the queries already started.
        """
        queries = queries_of(self._pipeline)
        identities = {query.name: self._identity(query) for query in queries}
        streams = [(query, self._stream(query, identities[query.name])) for query in queries]
        self._spark.streams.addListener(self._listener)
        try:
            for query, stream in streams:
                with errors_name_the_query(query):
                    self._started.append(Started(query=query, stream=stream.start()))
        except BaseException:
            self.stop()
            raise

    def wait(self, stop: threading.Event | None = None) -> None:
        """Waits until all queries have ended or `stop` is set; raises `PipelineFailed`."""
        stop = stop or threading.Event()
        while not stop.wait(POLL_S):
            has_ended = not any(it.stream.isActive for it in self._started)
            self._raise_if_failed()
            if has_ended:
                return

    def stop(self, at_once: threading.Event | None = None) -> None:
        """Stops the queries after their running batches, or immediately once `at_once` is set."""
        self._gate.close()
        with spark_logs_suppressed(self._spark):
            self._stop_streams(at_once or threading.Event())
        self._listener.wait_for_last_events({str(it.stream.runId) for it in self._started})
        self._spark.streams.removeListener(self._listener)

    def _stop_streams(self, at_once: threading.Event) -> None:
        """Stops queries in parallel: with an unreachable broker each takes up to a minute."""
        deadline = time.monotonic() + OFFSET_REQUEST_S_MAX
        with ThreadPoolExecutor(len(self._started) or 1) as pool:
            stops = [pool.submit(stop_stream, it.stream, at_once, deadline) for it in self._started]
        for stopped in stops:
            stopped.result()

    def rows(self, sink: str) -> list[Row]:
        """Returns the rows of a sink of kind `memory`."""
        return self._memory.rows(sink)

    def _identity(self, query: Query) -> str:
        """Returns the identity of the checkpoint; creates one for a new checkpoint."""
        declared = fingerprint_of(self._pipeline, query)
        kept = stored_definition(self._files, query.name)
        if kept is not None:
            directory = f"{self._checkpoint}/{query.name}"
            check_unchanged(query, kept.parts, declared, directory)
            return kept.identity
        identity = secrets.token_hex(4)
        store_definition(self._files, query.name, Definition(identity=identity, parts=declared))
        return identity

    def _stream(self, query: Query, identity: str) -> DataStreamWriter:
        """Returns the query, analyzed by Spark but not started."""
        writers = Writers(
            spark=self._spark,
            pipeline=self._pipeline,
            locations=self._locations,
            memory=self._memory,
        )
        write = self._gate.guard(writers.write(query, identity))
        with errors_name_the_query(query):
            frame = writers.frame(query)
        stream = (
            frame.writeStream.queryName(f"{self._pipeline.name}.{query.name}")
            .option("checkpointLocation", f"{self._checkpoint}/{query.name}")
            .outputMode(query.mode.value)
            .foreachBatch(write)
        )
        if self._once:
            return stream.trigger(availableNow=True)
        return stream.trigger(processingTime=str(query.every))

    def _record_progress(self, progress: Progress) -> None:
        store_progress(self._files, progress)
        self._on_progress(progress)

    def _raise_if_failed(self) -> None:
        for it in self._started:
            failure = None if it.stream.isActive else it.stream.exception()
            if failure is not None:
                raise PipelineFailed(f"{it.query.name}: {failure_cause(str(failure))}")


@contextmanager
def errors_name_the_query(query: Query) -> Iterator[None]:
    """Raises errors of Spark's analysis as one line with the name of the query."""
    try:
        yield
    except PySparkException as error:
        raise CannotStart(f"{query.name}: {failure_cause(str(error))}") from error


def stop_stream(stream: StreamingQuery, at_once: threading.Event, deadline: float) -> None:
    pause = threading.Event()
    while stream.isActive:
        has_waited = time.monotonic() > deadline
        if at_once.is_set() or has_no_batch(stream.status, has_waited=has_waited):
            stream.stop()
        pause.wait(STOPPING_POLL_S)


def has_no_batch(status: Mapping[str, Any], *, has_waited: bool) -> bool:
    """True if the query is idle, or if it still requests offsets after the waiting time.

    A batch that starts after these requests is rejected by the gate.
    """
    requests_offsets = status["message"].startswith(OFFSET_REQUEST_STATES)
    return not status["isTriggerActive"] or (has_waited and requests_offsets)
