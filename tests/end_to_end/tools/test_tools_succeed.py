"""Apache Kafka's tools that write, read and verify records succeed on PyKBroker."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from pykbroker.apis import APIS
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compat.apache import ApacheTools

TOPIC = "trucks"
LAG_LINES_MAX = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("tools") / "data"
    with BrokerProcess(data, settings=SINGLE_NODE) as broker:
        create_topic(broker.bootstrap, TOPIC, 1)
        yield broker


COMMANDS = {
    "console-producer": (
        "--bootstrap-server @ --topic trucks --sync --compression-codec zstd",
        "",
    ),
    "verifiable-producer": (
        "--bootstrap-server @ --topic trucks --max-messages 50 --acks -1",
        r'"name":"tool_data","sent":50,"acked":50',
    ),
    "producer-perf": (
        (
            "--topic trucks --num-records 200 --record-size 100 --throughput -1"
            " --transaction-duration-ms 100 --transactional-id depot"
            " --producer-props bootstrap.servers=@"
        ),
        r"200 records sent",
    ),
    "consumer-perf": (
        "--bootstrap-server @ --topic trucks --messages 250 --timeout 20000",
        r"start\.time, end\.time",
    ),
    "console-consumer": (
        (
            "--bootstrap-server @ --topic trucks --from-beginning --max-messages 53"
            " --timeout-ms 20000 --property print.offset=true --isolation-level read_committed"
        ),
        r"Offset:0\s+one\nOffset:1\s+two\nOffset:2\s+three\nOffset:3\s+0\n",
    ),
    "verifiable-consumer": (
        (
            "--bootstrap-server @ --topic trucks --group-id fleet --max-messages 40"
            " --reset-policy earliest"
        ),
        r'"name":"offsets_committed","offsets":\[\{"topic":"trucks","partition":0,"offset":\d+',
    ),
    "e2e-latency": (
        "--bootstrap-server @ --topic laps --num-records 20 --producer-acks all --record-size 50",
        r"Percentiles: 50th = \d+",
    ),
}


def test_tools_write_and_read_records(broker: BrokerProcess, apache_tools: ApacheTools) -> None:
    create_topic(broker.bootstrap, "laps", 1)
    for tool, (arguments, pattern) in COMMANDS.items():
        words = arguments.replace("@", broker.bootstrap).split()
        done = apache_tools.tool(tool, *words, input="one\ntwo\nthree\n")
        assert done.returncode == 0, f"{tool}: {done.stdout}{done.stderr}"
        assert re.search(pattern, done.stdout), f"{tool}: {done.stdout}{done.stderr}"


def test_all_served_apis_are_usable_by_the_java_client(
    broker: BrokerProcess, apache_tools: ApacheTools
) -> None:
    done = apache_tools.tool("api-versions", "--bootstrap-server", broker.bootstrap)
    usable = {int(it) for it in re.findall(r"\((\d+)\): [^U].*\[usable: \d+\]", done.stdout)}
    assert usable == set(APIS), done.stdout


def test_replica_verification_reports_no_lag(
    broker: BrokerProcess, apache_tools: ApacheTools
) -> None:
    """The tool does not end; the test stops it after one report."""
    command = apache_tools.command(
        *("replica-verification", "--broker-list", broker.bootstrap, "--topics-include", TOPIC),
        *("--time", "-2", "--report-interval-ms", "200"),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reports = (process.stdout.readline() for _ in range(LAG_LINES_MAX))
        try:
            assert any("max lag is 0 for partition trucks-0" in it for it in reports)
        finally:
            process.kill()


def test_the_storage_tool_reads_the_data_directory(
    broker: BrokerProcess, apache_tools: ApacheTools, tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={broker.data_dir}\n"
        "controller.quorum.voters=1@127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
    )
    done = apache_tools.tool("storage", "info", "--config", properties)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node.id=1, version=1}" in done.stdout
    assert "problem" not in done.stdout
