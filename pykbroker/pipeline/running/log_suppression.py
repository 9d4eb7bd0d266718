"""Suppresses Spark's long logs of failed queries, which the pipeline reports in one line."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.logger import PySparkLogger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

BATCH_LOGGERS: Final = (
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.util.Utils",
)
ANALYSIS_LOGGER: Final = "SQLQueryContextLogger"
"""Python logger of SQL errors."""
BRIDGE_LOGGERS: Final = ("py4j.clientserver", "py4j.java_gateway")
"""Python loggers of exceptions raised in a batch."""


@contextmanager
def spark_logs_suppressed(spark: SparkSession) -> Iterator[None]:
    """Disables the loggers of failed queries; other loggers are unchanged."""
    with ExitStack() as stack:
        for name in BATCH_LOGGERS:
            stack.enter_context(java_logger_off(spark, name))
        # getLogger keeps the class of the first caller, so this must be PySparkLogger.
        stack.enter_context(python_logger_off(PySparkLogger.getLogger(ANALYSIS_LOGGER)))
        for name in BRIDGE_LOGGERS:
            stack.enter_context(python_logger_off(logging.getLogger(name)))
        yield


@contextmanager
def java_logger_off(spark: SparkSession, name: str) -> Iterator[None]:
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001  # pyspark sets only the level of the root logger
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
