"""The timeline lists actions of the test before their consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker import AsyncBroker, Broker
from pykbroker.testing.seeding import NotWritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def stop_and_run(kafka: Broker) -> None:
    kafka.clock.freeze()
    kafka.clock.run()
    kafka.clock.run()


def be_away(kafka: Broker) -> None:
    with kafka.outage():
        pass


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (
            lambda it: it.clock.advance(days=8, minutes=1),
            ["test: clock advanced by 8 days, 0:01:00"],
        ),
        (
            lambda it: it.clock.skew(hours=-1),
            ["test: wall clock skewed by -1:00:00"],
        ),
        (lambda it: it.clock.skew(), ["test: wall clock skewed by 0:00:00"]),
        (stop_and_run, ["test: clock frozen", "test: clock running"]),
        (Broker.restart, ["test: broker stopped", "test: broker started again"]),
        (Broker.crash, ["test: broker killed", "test: broker started again"]),
        (be_away, ["test: broker killed", "test: broker started again"]),
    ],
)
def test_the_timeline_has_the_actions_of_the_test(
    kafka: Broker, do: Callable[[Broker], None], expected: list[str]
) -> None:
    do(kafka)
    assert [it.text for it in kafka.timeline] == expected


def test_a_disk_fault_is_noted_once(kafka: Broker) -> None:
    kafka.create_topics(["trucks"])
    with kafka.faults.disk_full(topic="trucks") as fault:
        for _ in range(2):
            with pytest.raises(NotWritten):
                kafka.produce("trucks", ["a"])
    assert fault.hits == 2
    events = [it.text for it in kafka.timeline]
    assert events == ["fault: disk full (topic trucks); first hit in trucks-0"]


async def test_the_clock_change_precedes_its_session_timeout() -> None:
    from aiokafka import AIOKafkaConsumer

    async with AsyncBroker(["trucks"]) as kafka:
        consumer = AIOKafkaConsumer("trucks", bootstrap_servers=kafka.bootstrap, group_id="g")
        async with consumer:
            await kafka.clock.advance(minutes=1)
            events = [it.text for it in kafka.timeline]
    moved = events.index("test: clock advanced by 0:01:00")
    assert "session of " not in "".join(events[:moved])
    assert "session of " in "".join(events[moved:])
