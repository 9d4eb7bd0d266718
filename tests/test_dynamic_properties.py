"""A running broker applies each dynamic property that has an effect."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker.broker import Broker
from pykbroker.controller_access import ConfigurationChange
from pykbroker.environment import Environment
from pykbroker.settings import BROKER, AlterOperation, UpdateMode, describe_broker, load_settings
from pykbroker.settings.load import NAMES_WITH_EFFECT
from pykbroker_protocol.errors import Refusal
from pykbroker_storage.filesystem import VolatileDisk

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4

# Rejected, compared with `listeners`, which are bound at start, or only for a broker of a cluster.
FIXED = {"listeners", "listener.security.protocol.map", "cordoned.log.dirs"}
CHANGED = {
    "compression.type": "gzip",
    "follower.replication.throttled.rate": "1000",
    "group.consumer.assignment.interval.ms": "1",
    "leader.replication.throttled.rate": "1000",
    "log.cleaner.backoff.ms": "16000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.delete.retention.ms": "1",
    "log.cleaner.io.max.bytes.per.second": "1000.5",
    "log.cleaner.max.compaction.lag.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.75",
    "log.cleaner.min.compaction.lag.ms": "1",
    "log.cleaner.threads": "2",
    "log.cleanup.policy": "compact",
    "log.flush.interval.messages": "7",
    "log.flush.interval.ms": "1000",
    "log.index.interval.bytes": "8192",
    "log.index.size.max.bytes": "1048576",
    "log.message.timestamp.after.max.ms": "1",
    "log.message.timestamp.before.max.ms": "1",
    "log.message.timestamp.type": "LogAppendTime",
    "log.retention.bytes": "1000",
    "log.retention.ms": "1000",
    "log.roll.jitter.ms": "1",
    "log.roll.ms": "2000",
    "log.segment.bytes": "2000000",
    "log.segment.delete.delay.ms": "1",
    "max.connections": "1000",
    "max.connections.per.ip": "100",
    "max.connections.per.ip.overrides": "127.0.0.2:5",
    "message.max.bytes": "1000",
    "min.insync.replicas": "2",
    "num.io.threads": "5",
    "num.replica.fetchers": "2",
    "producer.id.expiration.ms": "1000",
    "transaction.partition.verification.enable": "false",
}


def started(directory: Path, **properties: str) -> dict[str, str]:
    own = {name.replace("_", "."): value for name, value in properties.items()}
    return {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **own}


async def serving(directory: Path, properties: dict[str, str]) -> Broker:
    given = {**started(directory), "offsets.topic.num.partitions": "1", **properties}
    broker = await Broker.start(load_settings(given), Environment(filesystem=VolatileDisk()))
    await broker.create_topics([("trucks", 1, 1)])
    return broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = await serving(tmp_path / "data", {})
    yield broker
    await broker.stop()


async def changed(
    broker: Broker, kind: int, name: str, properties: dict[str, str]
) -> Refusal | None:
    operations = [(key, AlterOperation.SET, value) for key, value in properties.items()]
    change = ConfigurationChange(resource_type=kind, name=name, operations=operations)
    (outcome,) = await broker.controller.alter_configurations([change])
    return outcome


def parts(broker: Broker) -> dict[str, Any]:
    """Returns the settings that the parts of a broker use."""
    partition = broker.partitions.get("trucks", 0)
    assert partition is not None
    names = [it.attribute for it in BROKER.values() if it.name in CHANGED]
    known = vars(broker.node.settings).keys()
    return {
        "requests": {it: getattr(broker.node.settings, it) for it in names if it in known},
        "upkeep": {it: getattr(broker.partitions.settings, it) for it in names if it in known},
        "connections": broker.socket_server.limits,
        "flush threads": broker.partitions.flush_threads.threads_max,
        "partition": partition.settings,
        "log": partition.log.configuration,
        "groups": broker.groups.settings,
        "consumer groups": broker.groups.consumer_settings,
        "transactions": broker.transactions.verifies_partitions,
    }


def test_these_tests_change_each_dynamic_property_with_effect() -> None:
    dynamic = {it.name for it in BROKER.values() if it.update_mode is not UpdateMode.READ_ONLY}
    assert dynamic & NAMES_WITH_EFFECT == CHANGED.keys() | FIXED


@pytest.mark.parametrize("name", sorted(CHANGED))
async def test_a_dynamic_change_has_the_effect_of_a_static_property(
    name: str, broker: Broker, tmp_path: Path
) -> None:
    before = parts(broker)
    assert await changed(broker, BROKER_RESOURCE, "1", {name: CHANGED[name]}) is None
    after = parts(broker)
    other = await serving(tmp_path / "other", {name: CHANGED[name]})
    try:
        assert before != after == parts(other)
    finally:
        await other.stop()


async def test_min_insync_replicas_can_be_set_for_the_cluster_and_for_a_broker(
    broker: Broker,
) -> None:
    partition = broker.partitions.get("trucks", 0)
    assert partition is not None
    assert await changed(broker, BROKER_RESOURCE, "", {"min.insync.replicas": "2"}) is None
    assert partition.settings.min_insync_replicas == 2
    assert await changed(broker, BROKER_RESOURCE, "1", {"min.insync.replicas": "3"}) is None
    assert partition.settings.min_insync_replicas == 3


async def test_a_property_without_effect_is_stored_described_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logged = "configuration: properties without effect on this broker: background.threads"
    broker = await serving(tmp_path, {})
    for threads in ("11", "12"):
        set_together = {"background.threads": threads, "log.retention.ms": "5000"}
        assert await changed(broker, BROKER_RESOURCE, "", set_together) is None
    assert caplog.messages.count(logged) == 1
    await broker.stop()
    caplog.clear()
    broker = await serving(tmp_path, {})
    assert caplog.messages.count(logged) == 1
    shown = {it.name: it.value for it in describe_broker(broker.settings)}
    assert (shown["background.threads"], shown["log.retention.ms"]) == ("12", "5000")
    await broker.stop()


async def test_a_topic_property_without_effect_is_logged_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for value in ("true", "false"):
            assert await changed(broker, TOPIC_RESOURCE, "trucks", {"preallocate": value}) is None
    assert caplog.messages == [
        "configuration: properties without effect on this broker: preallocate"
    ]


async def test_stored_listeners_do_not_replace_the_bound_listeners(tmp_path: Path) -> None:
    broker = await serving(tmp_path, {})
    bound = broker.settings.listeners
    assert await changed(broker, BROKER_RESOURCE, "1", {"listeners": ",".join(bound)}) is None
    elsewhere = await changed(broker, BROKER_RESOURCE, "1", {"listeners": "PLAINTEXT://:1"})
    assert elsewhere is not None
    await broker.stop()
    again = await serving(tmp_path, {"listeners": "OTHER://127.0.0.1:0"})
    assert again.settings.listeners == ("OTHER://127.0.0.1:0",)
    await again.stop()
