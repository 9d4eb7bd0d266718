"""Writes the golden data directory of this version: `python -m tests.data_directories.write`.

A release adds one archive to this folder; all earlier ones stay. The archive holds the directory as
`kill -9` left it, and the contents that the broker served before. Clients wrote each compression,
both timestamp types, headers, null keys and values, a compacted topic, a higher log start offset,
added partitions, committed, aborted and open transactions, groups of both protocols, offsets in a
transaction, and changed properties.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from compat.broker_process import BrokerProcess
from pykbroker.version import __version__
from tests.data_directories.contents import contents, read

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent
CONTENTS_FILE = "contents.json"
DIRECTORY = "data"
WAIT_SECONDS = 60.0
COMPACTED_RECORDS = 10  # the last record of each of 5 keys, and the active segment
KEEP = {"retention.ms": "-1"}  # the archive is read years later
TOPICS = {
    "plain": (3, {}),
    "codecs": (1, {}),
    "appended": (1, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (1, {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str((1 << 63) - 1),
    }),
    "trimmed": (1, {}),
    "grown": (1, {}),
    "transactions": (2, {}),
    "deleted": (2, {}),
}  # fmt: skip
GROUPS = ["classic", "consumer", "transactional"]
SETTINGS = {"log.cleaner.backoff.ms": "50", "group.initial.rebalance.delay.ms": "0"}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / DIRECTORY
        broker = BrokerProcess(directory, settings=SETTINGS).start()
        try:
            fill(broker.bootstrap)
            open_transaction = Producers(broker.bootstrap).transactional("open", commits=None)
            served = contents(broker.bootstrap, GROUPS)
        finally:
            broker.kill()
        del open_transaction
        archive = HERE / f"{__version__}.tar.xz"
        pack(archive, directory, served)
    sys.stdout.write(f"{archive.name}: {archive.stat().st_size} bytes\n")


def pack(archive: Path, directory: Path, served: dict[str, Any]) -> None:
    with tarfile.open(archive, "w:xz") as tar:
        text = json.dumps(served, indent=1).encode()
        entry = tarfile.TarInfo(CONTENTS_FILE)
        entry.size = len(text)
        tar.addfile(entry, BytesIO(text))
        tar.add(directory, DIRECTORY)


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    create_topics(admin)
    producers = Producers(bootstrap)
    producers.plain()
    producers.codecs()
    producers.idempotent("appended", [(b"k", b"v%d" % n) for n in range(20)])
    producers.compacted()
    wait_for_compaction(bootstrap)
    producers.idempotent("trimmed", [(None, b"%d" % n) for n in range(50)])
    wait_for(admin.delete_records([TopicPartition("trimmed", 0, 30)]))
    wait_for(admin.create_partitions([NewPartitions("grown", 4)]))
    producers.idempotent("grown", [(b"k%d" % n, b"v") for n in range(20)])
    wait_for(admin.delete_topics(["deleted"]))
    producers.transactional("committed", commits=True)
    producers.transactional("aborted", commits=False)
    commit_in_group(bootstrap, "classic", {})
    commit_in_group(bootstrap, "consumer", {"group.protocol": "consumer"})
    change_properties(admin)


def wait_for_compaction(bootstrap: str) -> None:
    """Waits until all segments but the active one are compacted."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(read(bootstrap, "compacted", 0, "read_uncommitted")) > COMPACTED_RECORDS:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def create_topics(admin: AdminClient) -> None:
    new = [
        NewTopic(name, partitions, 1, config=KEEP | properties)
        for name, (partitions, properties) in TOPICS.items()
    ]
    wait_for(admin.create_topics(new))


def change_properties(admin: AdminClient) -> None:
    changes = {
        (ResourceType.TOPIC, "plain"): ("max.message.bytes", "2000000"),
        (ResourceType.BROKER, "1"): ("log.cleaner.threads", "2"),
    }
    wait_for(
        admin.incremental_alter_configs(
            [
                ConfigResource(
                    kind,
                    name,
                    incremental_configs=[
                        ConfigEntry(entry, value, incremental_operation=AlterConfigOpType.SET)
                    ],
                )
                for (kind, name), (entry, value) in changes.items()
            ]
        )
    )


def commit_in_group(bootstrap: str, group: str, properties: dict[str, Any]) -> None:
    """Reads records as the only member of a group and commits some offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **properties,
        }
    )
    consumer.subscribe(["plain"])
    for _ in range(30):
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
    offsets = [TopicPartition("plain", it, 5 + it) for it in range(3)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


class Producers:
    """Writes records of each format."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0}

    def _producer(self, **properties: object) -> Producer:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        return Producer(self._settings | named)

    def plain(self) -> None:
        producer = self._producer(acks="1")
        for number in range(60):
            producer.produce(
                "plain",
                key=b"truck-%d" % (number % 7) if number % 5 else None,
                value=b"position %d" % number if number % 11 else None,
                headers=[("speed", b"%d" % number), ("none", None)] if number % 3 else None,
                timestamp=1_700_000_000_000 + number,
                partition=number % 3,
            )
        producer.flush()

    def codecs(self) -> None:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = self._producer(
                compression_type=codec, linger_ms=200, enable_idempotence=True
            )
            for number in range(20):
                producer.produce("codecs", key=codec.encode(), value=b"%d " % number * 100)
            producer.flush()

    def idempotent(self, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
        producer = self._producer(enable_idempotence=True)
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        producer.flush()

    def compacted(self) -> None:
        """Writes five keys ten times, with tombstones, each time into a new segment."""
        producer = self._producer(enable_idempotence=True)
        for number in range(10):
            for key in range(5):
                tombstone = (number + key) % 10 == 9
                value = None if tombstone else b"%d" % number
                producer.produce("compacted", key=b"k%d" % key, value=value)
            producer.flush()
            time.sleep(0.15)  # longer than segment.ms

    def transactional(self, transactional_id: str, *, commits: bool | None) -> Producer:
        """Writes a transaction with committed offsets; None leaves it open."""
        producer = self._producer(transactional_id=transactional_id)
        producer.init_transactions(WAIT_SECONDS)
        for round_number in range(3):
            producer.begin_transaction()
            for number in range(6):
                value = f"{transactional_id} {round_number} {number}".encode()
                producer.produce("transactions", key=b"k", value=value, partition=number % 2)
            if commits is None:
                producer.flush()
                return producer
            if commits:
                self._send_offsets(producer, 10 + round_number)
                producer.commit_transaction(WAIT_SECONDS)
            else:
                producer.flush()
                producer.abort_transaction(WAIT_SECONDS)
        return producer

    def _send_offsets(self, producer: Producer, offset: int) -> None:
        consumer = Consumer(self._settings | {"group.id": "transactional"})
        producer.send_offsets_to_transaction(
            [TopicPartition("plain", 0, offset)], consumer.consumer_group_metadata()
        )
        consumer.close()


def wait_for(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(WAIT_SECONDS)


if __name__ == "__main__":
    main()
