"""What a Spark session is told, and what comes of it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykbroker.pipeline import session
from pykbroker.pipeline.java import Java, JavaUnavailableError
from pykbroker.pipeline.session import ON_ONE_MACHINE, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_local_session_listens_on_loopback_alone_and_counts_in_utc() -> None:
    chosen = session_settings("local[2]", {})
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.ui.enabled"] == "false"
    assert chosen["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "k8s://https://head"])
def test_a_session_of_a_cluster_keeps_the_address_that_the_cluster_can_reach(master: str) -> None:
    chosen = session_settings(master, {})
    assert chosen["spark.master"] == master
    assert not set(ON_ONE_MACHINE) & set(chosen)


def test_a_program_that_spark_submit_started_is_told_no_master() -> None:
    assert set(session_settings(None, {})) == {"spark.sql.session.timeZone"}


def test_what_the_user_sets_outweighs_ours() -> None:
    chosen = session_settings("local[*]", {"spark.sql.shuffle.partitions": "8"})
    assert chosen["spark.sql.shuffle.partitions"] == "8"


def test_options_of_the_jvm_are_one_line() -> None:
    chosen = session_settings("local[*]", {}, jvm_options=("-Xss4m", "-XX:+UseSerialGC"))
    assert chosen["spark.driver.extraJavaOptions"] == "-Xss4m -XX:+UseSerialGC"


def test_delta_is_known_to_a_session_that_wants_it() -> None:
    assert "Delta" in session_settings("local[*]", {}, with_lake=True)["spark.sql.extensions"]


@pytest.mark.parametrize("java", [None, Java(executable=Path("/jdk8/java"), version=8)])
def test_without_a_java_that_will_do_no_session_is_tried(
    java: Java | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(session.STARTED_BY_SUBMIT, raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session, "find_java", lambda: java)
    with pytest.raises(JavaUnavailableError, match="install Java 17"):
        session.spark_session("never")


@pytest.mark.slow
def test_the_workers_run_the_python_of_the_driver(spark: "SparkSession") -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.version_info[:3]).collect()
    assert found == [sys.version_info[:3]]
