"""A pipeline as a whole program: from its declaration to a clean end, signals included."""

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
    """The first signal lets the current batches end, a second one does not."""

    asked: threading.Event
    insisted: threading.Event


def run_program(
    pipeline: Pipeline,
    *,
    directory: Path,
    once: bool,
    tell: Callable[[Progress], None],
    master: str | None = None,
    jars: Path | None = None,
) -> None:
    """Run until a signal comes, or with `once` until all is read.

    Raises `DefinitionChanged` or `CannotStart` if nothing was begun, `PipelineFailed` later.
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
        with stop_signals() as stopping, failures_in_one_line(spark, pipeline):
            run = PipelineRun(spark, pipeline, directory=directory, once=once, tell=tell)
            run.start()
            try:
                run.wait(stopping.asked)
            finally:
                run.stop(stopping.insisted)
    finally:
        spark.stop()


def failures_in_one_line(spark: SparkSession, pipeline: Pipeline) -> AbstractContextManager[None]:
    """Who has chosen how much Spark tells wants to read it."""
    has_chosen = LOG_LEVEL in own_settings(pipeline)
    return nullcontext() if has_chosen else spark_logs_suppressed(spark)


def spark_settings(pipeline: Pipeline) -> dict[str, str]:
    return {**QUIET, **own_settings(pipeline)}


def own_settings(pipeline: Pipeline) -> dict[str, str]:
    return {
        name if name.startswith("spark.") else f"spark.{name}": value
        for name, value in pipeline.spark.items()
    }


@contextmanager
def stop_signals() -> Iterator[Stopping]:
    """Spark has installed its own for SIGINT; so this comes after the session."""
    stopping = Stopping(asked=threading.Event(), insisted=threading.Event())

    def hear(_: int, __: FrameType | None) -> None:
        (stopping.insisted if stopping.asked.is_set() else stopping.asked).set()

    before = {number: signal.signal(number, hear) for number in STOP_SIGNALS}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
