"""Apache Kafka's console tools print the same for PyKBroker as for Apache Kafka."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from tests.end_to_end.groups.writing import create_topic
from tests.end_to_end.tools.sessions import FILES, SESSIONS
from tests.end_to_end.tools.tool_output import ToolOutput, tool_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from compat.apache import ApacheKafka, ApacheTools

FIRST_MS = 1_700_000_000_000
RECORDS = 6
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.01
FENCE = "fence"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("tools") / "data"
    with BrokerProcess(data, settings=SINGLE_NODE) as broker:
        yield broker


@pytest.mark.parametrize("name", SESSIONS)
def test_tools_print_the_same_for_both_brokers(
    name: str, apache: ApacheKafka, ours: BrokerProcess, apache_tools: ApacheTools, tmp_path: Path
) -> None:
    prefix = name.replace(" ", "-")
    their_outputs, our_outputs = (
        Session(apache_tools, broker, prefix, tmp_path / folder).run(SESSIONS[name])
        for folder, broker in (("theirs", apache), ("ours", ours))
    )
    different = [line for line, output in our_outputs.items() if output != their_outputs[line]]
    assert not different, "\n".join(differences(different, our_outputs, their_outputs))


def differences(
    lines: Iterable[str], ours: dict[str, ToolOutput], theirs: dict[str, ToolOutput]
) -> Iterator[str]:
    for line in lines:
        our, their = ours[line], theirs[line]
        yield line
        yield f"    PyKBroker: {our.exit_code} {sorted(our.errors)}"
        yield f"    Apache:    {their.exit_code} {sorted(their.errors)}"
        yield from (f"    PyKBroker: {it}" for it in our.lines if it not in their.lines)
        yield from (f"    Apache:    {it}" for it in their.lines if it not in our.lines)


class Session:
    """Runs commands on one broker that has a topic with a few records in two partitions."""

    def __init__(
        self, tools: ApacheTools, broker: ApacheKafka | BrokerProcess, name: str, files: Path
    ) -> None:
        self.tools = tools
        self.bootstrap = broker.bootstrap
        self.data = str(broker.data_dir.resolve())
        self.names = {"topic": f"{name}-topic", "group": f"{name}-group", "data": self.data}
        self.files = files
        files.mkdir()

    def run(self, commands: str) -> dict[str, ToolOutput]:
        """Returns the output of each command; keys are numbered, as commands can be repeated."""
        fill(self.bootstrap, self.names["topic"])
        lines = commands.strip().splitlines()
        return {
            f"{number}: {line.strip()}": self.run_line(line.strip())
            for number, line in enumerate(lines, start=1)
        }

    def run_line(self, line: str) -> ToolOutput:
        tool, *arguments = (self.argument(it) for it in shlex.split(line))
        address = ["--bootstrap-server", self.bootstrap]
        command = [*arguments, *address] if tool == "cluster" else [*address, *arguments]
        output = tool_output(self.tools.tool(tool, *command), self.data)
        if "--alter" in arguments:
            wait_until_applied(self.bootstrap)
        return output

    def argument(self, word: str) -> str:
        """Replaces placeholders; writes the input file of `file:NAME` and returns its path."""
        if not word.startswith("file:"):
            return self.replace_placeholders(word)
        file = self.files / word.removeprefix("file:")
        file.write_text(self.replace_placeholders(FILES[file.name]))
        return str(file)

    def replace_placeholders(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text


def wait_until_applied(bootstrap: str) -> None:
    """Waits until the broker has applied all committed metadata.

    Apache Kafka responds once a change is committed, and its brokers apply it later. Changes are
    applied in order, so the creation and deletion of a topic is a fence for earlier changes.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, FENCE, 1)
    until(lambda: FENCE in admin.list_topics(timeout=TIMEOUT_SECONDS).topics)
    admin.delete_topics([FENCE])[FENCE].result(TIMEOUT_SECONDS)
    until(lambda: FENCE not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def fill(bootstrap: str, topic: str) -> None:
    """Writes one record per batch, 1 ms apart, alternating between two partitions."""
    create_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(
            topic, f"record {number}", partition=number % 2, timestamp=FIRST_MS + number
        )
        assert producer.flush(TIMEOUT_SECONDS) == 0
