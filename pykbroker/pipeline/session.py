"""Creates Spark sessions that can read and write topics."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from pykbroker.pipeline.doctor import java_found
from pykbroker.pipeline.java import JavaUnavailableError, find_java
from pykbroker.pipeline.spark_jars import JarSet, find_jars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOCAL_MASTER: Final = "local[*]"
STARTED_BY_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has started the JVM before the Python program."""

ALL_SESSIONS: Final = {"spark.sql.session.timeZone": "UTC"}
LOCAL_SESSIONS: Final = {
    # Otherwise Spark listens on a network address.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
DELTA_SESSIONS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

READ_OPTIONS: Final = {
    # By default Spark requests the bounds of a partition after every 500 records.
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
}
"""Options for reading topics; the broker uses a fifth of the CPU of Spark's defaults."""


def spark_session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] = {},  # never changed
    jars: Path | None = None,
    jvm_options: Sequence[str] = (),
    with_lake: bool = False,
    with_avro: bool = False,
) -> SparkSession:
    """Returns the Spark session of this process; creates it if there is none.

    `jars` is a directory with the connector; by default the connector is found or downloaded.
    `settings` override the defaults below. `with_lake` adds Delta tables, `with_avro` Avro.
    A program started by spark-submit keeps the master, address and jars of spark-submit.
    """
    is_submitted = STARTED_BY_SUBMIT in os.environ
    if not is_submitted:
        _require_java()
        master = master or settings.get("spark.master") or LOCAL_MASTER
        settings = {"spark.jars": _jars(jars, with_lake, with_avro), **settings}
        if master.startswith("local"):
            # Otherwise workers run python3 from the PATH, which lacks the packages of this one.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in session_settings(
        None if is_submitted else master, settings, jvm_options=jvm_options, with_lake=with_lake
    ).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def session_settings(
    master: str | None,
    settings: Mapping[str, str],
    *,
    jvm_options: Sequence[str] = (),
    with_lake: bool = False,
) -> dict[str, str]:
    """Returns the settings of a session; `master` is None if spark-submit sets it."""
    chosen = dict(ALL_SESSIONS)
    if with_lake:
        chosen |= DELTA_SESSIONS
    if master is not None:
        chosen["spark.master"] = master
        if jvm_options:
            chosen["spark.driver.extraJavaOptions"] = " ".join(jvm_options)
        if master.startswith("local"):
            chosen |= LOCAL_SESSIONS
    return {**chosen, **settings}


def _require_java() -> None:
    """Raises if Java is missing; the error of Spark would not name it."""
    finding = java_found(find_java(), os.environ.get("JAVA_HOME"))
    if not finding.is_fine:
        raise JavaUnavailableError(f"Java: {finding.text}; {finding.remedy}")


def _jars(directory: Path | None, with_lake: bool, with_avro: bool) -> str:  # noqa: FBT001  # like in the caller
    """Returns the comma-separated files of all sets without duplicates."""
    optional = {JarSet.DELTA: with_lake, JarSet.AVRO: with_avro}
    jar_sets = [JarSet.CONNECTOR, *(it for it, is_enabled in optional.items() if is_enabled)]
    found = find_jars(jar_sets, directory=directory)
    return ",".join(dict.fromkeys(str(file) for jars in found for file in jars.files))
