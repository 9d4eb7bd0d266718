"""Consumer groups with real clients and ten partitions: join, leave, crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.clients.member_processes import MemberProcesses
from pykbroker.apis import APIS
from pykbroker_protocol.api_keys import ApiKey
from tests.end_to_end.groups.writing import Writer, create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.end_to_end.conftest import StartBroker

TOPIC = "trucks"
PARTITIONS = 10
MEMBERS = 12

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
}
HAVE_THE_NEXT_PROTOCOL = ApiKey.CONSUMER_GROUP_HEARTBEAT in APIS

STORIES: dict[str, tuple[str, Sequence[str]]] = {
    "confluent": ("range", ["confluent"]),
    "kafka-python": ("roundrobin", ["kafka-python"]),
    "aiokafka": ("roundrobin", ["aiokafka"]),
    "java": ("range", ["java"]),
    "mixed, range": ("range", ["confluent", "kafka-python", "java", "aiokafka"]),
    "mixed, roundrobin": ("roundrobin", ["aiokafka", "java", "kafka-python", "confluent"]),
    "mixed, cooperative": ("cooperative-sticky", ["confluent", "java", "kafka-python"]),
}
if HAVE_THE_NEXT_PROTOCOL:
    STORIES["next protocol"] = "consumer", ["confluent", "java"]


def marks(libraries: Sequence[str]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow, *([pytest.mark.oracle] if "java" in libraries else [])]


@pytest.mark.parametrize(
    ("assignor", "libraries"),
    [pytest.param(*story, id=name, marks=marks(story[1])) for name, story in STORIES.items()],
)
def test_a_group_shares_partitions_while_members_join_leave_and_crash(
    assignor: str,
    libraries: Sequence[str],
    start_broker: StartBroker,
    tmp_path: Path,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> None:
    broker = start_broker(settings=SETTINGS)
    partitions = create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    members = MemberProcesses(
        broker.bootstrap, tmp_path / "members", group="fleet", topic=TOPIC, assignor=assignor
    )
    show_on_failure("members", members.diagnostics)
    names = [libraries[number % len(libraries)] for number in range(MEMBERS)]
    with members, Writer(broker.bootstrap, TOPIC, PARTITIONS) as writer:
        (killed,) = members.start(names[0], own_jvm=True)
        members.until_shared(partitions)
        for count in (3, 10, 12):
            members.start(*names[len(members.all) : count])
            members.until_shared(partitions)
            assert len(members.present) == count
        idle = [it for it in members.present if not it.owned]
        assert len(idle) == MEMBERS - PARTITIONS, "surplus members have no partition"
        assert killed.owned, "the member with the first name"
        members.kill(killed)
        members.until_shared(partitions)
        assert any(it.owned for it in idle), "an idle member takes over"
        members.stop(*members.present[:2])
        members.until_shared(partitions)
        writer.stop()
        members.until(lambda: members.read_offsets() == writer.written, "all records are processed")
        members.stop(*members.present)
    assert members.two_owners() == []
