"""File descriptors of a broker: it works while none is left, and keeps none when it stops."""

import gc
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from pykbroker import Broker
from pykbroker_protocol.errors import ErrorCode
from tests.apis.request_builders import (
    batch,
    created,
    fetched,
    from_partition,
    new_topic,
    produced,
    to_partition,
)
from tests.apis.wire import Wire
from tests.storage.disks import without_descriptors

pytestmark = pytest.mark.slow

OPEN_FILES = Path("/proc/self/fd")


def open_now() -> Counter[str]:
    """The files of this process's open descriptors."""
    gc.collect()
    found: Counter[str] = Counter()
    for link in OPEN_FILES.iterdir():
        with suppress(FileNotFoundError):  # the one of this listing
            found[str(link.readlink()).partition(":")[0]] += 1
    return found


def port_of(kafka: Broker) -> int:
    return int(kafka.bootstrap.rpartition(":")[2])


def create(wire: Wire, topic: str, partitions: int) -> int:
    answer = wire.ask(created(new_topic(topic, partitions)), 7)
    return int(answer.topics[0].error_code)


def write(wire: Wire, topic: str, partition: int = 0) -> int:
    data = to_partition(batch(b"x" * 100_000), partition=partition, topic=topic)
    return int(wire.ask(produced(data), 9).responses[0].partition_responses[0].error_code)


def read(wire: Wire, topic: str, partition: int = 0) -> int:
    answer = wire.ask(fetched(from_partition(0, partition=partition, topic=topic)), 11)
    (row,) = answer.responses[0].partitions
    assert row.error_code == ErrorCode.NONE
    return len(row.records)


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="this system has no /proc")
def test_a_stopped_broker_has_closed_all_its_descriptors(tmp_path: Path) -> None:
    before: Counter[str] = Counter()
    for attempt in range(2):  # libraries may keep some from the first one
        with Broker(data=tmp_path / str(attempt)) as kafka, Wire(port_of(kafka)) as wire:
            assert create(wire, "t", 5) == ErrorCode.NONE
            for partition in range(5):
                assert write(wire, "t", partition) == ErrorCode.NONE
                assert read(wire, "t", partition) > 100_000
        if attempt == 0:
            before = open_now()
    assert open_now() - before == Counter()


def test_a_broker_serves_its_connections_while_no_descriptor_is_left() -> None:
    pytest.importorskip("resource")
    with Broker() as kafka, Wire(port_of(kafka)) as wire:
        assert create(wire, "t", 3) == ErrorCode.NONE
        for partition in range(2):
            assert write(wire, "t", partition) == ErrorCode.NONE
        with without_descriptors():
            for partition in (2, 1, 0):  # file 2 was never open
                assert write(wire, "t", partition) == ErrorCode.NONE
                assert read(wire, "t", partition) > 100_000
            assert create(wire, "u", 2) == ErrorCode.NONE
            assert write(wire, "u") == ErrorCode.NONE
        with Wire(port_of(kafka)) as another:
            assert read(another, "u") > 100_000
