"""Encodes a consumer group as records of `__consumer_offsets`; `consumer_state` replays them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_member import ConsumerMember, MemberState
from pykbroker.coordination.outcome import Write
from pykbroker_protocol.internal_topics.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker.coordination.groups.consumer_member import Holding


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Write:
    return Write(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def subscription(group_id: str, member: ConsumerMember) -> Write:
    return Write(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def regular_expression(
    group_id: str, regex: str, topics: Iterable[str], version: int, now_ms: int
) -> Write:
    return Write(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=now_ms
        ),
    )


def target(group_id: str, member_id: str, assignment: Assignment) -> Write:
    return Write(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def assignment_epoch(group_id: str, epoch: int, assigned_at_ms: int) -> Write:
    return Write(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=assigned_at_ms
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> Write:
    """Encodes the current assignment of a member."""
    return Write(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=topic_partitions(member.assigned),
            partitions_pending_revocation=topic_partitions(member.revoking),
        ),
    )


def topic_partitions(holding: Holding) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in holding.items()
    ]


def read_holding(written: Sequence[TopicPartitions], member_epoch: int) -> Holding:
    """Decodes partitions; records without assignment epochs use the member epoch."""
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [member_epoch] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in written
    }


def read_state(number: int) -> MemberState:
    """Decodes a state; an unknown one of a newer broker is read as the most careful state."""
    known = MemberState._value2member_map_
    return MemberState(number) if number in known else MemberState.UNREVOKED_PARTITIONS


def without_member(group_id: str, member_id: str) -> tuple[Write, ...]:
    """Returns the tombstones of a member."""
    return (
        Write(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        Write(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Write(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def without_regular_expression(group_id: str, regex: str) -> Write:
    return Write(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def without_group(
    group_id: str, member_ids: Sequence[str], regexes: Iterable[str]
) -> tuple[Write, ...]:
    """Returns the tombstones of a group and all its members.

    Partition metadata records are written by Kafka 4.0 and only removed by later brokers.
    """
    one = {"group_id": group_id}
    return (
        *(
            Write(ConsumerGroupCurrentMemberAssignmentKey(**one, member_id=it), None)
            for it in member_ids
        ),
        *(
            Write(ConsumerGroupTargetAssignmentMemberKey(**one, member_id=it), None)
            for it in member_ids
        ),
        Write(ConsumerGroupTargetAssignmentMetadataKey(**one), None),
        *(Write(ConsumerGroupMemberMetadataKey(**one, member_id=it), None) for it in member_ids),
        *(without_regular_expression(group_id, regex) for regex in regexes),
        Write(ConsumerGroupPartitionMetadataKey(**one), None),
        Write(ConsumerGroupMetadataKey(**one), None),
    )
