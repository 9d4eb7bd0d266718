"""Groups with dynamic properties."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.apis.conversations.configurations import (
    APPEND,
    DELETE,
    SET,
    altered,
    described,
    replaced,
)
from tests.apis.groups.consuming import Consumer, settle
from tests.apis.groups.transcript import conversation
from tests.apis.transcript import READY_SECONDS_MAX

if TYPE_CHECKING:
    from tests.apis.groups.transcript import Group, GroupTranscript

GROUP = 32
HEARTBEAT = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
OURS = [ASSIGNMENT, HEARTBEAT, SESSION]
"""Properties of share and streams groups, which PyKBroker does not support."""

BAD: list[tuple[str, int, str | None]] = [
    (SESSION, SET, "1"),
    (SESSION, SET, "0"),
    (SESSION, SET, "x"),
    (SESSION, SET, "70000"),
    (SESSION, SET, None),
    (SESSION, APPEND, "50000"),
    (HEARTBEAT, SET, "1000"),
    (HEARTBEAT, SET, "16000"),
    (ASSIGNMENT, SET, "-1"),
    (ASSIGNMENT, SET, "16000"),
    ("group.consumer.session.timeout.ms", SET, "50000"),
    ("no.such.property", SET, "1"),
]


def show(group: Group, note: str = "") -> None:
    group.broker.ask(described(group.id, GROUP, OURS), 4, note=note)


def until_told(consumer: Consumer, interval_ms: int) -> None:
    """Repeats until the coordinator has applied a change."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while consumer.quietly(consumer.living()).heartbeat_interval_ms != interval_ms:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@conversation
def intervals_of_one_group_are_changed(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group, other = broker.group(), broker.group("other")
    consumer, stranger = Consumer(group, "consumer", topic), Consumer(other, "stranger", topic)
    for it in (consumer, stranger):
        it.join()
        settle(it)
    show(group, "as all")
    broker.ask(altered(group.id, (HEARTBEAT, SET, "10000"), (SESSION, SET, "50000"), kind=GROUP), 1)
    until_told(consumer, 10_000)
    consumer.beat(note="more slowly")
    stranger.beat(note="as before")
    show(group, "its own")
    show(other, "as all")
    broker.ask(altered(group.id, (HEARTBEAT, DELETE, None), kind=GROUP), 1)
    until_told(consumer, 5_000)
    consumer.beat(note="as before")
    show(group, "half its own")
    broker.ask(replaced(group.id, {ASSIGNMENT: "0"}, GROUP), 2)
    broker.settle()
    show(group, "another of its own")
    broker.ask(replaced(group.id, {}, GROUP), 2)
    broker.settle()
    show(group, "none of its own")


@conversation
def invalid_intervals_of_groups(broker: GroupTranscript) -> None:
    group = broker.group()
    for operation in BAD:
        broker.ask(altered(group.id, operation, kind=GROUP), 1, note=f"{operation}")
        if operation[1] == SET:
            values = {operation[0]: operation[2]}
            broker.ask(replaced(group.id, values, GROUP), 2, note=f"{values}")
    broker.ask(altered("", (SESSION, SET, "50000"), kind=GROUP), 1, note="of no group")
    broker.ask(altered("not-there", (SESSION, SET, "50000"), kind=GROUP), 1, note="of a new one")
    broker.ask(described("", GROUP, OURS), 4)
    show(group, "none of them")
