"""Scenarios of Kafka Connect: copies lines of a file to a topic and from there to a file."""

from __future__ import annotations

import json
import socket
import urllib.request
from typing import TYPE_CHECKING
from urllib.error import URLError

from compat.suite.actor import until
from compat.suite.assertions import must_equal
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from compat.suite.actor import Actor
    from compat.suite.scenario_context import ScenarioContext

SECONDS = 300.0
COPIED_SECONDS = 100.0
REST_SECONDS = 10.0
FIRST, SECOND = ("one", "two", "three"), ("four", "five")
STORES = ("config", "offset", "status")
READ_COMMITTED = {"consumer.override.isolation.level": "read_committed"}
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


class FileCopy:
    """An input file, a topic, an output file, and the settings of workers and connectors."""

    def __init__(self, context: ScenarioContext) -> None:
        self.context = context
        self.topic = context.topic()
        self.actor: Actor = context.client()
        self.here: Path = context.scratch()
        self.input, self.output = self.here / "in.txt", self.here / "out.txt"
        self.lines: list[str] = []

    def write(self, lines: tuple[str, ...]) -> None:
        self.lines += lines
        with self.input.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def until_copied(self) -> None:
        """Waits until each line is in the topic and in the output file, once and in order."""
        until(
            lambda: len(self._copied_lines()) >= len(self.lines),
            "all lines",
            seconds=COPIED_SECONDS,
        )
        must_equal(self._copied_lines(), self.lines, "the copied lines")
        found = self.context.reference.committed_records(self.topic)
        must_equal([(it.value or b"").decode() for it in found], self.lines, "the values")

    def _copied_lines(self) -> list[str]:
        return self.output.read_text().splitlines() if self.output.exists() else []

    def source(self) -> dict[str, str]:
        return {
            "name": self.context.name("source"),
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.input),
            "topic": self.topic,
        }

    def sink(self) -> dict[str, str]:
        return {
            "name": self.context.name("sink"),
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(self.output),
            "topics": self.topic,
        }

    def worker(self, **more: str) -> dict[str, str]:
        named = {key.replace("_", "."): value for key, value in more.items()}
        return {
            "bootstrap.servers": self.actor.bootstrap,
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "only_scan",
        } | named

    def file(self, name: str, properties: dict[str, str]) -> str:
        file = self.here / name
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return str(file)


@scenario(
    "connect-standalone",
    "A standalone worker copies a file to a topic and back, and continues after a restart.",
    timeout_seconds=SECONDS,
    core=True,
)
def standalone(context: ScenarioContext) -> None:
    copy = FileCopy(context)
    port = free_port()
    worker = copy.worker(
        offset_storage_file_filename=str(copy.here / "offsets"),
        listeners=f"http://127.0.0.1:{port}",
    )
    arguments = [
        copy.file("worker.properties", worker),
        copy.file("source.properties", copy.source()),
        copy.file("sink.properties", copy.sink()),
    ]
    for name, lines in (("first", FIRST), ("second", SECOND)):
        copy.write(lines)
        copy.actor.do("start_tool", name, tool="connect-standalone", arguments=arguments)
        copy.until_copied()
        copy.actor.close(name)


@scenario(
    "connect-distributed",
    "A worker stores its state in topics, and another one continues.",
    timeout_seconds=SECONDS,
)
def distributed(context: ScenarioContext) -> None:
    play_distributed(context, exactly_once=False)


@scenario(
    "connect-exactly-once",
    "A source commits its records and its offset in one transaction.",
    timeout_seconds=SECONDS,
)
def exactly_once(context: ScenarioContext) -> None:
    play_distributed(context, exactly_once=True)


def play_distributed(context: ScenarioContext, *, exactly_once: bool) -> None:
    copy = FileCopy(context)
    copy.write(FIRST)
    address = start_distributed(copy, "first", exactly_once=exactly_once)
    for connector in (copy.source(), copy.sink() | READ_COMMITTED):
        until_accepted(f"{address}/{connector['name']}/config", connector)
    copy.until_copied()
    copy.actor.close("first")
    copy.write(SECOND)
    start_distributed(copy, "second", exactly_once=exactly_once)
    copy.until_copied()
    copy.actor.close("second")


def start_distributed(copy: FileCopy, name: str, *, exactly_once: bool) -> str:
    """Starts a worker; returns the address of its connectors API."""
    word = copy.context.name
    port = free_port()
    worker = copy.worker(
        group_id=word("workers"),
        **{f"{it}_storage_topic": word(it) for it in STORES},
        **{f"{it}_storage_replication_factor": "1" for it in STORES},
        offset_storage_partitions="2",
        listeners=f"http://127.0.0.1:{port}",
        exactly_once_source_support="enabled" if exactly_once else "disabled",
    )
    arguments = [copy.file("worker.properties", worker)]
    copy.actor.do("start_tool", name, tool="connect-distributed", arguments=arguments)
    address = f"http://127.0.0.1:{port}/connectors"
    until_accepted(address)
    return address


def until_accepted(address: str, put: dict[str, str] | None = None) -> None:
    """Retries until the worker accepts the request. It rejects requests during rebalances."""
    until(lambda: is_accepted(address, put), f"{address} responds", seconds=COPIED_SECONDS)


def is_accepted(address: str, put: dict[str, str] | None) -> bool:
    request = urllib.request.Request(  # noqa: S310 (the worker that was started above)
        address,
        data=None if put is None else json.dumps(put).encode(),
        method="GET" if put is None else "PUT",
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=REST_SECONDS):  # noqa: S310 (likewise)
            return True
    except (URLError, ConnectionError, TimeoutError):
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
