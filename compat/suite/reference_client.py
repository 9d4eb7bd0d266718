"""The suite's own client: prepares topics and records for scenarios and reads their results."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.suite.timeout_factor import scaled
from compat.wire import Closed, Wire
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages import (
    add_offsets_to_txn,
    api_versions,
    create_topics,
    describe_configs,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_fetch,
    produce,
)
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.control import ControlRecordType, control_record_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker_protocol.api_keys import ApiKey
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.record import Record

READY_SECONDS_MAX = 20.0
RETRY_SECONDS = 0.05
_PAUSE_SECONDS = 0.02
GROUPS_TRIED = 16
"""Enough names to use every partition of an internal topic with four partitions."""
TRANSACTION_TIMEOUT_MS = 60_000
LATEST, EARLIEST = -1, -2
TOPIC_RESOURCE = 2
_FETCH_BYTES = 64 << 20
NOTHING_SET: Mapping[str, str] = MappingProxyType({})


class StoredRecord(NamedTuple):
    """A record read from the log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(slots=True)
class ReferenceClient:
    """Sends requests to each node directly, in old API versions that every broker supports."""

    host: str
    port: int
    _wires: dict[tuple[str, int], Wire] = field(default_factory=dict)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    # --- topics

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Creates a topic and waits until all its partitions have leaders and respond."""
        self._create([new_topic(name, partitions, configs)])
        self.until_ready(name, partitions)

    def create_many_topics(
        self, names: Sequence[str], configs: Mapping[str, str] = NOTHING_SET
    ) -> None:
        """Creates topics of one partition and waits until all of them are ready."""
        self._create([new_topic(name, 1, configs) for name in names])
        for name in names:
            self.until_ready(name, 1)

    def _create(self, topics: Sequence[create_topics.CreatableTopic]) -> None:
        request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        for topic in self._ask(request, 5).topics:
            assert topic.error_code == ErrorCode.NONE, topic

    def until_ready(
        self, name: str, partitions: int, *, seconds: float = READY_SECONDS_MAX
    ) -> None:
        deadline = time.monotonic() + scaled(seconds)
        while not self._is_ready(name, partitions):
            assert time.monotonic() < deadline, f"{name} is not ready"
            time.sleep(_PAUSE_SECONDS)

    def partition_count(self, name: str) -> int:
        """Returns the number of partitions of a topic; 0 if it does not exist."""
        found = self._metadata(name).topics[0]
        return 0 if found.error_code else len(found.partitions)

    def configured(self, topic: str, name: str) -> str | None:
        """Returns the value of a topic property, including defaults."""
        asked = describe_configs.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
        )
        answer = self._ask(describe_configs.DescribeConfigsRequest(resources=[asked]), 1)
        (found,) = answer.results[0].configs
        return None if found.value is None else str(found.value)

    def node_ids(self) -> list[int]:
        return [it.node_id for it in self._metadata().brokers]

    def nodes(self) -> list[tuple[str, int]]:
        return [(it.host, it.port) for it in self._metadata().brokers]

    # --- records

    def write(
        self,
        topic: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        partition: int = 0,
        compression: Compression = Compression.NONE,
    ) -> int:
        """Appends records as one batch; returns the offset of the first record."""
        builder = BatchBuilder(compression=compression)
        now_ms = time.time_ns() // 1_000_000
        for row in rows:
            builder.append(
                row.get("timestamp_ms") or now_ms,
                row.get("key"),
                row.get("value"),
                [tuple(it) for it in row.get("headers") or ()],
            )
        data = produce.PartitionProduceData(index=partition, records=builder.build())
        asked = produce.ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[produce.TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = self._ask(asked, 7, self._leader(topic, partition))
        found = answer.responses[0].partition_responses[0]
        assert found.error_code == ErrorCode.NONE, found
        return int(found.base_offset)

    def records(self, topic: str, partition: int = 0) -> list[StoredRecord]:
        """Returns all records of a partition, including those of aborted transactions."""
        return [
            _stored_record(it)
            for batch in self.batches(topic, partition)
            if not batch.is_control
            for it in batch.records()
        ]

    def committed_records(self, topic: str, partition: int = 0) -> list[StoredRecord]:
        """Returns non-transactional records and those of committed transactions."""
        found: list[StoredRecord] = []
        ongoing: dict[int, list[StoredRecord]] = defaultdict(list)
        for batch in self.batches(topic, partition):
            if batch.is_control:
                (marker,) = batch.records()
                of_transaction = ongoing.pop(batch.producer_id, [])
                if control_record_type(marker.key) == ControlRecordType.COMMIT:
                    found += of_transaction
            elif batch.is_transactional:
                ongoing[batch.producer_id] += map(_stored_record, batch.records())
            else:
                found += map(_stored_record, batch.records())
        return sorted(found)

    def batches(self, topic: str, partition: int = 0) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.offset_at(topic, EARLIEST, partition)
        end = self.offset_at(topic, LATEST, partition)
        while offset < end:
            fetched = self._fetched(topic, partition, offset)
            assert fetched, f"{topic}-{partition}: no batch at offset {offset}, log end is {end}"
            found += fetched
            offset = fetched[-1].next_offset
        return found

    def offset_at(self, topic: str, at: int, partition: int = 0) -> int:
        """Returns the offset for a timestamp, LATEST or EARLIEST."""
        place = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=at)
        asked = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[place])],
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            answer = self._ask(asked, 2, self._leader(topic, partition))
            found = answer.topics[0].partitions[0]
            # A new leader does not know its high watermark at first (KIP-207).
            is_final = found.error_code != ErrorCode.LEADER_NOT_AVAILABLE
            if is_final or time.monotonic() > deadline:
                break
            time.sleep(RETRY_SECONDS)
        assert found.error_code == ErrorCode.NONE, found
        return int(found.offset)

    # --- groups

    def committed(self, group: str, topic: str, partition: int = 0) -> tuple[int, str | None]:
        """Returns the committed offset of a group and its metadata."""
        found = self._ask(find_coordinator.FindCoordinatorRequest(key=group), 2)
        assert found.error_code == ErrorCode.NONE, found
        place = offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
        asked = offset_fetch.OffsetFetchRequest(group_id=group, topics=[place])
        answer = self._ask(asked, 5, (found.host, found.port)).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, answer
        return int(answer.committed_offset), answer.metadata

    def until_coordinating(self) -> None:
        """Waits until all coordinators are loaded and have completed a transaction.

        A new cluster creates and loads its internal topics at the first request.
        """
        deadline = time.monotonic() + scaled(READY_SECONDS_MAX)
        for number in range(GROUPS_TRIED):
            name = f"compat-reference-{number}"
            for is_done in (self._is_coordinated, self._has_aborted, self._has_a_producer):
                while not is_done(name):
                    assert time.monotonic() < deadline, "coordinators are not loaded in time"
                    time.sleep(_PAUSE_SECONDS)

    def _is_coordinated(self, name: str) -> bool:
        for key_type in (0, 1):
            asked = find_coordinator.FindCoordinatorRequest(key=name, key_type=key_type)
            if self._ask(asked, 2).error_code:
                return False
        place = offset_fetch.OffsetFetchRequestTopic(name="missing", partition_indexes=[0])
        request = offset_fetch.OffsetFetchRequest(group_id=name, topics=[place])
        return not self._ask(request, 5).error_code

    def _has_aborted(self, name: str) -> bool:
        """Begins a transaction that includes a group of the same name, and aborts it."""
        producer = self._producer(name)
        identity = {
            "transactional_id": name,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }
        added = add_offsets_to_txn.AddOffsetsToTxnRequest(**identity, group_id=name)
        if producer.error_code or self._ask(added, 1).error_code:
            return False
        return not self._ask(end_txn.EndTxnRequest(**identity, committed=False), 1).error_code

    def _has_a_producer(self, name: str) -> bool:
        """InitProducerId fails while the previous transaction is being aborted."""
        return not self._producer(name).error_code

    def _producer(self, name: str) -> Any:
        asked = init_producer_id.InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        return self._ask(asked, 1)

    # --- the broker

    def is_served(self, api: ApiKey) -> bool:
        answer = self._ask(api_versions.ApiVersionsRequest(), 0)
        return any(it.api_key == api for it in answer.api_keys)

    # --- requests

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request to the first node; returns the response."""
        return self._ask(request, version)

    def _fetched(self, topic: str, partition: int, offset: int) -> list[RecordBatch]:
        place = fetch.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        asked = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_FETCH_BYTES,
            topics=[fetch.FetchTopic(topic=topic, partitions=[place])],
        )
        answer = self._ask(asked, 11, self._leader(topic, partition))
        found = answer.responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, found
        return list(iterate_batches(bytes(found.records or b"")))

    def _is_ready(self, name: str, partitions: int) -> bool:
        """Metadata can list partitions shortly before their leader serves them."""
        found = self._metadata(name)
        topic = found.topics[0]
        if topic.error_code or len(topic.partitions) != partitions:
            return False
        if any(it.error_code for it in topic.partitions):
            return False
        try:
            for index in range(partitions):
                self.offset_at(name, LATEST, index)
        except AssertionError:
            return False
        return True

    def _metadata(self, *topics: str) -> Any:
        asked = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=it) for it in topics],
            allow_auto_topic_creation=False,
        )
        return self._ask(asked, 5)

    def _leader(self, topic: str, partition: int) -> tuple[str, int]:
        found = self._metadata(topic)
        nodes = {it.node_id: (it.host, it.port) for it in found.brokers}
        leaders = {it.partition_index: it.leader_id for it in found.topics[0].partitions}
        return nodes[leaders[partition]]

    def _ask(self, request: Message, version: int, node: tuple[str, int] | None = None) -> Any:
        """Sends a request to a node; reconnects once if the broker closed the connection."""
        host, port = node or (self.host, self.port)
        try:
            return self._wire(host, port).ask(request, version)
        except Closed:
            if (closed := self._wires.pop((host, port), None)) is not None:
                closed.close()
            return self._wire(host, port).ask(request, version)

    def _wire(self, host: str, port: int) -> Wire:
        if (host, port) not in self._wires:
            self._wires[host, port] = Wire(port, host=host, client_id="compat-reference")
        return self._wires[host, port]


def new_topic(
    name: str, partitions: int, configs: Mapping[str, str]
) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        assignments=(),
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=value)
            for key, value in configs.items()
        ],
    )


def _stored_record(record: Record) -> StoredRecord:
    return StoredRecord(
        record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
    )
