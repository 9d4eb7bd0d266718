"""Apache Kafka's console tools say the same of PyKBroker as of Apache Kafka, session by session."""

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
from tests.end_to_end.tools.saying import Saying, saying
from tests.end_to_end.tools.sessions import FILES, SESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from compat.apache import ApacheKafka, ApacheTools

FIRST_MS = 1_700_000_000_000
RECORDS = 6
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.01
FENCE = "fence"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("tools") / "data"
    with BrokerProcess(data, settings=SINGLE_NODE) as broker:
        yield broker


@pytest.mark.parametrize("name", SESSIONS)
def test_an_operator_reads_the_same(
    name: str, apache: ApacheKafka, ours: BrokerProcess, apache_tools: ApacheTools, tmp_path: Path
) -> None:
    words = name.replace(" ", "-")
    their_words, our_words = (
        Session(apache_tools, broker, words, tmp_path / place).hold(SESSIONS[name])
        for place, broker in (("theirs", apache), ("ours", ours))
    )
    unlike = [line for line, said in our_words.items() if said != their_words[line]]
    assert not unlike, "\n".join(differences(unlike, our_words, their_words))


def differences(
    unlike: Iterable[str], ours: dict[str, Saying], theirs: dict[str, Saying]
) -> Iterator[str]:
    for line in unlike:
        our, their = ours[line], theirs[line]
        yield line
        yield f"    PyKBroker: {our.exit_code} {sorted(our.errors)}"
        yield f"    Apache:    {their.exit_code} {sorted(their.errors)}"
        yield from (f"    PyKBroker: {it}" for it in our.lines if it not in their.lines)
        yield from (f"    Apache:    {it}" for it in their.lines if it not in our.lines)


class Session:
    """An operator's commands to one broker, about a topic with a few records in two partitions."""

    def __init__(
        self, tools: ApacheTools, broker: ApacheKafka | BrokerProcess, name: str, files: Path
    ) -> None:
        self.tools = tools
        self.bootstrap = broker.bootstrap
        self.data = str(broker.data_dir.resolve())
        self.names = {"topic": f"{name}-topic", "group": f"{name}-group", "data": self.data}
        self.files = files
        files.mkdir()

    def hold(self, commands: str) -> dict[str, Saying]:
        """What was said to each command, numbered, for some are given twice."""
        fill(self.bootstrap, self.names["topic"])
        lines = commands.strip().splitlines()
        return {
            f"{number}: {line.strip()}": self.say(line.strip())
            for number, line in enumerate(lines, start=1)
        }

    def say(self, line: str) -> Saying:
        tool, *arguments = (self.word(it) for it in shlex.split(line))
        address = ["--bootstrap-server", self.bootstrap]
        whole = [*arguments, *address] if tool == "cluster" else [*address, *arguments]
        said = saying(self.tools.tool(tool, *whole), self.data)
        if "--alter" in arguments:
            wait_until_applied(self.bootstrap)
        return said

    def word(self, word: str) -> str:
        """With the names of this session; a file is written and stands in its place."""
        if not word.startswith("file:"):
            return self.named(word)
        file = self.files / word.removeprefix("file:")
        file.write_text(self.named(FILES[file.name]))
        return str(file)

    def named(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text


def wait_until_applied(bootstrap: str) -> None:
    """Wait until the broker has applied what was committed to its metadata before.

    Apache Kafka answers a change once it is committed; its broker applies it in a later turn, and
    the next command may come before that. Changes are applied in order: the broker begins with the
    deletion of the topic when it has done with all that came before.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, FENCE, 1)
    until(lambda: FENCE in admin.list_topics(timeout=PATIENCE_SECONDS).topics)
    admin.delete_topics([FENCE])[FENCE].result(PATIENCE_SECONDS)
    until(lambda: FENCE not in admin.list_topics(timeout=PATIENCE_SECONDS).topics)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def fill(bootstrap: str, topic: str) -> None:
    """Records a millisecond apart, in turn to two partitions, each in a batch of its own."""
    create_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(
            topic, f"record {number}", partition=number % 2, timestamp=FIRST_MS + number
        )
        assert producer.flush(PATIENCE_SECONDS) == 0
