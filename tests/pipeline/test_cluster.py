"""A pipeline runs on a standalone cluster, started by `pipeline run` and by spark-submit."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import parquet

from pykbroker import Broker

TIMEOUT_S = 300.0
TRUCKS = 20
DECLARATION = """
name = "fleet"
bootstrap = "BOOTSTRAP"
checkpoint = "state/checkpoint"

[spark]
"driver.host" = "127.0.0.1"
"driver.bindAddress" = "127.0.0.1"
"driver.memory" = "512m"
"executor.memory" = "512m"
"executor.cores" = 1
"sql.shuffle.partitions" = 4

[source.trucks]
topics = ["trucks"]
format = "json"
required = ["truck", "at"]
dead_letters = "broken"
event_time = "at"
watermark = "0 seconds"
schema = { truck = "string", at = "timestamp", speed = "double" }

[window.means]
input = "trucks"
size = "1 minute"
by = ["truck"]
aggregates = { mean = "avg(speed)" }

[archive.raw]
source = "trucks"
path = "state/archive"

[sink.means]
input = "means"
kind = "topic"
topic = "means"
key = "truck"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.asked_for_by("PYKBROKER_SPARK_CLUSTER"),  # six JVMs
]


def environment() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([root, f"{root}/protocol", f"{root}/storage"]),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> str:
        """Returns the first group of the pattern in the log; fails after the timeout."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.log.read_text()):
                return found[1]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.2)
        raise AssertionError(f"no {pattern} in {self.log.read_text()}")


@contextmanager
def child(directory: Path, name: str, *command: str) -> Iterator[Child]:
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(), cwd=directory
        )
    try:
        yield Child(process=process, log=log)
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def spark_program(name: str) -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """Yields the URL of a master with two workers of one core each."""
    address_options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    spark_class, package = spark_program("spark-class"), "org.apache.spark.deploy"
    with ExitStack() as children:
        master = children.enter_context(
            child(directory, "master", spark_class, f"{package}.master.Master", *address_options)
        )
        address = master.wait_for(r"Starting Spark master at (spark://[\d.]+:\d+)")
        for name in ("one", "two"):
            command = (spark_class, f"{package}.worker.Worker", *address_options, "--cores", "1")
            options = ("--memory", "1g", "--work-dir", str(directory / name))
            worker = children.enter_context(child(directory, name, *command, *options, address))
            worker.wait_for(r"(Successfully registered with master)")
        yield address


def reports(minute: int) -> list[str]:
    """Two reports of each truck in one minute, and one broken record."""
    rows = [
        {"truck": f"truck-{truck}", "at": f"2026-11-18T10:{minute:02}:{second}Z", "speed": speed}
        for truck in range(TRUCKS)
        for second, speed in (("00", 60 + truck), ("30", 80 + truck))
    ]
    return [*map(json.dumps, rows), "{invalid"]


def run(directory: Path, name: str, *command: str) -> None:
    with child(directory, name, *command) as program:
        program.process.wait(2 * TIMEOUT_S)
    assert program.process.returncode == 0, program.log.read_text()


def test_pipeline_runs_on_a_cluster_and_continues_with_spark_submit(tmp_path: Path) -> None:
    from pykbroker.pipeline import submit

    topics = {"trucks": 4, "means": 2, "broken": 1}
    with Broker(topics) as broker, standalone_cluster(tmp_path) as master:
        declaration = tmp_path / "fleet.toml"
        declaration.write_text(DECLARATION.replace("BOOTSTRAP", broker.bootstrap))
        program = (sys.executable, "-m", "pykbroker", "pipeline", "run", str(declaration))

        broker.produce("trucks", reports(0), key=lambda row: row[:20])
        run(tmp_path, "first", *program, "--once", "--master", master)
        assert broker.records("means") == []

        broker.produce("trucks", reports(1), key=lambda row: row[:20])
        jars = subprocess.check_output(
            [sys.executable, "-m", "pykbroker", "pipeline", "jars", "--commas"], text=True
        )
        submitted = (spark_program("spark-submit"), "--master", master, "--jars", jars.strip())
        run(tmp_path, "second", *submitted, submit.__file__, str(declaration), "--once")
        assert means(broker) == {(f"truck-{it}", "10:00", 70.0 + it) for it in range(TRUCKS)}

        assert len(broker.records("broken")) == 2
        archived = parquet.read_table(tmp_path / "state" / "archive").num_rows
        assert archived == 2 * (2 * TRUCKS + 1)
        for worker in ("one", "two"):
            assert list((tmp_path / worker).glob("app-*")), f"worker {worker} received no tasks"


def means(broker: Broker) -> set[tuple[str, str, float]]:
    rows = [json.loads(record.value or b"") for record in broker.records("means")]
    return {(row["truck"], row["window_start"][11:16], row["mean"]) for row in rows}
