"""What Spark says at length of a failure, kept from who hears it from us in one line."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.logger import PySparkLogger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

OF_FAILED_BATCHES: Final = (
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.util.Utils",
)
OF_MISTAKES: Final = "SQLQueryContextLogger"
"""Python's: tells of SQL that Spark does not understand."""
OF_PYTHON: Final = ("py4j.clientserver", "py4j.java_gateway")
"""Tell of what a batch raised."""


@contextmanager
def spark_logs_suppressed(spark: SparkSession) -> Iterator[None]:
    """The loggers that tell of a failed query; all others speak as before."""
    with ExitStack() as silenced:
        for name in OF_FAILED_BATCHES:
            silenced.enter_context(java_logger_off(spark, name))
        # whoever asks for it first decides what it is
        silenced.enter_context(python_logger_off(PySparkLogger.getLogger(OF_MISTAKES)))
        for name in OF_PYTHON:
            silenced.enter_context(python_logger_off(logging.getLogger(name)))
        yield


@contextmanager
def java_logger_off(spark: SparkSession, name: str) -> Iterator[None]:
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001  # pyspark sets the root's level alone
    level = log4j.LogManager.getLogger(name).getLevel()
    configurator = log4j.core.config.Configurator
    configurator.setLevel(name, log4j.Level.OFF)
    try:
        yield
    finally:
        configurator.setLevel(name, level)


@contextmanager
def python_logger_off(logger: logging.Logger) -> Iterator[None]:
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
