"""A Spark session that can read topics and write to them."""

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
"""spark-submit sets it for the Python program whose JVM it has started already."""

EVERYWHERE: Final = {"spark.sql.session.timeZone": "UTC"}
ON_ONE_MACHINE: Final = {
    # Otherwise Spark listens on an address of the network.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
WITH_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

READ_OPTIONS: Final = {
    # By default Spark asks for the bounds of a partition after every 500 records.
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
}
"""What a reader of topics should be told; it costs a broker a fifth of the CPU."""


def spark_session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] = {},  # nobody writes to it
    jars: Path | None = None,
    jvm_options: Sequence[str] = (),
    with_lake: bool = False,
    with_avro: bool = False,
) -> SparkSession:
    """The session of this process, started if it has none.

    `jars` is a directory that has the connector; without it the connector is found, or fetched.
    `settings` are Spark's own and outweigh ours. `with_lake` adds Delta tables, `with_avro` Avro.
    A program that spark-submit started keeps the master, address and jars that spark-submit knows.
    """
    is_submitted = STARTED_BY_SUBMIT in os.environ
    if not is_submitted:
        _refuse_without_java()
        master = master or settings.get("spark.master") or LOCAL_MASTER
        settings = {"spark.jars": _jars(jars, with_lake, with_avro), **settings}
        if master.startswith("local"):
            # Else the workers are the python3 of the PATH, which has none of our packages.
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
    """What Spark is told, the weakest first; without a master, it is told by somebody else."""
    chosen = dict(EVERYWHERE)
    if with_lake:
        chosen |= WITH_DELTA
    if master is not None:
        chosen["spark.master"] = master
        if jvm_options:
            chosen["spark.driver.extraJavaOptions"] = " ".join(jvm_options)
        if master.startswith("local"):
            chosen |= ON_ONE_MACHINE
    return {**chosen, **settings}


def _refuse_without_java() -> None:
    """Spark itself would say that a gateway exited."""
    finding = java_found(find_java(), os.environ.get("JAVA_HOME"))
    if not finding.is_fine:
        raise JavaUnavailableError(f"Java: {finding.text}; {finding.remedy}")


def _jars(directory: Path | None, with_lake: bool, with_avro: bool) -> str:  # noqa: FBT001  # as the caller names them
    """The files of all sets, each once, as Spark wants them listed."""
    optional = {JarSet.DELTA: with_lake, JarSet.AVRO: with_avro}
    wanted = [JarSet.CONNECTOR, *(jar_set for jar_set, is_wanted in optional.items() if is_wanted)]
    found = find_jars(wanted, directory=directory)
    return ",".join(dict.fromkeys(str(file) for jars in found for file in jars.files))
