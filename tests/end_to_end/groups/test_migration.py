"""A running group changes from the classic to the consumer protocol and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compat.clients.member_processes import MemberProcesses
from tests.end_to_end.groups.test_textbook import SETTINGS
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

TOPIC, PARTITION_COUNT = "trucks", 10
PARTITIONS = frozenset((TOPIC, partition) for partition in range(PARTITION_COUNT))


def kinds(broker: BrokerProcess, group: str) -> str:
    """Returns the log lines about the group."""
    return "\n".join(line for line in broker.log().splitlines() if f"group {group}" in line)


def test_a_group_is_upgraded_and_downgraded(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(settings=SETTINGS)
    create_topic(broker.bootstrap, TOPIC, PARTITION_COUNT)
    with MemberProcesses(
        broker.bootstrap, tmp_path / "members", group="movers", topic=TOPIC
    ) as members:
        classic = members.start("confluent", "confluent")
        members.until_shared(PARTITIONS)

        members.options["assignor"] = "consumer"
        newcomers = members.start("confluent", "confluent")
        members.until_shared(PARTITIONS)
        assert "converted to the consumer protocol (classic members: 2)" in kinds(broker, "movers")

        members.stop(newcomers[0])
        members.until_shared(PARTITIONS)
        members.stop(newcomers[1])
        members.until_shared(PARTITIONS)
        assert "converted to the classic protocol" in kinds(broker, "movers")

        members.options["assignor"] = "consumer"
        members.start("confluent")
        members.stop(*classic)
        members.until_shared(PARTITIONS)
        assert members.two_owners() == []
