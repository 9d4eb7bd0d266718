"""Creates and configures topics for benchmarks with librdkafka's admin client."""

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic  # its module in the untyped package

from benchmarks import wire
from benchmarks.rivals import Broker

_TIMEOUT_SECONDS = 120.0
_numbers = itertools.count()


class TopicsNotReadyError(RuntimeError):
    """Created partitions have no leaders in time."""


@contextmanager
def topic(
    broker: Broker, *, partitions: int, settings: Mapping[str, object] | None = None
) -> Iterator[str]:
    """Creates a topic and deletes it at the end."""
    name = f"work-{next(_numbers)}"
    create(broker, [name], partitions=partitions, settings=settings)
    yield name
    admin = _admin(broker)
    for future in admin.delete_topics([name]).values():
        future.result(_TIMEOUT_SECONDS)


def ensure(broker: Broker, name: str, *, partitions: int) -> bool:
    """Creates a topic for all rounds; returns False if it exists."""
    if name in _admin(broker).list_topics(timeout=_TIMEOUT_SECONDS).topics:
        return False
    create(broker, [name], partitions=partitions)
    return True


def create(
    broker: Broker,
    names: list[str],
    *,
    partitions: int,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Creates topics and waits until all partitions have leaders."""
    count = len(names) * partitions
    config = {name: str(value) for name, value in (settings or {}).items()}
    new = [
        NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        for name in names
    ]
    admin = _admin(broker)
    for future in admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS).values():
        future.result(_TIMEOUT_SECONDS)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while wire.leaders(broker.port, names) < count:
        if time.monotonic() > deadline:
            raise TopicsNotReadyError(f"not all of the {count} partitions have a leader")
        time.sleep(0.01)


def change(broker: Broker, name: str, settings: Mapping[str, object]) -> None:
    """Changes properties of a topic."""
    _alter(broker, ResourceType.TOPIC, name, settings)


def change_broker(broker: Broker, settings: Mapping[str, object]) -> None:
    """Changes dynamic properties of the broker."""
    (node_id,) = _admin(broker).list_topics(timeout=_TIMEOUT_SECONDS).brokers
    _alter(broker, ResourceType.BROKER, str(node_id), settings)


def _alter(broker: Broker, kind: ResourceType, name: str, settings: Mapping[str, object]) -> None:
    entries = [
        ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = _admin(broker)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_TIMEOUT_SECONDS)


def _admin(broker: Broker) -> AdminClient:
    """Returns an admin client. Keep a reference until its futures are done."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})
