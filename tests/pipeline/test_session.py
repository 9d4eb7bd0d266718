"""Settings of Spark sessions."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykbroker.pipeline import session
from pykbroker.pipeline.java import Java, JavaUnavailableError
from pykbroker.pipeline.session import LOCAL_SESSIONS, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_local_session_listens_on_loopback_and_uses_utc() -> None:
    chosen = session_settings("local[2]", {})
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.ui.enabled"] == "false"
    assert chosen["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "k8s://https://head"])
def test_cluster_session_keeps_its_network_address(master: str) -> None:
    chosen = session_settings(master, {})
    assert chosen["spark.master"] == master
    assert not set(LOCAL_SESSIONS) & set(chosen)


def test_program_of_spark_submit_gets_no_master() -> None:
    assert set(session_settings(None, {})) == {"spark.sql.session.timeZone"}


def test_settings_of_the_user_override_defaults() -> None:
    chosen = session_settings("local[*]", {"spark.sql.shuffle.partitions": "8"})
    assert chosen["spark.sql.shuffle.partitions"] == "8"


def test_jvm_options_are_joined() -> None:
    chosen = session_settings("local[*]", {}, jvm_options=("-Xss4m", "-XX:+UseSerialGC"))
    assert chosen["spark.driver.extraJavaOptions"] == "-Xss4m -XX:+UseSerialGC"


def test_with_lake_enables_delta() -> None:
    assert "Delta" in session_settings("local[*]", {}, with_lake=True)["spark.sql.extensions"]


@pytest.mark.parametrize("java", [None, Java(executable=Path("/jdk8/java"), version=8)])
def test_session_requires_a_supported_java(
    java: Java | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(session.STARTED_BY_SUBMIT, raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session, "find_java", lambda: java)
    with pytest.raises(JavaUnavailableError, match="install Java 17"):
        session.spark_session("never")


@pytest.mark.slow
def test_workers_run_the_python_of_the_driver(spark: "SparkSession") -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.version_info[:3]).collect()
    assert found == [sys.version_info[:3]]
