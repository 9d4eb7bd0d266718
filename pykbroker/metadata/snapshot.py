"""Snapshots of the metadata: the records of a complete image between a header and a footer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.metadata.batches import control_batch, record_batch, records_of
from pykbroker.metadata.features import METADATA_VERSION, METADATA_VERSION_LEVEL
from pykbroker_protocol.metadata.cluster import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from pykbroker_protocol.metadata.control import SnapshotFooterRecord, SnapshotHeaderRecord
from pykbroker_protocol.metadata.topics import ConfigRecord, PartitionRecord, TopicRecord
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.control import ControlRecordType, control_record_type
from pykbroker_protocol.records.corrupt import CorruptBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.metadata.image import BrokerImage, ClusterImage, TopicImage
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.batch import RecordBatch

RECORDS_PER_BATCH = 1_000
SUFFIX = ".checkpoint"
ANY_BROKER = -1
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotName(NamedTuple):
    """Offset and epoch at which a snapshot ends. A newer snapshot compares greater."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


def encode_snapshot(image: ClusterImage, name: SnapshotName, timestamp_ms: int) -> bytes:
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms, version=0)
    out = bytearray(
        control_batch(
            ControlRecordType.SNAPSHOT_HEADER, header, timestamp_ms=timestamp_ms, epoch=name.epoch
        )
    )
    offset = 1
    metadata_version = image.features.get(METADATA_VERSION, METADATA_VERSION_LEVEL)
    for records in _in_batches(image_records(image)):
        out += record_batch(
            records,
            timestamp_ms=timestamp_ms,
            base_offset=offset,
            epoch=name.epoch,
            metadata_version=metadata_version,
        )
        offset += len(records)
    out += control_batch(
        ControlRecordType.SNAPSHOT_FOOTER,
        SnapshotFooterRecord(version=0),
        timestamp_ms=timestamp_ms,
        base_offset=offset,
        epoch=name.epoch,
    )
    return bytes(out)


def decode_snapshot(data: bytes) -> Iterator[Message]:
    batches = list(iterate_batches(data))
    for batch in batches:
        if not batch.is_crc_valid():
            raise CorruptBatch(f"snapshot: the batch at offset {batch.base_offset} is corrupt")
    if not batches or not _is_footer(batches[-1]):
        raise CorruptBatch("snapshot: the footer is missing, the file is incomplete")
    for batch in batches:
        yield from records_of(batch)


def image_records(image: ClusterImage) -> Iterator[Message]:
    """Returns records that create this image from an empty one."""
    for name, level in sorted(image.features.items()):
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _registration(broker)
    for topic in image.topics.values():
        yield from _topic_records(topic)
    for (kind, resource_name), values in image.configurations.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=kind, resource_name=resource_name, name=name, value=value
            )
    if image.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=ANY_BROKER, broker_epoch=-1, next_producer_id=image.next_producer_id
        )


def _registration(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=name, host=host, port=port, security_protocol=broker.security_protocols[name]
            )
            for name, (host, port) in broker.listeners.items()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned_directories or None,
    )


def _topic_records(topic: TopicImage) -> Iterator[Message]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for partition in topic.partitions:
        yield PartitionRecord(
            partition_id=partition.index,
            topic_id=topic.id,
            replicas=partition.replicas,
            isr=partition.in_sync,
            removing_replicas=partition.removing,
            adding_replicas=partition.adding,
            leader=partition.leader,
            leader_recovery_state=partition.leader_recovery_state,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=partition.directories,
            eligible_leader_replicas=partition.eligible or None,
            last_known_elr=partition.last_known or None,
        )


def _in_batches(records: Iterable[Message]) -> Iterator[list[Message]]:
    batch: list[Message] = []
    for record in records:
        batch.append(record)
        if len(batch) == RECORDS_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_footer(batch: RecordBatch) -> bool:
    if not batch.is_control:
        return False
    (record,) = batch.records()
    return control_record_type(record.key) is ControlRecordType.SNAPSHOT_FOOTER


def parse_snapshot_name(file_name: str) -> SnapshotName | None:
    found = _NAME.fullmatch(file_name)
    return SnapshotName(int(found[1]), int(found[2])) if found else None
