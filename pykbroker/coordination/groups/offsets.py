"""OffsetCommit, TxnOffsetCommit and OffsetDelete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.committed import LATEST_MS, NEVER, Committed
from pykbroker.coordination.outcome import Write
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykbroker_protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pykbroker.coordination.groups.committed import CommittedOffsets, OffsetKey
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.group import Group
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestTopic,
    )

    AnyPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition

VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1


def offset_write(offset_key: OffsetKey, committed: Committed | None) -> Write:
    group_id, topic, partition = offset_key
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    if committed is None:
        return Write(key, None)
    expires = committed.expire_timestamp_ms != NEVER
    version = VALUE_VERSION_WITH_EXPIRY if expires else VALUE_VERSION
    return Write(key, committed.as_value(), version)


def tombstones(keys: Iterable[OffsetKey]) -> Iterator[Write]:
    return (offset_write(offset_key, None) for offset_key in keys)


# --- commits


def commit(
    request: OffsetCommitRequest, ticket: Ticket, draft: Draft, settings: GroupSettings
) -> None:
    """Adds a record for each partition; `registry` has checked the member before."""
    topics = [commit_topic(request, topic, draft, settings) for topic in request.topics]
    draft.reply(ticket, OffsetCommitResponse(topics=topics))


def commit_topic(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    draft: Draft,
    settings: GroupSettings,
) -> OffsetCommitResponseTopic:
    retention_ms = request.retention_time_ms
    expires_ms = min(draft.now_ms + retention_ms, LATEST_MS) if retention_ms >= 0 else NEVER
    answers = []
    for partition in topic.partitions:
        code = refusal_of_metadata(partition, settings)
        if code is ErrorCode.NONE:
            offset_key = (request.group_id, topic.name, partition.partition_index)
            committed = committed_now(partition, draft.now_ms, topic.topic_id, expires_ms)
            draft.write([offset_write(offset_key, committed)])
        answers.append(
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
        )
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def refusal_of_metadata(partition: AnyPartition, settings: GroupSettings) -> ErrorCode:
    length = len((partition.committed_metadata or "").encode("utf-16-le", "surrogatepass")) // 2
    if length > settings.offset_metadata_length_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def committed_now(
    partition: AnyPartition, now_ms: int, topic_id: bytes, expires_ms: int
) -> Committed:
    return Committed(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=expires_ms,
        topic_id=bytes(topic_id),
    )


def refused_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=it.partition_index, error_code=code
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def commit_in_transaction(
    request: TxnOffsetCommitRequest, ticket: Ticket, draft: Draft, settings: GroupSettings
) -> None:
    """Adds records to the batch of a transaction; they apply when it commits."""
    codes: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            offset_key = (request.group_id, topic.name, partition.partition_index)
            code = refusal_of_metadata(partition, settings)
            if code is ErrorCode.NONE:
                committed = committed_now(partition, draft.now_ms, ZERO_UUID, NEVER)
                draft.write([offset_write(offset_key, committed)])
            codes[offset_key[1:]] = code
    draft.reply(ticket, answered_in_transaction(request, lambda *offset_key: codes[offset_key]))


def refused_in_transaction(
    request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    return answered_in_transaction(request, lambda *_: code)


def answered_in_transaction(
    request: TxnOffsetCommitRequest, code_of: Callable[[str, int], int]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=it.partition_index,
                        error_code=code_of(topic.name, it.partition_index),
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


# --- deletion


def delete(
    request: OffsetDeleteRequest,
    group: Group,
    offsets: CommittedOffsets,
    ticket: Ticket,
    draft: Draft,
) -> None:
    topics = [
        delete_of_topic(request.group_id, topic, group, offsets, draft) for topic in request.topics
    ]
    draft.reply(ticket, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))


def delete_of_topic(
    group_id: str,
    topic: OffsetDeleteRequestTopic,
    group: Group,
    offsets: CommittedOffsets,
    draft: Draft,
) -> OffsetDeleteResponseTopic:
    partitions = [it.partition_index for it in topic.partitions]
    code = ErrorCode.NONE
    if group.reads_topic(topic.name):
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    else:
        keys = [(group_id, topic.name, it) for it in partitions]
        draft.write(tombstones(it for it in keys if offsets.has(*it)))
    answers = [
        OffsetDeleteResponsePartition(partition_index=it, error_code=code) for it in partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=answers)


def refused_deletion(code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, topics=())


def is_of_another_topic(committed: Committed, topic_id: bytes) -> bool:
    """Returns whether the offset belongs to an earlier topic with the same name."""
    ids = {topic_id, committed.topic_id}
    return ZERO_UUID not in ids and len(ids) > 1
