"""Short builders for requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages import (
    create_topics,
    fetch,
    init_producer_id,
    list_offsets,
    produce,
)
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOT_AFTER = 2**63 - 1


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    now_ms: int = 1_700_000_000_000,
    step_ms: int = 0,
    codec: Compression = Compression.NONE,
    **header: Any,
) -> bytes:
    """Returns a batch of records with different values and timestamps."""
    builder = BatchBuilder(compression=codec, **header)
    for number, value in enumerate(values or (b"v",)):
        builder.append(now_ms + number * step_ms, key, value, [("h", b"x")])
    return builder.build()


def to_partition(
    records: bytes | None, *, topic: str = "", topic_id: bytes = ZERO_UUID, partition: int = 0
) -> produce.TopicProduceData:
    return produce.TopicProduceData(
        name=topic,
        topic_id=topic_id,
        partition_data=[produce.PartitionProduceData(index=partition, records=records)],
    )


def produced(*topics: produce.TopicProduceData, acks: int = -1) -> produce.ProduceRequest:
    return produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def from_partition(
    offset: int = 0,
    *,
    topic: str = "",
    topic_id: bytes = ZERO_UUID,
    partition: int = 0,
    bytes_max: int = 1 << 20,
    **more: Any,
) -> fetch.FetchTopic:
    return fetch.FetchTopic(
        topic=topic,
        topic_id=topic_id,
        partitions=[
            fetch.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max, **more
            )
        ],
    )


def fetched(*topics: fetch.FetchTopic, **more: Any) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "topics": topics, **more}
    )


def offsets_at(
    topic: str,
    timestamps: Iterable[int],
    *,
    partition: int = 0,
    isolation: int = 0,
    epoch: int = -1,
) -> list[list_offsets.ListOffsetsRequest]:
    """Yields one request per partition."""
    return [
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        list_offsets.ListOffsetsPartition(
                            partition_index=partition,
                            timestamp=timestamp,
                            current_leader_epoch=epoch,
                        )
                    ],
                )
            ],
            timeout_ms=5000,
        )
        for timestamp in timestamps
    ]


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments
        ],
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=value) for key, value in configs
        ],
    )


def created(
    *topics: create_topics.CreatableTopic, validate_only: bool = False
) -> create_topics.CreateTopicsRequest:
    return create_topics.CreateTopicsRequest(topics=topics, validate_only=validate_only)


def new_producer_id() -> init_producer_id.InitProducerIdRequest:
    return init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
