"""Topics for the benchmarks to write to, through a stock admin client."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic  # where the untyped module says it lives

from benchmarks import wire
from benchmarks.rivals import Broker

_TIMEOUT_SECONDS = 120.0
_numbers = itertools.count()


class TopicsNotReadyError(RuntimeError):
    """Created partitions did not get their leaders in time."""


@contextmanager
def topic(broker: Broker, *, partitions: int) -> Iterator[str]:
    """A new topic for one piece of work, deleted after it."""
    name = f"work-{next(_numbers)}"
    create(broker, [name], partitions=partitions)
    yield name
    admin = _admin(broker)
    for future in admin.delete_topics([name]).values():
        future.result(_TIMEOUT_SECONDS)


def ensure(broker: Broker, name: str, *, partitions: int) -> None:
    """A topic that stays over all rounds."""
    if name not in _admin(broker).list_topics(timeout=_TIMEOUT_SECONDS).topics:
        create(broker, [name], partitions=partitions)


def create(broker: Broker, names: list[str], *, partitions: int) -> None:
    """Create topics and wait until each of their partitions has a leader."""
    wanted = len(names) * partitions
    new = [NewTopic(name, num_partitions=partitions, replication_factor=1) for name in names]
    admin = _admin(broker)
    for future in admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS).values():
        future.result(_TIMEOUT_SECONDS)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while wire.leaders(broker.port, names) < wanted:
        if time.monotonic() > deadline:
            raise TopicsNotReadyError(f"not all of the {wanted} partitions have a leader")
        time.sleep(0.01)


def _admin(broker: Broker) -> AdminClient:
    """A client whose answers are lost with it: keep it until they are there."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})
