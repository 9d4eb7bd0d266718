"""A partition that fails to apply committed metadata serves clients after retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from pykbroker.partitions.partition_registry import Partitions
from pykbroker.testing.simulation import Simulation

if TYPE_CHECKING:
    import pytest

FAILURES = 3


def test_a_producer_writes_once_the_partition_has_applied_its_metadata(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    update_partition, attempts = Partitions.update_partition, []

    def fail_at_first(partitions: Partitions, topic: Any, image: Any, settings: Any) -> None:
        attempts.append(topic.name)
        if len(attempts) <= FAILURES:
            raise RuntimeError("planted")
        update_partition(partitions, topic, image, settings)

    monkeypatch.setattr(Partitions, "update_partition", fail_at_first)
    with Simulation(1) as world:
        kafka = world.broker(config={"auto.create.topics.enable": "true"})

        async def run() -> None:
            async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
                await producer.send_and_wait("trucks", b"one")
            assert [it.text for it in kafka.records("trucks")] == ["one"]

        world.run(run())
    assert attempts == ["trucks"] * (FAILURES + 1)
    assert "could not be applied to trucks-0; retrying" in caplog.text
