"""Runs a pipeline as a program: creates the session, handles signals, stops cleanly."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.plan import needs_avro, needs_delta
from pykbroker.pipeline.running.log_suppression import spark_logs_suppressed
from pykbroker.pipeline.running.run import PipelineRun
from pykbroker.pipeline.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import FrameType

    from pyspark.sql import SparkSession

    from pykbroker.pipeline.declaration.values import Pipeline
    from pykbroker.pipeline.progress import Progress

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
LOG_LEVEL: Final = "spark.log.level"
QUIET: Final = {LOG_LEVEL: "ERROR", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """The first signal finishes running batches; the second one cancels them."""

    is_requested: threading.Event
    is_forced: threading.Event


def run_program(
    pipeline: Pipeline,
    *,
    directory: Path,
    once: bool,
    on_progress: Callable[[Progress], None],
    master: str | None = None,
    jars: Path | None = None,
) -> None:
    """Runs until a signal, or with `once` until all existing records are processed.

    Raises `DefinitionChanged` or `CannotStart` if nothing was started, `PipelineFailed` later.
    """
    spark = spark_session(
        pipeline.name,
        master=master,
        settings=spark_settings(pipeline),
        jars=jars,
        with_lake=needs_delta(pipeline),
        with_avro=needs_avro(pipeline),
    )
    try:
        with stop_signals() as stopping, short_failures(spark, pipeline):
            run = PipelineRun(
                spark, pipeline, directory=directory, once=once, on_progress=on_progress
            )
            run.start()
            try:
                run.wait(stopping.is_requested)
            finally:
                run.stop(stopping.is_forced)
    finally:
        spark.stop()


def short_failures(spark: SparkSession, pipeline: Pipeline) -> AbstractContextManager[None]:
    """Suppresses Spark's logs of failures unless the pipeline sets the log level."""
    sets_log_level = LOG_LEVEL in own_settings(pipeline)
    return nullcontext() if sets_log_level else spark_logs_suppressed(spark)


def spark_settings(pipeline: Pipeline) -> dict[str, str]:
    return {**QUIET, **own_settings(pipeline)}


def own_settings(pipeline: Pipeline) -> dict[str, str]:
    return {
        name if name.startswith("spark.") else f"spark.{name}": value
        for name, value in pipeline.spark.items()
    }


@contextmanager
def stop_signals() -> Iterator[Stopping]:
    """Installs signal handlers. Must follow the session, which installs its own for SIGINT."""
    stopping = Stopping(is_requested=threading.Event(), is_forced=threading.Event())

    def handle(_: int, __: FrameType | None) -> None:
        (stopping.is_forced if stopping.is_requested.is_set() else stopping.is_requested).set()

    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
