"""Repeated `kill -9` during rebalances and commits never lowers a committed offset.

Each round waits for an event and then a random time before the kill. PYKBROKER_KILL_ROUNDS sets the
number of rounds (`PYKBROKER_KILL_ROUNDS=50 pytest tests/end_to_end/groups`).
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat.clients.member_processes import MemberProcesses
from tests.end_to_end.groups.test_textbook import HAVE_THE_NEXT_PROTOCOL, SETTINGS
from tests.end_to_end.groups.writing import Writer, create_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from compat.clients.member_processes import Member
    from tests.end_to_end.conftest import StartBroker

ROUNDS = int(os.environ.get("PYKBROKER_KILL_ROUNDS", "6"))
SEED = int(os.environ.get("PYKBROKER_KILL_SEED", str(random.SystemRandom().randrange(10**6))))
TOPIC = "trucks"
PARTITIONS = 10
BOTH = ("confluent", "kafka-python", "confluent", "kafka-python")
LIBRARIES = {"range": BOTH, "cooperative-sticky": BOTH, "consumer": ("confluent",) * 4}
ASSIGNORS = [it for it in LIBRARIES if it != "consumer" or HAVE_THE_NEXT_PROTOCOL]
MOMENT_SECONDS_MAX = 0.8
TIMEOUT_SECONDS = 60.0

Offsets = dict[int, int]


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_committed_offsets_never_decrease_and_members_rejoin_after_kills(
    assignor: str,
    start_broker: StartBroker,
    tmp_path: Path,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> None:
    show_on_failure("seed", lambda: f"PYKBROKER_KILL_SEED={SEED}")
    chance = random.Random(SEED)
    broker = start_broker(settings=SETTINGS)
    partitions = create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    members = MemberProcesses(
        broker.bootstrap, tmp_path / "members", group="fleet", topic=TOPIC, assignor=assignor
    )
    show_on_failure("members", members.diagnostics)
    with members, Writer(broker.bootstrap, TOPIC, PARTITIONS) as writer:
        members.start(*LIBRARIES[assignor])
        members.until_shared(partitions)
        before = committed(broker)
        for _ in range(ROUNDS):
            replaced = chance.choice(members.present)
            start_rebalance(members, replaced, chance)
            time.sleep(chance.uniform(0, MOMENT_SECONDS_MAX))
            broker.kill()
            acknowledged = acknowledged_commits(members)
            broker.start()
            after = committed(broker)
            assert at_least(after, before), "a committed offset decreased"
            assert at_least(after, acknowledged), "an acknowledged commit is lost"
            before = after
        members.until_shared(partitions)
        writer.stop()
        members.until(lambda: members.read_offsets() == writer.written, "all records are processed")
        members.until(lambda: committed(broker) == ends(writer), "all offsets are committed")
    assert members.two_owners() == []


def start_rebalance(members: MemberProcesses, replaced: Member, chance: random.Random) -> None:
    """Starts a rebalance by a member that joins, leaves or crashes, or only continues commits."""
    match chance.choice(["join", "crash and join", "nothing"]):
        case "join":
            members.start(replaced.library)
        case "crash and join":
            members.kill(replaced)
            members.start(replaced.library)
        case _:
            return


def committed(broker: BrokerProcess) -> Offsets:
    """Returns the committed offsets when the coordinator is available."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "fleet"})
    asked = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        while True:
            try:
                found = consumer.committed(asked, timeout=5)
            except KafkaException:
                assert time.monotonic() < deadline
                continue
            return {it.partition: max(it.offset, 0) for it in found}
    finally:
        consumer.close()


def acknowledged_commits(members: MemberProcesses) -> Offsets:
    """Offsets that members read before a successful commit."""
    members.read_events()
    found: Offsets = {}
    for member in members.all:
        since: Offsets = {}
        for event in member.events:
            match event["event"]:
                case "read":
                    since[event["partition"]] = event["last"] + 1
                case "committed":
                    for partition, offset in since.items():
                        found[partition] = max(offset, found.get(partition, 0))
                    since = {}
                case "not committed":
                    since = {}
    return found


def at_least(offsets: Offsets, floor: Offsets) -> bool:
    return all(offsets[partition] >= offset for partition, offset in floor.items())


def ends(writer: Writer) -> dict[int, int]:
    return {partition: max(offsets) + 1 for (_, partition), offsets in writer.written.items()}
